"""Codes and identities of single cells in plain Python, to check the engines against.

This module implements the specification in the docstring of `hushtable.engine.encode` a second
time, without NumPy, ibis or a database. The input is one Python value or one Arrow scalar, so a
result cannot depend on other rows, on a file's statistics, or on an engine. Whole numbers, decimals
and times are exact integers here; double precision is used only where the specification says so.

Cases that the specification leaves open are decided as follows.

- The name of a special value comes first, then ``missing_values``, then special values by number.
- In an integer column, a decimal with digits after the point, and a text with a point or an
  exponent, is read in double precision. Whole numbers are exact.
- A decimal is converted to the nearest double.
- A float that is not a whole number below 2**63 is written with the fewest digits that identify it
  in its own precision, as Python writes it (``0.1``, ``1e+20``, ``inf``). Half precision is written
  as single precision.
- A timestamp or time is written as ``2024-12-31 18:30:00`` or ``18:30:00``, followed by a fraction
  without trailing zeros if there is one.
- Dates in texts have years 0001 to 9999.

Two cells identify the same person, or are the same key, if and only if their texts (`text_of`) are
equal. The text of a value is lossless: two values of one type that differ have different texts,
except that -0.0 is 0. An instant is written in UTC, a length of time in nanoseconds. Missing values
(NULL, NaN, and texts among ``missing_values``) identify nobody.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal as Digits
from typing import Any, Literal

import pyarrow as pa

from hushtable.engine.rule_breaks import MISSING, OUTSIDE, UNREADABLE
from hushtable.schema import (
    CalendarColumn,
    Categorical,
    Column,
    Date,
    Duration,
    Integer,
    Number,
    Time,
)

DAY = 86_400
NANO = 10**9
EPOCH = datetime.date(1970, 1, 1)
NANOSECONDS = {"s": NANO, "ms": 10**6, "us": 10**3, "ns": 1}
ERA_DAYS, ERA_MONTHS = 146_097, 4_800  # of 400 years, after which the calendar repeats

PLAIN = re.compile("[ -~]*")
WHOLE = re.compile("[+-]?[0-9]+")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
INFINITE = re.compile("[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)
NAN = re.compile("[+-]?nan", re.IGNORECASE | re.ASCII)
CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?"
CLOCK_TEXT = re.compile(CLOCK)
DATE_TEXT = re.compile(rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:[T ]{CLOCK}Z?)?")
LENGTH = re.compile("(-?[0-9]{1,12}) *(second|minute|hour|day|week|s)s?")
FINE_LENGTH = re.compile("(-?[0-9]{1,19}) *(ms|us|ns)")
LENGTH_SECONDS = {"s": 1, "second": 1, "minute": 60, "hour": 3_600, "day": DAY, "week": 7 * DAY}
MANY_DIGITS = 400  # more than any double has; Python limits the length of texts it reads as int


class Single(float):
    """A float of single precision."""


@dataclass(frozen=True)
class Temporal:
    """An exact date, timestamp, instant (a timestamp with a zone, in UTC), time or length of time.

    `nanoseconds` counts from 1970 or, for a time, from midnight; for a duration, it is the length.
    """

    kind: Literal["date", "timestamp", "instant", "time", "duration"]
    nanoseconds: int


Cell = None | bool | int | float | Digits | str | bytes | Temporal


def plain(value: Any) -> Cell:
    """Return the exact value of an Arrow scalar or Python object; NaN is None.

    Examples
    --------
    >>> plain(pa.scalar(1, pa.time64("ns")))
    Temporal(kind='time', nanoseconds=1)
    """
    if isinstance(value, pa.Scalar):
        value = _reader(value.type)(value) if value.is_valid else None
    cell = _of_python(value)
    if isinstance(cell, float | Digits) and cell != cell:  # noqa: PLR0124 - NaN
        return None
    return cell


@functools.lru_cache(maxsize=256)
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that reads valid scalars of an Arrow type."""
    of = pa.types
    if of.is_dictionary(kind) or of.is_run_end_encoded(kind):
        return lambda scalar: plain(scalar.value)
    if of.is_float16(kind) or of.is_float32(kind):
        return lambda scalar: Single(scalar.as_py())
    if of.is_date32(kind):
        return lambda scalar: Temporal("date", scalar.value * DAY * NANO)
    if of.is_date64(kind):
        return lambda scalar: Temporal("date", scalar.value // (DAY * 1000) * DAY * NANO)
    if of.is_timestamp(kind) or of.is_time(kind) or of.is_duration(kind):
        name: Literal["timestamp", "instant", "time", "duration"] = (
            "time" if of.is_time(kind) else "duration" if of.is_duration(kind) else "timestamp"
        )
        if name == "timestamp" and kind.tz:
            name = "instant"
        size = NANOSECONDS[kind.unit]
        return lambda scalar: Temporal(name, scalar.value * size)
    return lambda scalar: scalar.as_py()


def _of_python(value: Any) -> Cell:
    if value is None or isinstance(value, bool | int | float | Digits | str | bytes | Temporal):
        return value
    if isinstance(value, datetime.datetime):
        kind: Literal["timestamp", "instant"] = "timestamp" if value.tzinfo is None else "instant"
        value = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value
        length = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return Temporal(kind, _nanoseconds(length))
    if isinstance(value, datetime.date):
        return Temporal("date", (value - EPOCH).days * DAY * NANO)
    if isinstance(value, datetime.time) and value.tzinfo is None:
        clock = datetime.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return Temporal("time", _nanoseconds(clock))
    if isinstance(value, datetime.timedelta):
        return Temporal("duration", _nanoseconds(value))
    raise TypeError(f"a value of type {type(value).__name__} has no code; convert it first.")


def _nanoseconds(length: datetime.timedelta) -> int:
    return length // datetime.timedelta(microseconds=1) * 1000


def text_of(value: Any) -> str | None:  # noqa: PLR0911 - one for each type
    """Return the text by which a value is compared with listed values; None for NULL and NaN.

    Examples
    --------
    >>> text_of(3.0), text_of(Digits("3.0")), text_of(True), text_of(0.1), text_of(EPOCH)
    ('3', '3.0', 'true', '0.1', '1970-01-01')
    """
    cell = plain(value)
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        if cell.is_integer() and abs(cell) < 2.0**63:
            return str(int(cell))
        return _shortest_single(cell) if isinstance(cell, Single) else repr(cell)
    if isinstance(cell, Digits):
        return f"{cell:f}"
    if isinstance(cell, bytes):
        return f"x{cell.hex()}"
    return _temporal_text(cell) if isinstance(cell, Temporal) else str(cell)


def _shortest_single(cell: Single) -> str:
    texts = (f"{cell:.{digits}g}" for digits in range(1, 10))  # 9 digits identify every single
    same = struct.pack("f", cell)
    return repr(
        float(next(t for t in texts if math.isinf(cell) or struct.pack("f", float(t)) == same))
    )


def _temporal_text(cell: Temporal) -> str:
    if cell.kind == "duration":
        return f"{cell.nanoseconds} ns"
    seconds, fraction = divmod(cell.nanoseconds, NANO)
    days, clock = divmod(seconds, DAY)
    hours, minutes, seconds = clock // 3600, clock // 60 % 60, clock % 60
    parts = f".{fraction:09d}".rstrip("0") if fraction else ""
    time = f"{hours:02d}:{minutes:02d}:{seconds:02d}{parts}"
    if cell.kind == "time":
        return time
    eras, rest = divmod(days, ERA_DAYS)
    of_era = EPOCH + datetime.timedelta(days=rest)
    date = f"{of_era.year + 400 * eras:04d}-{of_era.month:02d}-{of_era.day:02d}"
    if cell.kind == "date":
        return date
    return f"{date} {time}" + ("Z" if cell.kind == "instant" else "")


def reference_identity(value: Any, missing_values: Sequence[str] = ()) -> str | None:
    """Return the text that identifies a person or key; None if the cell identifies nobody.

    Examples
    --------
    >>> reference_identity(7.0), reference_identity(7), reference_identity("", [""])
    ('7', '7', None)
    """
    cell = plain(value)
    return None if isinstance(cell, str) and cell in missing_values else text_of(cell)


class ReferenceColumn:
    """A column's rules, prepared for the codes of many values.

    A negative code marks a value for which the schema refuses the table.

    Examples
    --------
    >>> age = Integer(type="integer", low=0, high=99, missing="category")
    >>> code = ReferenceColumn(age, ["?"]).code
    >>> [code(value) for value in (41, "41", "4.1e1", 140, None, "?")]
    [41, 41, 41, 99, 100, 100]
    """

    def __init__(self, column: Column, missing_values: Sequence[str]) -> None:
        self.column: Any = column
        self.missing_values = frozenset(missing_values)
        self.n_values = column.n_values
        other, last = column.other_code, column.n_values - 1
        self.no_value = (
            MISSING
            if column.missing == "forbid"
            else other
            if column.missing == "other"
            else column.size - 1
        )
        if column.outside == "refuse":
            self.unreadable, self.below, self.above = UNREADABLE, OUTSIDE, OUTSIDE
        elif column.outside == "clip":
            # A text that cannot be read has no nearest bound.
            self.unreadable = UNREADABLE if column.missing == "forbid" else self.no_value
            self.below, self.above = 0, last
        else:
            code = self.no_value if column.outside == "missing" else other
            self.unreadable, self.below, self.above = code, code, code
        self.listed: dict[str, int] = {}
        self.special_names: dict[str, int] = {}
        self.special: dict[int | float, int] = {}
        if isinstance(column, Categorical):
            self.listed = column.spellings
        else:
            codes = column.special_places
            self.special_names = dict(zip(column.special_names, codes.values(), strict=True))
            to_key = float if isinstance(column, Number) else int
            self.special = {to_key(number): code for number, code in codes.items()}
            self.first = _first(column)

    def code(self, value: Any) -> int:  # noqa: PLR0911 - one rule after the other
        """Return the code of one value."""
        cell, column = plain(value), self.column
        if isinstance(column, Categorical):
            return self._listed_code(text_of(cell))
        if isinstance(cell, str):
            if cell in self.special_names:
                return self.special_names[cell]
            if cell in self.missing_values:
                return self.no_value
        if cell is None:
            return self.no_value
        if isinstance(column, CalendarColumn):
            return self._calendar_code(cell)
        if isinstance(cell, str) and NAN.fullmatch(cell.strip(" ")):
            return self.no_value
        number = _number(cell, column)
        if number is None:
            return self.unreadable
        if isinstance(column, Integer):
            return self._integer_code(number)
        return self._number_code(_double(number))

    def _listed_code(self, text: str | None) -> int:
        if text in self.listed:  # before missing values: a listed value is a value
            return self.listed[text]
        return self.no_value if text is None or text in self.missing_values else self.above

    def _calendar_code(self, cell: Cell) -> int:
        seconds = _seconds(cell, self.column)
        if seconds is None:
            return self.unreadable
        if seconds in self.special:
            return self.special[seconds]
        return self._inside(_period(seconds, self.column.step) - self.first)

    def _integer_code(self, number: int | float) -> int:
        if isinstance(number, float):
            if math.isinf(number):
                return self.above if number > 0 else self.below
            if not number.is_integer():
                return self.unreadable
        whole = int(number)
        return self.special[whole] if whole in self.special else self._inside(whole - self.first)

    def _number_code(self, real: float) -> int:
        if real in self.special:
            return self.special[real]
        place = (real - self.column.low) / self.column.step + 0.5
        return self._inside(math.floor(place) if math.isfinite(place) else place)

    def _inside(self, place: int | float) -> int:
        if place < 0:
            return self.below
        return self.above if place >= self.n_values else int(place)


def _first(column: Any) -> int:
    """Return the whole number of code 0: a value, a period, or a number of steps."""
    if isinstance(column, CalendarColumn):
        low = _seconds(column.low, column)
        assert low is not None  # noqa: S101 - the schema checks it
        return _period(low, column.step)
    return column.low if isinstance(column, Integer) else 0


def _number(  # noqa: PLR0911 - one for each type
    cell: Cell, column: Column
) -> int | float | None:
    """Return the number of a cell, exact where it is whole; None if the cell is unreadable."""
    if isinstance(cell, Digits):
        exponent = cell.as_tuple().exponent  # a letter if infinite
        return int(cell) if isinstance(exponent, int) and exponent >= 0 else float(cell)
    if isinstance(cell, bool | int | float):
        return cell
    if isinstance(cell, Temporal) and cell.kind == "duration" and isinstance(column, Duration):
        return cell.nanoseconds // (NANO * column.step_seconds)
    if not isinstance(cell, str):
        raise TypeError("a time or bytes in a column of numbers has no code; convert it first.")
    text = cell.strip(" ")
    if not PLAIN.fullmatch(cell):
        return None
    if WHOLE.fullmatch(text) and len(text) < MANY_DIGITS:
        return int(text)
    if REAL.fullmatch(text) or INFINITE.fullmatch(text):
        return float(text)
    return _steps(text, column) if isinstance(column, Duration) else None


def _steps(text: str, column: Duration) -> int | None:
    """Return the whole steps of a length of time such as ``36 hours``."""
    if found := LENGTH.fullmatch(text):
        return int(found[1]) * LENGTH_SECONDS[found[2]] // column.step_seconds
    found = FINE_LENGTH.fullmatch(text)
    if found is None or not -(2**63) <= int(found[1]) < 2**63:
        return None
    return int(found[1]) * NANOSECONDS[found[2]] // (NANO * column.step_seconds)


def _double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _seconds(cell: Cell, column: Any) -> int | None:
    """Return the seconds since 1970 or midnight, rounded down; None if the cell is unreadable."""
    clock_only = isinstance(column, Time)
    if isinstance(cell, Temporal):
        allowed = ("time",) if clock_only else ("date",)
        if cell.kind not in (*allowed, "timestamp", "instant"):
            raise TypeError(f"a {cell.kind} in a column of type {column.type} has no code.")
        seconds = cell.nanoseconds // NANO
    elif isinstance(cell, str):
        read = _read_text(cell, CLOCK_TEXT if clock_only else DATE_TEXT)
        if read is None:
            return None
        seconds = read
    else:
        raise TypeError("a number or bytes in a column of dates or times has no code.")
    if clock_only:
        return seconds % DAY
    return seconds // DAY * DAY if isinstance(column, Date) else seconds


def _read_text(text: str, pattern: re.Pattern[str]) -> int | None:
    found = pattern.fullmatch(text.strip(" "))
    if found is None:
        return None
    *date, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    clock = hours * 3600 + minutes * 60 + seconds
    if not date:
        return clock
    try:
        return (datetime.date(*date) - EPOCH).days * DAY + clock
    except ValueError:  # such as February 30
        return None


def _period(seconds: int, step: str) -> int:
    """Return the number of the period, counted from 1970; weeks begin on Mondays."""
    days = seconds // DAY
    match step:
        case "second":
            return seconds
        case "minute" | "hour":
            return seconds // LENGTH_SECONDS[step]
        case "day":
            return days
        case "week":
            return (days + 3) // 7  # 1970-01-01 was a Thursday
    eras, rest = divmod(days, ERA_DAYS)
    date = EPOCH + datetime.timedelta(days=rest)
    months = ERA_MONTHS * eras + 12 * (date.year - 1970) + date.month - 1
    return months // {"month": 1, "quarter": 3, "year": 12}[step]
