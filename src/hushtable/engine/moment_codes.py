"""Dates, times and durations as integers, computed inside the engine.

A time becomes the number of its period, a duration the number of its steps: from there on both are
encoded like whole numbers. Texts are checked character by character before an engine reads them.
Instants with a zone arrive as timestamps in UTC, so that no engine's time zone matters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import lazy_loader

from hushtable.schema import CalendarColumn, Duration, Time
from hushtable.schema.calendar import DAY, MONTHS, SHORT
from hushtable.schema.numeric import SECONDS

ibis = lazy_loader.load("ibis")  # a small table is counted without it

Expression = Any  # ibis has no types that a checker could follow

DATE = r"^ *[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
DATE_TEXT = rf"{DATE}([T ]{CLOCK}Z?)? *$"
CLOCK_TEXT = rf"^ *{CLOCK} *$"
UNITS = {**SECONDS, "s": 1}
PARTS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
IN_PARTS = rf"^ *-?[0-9]{{1,19}} *({'|'.join(PARTS)}) *$"
IN_UNITS = rf"^ *-?[0-9]{{1,12}} *({'|'.join(UNITS)})s? *$"  # so many fit 64 bits as seconds


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
        # Only what fits is read, so that nothing overflows in other rows.
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
