"""Costs and limits, compared with numbers worked out by hand, and laws of rare branches.

`benchmarks/mutants.toml` lists the wrong lines that these tests detect.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from hushtable.domain import Domain
from hushtable.privacy.accounting.run_account import SpendingLimit, TotalCost
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.gaussian_dp import PI_ABOVE
from hushtable.privacy.mechanisms.cells import DomainMechanism
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, Mechanism, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import TopChoices
from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric, ThresholdMatrix
from hushtable.privacy.noise.samplers import exponent_per_score
from hushtable.privacy.noise.sources import SeededNoise
from seeds import shifted

ONE, HALF = Fraction(1), Fraction(1, 2)
MOVED = Sensitivity(rows=3, cells=2, step=1)  # l1 is 6, l2 squared is 18


@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [
        (Laplace(Fraction(2)), PrivacyCost(Fraction(3), rho=Fraction(9, 2))),
        (Gaussian(Fraction(9)), PrivacyCost(rho=ONE)),
        (RoundedGaussian(Fraction(9)), PrivacyCost(rho=ONE, mu_squared=Fraction(2))),
        (TopChoices(HALF, k=2, rule="permute-and-flip"), PrivacyCost(ONE, rho=Fraction(1, 4))),
        (
            TopChoices(HALF, k=2),
            PrivacyCost(ONE, rho=Fraction(1, 16), mu_squared=PI_ABOVE / 16),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_costs_follow_from_noise_and_sensitivity(mechanism: Mechanism, cost: PrivacyCost) -> None:
    assert mechanism.cost(MOVED) == cost


def test_a_row_of_a_person_may_spend_what_all_rows_together_may() -> None:
    of_rho = SpendingLimit(ONE, HALF, rho=ONE).for_each_of(3)
    assert of_rho.rho == Fraction(1, 9)
    of_mu = SpendingLimit(ONE, HALF, mu=ONE).for_each_of(3)
    assert of_mu.mu == Fraction(1, 3)
    assert of_mu.limits == {"mu_squared": Fraction(1, 9)}


@pytest.mark.parametrize(("name", "given"), [("rho", {"rho": ONE}), ("mu_squared", {"mu": ONE})])
def test_promises_in_rho_and_mu_have_a_limit(name: str, given: dict[str, Fraction]) -> None:
    limit = SpendingLimit(ONE, HALF, **given)  # type: ignore[arg-type]
    assert limit.covers(TotalCost(**{name: ONE}))
    assert not limit.covers(TotalCost(**{name: Fraction(1001, 1000)}))
    assert not limit.covers(TotalCost(epsilon=Fraction(1, 1000), **{name: HALF}))


def test_scores_that_move_both_ways_are_weighted_by_half() -> None:
    assert exponent_per_score(ONE, Fraction(3), True) == Fraction(1, 3)
    assert exponent_per_score(ONE, Fraction(3), False) == Fraction(1, 6)


def within(n_true: int, n: int, p: float, n_std: float = 5.5) -> bool:
    """Return whether a binomial number is near its mean; by chance not, 4 times in 10^8."""
    return abs(n_true - n * p) <= n_std * math.sqrt(n * p * (1 - p))


def test_scores_of_one_level_differ_in_probability() -> None:
    """Equal probabilities would be 11 standard deviations away."""
    noise, n = SeededNoise(shifted(81)), 2000
    drawn = Counter(
        noise.choose([1, 0], epsilon=HALF, sensitivity=ONE, monotone=True) for _ in range(n)
    )
    assert within(drawn[0], n, 1 / (1 + math.exp(-0.5)))


@pytest.mark.parametrize("below", [1, 3])
def test_the_threshold_matrix_rises_with_half_of_epsilon(below: int) -> None:
    matrix = ThresholdMatrix(epsilon=HALF, delta=Fraction(1, 1000), k=3)
    count, n = matrix.turn - below, 100_000
    assert count >= matrix.k
    published = matrix.noisy(np.full(n, count, np.int64), SeededNoise(shifted(82 + below))) > 0
    expected = float(matrix.turn_mass) * math.exp(-0.25 * below)
    assert within(int(published.sum()), n, expected)
    assert matrix.release_probability(count) == pytest.approx(expected)


def test_the_head_of_one_sided_noise_is_geometric() -> None:
    mechanism = OneSidedGeometric(epsilon=HALF, delta=Fraction(1, 1000), k=3)
    head, n, count = mechanism.n_head, 100_000, 1000
    assert head >= 3
    published = mechanism.noisy(np.full(n, count, np.int64), SeededNoise(shifted(85)))
    lag = count + mechanism.offset - published
    share = float(mechanism.head_mass) * -math.expm1(-0.5) / -math.expm1(-0.5 * head)
    for steps in (0, 1):
        assert within(int((lag == head - steps).sum()), n, share * math.exp(-0.5 * steps))


def test_occupied_and_empty_cells_of_large_domains_follow_one_law() -> None:
    """Both are published from the threshold on, with geometric excess."""
    domain = Domain({"a": 1 << 10, "b": 1 << 10})
    rate = HALF
    mechanism = DomainMechanism(domain=domain, rate=rate, max_cells=1000)
    assert mechanism.threshold is not None
    n = 200
    codes = np.stack([np.arange(n), np.arange(n)], axis=1)
    counts = np.full(n, mechanism.threshold - 1, np.int64)
    cells = mechanism.add(codes, counts, SeededNoise(shifted(86)))
    assert cells.noisy.min() >= mechanism.threshold
    empty = cells.noisy[cells.codes[:, 0] != cells.codes[:, 1]]
    assert len(empty) > 500
    more = int((empty > mechanism.threshold).sum())
    assert within(more, len(empty), math.exp(-0.5))
