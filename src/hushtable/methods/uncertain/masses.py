"""Probability that a noisy record is in a range, and unbiased powers of noisy numbers."""

from __future__ import annotations

import math

import numpy as np

from hushtable.arrays import Floats
from hushtable.extras import needing

with needing("science"):
    from scipy.special import log_ndtr, ndtr


def interval_probability(
    z: Floats,
    width: Floats,
    low: float,
    high: float,
    *,
    model: str,
    domain: tuple[float, float] | None = None,
    wrap: bool = False,
) -> Floats:
    """Return the probability that records distributed around `z` are between two bounds.

    Parameters
    ----------
    z, width : array (n,)
        Published values; sigma, or the full width of the interval.
    low, high : float
        The bounds.
    model : {"gaussian", "uniform"}
        Distribution of the records.
    domain : pair of float, optional
        Public range of the column: (21), the probability given that the record is in it. Computed
        in log space, so that a point far outside the range does not give 0/0.
    wrap : bool
        Whether the ends of the domain are joined.

    Examples
    --------
    >>> far = interval_probability(np.array([99.0]), np.ones(1), 0, 1, model="gaussian",
    ...                            domain=(0, 2))
    >>> bool(0 < far[0] < 1e-40)
    True
    """
    if high <= low:
        return np.zeros(len(z))
    if wrap and domain is not None:
        return _wrapped(z, width, (low, high), domain, model)
    if model == "uniform":
        start = z - width / 2
        if domain is None:
            lowest, highest = start, start + width
        else:
            lowest, highest = np.maximum(start, domain[0]), np.minimum(start + width, domain[1])
        inside = np.minimum(high, highest) - np.maximum(low, lowest)
        return np.asarray(np.clip(inside / np.maximum(highest - lowest, 1e-300), 0, 1))
    mass = _log_mass((low - z) / width, (high - z) / width)
    if domain is not None:
        mass = mass - _log_mass((domain[0] - z) / width, (domain[1] - z) / width)
    return np.asarray(np.minimum(np.exp(mass), 1.0))


def _log_mass(low: Floats, high: Floats) -> Floats:
    """Return log(Phi(high) - Phi(low)) without cancellation in either tail."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(lower - upper, -0.0))))


def _wrapped(
    z: Floats,
    width: Floats,
    bounds: tuple[float, float],
    domain: tuple[float, float],
    model: str,
) -> Floats:
    period = domain[1] - domain[0]
    total = np.zeros(len(z))
    for turn in (-period, 0.0, period):
        begin, end = bounds[0] + turn - z, bounds[1] + turn - z
        if model == "uniform":
            half = np.minimum(width, period) / 2
            inside = np.minimum(end, half) - np.maximum(begin, -half)
            total += np.maximum(inside, 0) / (2 * half)
        else:  # noise is limited to half of the period
            half = np.full(len(z), period / 2)
            begin, end = np.clip(begin, -half, half), np.clip(end, -half, half)
            total += (ndtr(end / width) - ndtr(begin / width)) / (2 * ndtr(half / width) - 1)
    return np.asarray(np.clip(total, 0, 1))


def unbiased_power(place: Floats, std: Floats, exponent: int, kurtosis: float) -> Floats:
    """Return an unbiased estimate of a power of a number with symmetric noise of known moments.

    The moments E[(x + e)^k] are solved for x^k, from the lowest k on. The sixth and eighth moments
    of the noise are those of the normal or the uniform distribution.

    Examples
    --------
    >>> unbiased_power(np.array([3.0]), np.array([1.0]), 2, 3.0).tolist()
    [8.0]
    """
    normal = kurtosis == 3.0
    of_noise = {
        0: np.ones(len(std)),
        2: std**2,
        4: kurtosis * std**4,
        6: (15.0 if normal else 27 / 7) * std**6,
        8: (105.0 if normal else 9.0) * std**8,
    }
    found: list[Floats] = []
    for k in range(exponent + 1):
        rest = place**k
        for i in range(2, k + 1, 2):
            rest = rest - math.comb(k, i) * of_noise[i] * found[k - i]
        found.append(rest)
    return found[exponent]
