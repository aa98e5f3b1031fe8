"""Weights of the rows of a quilt, drawn from the uncertainty of its noisy tables.

The rows follow the tables only as far as the fit allowed: noise was shrunk, and dependence with it.
Here tables are drawn from their uncertainty, and rows are weighted to agree with them:

1. Weights are raked (Deming and Stephan 1940) to noisy tables with fresh noise of the same size,
made
   nonnegative. This leaves noise in empty cells, which weakens the correlation of numbers.
2. So the weights are tilted until sums, squares and products of numbers are those drawn for them.
   These are linear in the noisy tables, unbiased, and drawn with all their covariances.

Several such weightings differ from each other as each differs from the truth, as far as the tables
determine it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.answers import TableSums
from hushtable.query.answers.drawing import Generator
from hushtable.query.answers.resampling import MOST, tilted
from hushtable.query.answers.row_sums import RowFunction, power
from hushtable.schema import Integer, Number, Schema
from hushtable.simplex import project_to_simplex

N_SWEEPS = 4


@dataclass(frozen=True, eq=False)
class QuiltRows:
    """The rows of a quilt."""

    schema: Schema
    codes: Mapping[str, Integers]  # codes of the schema, by column
    values: Mapping[str, Integers]  # counted values, by column


def redrawn_weights(tables: TableSums, rows: QuiltRows, rng: Generator) -> Floats:
    """Draw a weight for each row; weights sum to the drawn number of rows of the table."""
    total = max(1.0, tables.draw_total(rng))
    weights = _raked(tables, rows, total, rng)
    functions = _numbers(tables, rows.schema)
    if functions:
        weights = _tilted(tables, rows, functions, weights, rng)
    return np.asarray(weights * (total / max(float(weights.sum()), 1e-9)))


def _raked(tables: TableSums, rows: QuiltRows, total: float, rng: Generator) -> Floats:
    n_rows = len(next(iter(rows.values.values())))
    targets: list[tuple[Integers, Floats]] = []
    for name, of_rows in rows.values.items():
        buckets = tables.measured.buckets[name]
        by_bucket = np.bincount(buckets, tables.draw_column(name, rng))
        targets.append((buckets[of_rows], project_to_simplex(by_bucket, total)))
    for margin in tables.margins():
        cells = np.zeros(n_rows, np.int64)
        for name, places in zip(margin.columns, margin.places, strict=True):
            mine = places[tables.measured.buckets[name]][rows.values[name]]
            cells = cells * (int(places.max()) + 1) + mine
        noise = rng.normal(0.0, margin.variance**0.5, margin.counts.size)
        targets.append((cells, project_to_simplex(margin.counts.ravel() + noise, total)))
    weights: Floats = np.full(n_rows, total / max(1, n_rows))
    for _ in range(N_SWEEPS):
        for cells, target in targets:
            there = np.bincount(cells, weights, len(target))
            ratio = np.clip(target / np.maximum(there, 1e-9), 1 / MOST, MOST)
            weights = weights * ratio[cells]
    return weights


def _numbers(tables: TableSums, schema: Schema) -> list[RowFunction]:
    """Return numbers, their squares, and products of numbers that were measured together."""
    columns = {
        name: column
        for name, column in schema.attributes.items()
        if isinstance(column, Integer | Number)
    }
    made = [power(name, column, k) for name, column in columns.items() for k in (1, 2)]
    for one, two in combinations(columns, 2):
        if tables.margin(tuple(sorted((one, two)))) is not None:
            made.append(power(one, columns[one], 1) * power(two, columns[two], 1))
    return made


def _tilted(
    tables: TableSums,
    rows: QuiltRows,
    functions: list[RowFunction],
    weights: Floats,
    rng: Generator,
) -> Floats:
    """Multiply weights by the exponential of a sum of functions until means are as drawn."""
    told = [(one, tables.linear(one)) for one in functions]
    known = [(one, linear) for one, linear in told if linear is not None]
    found = tables.sums([linear for _, linear in known], together=True)
    covariance = found.privacy + found.model
    drawn = rng.multivariate_normal(found.values, covariance, method="eigh")
    wanted = drawn / max(1.0, tables.total)
    values = np.stack([one.values(rows.codes) for one, _ in known])
    return tilted(weights, values, wanted)
