"""The nearest published records of given ones, columns of any kind together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("publish"):
    from numba import njit, prange

Matrix = NDArray[np.float64]
Integers = NDArray[np.int64]


def nearest(
    targets: Matrix,
    published: Matrix,
    *,
    ordered: NDArray[np.bool_],
    n_neighbors: int = 1,
    seed: int = 0,
) -> tuple[Integers, Matrix]:
    """Find the nearest published records of each target.

    The distance is a sum over columns: in an ordered one the difference (positions are scaled to
    the public range), else 0 if equal and 1 if not. Against a missing value (NaN) it is 1, between
    two missing ones 0. Among equally near records chance decides, for each target anew.

    Parameters
    ----------
    targets, published : array (n, d)
        Positions in ordered columns, codes in others.
    ordered : array (d,)
        Which columns are ordered.
    n_neighbors : int
        How many are wanted, at most the number of published records.
    seed : int
        Where that chance comes from.

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
        columns = _telling_first(targets, published, ordered)
        _nearest(
            np.ascontiguousarray(targets[:, columns]),
            np.ascontiguousarray(published[:, columns]),
            ordered[columns],
            np.uint64(seed),
            places,
            distances,
        )
    return places, distances


def _telling_first(targets: Matrix, published: Matrix, ordered: NDArray[np.bool_]) -> Integers:
    """Order the columns so that most records are ruled out by the first few."""
    some, others = targets[:64, None, :], published[None, :256, :]
    apart = np.where(ordered, np.abs(some - others), some != others)
    apart[np.isnan(some) | np.isnan(others)] = 0.5  # which of 0 and 1 does not matter here
    return np.argsort(-apart.mean(axis=(0, 1)), kind="stable")


@njit(cache=True)  # type: ignore[untyped-decorator]
def _scrambled(x: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """Mix the bits of a number, as SplitMix64 does."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _nearest(  # noqa: PLR0917 - numba has no keyword-only arguments
    targets: Matrix,
    published: Matrix,
    ordered: NDArray[np.bool_],
    seed: np.uint64,
    places: Integers,
    distances: Matrix,
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
