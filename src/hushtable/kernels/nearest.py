"""Nearest published records of given ones, and best fits between points and noisy records."""

from __future__ import annotations

import math

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.extras import needing
from hushtable.kernels.anonymity_sets import TIE

with needing("publish"):
    from numba import njit, prange


_ONE = 1 << 36
"""Distance of two different values of an unordered column, in integer steps."""


def nearest(
    targets: Floats,
    published: Floats,
    *,
    ordered: Bools,
    n_neighbors: int = 1,
    seed: int = 0,
) -> tuple[Integers, Floats]:
    """Find the nearest published records of each target.

    The distance is a sum over columns. In an ordered column it is the difference (positions are
    scaled to the public range); otherwise 0 if equal and 1 if not. To a missing value (NaN) it is
    1, between two missing values 0. Ties are broken at random, independently for each target.

    Parameters
    ----------
    targets, published : array (n, d)
        Positions in ordered columns, codes in others.
    ordered : array (d,)
        Which columns are ordered.
    n_neighbors : int
        Number of neighbors; fewer if there are fewer published records.
    seed : int
        Seed for breaking ties.

    Returns
    -------
    places, distances : arrays (n, n_neighbors)
        Nearest first.

    Examples
    --------
    >>> published = np.array([[0.0, 1.0], [0.5, 2.0], [np.nan, 2.0]])
    >>> places, distances = nearest(
    ...     np.array([[0.4, 2.0]]), published, ordered=np.array([True, False]), n_neighbors=2
    ... )
    >>> places.tolist(), distances.round(3).tolist()
    ([[1, 2]], [[0.1, 1.0]])
    """
    n_neighbors = min(n_neighbors, len(published))
    places = np.zeros((len(targets), n_neighbors), np.int64)
    distances = np.full((len(targets), n_neighbors), np.inf)
    if n_neighbors and len(targets):
        columns = _most_selective_first(targets, published, ordered)
        _nearest(
            np.ascontiguousarray(targets[:, columns]),
            np.ascontiguousarray(published[:, columns]),
            ordered[columns],
            np.uint64(seed),
            places,
            distances,
        )
    return places, distances


def nearest_without_each(
    targets: Floats, published: Floats, *, ordered: Bools, seed: int = 0
) -> Integers:
    """Find, for each target and each column, the nearest published record by all other columns.

    Distances are those of `nearest`, in integer multiples of 2**-36, so that subtracting a column
    from a sum is exact and ties are preserved.

    Parameters
    ----------
    targets, published : array (n, d)
        Positions from 0 to 1 in ordered columns, codes in others.
    ordered : array (d,)
        Which columns are ordered.
    seed : int
        Seed for breaking ties.

    Returns
    -------
    array (n, d)
        Positions of the nearest records, by the omitted column.

    Examples
    --------
    >>> published = np.array([[0.0, 1.0], [0.5, 2.0], [np.nan, 3.0]])
    >>> ordered = np.array([True, False])
    >>> nearest_without_each(np.array([[0.1, 2.0]]), published, ordered=ordered).tolist()
    [[1, 0]]
    """
    places = np.zeros(targets.shape, np.int64)
    if len(published) and len(targets):
        columns = _most_selective_first(targets, published, ordered)
        found = np.zeros(targets.shape, np.int64)
        _nearest_without_each(
            _in_steps(targets[:, columns]), _in_steps(published[:, columns]), np.uint64(seed), found
        )
        places[:, columns] = found
    return places


def _in_steps(matrix: Floats) -> Integers:
    """Convert positions and codes to integers; different codes differ by at least `_ONE`."""
    return np.where(np.isnan(matrix), -2 * _ONE, np.rint(matrix * _ONE)).astype(np.int64)


def _most_selective_first(targets: Floats, published: Floats, ordered: Bools) -> Integers:
    """Order the columns so that the first few exclude most records."""
    some, others = targets[:64, None, :], published[None, :256, :]
    apart = np.where(ordered, np.abs(some - others), some != others)
    apart[np.isnan(some) | np.isnan(others)] = 0.5  # 0 or 1; this is only a heuristic
    return np.argsort(-apart.mean(axis=(0, 1)), kind="stable")


@njit(cache=True)  # type: ignore[untyped-decorator]
def _scrambled(x: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """Mix the bits of a number, as SplitMix64 does."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _nearest(
    targets: Floats,
    published: Floats,
    ordered: Bools,
    seed: np.uint64,
    places: Integers,
    distances: Floats,
) -> None:  # pragma: no cover - compiled
    n_neighbors, n_columns = places.shape[1], targets.shape[1]
    for i in prange(len(targets)):
        own_seed = _scrambled(seed ^ _scrambled(np.uint64(i)))
        lots = np.zeros(n_neighbors, np.uint64)
        for j in range(len(published)):
            farthest = distances[i, n_neighbors - 1]
            total = 0.0
            for column in range(n_columns):
                x, y = targets[i, column], published[j, column]
                if x == y:
                    continue
                apart = abs(x - y) if ordered[column] else 1.0
                if np.isnan(x) or np.isnan(y):
                    apart = 0.0 if np.isnan(x) and np.isnan(y) else 1.0
                total += apart
                if total > farthest:
                    break
            if total > farthest:
                continue
            lot = _scrambled(own_seed + np.uint64(j))
            if total == farthest and lot >= lots[n_neighbors - 1]:
                continue
            slot = n_neighbors - 1
            while slot > 0 and (
                distances[i, slot - 1] > total
                or (distances[i, slot - 1] == total and lots[slot - 1] > lot)
            ):
                distances[i, slot] = distances[i, slot - 1]
                places[i, slot] = places[i, slot - 1]
                lots[slot] = lots[slot - 1]
                slot -= 1
            distances[i, slot] = total
            places[i, slot] = j
            lots[slot] = lot


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _nearest_without_each(
    targets: Integers, published: Integers, seed: np.uint64, places: Integers
) -> None:  # pragma: no cover - compiled
    n_columns = targets.shape[1]
    for i in prange(len(targets)):
        own_seed = _scrambled(seed ^ _scrambled(np.uint64(i)))
        nearest_yet = np.full(n_columns, np.int64(n_columns * _ONE))
        lots = np.full(n_columns, np.uint64(0xFFFFFFFFFFFFFFFF))
        apart = np.empty(n_columns, np.int64)
        reach = np.int64((n_columns + 1) * _ONE)
        for j in range(len(published)):
            total = np.int64(0)
            for column in range(n_columns):
                apart[column] = min(abs(targets[i, column] - published[j, column]), _ONE)
                total += apart[column]
                if total > reach:
                    break
            if total > reach:
                continue  # too distant even without the column that differs most
            lot = _scrambled(own_seed + np.uint64(j))
            is_nearer = False
            for column in range(n_columns):
                left = total - apart[column]
                if left < nearest_yet[column] or (
                    left == nearest_yet[column] and lot < lots[column]
                ):
                    nearest_yet[column], lots[column], places[i, column] = left, lot, j
                    is_nearer = True
            if is_nearer:
                reach = nearest_yet.max() + _ONE


# Best-fitting records: owners of noisy records, and noisy records at a point.
#
# All loops run over all pairs, one thread per noisy record or point, and compare *misfits*: the
# squared distance in sigmas for Gaussian noise, and for boxes whether the point is inside.

# ruff: noqa: PLR0917 - numba compiles positional parameters


def rank_owners(
    points: Floats,
    z: Floats,
    noise_range: Floats,
    *,
    level: Integers,
    is_gaussian: bool,
    period: Floats | None = None,
) -> tuple[Integers, Integers, Floats]:
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
    x: Floats, z: Floats, noise_range: Floats, is_gaussian: bool, period: Floats
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
    level: Integers,
    is_gaussian: bool,
    period: Floats,
    better: Integers,
    equal: Integers,
    posterior: Floats,
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
    period: Floats | None = None,
) -> tuple[Integers, Floats]:
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
        Their log densities without constants that all share; minus infinity for a box that does
        not contain the point. Such records come last, those first whose boxes would have to grow
        least to contain it.
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
    logs_of_volume: Floats,
    is_gaussian: bool,
    period: Floats,
    rows: Integers,
    logs: Floats,
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
