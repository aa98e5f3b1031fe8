"""Certified bounds of pi and of tails of the normal distribution, in integer arithmetic.

As in `rational`, no result depends on floats: real numbers are bounded by fractions on both sides.
"""

from __future__ import annotations

import math
from fractions import Fraction

from hushtable.privacy.rational import exp_bounds

FractionBounds = tuple[Fraction, Fraction]

PI_ABOVE = Fraction(355, 113)
"""A short fraction above pi, by less than 3e-7; multiplying by it rounds up."""


def pi_bounds(bits: int) -> FractionBounds:
    """Return fractions on both sides of pi that differ by at most 2**-bits.

    By Machin's formula, pi = 16 arctan(1/5) - 4 arctan(1/239).

    Examples
    --------
    >>> low, high = pi_bounds(40)
    >>> low < Fraction("3.14159265358979323846") < high < PI_ABOVE
    True
    """
    # There are fewer terms than bits, each with an error of a few units.
    unit = 1 << (bits + bits.bit_length() + 16)
    of_five, error_of_five = _arctan_of_inverse(5, unit)
    of_239, error_of_239 = _arctan_of_inverse(239, unit)
    middle, error = 16 * of_five - 4 * of_239, 16 * error_of_five + 4 * error_of_239
    return Fraction(middle - error, unit), Fraction(middle + error, unit)


def _arctan_of_inverse(n: int, unit: int) -> tuple[int, int]:
    """Return arctan(1/n) in units, and a bound of its error."""
    power, total, place = unit // n, 0, 0
    while power:
        term = power // (2 * place + 1)
        total += -term if place % 2 else term
        power //= n * n
        place += 1
    # Each power has an error below two units and each term one more; the omitted terms alternate
    # and are below one.
    return total, 3 * place + 1


def upper_tail_bounds(x: Fraction, bits: int = 128) -> FractionBounds:
    """Return fractions on both sides of P[Z > x] for a standard normal Z.

    For x >= 0 this is 1/2 - phi(x) (x + x**3/3 + x**5/(3*5) + x**7/(3*5*7) + ...), a series without
    negative terms. The subtrahend is close to 1/2 if the tail is small, so it is computed with
    correspondingly more bits. The two fractions differ by less than 2**-bits of the tail.

    Examples
    --------
    >>> low, high = upper_tail_bounds(Fraction(3))
    >>> low < high, f"{float(low):.12g}"
    (True, '0.00134989803163')
    >>> [float(bound) for bound in upper_tail_bounds(Fraction(0))]
    [0.5, 0.5]
    """
    if x < 0:
        low, high = upper_tail_bounds(-x, bits)
        return 1 - high, 1 - low
    half = Fraction(1, 2)
    if x == 0:
        return half, half
    square = x * x
    # The tail is above exp(-x**2/2) / (4 (x + 1)).
    small = math.ceil(square) + math.ceil(x + 1).bit_length() + 3
    precision = bits + small + 32
    low, high = _odd_series(x, square, precision)
    exp_low, exp_high = exp_bounds(-square / 2, precision)
    pi_low, pi_high = pi_bounds(precision)
    root_low, root_high = _root_bounds(2 * pi_low, 2 * pi_high, precision)
    return half - high * exp_high / root_low, half - low * exp_low / root_high


def _odd_series(x: Fraction, square: Fraction, precision: int) -> FractionBounds:
    """Bound x + x**3/3 + x**5/(3*5) + ..., with each step rounded down, and each rounded up."""
    unit = 1 << precision
    low = term_low = x.numerator * unit // x.denominator
    high = term_high = -(-x.numerator * unit // x.denominator)
    n, d = square.numerator, square.denominator
    odd = 3
    # Once a term is less than half of the previous one, it exceeds the sum of all that follow.
    while term_high > 1 or odd * d < 2 * n:
        term_low = term_low * n // (d * odd)
        term_high = -(-term_high * n // (d * odd))
        low += term_low
        high += term_high
        odd += 2
    return Fraction(low, unit), Fraction(high + term_high, unit)


def _root_bounds(low: Fraction, high: Fraction, precision: int) -> FractionBounds:
    """Return a lower bound of the root of `low` and an upper bound of the root of `high`."""
    unit = 1 << precision
    return (
        Fraction(math.isqrt(math.floor(low * unit * unit)), unit),
        Fraction(math.isqrt(math.floor(high * unit * unit)) + 1, unit),
    )
