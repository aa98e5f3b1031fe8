"""Codes of texts in a numeric column: what `encode` says, one text after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from hushtable.engine.sql.encode import (
    ABOVE_ALL,
    BELOW_ALL,
    NOT_A_NUMBER,
    NOT_PLAIN,
    NUMBER,
    WHOLE,
    RuleCodes,
)
from hushtable.schema import Integer, Number

_EDGE = 2**63
_LONG = 400  # characters; what has more of them is beyond any bound, and slow to turn into a number


def code_reader(
    column: Integer | Number, missing_values: Sequence[str]
) -> Callable[[str | None], int]:
    """Give what turns a text into its code.

    Examples
    --------
    >>> read = code_reader(Integer(type="integer", low=1, high=9, outside="clip"), ["?"])
    >>> [read(text) for text in ("3", "3.0", " 2e0 ", "77", "-inf")]
    [2, 2, 1, 8, 0]
    """
    rules, no_values = RuleCodes.of(column), {None, *missing_values}

    def read(text: str | None) -> int:
        if text is None or text in no_values:
            return int(rules.no_value)
        if re.search(NOT_PLAIN, text):
            return int(rules.unreadable)
        if re.search(NOT_A_NUMBER, text):
            return int(rules.no_value)
        if isinstance(column, Integer):
            return _integer_code(text, column, rules)
        return _number_code(text, column, rules)

    return read


def _real(text: str) -> float | None:
    is_number = any(re.search(pattern, text) for pattern in (NUMBER, ABOVE_ALL, BELOW_ALL))
    return float(text) if is_number else None


def _integer_code(text: str, column: Integer, rules: RuleCodes) -> int:
    # Digits are read as digits: a double would round whole numbers beyond 2**53.
    is_whole = re.search(WHOLE, text) and len(text) < _LONG
    value = int(text) if is_whole else _real(text)
    if value is None or (-_EDGE < value < _EDGE and value != math.floor(value)):
        return int(rules.unreadable)
    if value < column.low:
        return int(rules.below)
    return int(rules.above) if value > column.high else int(value) - column.low


def _number_code(text: str, column: Number, rules: RuleCodes) -> int:
    value = _real(text)
    if value is None:
        return int(rules.unreadable)
    place = column.place(value)
    if place < 0:
        return int(rules.below)
    return int(rules.above) if place >= column.n_values else math.floor(place)
