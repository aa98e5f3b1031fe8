"""Detection of numbers, dates, e-mail addresses and free text among values."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hushtable.engine.encode import (
    ABOVE_ALL,
    BELOW_ALL,
    NOT_A_NUMBER,
    NOT_PLAIN,
    NUMBER,
    WHOLE,
)

_EDGE = 2**63
_FEW_WORDS = 5  # maximum non-numeric words reported in a column of many numbers
_LONG = 400  # characters; longer texts are not parsed as numbers

_DECIMAL_COMMA = re.compile(r" *[+-]?[0-9]+,[0-9]+ *")
_LEADING_ZERO = re.compile(r" *0[0-9]")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_DAYS = (
    ("%Y-%m-%d", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    ("%Y/%m/%d", re.compile(r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}")),
    ("%d.%m.%Y", re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}")),
    ("%d/%m/%Y", re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}")),
    ("%m/%d/%Y", re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}")),
)
_THOUSANDS = re.compile(r" *[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+ *")
_BELOW_THOUSAND = re.compile(r" *[+-]?[0-9]{1,3} *")
_SIGNED = re.compile(r" *[$€£¥]? *[+-]?[0-9][0-9.,]* *[%$€£¥]? *")
_SIGN = re.compile(r"[%$€£¥]")


@dataclass(frozen=True)
class NumberRead:
    """Parsed number: in double precision, and exactly if it is a 64-bit integer."""

    real: float
    whole: int | None


def as_number(value: Any) -> NumberRead | None:
    """Parse a value as `hushtable.engine.encode` does; return None if it is not a number.

    Examples
    --------
    >>> as_number(" 3e0 "), as_number("1,5")
    (NumberRead(real=3.0, whole=3), None)
    """
    if isinstance(value, str):
        if len(value) > _LONG or re.search(NOT_PLAIN, value):
            return None
        if re.search(WHOLE, value):
            exact = int(value)
            return NumberRead(float(exact), exact if -_EDGE <= exact < _EDGE else None)
        if not any(re.search(pattern, value) for pattern in (NUMBER, ABOVE_ALL, BELOW_ALL)):
            return None
        value = float(value)
    if isinstance(value, int):
        return NumberRead(float(value), value if -_EDGE <= value < _EDGE else None)
    if isinstance(value, Decimal | float):
        real = float(value)
        is_whole = math.isfinite(real) and value == int(value) and abs(real) < _EDGE
        return NumberRead(real, int(value) if is_whole else None)
    return None


def is_nan_text(value: Any) -> bool:
    """Return whether a value is a text for "not a number"."""
    return isinstance(value, str) and bool(re.search(NOT_A_NUMBER, value))


def has_leading_zero(values: Iterable[Any]) -> bool:
    """Return whether some text is a code such as 00501, which would lose its zeros as a number."""
    return any(isinstance(value, str) and _LEADING_ZERO.match(value) for value in values)


def with_decimal_commas(values: Sequence[Any]) -> bool:
    """Return whether the texts are numbers with decimal commas.

    Examples
    --------
    >>> with_decimal_commas(["1,5", "2", "-0,25"]), with_decimal_commas(["1", "2"])
    (True, False)
    """
    if with_marks_of_thousands(values):
        return False
    commas = [isinstance(value, str) and bool(_DECIMAL_COMMA.fullmatch(value)) for value in values]
    return any(commas) and all(
        comma or (isinstance(value, str) and re.search(WHOLE, value) is not None)
        for comma, value in zip(commas, values, strict=True)
    )


def with_marks_of_thousands(values: Sequence[Any]) -> bool:
    """Return whether the texts are integers with commas as thousands separators.

    Examples
    --------
    >>> with_marks_of_thousands(["1,250", "970"]), with_marks_of_thousands(["1,250", "0,5"])
    (True, False)
    """
    texts = [value for value in values if isinstance(value, str)]
    grouped = [bool(_THOUSANDS.fullmatch(text)) for text in texts]
    return any(grouped) and all(
        one or bool(_BELOW_THOUSAND.fullmatch(text))
        for one, text in zip(grouped, texts, strict=True)
    )


def with_a_sign(values: Sequence[str]) -> bool:
    """Return whether the texts are numbers, some with a percent or currency sign.

    Examples
    --------
    >>> with_a_sign(["12 %", "7%"]), with_a_sign(["12", "7"])
    (True, False)
    """
    return any(_SIGN.search(value) for value in values) and all(
        _SIGNED.fullmatch(value) for value in values
    )


def few_that_are_no_numbers(values: Sequence[str]) -> list[str]:
    """Return the non-numeric texts of a column, if they are few among many numbers.

    Examples
    --------
    >>> few_that_are_no_numbers([*map(str, range(40)), "n.d.", ">90"])
    ['>90', 'n.d.']
    >>> few_that_are_no_numbers(["1", "2", "3", "4 or more"])
    []
    """
    words = sorted(value for value in values if as_number(value) is None)
    return words if len(words) <= _FEW_WORDS and len(values) >= 20 * len(words) else []


def day_format(values: Sequence[Any]) -> str | None:
    """Return the first date format that fits all texts, or None.

    Examples
    --------
    >>> day_format(["2013-01-27", "2014-12-31"]), day_format(["27/01/2013", "01/02/2013"])
    ('%Y-%m-%d', '%d/%m/%Y')
    """
    if not values or not all(isinstance(value, str) for value in values):
        return None
    for spelling, pattern in _DAYS:
        if all(pattern.fullmatch(v) and _as_day(v, spelling) for v in values):
            return spelling
    return None


def _as_day(text: str, spelling: str) -> datetime.date | None:
    try:
        return datetime.datetime.strptime(text, spelling).date()
    except ValueError:
        return None


def days_of(values: Sequence[str], spelling: str) -> list[datetime.date]:
    """Parse texts as dates; skip those that do not fit."""
    return [day for value in values if (day := _as_day(value, spelling)) is not None]


def are_addresses(values: Sequence[Any]) -> bool:
    """Return whether most texts are e-mail addresses."""
    n_found = sum(isinstance(v, str) and bool(_EMAIL.fullmatch(v.strip())) for v in values)
    return n_found > len(values) / 2 and n_found > 0


def is_free_text(values: Sequence[Any]) -> bool:
    """Return whether the texts have at least five words on average."""
    texts = [value for value in values if isinstance(value, str)]
    words = sum(len(text.split()) for text in texts)
    return bool(texts) and words >= 5 * len(texts)
