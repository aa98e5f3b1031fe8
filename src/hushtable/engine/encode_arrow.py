"""Codes of Arrow columns of plain types: the definition of `hushtable.engine.encode`, in NumPy.

The reference encoder handles decimals that are too long for DuckDB, and DuckDB all other types. The
choice depends on the types of the column in the data and in the schema and, for text files, on the
size of the file; tests require the same codes from all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Bools, Codes32, Floats, Integers
from hushtable.engine.encode import (
    ABOVE_ALL,
    BELOW_ALL,
    NOT_A_NUMBER,
    NOT_PLAIN,
    NUMBER,
    WHOLE,
    RuleCodes,
    listed_codes,
    steps_of,
)
from hushtable.engine.reference_encoder import ReferenceColumn
from hushtable.engine.sources.arrow_rows import is_long_decimal, is_text
from hushtable.schema import (
    Boolean,
    CalendarColumn,
    Categorical,
    Column,
    Date,
    Duration,
    GridColumn,
    Integer,
    Number,
    Time,
)
from hushtable.schema.calendar import DAY, periods
from hushtable.schema.codes import with_missing

# Codes of texts in columns of numbers, dates and times, by the same rules as `encode`.

_EDGE = 2**63
_LONG = 400  # characters; longer numbers are beyond any bound, and slow to parse


def code_reader(column: GridColumn, missing_values: Sequence[str]) -> Callable[[str | None], int]:
    """Return a function that encodes a text.

    Examples
    --------
    >>> read = code_reader(Integer(type="integer", low=1, high=9, outside="clip"), ["?"])
    >>> [read(text) for text in ("3", "3.0", " 2e0 ", "77", "-inf")]
    [2, 2, 1, 8, 0]
    """
    rules, no_values = RuleCodes.of(column), {None, *missing_values}
    named = dict(zip(column.special_names, column.special_places.values(), strict=True))

    def read(text: str | None) -> int:  # noqa: PLR0911 - one rule after the other
        if text in named:
            return named[text]
        if text is None or text in no_values:
            return int(rules.no_value)
        if re.search(NOT_PLAIN, text):
            return int(rules.unreadable)
        if isinstance(column, CalendarColumn):
            return _calendar_code(text, column, rules)
        if re.search(NOT_A_NUMBER, text):
            return int(rules.no_value)
        if isinstance(column, Integer):
            return _integer_code(text, column, rules)
        assert isinstance(column, Number)  # noqa: S101 - there is no other kind
        return _number_code(text, column, rules)

    return read


def _calendar_code(text: str, column: CalendarColumn, rules: RuleCodes) -> int:
    try:
        seconds = column.seconds(text)
    except ValueError:
        return int(rules.unreadable)
    special = column.special_places.get(Fraction(seconds))
    if special is not None:
        return special
    place = column.exact(text) - column.first
    if place < 0:
        return int(rules.below)
    return int(rules.above) if place >= column.n_values else int(place)


def _real(text: str) -> float | None:
    is_number = any(re.search(pattern, text) for pattern in (NUMBER, ABOVE_ALL, BELOW_ALL))
    return float(text) if is_number else None


def _integer_code(text: str, column: Integer, rules: RuleCodes) -> int:
    # Not parsed as double, which would round integers beyond 2**53.
    is_whole = re.search(WHOLE, text) and len(text) < _LONG
    value = int(text) if is_whole else _real(text)
    if isinstance(column, Duration) and value is None:
        value = steps_of(text, column)
    if value is None or (-_EDGE < value < _EDGE and value != math.floor(value)):
        return int(rules.unreadable)
    if value in column.special:
        return column.special_places[Fraction(value)]
    if value < column.low:
        return int(rules.below)
    return int(rules.above) if value > column.high else int(value) - column.low


def _number_code(text: str, column: Number, rules: RuleCodes) -> int:
    value = _real(text)
    if value is None:
        return int(rules.unreadable)
    if value in column.special:
        return column.special_places[column.exact(value)]
    place = column.place(value)
    if place < 0:
        return int(rules.below)
    return int(rules.above) if place >= column.n_values else math.floor(place)


Wholes = Integers
Reals = Floats


def encode_here(
    column: pa.ChunkedArray, rules: Column, missing_values: Sequence[str], *, texts: bool
) -> Codes32 | None:
    """Return the codes of a column; None if its type needs `hushtable.engine.encode`.

    With `texts`, also parse the texts of a column of numbers, dates or times in Python.
    """
    if is_long_decimal(column.type):
        code_of = ReferenceColumn(rules, missing_values).code
        return np.array([code_of(value) for value in column.to_pylist()], np.int32)
    if not (_is_plain(column.type, rules) or (texts and is_text(column.type))):
        return None
    return _codes(column, rules, missing_values)


def _is_plain(kind: pa.DataType, column: Column) -> bool:
    if isinstance(column, Categorical):
        return _is_listed(kind) or (isinstance(column, Boolean) and pa.types.is_boolean(kind))
    if isinstance(column, CalendarColumn):
        return _is_calendar(kind, column)
    if isinstance(column, Duration) and pa.types.is_duration(kind):
        return True
    return _is_whole(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)


def _is_calendar(kind: pa.DataType, column: CalendarColumn) -> bool:
    if pa.types.is_timestamp(kind):
        return True
    return bool(pa.types.is_time(kind) if isinstance(column, Time) else pa.types.is_date(kind))


def _is_listed(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return is_text(kind) or _is_whole(kind)


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) and not pa.types.is_uint64(kind)


def _codes(  # noqa: PLR0911 - one for each way of reading
    column: pa.ChunkedArray, rules: Column, missing_values: Sequence[str]
) -> Codes32:
    if isinstance(rules, Categorical):
        return _listed(column, rules, missing_values)
    if is_text(column.type):
        return looked_up(column, code_reader(rules, missing_values))
    if isinstance(rules, CalendarColumn):
        return _calendar_codes(column, rules)
    if isinstance(rules, Duration) and pa.types.is_duration(column.type):
        return _lengths(column, rules)
    values, missing = with_missing(column)
    if pa.types.is_integer(column.type) and isinstance(rules, Integer):
        return _counted_from_low(values.astype(np.int64), missing, rules)
    real = np.where(missing, np.nan, values.astype(np.float64))
    if isinstance(rules, Integer):
        return _counted_from_low_if_whole(real, rules)
    assert isinstance(rules, Number)  # noqa: S101 - there is no other kind
    return _nearest(real, rules)


def _calendar_codes(column: pa.ChunkedArray, rules: CalendarColumn) -> Codes32:
    """Return the codes of dates and times: the index of their period."""
    ticks, missing = with_missing(_as_whole(column))
    kind = column.type
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(kind, "unit", "ms")]
    seconds = ticks.astype(np.int64)
    seconds = seconds * DAY if pa.types.is_date32(kind) else seconds // per_second
    if isinstance(rules, Time):
        seconds = seconds % DAY
    elif isinstance(rules, Date):
        seconds = seconds // DAY * DAY
    seconds = np.where(missing, 0, seconds)
    codes = _from_bounds(periods(seconds, rules.step), missing, rules, (rules.first, rules.last))
    return _with_special(codes, seconds, missing, rules)


def _lengths(column: pa.ChunkedArray, rules: Duration) -> Codes32:
    """Return the number of whole steps of durations."""
    ticks, missing = with_missing(_as_whole(column))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    steps = np.where(missing, 0, ticks) // (per_second * rules.step_seconds)
    return _counted_from_low(steps.astype(np.int64), missing, rules)


def _as_whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and times as their stored integers."""
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())


def _with_special(
    codes: Codes32, numbers: NDArray[Any], missing: Bools, rules: GridColumn
) -> Codes32:
    """Replace the codes of special values."""
    is_whole = np.issubdtype(numbers.dtype, np.integer)
    for number, code in rules.special_places.items():
        exact = int(number) if is_whole else float(number)
        codes[(numbers == exact) & ~missing] = code
    return codes


def _listed(column: pa.ChunkedArray, rules: Categorical, missing_values: Sequence[str]) -> Codes32:
    of, known = RuleCodes.of(rules), listed_codes(rules, missing_values)
    missing, unlisted = int(of.no_value), int(of.above)

    def code_of(value: Any) -> int:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return missing if value is None else known.get(text, unlisted)

    return looked_up(column, code_of)


def looked_up(column: pa.ChunkedArray, code_of: Callable[[Any], int]) -> Codes32:
    """Return the code of each row; `code_of` is called once per value of each dictionary."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    parts = [np.empty(0, np.int32)]
    before, codes = None, parts[0]
    for chunk in column.chunks:
        if before is None or not chunk.dictionary.equals(before):  # chunks often share one
            before = chunk.dictionary
            codes = np.array([*map(code_of, before.to_pylist()), code_of(None)], np.int32)
        place, missing = with_missing(chunk.indices)
        parts.append(codes[np.where(missing, len(codes) - 1, place)])
    return np.concatenate(parts)


def _counted_from_low(whole: Wholes, missing: Bools, rules: Integer) -> Codes32:
    codes = _from_bounds(whole, missing, rules, (rules.low, rules.high))
    return _with_special(codes, whole, missing, rules)


def _from_bounds(
    whole: Wholes, missing: Bools, rules: GridColumn, bounds: tuple[int, int]
) -> Codes32:
    of, (low, high) = RuleCodes.of(rules), bounds
    outside = [missing, whole < low, whole > high]
    return _first(outside, [of.no_value, of.below, of.above], whole - low)


def _counted_from_low_if_whole(real: Reals, rules: Integer) -> Codes32:
    of = RuleCodes.of(rules)
    edge = float(2**63)
    missing = np.isnan(real)
    fits = np.abs(real) < edge  # False for NaN
    whole = np.where(fits, real, 0.0).astype(np.int64)
    broken = [missing, ~fits & (real < 0), ~fits, whole.astype(np.float64) != real]
    codes = _counted_from_low(whole, missing, rules)
    return _first(broken, [of.no_value, of.below, of.above, of.unreadable], codes)


def _nearest(real: Reals, rules: Number) -> Codes32:
    """Return the code of the nearest grid point."""
    of, missing = RuleCodes.of(rules), np.isnan(real)
    with np.errstate(over="ignore"):  # infinity is outside, too
        place = rules.place(real)
    inside = np.floor(np.clip(np.where(missing, 0.0, place), 0.0, float(rules.n_values)))
    outside = [missing, place < 0.0, place >= float(rules.n_values)]
    codes = _first(outside, [of.no_value, of.below, of.above], inside)
    return _with_special(codes, real, missing, rules)


def _first(cases: list[Bools], codes: list[int], otherwise: NDArray[Any]) -> Codes32:
    """Return the code of the first case that applies."""
    return np.asarray(np.select(cases, codes, otherwise), np.int32)
