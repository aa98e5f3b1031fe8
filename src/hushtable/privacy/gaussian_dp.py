"""From Gaussian differential privacy to epsilon and delta; proofs are in ``gaussian_dp.md``.

mu-Gaussian differential privacy (Dong, Roth and Su 2022): to tell two neighboring tables apart is
at least as hard as to tell a normal number of mean 0 from one of mean mu, both of variance 1. The
squares of mu add up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from hushtable.errors import Refused
from hushtable.privacy.normal_bounds import PI_ABOVE, upper_tail_bounds
from hushtable.privacy.rational import exp_bounds

CHOICE_FACTOR = PI_ABOVE / 8
"""A choice whose privacy loss spans at most e is mu-GDP with this times e**2 for mu**2, or less."""

_GRID = 1 << 60
_LEAST_TAIL = 1e-250  # below this floats do not search
_MAX_X = 80
"""Tails further out than this are smaller than any delta that can be promised."""


def gaussian_share(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Give a mu such that mu-GDP implies (epsilon, delta)-differential privacy.

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
    # A little less than what floats found, so that the exact check has room.
    mu = Fraction(math.floor(low * (1 - 1e-9) * _GRID), _GRID)
    if not is_gaussian(mu, epsilon, delta):
        raise Refused(
            f"no share of epsilon {float(epsilon):g} and delta {float(delta):g} could be certified "
            "for Gaussian noise; use larger values."
        )
    return mu


@lru_cache(maxsize=1024)
def is_gaussian(mu: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Tell whether mu-GDP was seen to imply (epsilon, delta), every part rounded up.

    It does if and only if Q(epsilon/mu - mu/2) - e**epsilon Q(epsilon/mu + mu/2) <= delta, where Q
    is the upper tail of the normal distribution (Dong, Roth and Su 2022, Corollary 1).

    Examples
    --------
    >>> one, millionth = Fraction(1), Fraction(1, 10**6)
    >>> [is_gaussian(Fraction(mu), one, millionth) for mu in ("0.236", "0.237")]
    [True, False]
    """
    if not 0 < mu <= 4 * (epsilon + 1):  # a larger mu implies nothing that anyone would promise
        return False
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > _MAX_X:
        near = Fraction(_MAX_X)  # the tail from there on is larger
    elif far <= _MAX_X:
        spared = exp_bounds(epsilon, 128)[0] * upper_tail_bounds(far)[0]
        return upper_tail_bounds(near)[1] - spared <= delta
    return upper_tail_bounds(near)[1] <= delta


def _delta(mu: float, epsilon: float) -> float:
    """Give the least delta of mu-GDP at this epsilon, as floats have it."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tail, far_tail = (math.erfc(x / math.sqrt(2)) / 2 for x in (near, far))
    return tail - math.exp(epsilon) * far_tail if far_tail else tail
