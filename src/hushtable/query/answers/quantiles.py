"""Quantiles of a column from sums over rows, with intervals.

The interval inverts a test, like Fieller's interval of a ratio (`moments`): it contains all values
for which neither too few nor too many rows are below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.numeric import GAP_RANGE, NORMAL, between_ends
from hushtable.query.answers.estimator import Estimate, Scope, Support
from hushtable.query.answers.moments import TOO_FEW, Ask, NumericQuery, condition_text
from hushtable.query.answers.row_sums import RowFunction, Scale, SumEstimates, numbers_of, present
from hushtable.schema import Integer, Number

_ALL_THRESHOLDS = 128  # columns with at most this many values are searched completely
_FEW_THRESHOLDS = 33  # first grid for a column with very many values
_MAX_NUMBERS = 8_000_000  # limit of thresholds times values


def quantile(ask: Ask, numbers: NumericQuery, probability: float, *, scope: Scope) -> Estimate:
    """Estimate the smallest value that at least this share of the rows do not exceed.

    A value is rejected if, beyond the noise, too few rows are at or below it or too many are below
    it. The two counts differ by the rows that have the value. If these are many, only one of the
    two tests can fail, and `between_ends` returns a smaller critical value.
    """
    column, name = numbers.column, numbers.name
    left = numbers.where.factors.get(name, np.ones(column.size))[: column.n_values] > 0
    there = np.flatnonzero(left)
    base = present(name, column) * numbers.where
    notes: tuple[str, ...] = ()
    scales: list[tuple[float, float, float]] = []
    known_rows = 0.0
    support: Support = "measured"
    codes = np.arange(column.size)
    at_once = max(1, _MAX_NUMBERS // column.size)

    known: dict[int, tuple[float, ...]] = {}

    def surplus(places: Integers) -> Surplus:
        """Return the surplus of rows at or below each value, with its error."""
        new = [place for place in places.tolist() if place not in known]
        for start in range(0, len(new), at_once):
            known.update(_surplus(new[start : start + at_once]))
        return Surplus(*np.array([known[place] for place in places.tolist()]).T)

    def _surplus(places: list[int]) -> dict[int, tuple[float, ...]]:
        nonlocal notes, known_rows, support
        functions = []
        for code in there[places].tolist():
            factor = np.where(codes <= code, 1.0 - probability, -probability)
            functions.append(RowFunction({name: factor}) * base)
        functions.append(base)
        found = ask(functions)
        notes, support = found.notes, found.supported
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
        """Return lower bounds of the number of rows in ranges (first excluded, last included)."""
        least: list[float] = []
        for start in range(0, len(blocks), at_once):
            functions = []
            for first, last in blocks[start : start + at_once]:
                inside = (codes > (there[first] if first >= 0 else -1)) & (codes <= there[last])
                functions.append(RowFunction({name: inside.astype(np.float64)}) * base)
            found = ask(functions)
            drawn, model = _errors(found, np.maximum(found.values, 0.0), scope)
            least += (
                found.values - np.hypot(GAP_RANGE * drawn, GAP_RANGE / NORMAL * model)
            ).tolist()
        return np.array(least)

    first, last, value = _crossing(surplus, mass, len(there))
    if known_rows <= 0:
        what = name_of_quantile(probability, name)
        return no_quantile(column, there, what=what, scope=scope, notes=notes)
    low_code, high_code, code = there[[first, last, value]].tolist()
    # Convert errors in rows to errors in values, by the width of the interval.
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
        notes=(*notes, *codes_in_words(column, there, (low_code, high_code))),
        support=support,
    )


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


def _crossing(
    surplus: Callable[[Integers], Surplus],
    mass: Callable[[Sequence[tuple[int, int]]], Floats],
    size: int,
) -> tuple[int, int, int]:
    """Return the first and last position that may be the quantile, and the estimate."""
    n_first = min(size, max(_FEW_THRESHOLDS, min(_ALL_THRESHOLDS, _MAX_NUMBERS // size)))
    places = np.unique(np.linspace(0, size - 1, n_first).astype(np.int64))
    while True:
        at_places = surplus(places)
        found = at_places.values
        may_be = _not_rejected(places, at_places, mass)
        hits = np.flatnonzero(may_be)
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
    # Noise makes cumulative counts non-monotone: use the middle of the first and last crossing.
    above = np.flatnonzero(found >= 0)
    below = np.flatnonzero(found < 0)
    up = int(above[0]) if len(above) else len(places) - 1
    down = min(int(below[-1]) + 1, len(places) - 1) if len(below) else 0
    middle = min(max((up + down) // 2, first), last)
    return int(places[first]), int(places[last]), int(places[middle])


def _not_rejected(
    places: Integers,
    at: Surplus,
    mass: Callable[[Sequence[tuple[int, int]]], Floats],
) -> Bools:
    """Return whether the quantile may be after the preceding position and up to each position."""
    before = Surplus(*(np.append(0.0, part[:-1]) for part in (at.values, at.drawn, at.model)))
    before.values[0] = -np.inf  # no rows are below the first value

    def kept(deviations: Floats | float) -> Bools:
        enough = at.values + at.half_width(deviations) >= 0
        return np.asarray(enough & (before.values - before.half_width(deviations) < 0))

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
