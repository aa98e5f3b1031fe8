"""Rows as codes: the original, the control and the published ones, all in one public domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_values
from hushtable.engine import door
from hushtable.engine.header import Data
from hushtable.engine.memory import MemoryEngine
from hushtable.estimate.published import Block, ByColumn
from hushtable.file_format import FileFormat
from hushtable.schema import Column, Identifier, Schema

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Hold rows as one array of codes per column.

    Parameters
    ----------
    schema : Schema
        What the codes mean.
    codes : mapping of str to array
        The codes; missing has one of its own.
    n_rows : int
        How many rows there are.
    """

    schema: Schema
    codes: Mapping[str, Codes]
    n_rows: int

    @classmethod
    def of(cls, schema: Schema, codes: ByColumn) -> CodedRows:
        """Hold arrays of codes."""
        narrow = {name: np.asarray(codes[name], np.int32) for name in schema.attributes}
        return cls(schema, narrow, len(next(iter(narrow.values()))))

    @classmethod
    def drawn(cls, block: Block, rng: np.random.Generator) -> CodedRows:
        """Take the rows of a block, with values as precise as the original's."""
        return cls.of(block.schema, block.rows(rng))

    def take(self, places: NDArray[np.int64]) -> CodedRows:
        """Take some rows."""
        return CodedRows(self.schema, {n: c[places] for n, c in self.codes.items()}, len(places))

    def select(self, names: Sequence[str]) -> CodedRows:
        """Take some columns."""
        return CodedRows(
            self.schema.select(names),
            {name: self.codes[name] for name in names},
            self.n_rows,
        )

    def in_order(self) -> CodedRows:
        """Sort the rows, so that what is drawn from them does not depend on their order."""
        return self.take(self._sorted()[0])

    def distinct(self) -> CodedRows:
        """Keep one of equal rows."""
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
        """Keep the rows that have any value: missing ones in all columns are no record."""
        there = np.zeros(self.n_rows, np.bool_)
        for name, column in self.schema.attributes.items():
            there |= self.codes[name] != (
                -1 if column.missing_code is None else column.missing_code
            )
        return self if there.all() else self.take(np.flatnonzero(there))

    def table(self) -> pa.Table:
        """Write as a table of values; missing is null."""
        return pa.table(
            {
                name: to_values(column, self.codes[name].astype(np.int64))
                for name, column in self.schema.attributes.items()
            }
        )


def read_rows(data: Data, schema: Schema, layout: FileFormat | None = None) -> CodedRows:
    r"""Read a table by the schema's rules, in an order of its own.

    `layout` says how its file is read, where that is not what the schema says.

    Examples
    --------
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 40, high: 43}\n")
    >>> read_rows(pa.table({"age": [43, 41, 43]}), schema).codes["age"].tolist()
    [1, 3, 3]
    """
    layout = schema.reading if layout is None else layout
    table = door.open(data, reading=layout, engine="memory")
    public = schema.select(schema.attributes)
    lowered = {name.lower() for name in public.columns}
    # Columns that are not compared are not looked at, whatever they are.
    others = [name for name in table.header.names if name.lower() not in lowered and name]
    ignored = dict.fromkeys(others, Identifier(role="identifier"))
    told = {"columns": {**public.columns, **ignored}, "reading": layout}
    engine = table.connect(public.model_copy(update=told))
    assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
    return CodedRows.of(public, engine.codes(list(public.attributes))).in_order()


def is_ordered(column: Column) -> bool:
    """Tell whether the order of a column's values means something."""
    return column.is_line
