"""A private table with marked values, a ledger, and the checks that must pass after any failure."""

from __future__ import annotations

import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release

MARK = "CANARY"  # part of every private text, and of no public one
EPSILON = Fraction(1, 100)
SCHEMA = """
name: marked people
columns:
  id: {role: identifier}
  age: {type: integer, low: 0, high: 99, missing: forbid, outside: refuse}
  town: {type: categorical, values: [Ayre, Brill, Cray], missing: category, outside: missing}
"""
OPTIONS = ("--epsilon", str(float(EPSILON)), "--delta", "1e-9", "--k", "2")


def marked_rows(n_rows: int) -> pa.Table:
    """Make rows with the mark in identifiers and in towns outside the schema."""
    towns = ["Ayre", "Brill", "Cray", f"{MARK}-town"]
    return pa.table(
        {
            "id": [f"{MARK}-{number:09d}" for number in range(n_rows)],
            "age": [number * 37 % 100 for number in range(n_rows)],
            "town": [towns[number % 4] for number in range(n_rows)],
        }
    )


def marked_files(folder: Path, marks: Sequence[bytes] = (MARK.encode(),)) -> list[Path]:
    """Return the files in a folder that contain private texts."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if any(mark in content for mark in marks):
                found.append(path)
    return found


@dataclass
class Scene:
    """A custodian's folders: private files, a ledger, releases and temporary files."""

    root: Path
    releases: Path = field(init=False)
    private: Path = field(init=False)
    temporary: Path = field(init=False)

    def __post_init__(self) -> None:
        for name in ("private", "releases", "temporary"):
            (self.root / name).mkdir(exist_ok=True)
            setattr(self, name, self.root / name)
        self.root.chmod(0o755)

    @property
    def ledger(self) -> Path:
        return self.releases / "people.ledger"

    def fill(self, n_rows: int = 2000, *, cap: int = 20) -> Scene:
        rows = marked_rows(n_rows)
        pa_csv.write_csv(rows, self.private / "data.csv")
        pq.write_table(rows, self.private / "data.parquet", row_group_size=max(n_rows // 4, 1))
        (self.private / "schema.yaml").write_text(SCHEMA)
        Ledger.create(self.ledger, epsilon=cap, delta="1e-4", name="marked people")
        return self

    def publish(self, name: str = "r", *, data: str = "data.csv", **options: Any) -> list[str]:
        """Return the command that publishes into a folder of that name."""
        words = [
            "publish", "noisy-counts", str(self.private / data), str(self.private / "schema.yaml"),
            "--out", str(self.releases / name), "--ledger", str(self.ledger), *OPTIONS,
        ]  # fmt: skip
        for option, value in options.items():
            words += [f"--{option.replace('_', '-')}", str(value)]
        return words

    def check(self, *, ledger: Path | None = None) -> int:
        """Check all invariants, and return the number of complete releases."""
        book = Ledger.open(ledger or self.ledger)
        book.verify()
        entries = {entry.receipt: entry for entry in book.entries()}
        assert book.spent().epsilon == EPSILON * len(entries)
        n_complete = 0
        for folder in self.releases.iterdir():
            if folder.is_dir() and not folder.name.startswith("."):
                statement = Release.load(folder).statement  # raises if anything is missing
                assert statement.ledger is not None
                book.verify(receipt=statement.ledger.receipt)
                assert entries[statement.ledger.receipt].status == "released"
                n_complete += 1
        book.require_receipt(self.releases)  # the stored receipt is always in the chain
        assert marked_files(self.releases) == []
        for left in self.left_behind():
            assert stat.S_IMODE(left.stat().st_mode) == 0o700
        self.wait_for_no_spill()
        return n_complete

    def left_behind(self) -> list[Path]:
        """Hidden folders of unfinished releases."""
        return [path for path in self.releases.iterdir() if "-part-" in path.name]

    def wait_for_no_spill(self) -> None:
        """Wait until the watcher process has removed all spill folders.

        A run that was killed before it had a watcher leaves an empty folder for the next run.
        """
        deadline = time.monotonic() + 300
        while left := self._spilled():
            assert time.monotonic() < deadline, left
            time.sleep(0.01)

    def _spilled(self) -> list[Path]:
        while True:
            # The watcher may remove a folder while it is being listed: list it again.
            with suppress(FileNotFoundError):
                return [
                    path
                    for path in self.temporary.rglob("*")
                    if path.parent != self.temporary
                    or not (path.name.startswith("hushtable-spill-") or _is_probe(path))
                ]


def _is_probe(path: Path) -> bool:
    """Return whether this is the file by which Python tests a temporary folder, left by a kill."""
    return path.is_file() and b"blat".startswith(path.read_bytes()[:5])


@dataclass(frozen=True)
class Outcome:
    """Result of a command: its exit code (or minus the signal) and its output."""

    code: int
    out: str
    err: str
    seconds: float

    def refused(self) -> Outcome:
        """Check that the command was refused properly."""
        assert self.code in (1, 2), self
        assert self.err.startswith("hushtable: "), self.err
        assert "Traceback" not in self.err
        assert "internal error" not in self.err
        assert MARK not in self.out + self.err
        return self


class Commands:
    """Runner of `hushtable` commands: each is a fork of one process that has imported it."""

    _SERVER = """
import atexit, contextlib, gc, json, os, resource, signal, sys, tempfile, time
import hushtable.cli.app

# Once here, so that no child has to load what is loaded at first use.
sys.argv = ["hushtable", *json.loads(sys.argv[1])]
with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
    hushtable.cli.app.main()
gc.collect()

def child(job):
    for descriptor, file in ((1, job["out"]), (2, job["err"])):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
    os.environ["TMPDIR"] = job["temporary"]
    tempfile.tempdir = None
    if job["file_size"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_size"],) * 2)
    sys.argv = ["hushtable", *job["words"]]
    code = 0
    try:
        hushtable.cli.app.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    sys.stdout.flush(); sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)

for line in sys.stdin:
    job = json.loads(line)
    started = time.monotonic()
    children = []
    for each in job:
        process = os.fork()
        if process == 0:
            try:
                child(each)
            finally:
                os._exit(99)
        children.append(process)
    if job[0]["kill_after"] is not None:
        time.sleep(job[0]["kill_after"])
        for process in children:
            os.kill(process, signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in children]
    print(json.dumps([codes, time.monotonic() - started]), flush=True)
"""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        warm_up = json.dumps(Scene(folder).fill(100).publish())
        self._server = subprocess.Popen(
            [sys.executable, "-c", self._SERVER, warm_up],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=folder,
        )  # fmt: skip

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=300)

    def run(self, scene: Scene, words: Sequence[str], **conditions: Any) -> Outcome:
        """Run one command until it ends or is killed."""
        return self.run_at_once(scene, [words], **conditions)[0]

    def run_at_once(
        self,
        scene: Scene,
        commands: Sequence[Sequence[str]],
        *,
        kill_after: float | None = None,
        file_size: int | None = None,
        temporary: Path | None = None,
        patience: float = 300,
    ) -> list[Outcome]:
        """Run commands at the same time."""
        jobs = []
        for number, words in enumerate(commands):
            places = {kind: self._folder / f"{kind}-{number}" for kind in ("out", "err")}
            for place in places.values():
                place.touch()
                place.chmod(0o666)
            jobs.append(
                {
                    "words": list(words),
                    **{kind: str(place) for kind, place in places.items()},
                    "kill_after": kill_after,
                    "file_size": file_size,
                    "temporary": str(temporary or scene.temporary),
                }
            )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(jobs) + "\n")
        self._server.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._server.stdout, selectors.EVENT_READ)
            assert waiting.select(patience), "a command hangs"
        codes, seconds = json.loads(self._server.stdout.readline())
        return [
            Outcome(code, Path(job["out"]).read_text(), Path(job["err"]).read_text(), seconds)
            for code, job in zip(codes, jobs, strict=True)
        ]


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process that the tests started."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def write_protected(path: Path) -> Iterator[None]:
    """Make a file or folder read-only, also for root; skip the test if that is not possible."""
    if os.getuid() != 0:
        mode = path.stat().st_mode
        path.chmod(mode & 0o555)
        try:
            yield
        finally:
            path.chmod(mode)
        return
    locked = subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
    if locked.returncode:
        raise PermissionError(locked.stderr.decode().strip())
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small disk in memory; skip the test if that is not allowed."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        raise PermissionError(mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
