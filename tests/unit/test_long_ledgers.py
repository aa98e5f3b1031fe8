"""Long ledgers: what opening one asks for, and what one more charge writes."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hushtable.privacy import composition, rational
from hushtable.privacy import ledger_file as file
from hushtable.privacy.composition import concentrated_implies, concentrated_share, is_concentrated
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit
from hushtable.privacy.ledger import Ledger

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
MILLIONTH = Fraction(1, 10**6)


def test_a_rho_is_certified_with_two_exponentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise of a ledger is certified anew: one for the logarithm, one for the condition."""
    epsilons = [Fraction(n, 1000) for n in range(1, 3000, 37)]
    shares = [concentrated_share(epsilon, MILLIONTH) for epsilon in epsilons]
    asked = 0

    def count(x: Fraction, bits: int = 160) -> Any:
        nonlocal asked
        asked += 1
        return rational.exp_bounds(x, bits)

    monkeypatch.setattr(composition, "exp_bounds", count)
    is_concentrated.cache_clear()
    for epsilon, rho in zip(epsilons, shares, strict=True):
        assert is_concentrated(rho, epsilon, MILLIONTH)
    assert asked == 2 * len(epsilons)


def test_the_quick_bound_proves_nothing_that_the_close_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Around the border, by steps far below the quick bound's error, the answers agree."""
    epsilon, alpha = Fraction(1), Fraction(21)
    low, high = Fraction(0), Fraction(1)
    for _ in range(120):  # the largest rho that the close bound proves for this alpha
        middle = (low + high) / 2
        with monkeypatch.context() as patch:
            patch.setattr(composition, "_CLOSE", Fraction(1))
            proved = concentrated_implies(middle, alpha, epsilon, MILLIONTH)
        low, high = (middle, high) if proved else (low, middle)
    for step in (-(2**30), -(2**10), -1, 0, 1, 2**10, 2**30):
        rho = low + Fraction(step, 2**80)
        quick = concentrated_implies(rho, alpha, epsilon, MILLIONTH)
        assert quick == (step <= 0)


def test_a_charge_writes_as_much_in_a_long_ledger_as_in_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10, delta="1e-5")
    changes: list[int] = []
    append = file.append

    def watch(connection: sqlite3.Connection, *content: Any) -> None:
        append(connection, *content)
        changes.append(connection.total_changes)

    monkeypatch.setattr(file, "append", watch)
    for n in range(60):
        promise = PureDP(epsilon=Fraction(n + 1, 10**6), **ROW)
        if n % 2:
            delta = Fraction(1, 10**9)
            rho = concentrated_share(promise.epsilon, delta)
            book.charge(
                [ApproxDP(epsilon=promise.epsilon, delta=delta, rho=rho, **ROW)], purpose="x"
            )
        else:
            book.charge([promise], purpose="x")
    assert set(changes) == {2}  # the record, and the head
    connection = sqlite3.connect(book.path)
    sizes = [len(body) for (body,) in connection.execute("SELECT body FROM records ORDER BY seq")]
    connection.close()
    # The first charge also holds the shares of delta; after that none is longer for its place.
    assert max(sizes[2:]) <= sizes[2] + 40
