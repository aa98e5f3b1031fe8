"""The published table of a generalized release: labels, class, raw and non-negative counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.recoding import Recoding
from hushtable.schema import Column, Schema, decode

if TYPE_CHECKING:  # so that reading a release loads no sampler
    from hushtable.privacy.group_noise import NoisyCells

COUNT, NOISY_COUNT = "count", "noisy_count"
"""Columns that are published beside the schema's own."""


def generalized_table(
    schema: Schema,
    recode: Mapping[str, Recoding],
    counted: Sequence[str],
    cells: NoisyCells,
    *,
    total: int | None = None,
    consistent: bool = False,
    exact: bool = False,
) -> pa.Table:
    """Write groups as rows of labels, in the order of the domain.

    Parameters
    ----------
    schema : Schema
        The public schema.
    recode : mapping of str to Recoding
        The cut of each generalized column; others keep their values.
    counted : sequence of str
        The columns of `cells`; a column that is not among them has one label for all.
    cells : NoisyCells
        The groups and their raw noisy counts.
    total : int or None
        The number of rows as published, for consistent counts.
    consistent : bool
        Whether counts are fitted to the total instead of cut off at 0.
    exact : bool
        Whether the counts have no noise, so that there are no raw ones beside them.
    """
    table = {}
    for name, column in schema.attributes.items():
        codes = (
            cells.codes[:, counted.index(name)]
            if name in counted
            else np.zeros(len(cells.noisy), np.int64)
        )
        table[name] = labels_of(column, recode.get(name)).take(pa.array(codes))
    raw = cells.noisy
    if consistent:
        fitted = least_squares(raw, int(raw.sum()) if total is None else total)
    else:
        fitted = np.maximum(raw, 0)
    table[COUNT] = pa.array(fitted, pa.int64())
    if not exact:
        table[NOISY_COUNT] = pa.array(raw, pa.int64())
    return pa.table(table)


def labels_of(column: Column, recoding: Recoding | None) -> pa.Array:
    """List what the codes of a column stand for: labels, or values where it is not generalized."""
    if recoding is not None:
        return pa.array([recoding.label(code) for code in range(recoding.size)], pa.string())
    values = decode(column, range(column.size))
    kinds = {"categorical": pa.string(), "integer": pa.int64(), "number": pa.float64()}
    return pa.array(values, kinds[column.type])


def least_squares(noisy: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Fit non-negative whole numbers with a given total to noisy counts.

    The closest point of {x >= 0, sum x = total} is max(0, noisy - shift) for one shift (the
    projection onto a simplex). Rounding gives the missing units to the largest fractions.

    Examples
    --------
    >>> least_squares(np.array([10, 3, -2, 1]), 11).tolist()
    [9, 2, 0, 0]
    """
    if total <= 0 or not len(noisy):
        return np.zeros(len(noisy), np.int64)
    falling = np.sort(noisy)[::-1]
    shifts = (np.cumsum(falling, dtype=np.float64) - total) / np.arange(1, len(noisy) + 1)
    n_positive = int(np.flatnonzero(falling > shifts)[-1]) + 1
    exact = np.maximum(noisy - shifts[n_positive - 1], 0.0)
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    short = total - int(whole.sum())
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: max(0, short)]] += 1
    return whole
