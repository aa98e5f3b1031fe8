"""Composition theorems: how mechanisms share a budget, with certified bounds.

Floating point is used for searching only; results are checked in rational arithmetic, with
certified bounds of e^x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from hushtable.errors import ParameterError, Refused
from hushtable.numeric import bisect
from hushtable.privacy.rational import exp_bounds, log_upper

BITS = 256
"""Precision of the bounds of e**x, in bits."""

_MAX_EXPONENT = 4000
_ALPHA_GRID = 1 << 20
_PLACES = 80  # binary places in the quick check
_STEPS = range(8, 0, -1)  # terms of the series of e**x for x < 2**-8; the remainder is below 2**-90

MAX_FOLD = 200
"""Largest number of mechanisms for optimal composition; its sums become long."""


def shares_of(
    epsilon: Fraction, delta: Fraction, n_mechanisms: int
) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield pairs (x, d) such that n (x, d)-DP mechanisms are (epsilon, delta)-DP together.

    The first is basic composition, epsilon/n and delta/n. The others are points of the optimal
    composition theorem (Kairouz, Oh and Viswanath 2015, Theorem 3.3): n mechanisms that are each
    (x, d)-differentially private, chosen adaptively, are together (epsilon, D)-differentially
    private for epsilon = (n - 2 i) x and 1 - D = (1 - d)**n (1 - `optimal_delta` (x, n, i)). With
    d = (delta - D_i) / (n (1 - D_i)), Bernoulli's inequality gives D <= delta.

    Examples
    --------
    >>> next(shares_of(Fraction(1), Fraction(1, 1000), 4))
    (Fraction(1, 4), Fraction(1, 4000))
    >>> largest, _ = max(shares_of(Fraction(1), Fraction(1, 10**5), 50))
    >>> round(float(largest) * 50, 2)
    1.92
    """
    if n_mechanisms < 1:
        raise ParameterError(f"n_mechanisms is {n_mechanisms}; it must be at least 1.")
    yield epsilon / n_mechanisms, delta / n_mechanisms
    if n_mechanisms > MAX_FOLD:
        return
    for i in range(1, (n_mechanisms + 1) // 2):
        each = epsilon / (n_mechanisms - 2 * i)
        used = optimal_delta(each, n_mechanisms, i)
        if used >= delta:
            return  # the same holds for every larger i
        left = (delta - used) / (n_mechanisms * (1 - used))
        yield each, _down(left)


def optimal_delta(epsilon: Fraction, n_mechanisms: int, i: int) -> Fraction:
    """Bound from above the delta of n epsilon-DP mechanisms at (n - 2 i) epsilon.

    This is the sum over l < i of C(n, l) (e^((n-l) epsilon) - e^((n-2i+l) epsilon)), divided by
    (1 + e^epsilon)^n.

    Examples
    --------
    >>> optimal_delta(Fraction(1), 5, 0)
    Fraction(0, 1)
    >>> round(float(optimal_delta(Fraction(1), 2, 1)), 4)  # tanh(1/2): total variation
    0.4621
    """
    n = n_mechanisms
    total = Fraction(0)
    for ell in range(i):
        # Numerator and denominator are divided by e^(n epsilon) to avoid huge numbers.
        high = exp_bounds(-ell * epsilon, BITS)[1]
        low = exp_bounds((ell - 2 * i) * epsilon, BITS)[0]
        total += math.comb(n, ell) * (high - low)
    return _up(total / (1 + exp_bounds(-epsilon, BITS)[0]) ** n)


def delta_per_row(epsilon: Fraction, delta: Fraction, max_rows: int) -> Fraction:
    """Return the delta per row with which `max_rows` rows together are (epsilon, delta)-DP.

    This is delta / (1 + e**x + ... + e**((max_rows - 1) x)) with x = epsilon / max_rows, rounded
    down to a dyadic fraction.

    Examples
    --------
    >>> delta_per_row(Fraction(1), Fraction(1, 1000), 1)
    Fraction(1, 1000)
    >>> round(float(delta_per_row(Fraction(1), Fraction(1, 1000), 2)) * 1000, 4)
    0.3775
    """
    if max_rows == 1:
        return delta
    growth = exp_bounds(epsilon, BITS)[1] - 1
    return _down(delta * (exp_bounds(epsilon / max_rows, BITS)[0] - 1) / growth)


def delta_of_rows(epsilon: Fraction, delta: Fraction, rows: int) -> Fraction:
    """Bound the delta of several rows together if each is (epsilon, delta)-DP: group privacy.

    This is delta * (1 + e**epsilon + ... + e**((rows - 1) epsilon)), rounded up.

    Examples
    --------
    >>> delta_of_rows(Fraction(1), Fraction(1, 1000), 1)
    Fraction(1, 1000)
    >>> round(float(delta_of_rows(Fraction(1), Fraction(1, 1000), 2)) * 1000, 3)
    3.718
    """
    if rows == 1 or not delta:
        return delta
    growth = exp_bounds(epsilon * rows, BITS)[1] - 1
    return delta * growth / (exp_bounds(epsilon, BITS)[0] - 1)


def concentrated_share(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho such that rho-zCDP implies (epsilon, delta)-differential privacy.

    By Canonne, Kamath and Steinke (2020), Corollary 13, rho-zCDP implies it if for some alpha > 1
    e^((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1) <= delta.
    The result is the largest rho that satisfies this condition, rounded down.

    Examples
    --------
    >>> round(float(concentrated_share(Fraction(1), Fraction(1, 10**6))), 4)
    0.0244
    """
    return certified_share(epsilon, delta)[0]


def certified_share(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return the rho of `concentrated_share` and an alpha for which `concentrated_implies` holds.

    Examples
    --------
    >>> rho, alpha = certified_share(Fraction(1), Fraction(1, 10**6))
    >>> concentrated_implies(rho, alpha, Fraction(1), Fraction(1, 10**6))
    True
    """
    target = math.log(delta.numerator) - math.log(delta.denominator)

    def holds(rho: float) -> bool:
        return _log_delta(rho, float(epsilon), _best_alpha(rho, float(epsilon))) <= target

    low, _ = bisect(holds, 0.0, float(epsilon) + 1.0, steps=60)
    # Slightly less than the floating-point result, so that the exact check succeeds.
    rho = Fraction(math.floor(low * (1 - 1e-9) * 2**60), 2**60)
    alpha = Fraction(round(_best_alpha(float(rho), float(epsilon)) * _ALPHA_GRID), _ALPHA_GRID)
    if rho <= 0 or not concentrated_implies(rho, alpha, epsilon, delta):
        raise Refused(
            f"epsilon {float(epsilon):g} and delta {float(delta):g} are too small for Gaussian "
            "noise: no rho could be certified. Use larger values."
        )
    return rho, alpha


def is_concentrated(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether exact arithmetic proves that rho-zCDP implies (epsilon, delta)-DP.

    Floats only select the order alpha, so rounding can never make the result wrongly True.

    Examples
    --------
    >>> one, millionth = Fraction(1), Fraction(1, 10**6)
    >>> is_concentrated(Fraction("0.024"), one, millionth)
    True
    >>> is_concentrated(Fraction("0.025"), one, millionth)
    False
    """
    if not 0 < rho <= epsilon:  # larger values of rho imply no useful delta
        return False
    near = _near_best_alpha(
        rho.numerator / rho.denominator, epsilon.numerator / epsilon.denominator
    )
    if _implies_in_integers(rho, near, _ALPHA_GRID, epsilon, delta):
        return True
    found = Fraction(round(_best_alpha(float(rho), float(epsilon)) * _ALPHA_GRID), _ALPHA_GRID)
    alpha = min(found, 1 + _MAX_EXPONENT / (2 * epsilon))
    return concentrated_implies(rho, alpha, epsilon, delta)


def concentrated_implies(
    rho: Fraction, alpha: Fraction, epsilon: Fraction, delta: Fraction
) -> bool:
    """Check the condition of `concentrated_share` for one alpha, with every term rounded up.

    Examples
    --------
    >>> concentrated_implies(Fraction(1, 50), Fraction(1), Fraction(1), Fraction(1, 10**6))
    False
    """
    if alpha <= 1:
        return False
    if _implies_in_integers(rho, alpha.numerator, alpha.denominator, epsilon, delta):
        return True
    exponent = (alpha - 1) * (alpha * rho - epsilon) + alpha * log_upper(1 - 1 / alpha, bits=96)
    # With a larger exponent, e**x exceeds every delta and would not fit in memory.
    return abs(exponent) <= _MAX_EXPONENT and (exp_bounds(exponent, BITS)[1] <= delta * (alpha - 1))


def _implies_in_integers(rho: Fraction, a: int, d: int, epsilon: Fraction, delta: Fraction) -> bool:
    """Check that condition quickly for alpha = a/d; may return False although it holds.

    Replaying a long ledger calls this thousands of times. All numbers are integers over 2**80,
    rounded so that the check is conservative. With z = 1 / (2 alpha - 1), ln(1 - 1/alpha) is
    -2 (z + z**3/3 + z**5/5 + ...), and a partial sum of these terms, each rounded down, is a lower
    bound of the whole sum. The exponent is negative. The check bounds e**-exponent from below: the
    first terms of the series at exponent / 2**k, squared k times.
    """
    if not 9 * d <= 8 * a < d << 40:  # the series converges slowly, or 80 places are too few
        return False
    z = (d << _PLACES) // (2 * a - d)
    square = z * z >> _PLACES
    terms, odd = 0, 1
    while z:
        terms += z // odd
        z = z * square >> _PLACES
        odd += 2
    r, of_rho = rho.numerator, rho.denominator
    e, of_epsilon = epsilon.numerator, epsilon.denominator
    gap = (a - d) * (e * d * of_rho - a * r * of_epsilon)
    minus_exponent = (gap << _PLACES) // (d * d * of_rho * of_epsilon) + 2 * a * terms // d
    if not 0 <= minus_exponent < _MAX_EXPONENT << _PLACES:
        return False
    squarings = max(0, minus_exponent.bit_length() - _PLACES + 8)
    part = minus_exponent >> squarings  # below 2**-8
    low = one = 1 << _PLACES
    for step in _STEPS:
        low = one + (low * part >> _PLACES) // step
    for _ in range(squarings):
        low = low * low >> _PLACES
    return low * delta.numerator * (a - d) >= delta.denominator * d << _PLACES


def _near_best_alpha(rho: float, epsilon: float) -> int:
    """Approximate `_best_alpha` in a few steps, in units of 1/2**20; 0 if floats overflow.

    With u = alpha - 1/2, the logarithm is about -1/u, which yields a quadratic equation; two
    Newton steps correct the rest.
    """
    try:
        alpha = (epsilon + math.sqrt(epsilon * epsilon + 8 * rho)) / (4 * rho) + 0.5
        for _ in range(2):
            slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha)
            alpha -= slope / (2 * rho + 1 / (alpha * (alpha - 1)))
        return round(min(alpha, 1 + _MAX_EXPONENT / (2 * epsilon)) * _ALPHA_GRID)
    except (ArithmeticError, ValueError):
        return 0


def _best_alpha(rho: float, epsilon: float) -> float:
    """Minimize `_log_delta`: find the root of (2 alpha - 1) rho - epsilon + ln(1 - 1/alpha)."""
    low, high = bisect(
        lambda alpha: (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha) < 0,
        1.0 + 1e-9,
        (epsilon + 1) / (2 * max(rho, 1e-300)) + 2,
        steps=100,
    )
    return (low + high) / 2


def _log_delta(rho: float, epsilon: float, alpha: float) -> float:
    return (
        (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)
    )


def _down(value: Fraction) -> Fraction:
    grid = 1 << (64 + math.ceil(1 / value).bit_length())
    return Fraction(value.numerator * grid // value.denominator, grid)


def _up(value: Fraction) -> Fraction:
    if value <= 0:
        return Fraction(0)
    grid = 1 << (64 + math.ceil(1 / value).bit_length())
    return Fraction(-(-value.numerator * grid // value.denominator), grid)
