"""Quantiles of a column from sums over rows, with intervals.

The interval inverts a test, like Fieller's interval of a ratio (`moments`): it contains all values
for which neither too few nor too many rows are below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.numeric import GAP_RANGE, NORMAL, between_ends
from hushtable.query.answers.estimator import Estimate, Scope, Support
from hushtable.query.answers.moments import TOO_FEW, Ask, NumericQuery, condition_text
from hushtable.query.answers.row_sums import RowFunction, Scale, SumEstimates, numbers_of, present
from hushtable.schema import Integer, Number

_ALL_THRESHOLDS = 128  # columns with at most this many values are searched completely
_FEW_THRESHOLDS = 33  # first grid for a column with very many values
_NARROWER = 0.75  # share of its half-width below which another end is clearly narrower
_MAX_NUMBERS = 8_000_000  # limit of thresholds times values


def quantile(
    ask: Ask,
    numbers: NumericQuery,
    probability: float,
    *,
    scope: Scope,
    by_bin: tuple[Ask, Integers] | None = None,
) -> Estimate:
    """Estimate the smallest value that at least this share of the rows do not exceed.

    A value is rejected if, beyond the noise, too few rows are at or below it or too many are below
    it. The two counts differ by the rows that have the value. If these are many, only one of the
    two tests can fail, and `between_ends` returns a smaller critical value.

    `by_bin` answers for functions of the bins of the column, and has the bin of each code. All rows
    of a bin may have the same value, so only bins are tested, and the interval consists of bins.
    """
    column, name = numbers.column, numbers.name
    left = numbers.where.factors.get(name, np.ones(column.size))[: column.n_values] > 0
    there = np.flatnonzero(left)
    base = present(name, column) * numbers.where
    codes = np.arange(column.size)
    ends = np.arange(len(there))  # the last position of each bin
    if by_bin is not None:
        ends = np.flatnonzero(np.diff(by_bin[1][there], append=-1))
        ask, base, codes = _binned(ask, base, name, by_bin)
    below = _RowsBelow(ask, base, name, codes, codes[there[ends]], probability, scope)
    first, last, value, part = _crossing(below, len(ends))
    what = name_of_quantile(probability, name)
    if below.n_rows <= 0:
        return no_quantile(column, there, what=what, scope=scope, notes=below.notes)
    starts = np.append(0, ends[:-1] + 1)
    inside = starts[value] + round(part * float(ends[value] - starts[value]))
    low_code, high_code, code = there[[starts[first], ends[last], inside]].tolist()
    # Convert errors in rows to errors in values, by the width of the interval.
    privacy, model, sampling = below.variances
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
        what=what,
        notes=(*below.notes, *codes_in_words(column, there, (low_code, high_code))),
        support=below.support,
    )


@dataclass(eq=False)
class _RowsBelow:
    """Estimates of the number of rows at or below limits, under a condition."""

    ask: Ask
    base: RowFunction  # the condition
    name: str
    codes: Integers  # class of each code in functions of the column
    limits: Integers  # the limits, as classes
    probability: float
    scope: Scope
    n_rows: float = 0.0
    notes: tuple[str, ...] = ()
    support: Support = "measured"
    variances: tuple[float, float, float] = (0.0, 0.0, 0.0)  # privacy, model, sampling: medians
    known: dict[int, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def _classes(self) -> Integers:
        return np.arange(int(self.codes.max()) + 1)

    @property
    def _at_once(self) -> int:
        return max(1, _MAX_NUMBERS // len(self._classes))

    def surplus(self, places: Integers) -> Surplus:
        """Return the surplus of rows at or below each limit, with its error."""
        new = [place for place in places.tolist() if place not in self.known]
        for start in range(0, len(new), self._at_once):
            self._add(new[start : start + self._at_once])
        return Surplus(*np.array([self.known[place] for place in places.tolist()]).T)

    def _add(self, places: list[int]) -> None:
        share = self.probability
        functions = [
            RowFunction({self.name: np.where(self._classes <= limit, 1 - share, -share)})
            for limit in self.limits[places].tolist()
        ]
        found = self.ask([*(one * self.base for one in functions), self.base])
        self.notes, self.support = found.notes, found.supported
        self.n_rows = float(found.values[-1])
        sampling = share * (1 - share) * max(self.n_rows, 1.0)
        privacy, model = (
            float(np.median(part.diagonal()[:-1])) for part in (found.privacy, found.model)
        )
        self.variances = privacy, model, sampling
        parts = [part[:-1] for part in (found.values, *_errors(found, sampling, self.scope))]
        self.known |= dict(zip(places, zip(*parts, strict=True), strict=True))

    def least(self, blocks: Sequence[tuple[int, int]]) -> Floats:
        """Return lower bounds of the number of rows in ranges (first excluded, last included)."""
        least: list[float] = []
        for start in range(0, len(blocks), self._at_once):
            functions = []
            for first, last in blocks[start : start + self._at_once]:
                low, high = self.limits[first] if first >= 0 else -1, self.limits[last]
                inside = (self._classes > low) & (self._classes <= high)
                functions.append(RowFunction({self.name: inside.astype(np.float64)}) * self.base)
            found = self.ask(functions)
            drawn, model = _errors(found, np.maximum(found.values, 0.0), self.scope)
            least += (
                found.values - np.hypot(GAP_RANGE * drawn, GAP_RANGE / NORMAL * model)
            ).tolist()
        return np.array(least)


def _binned(
    ask: Ask, base: RowFunction, name: str, by_bin: tuple[Ask, Integers]
) -> tuple[Ask, RowFunction, Integers]:
    """Return how to ask by bin, unless a condition splits bins; the condition; and the classes."""
    binned, bins = by_bin
    first = np.unique(bins, return_index=True)[1]
    factor = base.factors.get(name, np.ones(len(bins)))
    if name in base.tied or (factor[first][bins] != factor).any():
        return ask, base, np.arange(len(bins))
    return binned, RowFunction({name: factor[first]}) * base.without(name), bins


def no_quantile(
    column: Scale, possible: Integers, *, what: str, scope: Scope, notes: tuple[str, ...]
) -> Estimate:
    """Return a placeholder for a quantile of rows that may not exist."""
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


def codes_in_words(column: Scale, possible: Integers, ends: tuple[int, int]) -> tuple[str, ...]:
    """Return the note for an interval that covers nearly all possible values."""
    bounds = numbers_of(column, possible[[0, -1]])
    low, high = numbers_of(column, np.array(ends))
    return condition_text((float(low), float(high)), (float(bounds[0]), float(bounds[1])))


def value_at(column: Scale, codes: Sequence[int]) -> list[float]:
    """Return the values of codes, in seconds for dates and times."""
    if isinstance(column, Integer | Number):
        return [float(column.value(code) or 0) for code in codes]
    return [float(second) for second in numbers_of(column, np.asarray(codes))]


def name_of_quantile(probability: float, name: str) -> str:
    """Return the name of a quantile for display."""
    return f"median of {name}" if probability == 0.5 else f"quantile {probability:g} of {name}"


@dataclass(frozen=True, eq=False)
class Surplus:
    """Surplus of rows at or below values, relative to the quantile, with its error."""

    values: Floats  # rows at or below, minus the share that the quantile requires
    drawn: Floats  # standard deviation from noise and sampling
    # Half-width of the model error. It may be one-sided, so it is not reduced for long intervals.
    model: Floats

    def half_width(self, deviations: Floats | float) -> Floats:
        """Return the half-width of the error, plus a continuity correction of 0.5."""
        return np.asarray(np.hypot(deviations * self.drawn, self.model) + 0.5)


def _errors(found: SumEstimates, sampling: Floats | float, scope: Scope) -> tuple[Floats, Floats]:
    """Return the standard deviation of random errors and the half-width of model errors."""
    drawn = (found.privacy_z / NORMAL) ** 2 * found.privacy.diagonal()
    if scope == "population":
        drawn = drawn + sampling
    model = found.model_z**2 * found.model.diagonal()
    return np.sqrt(np.maximum(drawn, 0.0)), np.sqrt(np.maximum(model, 0.0))


def _crossing(below: _RowsBelow, size: int) -> tuple[int, int, int, float]:
    """Return the first and last position that may be the quantile, and the estimate.

    The last number is the share of the rows at the estimate that are at or below the quantile.
    """
    n_first = min(size, max(_FEW_THRESHOLDS, min(_ALL_THRESHOLDS, _MAX_NUMBERS // size)))
    places = np.unique(np.linspace(0, size - 1, n_first).astype(np.int64))
    while True:
        at_places = below.surplus(places)
        found = _rising(at_places)
        at_places = replace(at_places, values=found)
        hits = np.flatnonzero(_not_rejected(places, at_places, below))
        first, last = int(hits[0]), int(hits[-1])
        # Nothing was tested between the last rejected position and the first accepted one.
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
    value = min(max(int(np.searchsorted(found, 0.0)), first), last)
    before = found[value - 1] if value else 0.0
    part = -before / (found[value] - before) if value and found[value] > before else 0.5
    return int(places[first]), int(places[last]), int(places[value]), min(max(part, 0.0), 1.0)


def _rising(at: Surplus) -> Floats:
    """Return the nearest non-decreasing surplus, in least squares weighted by precision."""
    blocks: list[tuple[float, float, int]] = []  # mean, precision, number of values
    variances = at.drawn**2 + (at.model / NORMAL) ** 2
    for value, variance in zip(at.values.tolist(), variances.tolist(), strict=True):
        mean, precision, n = value, 1 / max(variance, 1e-12), 1
        while blocks and blocks[-1][0] > mean:
            other, more, m = blocks.pop()
            mean = (mean * precision + other * more) / (precision + more)
            precision, n = precision + more, n + m
        blocks.append((mean, precision, n))
    return np.repeat([mean for mean, _, _ in blocks], [n for _, _, n in blocks])


def _not_rejected(places: Integers, at: Surplus, below: _RowsBelow) -> Bools:
    """Return whether the quantile may be after the preceding position and up to each position."""

    def kept(deviations: Floats | float) -> Bools:
        half = at.half_width(deviations)
        most = _borrowed((at.values + half)[::-1], half[::-1], min)[::-1]
        least = np.append(-np.inf, _borrowed(at.values - half, half, max)[:-1])
        return np.asarray((most >= 0) & (least < 0))

    may_be = kept(between_ends(0.0))
    hits = np.flatnonzero(may_be)
    if len(hits):
        blocks = [(int(places[hit - 1]) if hit else -1, int(places[hit])) for hit in hits.tolist()]
        spread = np.hypot(at.drawn, at.model / NORMAL)
        widest = np.maximum(np.maximum(spread, np.append(0.0, spread[:-1]))[hits], 1e-12)
        gaps = np.floor(100 * np.clip(below.least(blocks) / widest, 0.0, 9.0)) / 100
        deviations = np.full(len(places), between_ends(0.0))
        deviations[hits] = [between_ends(float(gap)) for gap in gaps]
        may_be &= kept(deviations)
    may_be[-1] |= not may_be.any()
    return may_be


def _borrowed(ends: Floats, half_widths: Floats, better: Callable[[float, float], float]) -> Floats:
    """Return the better of each end and the last one before it that is clearly narrower.

    The number of rows rises with the value, so a lower end is valid for all greater values. Only
    half-widths decide from where an end is taken, so its error probability remains.
    """
    found, narrower = ends.copy(), list[int]()
    for place, half in enumerate(half_widths.tolist()):
        while narrower and half_widths[narrower[-1]] >= half:
            narrower.pop()
        sources = [one for one in narrower if half_widths[one] < _NARROWER * half]
        if sources:
            found[place] = better(float(ends[place]), float(ends[sources[-1]]))
        narrower.append(place)
    return found
