"""Tests of the ledger on this machine's disk: concurrent and killed processes, forged records."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from hushtable.errors import HushtableError
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.unit import Unit
from hushtable.selftest.verdict import CheckResult, SelfCheck, held

N_CHARGES = 40
"""Number of charges that fit under the cap."""

N_KILLED = 3

_SPENDER = """
import sys
from fractions import Fraction
from hushtable.errors import BudgetExceeded
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.unit import Unit
promise = PureDP(epsilon=Fraction(1, 10), unit=Unit(kind="row"), neighbors="add-remove")
book = Ledger.open(sys.argv[1])
try:
    while True:
        book.charge([promise], purpose="selftest")
        print("charged", flush=True)
except BudgetExceeded:
    print("refused", flush=True)
"""


@contextlib.contextmanager
def _book() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hushtable-selftest-") as folder:
        path = Path(folder) / "table.ledger"
        Ledger.create(path, epsilon=Fraction(N_CHARGES, 10))
        yield path


def _spender(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-c", _SPENDER, str(path)], stdout=subprocess.PIPE, text=True
    )


def _race() -> CheckResult:
    """Run processes that charge until they are refused; kill some of them."""
    with _book() as path:
        doomed = [_spender(path) for _ in range(N_KILLED)]
        told = 0
        for process in doomed:
            assert process.stdout is not None  # noqa: S101 - stdout is a pipe
            told += process.stdout.readline().startswith("charged")
            process.kill()
            told += process.stdout.read().count("charged")
            process.wait()
            process.stdout.close()
        last = [_spender(path) for _ in range(2)]
        said = [process.communicate()[0] for process in last]
        told += sum(text.count("charged") for text in said)
        book = Ledger.open(path)
        book.verify()
        entries = len(book.entries())
        # A killed process may have recorded a charge without reporting it.
        kept = entries == N_CHARGES and told <= entries <= told + N_KILLED
        refused = all(text.endswith("refused\n") for text in said)
        return held(
            kept and refused,
            f"{entries} of {N_CHARGES} charges, {told} reported, {N_KILLED} processes killed",
        )


def _forged() -> CheckResult:
    """Change a record, and delete the last one: the ledger must detect both."""
    with _book() as path:
        book = Ledger.open(path)
        promise = PureDP(epsilon=Fraction(1, 10), unit=Unit(kind="row"), neighbors="add-remove")
        for _ in range(3):
            book.charge([promise], purpose="selftest")
        noticed = 0
        for change in (
            "UPDATE records SET body = replace(body, '1/10', '1/99') WHERE seq = 2",
            "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)",
        ):
            copy = path.with_name("copy.ledger")
            shutil.copy(path, copy)
            with contextlib.closing(sqlite3.connect(copy)) as forger:
                changed = forger.execute(change).rowcount
                forger.commit()
            try:
                Ledger.open(copy).verify()
            except HushtableError:
                noticed += changed
            copy.unlink()
        return held(noticed == 2, f"{noticed} of 2 forgeries detected")


CHECKS = (
    SelfCheck("ledger", "concurrent and killed processes", _race),
    SelfCheck("ledger", "forged records", _forged),
)
