"""How much of the dependence between columns the rows of a quilt kept.

The noisy tables are unbiased, the rows are not: the fit shrinks noise, and dependence with it. Both
are published, so what was lost can be told without the private table, pair by pair. Let D be how
far a table is from independent columns. The part of the noisy table's D that is found in the rows
is the inner product of the two over the square of the former, once the noise is taken off both: all
of its variance from the square, and what the fit let through of it from the product.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hushtable.methods.quilt.domains import Floats, Integers
from hushtable.methods.quilt.table_sums import TableSums

SURE = 3.0
"""A pair is left out unless its dependence stands out from noise by so many deviations."""


def kept(
    tables: TableSums, values: Mapping[str, Integers], *, weight: float, shrinkage: float
) -> dict[tuple[str, str], float]:
    """Give the share of dependence that rows kept, for pairs that were measured and have any.

    Parameters
    ----------
    tables : TableSums
        The noisy tables.
    values : mapping of str to int array
        The counted value of each row, by column.
    weight : float
        What a row counts for.
    shrinkage : float
        How strongly the fit was held back, in standard deviations of the noise.
    """
    found: dict[tuple[str, str], float] = {}
    for margin in tables.margins():
        if len(margin.columns) != 2:
            continue
        first, second = (
            places[tables.measured.buckets[name]][values[name]]
            for name, places in zip(margin.columns, margin.places, strict=True)
        )
        shape = margin.counts.shape
        cells = np.bincount(first * shape[1] + second, minlength=margin.counts.size)
        rows: Floats = (weight * cells).astype(np.float64).reshape(shape)
        even = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / max(float(rows.sum()), 1.0)
        noisy, fitted = margin.counts - even, rows - even
        let_through = rows / (rows + shrinkage * margin.variance**0.5)
        squares = float(np.sum(noisy**2)) - margin.variance * noisy.size
        unsure = margin.variance * (2 * noisy.size) ** 0.5
        if squares > SURE * unsure:
            both = float(np.sum(noisy * fitted)) - margin.variance * float(let_through.sum())
            one, two = margin.columns
            found[one, two] = min(max(both / squares, 0.0), 1.0)
    return found
