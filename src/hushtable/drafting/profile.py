"""Distinct values of each column and their counts, from which a draft is made.

A table that fits in memory is fetched once. For a larger table, the engine counts each column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.encode import Expression, as_text
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
    codes: NDArray[np.int64] | None = None  # index in `values` by row, -1: missing; None if large
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
        """Whether no value occurs twice, in a table of at least `FEW_ROWS` values."""
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
