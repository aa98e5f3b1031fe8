"""Critical values of intervals, bisection, and projection onto a simplex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers

CONFIDENCE = 0.95

Number = TypeVar("Number", float, Fraction)


def bisect(
    holds: Callable[[Number], bool], low: Number, high: Number, *, steps: int
) -> tuple[Number, Number]:
    """Halve an interval in which a condition changes from true to false, `steps` times.

    Return its ends: the condition holds at the first (unless that is still `low`) and fails at the
    second (unless that is still `high`).

    Examples
    --------
    >>> bisect(lambda x: x * x <= 2, Fraction(1), Fraction(2), steps=4)
    (Fraction(11, 8), Fraction(23, 16))
    """
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def normal_quantile(probability: float) -> float:
    """Return a quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(probability)


NORMAL = normal_quantile((1 + CONFIDENCE) / 2)
"""Critical value of a two-sided 95% interval: half-width in standard deviations, normal error."""


def nearly_normal(kurtosis: float, z: float = NORMAL) -> float:
    """Return the half-width of the 95% interval of a symmetric sum, in standard deviations.

    `kurtosis` is the excess kurtosis of the sum. `z` is the critical value of a normal sum; pass
    another one for another confidence level.

    The result is a Cornish-Fisher expansion. A sum of few noise terms has a larger critical value
    than a normal one. For a single Laplace count the expansion gives 2.17 (exact: 2.12); it
    approaches 1.96 as terms are added.

    Examples
    --------
    >>> round(nearly_normal(3.0), 2), nearly_normal(0.0) == NORMAL
    (2.17, True)
    """
    return z + kurtosis * (z**3 - 3 * z) / 24


GAP_DOUBT = 0.001
"""Probability that a lower bound of a gap fails; subtracted from the error probability."""

GAP_RANGE = normal_quantile(1 - GAP_DOUBT)
"""Distance of the lower bound of a gap below the estimated gap, in standard deviations."""


@lru_cache(maxsize=1000)
def between_ends(gap: float) -> float:
    """Return the critical value of an interval for a value between two noisy bounds.

    The interval is that of Imbens and Manski (2004). If the truth is at distance a from one bound
    and gap - a from the other, the interval misses it with probability at most Phi(-c - a) + Phi(-c
    - gap + a), for any dependence of the two errors. This is convex in a, so it is largest at a
    bound: c solves Phi(-c) + Phi(-c - gap) = error probability. For a wide gap, only one bound can
    fail, and c is the critical value of a one-sided interval. `gap` may be a lower bound that fails
    with probability `GAP_DOUBT`, which is subtracted; an estimated gap is only safe with such a
    bound (Stoye 2009). All distances are in standard deviations.

    Examples
    --------
    >>> [round(between_ends(gap), 3) for gap in (0.0, 0.5, 1.0, 3.0, 9.0)]
    [1.969, 1.779, 1.691, 1.655, 1.655]
    """
    missed = 1 - CONFIDENCE - GAP_DOUBT
    normal = NormalDist()

    def is_too_short(half_width: float) -> bool:
        return normal.cdf(-half_width) + normal.cdf(-half_width - max(gap, 0.0)) > missed

    # The result is within 1e-9 of the solution.
    return bisect(is_too_short, 0.0, normal_quantile(1 - missed / 2), steps=31)[1]


# Projection on a simplex: the nearest non-negative counts with a given sum.
#
# The solution is max(0, count - shift * width) for one shift. Squares are weighted by 1/width;
# widths are the variances of the counts up to a factor.


def project_to_simplex(
    counts: Sequence[float] | NDArray[Any], total: float = 1.0, widths: Floats | None = None
) -> Floats:
    """Return the nearest non-negative counts with a given sum, by least squares.

    Examples
    --------
    >>> project_to_simplex([5.0, -3.0, 9.0], 10.0).tolist()
    [3.0, 0.0, 7.0]
    >>> project_to_simplex([50.0, 10.0], 50.0, np.array([1.0, 4.0])).tolist()
    [48.0, 2.0]
    """
    given = np.asarray(counts, np.float64)
    if total <= 0 or not len(given):
        return np.zeros(len(given))
    widths = np.ones(len(given)) if widths is None else widths
    order = np.argsort(-given / widths, kind="stable")
    over = (np.cumsum(given[order]) - total) / np.cumsum(widths[order])
    last = int(np.flatnonzero(given[order] / widths[order] > over)[-1])
    return np.asarray(np.maximum(given - over[last] * widths, 0.0))


def project_integers_to_simplex(
    counts: NDArray[Any], total: int, widths: Floats | None = None
) -> Integers:
    """Return whole, non-negative counts with a given sum; the largest remainders are rounded up.

    Examples
    --------
    >>> project_integers_to_simplex(np.array([10, 3, -2, 1]), 11).tolist()
    [9, 2, 0, 0]
    """
    exact = project_to_simplex(counts, total, widths)
    whole: Integers = np.floor(exact).astype(np.int64)
    missing = max(0, total - int(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


def bucket_shares(counts: Integers | Floats, buckets: Integers, total: float) -> Floats:
    """Estimate the share of each value: that of its bucket first, then within the bucket.

    If each value were clipped at 0 separately, noise would add up over nearly empty ranges.

    Examples
    --------
    >>> bucket_shares(np.array([90, 9, -8, 5, 4]), np.array([0, 1, 1, 1, 1]), 100.0).round(2)
    array([0.9 , 0.01, 0.  , 0.05, 0.04])
    """
    noisy = np.asarray(counts, np.float64)
    widths = np.bincount(buckets).astype(np.float64)
    masses = project_to_simplex(np.bincount(buckets, noisy).astype(np.float64), total, widths)
    shares = np.empty(len(noisy))
    order = np.argsort(buckets, kind="stable")
    ends = np.cumsum(widths).astype(np.int64)
    for bucket, mass in enumerate(masses):
        among = order[ends[bucket] - int(widths[bucket]) : ends[bucket]]
        _divide(np.append(0.0, np.cumsum(noisy[among])), float(mass) / total, total, shares, among)
    return shares


def _divide(sums: Floats, share: float, total: float, shares: Floats, places: Integers) -> None:
    """Divide a share over values by their noisy counts, by recursive bisection.

    `sums` are the cumulative counts. Each division is `project_to_simplex` for two counts.
    """
    pieces = [(0, len(places), share)]
    while pieces:
        first, stop, mass = pieces.pop()
        width = stop - first
        if width == 1 or mass <= 0:
            shares[places[first:stop]] = mass / width
            continue
        middle = first + width // 2
        left, right = (float(sums[middle] - sums[first]), float(sums[stop] - sums[middle]))
        over = (left + right) / total - mass
        part = left / total - over * (middle - first) / width
        part = min(max(part, 0.0), mass)
        pieces += [(first, middle, part), (middle, stop, mass - part)]
