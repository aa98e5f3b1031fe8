"""Scratch folders: locked while in use, removed afterwards, never those of others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hushtable.files.writing import Scratch

pytest.importorskip("fcntl", reason="no folder locks on this system")

HOLD = """
import sys, time
from pathlib import Path
from hushtable.files.writing import Scratch
scratch = Scratch(Path(sys.argv[1]), "work-")
print(scratch.folder, flush=True)
time.sleep(600)
"""


def test_folders_in_use_stay_and_leftovers_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        held = Path(other.stdout.readline().strip())
        mine = Scratch(tmp_path, "work-")
        assert held.is_dir()
        other.kill()
    assert held.is_dir()  # before any sweep
    again = Scratch(tmp_path, "work-")
    assert not held.exists()
    assert mine.folder.is_dir()
    for scratch in (mine, again):
        scratch.close()
        scratch.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["other prefix", "readable", "file", "link"])
def test_folders_of_others_are_not_touched(kind: str, tmp_path: Path) -> None:
    place = tmp_path / ("job-1" if kind == "other prefix" else "work-1")
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "file").touch()
    if kind == "file":
        place.touch(mode=0o700)
    elif kind == "link":
        place.symlink_to(target)
    else:
        place.mkdir(mode=0o700)
        if kind == "readable":
            place.chmod(0o755)
    Scratch(tmp_path, "work-").close()
    assert place.is_symlink() or place.exists()
    assert (target / "file").exists()


def test_many_at_once_never_remove_each_others(tmp_path: Path) -> None:
    def work(number: int) -> bool:
        scratch = Scratch(tmp_path, "work-")
        (scratch.folder / "file").write_text(str(number))
        time.sleep(0.001)
        whole = (scratch.folder / "file").read_text() == str(number)
        scratch.close()
        return whole

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(300)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_folder(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, "work-")
    child = os.fork()
    if child == 0:
        scratch.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert scratch.folder.is_dir()
    scratch.close()


def test_only_the_owner_has_access(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        scratch = Scratch(tmp_path, "work-")
    finally:
        os.umask(before)
    assert scratch.folder.stat().st_mode & 0o777 == 0o700
    scratch.close()
