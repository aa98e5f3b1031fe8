"""Hockey-stick divergences of count mechanisms, bounded by fractions without floats."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import cache

from exact_masses import mass_bounds
from hushtable.privacy.mechanisms.single_counts import (
    CountMechanism,
    FractionBounds,
    OneSidedGeometric,
    ThresholdMatrix,
)
from hushtable.privacy.rational import exp_bounds

BITS = 256

ROUNDING = 1 + Fraction(1, 2**180)
"""Largest total width of all bounds, which may be added to a divergence."""

BEYOND = 3
"""Number of published counts above both private ones that are computed one by one; above, the two
distributions fall by the same factor, so the rest is a geometric series."""


def hockey_stick(
    mechanism: CountMechanism,
    count: int,
    other: int,
    *,
    epsilon: Fraction | None = None,
    merge: Callable[[int], Hashable] = lambda published: published,
) -> Fraction:
    """Bound the sum of max(0, P - e**epsilon Q) over all outcomes from above.

    P and Q are the distributions of published counts for `count` and `other`; `merge` coarsens
    the outcomes first.
    """
    top = max(count, other) + BEYOND
    if isinstance(mechanism, OneSidedGeometric):
        top = max(count, other) + mechanism.offset  # nothing is published above
    one, two = (_merged(_masses(mechanism, c, top), merge) for c in (count, other))
    factor, _ = exp_bounds(mechanism.epsilon if epsilon is None else epsilon, BITS)
    nothing = Fraction(0), Fraction(0)
    return sum(
        (max(Fraction(0), one[o][1] - factor * two.get(o, nothing)[0]) for o in one), Fraction(0)
    )


@cache
def _masses(mechanism: CountMechanism, count: int, top: int) -> dict[int, FractionBounds]:
    """Bound the probability of every published count; `top` represents all counts from there on."""
    first = 0
    if isinstance(mechanism, OneSidedGeometric):
        first = mechanism.offset + mechanism.k - 1
    elif isinstance(mechanism, ThresholdMatrix):
        first = mechanism.k
    top = max(top, first + 1)
    published = sorted({0, *range(first, top + 1)})
    table = {j: mass_bounds(mechanism, count, j, bits=BITS) for j in published}
    if not isinstance(mechanism, OneSidedGeometric):
        rate = mechanism.epsilon / (2 if isinstance(mechanism, ThresholdMatrix) else 1)
        fall_low, fall_high = exp_bounds(-rate, BITS)
        low, high = table[top]
        table[top] = low / (1 - fall_low), high / (1 - fall_high)
    return {j: bounds for j, bounds in table.items() if bounds[1] > 0}


def _merged(
    table: dict[int, FractionBounds], merge: Callable[[int], Hashable]
) -> dict[Hashable, FractionBounds]:
    merged: dict[Hashable, FractionBounds] = {}
    for outcome, (low, high) in table.items():
        before = merged.get(merge(outcome), (Fraction(0), Fraction(0)))
        merged[merge(outcome)] = before[0] + low, before[1] + high
    return merged
