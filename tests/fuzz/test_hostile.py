"""Hostile inputs: refused with a clear message, and nothing is read, run or sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from . import corpus, targets

LARGE = 20_000
"""Bytes of an input from which on it may keep the machine busy."""


def accepted(name: str, inputs: list[bytes]) -> list[bytes]:
    """Return the starts of inputs that the target accepts."""
    found = []
    for data in inputs:
        started = time.process_time()
        if targets.run(name, data):
            found.append(data[:200])
        assert time.process_time() - started < 20, "a small input must not keep the machine busy"
    return found


@pytest.mark.parametrize("name", targets.TARGETS)
def test_hostile_input_is_refused(name: str) -> None:
    inputs = corpus.hostile().get(name, [])
    assert not accepted(name, [data for data in inputs if len(data) < LARGE])


@pytest.mark.parametrize("name", targets.TARGETS)
def test_large_hostile_input_is_refused(name: str) -> None:
    inputs = corpus.hostile().get(name, [])
    assert not accepted(name, [data for data in inputs if len(data) >= LARGE])


@pytest.mark.parametrize("name", targets.TARGETS)
def test_seeds_are_accepted(name: str) -> None:
    for seed in corpus.seeds()[name]:
        assert targets.run(name, seed)


WATCHED = """
import json, os, sys

sys.path.insert(0, sys.argv[1])
from tests.fuzz import corpus, targets

hostile = corpus.hostile()
for name, inputs in corpus.seeds().items():  # whatever is loaded at first use is loaded now
    for data in inputs:
        targets.run(name, data)

own = os.path.realpath(targets.folder())
libraries = tuple(os.path.realpath(path) for path in (*sys.path[1:], sys.argv[1] + "/src") if path)
seen = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not path.startswith((own, *libraries)):
            seen.append([event, path])
    elif event.split(".")[0] in {"subprocess", "socket", "ctypes", "urllib"} or event in {
        "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn"
    }:
        seen.append([event, repr(arguments)[:200]])

os.chdir(sys.argv[2])
sys.addaudithook(watch)
for name, inputs in hostile.items():
    for data in inputs:
        if len(data) < 20_000:  # bombs are another test's
            targets.run(name, data.replace(b"BAIT", sys.argv[3].encode()))
print(json.dumps(seen), flush=True)
"""


def test_nothing_is_opened_run_or_sent(tmp_path: Path) -> None:
    """Audit hooks report what Python opens and starts; access times show what libraries read."""
    bait, control = tmp_path / "bait.csv", tmp_path / "control.csv"
    for path in (bait, control):
        path.write_text("Gent\nAyre\n")
        os.utime(path, (0, time.time() - 10))
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(root), str(tmp_path), str(bait)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    spill = tempfile.gettempdir() + "/hushtable-spill-"  # swept and created again
    assert [item for item in seen if not item[1].startswith(spill)] == []
    assert bait.stat().st_atime == 0, "the bait was read"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bait.csv", "control.csv"]
    control.read_text()
    if control.stat().st_atime == 0:
        pytest.skip("this disk keeps no access times, so reading by other libraries goes unseen")
