"""Probabilities of published counts, bounded by fractions without floats."""

from __future__ import annotations

from fractions import Fraction

from hushtable.privacy.mechanisms.single_counts import (
    BITS,
    CountMechanism,
    OneSidedGeometric,
    ThresholdMatrix,
)
from hushtable.privacy.noise.distributions import FractionBounds, laplace_tail_bounds
from hushtable.privacy.rational import exp_bounds


def mass_bounds(
    mechanism: CountMechanism, count: int, published: int, *, bits: int = BITS
) -> FractionBounds:
    """Bound the probability that a count is published as another."""
    if isinstance(mechanism, OneSidedGeometric):
        return _one_sided(mechanism, count, published, bits)
    if isinstance(mechanism, ThresholdMatrix):
        return _matrix(mechanism, count, published, bits)
    return _clamped_laplace(count, published, 0, mechanism.epsilon, bits)


def _one_sided(tight: OneSidedGeometric, count: int, published: int, bits: int) -> FractionBounds:
    above, n = count - (tight.k - 1), tight.n_head
    if above <= 0:
        return _certain(published == 0)
    if published == 0:
        return _suppressed(tight, above, bits)
    lag = count + tight.offset - published
    if not 1 <= lag <= above:
        return _certain(False)
    fall_low, fall_high = exp_bounds(-tight.epsilon, bits)
    low, high = exp_bounds(-tight.epsilon * (n - lag if lag <= n else lag - n - 1), bits)
    if lag > n:
        tail = 1 - tight.head_mass
        return tail * (1 - fall_high) * low, tail * (1 - fall_low) * high
    outside_low, outside_high = exp_bounds(-tight.epsilon * n, bits)
    return (
        tight.head_mass * (1 - fall_high) / (1 - outside_low) * low,
        tight.head_mass * (1 - fall_low) / (1 - outside_high) * high,
    )


def _suppressed(tight: OneSidedGeometric, above: int, bits: int) -> FractionBounds:
    n, head = tight.n_head, tight.head_mass
    low, high = exp_bounds(-tight.epsilon * abs(above - n), bits)
    if above >= n:
        return (1 - head) * low, (1 - head) * high
    # P[N <= above] = head (r**(n - above) - r**n) / (1 - r**n)
    out_low, out_high = exp_bounds(-tight.epsilon * n, bits)
    return (
        1 - head * (high - out_low) / (1 - out_high),
        1 - head * (low - out_high) / (1 - out_low),
    )


def _matrix(paper: ThresholdMatrix, count: int, published: int, bits: int) -> FractionBounds:
    if count < paper.k:
        return _certain(published == 0)
    w_low, w_high = _released(paper, count, bits)
    if published == 0:
        return 1 - w_high, 1 - w_low
    if published < paper.k:
        return _certain(False)
    low, high = _clamped_laplace(count, published, paper.k, paper.epsilon / 2, bits)
    return w_low * low, w_high * high


def _released(paper: ThresholdMatrix, count: int, bits: int) -> FractionBounds:
    w = paper.turn_mass
    if count <= paper.turn:
        low, high = exp_bounds(-paper.epsilon * (paper.turn - count) / 2, bits)
        return w * low, w * high
    low, high = exp_bounds(-paper.epsilon * (count - paper.turn), bits)
    return 1 - (1 - w) * high, 1 - (1 - w) * low


def _clamped_laplace(
    count: int, published: int, floor: int, rate: Fraction, bits: int
) -> FractionBounds:
    if published < floor:
        return _certain(False)
    if published == floor:
        return laplace_tail_bounds(rate, abs(count - published), bits)
    r_low, r_high = exp_bounds(-rate, bits)
    low, high = exp_bounds(-rate * abs(count - published), bits)
    return low * (1 - r_high) / (1 + r_high), high * (1 - r_low) / (1 + r_low)


def _certain(event: bool) -> FractionBounds:
    return Fraction(event), Fraction(event)
