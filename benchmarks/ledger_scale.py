"""Time of opening and checking long ledgers, and bytes written by one more charge.

Run it with ``python -m benchmarks.ledger_scale``. Each ledger has many released charges, all with
different guarantees. It prints the CPU seconds of the whole check (every digest, every rule) and
the bytes that one more charge writes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP, Unit
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.state import LedgerState

ROW = Unit(kind="row")
SMALL = Fraction(1, 10**8)


def pure(number: int) -> Guarantee:
    """Return a guarantee with epsilon only."""
    return PureDP(epsilon=number * SMALL, unit=ROW, neighbors="add-remove")


def approximate(number: int) -> Guarantee:
    """Return a guarantee with a delta."""
    delta = Fraction(number, 10**14)
    return ApproxDP(epsilon=number * SMALL, delta=delta, unit=ROW, neighbors="add-remove")


def concentrated(number: int) -> Guarantee:
    """Return a guarantee with a rho, such as quilt's."""
    epsilon, delta = number * SMALL, Fraction(1, 10**9)
    rho = concentrated_share(epsilon, delta)
    return ApproxDP(epsilon=epsilon, delta=delta, rho=rho, unit=ROW, neighbors="add-remove")


def write(path: Path, n: int, promise: Callable[[int], Guarantee]) -> None:
    """Write a valid ledger with many charges in one transaction."""
    Ledger.create(path, epsilon=100, delta="1e-3")
    with file.connection_to(path, 30) as connection:
        connection.execute("BEGIN IMMEDIATE")
        state = LedgerState()
        for (body,) in connection.execute("SELECT body FROM records").fetchall():
            state.apply(json.loads(body))
        about = {"time": "2026-01-01T00:00:00.000000+00:00", "salt": "0" * 32}
        charge = {"kind": "charge", "purpose": "monthly table", "reservation": None, "table": None,
                  "same_people": None}  # fmt: skip
        for number in range(1, n + 1):
            seq = len(state.digests)
            records = (
                {"seq": seq, **about, **charge, "guarantees": [promise(number).to_dict()]},
                {"seq": seq + 1, **about, "kind": "released", "entry": seq, "digest": "0" * 64},
            )
            for record in records:
                whole = state.completed(record)
                file.append(connection, whole, state.apply(whole))
        connection.execute("COMMIT")


def written() -> int:
    """Return the number of bytes that this process has written so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def measure(n: int, promise: Callable[[int], Guarantee]) -> tuple[float, int]:
    """Return the CPU seconds of opening a ledger, and the bytes that a charge writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book"
        write(path, n, promise)
        seconds = []
        for _ in range(3):
            before = time.process_time()
            book = Ledger.open(path)
            seconds.append(time.process_time() - before)
        before_writing = written()
        book.charge([pure(1)], purpose="one more")
        return min(seconds), written() - before_writing


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]] or [100, 1_000, 10_000]
    print("| promises | charges | open and check, CPU s | bytes that one more charge writes |")
    print("|---|---|---|---|")
    for promise in (pure, approximate, concentrated):
        for n in sizes:
            seconds, n_bytes = measure(n, promise)
            print(f"| {promise.__name__} | {n:,} | {seconds:.2f} | {n_bytes:,} |")
