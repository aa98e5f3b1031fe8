"""Exact Bernoulli draws whose probability is known only by bounds of any precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushtable.privacy.noise.noise import Noise

BoundsFunction = Callable[[int], tuple[Fraction, Fraction]]
"""Function from a number of bits to a lower and an upper bound of a probability."""

_BITS = 96  # initial precision of a probability


def bernoulli_indices(noise: Noise, n: int, bounds: BoundsFunction) -> NDArray[np.int64]:
    """Draw n Bernoulli variables and return the indexes of successes, in order.

    A uniform number is compared with the upper bound, then with the lower one. The bounds are
    refined only if it is between them, about once in 2**90 draws.

    Examples
    --------
    >>> from hushtable.privacy.noise.secure_noise import SecureNoise
    >>> third = lambda bits: (Fraction(2**bits // 3, 2**bits), Fraction(2**bits // 3 + 1, 2**bits))
    >>> 200 < len(bernoulli_indices(SecureNoise(), 900, third)) < 400
    True
    """
    low, high = bounds(_BITS)
    found = noise.subset(n, p=high)
    sure = noise.bernoulli(low / high, size=len(found))
    for i in np.flatnonzero(~sure):
        sure[i] = _settle(noise, bounds, low, high)
    return found[sure]


def _settle(noise: Noise, bounds: BoundsFunction, low: Fraction, high: Fraction) -> bool:
    """Decide whether a uniform number between two bounds of a probability is below it."""
    bits = _BITS
    while True:
        bits *= 2
        below, above = bounds(bits)
        below, above = max(low, below), min(high, above)
        parts = [below - low, above - below, high - above]
        scale = math.lcm(*(part.denominator for part in parts))
        where = int(noise.from_table([int(part * scale) for part in parts], size=1)[0])
        if where != 1:
            return where == 0
        low, high = below, above


def power_bounds(base: Fraction, exponent: int, bits: int) -> tuple[Fraction, Fraction]:
    """Bound base**exponent for 0 <= base <= 1; the bounds differ by at most 2**-bits.

    Examples
    --------
    >>> low, high = power_bounds(Fraction(9, 10), 100, 64)
    >>> low <= Fraction(9, 10)**100 <= high < low + Fraction(1, 2**64)
    True
    """
    # Every squaring or multiplication at most doubles the gap and adds a unit.
    precision = bits + 2 * exponent.bit_length() + 4
    unit = 1 << precision
    base_low = base.numerator * unit // base.denominator
    base_high = -(-base.numerator * unit // base.denominator)
    low = high = unit
    for digit in f"{exponent:b}":
        low, high = low * low >> precision, -(-high * high >> precision)
        if digit == "1":
            low, high = low * base_low >> precision, -(-high * base_high >> precision)
    return Fraction(low, unit), Fraction(high, unit)
