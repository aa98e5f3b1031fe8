"""Tables as integer codes: original, control and published rows in one public domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Codes32
from hushtable.engine import open_table
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.engine.sources.header import Data
from hushtable.query.answers.published import Block, ByColumn
from hushtable.schema import Column, Identifier, Schema
from hushtable.schema.codes import to_values
from hushtable.schema.file_format import FileFormat


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as one array of codes per column."""

    schema: Schema
    codes: Mapping[str, Codes32]  # by column; missing has its own code
    n_rows: int

    @classmethod
    def of(cls, schema: Schema, codes: ByColumn) -> CodedRows:
        """Create from arrays of codes, one per column."""
        narrow = {name: np.asarray(codes[name], np.int32) for name in schema.attributes}
        return cls(schema, narrow, len(next(iter(narrow.values()))))

    @classmethod
    def drawn(cls, block: Block, rng: np.random.Generator) -> CodedRows:
        """Return the rows of a block, sampling exact values inside generalized cells."""
        return cls.of(block.schema, block.rows(rng))

    def take(self, places: NDArray[np.int64]) -> CodedRows:
        """Return the rows at these positions."""
        return CodedRows(self.schema, {n: c[places] for n, c in self.codes.items()}, len(places))

    def select(self, names: Sequence[str]) -> CodedRows:
        """Return the rows with only these columns."""
        return CodedRows(
            self.schema.of_rows(names),
            {name: self.codes[name] for name in names},
            self.n_rows,
        )

    def in_order(self) -> CodedRows:
        """Return the rows sorted, so that random samples do not depend on the input order."""
        return self.take(self._sorted()[0])

    def distinct(self) -> CodedRows:
        """Return the distinct rows."""
        order, is_first = self._sorted()
        return self.take(order[is_first])

    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        domain = self.schema.domain
        keys = domain.pack(np.column_stack([self.codes[name] for name in domain.names]))
        order = np.lexsort(keys.T[::-1])
        is_first = np.ones(self.n_rows, np.bool_)
        is_first[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
        return order, is_first

    def with_values(self) -> CodedRows:
        """Drop rows in which all columns are missing."""
        there = np.zeros(self.n_rows, np.bool_)
        for name, column in self.schema.attributes.items():
            there |= self.codes[name] != (
                -1 if column.missing_code is None else column.missing_code
            )
        return self if there.all() else self.take(np.flatnonzero(there))

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table of values; missing is null."""
        return pa.table(
            {
                name: to_values(column, self.codes[name].astype(np.int64))
                for name, column in self.schema.attributes.items()
            }
        )


def read_rows(data: Data, schema: Schema, layout: FileFormat | None = None) -> CodedRows:
    r"""Read a table by the schema's rules, in sorted order.

    `layout` is the file format, by default that of the schema.

    Examples
    --------
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 40, high: 43}\n")
    >>> read_rows(pa.table({"age": [43, 41, 43]}), schema).codes["age"].tolist()
    [1, 3, 3]
    """
    layout = schema.reading if layout is None else layout
    table = open_table.open(data, reading=layout, engine="memory")
    public = schema.of_rows(schema.attributes)
    lowered = {name.lower() for name in public.columns}
    # Other columns are marked as identifiers, so that their types do not matter.
    others = [name for name in table.header.names if name.lower() not in lowered and name]
    ignored = dict.fromkeys(others, Identifier(role="identifier"))
    told = {"columns": {**public.columns, **ignored}, "reading": layout}
    engine = table.connect(public.model_copy(update=told))
    assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
    return CodedRows.of(public, engine.codes(list(public.attributes))).in_order()


def is_ordered(column: Column) -> bool:
    """Return whether the order of a column's values is meaningful."""
    return column.is_line
