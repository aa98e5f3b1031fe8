"""A table that looks like the schema and is about nobody, to rehearse on.

Values are drawn from the public domain alone: no row, no count and no frequency of the private
table is in it. Values early in a list are more frequent, and neighboring columns go together a
little, so that a report on it has something to show.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.schema import Categorical, Column, Schema

MAX_ROWS = 200_000
_MISSING = 0.03
_TOGETHER = 0.5  # how far a column follows the one before it


def stand_in_schema(schema: Schema) -> Schema:
    """Give the schema of the stand-in: it must not be taken for the table's own."""
    return schema.model_copy(
        update={"name": f"{schema.name} (stand-in, about nobody)", "rows": None}
    )


def make_stand_in(schema: Schema, rows: int) -> pa.Table:
    """Draw a table of so many rows from the schema alone, the same each time.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> table = make_stand_in(sample_schema(), 500)
    >>> table.num_rows, table.column_names == list(sample_schema().columns)
    (500, True)
    """
    rng = np.random.default_rng(0)
    rows = min(max(rows, 1), MAX_ROWS)
    mood = rng.random(rows)
    columns: dict[str, pa.Array] = {}
    for name in schema.columns:
        if name not in schema.attributes:
            # Of a person there may be several rows.
            n_units = max(rows // 2, 1) if schema.unit.column == name else rows
            columns[name] = pa.array([str(n) for n in rng.integers(0, n_units, rows)])
            continue
        own = rng.random(rows)
        mood = np.where(rng.random(rows) < _TOGETHER, mood, own)
        columns[name] = _values(schema.attributes[name], mood, rng)
    return pa.table(columns)


def _values(column: Column, mood: np.ndarray, rng: np.random.Generator) -> pa.Array:
    if isinstance(column, Categorical):
        weights = 1.0 / (1.0 + np.arange(column.n_values)) ** 0.7
        codes = np.searchsorted(np.cumsum(weights) / weights.sum(), mood)
    else:
        codes = (mood**1.3 * column.n_values).astype(np.int64)
    codes = np.minimum(codes, column.n_values - 1)
    values = [column.value(int(code)) for code in codes]
    if column.missing == "category":
        gone = rng.random(len(values)) < _MISSING
        values = [None if none else value for value, none in zip(values, gone, strict=True)]
    return pa.array(values)
