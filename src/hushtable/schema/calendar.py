"""Columns of dates, timestamps and times of day, on a public calendar grid.

A value is recorded as the period of the column's step that contains it, and published as the start
of that period: with ``step: month``, 2024-03-17 becomes 2024-03-01. Periods are numbered from 1970,
codes from the period of ``low``; weeks begin on Monday. Timestamps with a time zone are converted
to UTC.
"""

from __future__ import annotations

import datetime
import re
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from hushtable.arrays import Integers
from hushtable.errors import ParameterError, shown
from hushtable.schema.column import Text
from hushtable.schema.numeric import GridColumn

Step = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "year"]

DAY = 86_400
SHORT = {"second": 1, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
"""Lengths in seconds of the steps that have a constant length."""

MONTHS = {"month": 1, "quarter": 3, "year": 12}
MONDAY = -3 * DAY  # the Monday before 1970-01-01, where the numbering of weeks starts

COARSER: dict[str, tuple[Step, ...]] = {
    "second": ("minute", "hour", "day", "month", "quarter", "year"),
    "minute": ("hour", "day", "month", "quarter", "year"),
    "hour": ("day", "month", "quarter", "year"),
    "day": ("month", "quarter", "year"),
    "week": (),  # a week may span two months or two years
    "month": ("quarter", "year"),
    "quarter": ("year",),
    "year": (),
}
"""Levels of the calendar above each step: the built-in taxonomy of a calendar column."""

# End of a period's name within the text of a time in that period.
_NAMED_BY = {"year": 4, "month": 7, "day": 10, "hour": -3, "minute": -3}


def periods(seconds: Integers, step: str) -> Integers:
    """Return the period numbers of times given in seconds since 1970.

    Examples
    --------
    >>> periods(np.array([0, 86_400 * 31, -1]), "month").tolist()
    [0, 1, -1]
    """
    if step in MONTHS:
        months = seconds.astype("M8[s]").astype("M8[M]").astype(np.int64)
        return np.asarray(months // MONTHS[step])
    origin = MONDAY if step == "week" else 0
    return np.asarray((seconds - origin) // SHORT[step])


def begins(numbers: Integers, step: str) -> Integers:
    """Return the first second of each period, in seconds since 1970.

    Examples
    --------
    >>> begins(np.array([0, 1, -1]), "week").tolist()
    [-259200, 345600, -864000]
    """
    if step in MONTHS:
        months = (numbers * MONTHS[step]).astype("M8[M]")
        return np.asarray(months.astype("M8[s]").astype(np.int64))
    origin = MONDAY if step == "week" else 0
    return np.asarray(numbers * SHORT[step] + origin)


_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
DATE_TEXT = re.compile(f"({_DATE})(?:[T ]({_CLOCK})Z?)?", re.ASCII)
CLOCK_TEXT = re.compile(_CLOCK, re.ASCII)


def read_time(text: str) -> int:
    """Parse a date or timestamp to seconds since 1970; raise `ValueError` if invalid.

    Examples
    --------
    >>> read_time("1970-01-02 01:00")
    90000
    """
    found = DATE_TEXT.fullmatch(text.strip(" "))
    try:
        day = datetime.date.fromisoformat(found[1]) if found else None
    except ValueError:  # its message does not quote the whole text
        day = None
    if found is None or day is None:
        raise ValueError(f"{shown(text)} is not a date or time like 2024-12-31 or 2024-12-31 18:30")
    return (day.toordinal() - _EPOCH) * DAY + (read_clock(found[2]) if found[2] else 0)


def read_clock(text: str) -> int:
    """Parse a time of day to seconds since midnight; raise `ValueError` if invalid.

    Examples
    --------
    >>> read_clock("08:30")
    30600
    """
    is_clock = CLOCK_TEXT.fullmatch(text.strip(" ")) is not None
    parts = [int(part) for part in text.strip(" ").split(".")[0].split(":")] if is_clock else []
    hours, minutes, seconds = (*parts, 0, 0, 0)[:3]
    if not is_clock or hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{shown(text)} is not a time like 18:30 or 18:30:00")
    return hours * 3600 + minutes * 60 + seconds


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _as_text(value: Any) -> Any:
    """Convert dates and times parsed by YAML back to text."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if not isinstance(value, str):  # YAML reads 18:30 as 1110
        raise ValueError(f"{shown(value)} is not a date or time; put it in quotes, as '18:30:00'")
    return value


Moment = Annotated[str, BeforeValidator(_as_text)]


class CalendarColumn(GridColumn):
    """Column of dates or times.

    Parameters
    ----------
    bins
        Public bins in which every method counts: a coarser step of the calendar, a number of
        steps, or the start of each bin.
    """

    step: Step
    low: Moment
    high: Moment
    other: Moment | None = None
    special: dict[Moment, Text] = Field(default_factory=dict)
    bins: Step | int | tuple[Moment, ...] | None = None

    @staticmethod
    @abstractmethod
    def seconds(value: Any) -> int:
        """Parse a date or time to seconds; raise `ValueError` if invalid."""

    @staticmethod
    @abstractmethod
    def written(second: int) -> str:
        """Format a date or time given in seconds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for said in (self.low, self.high, *self.special, *([self.other] if self.other else [])):
            self.seconds(said)  # raises ValueError if it is invalid
        if self.exact_low > self.exact(self.high):
            raise ValueError(f"low {self.low} is after high {self.high}")
        if self.n_values > self.most_steps:
            raise ValueError(f"{self.n_values} values are too many; use a coarser step")
        return self._checked()

    @cached_property
    def first(self) -> int:
        """Number of the period that contains `low`."""
        return int(self._period(self.seconds(self.low)))

    @cached_property
    def last(self) -> int:
        """Number of the period that contains `high`."""
        return self.first + self.n_values - 1

    def _period(self, second: int) -> int:
        return int(periods(np.array([second], np.int64), self.step)[0])

    @cached_property
    def n_values(self) -> int:
        """Number of periods."""
        return self._period(self.seconds(self.high)) - self.first + 1

    @cached_property
    def exact_low(self) -> Fraction:
        """Number of the first period."""
        return Fraction(self.first)

    def exact(self, value: Any) -> Fraction:
        """Return the number of the period that contains a date or time."""
        return Fraction(self._period(self.seconds(_as_text(value))))

    @cached_property
    def special_places(self) -> dict[Fraction, int]:
        """Code of each special value, by its second; its period may contain other values."""
        return {
            Fraction(self.seconds(key)): self.n_values + i for i, key in enumerate(self.special)
        }

    def code_of(self, value: Any) -> int:
        """Return the code of a date or time in a published table; None is missing."""
        special = None
        if value is not None:
            special = self.special_places.get(Fraction(self.seconds(_as_text(value))))
        return super().code_of(value) if special is None else special

    @cached_property
    def special_codes(self) -> Mapping[Any, str]:
        """Names of the special values, by the date or time used in the table."""
        return {self.written(self.seconds(key)): name for key, name in self.special.items()}

    @cached_property
    def bin_starts(self) -> tuple[int, ...] | None:
        """First code of each public bin, or None."""
        if isinstance(self.bins, str):
            return self.group_starts(self.bins)
        return super().bin_starts

    @property
    def coarser(self) -> tuple[Step, ...]:
        """Levels of the calendar above the column's own step."""
        return COARSER[self.step]

    def group_starts(self, step: str) -> tuple[int, ...]:
        """Return the first code of each period of a coarser step."""
        if step not in self.coarser:
            known = ", ".join(self.coarser) or "none"
            raise ParameterError(
                f"{step!r} is not a coarser step than {self.step}; available coarser steps: "
                f"{known}."
            )
        grouped = periods(self.second_of(np.arange(self.n_values)), step)
        return tuple(np.flatnonzero(np.diff(grouped, prepend=grouped[0] - 1)).tolist())

    def group_name(self, code: int, step: str) -> str:
        """Return the name of the period of a coarser step that contains a code."""
        text = str(self.value(code))
        if step == "quarter":
            return f"{text[:4]}-Q{(int(text[5:7]) + 2) // 3}"
        return text[: _NAMED_BY[step]]

    def second_of(self, codes: Integers) -> Integers:
        """Return the first second of each code's period."""
        return begins(codes + self.first, self.step)

    def value(self, code: int) -> str | None:
        """Return the start of a code's period, or a special value; None for missing."""
        if code >= self.n_values:
            found = self._special(code)
            return None if found is None else str(found)
        return self.written(int(self.second_of(np.array([code], np.int64))[0]))


class Date(CalendarColumn):
    """Column of dates.

    Examples
    --------
    >>> born = Date(type="date", low="1990-01-01", high="1999-12-31", step="month")
    >>> born.n_values, born.value(14), born.code_of("1991-03-17")
    (120, '1991-03-01', 14)
    """

    arrow_name: ClassVar[str] = "date32"

    type: Literal["date"]
    step: Literal["day", "week", "month", "quarter", "year"] = "day"

    @staticmethod
    def stored(value: Any) -> Any:
        """Return the date."""
        return datetime.date.fromisoformat(value)

    @staticmethod
    def seconds(value: Any) -> int:
        """Parse a date to the seconds since 1970 of its midnight."""
        return read_time(value) // DAY * DAY

    @staticmethod
    def written(second: int) -> str:
        """Format a date."""
        return datetime.date.fromordinal(second // DAY + _EPOCH).isoformat()


class Timestamp(CalendarColumn):
    """Column of dates with a time of day."""

    arrow_name: ClassVar[str] = "timestamp[s]"

    type: Literal["timestamp"]
    step: Step

    @staticmethod
    def stored(value: Any) -> Any:
        """Return the date with its time."""
        return datetime.datetime.fromisoformat(value)

    @staticmethod
    def seconds(value: Any) -> int:
        """Parse a timestamp to seconds since 1970."""
        return read_time(value)

    @staticmethod
    def written(second: int) -> str:
        """Format a timestamp."""
        return f"{Date.written(second)} {Time.written(second % DAY)}"


class Time(CalendarColumn):
    """Column of times of day."""

    arrow_name: ClassVar[str] = "time32[s]"

    type: Literal["time"]
    step: Literal["second", "minute", "hour"]
    low: Moment = "00:00:00"
    high: Moment = "23:59:59"
    bins: Literal["minute", "hour"] | int | tuple[Moment, ...] | None = None

    @staticmethod
    def stored(value: Any) -> Any:
        """Return the time of day."""
        return datetime.time.fromisoformat(value)

    @staticmethod
    def seconds(value: Any) -> int:
        """Parse a time of day to seconds since midnight."""
        return read_clock(value)

    @staticmethod
    def written(second: int) -> str:
        """Format a time of day."""
        return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"

    @property
    def coarser(self) -> tuple[Step, ...]:
        """Levels above the column's own step: minute and hour."""
        return tuple(step for step in super().coarser if step in ("minute", "hour"))
