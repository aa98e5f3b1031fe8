"""What a draft looks at: the distinct values of each column and how often each occurs.

A table that fits memory is fetched once. Of a larger one, each column is counted by itself where
it is, so that the data is gone through once, too.
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
from hushtable.engine.header import Header
from hushtable.engine.source import Source
from hushtable.extras import needing

with needing("publish", "drafting"):
    import ibis

MISSING_WORDS = (
    "", "?", ".", "-", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null",
)  # fmt: skip
"""Usual signs for no value; so is a text of blanks alone."""

MOST_VALUES = 200_000
"""A column of more distinct values is told by its bounds alone."""

MOST_CELLS = 20_000_000
"""A table of more cells is not held, and nothing is said about columns together."""

Family = Literal["text", "number", "boolean", "moment", "other"]

FEW_ROWS = 20
"""In a shorter table, texts that all differ may still be a list."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Hold the distinct values of one column.

    Parameters
    ----------
    name : str
        The column.
    family : str
        What it holds where it is stored; truth values and moments come as texts.
    n_rows : int
        Rows of the table.
    values : list
        Its distinct values, without those that mean no value.
    counts : array
        How often each occurs.
    words : frozenset of str
        Which words for "no value" it holds.
    codes : array or None
        For each row the place of its value in `values`, -1 for none; None for a large table.
    complete : bool
        Whether `values` are all of them.
    """

    name: str
    family: Family
    n_rows: int
    values: list[Any]
    counts: NDArray[np.int64]
    words: frozenset[str] = frozenset()
    codes: NDArray[np.int64] | None = None
    complete: bool = True

    @property
    def n_values(self) -> int:
        """Rows with a value."""
        return int(self.counts.sum())

    @property
    def n_missing(self) -> int:
        """Rows without one."""
        return self.n_rows - self.n_values

    @property
    def all_differ(self) -> bool:
        """Whether no value occurs twice."""
        return len(self.values) == self.n_values

    @property
    def is_dense(self) -> bool:
        """Whether no value occurs twice, in a table where that says something."""
        return self.all_differ and self.n_values >= FEW_ROWS


def profiles(source: Source, header: Header, n_rows: int) -> Iterator[Profile]:
    """Go through all columns once."""
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
    if source.copied:  # a text file is split into fields once
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
        place = np.full(len(values) + 1, -1, np.int64)  # the last is that of -1
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
        return ibis.null("string")  # nested values cannot be published; others are none
    return as_text(raw) if family in ("boolean", "moment") else raw
