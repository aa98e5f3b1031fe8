"""Samplers compared with their exact probabilities, using this machine's randomness.

Each check is a chi-square test on cells with at least `MIN_EXPECTED` expected draws, at
significance level `ALPHA`: a correct sampler fails once in a hundred million runs. The first check
tests the test itself: it fails to detect a scale that is wrong by 3% with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from hushtable.arrays import Integers
from hushtable.privacy.noise.distributions import laplace_mass
from hushtable.privacy.noise.secure_noise import SecureNoise
from hushtable.selftest.verdict import CheckResult, SelfCheck, held

ALPHA = 1e-8
MIN_EXPECTED = 100
N = 400_000
_GROUP = "noise"

Mass = Callable[[Integers], NDArray[np.float64]]


def p_value(drawn: Integers, mass: Mass) -> float:
    """Return the chi-square p-value of a sample of integers; rare values are pooled."""
    values, observed = np.unique(drawn, return_counts=True)
    grid = np.arange(values[0], values[-1] + 1)
    counts = np.zeros(len(grid))
    counts[values - values[0]] = observed
    expected = len(drawn) * mass(grid)
    common = expected >= MIN_EXPECTED
    cells = [((counts[common] - expected[common]) ** 2 / expected[common]).sum()]
    n_cells = int(common.sum())
    rare = len(drawn) - expected[common].sum()
    if rare >= MIN_EXPECTED:
        cells.append((len(drawn) - counts[common].sum() - rare) ** 2 / rare)
        n_cells += 1
    return float(chdtrc(n_cells - 1, sum(cells)))


def _uniform(n: int) -> Mass:
    return lambda v: np.where((v >= 0) & (v < n), 1 / n, 0.0)


def _coin(p: float) -> Mass:
    return lambda v: np.where(v == 1, p, np.where(v == 0, 1 - p, 0.0))


def _laplace(scale: float) -> Mass:
    return lambda v: laplace_mass(1 / scale, v)


def _geometric(x: float) -> Mass:
    return lambda v: np.where(v >= 0, -math.expm1(-x) * np.exp(-x * np.maximum(v, 0)), 0.0)


def _gaussian(variance: float) -> Mass:
    reach = 40 * math.ceil(math.sqrt(variance)) + 40
    total = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance)).sum()
    return lambda v: np.exp(-(v.astype(np.float64) ** 2) / (2 * variance)) / total


def _rounded_gaussian(variance: float) -> Mass:
    def of_one(z: float) -> float:
        low, high = (math.erfc(x / math.sqrt(2 * variance)) / 2 for x in (z + 0.5, z - 0.5))
        return high - low

    return lambda v: np.array([of_one(z) for z in np.abs(v).tolist()])


def _choices(gaps: list[int]) -> Mass:
    weights = np.exp(np.array(gaps) / 2.0)
    return lambda v: (weights / weights.sum())[v]


def _chosen(gaps: list[int], noise: SecureNoise) -> Integers:
    """Choose with an exponent of 1/2 per unit of score."""
    one = Fraction(1)
    drawn = [noise.choose(gaps, epsilon=one, sensitivity=one, monotone=False) for _ in range(5_000)]
    return np.array(drawn, np.int64)


SAMPLERS: dict[str, tuple[Callable[[SecureNoise], Any], Mass]] = {
    "uniform numbers": (lambda noise: noise.uniform_below(10, size=N), _uniform(10)),
    "Bernoulli": (lambda noise: noise.bernoulli(Fraction(1, 3), size=N), _coin(1 / 3)),
    "Bernoulli(exp(-x))": (
        lambda noise: noise.bernoulli_exp(Fraction(7, 2), size=N), _coin(math.exp(-3.5)),
    ),
    "geometric": (
        lambda noise: noise.geometric(Fraction(1, 7), size=N), _geometric(1 / 7),
    ),
    "discrete Laplace": (
        lambda noise: noise.discrete_laplace(Fraction(10), size=N), _laplace(10.0),
    ),
    "discrete Gaussian": (
        lambda noise: noise.discrete_gaussian(Fraction(30), size=N), _gaussian(30.0),
    ),
    "rounded Gaussian": (
        lambda noise: noise.rounded_gaussian(Fraction(30), size=N), _rounded_gaussian(30.0),
    ),
    "exponential mechanism": (partial(_chosen, [0, 3, 1, 2]), _choices([0, 3, 1, 2])),
}  # fmt: skip
"""By name: a function that draws, and the exact probabilities."""


def _check(name: str) -> CheckResult:
    draw, mass = SAMPLERS[name]
    drawn = np.asarray(draw(SecureNoise())).astype(np.int64)
    p = p_value(drawn, mass)
    return held(p > ALPHA, f"{len(drawn):,} draws, p = {p:.2g}")


def _can_fail() -> CheckResult:
    drawn = SecureNoise().discrete_laplace(Fraction(10), size=N)
    p = p_value(drawn, _laplace(10.3))
    return held(p < ALPHA, f"a scale that is wrong by 3% has p = {p:.2g}")


CHECKS = (
    SelfCheck(_GROUP, "the test detects a wrong sampler", _can_fail),
    *(
        SelfCheck(_GROUP, f"{name}: exact probabilities", partial(_check, name))
        for name in SAMPLERS
    ),
)
