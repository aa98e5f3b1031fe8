"""The ledger under many processes, threads, forks and kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hushtable.errors import BudgetExceeded, LedgerError, Refused
from hushtable.privacy.guarantee import PureDP, Unit
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.budget import Budget
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.state import LedgerState

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}

# Importing takes longer than the test: one process imports, and forks on request.
PREAMBLE = """
import os, signal, sys, time
from hushtable.errors import BudgetExceeded
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.guarantee import PureDP, Unit
from hushtable.privacy.ledger.ledger import Ledger

path = sys.argv[1]

def pure(epsilon):
    return PureDP(epsilon=epsilon, unit=Unit(kind="row"), neighbors="add-remove")

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one write: lines stay whole

def fork(work, *arguments):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(Ledger.open(path), *arguments)
            status = 0
        finally:
            os._exit(status)
    return child

def all_well(children):
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def pure(epsilon: Any) -> PureDP:
    return PureDP(epsilon=epsilon, **ROW)


def run(script: str, path: Path, *arguments: str) -> list[str]:
    """Run a script to its end and return the lines that it printed."""
    command = [sys.executable, "-c", PREAMBLE + script, str(path), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return done.stdout.splitlines()


CHARGE_UNTIL_REFUSED = """
start, started = os.pipe()

def work(ledger, step):
    os.close(started)
    os.read(start, 1)  # returns for all at once, when the parent closes its end
    while True:
        try:
            entry = ledger.charge([pure(step)], purpose=step)
        except BudgetExceeded:
            break
        say(entry.id, entry.receipt)

children = [fork(work, step) for step in sys.argv[2:]]
os.close(started)
all_well(children)
"""


def test_eight_processes_never_overspend_together(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=1)
    # Different steps, so that a race near the cap would show as a sum above it.
    steps = [Fraction(1, n) for n in (80, 81, 83, 87, 89, 91, 97, 101)]
    lines = run(CHARGE_UNTIL_REFUSED, path, *map(str, steps))
    acknowledged = [(int(line.split()[0]), line.split()[1]) for line in lines]

    entries = {entry.id: entry for entry in ledger.entries()}
    assert sorted(entries) == list(range(1, len(entries) + 1))
    assert sorted(acknowledged) == [(number, entry.receipt) for number, entry in entries.items()]
    spent = sum(
        (
            Fraction(guarantee.to_dict()["epsilon"])
            for e in entries.values()
            for guarantee in e.guarantees
        ),
        Fraction(0),
    )
    assert ledger.spent() == Budget(epsilon=spent)
    # Each process stopped exactly when its own step was no longer admitted.
    assert 1 - min(steps) < spent <= 1
    for _, receipt in acknowledged:
        ledger.verify(receipt=receipt)
    assert list(tmp_path.iterdir()) == [path]


RESERVE_AND_DRAW = """
def work(ledger):
    while True:
        try:
            number = ledger.reserve([pure("1/10")], purpose="batch")
        except BudgetExceeded:
            break
        entry = ledger.charge([pure("1/20")], purpose="half", reservation=number)
        ledger.release_reservation(number)
        say(entry.id)

all_well([fork(work) for _ in range(3)])
"""


def test_reservations_are_separate(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=1)
    n_charges = len(run(RESERVE_AND_DRAW, path))
    assert ledger.reserved() == Budget()
    assert ledger.spent() == Budget(epsilon=Fraction(n_charges, 20))
    # No process stops while 1/10 is neither spent nor reserved; the last one reserves nothing else.
    assert n_charges == 19


CHARGE_UNTIL_KILLED = """
def work(ledger, started):
    while True:
        entry = ledger.charge([pure("1/1000")], purpose="x" * 500)
        say(entry.id, entry.receipt)
        os.write(started, b"x")

for delay in sys.stdin:
    start, started = os.pipe()
    child = fork(work, started)
    os.read(start, 1)  # at least one charge was acknowledged
    time.sleep(float(delay))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(start), os.close(started)
    say("killed")
"""


def test_kill_keeps_every_acknowledged_charge(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=100)
    acknowledged: dict[int, str] = {}
    n_kills = 25
    with subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + CHARGE_UNTIL_KILLED, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for number in range(n_kills):
            # At a different position in the loop each time.
            process.stdin.write(f"{0.0007 * number}\n")
            process.stdin.flush()
            while (line := process.stdout.readline()) != "killed\n":
                entry, receipt = line.split()
                acknowledged[int(entry)] = receipt
            # The next process rolls back a leftover journal.
            entries = {entry.id: entry.receipt for entry in Ledger.open(path).entries()}
            assert acknowledged.items() <= entries.items()
            # At most one charge per kill was on disk but not yet acknowledged.
            assert len(entries) <= len(acknowledged) + number + 1
        process.stdin.close()
        assert process.wait(timeout=600) == 0
    assert len(acknowledged) >= n_kills
    ledger.verify()
    ledger.charge([pure("1/1000")], purpose="still works")
    assert list(tmp_path.iterdir()) == [path]


KILLED_WITHIN = """
append = file.append

def append_and_die(connection, record, digest):
    if sys.argv[2] == "after commit":
        append(connection, record, digest)
        connection.execute("COMMIT")
    else:
        connection.execute("PRAGMA cache_size = 1")  # push pages into the file before COMMIT
        append(connection, {**record, "purpose": "x" * 500_000}, digest)
    os.kill(os.getpid(), signal.SIGKILL)

file.append = append_and_die
child = fork(lambda ledger: ledger.charge([pure("1/2")], purpose="x"))
assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


@pytest.mark.parametrize(("moment", "n_entries"), [("before commit", 0), ("after commit", 1)])
def test_kill_between_charge_and_acknowledgment(
    tmp_path: Path, moment: str, n_entries: int
) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=1)
    size = path.stat().st_size
    run(KILLED_WITHIN, path, moment)
    if moment == "before commit":
        assert path.stat().st_size > size, "the test must leave half-written pages behind"
        assert len(list(tmp_path.iterdir())) == 2, "and the journal that undoes them"
    assert len(ledger.entries()) == n_entries
    ledger.verify()
    ledger.charge([pure("1/2")], purpose="goes on")
    assert list(tmp_path.iterdir()) == [path]


def test_busy_file_is_a_clear_error_and_charges_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger.create(path, epsilon=1)
    impatient = Ledger.open(path, timeout=0.1)
    blocker = sqlite3.connect(path, isolation_level=None)
    try:
        blocker.execute("BEGIN IMMEDIATE")
        assert impatient.remaining().epsilon == 1  # readers are not blocked by a waiting writer
        with pytest.raises(LedgerError, match=r"another process.*0\.1 seconds"):
            impatient.charge([pure("1/2")], purpose="x")
        blocker.execute("ROLLBACK")
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="another process"):
            impatient.remaining()
    finally:
        blocker.close()
    assert impatient.spent() == Budget()
    impatient.charge([pure("1/2")], purpose="x")


def test_no_other_process_can_write_after_a_charge_has_read_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=1)
    completed, refusals = LedgerState.completed, []

    def compete(self: LedgerState, record: Any) -> Any:
        other = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            with pytest.raises(sqlite3.OperationalError, match="locked") as refused:
                other.execute("BEGIN IMMEDIATE")
            refusals.append(refused)
        finally:
            other.close()
        return completed(self, record)

    monkeypatch.setattr(LedgerState, "completed", compete)
    ledger.charge([pure("1/2")], purpose="x")
    assert len(refusals) == 1


def test_reader_that_blocks_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger.create(path, epsilon=1)
    impatient = Ledger.open(path, timeout=0.1)
    reader = sqlite3.connect(path, isolation_level=None)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchall()
        with pytest.raises(LedgerError, match="another process"):
            impatient.charge([pure("1/2")], purpose="x")
    finally:
        reader.close()
    assert impatient.entries() == ()
    assert list(tmp_path.iterdir()) == [path]


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1)

    def charge(number: int) -> bool:
        try:
            ledger.charge([pure("1/30")], purpose=str(number))
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(charge, range(60)))
    assert sum(outcomes) == 30
    assert ledger.remaining() == Budget()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_charges(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, epsilon=100)
    stop = threading.Event()

    def charge_until_told() -> None:
        while not stop.wait(0.015):  # forks happen during a transaction, and children can write
            ledger.charge([pure("1/1000")], purpose="parent")

    thread = threading.Thread(target=charge_until_told)
    thread.start()
    n_children = 12
    try:
        children = []
        for _ in range(n_children):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    signal.alarm(60)  # ends a child that does not respond
                    ledger.charge([pure("1/1000")], purpose="child")
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        statuses = [os.waitpid(child, 0)[1] for child in children]
    finally:
        stop.set()
        thread.join()
    assert statuses == [0] * n_children
    ledger.verify()
    purposes = [entry.purpose for entry in ledger.entries()]
    assert purposes.count("child") == n_children
    assert "parent" in purposes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_waits_for_the_end_of_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1)
    inside, leave = threading.Event(), threading.Event()
    append = file.append

    def linger(*arguments: Any) -> None:
        inside.set()
        leave.wait(60)
        append(*arguments)

    monkeypatch.setattr(file, "append", linger)
    thread = threading.Thread(target=lambda: ledger.charge([pure(1)], purpose="slow"))
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.2, leave.set).start()
    child = os.fork()
    if child == 0:
        os._exit(0 if leave.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert len(ledger.entries()) == 1


def test_only_one_of_many_may_start_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"

    def create(number: int) -> bool:
        try:
            Ledger.create(path, epsilon=number + 1)
        except LedgerError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(16))) == 1
    Ledger.open(path).verify()


def test_void_and_release_race_has_one_winner(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=100)
    for _ in range(10):
        entry = ledger.charge([pure(1)], purpose="slow run")
        acts = [
            lambda number=entry.id: ledger.void(number, "believed dead"),
            lambda number=entry.id: ledger.mark_released(number, "ab" * 32),
        ]

        def attempt(act: Any) -> bool:
            try:
                act()
            except Refused:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sum(pool.map(attempt, acts)) == 1
    n_released = sum(entry.status == "released" for entry in ledger.entries())
    assert ledger.spent().epsilon == n_released
