"""Best-fitting records: owners of noisy records, and noisy records at a point.

All loops run over all pairs, one thread per noisy record or point, and compare *misfits*: the
squared distance in sigmas for Gaussian noise, and for boxes whether the point is inside.
"""

# ruff: noqa: PLR0917 - numba compiles positional parameters

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.arrays import Floats as Vector
from hushtable.extras import needing
from hushtable.kernels.space import TIE

with needing("publish"):
    from numba import njit, prange


def rank_owners(
    points: Floats,
    z: Floats,
    noise_range: Floats,
    *,
    level: NDArray[np.int64],
    is_gaussian: bool,
    period: Vector | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    """Compare each owner's fit to its noisy record with that of other records of its level.

    Parameters
    ----------
    points, z : array (n, d)
        True and noisy records, row by row.
    noise_range : array (n, d)
        Sigma, or half the side of the box.
    level : array (n,)
        Noise level of each record; only records of the same level are compared.
    is_gaussian : bool
        Whether fits are compared by distance, or by box.
    period : array (d,), optional
        Length of each cyclic column.

    Returns
    -------
    n_better, n_equal, posterior : arrays (n,)
        Number of records that fit better, number that fit equally (the owner included), and the
        owner's posterior probability from a uniform prior.
    """
    n, d = points.shape
    better, equal = np.empty(n, np.int64), np.empty(n, np.int64)
    posterior = np.empty(n)
    around = np.full(d, np.inf) if period is None else period
    _rank_owners(points, z, noise_range, level, is_gaussian, around, better, equal, posterior)
    return better, equal, posterior


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fit_distance(
    x: Vector, z: Vector, noise_range: Vector, is_gaussian: bool, period: Vector
) -> float:
    """Return the squared distance in sigmas; for boxes, 0 inside and infinity outside."""
    total = 0.0
    for column in range(len(x)):
        step = abs(x[column] - z[column])
        step = min(step, abs(period[column] - step))
        if is_gaussian:
            total += (step / noise_range[column]) ** 2
        elif step > noise_range[column] * (1.0 + TIE) + 1e-12:
            return np.inf
    return total


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _rank_owners(
    points: Floats,
    z: Floats,
    noise_range: Floats,
    level: NDArray[np.int64],
    is_gaussian: bool,
    period: Vector,
    better: NDArray[np.int64],
    equal: NDArray[np.int64],
    posterior: Vector,
) -> None:
    for i in prange(len(points)):
        own = _fit_distance(points[i], z[i], noise_range[i], is_gaussian, period)
        n_better, n_equal, weight = 0, 0, 0.0
        for j in range(len(points)):
            if level[j] != level[i]:
                continue
            misfit = _fit_distance(points[j], z[i], noise_range[i], is_gaussian, period)
            if misfit <= own * (1.0 + TIE):
                if misfit >= own * (1.0 - TIE):
                    n_equal += 1
                else:
                    n_better += 1
            if misfit < np.inf:
                weight += math.exp(min(0.5 * (own - misfit), 700.0))
        better[i], equal[i], posterior[i] = n_better, n_equal, 1.0 / weight


def best_fits(
    tests: Floats,
    z: Floats,
    noise_range: Floats,
    *,
    q: int,
    is_gaussian: bool,
    period: Vector | None = None,
) -> tuple[NDArray[np.int64], Vector]:
    """Find the q uncertain records with the largest density at each test point.

    Parameters
    ----------
    tests : array (m, d)
        The test points.
    z, noise_range : array (n, d)
        Noisy records; sigma, or half the side of the box.

    Returns
    -------
    rows : array (m, q)
        The best fits, best first.
    logs : array (m, q)
        Their log densities without constants that all share. If no box contains the point, minus
        infinity, and the rows are those whose boxes would have to grow least to contain it.
    """
    n_columns = tests.shape[1]
    rows = np.empty((len(tests), q), np.int64)
    logs = np.empty((len(tests), q))
    around = np.full(n_columns, np.inf) if period is None else period
    logs_of_volume = np.log(np.maximum(noise_range, 1e-300)).sum(axis=1)
    inverse = 1.0 / np.maximum(np.ascontiguousarray(noise_range.T), 1e-300)
    _best_fits(
        tests, np.ascontiguousarray(z.T), inverse, logs_of_volume, is_gaussian, around, rows, logs
    )
    return rows, logs


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _best_fits(
    tests: Floats,
    columns: Floats,
    inverse: Floats,
    logs_of_volume: Vector,
    is_gaussian: bool,
    period: Vector,
    rows: NDArray[np.int64],
    logs: Vector,
) -> None:
    d, n = columns.shape
    q = rows.shape[1]
    for test in prange(len(tests)):
        misfits = np.zeros(n)
        for column in range(d):
            here, around = tests[test, column], period[column]
            for i in range(n):
                step = abs(columns[column, i] - here)
                step = min(step, abs(around - step)) * inverse[column, i]
                misfits[i] = misfits[i] + step * step if is_gaussian else max(misfits[i], step)
        # Smaller is better: minus the log density, or for boxes that do not contain the point a
        # large number that increases with the distance.
        worst = np.inf
        n_held = 0
        held = np.empty(q)
        for i in range(n):
            if is_gaussian:
                cost = 0.5 * misfits[i] + logs_of_volume[i]
            elif misfits[i] <= 1.0 + TIE:
                cost = logs_of_volume[i]
            else:
                cost = 1e100 * misfits[i]
            if n_held == q and cost >= worst:
                continue
            place = n_held if n_held < q else q - 1
            while place > 0 and held[place - 1] > cost:
                held[place] = held[place - 1]
                rows[test, place] = rows[test, place - 1]
                place -= 1
            held[place] = cost
            rows[test, place] = i
            n_held = min(n_held + 1, q)
            worst = held[n_held - 1]
        for place in range(q):
            logs[test, place] = -held[place] if held[place] < 1e99 else -np.inf
