"""Records as arrays of numbers: read from an engine's counts, and written to a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.arrays import Floats as Vector
from hushtable.engine.base import Engine
from hushtable.schema import Column, Integer, Numeric
from hushtable.schema.codes import to_labels


def record_values(engine: Engine, columns: Sequence[str]) -> Floats:
    """Return the private records as numbers, one row each: values, or codes of categories.

    Records are the occupied cells of the full table, repeated by their counts. Every engine
    provides them, in an order that does not depend on the order of the private rows.
    """
    cells = engine.counts(columns)
    values = np.empty(cells.codes.shape)
    for place, name in enumerate(columns):
        column, codes = engine.schema.attributes[name], cells.codes[:, place]
        if not isinstance(column, Numeric):
            values[:, place] = codes
        else:
            values[:, place] = float(column.exact_low) + codes * float(column.exact_step)
            for code in range(column.n_values, column.size):  # special codes, and missing
                value = column.value(code)
                values[codes == code, place] = np.nan if value is None else float(value)
    return np.repeat(values, cells.counts, axis=0)


def records_by(carried: Floats) -> list[Integers]:
    """Group rows by their carried values: one array of rows for each combination."""
    if carried.shape[1] == 0:
        return [np.arange(len(carried))]
    # Column by column first, because NaN equals NaN within a column but not within rows.
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in carried.T]
    _, group_of = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    starts = np.flatnonzero(np.diff(group_of[order], prepend=-1))
    return np.split(order, starts[1:])


def carried_values(column: Column, values: Vector) -> pa.Array:
    """Return carried values as an Arrow array; input is numbers, or codes of other columns."""
    if not isinstance(column, Numeric):
        return to_labels(column, values.astype(np.int64))
    missing = np.isnan(values)
    if isinstance(column, Integer):
        whole = np.where(missing, 0, values).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=missing)
    return pa.array(values, pa.float64(), mask=missing)
