"""Encoding of raw values as integer codes, inside the engine.

This docstring is the specification of the codes. This module implements it as ibis expressions;
`hushtable.engine.encode_arrow` implements it in NumPy, and `hushtable.engine.reference_encoder` in
plain Python. Tests require the same codes from all three. A value becomes

- missing, if it is NULL, NaN, or a text among the schema's ``missing_values`` (and, in a numeric
  column, the text ``nan``);
- for a categorical column: the position of its text in the list. Texts must be equal, letter by
  letter. A number is written as text without a fraction if it has none (a frame with gaps turns 3
  into 3.0; a decimal keeps its digits), a truth value as ``true`` or ``false``, a date as
  ``2024-12-31``;
- for an integer column: its whole number minus ``low``. ``3.0`` and ``3e0`` are 3; a fraction is
  unreadable; integers beyond 64 bits are outside the bounds and never wrap around;
- for a number column: ``floor((x - low) / step + 0.5)`` in double precision, so a value that
  rounds to a grid point is inside. Infinities are outside (and can be clipped);
- for a boolean column: false or true, as the type says, or as one of the texts that spell them;
- for dates, timestamps and times: the index of the period that contains it, minus that of ``low``.
  Texts are read as ``2024-12-31``, ``2024-12-31 18:30:00`` (or with a T, without seconds, or with
  fractions of seconds) and ``18:30:00``; an instant with a zone is read in UTC;
- for a duration column: its number of whole steps, minus ``low``; a plain number is a number of
  steps.

Each of a column's ``special`` values has its own code, whether or not it is within the bounds. The
text of its name has the same code.

Missing, unreadable and out-of-domain values get the code that the schema's rules define. An
unreadable text in a numeric column has no nearest bound, so under ``clip`` it counts as missing. By
default, every raw value has a code, which depends on that cell only. Under ``forbid`` and
``refuse``, a negative code marks a value for which the table is refused; see
`hushtable.engine.engine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.engine.rule_breaks import MISSING, OUTSIDE, UNREADABLE
from hushtable.schema import (
    CalendarColumn,
    Categorical,
    Date,
    Duration,
    GridColumn,
    Integer,
    Number,
    Schema,
    Time,
)
from hushtable.schema.calendar import DAY, MONTHS, SHORT
from hushtable.schema.column import BaseColumn
from hushtable.schema.numeric import SECONDS
from hushtable.schema.recoding import Intervals, Recoding

# Dates, times and durations as integers, computed inside the engine.
#
# A time becomes the number of its period, a duration the number of its steps: from there on both
# are encoded like whole numbers. Texts are checked character by character before an engine reads
# them. Instants with a zone arrive as timestamps in UTC, so that no engine's time zone matters.

ibis = lazy_loader.load("ibis")  # a small table is counted without it

Expression = Any  # ibis expressions have no static types

DATE = r"^ *[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
DATE_TEXT = rf"{DATE}([T ]{CLOCK}Z?)? *$"
CLOCK_TEXT = rf"^ *{CLOCK} *$"
UNITS = {**SECONDS, "s": 1}
PARTS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
IN_PARTS = rf"^ *-?[0-9]{{1,19}} *({'|'.join(PARTS)}) *$"
IN_UNITS = rf"^ *-?[0-9]{{1,12}} *({'|'.join(UNITS)})s? *$"  # their seconds fit 64 bits


@dataclass(frozen=True)
class CalendarExpression:
    """Date or time as expressions, NULL if missing.

    `days` counts days since 1970 (0 for a time of day) and `clock` seconds since midnight (None for
    a date without time). `date` is the engine's date, if it has one.
    """

    days: Expression
    clock: Expression | None
    date: Expression | None = None

    @property
    def seconds(self) -> Expression:
        """Seconds since 1970, or since midnight."""
        return self.days * DAY if self.clock is None else self.days * DAY + self.clock

    def period(self, step: str) -> Expression:
        """Return the index of the period that contains the time.

        The query repeats an expression at each use, so each part is used as few times as possible.
        """
        if step in MONTHS:
            return _over(self._months(), MONTHS[step])
        if step == "week":
            return _over(self.days + 3, 7)  # 1970 began on a Thursday
        return self.days if step == "day" else _over(self.seconds, SHORT[step])

    def _months(self) -> Expression:
        """Count the months since 1970."""
        if self.date is not None:
            year, month = self.date.year().cast("int64"), self.date.month().cast("int64")
            return year * 12 + month - (1970 * 12 + 1)
        # From days alone, in eras of 400 years whose years begin with March.
        days = (self.days + 719468) * 4 + 3
        of_era = _over(days % 146097, 4) * 4 + 3
        years = _over(days, 146097) * 100 + _over(of_era, 1461)
        from_march = _over(_over(of_era % 1461, 4) * 5 + 2, 153)
        return years * 12 + from_march + (2 - 1970 * 12)


def read_time(raw: Expression, column: CalendarColumn) -> CalendarExpression:
    """Parse a raw value as a date or time."""
    kind, none = raw.type(), ibis.literal(0, "int64")
    clock_only = isinstance(column, Time)
    if kind.is_string():
        return _from_text(raw, clock_only=clock_only)
    assert not (kind.is_timestamp() and kind.timezone)  # noqa: S101 - instants come in UTC
    clock = None
    if not kind.is_date():
        clock = _clock(raw.hour(), raw.minute(), raw.second())
    if clock_only:
        return CalendarExpression(none, clock)
    date = raw if kind.is_date() else raw.date()
    return CalendarExpression(date.epoch_days().cast("int64"), clock, date)


def _clock(hour: Expression, minute: Expression, second: Expression) -> Expression:
    return hour.cast("int64") * 3600 + minute.cast("int64") * 60 + second.cast("int64")


def _over(number: Expression, divisor: int) -> Expression:
    """Divide, rounding down."""
    return number if divisor == 1 else (number // divisor).cast("int64")


def _from_text(raw: Expression, *, clock_only: bool) -> CalendarExpression:
    fits = ~raw.re_search(r"[^ -~]") & raw.re_search(CLOCK_TEXT if clock_only else DATE_TEXT)
    text = fits.ifelse(raw.strip(), ibis.null("string"))
    at = 0 if clock_only else 11
    hour, minute, second = (text.substr(at + 3 * part, 2) for part in range(3))
    # 18:30 has no seconds, and a date alone no clock at all.
    parts = [part.nullif("").fill_null("0").try_cast("int64") for part in (hour, minute, second)]
    clock = (text.notnull() & (parts[0] < 24) & (parts[1] < 60) & (parts[2] < 60)).ifelse(
        _clock(*parts), ibis.null("int64")
    )
    if clock_only:
        return CalendarExpression(ibis.literal(0, "int64"), clock)
    date = text.substr(0, 10).try_cast("date")
    return CalendarExpression(date.epoch_days().cast("int64"), clock, date)


def steps_of_text(raw: Expression, column: Duration) -> Expression:
    """Return the number of steps of a duration written with its unit, else NULL."""
    plain = ~raw.re_search(r"[^ -~]")
    unit = raw.re_extract("[a-z]+", 0)
    branches = []
    for pattern, sizes in ((IN_PARTS, PARTS), (IN_UNITS, UNITS)):
        # Only matching texts are parsed, so that other rows cause no overflow.
        fits = plain & raw.re_search(pattern)
        number = fits.ifelse(raw.re_extract("-?[0-9]+", 0), ibis.literal("")).try_cast("int64")
        for name, many in sizes.items():
            if sizes is PARTS:
                steps = _over(number, many * column.step_seconds)
            else:
                steps = _over(number * many, column.step_seconds)
            branches.append((fits & unit.isin([name, f"{name}s"]), steps))
    return ibis.cases(*branches)


def steps_of(text: str, column: Duration) -> int | None:
    """Return the number of steps of a duration written with its unit, else None.

    Examples
    --------
    >>> stay = Duration(type="duration", low=0, high=30, step="day")
    >>> steps_of("36 hours", stay), steps_of("-1 s", stay), steps_of("long", stay)
    (1, -1, None)
    """
    for pattern, sizes in ((IN_PARTS, PARTS), (IN_UNITS, UNITS)):
        if found := re.search(pattern, text):
            number = int(re.findall("-?[0-9]+", text)[0])
            if sizes is PARTS:
                inside = -(2**63) <= number < 2**63
                return number // (sizes[found[1]] * column.step_seconds) if inside else None
            return number * sizes[found[1]] // column.step_seconds
    return None


# Explicit patterns, since engines differ in which other texts they read as numbers (1_000, 0x1F).
WHOLE = r"^ *[+-]?[0-9]+ *$"
NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$"
NOT_A_NUMBER = r"^ *[+-]?[nN][aA][nN] *$"
ABOVE_ALL = r"^ *\+?[iI][nN][fF]([iI][nN][iI][tT][yY])? *$"
NOT_PLAIN = r"[^ -~]"  # in some engines, $ also matches before a line end
BELOW_ALL = r"^ *-[iI][nN][fF]([iI][nN][iI][tT][yY])? *$"


@dataclass(frozen=True)
class Reading:
    """Raw column parsed as numbers: expressions over the same rows.

    `missing` is true for missing values. `real` is the value in double precision, NULL if it is
    missing or unreadable. `whole` is the value if it is a 64-bit integer, else NULL. With
    `always_whole`, the column's type guarantees integers, so fewer cases must be distinguished.
    """

    missing: Expression
    real: Expression
    whole: Expression
    always_whole: bool = False


def is_missing(raw: Expression, missing_values: Sequence[str]) -> Expression:
    """Return whether a raw value is missing."""
    kind = raw.type()
    if kind.is_string() and missing_values:
        return raw.isnull() | raw.isin(list(missing_values))
    if kind.is_floating():
        return raw.isnull() | raw.isnan()
    return raw.isnull()


def known_person(raw: Expression, missing_values: Sequence[str]) -> Expression:
    """Return the person of a raw value, or NULL if it is missing."""
    if raw.type().is_floating():
        raw = raw + 0.0  # -0.0 and 0.0 are one person
    return is_missing(raw, missing_values).ifelse(ibis.null(raw.type()), raw)


def code_type(size: int) -> str:
    """Return the smallest type for the codes of a column, negative ones included."""
    if size <= 1 << 7:
        return "int8"
    return "int16" if size <= 1 << 15 else "int32"


def as_text(raw: Expression, listed: Iterable[str] = ()) -> Expression:
    """Return a raw value as text; NaN becomes NULL.

    Engines format fractions differently, so those in `listed` are compared as numbers.
    """
    kind = raw.type()
    if kind.is_string():
        return raw
    if kind.is_floating():
        whole = raw.try_cast("int64")
        branches = [
            (raw.isnan(), ibis.null("string")),
            (whole.cast(kind) == raw, whole.cast("string")),
            *((raw == ibis.literal(value, kind), text) for value, text in _fractions(kind, listed)),
        ]
        return ibis.cases(*branches, else_=raw.cast("string"))
    if kind.is_boolean():
        return ibis.cases((raw, "true"), (~raw, "false"))  # neither: NULL
    if kind.is_decimal():  # without digits before the point, DuckDB writes .5
        return raw.cast("string").replace("-.", "-0.").re_replace("^[.]", "0.")
    return raw.cast("string")


def _fractions(kind: Any, listed: Iterable[str]) -> Iterator[tuple[float, str]]:
    """Yield the fractions among the listed texts in shortest form, with their texts."""
    precision = np.float32 if kind.is_float32() else np.float64
    for text in listed:
        try:
            value = precision(text)
        except ValueError:
            continue
        if str(value) == text and np.isfinite(value) and value != np.floor(value):
            yield float(value), text


def read_number(raw: Expression, missing_values: Sequence[str]) -> Reading:
    """Parse a raw value as a number."""
    kind, missing = raw.type(), is_missing(raw, missing_values)
    if kind.is_null():
        return Reading(missing, raw.cast("float64"), raw.cast("int64"))
    if kind.is_string():
        text, plain = raw.strip(), ~raw.re_search(NOT_PLAIN)
        by_name = ibis.cases(
            (plain & raw.re_search(ABOVE_ALL), float("inf")),
            (plain & raw.re_search(BELOW_ALL), float("-inf")),
        )
        real = (plain & raw.re_search(NUMBER)).ifelse(text.try_cast("float64"), by_name)
        # Digits are read as digits: a double would round whole numbers beyond 2**53.
        whole = (plain & raw.re_search(WHOLE)).ifelse(text.try_cast("int64"), _whole(real))
        is_nan = plain & raw.re_search(NOT_A_NUMBER)
        return Reading(
            missing | is_nan.fill_null(False), missing.ifelse(ibis.null("float64"), real), whole
        )
    if kind.is_signed_integer():
        return Reading(missing, raw.cast("float64"), raw.cast("int64"), always_whole=True)
    if kind.is_integer() or kind.is_boolean() or (kind.is_decimal() and kind.scale == 0):
        # Beyond 64 bits (unsigned, huge) the cast gives NULL and the double decides the side.
        return Reading(missing, raw.cast("float64"), raw.try_cast("int64"))
    real = raw.cast("float64")
    if kind.is_floating():
        real = missing.ifelse(ibis.null("float64"), real)
    return Reading(missing, real, _whole(real))


def _whole(real: Expression) -> Expression:
    # Some engines raise an error for a number that does not fit, even in try_cast.
    whole = (real.abs() < float(2**63)).ifelse(real, ibis.null("float64")).try_cast("int64")
    return (whole.cast("float64") == real).ifelse(whole, ibis.null("int64"))


def whole_bounds(column: BaseColumn) -> tuple[int, int] | None:
    """Return the bounds of a column read as integers (values, periods or steps), else None."""
    if isinstance(column, CalendarColumn):
        return column.first, column.last
    return (column.low, column.high) if isinstance(column, Integer) else None


@dataclass(frozen=True)
class RuleCodes:
    """Codes that a column's rules give to out-of-domain values."""

    no_value: int
    unreadable: int
    below: int
    above: int  # code of a number above the range, or of a text that is not listed
    low: int  # bounds of a column that is read as integers
    high: int

    @classmethod
    def of(cls, column: BaseColumn) -> RuleCodes:
        """Return the codes for a column."""
        other, last = column.other_code, column.n_values - 1
        no_value = {"other": other, "category": column.size - 1, "forbid": MISSING}[column.missing]
        unreadable, below, above = {
            "refuse": (UNREADABLE, OUTSIDE, OUTSIDE),
            "clip": (UNREADABLE if column.missing == "forbid" else no_value, 0, last),
            "missing": (no_value, no_value, no_value),
            "other": (other, other, other),
        }[column.outside]
        low, high = whole_bounds(column) or (0, 0)
        return cls(no_value, unreadable, below, above, low, high)

    def choose(
        self, *, missing: Expression, inside: Expression, below: Expression, above: Expression
    ) -> Expression:
        """Return `inside` if it is not NULL, else the code of the first rule that applies."""
        return ibis.cases(
            (missing, self.no_value),
            (inside.notnull(), inside),
            (below, self.below),
            (above, self.above),
            else_=self.unreadable,
        ).cast("int64")

    def listed_code(self, text: Expression, code: Expression) -> Expression:
        """Return the code of a text, given the result of its lookup."""
        return ibis.cases(
            (text.isnull(), self.no_value), (code.isnull(), self.above), else_=code
        ).cast("int64")

    def integer_code(self, reading: Reading) -> Expression:
        """Return the code of an integer."""
        whole, real = reading.whole, reading.real
        low, high = ibis.literal(self.low, "int64"), ibis.literal(self.high, "int64")
        if reading.always_whole:
            return self.whole_code(reading, inside=whole - low)
        # Clamped before the subtraction, so that it cannot overflow in rows that are outside.
        offset = ibis.least(ibis.greatest(whole, low), high) - low
        edge = float(2**63)
        return self.choose(
            missing=reading.missing,
            inside=whole.between(low, high).ifelse(offset, ibis.null("int64")),
            below=(whole < low) | (whole.isnull() & (real <= -edge)),
            above=(whole > high) | (whole.isnull() & (real >= edge)),
        )

    def whole_code(self, reading: Reading, *, inside: Expression) -> Expression:
        """Return the code in a column of integers; `inside` is the code within the bounds."""
        return ibis.cases(
            (reading.missing, self.no_value),
            (reading.whole < self.low, self.below),
            (reading.whole > self.high, self.above),
            else_=inside,
        ).cast("int64")


def number_code(column: Number, reading: Reading) -> Expression:
    """Return the code of the nearest grid point."""
    low, high, step = float(column.low), float(column.high), float(column.step)
    # Values far outside are clipped first, since some engines fail if a double overflows.
    far = high - low + step
    lowest, highest = low - far - abs(low), high + far + abs(high)
    real = ibis.cases(
        (reading.real < lowest, lowest), (reading.real > highest, highest), else_=reading.real
    )
    place = column.place(real)
    n_values = float(column.n_values)
    # Clamped before it becomes an integer: the cast of a huge double is an error in some engines.
    rounded = ibis.least(ibis.greatest(place, 0.0), n_values).floor().cast("int64")
    return RuleCodes.of(column).choose(
        missing=reading.missing,
        inside=((place >= 0.0) & (place < n_values)).ifelse(rounded, ibis.null("int64")),
        below=place < 0.0,
        above=place >= n_values,
    )


def _recoded(code: Expression, recoding: Recoding) -> Expression:
    """Recode codes; keep the negative codes of broken rules."""
    branches = [(code < 0, code)]
    if recoding.n_special:
        moved = code - ibis.literal(recoding.n_values - len(recoding.labels), "int64")
        branches.append((code >= recoding.n_values, moved))
    return ibis.cases(*branches, else_=_halved(code, recoding))


def _halved(value: Expression, recoding: Recoding) -> Expression:
    """Recode by binary search, with few comparisons per row."""
    if isinstance(recoding, Intervals):
        starts, values = list(recoding.starts), list(range(len(recoding.starts)))
    else:
        mapped = recoding.apply(np.arange(recoding.n_values, dtype=np.int64))
        runs = np.append(0, np.flatnonzero(np.diff(mapped)) + 1)
        starts, values = runs.tolist(), mapped[runs].tolist()

    def halve(first: int, stop: int) -> Expression:
        if stop - first == 1:
            return ibis.literal(values[first], "int64")
        middle = (first + stop) // 2
        split = ibis.literal(starts[middle], "int64")
        return (value < split).ifelse(halve(first, middle), halve(middle, stop))

    return halve(0, len(starts))


def listed_codes(column: Categorical, missing_values: Sequence[str]) -> dict[str, int]:
    """Return the code of each listed text and of each text for a missing value."""
    codes = dict.fromkeys(missing_values, int(RuleCodes.of(column).no_value))
    return codes | column.spellings  # a text that is both counts as listed


def encode(rows: Expression, schema: Schema, columns: Mapping[str, str]) -> Expression:
    """Replace raw columns by their codes and keep the other columns.

    `columns` maps columns of `rows`, which have plain names, to columns of the schema.
    """
    others = [name for name in rows.columns if name not in columns]
    first: dict[str, Expression] = {}
    lookups: dict[str, Expression] = {}
    for place, name in columns.items():
        column, raw = schema.attributes[name], rows[place]
        if isinstance(column, Categorical):
            first[place] = as_text(raw, (*column.spellings, *schema.missing_values))
            lookups[place] = _lookup(place, listed_codes(column, schema.missing_values))
        else:
            first[place] = numeric_code(raw, column, schema.missing_values)
    joined = rows.mutate(**first)
    for place, lookup in lookups.items():
        joined = joined.left_join(lookup, [(place, f"{place}_text")])
    codes = {place: joined[place] for place in columns}
    for place in lookups:
        rules = RuleCodes.of(schema.attributes[columns[place]])
        codes[place] = rules.listed_code(codes[place], joined[f"{place}_code"])
    return joined.select(*others, **codes)


def recoded(
    rows: Expression, columns: Mapping[str, str], recode: Mapping[str, Recoding]
) -> Expression:
    """Apply recodings to codes; `columns` maps columns of `rows` to columns of the schema."""
    mapped = {
        place: _recoded(rows[place].cast("int64"), recode[name])
        for place, name in columns.items()
        if name in recode
    }
    return rows.mutate(**mapped) if mapped else rows


def _lookup(place: str, known: Mapping[str, int]) -> Expression:
    """Return a table of texts and codes to join with, so that lookups use a hash table."""
    return ibis.memtable(
        pa.table({f"{place}_text": pa.array(known, pa.string()),
                  f"{place}_code": pa.array(known.values(), pa.int64())})
    )  # fmt: skip


def numeric_code(raw: Expression, column: GridColumn, missing_values: Sequence[str]) -> Expression:
    """Return the code of a raw value in a column of numbers, dates or times."""
    if isinstance(column, CalendarColumn):
        return _calendar_code(raw, column, missing_values)
    reading = read_number(raw, missing_values)
    if isinstance(column, Duration) and raw.type().is_string():
        steps = steps_of_text(raw, column)
        whole = ibis.coalesce(steps, reading.whole)
        real = ibis.coalesce(steps.cast("float64"), reading.real)
        reading = Reading(reading.missing, real, whole)
    if isinstance(column, Integer):
        code = RuleCodes.of(column).integer_code(reading)
        return _with_special(code, raw, (reading.missing, reading.whole), column)
    assert isinstance(column, Number)  # noqa: S101 - the only other type
    return _with_special(number_code(column, reading), raw, (reading.missing, reading.real), column)


def _calendar_code(
    raw: Expression, column: CalendarColumn, missing_values: Sequence[str]
) -> Expression:
    """Return the code of the period that contains a date or time."""
    rules = RuleCodes.of(column)
    if not (raw.type().is_string() or raw.type().is_temporal()):  # a column of NULL only
        return raw.isnull().ifelse(rules.no_value, rules.unreadable).cast("int64")
    time = read_time(raw, column)
    period = time.period(column.step)
    valid = time.seconds.notnull()  # a date with an invalid time is unreadable
    missing = is_missing(raw, missing_values)
    code = ibis.cases(
        (missing, rules.no_value),
        (~valid, rules.unreadable),
        (period < rules.low, rules.below),
        (period > rules.high, rules.above),
        else_=period - ibis.literal(rules.low, "int64"),
    ).cast("int64")
    special = time.days * DAY if isinstance(column, Date) else time.seconds
    return _with_special(code, raw, (missing, special), column)


def _with_special(
    code: Expression, raw: Expression, reading: tuple[Expression, Expression], column: GridColumn
) -> Expression:
    """Replace the codes of special values, given by name or, unless missing, by number."""
    missing, number = reading
    kind, exact = ("float64", float) if isinstance(column, Number) else ("int64", int)
    branches: list[tuple[Expression, int]] = []
    if raw.type().is_string():
        named = zip(column.special_names, column.special_places.values(), strict=True)
        branches += [(raw == name, place) for name, place in named]
    branches += [
        (~missing & (number == ibis.literal(exact(at), kind)), place)
        for at, place in column.special_places.items()
    ]
    return ibis.cases(*branches, else_=code).cast("int64") if branches else code
