"""Operands of comparisons, and their translation from columns."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hushtable.errors import PredicateError
from hushtable.query.where.terms import Grid, Ranks, Term
from hushtable.schema import CalendarColumn, Categorical, Column, Time
from hushtable.schema.calendar import DAY, SHORT, read_clock, read_time
from hushtable.schema.recoding import bins_of

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class CategoryOperand(NamedTuple):
    """A column of texts as an operand, or texts derived from a column.

    With `ranks`, code c of the column has the value with index ``ranks[c]``.
    """

    name: str
    column: Categorical
    ranks: tuple[int, ...] | None = None

    @property
    def codes(self) -> Grid | Ranks:
        """The texts as indices in the list of values."""
        if self.ranks is not None:
            return Ranks(self.name, self.ranks)
        return Grid(self.name, Fraction(0), Fraction(1), len(self.column.values))

    def ranked(self, rank: dict[str, int]) -> Ranks:
        """Return the texts as numbers in another ranking."""
        values = self.column.values
        places = range(len(values)) if self.ranks is None else self.ranks
        return Ranks(self.name, tuple(rank[values[place]] for place in places))


class TextOperand(NamedTuple):
    """A text as an operand."""

    text: str


Operand = Term | CategoryOperand | TextOperand | None  # None is NULL


def operand_of(name: str, column: Column) -> Grid | Ranks | CategoryOperand:
    """Return a column as an operand; dates and times count in days and fractions of days."""
    if isinstance(column, Categorical):
        return CategoryOperand(name, column)
    if not isinstance(column, CalendarColumn):
        return Grid(name, column.exact_low, column.exact_step, column.n_values)
    if column.step in SHORT:
        step = Fraction(SHORT[column.step], DAY)
        low = Fraction(int(column.second_of(np.zeros(1, np.int64))[0]), DAY)
        return Grid(name, low, step, column.n_values)
    seconds = column.second_of(np.arange(column.n_values))
    return Ranks(name, tuple((seconds // DAY).tolist()))


def with_special(name: str, column: Column) -> Grid:
    """Return the code of a column as an operand, special values included."""
    n_codes = column.n_values + len(column.special_names)
    return Grid(name, Fraction(0), Fraction(1), n_codes)


def time_of(text: str, columns: list[Column]) -> Fraction | None:
    """Parse a text compared with dates or times, in days; None if no column is one."""
    calendars = [column for column in columns if isinstance(column, CalendarColumn)]
    if not calendars:
        return None
    try:
        clock = all(isinstance(column, Time) for column in calendars)
        return Fraction(read_clock(text) if clock else read_time(text), DAY)
    except ValueError as error:
        raise PredicateError(f"{error}.") from None


def called(function: str, name: str, column: Column) -> CategoryOperand | Ranks:
    """Return the operand for a function of a column."""
    if function == "band":
        bins = bins_of(column)
        if bins is None:
            raise PredicateError(
                f"band({name}) needs public bins; declare bins for {name!r} in the schema."
            )
        bands = bins.apply(np.arange(column.n_values)).tolist()
        labels = tuple(str(label) for label in bins.labels)
        return CategoryOperand(name, _listed(labels), tuple(bands))
    if not isinstance(column, CalendarColumn) or (isinstance(column, Time) != (function == "hour")):
        is_stamp = column.type == "timestamp"
        if not (function == "hour" and is_stamp):
            of = "times and timestamps" if function == "hour" else "dates and timestamps"
            raise PredicateError(f"{function}({name}): {function} needs a column of {of}.")
    assert isinstance(column, CalendarColumn)  # noqa: S101 - checked above
    seconds = column.second_of(np.arange(column.n_values))
    moments = seconds.astype("M8[s]")
    months = moments.astype("M8[M]").astype(np.int64)
    if function == "weekday":
        days = (seconds // DAY + 3) % len(WEEKDAYS)
        return CategoryOperand(name, _listed(WEEKDAYS), tuple(days.tolist()))
    numbers = {
        "year": months // 12 + 1970,
        "quarter": months % 12 // 3 + 1,
        "month": months % 12 + 1,
        "hour": seconds % DAY // 3600,
    }[function]
    return Ranks(name, tuple(numbers.tolist()))


def _listed(values: tuple[str, ...]) -> Categorical:
    return Categorical(type="categorical", values=values, ordered=True)
