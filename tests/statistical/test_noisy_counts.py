"""Samplers of noisy-counts: they have the distributions that the guarantee assumes.

Each test draws with operating-system randomness and raises a false alarm with probability below
1e-6: at most 14 chi-square tests at level ALPHA, times 10 for the Poisson tail of a cell that
expects LEAST_EXPECTED draws, which is heavier than the normal one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from hushtable.privacy.mechanisms.single_counts import (
    CountMechanism,
    OneSidedGeometric,
    ThresholdMatrix,
    TwoSidedGeometric,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.rational import as_rational

ALPHA = 5e-9
N_DRAWS = 200_000
LEAST_EXPECTED = 150


def p_value(drawn: np.ndarray, mass: dict[int, float]) -> float:
    """Compare draws with a distribution, rare outcomes pooled; none may be impossible."""
    values, counts = np.unique(drawn, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    impossible = set(seen) - set(mass)
    assert not impossible, f"drawn, though not possible: {sorted(impossible)[:5]}"
    common = {v: p for v, p in mass.items() if p * len(drawn) >= LEAST_EXPECTED}
    observed = [seen.get(v, 0) for v in common]
    expected = [p * len(drawn) for p in common.values()]
    rest = len(drawn) - sum(expected)
    if rest >= LEAST_EXPECTED:
        observed.append(len(drawn) - sum(observed))
        expected.append(rest)
    if len(expected) < 2:
        return 1.0
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(chi2.sf(statistic, len(expected) - 1))


def draw(mechanism: CountMechanism, count: int, noise: Noise) -> np.ndarray:
    return mechanism.noisy(np.full(N_DRAWS, count, np.int64), noise)


def parameters(epsilon: str, delta: str, k: int) -> dict[str, object]:
    return {
        "epsilon": as_rational(epsilon, name="epsilon"),
        "delta": as_rational(delta, name="delta"),
        "k": k,
    }


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "counts"),
    [
        ("1", "1e-3", 3, [2, 3, 5, 8, 9, 10, 11, 30]),
        ("ln(5)", "1/100", 1, [0, 1, 2, 3, 4, 5, 20]),
        ("1/10", "1e-3", 10, [10, 30, 40, 50, 80, 400]),
        ("1/2", "1/2", 2, [1, 2, 3, 10]),  # a head of nothing: N is geometric
        ("3", "1/2", 1, [1, 2, 6]),  # a head of one
    ],
)
@pytest.mark.parametrize("kind", [OneSidedGeometric, ThresholdMatrix])
def test_published_counts_have_their_distribution(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
    epsilon: str,
    delta: str,
    k: int,
    counts: list[int],
) -> None:
    mechanism = kind(**parameters(epsilon, delta, k))  # type: ignore[arg-type]
    noise = SecureNoise()
    for count in counts:
        assert p_value(draw(mechanism, count, noise), mechanism.mass(count)) > ALPHA


@pytest.mark.parametrize("epsilon", ["1/10", "1", "ln(5)"])
def test_pure_counts_have_their_distribution(epsilon: str) -> None:
    mechanism = TwoSidedGeometric(epsilon=as_rational(epsilon, name="epsilon"))
    noise = SecureNoise()
    for count in (0, 1, 7):
        drawn = np.maximum(0, draw(mechanism, count, noise))
        assert p_value(drawn, mechanism.mass(count)) > ALPHA


def test_mixed_counts_are_drawn_each_by_its_own_law() -> None:
    """One call with all counts, as in a run."""
    noise = SecureNoise()
    counts = np.tile(np.arange(0, 25, dtype=np.int64), 40_000)
    for kind in (OneSidedGeometric, ThresholdMatrix):
        mechanism = kind(epsilon=Fraction(1), delta=Fraction(1, 100), k=4)
        published = mechanism.noisy(counts, noise)
        assert (published[counts < 4] == 0).all()
        for count in range(4, 25, 3):
            assert p_value(published[counts == count], mechanism.mass(count)) > ALPHA


def test_neighboring_draws_are_independent() -> None:
    """Correlation of neighboring published counts; its standard error is 1/sqrt(n)."""
    mechanism = OneSidedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100), k=1)
    drawn = draw(mechanism, 100, SecureNoise()).astype(float)
    correlation = float(np.corrcoef(drawn[:-1], drawn[1:])[0, 1])
    assert abs(correlation) < 6 / np.sqrt(N_DRAWS)  # two-sided false alarm 2e-9


def test_the_test_would_notice() -> None:
    """A factor of two in epsilon, or a count that is off by one, is detected."""
    right = OneSidedGeometric(epsilon=Fraction(1), delta=Fraction(1, 1000), k=3)
    wrong = OneSidedGeometric(epsilon=Fraction(2), delta=Fraction(1, 1000), k=3)
    mass = right.mass(9)
    everything = dict.fromkeys(range(-50, 100), 0.0) | mass
    assert p_value(draw(wrong, 9, SecureNoise()), everything) < ALPHA
    assert p_value(draw(right, 10, SecureNoise()), everything) < ALPHA
