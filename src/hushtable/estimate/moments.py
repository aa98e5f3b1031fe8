"""Means, sums, variances, shares and quantiles from sums over rows, each with its interval.

A ratio of two sums has the interval of Fieller (1954): all ratios r for which the first sum less r
times the second is not farther from zero than its error allows. It holds however large the error
of the denominator is; where that may be zero, all that is left are the bounds of the column. A
quantile is found the same way: a value is one if neither too few nor too many rows are below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.base import Estimate, Scope
from hushtable.estimate.quantiles import GAP_REACH, NORMAL, between_ends
from hushtable.estimate.row_functions import (
    ONE,
    Floats,
    RowFunction,
    Scale,
    UnitRuler,
    numbers_of,
    power,
    present,
)
from hushtable.estimate.sums import Sums
from hushtable.schema import Integer, Number

Ask = Callable[[Sequence[RowFunction]], Sums]

TOO_FEW = "The release leaves open whether there are such rows at all: any value is possible."
ALL_POSSIBLE = (
    "The interval is nearly all that could be by what is public: the release says next to nothing "
    "about this; ask about more rows, or fewer columns."
)
NEARLY_ALL = 0.95
"""Share of what is possible from which on an interval is said to be all of it."""

NO_SPREAD = 1e-14
"""What rounding makes of a variance that is zero, of places between -1 and 1."""

_ALL_THRESHOLDS = 128  # values of a column that are all tried as a quantile
_FEW_THRESHOLDS = 33  # of a column with very many values, before it is known where to look
_MAX_NUMBERS = 8_000_000  # thresholds times values


@dataclass(frozen=True)
class Numbers:
    """A numeric column, under a condition.

    Parameters
    ----------
    name : str
        The column.
    column : Integer, Number, Date, Timestamp or Time
        As the schema has it.
    where : RowFunction
        1 for the rows that count.
    """

    name: str
    column: Scale
    where: RowFunction

    @property
    def ruler(self) -> UnitRuler:
        """Where its values lie between -1 and 1."""
        return UnitRuler.of(self.column)

    def powers(self, most: int) -> list[RowFunction]:
        """Give the powers from 0 on, over rows that have a value."""
        return [power(self.name, self.column, k) * self.where for k in range(most + 1)]

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest place that the condition leaves."""
        places = self.ruler.places(self.column)[: self.column.n_values]
        left = self.where.factors.get(self.name, np.ones(self.column.size))
        there = places[left[: self.column.n_values] > 0]
        return float(there.min()), float(there.max())


def reach_of(errors: Sums, sampling: float, scope: Scope) -> float:
    """Give half the 95 % interval of a single sum; what sampling adds is given."""
    added = sampling if scope == "population" else 0.0
    return math.sqrt(max(0.0, float(errors.reach_squared(added)[0, 0])))


def answer_of(
    errors: Sums,
    value: float,
    ends: tuple[float, float],
    *,
    sampling: float,
    scope: Scope,
    what: str,
    notes: tuple[str, ...],
    scale: float = 1.0,
) -> Estimate:
    """Give a value with its interval, whose error is that of a single sum, times a scale."""
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
    )


def said_of(ends: tuple[float, float], bounds: tuple[float, float]) -> tuple[str, ...]:
    """Give the note that an interval needs which leaves hardly anything out.

    Examples
    --------
    >>> said_of((-1.0, 0.98), (-1.0, 1.0)) == (ALL_POSSIBLE,), said_of((0.1, 0.9), (0.0, 1.0))
    (True, ())
    """
    possible = bounds[1] - bounds[0]
    is_all = possible > 0 and ends[1] - ends[0] >= NEARLY_ALL * possible
    return (ALL_POSSIBLE,) if is_all else ()


def fieller(values: Floats, squares: Floats) -> tuple[float, float]:
    """Give the interval of values[0] / values[1], from the squares of half-intervals.

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
    """Cut an interval to what is possible.

    Noise may put all of it outside. Then the truth is off by more than its half already, and is
    looked for as far from the bound as the interval reached from its middle: it holds no less often
    than the one that was given.

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


def count_of(
    sums: Sums, place: int, n_rows: float, *, scope: Scope, reach: float = 1.0
) -> Estimate:
    """Read one of several sums as a count, with its interval stretched by a factor."""
    raw = float(sums.values[place])
    value = max(0.0, raw)
    sampling = value * max(0.0, 1.0 - value / n_rows)
    added = sampling + 1.0 if scope == "population" else 0.0
    half = reach * math.sqrt(
        sums.privacy_reach**2 * float(sums.privacy[place, place])
        + sums.model_reach**2 * float(sums.model[place, place])
        + NORMAL**2 * added
    )
    return Estimate(
        value=value,
        low=max(0.0, raw - half),
        high=value + half,  # around what can be: an answer below zero is not sure of zero
        privacy_std=math.sqrt(float(sums.privacy[place, place])),
        model_std=math.sqrt(float(sums.model[place, place])),
        sampling_std=math.sqrt(sampling),
        scope=scope,
        what=sums.counted,
        notes=sums.notes,
    )


def share(ask: Ask, part: RowFunction, of: RowFunction, *, scope: Scope) -> Estimate:
    """Give the share of the rows of one condition that satisfy another, too."""
    found = ask([part * of, of])
    return _ratio(
        found,
        bounds=(0.0, 1.0),
        squares=float(found.values[0]),
        scope=scope,
        what=f"share of {found.counted}",
    )


def mean(ask: Ask, numbers: Numbers, *, scope: Scope) -> Estimate:
    """Give the mean of a column."""
    zero, one, two = numbers.powers(2)
    found = ask([one, zero, two])
    first_two = found.combined(np.eye(3)[:2])
    ruler = numbers.ruler
    answer = _ratio(
        first_two,
        bounds=numbers.range,
        squares=float(found.values[2]),
        scope=scope,
        what=f"mean of {numbers.name}",
    )
    return in_values(answer, ruler.half, ruler.middle)


def _ratio(
    sums: Sums, *, bounds: tuple[float, float], squares: float, scope: Scope, what: str
) -> Estimate:
    """Divide the first sum by the second; `squares` is the sum of squares of what is added up."""
    top, bottom = sums.values.tolist()
    # What noise made impossible of the squares is taken as what is possible.
    largest = max(abs(bounds[0]), abs(bounds[1]))
    n_rows = max(bottom, 1.0)
    squares = min(max(squares, top**2 / n_rows), largest**2 * n_rows)
    spread = np.array([[squares, top], [top, n_rows]])
    sampling = spread if scope == "population" else 0.0 * spread
    low, high = between(fieller(sums.values, sums.reach_squared(sampling)), bounds)
    notes = sums.notes
    if bottom <= 0:
        notes, (low, high) = (*notes, TOO_FEW), bounds
    else:
        notes = (*notes, *said_of((low, high), bounds))
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
    """Write an answer about places as one about values."""
    return replace(
        answer,
        value=shift + scale * answer.value,
        low=shift + scale * answer.low,
        high=shift + scale * answer.high,
        privacy_std=scale * answer.privacy_std,
        model_std=scale * answer.model_std,
        sampling_std=scale * answer.sampling_std,
    )


def total(ask: Ask, numbers: Numbers, *, scope: Scope) -> Estimate:
    """Give the sum of a column."""
    found = ask([*numbers.powers(2), ONE])
    ruler = numbers.ruler
    weights = np.array([[ruler.middle, ruler.half, 0.0, 0.0]])
    sums = found.combined(weights)
    n_rows = max(float(found.values[3]), 1.0)
    middle, half = ruler.middle, ruler.half
    squares = float(np.array([middle**2, 2 * middle * half, half**2, 0.0]) @ found.values)
    sampling = max(0.0, squares - float(sums.values[0]) ** 2 / n_rows)
    reach = reach_of(sums, sampling, scope)
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
        what=f"sum of {numbers.name}",
        notes=(*found.notes, *said_of((low, high), (there * places[0], there * places[1]))),
    )


def variance(ask: Ask, numbers: Numbers, *, scope: Scope) -> Estimate:
    """Give the variance of a column, as that of the people in the table (divided by their number).

    Given the mean, it is the mean of the squared distances. To first order the error of the mean
    does not matter; to second order, squares around a mean that is off by e are e^2 too small on
    average, which the value and the upper end allow for.
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
        what=f"variance of {numbers.name}",
    )
    # By the squared error of the mean the squares are too small: by its mean for the value, and by
    # anything from nothing to the square of its reach for the interval.
    high = min(answer.high + (reach_of(noise, 0.0, "people") / rows) ** 2, most)
    value = min(max(answer.value + second_order, answer.low), high)
    notes = (*answer.notes, *said_of((answer.low, high), (0.0, most)))
    answer = replace(answer, value=value, high=high, notes=tuple(dict.fromkeys(notes)))
    return in_values(answer, numbers.ruler.half**2)


def quantile(ask: Ask, numbers: Numbers, probability: float, *, scope: Scope) -> Estimate:
    """Give the least value that at least this share of the rows do not exceed.

    A value is not it if noise apart too few rows are at or below it, or too many below it. The two
    are as many rows apart as have the value: where these are many, one of them alone can go wrong,
    and `between_ends` reaches less far.
    """
    column, name = numbers.column, numbers.name
    left = numbers.where.factors.get(name, np.ones(column.size))[: column.n_values] > 0
    there = np.flatnonzero(left)
    base = present(name, column) * numbers.where
    notes: tuple[str, ...] = ()
    scales: list[tuple[float, float, float]] = []
    known_rows = 0.0
    codes = np.arange(column.size)
    at_once = max(1, _MAX_NUMBERS // column.size)

    known: dict[int, tuple[float, ...]] = {}

    def surplus(places: NDArray[np.int64]) -> Surplus:
        """Give how many rows too many are at or below each value, and how far that may be off."""
        new = [place for place in places.tolist() if place not in known]
        for start in range(0, len(new), at_once):
            known.update(_surplus(new[start : start + at_once]))
        return Surplus(*np.array([known[place] for place in places.tolist()]).T)

    def _surplus(places: list[int]) -> dict[int, tuple[float, ...]]:
        nonlocal notes, known_rows
        functions = []
        for code in there[places].tolist():
            factor = np.where(codes <= code, 1.0 - probability, -probability)
            functions.append(RowFunction({name: factor}) * base)
        functions.append(base)
        found = ask(functions)
        notes = found.notes
        known_rows = float(found.values[-1])
        n_rows = max(known_rows, 1.0)
        sampling = probability * (1 - probability) * n_rows
        scales.append(
            (
                float(np.median(found.privacy.diagonal()[:-1])),
                float(np.median(found.model.diagonal()[:-1])),
                sampling,
            )
        )
        parts = [part[:-1] for part in (found.values, *_errors(found, sampling, scope))]
        return dict(zip(places, zip(*parts, strict=True), strict=True))

    def mass(blocks: Sequence[tuple[int, int]]) -> Floats:
        """Give how many rows at least have one of the values after the first, up to the last."""
        least: list[float] = []
        for start in range(0, len(blocks), at_once):
            functions = []
            for first, last in blocks[start : start + at_once]:
                inside = (codes > (there[first] if first >= 0 else -1)) & (codes <= there[last])
                functions.append(RowFunction({name: inside.astype(np.float64)}) * base)
            found = ask(functions)
            drawn, model = _errors(found, np.maximum(found.values, 0.0), scope)
            least += (
                found.values - np.hypot(GAP_REACH * drawn, GAP_REACH / NORMAL * model)
            ).tolist()
        return np.array(least)

    first, last, value = _crossing(surplus, mass, len(there))
    if known_rows <= 0:
        what = name_of_quantile(probability, name)
        return no_quantile(column, there, what=what, scope=scope, notes=notes)
    low_code, high_code, code = there[[first, last, value]].tolist()
    # To a standard deviation of rows belongs one of values: the reach tells how much.
    privacy, model, sampling = scales[-1]
    values = value_at(column, (code, low_code, high_code))
    all_of_it = privacy + model + (sampling if scope == "population" else 0.0)
    per_row = (values[2] - values[1]) / (2 * NORMAL) / math.sqrt(all_of_it) if all_of_it else 0.0
    return Estimate(
        value=values[0],
        low=values[1],
        high=values[2],
        privacy_std=per_row * math.sqrt(privacy),
        model_std=per_row * math.sqrt(model),
        sampling_std=per_row * math.sqrt(sampling),
        scope=scope,
        what=name_of_quantile(probability, name),
        notes=(*notes, *said_of_codes(column, there, (low_code, high_code))),
    )


def no_quantile(
    column: Scale, possible: NDArray[np.int64], *, what: str, scope: Scope, notes: tuple[str, ...]
) -> Estimate:
    """Stand for a quantile of rows of which it is open whether there are any."""
    low, high = value_at(column, possible[[0, -1]].tolist())
    return Estimate(
        value=math.nan,
        low=low,
        high=high,
        privacy_std=(high - low) / (2 * NORMAL),
        model_std=0.0,
        scope=scope,
        what=what,
        notes=(*notes, TOO_FEW),
    )


def said_of_codes(
    column: Scale, possible: NDArray[np.int64], ends: tuple[int, int]
) -> tuple[str, ...]:
    """Give the note that an interval of values needs which leaves hardly anything out."""
    bounds = numbers_of(column, possible[[0, -1]])
    low, high = numbers_of(column, np.array(ends))
    return said_of((float(low), float(high)), (float(bounds[0]), float(bounds[1])))


def value_at(column: Scale, codes: Sequence[int]) -> list[float]:
    """Give the values behind codes, numbers as they are written."""
    if isinstance(column, Integer | Number):
        return [float(column.value(code) or 0) for code in codes]
    return [float(second) for second in numbers_of(column, np.asarray(codes))]


def name_of_quantile(probability: float, name: str) -> str:
    """Say what quantile it is."""
    return f"median of {name}" if probability == 0.5 else f"quantile {probability:g} of {name}"


@dataclass(frozen=True, eq=False)
class Surplus:
    """How many rows too many are at or below values, and how far that may be off.

    Parameters
    ----------
    values : array
        Rows, less those that a quantile leaves there.
    drawn : array
        Standard deviation from noise and from sampling.
    model : array
        Half of the interval of what the release leaves open. It lies on one side as it happens, so
        it is never reached for less.
    """

    values: Floats
    drawn: Floats
    model: Floats

    def reach(self, deviations: Floats | float) -> Floats:
        """Say how far values may be off; half a row more, since counts are whole."""
        return np.asarray(np.hypot(deviations * self.drawn, self.model) + 0.5)


def _errors(found: Sums, sampling: Floats | float, scope: Scope) -> tuple[Floats, Floats]:
    """Give the standard deviation of what is drawn, and the half-interval of what is not known."""
    drawn = (found.privacy_reach / NORMAL) ** 2 * found.privacy.diagonal()
    if scope == "population":
        drawn = drawn + sampling
    model = found.model_reach**2 * found.model.diagonal()
    return np.sqrt(np.maximum(drawn, 0.0)), np.sqrt(np.maximum(model, 0.0))


def _crossing(
    surplus: Callable[[NDArray[np.int64]], Surplus],
    mass: Callable[[Sequence[tuple[int, int]]], Floats],
    size: int,
) -> tuple[int, int, int]:
    """Find the first and the last place that may be the crossing, and the likeliest."""
    n_first = min(size, max(_FEW_THRESHOLDS, min(_ALL_THRESHOLDS, _MAX_NUMBERS // size)))
    places = np.unique(np.linspace(0, size - 1, n_first).astype(np.int64))
    while True:
        at_places = surplus(places)
        found = at_places.values
        may_be = _not_rejected(places, at_places, mass)
        hits = np.flatnonzero(may_be)
        first, last = int(hits[0]), int(hits[-1])
        # Between the last place that is too low for sure and the first, nothing was tried.
        gap_low = places[first] - (places[first - 1] if first else -1)
        gap_high = places[last] - (places[last - 1] if last else -1)
        if max(gap_low, gap_high) <= 1:
            break
        more = [places]
        for at in {first, last, (first + last) // 2}:
            start = int(places[at - 1]) if at else 0
            more.append(np.linspace(start, places[at], 9).astype(np.int64))
        finer = np.unique(np.concatenate(more))
        if len(finer) == len(places):
            break
        places = finer
    # Noise makes the cumulated counts wobble: the middle between the first and the last crossing.
    above = np.flatnonzero(found >= 0)
    below = np.flatnonzero(found < 0)
    up = int(above[0]) if len(above) else len(places) - 1
    down = min(int(below[-1]) + 1, len(places) - 1) if len(below) else 0
    middle = min(max((up + down) // 2, first), last)
    return int(places[first]), int(places[last]), int(places[middle])


def _not_rejected(
    places: NDArray[np.int64],
    at: Surplus,
    mass: Callable[[Sequence[tuple[int, int]]], Floats],
) -> NDArray[np.bool_]:
    """Say which places may be the crossing, or have it among the values after the one before."""
    before = Surplus(*(np.append(0.0, part[:-1]) for part in (at.values, at.drawn, at.model)))
    before.values[0] = -np.inf  # nobody is below the first

    def kept(deviations: Floats | float) -> NDArray[np.bool_]:
        enough = at.values + at.reach(deviations) >= 0
        return np.asarray(enough & (before.values - before.reach(deviations) < 0))

    may_be = kept(between_ends(0.0))
    hits = np.flatnonzero(may_be)
    if len(hits):
        blocks = [(int(places[hit - 1]) if hit else -1, int(places[hit])) for hit in hits.tolist()]
        spreads = [np.hypot(one.drawn, one.model / NORMAL)[hits] for one in (at, before)]
        widest = np.maximum(np.maximum(*spreads), 1e-12)
        gaps = np.floor(100 * np.clip(mass(blocks) / widest, 0.0, 9.0)) / 100
        deviations = np.full(len(places), between_ends(0.0))
        deviations[hits] = [between_ends(float(gap)) for gap in gaps]
        may_be &= kept(deviations)
    may_be[-1] |= not may_be.any()
    return may_be
