"""Quantiles of the normal distribution, and of sums that are nearly normal."""

from __future__ import annotations

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
