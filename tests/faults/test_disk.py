"""Full disks and read-only ledgers: refused with a reason, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushtable.errors import HushtableError
from hushtable.privacy.ledger.ledger import Ledger

from .scene import OPTIONS, Commands, Scene, marked_files, marked_rows, small_disk, write_protected


def publish_on(scene: Scene, disk: Path, name: str) -> list[str]:
    return [
        "publish", "noisy-counts", str(scene.private / "data.csv"),
        str(scene.private / "schema.yaml"), "--out", str(disk / name),
        "--ledger", str(disk / "people.ledger"), *OPTIONS,
    ]  # fmt: skip


def fill_up(commands: Commands, scene: Scene, disk: Path, free_kilobytes: range) -> set[str]:
    """Publish with more and more disk space; return how each run ended."""
    Ledger.create(disk / "people.ledger", epsilon=20, delta="1e-4")
    there = Scene.__new__(Scene)
    there.root, there.releases = disk, disk
    there.private, there.temporary = scene.private, scene.temporary
    ends, n_charged = set(), 0
    for number, free in enumerate(free_kilobytes):
        status = os.statvfs(disk)
        ballast = status.f_bavail * status.f_bsize - free * 1024
        (disk / "ballast").write_bytes(bytes(max(ballast, 0)))
        done = commands.run(scene, publish_on(scene, disk, f"r{number}"))
        (disk / "ballast").unlink()
        n_complete = there.check(ledger=disk / "people.ledger")
        assert there.left_behind() == []
        n_entries = len(Ledger.open(disk / "people.ledger").entries())
        if done.code:
            done.refused()
            assert "full" in done.err, done.err
            assert not (disk / f"r{number}").exists()
            charged = n_entries > n_charged
            assert ("Entry" in done.err) == charged, done.err
            ends.add("after the charge" if charged else "before the charge")
        else:
            assert n_entries == n_charged + 1
            ends.add("published")
        n_charged = n_entries
        assert n_complete <= n_entries
    return ends


@pytest.mark.parametrize(
    "free", [range(0, 44, 11), pytest.param(range(0, 61), marks=pytest.mark.long)]
)
def test_full_disk_for_ledger_and_release(
    free: range, commands: Commands, scene: Scene, tmp_path: Path
) -> None:
    try:
        with small_disk(tmp_path / "disk", "512k") as disk:
            ends = fill_up(commands, scene, disk, free)
    except PermissionError as error:
        pytest.skip(f"mounting a small disk is not allowed here: {error}")
    assert ends >= {"before the charge", "published"}
    if len(free) > 10:
        assert "after the charge" in ends


@pytest.mark.parametrize("size", [1000, 4000])
def test_files_that_may_not_grow(size: int, commands: Commands, scene: Scene) -> None:
    """The same through a limit on file sizes, where mounting is not allowed."""
    done = commands.run(scene, scene.publish(), file_size=size).refused()
    assert "full" in done.err or "cannot" in done.err
    assert not (scene.releases / "r").exists()
    assert scene.left_behind() == []
    scene.check()


def test_no_room_for_temporary_files(commands: Commands, scene: Scene) -> None:
    done = commands.run(scene, scene.publish(), temporary=scene.root / "absent")
    # Python selects another temporary folder; the run uses it, or is refused with advice.
    assert done.code == 0 or "TMPDIR" in done.refused().err
    scene.check()


OVERFLOW = """
import sys
from hushtable import engine
from hushtable.errors import HushtableError

source = engine.open(sys.argv[1], memory_limit="30MB").source()
try:
    source.keep(source.table.order_by(source.table["id"].desc()), {})
except HushtableError as error:
    print(error)
"""


def test_overflow_of_private_rows_meets_a_full_disk(scene: Scene, tmp_path: Path) -> None:
    pq.write_table(marked_rows(600_000), scene.private / "large.parquet")
    try:
        with small_disk(tmp_path / "disk", "2m") as disk:
            done = subprocess.run(
                [sys.executable, "-c", OVERFLOW, str(scene.private / "large.parquet")],
                env={"TMPDIR": str(disk)}, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert list(disk.iterdir()) == []
    except PermissionError as error:
        pytest.skip(f"mounting a small disk is not allowed here: {error}")
    assert "disk" in done.stdout
    assert marked_files(tmp_path) == []


def test_read_only_ledger(commands: Commands, scene: Scene) -> None:
    before = scene.ledger.read_bytes()
    try:
        with write_protected(scene.ledger):
            done = commands.run(scene, scene.publish()).refused()
    except PermissionError as error:
        pytest.skip(f"root cannot be kept from writing here: {error}")
    assert "read-only" in done.err
    assert "writable" in done.err
    assert scene.ledger.read_bytes() == before
    assert not (scene.releases / "r").exists()
    assert scene.left_behind() == []
    scene.check()


def test_read_only_folder(commands: Commands, scene: Scene) -> None:
    try:
        with write_protected(scene.releases):
            done = commands.run(scene, scene.publish()).refused()
    except PermissionError as error:
        pytest.skip(f"root cannot be kept from writing here: {error}")
    assert "choose another folder" in done.err
    assert Ledger.open(scene.ledger).entries() == ()
    scene.check()


def test_read_only_disk(commands: Commands, scene: Scene) -> None:
    try:
        with small_disk(scene.root / "disk", "1m") as disk:
            Ledger.create(disk / "people.ledger", epsilon=20, delta="1e-4")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            words = publish_on(scene, disk, "r")
            done = commands.run(scene, words).refused()
            assert "read-only" in done.err
            words[words.index("--out") + 1] = str(scene.releases / "r")
            done = commands.run(scene, words).refused()
            assert "read-only" in done.err
            try:
                assert Ledger.open(disk / "people.ledger").entries() == ()
            except HushtableError as error:
                assert "read-only" in str(error)  # noqa: PT017 - either is right
    except PermissionError as error:
        pytest.skip(f"mounting a small disk is not allowed here: {error}")
    assert not (scene.releases / "r").exists()
    scene.check()
