"""Share of the dependence between columns that remains in the rows of a quilt.

The noisy tables are unbiased, the rows are not: the fit shrinks noise, and dependence with it. Both
are published, so the loss can be estimated for each pair without the private table. Let D be the
deviation of a table from independence. The share of the noisy table's D that the rows have is the
inner product of the two deviations divided by the square of the noisy one, both corrected for
noise: the noise variance is subtracted from the square, and the part of it that the fit passed on
from the product.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.answers import TableSums

SURE = 3.0
"""Minimum dependence of a pair, in standard deviations of its noise; others are left out."""


def association_kept(
    tables: TableSums, values: Mapping[str, Integers], *, weight: float, shrinkage: float
) -> dict[tuple[str, str], float]:
    """Return the share of dependence that remains in the rows, for measured, dependent pairs.

    `values` are the counted values of the rows, `weight` the number of original rows that each
    represents, and `shrinkage` the strength of the regularizer in standard deviations of the noise.
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
