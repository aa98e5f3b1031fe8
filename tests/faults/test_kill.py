"""SIGKILL at any time: the ledger never undercounts, and a release is complete or absent."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushtable.privacy.ledger.ledger import Ledger
from seeds import shifted

from .scene import MARK, Commands, Scene, kill, marked_files, marked_rows


def kill_often(commands: Commands, scene: Scene, *, n_kills: int, seed: int) -> dict[str, int]:
    """Run `publish` and kill it at times spread evenly over its run; check the scene after each.

    Repeat until the given number of runs were killed before they finished.
    """
    moments = random.Random(shifted(seed))  # noqa: S311 - when to kill, not noise
    names = ("r", "s")  # leftovers of one name must not disturb another
    for _ in range(2):  # the first run is slower
        whole = commands.run(scene, scene.publish())
        assert whole.code == 0, whole
        scene.check()
        shutil.rmtree(scene.releases / "r")
    length = whole.seconds
    seen = dict.fromkeys(("killed", "finished", "charged", "released", "left"), 0)
    n_entries = len(Ledger.open(scene.ledger).entries())
    while seen["killed"] < n_kills:
        name = names[seen["killed"] % 2]
        place = scene.releases / name
        done = commands.run(scene, scene.publish(name), kill_after=moments.uniform(0, length))
        length *= 0.9 if done.code == 0 else 1.01  # so that about one run in eleven finishes
        assert done.code in (0, -signal.SIGKILL), done
        assert MARK not in done.out + done.err
        scene.check()
        entries = Ledger.open(scene.ledger).entries()
        n_new = len(entries) - n_entries
        n_entries = len(entries)
        assert n_new in (0, 1)
        assert n_new or not place.exists(), "a release without a charge"
        seen["killed"] += done.code != 0
        seen["finished"] += done.code == 0
        seen["charged"] += n_new
        seen["released"] += place.exists()
        seen["left"] += bool(scene.left_behind())
        shutil.rmtree(place, ignore_errors=True)  # it was checked
        if done.code != 0 and seen["killed"] % 25 == 0:
            print(seen, flush=True)
    for name in names:  # a run of the same name removes the leftovers
        assert commands.run(scene, scene.publish(name)).code == 0
    assert scene.left_behind() == []
    scene.check()
    return seen


def test_killed_at_random_moments(commands: Commands, scene: Scene) -> None:
    seen = kill_often(commands, scene, n_kills=15, seed=1)
    assert seen["killed"] == 15


@pytest.mark.long
def test_killed_five_hundred_times(commands: Commands, scene: Scene) -> None:
    seen = kill_often(commands, scene, n_kills=500, seed=2)
    print(f"\n{seen}")
    # Kills happen before the charge, between charge and release, and after the release.
    assert seen["charged"] - seen["released"] >= 10
    assert seen["killed"] + seen["finished"] - seen["charged"] >= 10


@pytest.mark.long
def test_the_installed_command_is_killed_too(scene: Scene) -> None:
    """The same without a fork: a new process each time, including imports."""
    moments = random.Random(shifted(3))  # noqa: S311 - when to kill, not noise
    command = [str(Path(sys.executable).with_name("hushtable"))]
    environment = {"TMPDIR": str(scene.temporary), "PATH": "/usr/bin:/bin"}
    started = time.monotonic()
    subprocess.run([*command, *scene.publish("timed")], env=environment, check=True)
    whole = time.monotonic() - started
    for _ in range(20):
        with subprocess.Popen(
            [*command, *scene.publish()], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            time.sleep(moments.uniform(0.3, 1.1) * whole)
            kill(process)
        scene.check()
        shutil.rmtree(scene.releases / "r", ignore_errors=True)


SPILL = """
import sys, time
from hushtable import engine

source = engine.open(sys.argv[1], memory_limit="30MB").source()
kept = source.keep(source.table.order_by(source.table["id"].desc()), {})
print("kept", flush=True)
time.sleep(600)
"""


def test_private_rows_on_disk_vanish_with_a_killed_process(scene: Scene) -> None:
    pq.write_table(marked_rows(600_000), scene.private / "large.parquet")
    process = subprocess.Popen(
        [sys.executable, "-c", SPILL, str(scene.private / "large.parquet")],
        env={"TMPDIR": str(scene.temporary)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        assert marked_files(scene.temporary), "the test must bring private rows to the disk"
        (folder,) = scene.temporary.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        kill(process)
    scene.wait_for_no_spill()


def test_what_no_watcher_could_remove_goes_with_the_next_run(
    commands: Commands, scene: Scene
) -> None:
    """After a power cut the watcher is gone as well."""
    left = scene.temporary / "hushtable-spill-leftover"
    left.mkdir(mode=0o700)
    (left / "duckdb_temp_block-0.block").write_text(MARK)
    foreign = scene.temporary / "hushtable-spill-shared"  # not owner-only, so not ours
    foreign.mkdir(mode=0o700)
    foreign.chmod(0o755)
    assert commands.run(scene, scene.publish()).code == 0
    assert list(scene.temporary.iterdir()) == [foreign]
    foreign.rmdir()
    scene.check()
