"""Background jobs in separate processes, with their state in plain files.

A job is a folder: ``job.json`` describes the task, ``state.json`` its progress or result, and
``held`` is locked while the job's process is alive. The workbench takes the lock before it starts
the process, and passes it on. So every viewer sees the same state, even a reopened browser or a
workbench that was killed and restarted.
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
from hushtable.files.writing import replace_own
from hushtable.web.workbench import Project

try:
    import fcntl
except ImportError:  # Windows has no such locks; a job counts as alive until it reports its end
    fcntl = None  # type: ignore[assignment]

MAX_RUNNING = 2
ENDED = ("done", "refused", "failed", "canceled")


@dataclass(frozen=True)
class Job:
    """A job, as described by the files of its folder."""

    folder: Path

    @property
    def id(self) -> str:
        """Number of the job, the name of its folder."""
        return self.folder.name

    @property
    def what(self) -> dict[str, Any]:
        """Description of the task."""
        return _read(self.folder / "job.json")

    @property
    def kind(self) -> str:
        """Kind of task."""
        return str(self.what.get("kind", ""))

    @property
    def state(self) -> dict[str, Any]:
        """Status, phase and progress; at the end also the result.

        The status is "killed" if the process ended without reporting a result.
        """
        found = {"status": "starting", "phase": "", "share": 0.0, "done": ""} | _read(
            self.folder / "state.json"
        )
        if found["status"] in ENDED:
            return found
        if self.is_alive():
            return found
        # It may have reported its result between the two reads.
        found |= _read(self.folder / "state.json")
        if found["status"] in ENDED:
            return found
        return found | {"status": "killed"}

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.state["status"] in (*ENDED, "killed")

    @property
    def begun(self) -> float:
        """Start time, in seconds since the epoch."""
        return float(self.what.get("begun", 0.0))

    def is_alive(self) -> bool:
        """Return whether the job's process is alive, that is, holds the lock."""
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
        """Interrupt the process like Ctrl-C; if this was done before, kill it."""
        if self.is_over:
            raise ParameterError("this job has already ended.")
        pid = _read(self.folder / "state.json").get("pid")
        if not isinstance(pid, int) or not self.is_alive():
            raise ParameterError("this job has not started yet; try again in a moment.")
        asked = self.folder / "canceled"
        with contextlib.suppress(ProcessLookupError):
            # The lock was held just now, so the PID still belongs to the job's process.
            # Windows has neither signal and ends the process at once.
            kill = getattr(signal, "SIGKILL", signal.SIGTERM)
            os.kill(pid, kill if asked.exists() else signal.SIGINT)
        asked.touch()


class Jobs:
    """Starter and registry of the jobs of projects."""

    def __init__(self) -> None:
        self._starting = threading.Lock()

    def start(self, project: Project, kind: str, **what: Any) -> Job:
        """Start a job in a new process; raise an error if too many are running."""
        with self._starting:
            running = [job for job in self.all(project) if not job.is_over]
            if len(running) >= MAX_RUNNING:
                raise Refused(
                    f"{len(running)} jobs of this project are running; the limit is {MAX_RUNNING}. "
                    "Wait for one to finish, or cancel it."
                )
            folder = _new_folder(project.subfolder("jobs"))
        held = _hold(folder)
        content = {"kind": kind, "project": str(project.folder), "begun": time.time(), **what}
        write_json(folder / "job.json", content)
        process = subprocess.Popen(  # noqa: S603 - this program itself
            # -P: files in the project folder must not shadow modules.
            [sys.executable, "-P", "-m", "hushtable.web.job_process", os.fspath(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=project.folder,
            start_new_session=True,  # it continues after this program ends, and ignores its Ctrl-C
            pass_fds=held,
        )
        for descriptor in held:
            os.close(descriptor)  # from here on, only the process holds the lock
        # Wait for the process, so that it does not remain as a zombie.
        threading.Thread(target=process.wait, daemon=True).start()
        return Job(folder)

    def all(self, project: Project) -> list[Job]:
        """Return the jobs of a project, oldest first."""
        folder = project.folder / "jobs"
        found = sorted(p for p in folder.glob("*") if (p / "job.json").is_file())
        return [Job(path) for path in found]

    def find(self, project: Project, number: str) -> Job:
        """Return one job."""
        folder = project.folder / "jobs" / number
        if not number.isdecimal() or not (folder / "job.json").is_file():
            raise ParameterError(f"this project has no job {number!r}.")
        return Job(folder)

    def seconds_before(self, project: Project, job: Job) -> float | None:
        """Return the seconds that the last job of this kind and method took; None if there is none.

        For publishing, a dry run counts as well.
        """
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
    """Lock a job's folder while the returned descriptor is open, here or in another process."""
    if fcntl is None:
        return ()
    descriptor = os.open(folder / "held", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return (descriptor,)


def _new_folder(parent: Path) -> Path:
    """Create the next numbered folder; another workbench may create folders at the same time."""
    while True:
        taken = [int(path.name) for path in parent.iterdir() if path.name.isdecimal()]
        folder = parent / f"{max(taken, default=0) + 1:04d}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a small file of a job atomically."""
    replace_own(path, json.dumps(content), lasting=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
