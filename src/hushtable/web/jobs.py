"""Long work in processes of their own, and what became of it, in plain files.

A job is a folder: ``job.json`` says what is to be done, ``state.json`` how far it is or how it
ended, and ``held`` is locked for as long as the job's process lives: the lock is taken before it is
started, and handed to it. So it does not matter who looks: a closed browser, a killed workbench and
one that was started again all find the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.errors import ParameterError, Refused
from hushtable.files.whole_file import replace_own
from hushtable.web.workbench import Project

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, a job counts as alive until it says its end
    fcntl = None  # type: ignore[assignment]

MAX_RUNNING = 2
ENDED = ("done", "refused", "failed", "canceled")


@dataclass(frozen=True)
class Job:
    """Look at one job.

    Parameters
    ----------
    folder : Path
        Its files.
    """

    folder: Path

    @property
    def id(self) -> str:
        """Its number, which is the name of its folder."""
        return self.folder.name

    @property
    def what(self) -> dict[str, Any]:
        """What was to be done."""
        return _read(self.folder / "job.json")

    @property
    def kind(self) -> str:
        """The kind of work."""
        return str(self.what.get("kind", ""))

    @property
    def state(self) -> dict[str, Any]:
        """How far it is: status, phase, share, and at the end what came of it.

        A process that is gone without a word was killed, whatever it last said.
        """
        found = {"status": "starting", "phase": "", "share": 0.0, "done": ""} | _read(
            self.folder / "state.json"
        )
        if found["status"] in ENDED:
            return found
        if self.is_alive():
            return found
        # It may have said its last word between the two looks.
        found |= _read(self.folder / "state.json")
        if found["status"] in ENDED:
            return found
        return found | {"status": "killed"}

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.state["status"] in (*ENDED, "killed")

    @property
    def begun(self) -> float:
        """When it was started, in seconds."""
        return float(self.what.get("begun", 0.0))

    def is_alive(self) -> bool:
        """Tell whether its process lives: it holds the lock."""
        if fcntl is None:
            return True
        try:
            descriptor = os.open(self.folder / "held", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def cancel(self) -> None:
        """Interrupt its process as Ctrl-C would; the second time, end it."""
        if self.is_over:
            raise ParameterError("this job is over; there is nothing to cancel.")
        pid = _read(self.folder / "state.json").get("pid")
        if not isinstance(pid, int) or not self.is_alive():
            raise ParameterError("this job has not begun yet; try again in a moment.")
        asked = self.folder / "canceled"
        with contextlib.suppress(ProcessLookupError):
            # The lock was held a moment ago, so the number is still that of the job's process.
            os.kill(pid, signal.SIGKILL if asked.exists() else signal.SIGINT)
        asked.touch()


class Jobs:
    """Start jobs of projects and find them again."""

    def __init__(self) -> None:
        self._starting = threading.Lock()

    def start(self, project: Project, kind: str, **what: Any) -> Job:
        """Start a process that does the work, unless too much is running already."""
        with self._starting:
            running = [job for job in self.all(project) if not job.is_over]
            if len(running) >= MAX_RUNNING:
                raise Refused(
                    f"{len(running)} jobs of this project are running, and at most {MAX_RUNNING} "
                    "may; wait for one, or cancel it."
                )
            folder = _new_folder(project.room("jobs"))
        held = _hold(folder)
        content = {"kind": kind, "project": str(project.folder), "begun": time.time(), **what}
        write_json(folder / "job.json", content)
        process = subprocess.Popen(  # noqa: S603 - this program itself
            # -P: a file of the project's folder that is called like a module is no module.
            [sys.executable, "-P", "-m", "hushtable.web.job_process", os.fspath(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=project.folder,
            start_new_session=True,  # it outlives this program, and its Ctrl-C
            pass_fds=held,
        )
        for descriptor in held:
            os.close(descriptor)  # from here on, only the process holds the lock
        # Somebody must take note that it ended, or it stays in the system's list.
        threading.Thread(target=process.wait, daemon=True).start()
        return Job(folder)

    def all(self, project: Project) -> list[Job]:
        """Give the jobs of a project, oldest first."""
        room = project.folder / "jobs"
        found = sorted(p for p in room.glob("*") if (p / "job.json").is_file())
        return [Job(path) for path in found]

    def find(self, project: Project, number: str) -> Job:
        """Give one job."""
        folder = project.folder / "jobs" / number
        if not number.isdecimal() or not (folder / "job.json").is_file():
            raise ParameterError(f"there is no job {number!r} in this project.")
        return Job(folder)

    def seconds_before(self, project: Project, job: Job) -> float | None:
        """Say how long the last job like this one took; a rehearsal tells it of publishing, too."""
        for other in reversed(self.all(project)):
            state = other.state
            if state["status"] != "done" or other.what.get("method") != job.what.get("method"):
                continue
            if job.kind == "publish" and "publish_seconds" in state:
                return float(state["publish_seconds"])
            if job.kind == other.kind:
                return float(state["ended"]) - float(state["started"])
        return None


def _hold(folder: Path) -> tuple[int, ...]:
    """Lock a job's folder for as long as what is given is open, here or in another process."""
    if fcntl is None:
        return ()
    descriptor = os.open(folder / "held", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return (descriptor,)


def _new_folder(room: Path) -> Path:
    """Take the next number, unless another workbench on the same folder was quicker."""
    while True:
        taken = [int(path.name) for path in room.iterdir() if path.name.isdecimal()]
        folder = room / f"{max(taken, default=0) + 1:04d}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a small file of a job as a whole."""
    replace_own(path, json.dumps(content), lasting=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
