"""Concurrent publishers with one ledger: no overspending, no lost record, and every run ends."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest

from hushtable.privacy.ledger.budget import Budget
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release

from .scene import EPSILON, Commands, Scene, kill


def test_twenty_publishes_at_once(commands: Commands, scene: Scene) -> None:
    done = commands.run_at_once(scene, [scene.publish(f"r{number}") for number in range(20)])
    assert [outcome.code for outcome in done] == [0] * 20, done
    assert scene.check() == 20
    assert len(Ledger.open(scene.ledger).entries()) == 20


def test_several_publishes_into_one_folder(commands: Commands, scene: Scene) -> None:
    """One succeeds; the others are refused before they are charged."""
    done = commands.run_at_once(scene, [scene.publish("r")] * 6)
    assert sum(outcome.code == 0 for outcome in done) == 1
    for outcome in done:
        if outcome.code:
            outcome.refused()
            assert "another run is writing" in outcome.err or "exists" in outcome.err
    assert scene.check() == 1
    assert [path.name for path in scene.releases.iterdir() if path.name.startswith(".")] == []
    (entry,) = Ledger.open(scene.ledger).entries()
    assert entry.status == "released"


CLAIM = """
import sys, time
from pathlib import Path
from hushtable.files.writing import Claim

claim = Claim(Path(sys.argv[1]))
print("claimed", flush=True)
time.sleep(600)
"""


def test_a_claim_ends_with_its_process_and_not_before(commands: Commands, scene: Scene) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(scene.releases / "r")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        outcome = commands.run(scene, scene.publish("r")).refused()
        assert "another run is writing" in outcome.err
        assert "Nothing was charged" in outcome.err
        assert Ledger.open(scene.ledger).entries() == ()
    finally:
        kill(other)
    assert (scene.releases / ".r-claim").exists()
    assert commands.run(scene, scene.publish("r")).code == 0
    assert not (scene.releases / ".r-claim").exists()
    assert scene.check() == 1


# One import, one release, twenty forks; each publishes until the budget is gone.
PUBLISHERS = """
import os, sys, traceback
from fractions import Fraction
from pathlib import Path
import pyarrow as pa
from hushtable import NoisyCounts, Schema, publish
from hushtable.errors import BudgetExceeded

root, n_workers = Path(sys.argv[1]), int(sys.argv[2])
schema = Schema.load(root / "private" / "schema.yaml")
method = NoisyCounts(epsilon=Fraction(1, 100), delta="1e-9", k=2)
table = pa.table({"id": ["a"] * 9, "age": [1] * 9, "town": ["Ayre"] * 9})

def work(worker):
    number = 0
    while True:
        try:
            publish(table, schema, method, out=root / "releases" / f"w{worker}-{number}",
                    ledger=root / "releases" / "people.ledger")
        except BudgetExceeded:
            return
        number += 1

publish(table, schema, method, out=root / "first")  # loads what each child would load again
children = []
for worker in range(n_workers):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(worker)
            status = 0
        except BaseException:
            traceback.print_exc()  # os._exit would swallow it
        finally:
            sys.stderr.flush()
            os._exit(status)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def spend_all(scene: Scene, *, cap: Fraction, n_workers: int) -> None:
    scene.ledger.unlink()
    # No more delta than the releases need: basic composition then gets all of it.
    Ledger.create(scene.ledger, epsilon=cap, delta=cap / EPSILON * Fraction(1, 10**9))
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHERS, str(scene.root), str(n_workers)],
        env={"TMPDIR": str(scene.temporary)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    book = Ledger.open(scene.ledger)
    entries = book.entries()
    assert len(entries) == cap / EPSILON
    assert book.remaining() == Budget()
    releases = [path for path in scene.releases.iterdir() if path.is_dir()]
    receipts = {Release.load(path).statement.ledger.receipt for path in releases}  # type: ignore[union-attr]
    assert receipts == {entry.receipt for entry in entries}
    assert all(entry.status == "released" for entry in entries)
    scene.check()


def test_twenty_publishers_spend_one_budget(scene: Scene) -> None:
    spend_all(scene, cap=Fraction(2, 5), n_workers=20)


@pytest.mark.long
def test_twenty_publishers_charge_a_thousand_times(scene: Scene) -> None:
    spend_all(scene, cap=Fraction(10), n_workers=20)
