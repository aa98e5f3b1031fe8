"""Conversion of Gaussian differential privacy to (epsilon, delta).

Proofs are in ``gaussian_dp.md``. A mechanism is mu-GDP (Dong, Roth and Su 2022) if
distinguishing its outputs on two neighboring tables is at least as hard as distinguishing N(0, 1)
from N(mu, 1). Under composition, mu**2 adds up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from hushtable.errors import Refused
from hushtable.numeric import bisect
from hushtable.privacy.rational import exp_bounds

# Certified bounds of pi and of tails of the normal distribution, in integer arithmetic.
#
# As in `rational`, no result depends on floats: real numbers are bounded by fractions on both
# sides.

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


CHOICE_FACTOR = PI_ABOVE / 8
"""A selection whose privacy loss has range e is mu-GDP with mu**2 at most this times e**2."""

_GRID = 1 << 60
_LEAST_TAIL = 1e-250  # below this, floating point cannot search
_MAX_X = 80
"""Tails beyond this are smaller than any delta that can be promised."""


def gaussian_share(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu, rounded down, such that mu-GDP implies (epsilon, delta)-DP.

    Examples
    --------
    >>> mu = gaussian_share(Fraction(1), Fraction(1, 10**6))
    >>> round(float(mu), 4), is_gaussian(mu, Fraction(1), Fraction(1, 10**6))
    (0.2367, True)
    """
    target = delta.numerator / delta.denominator

    def holds(mu: float) -> bool:
        if target < _LEAST_TAIL:
            return is_gaussian(Fraction(mu), epsilon, delta)
        return _delta(mu, float(epsilon)) <= target

    low, _ = bisect(holds, 0.0, 4 * math.sqrt(float(epsilon)) + 4, steps=60)
    # Slightly less than the floating-point result, so that the exact check succeeds.
    mu = Fraction(math.floor(low * (1 - 1e-9) * _GRID), _GRID)
    if not is_gaussian(mu, epsilon, delta):
        raise Refused(
            f"epsilon {float(epsilon):g} and delta {float(delta):g} are too small for Gaussian "
            "noise: no mu could be certified. Use larger values."
        )
    return mu


@lru_cache(maxsize=1024)
def is_gaussian(mu: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether mu-GDP provably implies (epsilon, delta), with every term rounded up.

    It does if and only if Q(epsilon/mu - mu/2) - e**epsilon Q(epsilon/mu + mu/2) <= delta, where Q
    is the upper tail of the normal distribution (Dong, Roth and Su 2022, Corollary 1).

    Examples
    --------
    >>> one, millionth = Fraction(1), Fraction(1, 10**6)
    >>> [is_gaussian(Fraction(mu), one, millionth) for mu in ("0.236", "0.237")]
    [True, False]
    """
    if not 0 < mu <= 4 * (epsilon + 1):  # larger values of mu imply no useful delta
        return False
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > _MAX_X:
        near = Fraction(_MAX_X)  # this tail is larger, so the check is conservative
    elif far <= _MAX_X:
        spared = exp_bounds(epsilon, 128)[0] * upper_tail_bounds(far)[0]
        return upper_tail_bounds(near)[1] - spared <= delta
    return upper_tail_bounds(near)[1] <= delta


def _delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta of mu-GDP at this epsilon, in floating point."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tail, far_tail = (math.erfc(x / math.sqrt(2)) / 2 for x in (near, far))
    return tail - math.exp(epsilon) * far_tail if far_tail else tail
