"""Discrete Laplace distribution: P[z] = e**(-rate |z|) (1 - r) / (1 + r), r = e**-rate.

Floats are for estimates and forecasts, where rounding errors do not matter. Promises and samplers
use only the bounds, which are fractions that certainly enclose the true value.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.privacy.rational import exp_bounds

FractionBounds = tuple[Fraction, Fraction]
"""A lower and an upper bound of a real number."""


def laplace_variance(scale: Floats | float) -> Floats:
    """Return the variance for scales 1 / rate: 2 r / (1 - r)**2.

    Examples
    --------
    >>> laplace_variance(np.array([1.0, 1000.0])).round(3).tolist()
    [1.841, 1999999.833]
    """
    with np.errstate(over="ignore"):  # at tiny scales, where the variance is 0
        return np.asarray(0.5 / np.sinh(0.5 / scale) ** 2)


def laplace_kurtosis(scale: Floats | float) -> Floats:
    """Return the excess kurtosis for scales 1 / rate: 3 + 1 / variance."""
    with np.errstate(over="ignore"):
        return np.asarray(3.0 + 2.0 * np.sinh(0.5 / scale) ** 2)


def laplace_mass(rate: float, values: Integers) -> Floats:
    """Return the probabilities of integers.

    Examples
    --------
    >>> laplace_mass(1.0, np.array([-1, 0, 1])).round(3).tolist()
    [0.17, 0.462, 0.17]
    """
    peak = -np.expm1(-rate) / (1 + np.exp(-rate))
    return np.asarray(peak * np.exp(-rate * np.abs(values)))


def laplace_tail(rate: float, distance: int) -> float:
    """Return P[Z >= distance] for a distance of at least 0."""
    return float(np.exp(-rate * distance) / (1 + np.exp(-rate)))


def laplace_tail_bounds(rate: Fraction, distance: int, bits: int) -> FractionBounds:
    """Bound P[Z >= distance] for a distance of at least 0."""
    r_low, r_high = exp_bounds(-rate, bits)
    low, high = exp_bounds(-rate * distance, bits)
    return low / (1 + r_high), high / (1 + r_low)
