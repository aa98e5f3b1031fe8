"""Published table of a generalized release: labels, class, raw and non-negative counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hushtable.schema import Schema
from hushtable.schema.codes import to_labels
from hushtable.schema.recoding import Recoding
from hushtable.simplex import project_integers_to_simplex

if TYPE_CHECKING:  # reading a release must not load samplers
    from hushtable.privacy.mechanisms.cells import NoisyCells

COUNT, NOISY_COUNT = "count", "noisy_count"
"""Columns that are published in addition to the schema's own."""


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
    """Return groups as rows of labels, in the order of the domain.

    Parameters
    ----------
    schema : Schema
        The public schema.
    recode : mapping of str to Recoding
        Cut of each generalized column; others keep their values.
    counted : sequence of str
        Columns of `cells`; a column that is not among them has one label for all rows.
    cells : NoisyCells
        The groups and their raw noisy counts.
    total : int or None
        Published number of rows, for consistent counts.
    consistent : bool
        Whether counts are fitted to the total instead of clipped at 0.
    exact : bool
        Whether the counts have no noise, so that there are no separate raw counts.
    """
    table = {}
    for name, column in schema.attributes.items():
        codes = (
            cells.codes[:, counted.index(name)]
            if name in counted
            else np.zeros(len(cells.noisy), np.int64)
        )
        table[name] = to_labels(column, codes, recode.get(name))
    raw = cells.noisy
    if consistent:
        fitted = project_integers_to_simplex(raw, int(raw.sum()) if total is None else total)
    else:
        fitted = np.maximum(raw, 0)
    table[COUNT] = pa.array(fitted, pa.int64())
    if not exact:
        table[NOISY_COUNT] = pa.array(raw, pa.int64())
    return pa.table(table)
