"""Quantiles of the normal distribution, of sums that are nearly normal, and between two ends."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

from hushtable.estimate.base import CONFIDENCE


def normal_quantile(probability: float) -> float:
    """Give the number below which a standard normal variable is with this probability."""
    return NormalDist().inv_cdf(probability)


NORMAL = normal_quantile((1 + CONFIDENCE) / 2)
"""Half the central interval of our confidence, in standard deviations of a normal variable."""


def nearly_normal(kurtosis: float) -> float:
    """Give half the central interval of a symmetric sum, in standard deviations.

    By Cornish and Fisher, from the excess kurtosis. A sum of few noises is wider than the normal
    one: for a single Laplace count this gives 2.17 where 2.12 is exact, and it comes down to the
    normal 1.96 as more are added.

    Examples
    --------
    >>> round(nearly_normal(3.0), 2), nearly_normal(0.0) == NORMAL
    (2.17, True)
    """
    return NORMAL + kurtosis * (NORMAL**3 - 3 * NORMAL) / 24


GAP_DOUBT = 0.001
"""The chance that a bound for the distance of two ends does not hold, which is paid for."""

GAP_REACH = normal_quantile(1 - GAP_DOUBT)
"""How far below its estimate that bound is, in standard deviations."""


@lru_cache(maxsize=1000)
def between_ends(gap: float) -> float:
    """Give how far to reach beyond two noisy ends for what lies between them, in deviations.

    Imbens and Manski (2004). With a truth at distance a from one end and gap - a from the other,
    the interval misses with chance Phi(-c - a) + Phi(-c - gap + a) at most, however the noise of
    the two hangs together. That is convex in a, so it is largest at an end: c is such that Phi(-c)
    + Phi(-c - gap) is what may be missed. Far apart, one end alone can fail, and c is that of an
    interval with one end. The gap that is given may be a bound that fails with `GAP_DOUBT`, which
    is taken off: only with such a bound does an estimated gap do no harm (Stoye 2009).

    Examples
    --------
    >>> [round(between_ends(gap), 3) for gap in (0.0, 0.5, 1.0, 3.0, 9.0)]
    [1.969, 1.779, 1.691, 1.655, 1.655]
    """
    missed = 1 - CONFIDENCE - GAP_DOUBT
    normal = NormalDist()
    low, high = 0.0, normal_quantile(1 - missed / 2)
    while high - low > 1e-9:
        middle = (low + high) / 2
        too_short = normal.cdf(-middle) + normal.cdf(-middle - max(gap, 0.0)) > missed
        low, high = (middle, high) if too_short else (low, middle)
    return high
