"""Codes of texts in columns of numbers, dates and times, by the same rules as `encode`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from hushtable.engine.encode import (
    ABOVE_ALL,
    BELOW_ALL,
    NOT_A_NUMBER,
    NOT_PLAIN,
    NUMBER,
    WHOLE,
    RuleCodes,
)
from hushtable.engine.moment_codes import steps_of
from hushtable.schema import CalendarColumn, Duration, GridColumn, Integer, Number

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
