"""Distinct values of each column and their counts, the basis of a draft.

A table that fits in memory is fetched once. For a larger table, the engine counts each column.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
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
from hushtable.engine.sources.spelling import rewrite
from hushtable.extras import needing
from hushtable.schema import Date, Integer
from hushtable.schema.file_format import THOUSANDS, FileFormat

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
    seen = {
        f"c{i}": _seen(rows[f"c{i}"], family, kind.name)
        for i, (family, kind) in enumerate(zip(families, header.kinds, strict=True))
    }
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


def _seen(raw: Expression, family: Family, kind: str) -> Expression:
    if (
        kind.startswith("duration[") and raw.type().is_integer()
    ):  # DuckDB reads Parquet's as numbers
        return raw.cast("string") + kind.removeprefix("duration[").replace("]", "").rjust(3)
    if family == "other" or (family == "text" and not raw.type().is_string()):
        return ibis.null("string")  # unsupported types, and columns without any value
    return as_text(raw) if family in ("boolean", "moment") else raw


# Detection of numbers, dates, e-mail addresses and free text among values.

_EDGE = 2**63
_FEW_WORDS = 5  # maximum number of words in a column of numbers
_NUMBERS_PER_WORD = 10  # minimum number of different numbers for each word
_LONG = 400  # characters; longer texts are not parsed as numbers

_LEADING_ZERO = re.compile(r" *0[0-9]")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_PARTS = r"[0-9]{1,2}[./ -][0-9]{1,2}[./ -][0-9]{4}"
_DAYS = (
    ("iso", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("year-month-day", r"[0-9]{4}[./ -][0-9]{1,2}[./ -][0-9]{1,2}"),
    ("day-month-year", _PARTS),
    ("month-day-year", _PARTS),
)
_SIGNED = re.compile(r" *[$€£¥]? *[+-]?[0-9][0-9.,]* *[%$€£¥]? *")
_SIGN = re.compile(r"[%$€£¥]")
ANY_NUMBER = Integer(type="integer", low=0, high=0)
_ANY_DAY = Date(type="date", low="2000-01-01", high="2000-01-01")


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


def number_spelling(values: Sequence[Any]) -> FileFormat | None:
    """Return the spelling of texts that are numbers but not in the usual one, else None.

    Numbers whose commas may all be thousands separators are taken as such.

    Examples
    --------
    >>> number_spelling(["1,5", "2"]).decimal, number_spelling(["1,250", "970"]).thousands
    (',', ',')
    >>> number_spelling(["1.234,56"]).thousands, number_spelling(["1.5", "2"])
    ('.', None)
    """
    texts = [value for value in values if isinstance(value, str)]
    if not texts or len(texts) < len(values) or all(as_number(text) for text in texts):
        return None
    for decimal, mark in product(".,", THOUSANDS):
        if mark != decimal:
            layout = FileFormat(decimal=decimal, thousands=mark)
            if all(as_number(rewrite(text, ANY_NUMBER, layout)) for text in texts):
                return layout
    return None


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


def few_that_are_no_numbers(values: Sequence[Any]) -> list[str]:
    """Return the words without digits in a column of numbers, if they are few among many numbers.

    Examples
    --------
    >>> few_that_are_no_numbers([*map(str, range(40)), "n.d.", "refused"])
    ['n.d.', 'refused']
    >>> few_that_are_no_numbers(["1", "2", "3", "N"]), few_that_are_no_numbers(["1", "10+"])
    ([], [])
    """
    words = sorted(value for value in values if isinstance(value, str) and not as_number(value))
    if any(re.search("[0-9]", word) for word in words) or len(words) > _FEW_WORDS:
        return []
    return words if len(values) >= _NUMBERS_PER_WORD * len(words) else []


def day_formats(values: Sequence[Any]) -> list[str]:
    """Return the orders of parts in which all texts are dates; several if it is ambiguous.

    Examples
    --------
    >>> day_formats(["2013-01-27", "2014-12-31"]), day_formats(["27/1/2013", "1/2/2013"])
    (['iso'], ['day-month-year'])
    >>> day_formats(["2.2.2013"]), day_formats(["2.2.13"])
    (['day-month-year', 'month-day-year'], [])
    """
    if not values or not all(isinstance(value, str) for value in values):
        return []
    fitting = [
        order
        for order, pattern in _DAYS
        if all(re.fullmatch(pattern, value) for value in values)
        and len(days_of(values, order)) == len(values)
    ]
    return fitting[:1] if "iso" in fitting else fitting


def days_of(values: Sequence[str], order: str) -> list[datetime.date]:
    """Parse texts as dates; skip those that do not fit."""
    days = []
    for value in values:
        text = rewrite(value, _ANY_DAY, FileFormat(dates=order)) if order != "iso" else value
        with contextlib.suppress(ValueError):
            days.append(datetime.date.fromisoformat(text))
    return days


def are_addresses(values: Sequence[Any]) -> bool:
    """Return whether most texts are e-mail addresses."""
    n_found = sum(isinstance(v, str) and bool(_EMAIL.fullmatch(v.strip())) for v in values)
    return n_found > len(values) / 2 and n_found > 0


def is_free_text(values: Sequence[Any]) -> bool:
    """Return whether the texts have at least five words on average."""
    texts = [value for value in values if isinstance(value, str)]
    words = sum(len(text.split()) for text in texts)
    return bool(texts) and words >= 5 * len(texts)
