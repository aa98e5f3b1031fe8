"""Composition theorems against the exact worst case, by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from hushtable.errors import ParameterError, Refused
from hushtable.privacy.composition import (
    concentrated_implies,
    concentrated_share,
    optimal_delta,
    shares_of,
)


def worst_case(epsilon: float, delta: float, n: int, at: float) -> float:
    """Enumerate the worst pair of distributions of one mechanism, repeated n times.

    Outcomes: revealed with certainty with probability delta on one side only, otherwise randomized
    response with odds e^epsilon to 1 (Kairouz, Oh and Viswanath 2015).
    """
    heads = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = np.array([delta, (1 - delta) * heads, (1 - delta) * (1 - heads), 0.0])
    two = one[::-1]
    total = 0.0
    for outcome in product(range(4), repeat=n):
        p, q = math.prod(one[list(outcome)]), math.prod(two[list(outcome)])
        total += max(0.0, p - math.exp(at) * q)
    return total


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_every_share_keeps_the_promise_exactly(n: int) -> None:
    for epsilon, delta in ((1.0, 0.2), (0.3, 0.05), (2.0, 1e-3)):
        shares = list(shares_of(Fraction(epsilon), Fraction(delta), n))
        assert shares[0] == (Fraction(epsilon) / n, Fraction(delta) / n)
        for each, chance in shares:
            assert worst_case(float(each), float(chance), n, epsilon) <= delta * (1 + 1e-9)


def test_the_points_of_optimal_composition_are_tight() -> None:
    for n in (2, 3, 4, 6):
        for i in range(n // 2 + 1):
            exact = worst_case(0.7, 0.0, n, (n - 2 * i) * 0.7)
            bound = float(optimal_delta(Fraction(7, 10), n, i))
            assert exact * (1 - 1e-12) - 1e-15 <= bound <= exact * (1 + 1e-9) + 1e-15


def test_optimal_composition_gains_where_the_errata_says() -> None:
    def gain(n: int) -> float:
        # Growth of epsilon while at least half of delta is left for the mechanisms.
        delta = Fraction(1, 10**5)
        fair = [e for e, d in shares_of(Fraction(1), delta, n) if d * n >= delta / 2]
        return float(max(fair) * n)

    assert gain(8) == 1.0
    assert gain(20) == pytest.approx(1.25)
    assert gain(50) == pytest.approx(1.786, abs=1e-3)


def test_concentrated_shares_are_the_best_that_the_theorem_gives() -> None:
    for epsilon, delta in ((0.1, 1e-7), (1.0, 1e-6), (0.25, 1e-5), (5.0, 1e-9)):
        rho = float(concentrated_share(Fraction(epsilon), Fraction(delta)))

        def log_delta(alpha: float, rho: float = rho, epsilon: float = epsilon) -> float:
            return (
                (alpha - 1) * (alpha * rho - epsilon)
                + alpha * math.log1p(-1 / alpha)
                - math.log(alpha - 1)
            )

        best = minimize_scalar(log_delta, bounds=(1.0001, 1e4), method="bounded").fun
        assert best <= math.log(delta)
        assert best == pytest.approx(math.log(delta), abs=1e-5)


def test_a_larger_concentrated_share_is_not_certified() -> None:
    """Tests the certificate, not only the search that uses it."""
    for epsilon, delta in (
        (Fraction(1), Fraction(1, 10**6)),
        (Fraction(1, 10), Fraction(1, 10**9)),
    ):
        rho = concentrated_share(epsilon, delta)
        # Above epsilon / rho the exponent is positive, and no order certifies anything.
        orders = [1 + epsilon / rho * Fraction(part, 64) for part in range(1, 65)]
        orders = [Fraction(round(order * 2**20), 2**20) for order in orders]
        assert any(
            concentrated_implies(rho * Fraction(99, 100), order, epsilon, delta) for order in orders
        )
        assert not any(
            concentrated_implies(rho * Fraction(101, 100), order, epsilon, delta)
            for order in orders
        )


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="n_mechanisms is 0"):
        next(shares_of(Fraction(1), Fraction(1, 100), 0))
    with pytest.raises(Refused, match="could be certified"):
        concentrated_share(Fraction(1, 10**30), Fraction(1, 10**300))
