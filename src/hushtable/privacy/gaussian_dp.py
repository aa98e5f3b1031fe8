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
from hushtable.privacy.normal_bounds import PI_ABOVE, upper_tail_bounds
from hushtable.privacy.rational import exp_bounds

CHOICE_FACTOR = PI_ABOVE / 8
"""A selection whose privacy loss has range e is mu-GDP with mu**2 at most this times e**2."""

_GRID = 1 << 60
_LEAST_TAIL = 1e-250  # below this, floating point cannot search
_MAX_X = 80
"""Tails beyond this are smaller than any delta that can be promised."""


def gaussian_share(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a mu such that mu-GDP implies (epsilon, delta)-differential privacy.

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

    low, high = 0.0, 4 * math.sqrt(float(epsilon)) + 4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
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
