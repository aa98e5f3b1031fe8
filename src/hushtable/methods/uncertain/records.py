"""Records as numbers: out of the engine's counts, and back into a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hushtable.engine.base import Engine
from hushtable.kernels.space import Points, Vector
from hushtable.methods.uncertain.ruler import Integers
from hushtable.schema import Categorical, Column, Integer


def record_values(engine: Engine, columns: Sequence[str]) -> Points:
    """Give the private records as numbers, one row each: values, or codes of categories.

    Records are the occupied cells of the finest table, each as often as it is counted, so every
    engine has them, in an order that says nothing about the order of the private rows.
    """
    cells = engine.counts(columns)
    values = np.empty(cells.codes.shape)
    for place, name in enumerate(columns):
        column, codes = engine.schema.attributes[name], cells.codes[:, place]
        if isinstance(column, Categorical):
            values[:, place] = codes
        else:
            values[:, place] = float(column.exact_low) + codes * float(column.exact_step)
            values[codes == column.missing_code, place] = np.nan
    return np.repeat(values, cells.counts, axis=0)


def records_by(carried: Points) -> list[Integers]:
    """Group rows by the values they carry: one array of rows for each combination."""
    if carried.shape[1] == 0:
        return [np.arange(len(carried))]
    _, group_of = np.unique(carried, axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    starts = np.flatnonzero(np.diff(group_of[order], prepend=-1))
    return np.split(order, starts[1:])


def carried_values(column: Column, values: Vector) -> pa.Array:
    """Write values that records carry unchanged: numbers, or codes of categories."""
    if isinstance(column, Categorical):
        labels = [column.value(int(code)) for code in range(column.size)]
        return pa.array([labels[int(code)] for code in values], pa.string())
    missing = np.isnan(values)
    if isinstance(column, Integer):
        whole = np.where(missing, 0, values).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=missing)
    return pa.array(values, pa.float64(), mask=missing)
