"""Partition around medoids: BUILD, and SWAP as in FasterPAM.

See Kaufman and Rousseeuw (1990) and Schubert and Rousseeuw (2021). The result is deterministic:
ties go to the lowest number, so equal distances give equal clusters.
"""

from __future__ import annotations

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.errors import ParameterError
from hushtable.extras import needing

with needing("publish"):
    from numba import njit

MAX_PASSES = 100
"""Limit of passes over the points; each swap lowers the cost, so few are needed."""

_LEAST_GAIN = 1e-9  # relative; swaps for smaller gains, which may be rounding errors, might not end


def pam(distances: Floats, n_clusters: int) -> Integers:
    """Cluster points by their distances; return the cluster number of each point.

    Parameters
    ----------
    distances : array (n, n)
        Symmetric, not negative, zero on the diagonal.
    n_clusters : int
        Number of clusters, 1 to n.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 10.0, 11.0, 12.0])
    >>> pam(abs(points[:, None] - points), 2).tolist()
    [0, 0, 1, 1, 1]
    """
    medoids = find_medoids(distances, n_clusters)
    clusters: Integers = np.argmin(distances[:, medoids], axis=1)
    clusters[medoids] = np.arange(n_clusters)  # also if two medoids are at distance 0
    return clusters


def find_medoids(distances: Floats, n_clusters: int) -> Integers:
    """Return sorted medoids such that no swap with another point lowers the cost.

    After `MAX_PASSES` passes over the points, the search stops in any case.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    >>> find_medoids(abs(points[:, None] - points), 2).tolist()
    [1, 4]
    """
    n = len(distances)
    if distances.shape != (n, n) or not 1 <= n_clusters <= n:
        raise ParameterError(
            f"n_clusters is {n_clusters} for distances of shape {distances.shape}; the distances "
            "must be square, and n_clusters at least 1 and at most the number of points."
        )
    medoids = _build(distances, n_clusters)
    _swap(distances, medoids, MAX_PASSES)
    return np.sort(medoids)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _build(distances: Floats, k: int) -> Integers:
    """Add the point that lowers the cost most, k times."""
    n = len(distances)
    medoids = np.empty(k, np.int64)
    nearest = np.full(n, np.inf)
    taken = np.zeros(n, np.bool_)
    for number in range(k):
        best, best_gain = -1, -np.inf
        for candidate in range(n):
            if taken[candidate]:
                continue
            gain = 0.0
            for point in range(n):
                d = distances[candidate, point]
                if number == 0:
                    gain -= d
                elif d < nearest[point]:
                    gain += nearest[point] - d
            if gain > best_gain:
                best, best_gain = candidate, gain
        medoids[number] = best
        taken[best] = True
        for point in range(n):
            nearest[point] = min(nearest[point], distances[best, point])
    return medoids


@njit(cache=True)  # type: ignore[untyped-decorator]
def _nearest_two(
    distances: Floats,
    medoids: Integers,
    first: Integers,
    d_first: Floats,
    d_second: Floats,
) -> None:
    """Find each point's nearest medoid, and the distances to it and to the second nearest."""
    for point in range(len(distances)):
        d_first[point] = d_second[point] = np.inf
        first[point] = 0
        for number in range(len(medoids)):
            d = distances[medoids[number], point]
            if d < d_first[point]:
                d_second[point] = d_first[point]
                d_first[point] = d
                first[point] = number
            elif d < d_second[point]:
                d_second[point] = d


@njit(cache=True)  # type: ignore[untyped-decorator]
def _swap(distances: Floats, medoids: Integers, max_passes: int) -> int:
    """Swap medoids for other points while this lowers the cost; return the number of swaps.

    For a candidate, one pass over the points computes the change of cost for replacing each of the
    k medoids: savings that do not depend on the replaced medoid are summed once, and only the
    points of the replaced medoid are corrected.
    """
    n, k = len(distances), len(medoids)
    first = np.empty(n, np.int64)
    d_first, d_second = np.empty(n), np.empty(n)
    _nearest_two(distances, medoids, first, d_first, d_second)
    is_medoid = np.zeros(n, np.bool_)
    is_medoid[medoids] = True
    # With one medoid there is no second nearest: the replacement serves all points.
    changes, n_swaps, quiet, candidate = np.empty(k), 0, 0, 0
    passes = 0
    while quiet < n and passes < max_passes * n:
        passes += 1
        if not is_medoid[candidate]:
            changes[:] = 0.0
            shared, cost = 0.0, 0.0
            for point in range(n):
                d = distances[candidate, point]
                cost += d_first[point]
                if k == 1:
                    changes[0] += d - d_first[point]
                elif d < d_first[point]:
                    shared += d - d_first[point]
                elif d < d_second[point]:
                    changes[first[point]] += d - d_first[point]
                else:
                    changes[first[point]] += d_second[point] - d_first[point]
            leaving = np.argmin(changes)
            if changes[leaving] + shared < -_LEAST_GAIN * cost:
                is_medoid[medoids[leaving]] = False
                is_medoid[candidate] = True
                medoids[leaving] = candidate
                _nearest_two(distances, medoids, first, d_first, d_second)
                n_swaps += 1
                quiet = 0
        quiet += 1
        candidate = (candidate + 1) % n
    return n_swaps
