"""Published table of method columns: tuples with counts.

In a wide table, a tuple is a row: the number of its column, its values, null in the attributes of
other columns, and its count. In a long table, a tuple has a row for each of its items; these rows
share a tuple number and repeat the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.engine.baskets import ItemColumns, Tuples
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy, numbers, repeated, to_codes, to_labels
from hushtable.schema.recoding import Recoding

COLUMN, TUPLE, COUNT = "column", "tuple", "count"
"""Columns that are published in addition to the schema's own."""

READING_WIDE = (
    "Each row is a tuple of one column: values of its attributes, listed under 'columns' of "
    "the estimator in statement.json, and the noisy number of records. Other attributes are "
    "null. Records without any value in a column are not counted there."
)
READING_LONG = (
    "Rows with the same number in 'tuple' form one tuple: the items and values that 'count' people "
    "have in that column, and no other item of it. The items of each column are "
    "listed in statement.json. People without any item of a column are not counted there."
)


def write_tuples(
    schema: Schema,
    recode: Mapping[str, Recoding],
    item_columns: ItemColumns | None,
    tuples: Tuples,
    counts: Integers,
) -> pa.Table:
    """Write tuples in their order, which reveals only which tuples are present."""
    lengths = tuples.lengths
    of_tuple = np.repeat(np.arange(len(lengths)), lengths)
    if item_columns is not None:
        item, value = item_columns.item, item_columns.value
        return pa.table(
            {
                COLUMN: pa.array(np.repeat(tuples.groups, lengths), pa.int64()),
                TUPLE: pa.array(of_tuple, pa.int64()),
                item: to_labels(schema.attributes[item], tuples.items),
                value: to_labels(schema.attributes[value], tuples.values, recode.get(value)),
                COUNT: pa.array(np.repeat(counts, lengths), pa.int64()),
            }
        )
    table = {COLUMN: pa.array(tuples.groups, pa.int64())}
    for number, (name, column) in enumerate(schema.attributes.items()):
        codes = np.full(len(lengths), -1, np.int64)
        here = tuples.items == number
        codes[of_tuple[here]] = tuples.values[here]
        table[name] = to_labels(column, codes, recode.get(name))
    table[COUNT] = pa.array(counts, pa.int64())
    return pa.table(table)


@dataclass(frozen=True)
class PublishedTuples:
    """Reader of the table ``data`` of a release of columns."""

    table: pa.Table
    item_columns: ItemColumns | None  # item and value columns of a long table; None for a wide one

    @cached_property
    def starts(self) -> Integers:
        """First row of each tuple."""
        if self.item_columns is None:
            return np.arange(self.table.num_rows)
        return np.flatnonzero(np.diff(as_numpy(self.table.column(TUPLE)), prepend=-1))

    @cached_property
    def counts(self) -> Integers:
        """Count of each tuple."""
        counts: Integers = as_numpy(self.table.column(COUNT))[self.starts]
        return counts

    def of_column(self, number: int) -> PublishedTuples:
        """Return the tuples of one column."""
        mine = np.flatnonzero(as_numpy(self.table.column(COLUMN)) == number)
        return PublishedTuples(self.table.take(numbers(mine)), self.item_columns)

    def codes(self, schema: Schema, recode: Mapping[str, Recoding]) -> dict[str, Integers]:
        """Return the code of each tuple in each attribute of a column.

        `schema` has the attributes: columns of a wide table, or a column for each item of a long
        one.
        """
        if self.item_columns is None:
            return {
                name: to_codes(column, self.table.column(name), recode.get(name))
                for name, column in schema.attributes.items()
            }
        names = list(schema.attributes)
        first = names[0]  # all items have the same values
        values = to_codes(
            schema.attributes[first], self.table.column(self.item_columns.value), recode.get(first)
        )
        tuples, places = repeated(self._lengths), self._places(names)
        codes = {}
        for place, (name, column) in enumerate(schema.attributes.items()):
            missing = (recode.get(name) or column).missing_code
            here = places == place
            codes[name] = np.full(len(self.starts), missing, np.int64)
            codes[name][tuples[here]] = values[here]
        return codes

    @property
    def _lengths(self) -> Integers:
        """Number of rows of each tuple."""
        return np.diff(np.append(self.starts, self.table.num_rows))

    def _places(self, names: Sequence[str]) -> Integers:
        """Return the position among `names` of the item in each row of a long table."""
        if self.item_columns is None or not self.table.num_rows:
            return np.empty(0, np.int64)
        items = self.table.column(self.item_columns.item).combine_chunks().dictionary_encode()
        place_of = {name: place for place, name in enumerate(names)}
        known = np.array([place_of[name] for name in items.dictionary.to_pylist()], np.int64)
        return np.asarray(known[as_numpy(items.indices)])

    def rows(self) -> tuple[Integers, Integers]:
        """Repeat each tuple according to its count.

        Return the rows of the table, and the copy of a tuple that each of them belongs to.
        """
        tuples = repeated(self.counts)
        lengths = self._lengths[tuples]
        owners = repeated(lengths)
        ends = np.cumsum(lengths)
        return np.arange(len(owners)) - (ends - lengths - self.starts[tuples])[owners], owners
