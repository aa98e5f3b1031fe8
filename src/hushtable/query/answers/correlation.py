"""Pearson's correlation from sums over rows.

The correlation is a function of five means: of two numbers, their squares and their product. The
errors of the sums define an ellipsoid of possible means; the interval runs from the smallest to the
largest correlation in it. For small errors this is the usual interval. For large errors, a
first-order interval would use the gradient at a point far from the truth. If a variance may be zero
in the ellipsoid, all correlations are possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats
from hushtable.errors import Refused
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Scope
from hushtable.query.answers.moments import NO_SPREAD, Ask, NumericQuery, answer_of, condition_text
from hushtable.query.answers.row_sums import power, present

_STEPS = 60  # limit of the search for each end; small errors need about a dozen
_ALMOST_ONE = 0.9999


@dataclass(frozen=True)
class _Means:
    """Means of x, y, their squares and their product, with derived quantities."""

    point: Floats

    @property
    def variances(self) -> tuple[float, float]:
        x, y, xx, yy, _ = self.point.tolist()
        return xx - x**2, yy - y**2

    @property
    def correlation(self) -> float:
        x, y, _, _, xy = self.point.tolist()
        vx, vy = self.variances
        return float((xy - x * y) / math.sqrt(vx * vy))

    @property
    def slope(self) -> Floats:
        """Gradient of the correlation with respect to the means."""
        x, y, *_ = self.point.tolist()
        vx, vy = self.variances
        scale, value = math.sqrt(vx * vy), self.correlation
        return np.array([
            value * x / vx - y / scale,
            value * y / vy - x / scale,
            -value / (2 * vx),
            -value / (2 * vy),
            1 / scale,
        ])  # fmt: skip


def correlation(ask: Ask, one: NumericQuery, two: NumericQuery, *, scope: Scope) -> Estimate:
    """Estimate Pearson's correlation of two numbers."""
    there = present(one.name, one.column) * present(two.name, two.column) * one.where
    x, y = power(one.name, one.column, 1) * there, power(two.name, two.column, 1) * there
    found = ask([there, x, y, x * x, y * y, x * y])
    n_rows = max(float(found.values[0]), 1.0)
    at = _Means(found.values[1:] / n_rows)
    flat = [x.name for x, spread in zip((one, two), at.variances, strict=True)
            if spread <= NO_SPREAD]  # fmt: skip
    if flat:
        raise Refused(
            f"{' and '.join(map(repr, flat))} may not vary at all among such rows, so "
            "the correlation is undefined; ask about more rows, or about "
            "another column."
        )
    # Error of a mean: that of its sum, minus the effect of the number of rows.
    lift = np.concatenate([-at.point[:, None], np.eye(5)], axis=1) / n_rows
    errors = found.combined(lift)
    value = float(np.clip(at.correlation, -1.0, 1.0))
    low, high = _ends(at, errors.half_width_squared())
    sampling = (1 - value**2) ** 2 / n_rows
    if scope == "population":
        low, high = _with_sampling(value, (low, high), 1 / n_rows)
    return answer_of(
        errors.combined(at.slope[None, :]),
        value,
        (low, high),
        sampling=sampling,
        scope=scope,
        what=f"correlation of {one.name} and {two.name}",
        notes=(*found.notes, *condition_text((low, high), (-1.0, 1.0))),
    )


def _ends(at: _Means, squares: Floats) -> tuple[float, float]:
    """Return the smallest and the largest correlation in the ellipsoid of possible means.

    On the surface of the ellipsoid, a fixed-point iteration moves to the point in the direction of
    the gradient.
    """
    roots, axes = np.linalg.eigh((squares + squares.T) / 2)
    half_axes: Floats = axes * np.sqrt(np.maximum(roots, 0.0))
    ends = []
    for sign in (-1.0, 1.0):
        best, now = at.correlation, at
        for _ in range(_STEPS):
            toward = half_axes.T @ now.slope
            length = float(np.linalg.norm(toward))
            if length == 0.0:
                break
            now = _Means(at.point + sign * (half_axes @ toward) / length)
            if min(now.variances) <= 0:
                return -1.0, 1.0
            better = sign * now.correlation > sign * best + 1e-9
            best = max(best, now.correlation, key=lambda found: sign * found)
            if not better:
                break
        ends.append(float(np.clip(best, -1.0, 1.0)))
    if _may_be_constant(at, squares):
        return -1.0, 1.0
    return ends[0], ends[1]


def _may_be_constant(at: _Means, squares: Floats) -> bool:
    """Return whether one of the two numbers may be constant, given the errors."""
    x, y, *_ = at.point.tolist()
    for weights, variance in zip(
        ([-2 * x, 0, 1, 0, 0], [0, -2 * y, 0, 1, 0]), at.variances, strict=True
    ):
        along = np.array(weights)
        if float(along @ squares @ along) >= variance**2:
            return True
    return False


def _with_sampling(value: float, ends: tuple[float, float], variance: float) -> tuple[float, float]:
    """Add sampling error, whose variance is constant on Fisher's z scale."""
    middle, *at_ends = (math.atanh(min(max(r, -_ALMOST_ONE), _ALMOST_ONE)) for r in (value, *ends))
    low, high = (
        math.tanh(middle + sign * math.hypot(end - middle, NORMAL * math.sqrt(variance)))
        for sign, end in zip((-1.0, 1.0), at_ends, strict=True)
    )
    return min(low, *ends), max(high, *ends)
