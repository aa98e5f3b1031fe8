"""Distinct values of each column and their counts, the basis of a draft.

A table that fits in memory is fetched once. For a larger table, the engine counts each column.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.encode import (
    ABOVE_ALL,
    BELOW_ALL,
    NOT_A_NUMBER,
    NOT_PLAIN,
    NUMBER,
    WHOLE,
    Expression,
    as_text,
)
from hushtable.engine.sources.header import Header
from hushtable.engine.sources.source import TableSource
from hushtable.extras import needing

with needing("publish", "drafting"):
    import ibis


MISSING_WORDS = (
    "", "?", ".", "-", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null",
)  # fmt: skip
"""Usual words for missing values; a text of only blanks is one, too."""

MOST_VALUES = 200_000
"""Limit on distinct values fetched per column; a column with more is not published."""

MOST_CELLS = 20_000_000
"""Limit on cells fetched at once; dependencies between columns are not checked above it."""

Family = Literal["text", "number", "boolean", "moment", "other"]

FEW_ROWS = 20
"""In a table with fewer rows, texts that all differ may still be categories."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Distinct values of one column."""

    name: str
    family: Family  # stored type; truth values, dates and times are given as text
    n_rows: int  # of the table
    values: list[Any]  # without missing values
    counts: NDArray[np.int64]  # rows per value
    words: frozenset[str] = frozenset()  # words for missing values that occur
    codes: NDArray[np.int64] | None = None  # index in `values` by row, -1: missing; None: unknown
    complete: bool = True  # whether `values` has all distinct values

    @property
    def n_values(self) -> int:
        """Number of rows with a value."""
        return int(self.counts.sum())

    @property
    def n_missing(self) -> int:
        """Number of rows without a value."""
        return self.n_rows - self.n_values

    @property
    def all_differ(self) -> bool:
        """Whether no value occurs twice."""
        return len(self.values) == self.n_values

    @property
    def is_dense(self) -> bool:
        """Whether no value occurs twice and at least `FEW_ROWS` rows have a value."""
        return self.all_differ and self.n_values >= FEW_ROWS


def profiles(source: TableSource, header: Header, n_rows: int) -> Iterator[Profile]:
    """Yield the profile of each column."""
    names = header.names
    rows = source.select({f"c{i}": name for i, name in enumerate(names)})
    families = [_FAMILIES.get(kind.family, "other") for kind in header.kinds]
    seen = {f"c{i}": _seen(rows[f"c{i}"], family) for i, family in enumerate(families)}
    if n_rows * len(names) <= MOST_CELLS:
        table = source.fetch(rows.select(**seen))
        for i, (name, family) in enumerate(zip(names, families, strict=True)):
            encoded = table.column(f"c{i}").combine_chunks().dictionary_encode()
            codes = np.asarray(encoded.indices.fill_null(-1), np.int64)
            counts = np.bincount(codes[codes >= 0], minlength=len(encoded.dictionary))
            yield _profile(name, family, n_rows, encoded.dictionary, counts, codes)
        return
    if source.copied:  # parse a text file only once
        source = source.keep(rows.select(**seen), {})
        rows, seen = source.table, {place: source.table[place] for place in seen}
    for i, (name, family) in enumerate(zip(names, families, strict=True)):
        column = rows.select(value=seen[f"c{i}"])
        counted = source.fetch(
            column.filter(column.value.notnull())
            .group_by("value")
            .agg(n=ibis._.count())
            .limit(MOST_VALUES + 1)
        )
        complete = counted.num_rows <= MOST_VALUES
        values, counts = counted.column("value").combine_chunks(), counted.column("n").to_numpy()
        yield _profile(name, family, n_rows, values, counts, None, complete=complete)


def _profile(  # noqa: PLR0917 - the fields of a profile
    name: str,
    family: Family,
    n_rows: int,
    dictionary: pa.Array,
    counts: NDArray[np.int64],
    codes: NDArray[np.int64] | None,
    *,
    complete: bool = True,
) -> Profile:
    values = dictionary.to_pylist()
    is_value = np.array([not _is_nothing(value) for value in values], np.bool_)
    words = frozenset(v for v in values if family == "text" and _is_nothing(v))
    if codes is not None:
        place = np.full(len(values) + 1, -1, np.int64)  # the last entry is for code -1
        place[:-1][is_value] = np.arange(np.count_nonzero(is_value))
        codes = place[codes]
    return Profile(
        name, family, n_rows,
        [value for value, there in zip(values, is_value, strict=True) if there],
        np.asarray(counts, np.int64)[is_value], words, codes, complete,
    )  # fmt: skip


def _is_nothing(value: Any) -> bool:
    return (isinstance(value, float) and math.isnan(value)) or (
        isinstance(value, str) and (value in MISSING_WORDS or not value.strip())
    )


_FAMILIES: dict[str, Family] = {
    "nothing": "text", "text": "text", "number": "number", "boolean": "boolean",
    "date": "moment", "time": "moment", "timestamp": "moment", "instant": "moment",
    "moment": "moment", "duration": "moment",
}  # fmt: skip


def _seen(raw: Expression, family: Family) -> Expression:
    if family == "other" or (family == "text" and not raw.type().is_string()):
        return ibis.null("string")  # unsupported types, and columns without any value
    return as_text(raw) if family in ("boolean", "moment") else raw


# Detection of numbers, dates, e-mail addresses and free text among values.

_EDGE = 2**63
_FEW_WORDS = 5  # maximum non-numeric words reported in a column of many numbers
_LONG = 400  # characters; longer texts are not parsed as numbers

_DECIMAL_COMMA = re.compile(r" *[+-]?[0-9]+(,[0-9]+)? *")
_LEADING_ZERO = re.compile(r" *0[0-9]")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_DAYS = (
    ("%Y-%m-%d", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    ("%Y/%m/%d", re.compile(r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}")),
    ("%d.%m.%Y", re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}")),
    ("%d/%m/%Y", re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}")),
    ("%m/%d/%Y", re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}")),
)
_THOUSANDS = re.compile(r" *[+-]?([0-9]{1,3}|[1-9][0-9]{0,2}(,[0-9]{3})+) *")
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

    Return False if all commas may be thousands separators.

    Examples
    --------
    >>> with_decimal_commas(["1,5", "2", "-0,25"]), with_decimal_commas(["1", "2"])
    (True, False)
    """
    return (
        not with_marks_of_thousands(values)
        and all(isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value) for value in values)
        and any("," in value for value in values)
    )


def with_marks_of_thousands(values: Sequence[Any]) -> bool:
    """Return whether the texts are integers with commas as thousands separators.

    Examples
    --------
    >>> with_marks_of_thousands(["1,250", "970"]), with_marks_of_thousands(["1,250", "0,5"])
    (True, False)
    """
    texts = [value for value in values if isinstance(value, str)]
    return all(map(_THOUSANDS.fullmatch, texts)) and any("," in text for text in texts)


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
