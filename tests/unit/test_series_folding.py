"""Coarser tables of waves, combined with finer ones by precision."""

from __future__ import annotations

import numpy as np

from hushtable.methods.prior import EarlierTable
from hushtable.series.waves import folded

SIZES = {"a": 4, "b": 2}
HALVES = np.array([0, 0, 1, 1])


def table(cells: np.ndarray | None, counts: np.ndarray, variance: float) -> EarlierTable:
    shape = (4 if cells is None else int(cells.max()) + 1, 2)
    flat = counts.ravel().astype(float)
    return EarlierTable(("a", "b"), (cells, None), shape, flat, np.full(flat.size, variance))


def test_it_is_the_best_linear_estimate() -> None:
    """Generalized least squares of all counts gives the same, cell by cell."""
    rng = np.random.default_rng(2)
    fine = table(None, rng.normal(50, 9, (4, 2)), 9.0)
    coarse = table(HALVES, rng.normal(100, 4, (2, 2)), 4.0)
    [both] = folded([coarse, fine], SIZES)
    sums = np.kron(np.eye(2)[HALVES].T, np.eye(2))  # the fine cells of each coarse cell
    design = np.vstack([np.eye(8), sums])
    precision = np.diag(1 / np.concatenate([fine.variances, coarse.variances]))
    covariance = np.linalg.inv(design.T @ precision @ design)
    told = np.concatenate([fine.counts, coarse.counts])
    np.testing.assert_allclose(both.counts, covariance @ design.T @ precision @ told)
    np.testing.assert_allclose(both.variances, covariance.diagonal())


def test_what_is_not_made_of_finer_cells_stays() -> None:
    crossed = np.array([0, 1, 1, 0])
    tables = [table(HALVES, np.ones((2, 2)), 1.0), table(crossed, np.ones((2, 2)), 1.0)]
    assert folded(tables, SIZES) == tables
    columns = [
        EarlierTable(("a",), (None,), (4,), np.ones(4), np.ones(4)),
        EarlierTable(("b",), (None,), (2,), np.ones(2), np.ones(2)),
    ]
    assert folded(columns, SIZES) == columns
