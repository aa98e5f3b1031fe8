"""Means, sums, variances and shares from sums over rows, with intervals.

The ratio of two sums has the interval of Fieller (1954): all ratios r for which the first sum minus
r times the second is compatible with zero, given its error. It is valid however large the error of
the denominator is. If the denominator may be zero, only the bounds of the column remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushtable.arrays import Floats
from hushtable.errors import Refused
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Scope
from hushtable.query.answers.functions import FunctionOfColumn
from hushtable.query.answers.row_sums import (
    ONE,
    RowFunction,
    Scale,
    SumEstimates,
    UnitRuler,
    power,
    present,
)

Ask = Callable[[Sequence[RowFunction]], SumEstimates]

TOO_FEW = "Because of noise, there may be no such rows at all: any value is possible."
ALL_POSSIBLE = (
    "The interval covers nearly all possible values, so the release says almost nothing about "
    "this; ask about more rows, or fewer columns."
)
NEARLY_ALL = 0.95
"""An interval that covers at least this share of the possible range counts as covering all."""

NO_SPREAD = 1e-14
"""Upper limit for rounding errors of a zero variance, of numbers scaled to -1 to 1."""


@dataclass(frozen=True)
class NumericQuery:
    """A numeric column under a condition."""

    name: str  # name of the column
    column: Scale  # the column in the schema
    where: RowFunction  # 1 for the rows that count
    text: str = ""  # how the question named it, if it is a function of the column

    @property
    def label(self) -> str:
        """Name of the number in answers."""
        return self.text or self.name

    @property
    def ruler(self) -> UnitRuler:
        """Scale that maps the values to -1 to 1."""
        return UnitRuler.of(self.column)

    def powers(self, most: int) -> list[RowFunction]:
        """Return the powers 0 to `most` of the scaled number, over rows that have a value."""
        return [power(self.name, self.column, k) * self.where for k in range(most + 1)]

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest scaled value that the condition allows."""
        places = self.ruler.places(self.column)[: self.column.n_values]
        left = self.where.factors.get(self.name, np.ones(self.column.size))
        if isinstance(self.column, FunctionOfColumn):
            left = left * ~np.isnan(self.column.numbers)
        there = places[left[: self.column.n_values] > 0]
        return float(there.min()), float(there.max())


def half_width(errors: SumEstimates, sampling: float, scope: Scope) -> float:
    """Return the half-width of the 95% interval of a single sum, given its sampling variance."""
    added = sampling if scope == "population" else 0.0
    return math.sqrt(max(0.0, float(errors.half_width_squared(added)[0, 0])))


def answer_of(
    errors: SumEstimates,
    value: float,
    ends: tuple[float, float],
    *,
    sampling: float,
    scope: Scope,
    what: str = "",
    notes: tuple[str, ...] = (),
    scale: float = 1.0,
) -> Estimate:
    """Return an estimate whose errors are those of a single sum, times a scale."""
    return Estimate(
        value=value,
        low=ends[0],
        high=ends[1],
        privacy_std=scale * math.sqrt(max(0.0, float(errors.privacy[0, 0]))),
        model_std=scale * math.sqrt(max(0.0, float(errors.model[0, 0]))),
        sampling_std=scale * math.sqrt(max(0.0, sampling)),
        scope=scope,
        what=what,
        notes=notes,
        support=errors.supported,
    )


def symmetric(
    errors: SumEstimates, value: float, *, sampling: float, scope: Scope, what: str
) -> Estimate:
    """Return an estimate with a symmetric interval, whose errors are those of a single sum."""
    half = half_width(errors, sampling, scope)
    ends = (value - half, value + half)
    return answer_of(
        errors, value, ends, sampling=sampling, scope=scope, what=what, notes=errors.notes
    )


def condition_text(ends: tuple[float, float], bounds: tuple[float, float]) -> tuple[str, ...]:
    """Return the note for an interval that covers nearly all possible values.

    Examples
    --------
    >>> (
    ...     condition_text((-1.0, 0.98), (-1.0, 1.0)) == (ALL_POSSIBLE,),
    ...     condition_text((0.1, 0.9), (0.0, 1.0)),
    ... )
    (True, ())
    """
    possible = bounds[1] - bounds[0]
    is_all = possible > 0 and ends[1] - ends[0] >= NEARLY_ALL * possible
    return (ALL_POSSIBLE,) if is_all else ()


def fieller(values: Floats, squares: Floats) -> tuple[float, float]:
    """Return Fieller's interval of values[0] / values[1], from the form of squared half-widths.

    It is unbounded if the denominator may be zero or negative.

    Examples
    --------
    >>> fieller(np.array([50.0, 100.0]), np.array([[4.0, 0.0], [0.0, 0.0]]))
    (0.48, 0.52)
    >>> fieller(np.array([50.0, 1.0]), np.diag([4.0, 4.0]))
    (-inf, inf)
    """
    (top, bottom), (a, b), c = values.tolist(), squares[0].tolist(), float(squares[1, 1])
    lead, middle, last = bottom**2 - c, bottom * top - b, top**2 - a
    root = middle**2 - lead * last
    if lead <= 0 or bottom <= 0:
        return -math.inf, math.inf
    half = math.sqrt(max(root, 0.0))
    return (middle - half) / lead, (middle + half) / lead


def between(ends: tuple[float, float], bounds: tuple[float, float]) -> tuple[float, float]:
    """Restrict an interval to the bounds.

    If the whole interval is outside the bounds, the error already exceeds its half-width. The
    result then extends by that half-width from the bound, so its coverage is at least that of
    the given interval.

    Examples
    --------
    >>> between((-0.2, 0.4), (0.0, 1.0)), between((-0.5, -0.1), (0.0, 1.0))
    ((0.0, 0.4), (0.0, 0.2))
    """
    (low, high), (least, most) = ends, bounds
    half = (high - low) / 2
    if high < least:
        return least, min(least + half, most)
    if low > most:
        return max(most - half, least), most
    return max(low, least), min(high, most)


def share(ask: Ask, part: RowFunction, of: RowFunction, *, scope: Scope) -> Estimate:
    """Estimate the share of the rows of one condition that also satisfy another."""
    found = ask([part * of, of])
    return _ratio(
        found,
        bounds=(0.0, 1.0),
        squares=float(found.values[0]),
        scope=scope,
        what=f"share of {found.counted}",
    )


def mean(ask: Ask, numbers: NumericQuery, *, scope: Scope) -> Estimate:
    """Estimate the mean of a column."""
    zero, one, two = numbers.powers(2)
    found = ask([one, zero, two])
    first_two = found.combined(np.eye(3)[:2])
    ruler = numbers.ruler
    answer = _ratio(
        first_two,
        bounds=numbers.range,
        squares=float(found.values[2]),
        scope=scope,
        what=f"mean of {numbers.label}",
    )
    return in_values(answer, ruler.half, ruler.middle)


def _ratio(
    sums: SumEstimates, *, bounds: tuple[float, float], squares: float, scope: Scope, what: str
) -> Estimate:
    """Return the first sum divided by the second; `squares` is the sum of squared terms."""
    top, bottom = sums.values.tolist()
    # Clip infeasible second moments.
    largest = max(abs(bounds[0]), abs(bounds[1]))
    n_rows = max(bottom, 1.0)
    squares = min(max(squares, top**2 / n_rows), largest**2 * n_rows)
    spread = np.array([[squares, top], [top, n_rows]])
    sampling = spread if scope == "population" else 0.0 * spread
    low, high = between(fieller(sums.values, sums.half_width_squared(sampling)), bounds)
    notes = sums.notes
    if bottom <= 0:
        notes, (low, high) = (*notes, TOO_FEW), bounds
    else:
        notes = (*notes, *condition_text((low, high), bounds))
    value = min(max(top / bottom, low), high) if bottom > 0 else math.nan
    at = np.array([[1.0, -value]]) if bottom > 0 else np.array([[1.0, 0.0]])
    return answer_of(
        sums.combined(at),
        value,
        (low, high),
        sampling=(at @ spread @ at.T).item(),
        scale=1 / n_rows,
        scope=scope,
        what=what,
        notes=notes,
    )


def in_values(answer: Estimate, scale: float, shift: float = 0.0) -> Estimate:
    """Convert an answer from scaled numbers to values."""
    return replace(
        answer,
        value=shift + scale * answer.value,
        low=shift + scale * answer.low,
        high=shift + scale * answer.high,
        privacy_std=scale * answer.privacy_std,
        model_std=scale * answer.model_std,
        sampling_std=scale * answer.sampling_std,
    )


def exponential(answer: Estimate, what: str) -> Estimate:
    """Convert the mean of a logarithm to a geometric mean."""
    value, low, high = (math.exp(min(x, 700.0)) for x in (answer.value, answer.low, answer.high))
    scaled = in_values(answer, value) if math.isfinite(value) else answer
    return replace(scaled, value=value, low=low, high=high, what=what)


def total(ask: Ask, numbers: NumericQuery, *, scope: Scope) -> Estimate:
    """Estimate the total of a column."""
    found = ask([*numbers.powers(2), ONE])
    ruler = numbers.ruler
    weights = np.array([[ruler.middle, ruler.half, 0.0, 0.0]])
    sums = found.combined(weights)
    n_rows = max(float(found.values[3]), 1.0)
    middle, half = ruler.middle, ruler.half
    squares = float(np.array([middle**2, 2 * middle * half, half**2, 0.0]) @ found.values)
    sampling = max(0.0, squares - float(sums.values[0]) ** 2 / n_rows)
    reach = half_width(sums, sampling, scope)
    value = float(sums.values[0])
    low, high = value - reach, value + reach
    places = [middle + half * end for end in numbers.range]
    if places[0] >= 0:
        value, low = max(value, 0.0), max(low, 0.0)
        high = max(high, value)
    there = max(float(found.values[0]), 0.0)
    return answer_of(
        sums,
        value,
        (low, high),
        sampling=sampling,
        scope=scope,
        what=f"total of {numbers.label}",
        notes=(*found.notes, *condition_text((low, high), (there * places[0], there * places[1]))),
    )


def variance(ask: Ask, numbers: NumericQuery, *, scope: Scope) -> Estimate:
    """Estimate the variance of a column among the people in the table (denominator n).

    Given the mean, it is the mean squared deviation. The error of the mean has no effect to first
    order. To second order, squared deviations around a mean with error e are too small by e^2 on
    average; the value and the upper end allow for this.
    """
    found = ask(numbers.powers(4))
    n_rows, first = float(found.values[0]), float(found.values[1])
    center = first / n_rows if n_rows > 0 else 0.0
    center = min(max(center, numbers.range[0]), numbers.range[1])
    weights = np.array([[center**2, -2 * center, 1.0, 0.0, 0.0], [1.0, 0, 0, 0, 0]])
    sums = found.combined(weights)
    of_mean = np.array([[-center, 1.0, 0.0, 0.0, 0.0]])
    noise = found.combined(of_mean)
    rows = max(n_rows, 1.0)
    second_order = float(noise.privacy[0, 0]) / rows**2
    fourth = float(np.array([center**4, -4 * center**3, 6 * center**2, -4 * center, 1.0])
                   @ found.values)  # fmt: skip
    low_end, high_end = numbers.range
    most = ((high_end - low_end) / 2) ** 2
    answer = _ratio(
        sums,
        bounds=(0.0, most),
        squares=max(fourth, 0.0),
        scope=scope,
        what=f"variance of {numbers.label}",
    )
    # Squared deviations are too small by the squared error of the mean: by its expectation for the
    # value, and by 0 to its squared half-width for the interval.
    high = min(answer.high + (half_width(noise, 0.0, "people") / rows) ** 2, most)
    value = min(max(answer.value + second_order, answer.low), high)
    notes = (*answer.notes, *condition_text((answer.low, high), (0.0, most)))
    answer = replace(answer, value=value, high=high, notes=tuple(dict.fromkeys(notes)))
    return in_values(answer, numbers.ruler.half**2)


# Pearson's correlation from sums over rows.
#
# The correlation is a function of five means: of two numbers, their squares and their product. The
# errors of the sums define an ellipsoid of possible means; the interval runs from the smallest to
# the largest correlation in it. For small errors this is the usual interval. For large errors, a
# first-order interval would use the gradient at a point far from the truth. If a variance may be
# zero in the ellipsoid, all correlations are possible.

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
    flat = [x.label for x, spread in zip((one, two), at.variances, strict=True)
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
        what=f"correlation of {one.label} and {two.label}",
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
