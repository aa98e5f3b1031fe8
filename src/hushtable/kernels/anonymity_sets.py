"""Number of records that fit a perturbed record at least as well as its owner: sums over all pairs.

A is the expected number of records that fit, where the record itself counts as 1.
`gaussian_scales` and `uniform_scales` find, for each record, the smallest scale of the noise at
which A reaches k. Scales are always rounded up: a record must not be less anonymous than promised.

A increases with the scale, so bisection finds the smallest scale. Each step would need a sum over
all other records. Instead, each record visits the others once and stores what all its steps need:

- Gaussian noise has unbounded support, but only distances matter. They are counted in bins, where
  a distance is replaced by the upper edge of its bin, so the sum is a lower bound of A. A step
  processes a few hundred bins, whatever the number of records.
- Uniform noise is bounded by the side of its cube, but the differences in all columns matter. They
  are stored for the records within a bound, which is widened until A reaches k inside it.

Records are processed in runs along a space-filling order. Each starts from the scale of the
previous one: neighbors need similar noise, so few steps are needed. Runs are distributed over
threads and are independent, so results do not depend on the number of threads.

All functions work on points in normalized units, one row per record. `shape` contains a positive
factor per record and column (or one row for all): record i is perturbed in column l with
``scale * shape[i, l]``, and its distances are measured in those units. Notation follows
``uncertain.md`` of its family: delta is a Euclidean distance and w a coordinate difference, both
after the division by the shape. Loops get points column by column and the inverse of the shape.
"""

# ruff: noqa: PLR0917 - numba compiles positional parameters

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.arrays import Floats as Vector
from hushtable.extras import needing
from hushtable.kernels.space import leaf_order, threads_for

with needing("publish"):
    from numba import njit, prange

# Squared distances are binned by the top bits of their double: 7 bits of mantissa yield bins whose
# upper edge is at most 1 + 1/128 times the value, that is 0.39% in the distance.
_SHIFT = 45
_BINS_PER_OCTAVE = 128
_OCTAVES = 48
_N_BINS = _BINS_PER_OCTAVE * _OCTAVES

_RUN = 32  # records processed sequentially, each starting from the scale of the previous one
_PRECISION = 5e-4  # relative width of the bracket whose upper end is returned


def gaussian_scales(points: Floats, k: Vector, *, shape: Floats | None = None) -> Vector:
    """Return a sigma per record with A >= k, at most 0.5% above the smallest such sigma.

    Distances are rounded up to the edge of their bin, so the sum is a lower bound of A and errors
    only increase the result. It is infinite if no sigma suffices (A stays below 1 + duplicates +
    (others) / 2), and 0 if duplicates alone suffice.
    """
    return _solve(_gaussian_run, points, k, shape)


def uniform_scales(points: Floats, k: Vector, *, shape: Floats | None = None) -> Vector:
    """Return a cube side per record with A >= k, at most 0.05% above the smallest such side.

    Only records within the side in every column count, so no distance is approximated. The result
    is infinite if no side suffices (A stays below the number of records, unless all are equal), and
    0 if duplicates alone suffice.
    """
    return _solve(_uniform_run, points, k, shape)


def _solve(kernel: Any, points: Floats, k: Vector, shape: Floats | None) -> Vector:
    columns = np.ascontiguousarray(np.asarray(points, np.float64).T)
    # One row for all records, or one for each.
    inverse = 1.0 / (np.ones((1, len(columns))) if shape is None else np.ascontiguousarray(shape))
    n = columns.shape[1]
    out = np.empty(n)
    # Neighbors in space have similar scales, so process records along a space-filling order.
    order = leaf_order(points)
    wanted = np.broadcast_to(np.asarray(k, np.float64), n).copy()
    with threads_for(n * n // 100):
        kernel(columns, inverse, order, wanted, out)
    return out


# --- scales for Gaussian noise -------------------------------------------------------------------

# P(M >= z) is interpolated linearly between table points. The tail is convex, so the interpolation
# is too large, by at most (z^2 + 1) / (8 * 512^2) < 4e-5 of it for z <= 9; the factor corrects it.
_TAIL_STEPS = 512
_TAIL_END = 9.0
_TAIL = np.array(
    [0.5 * math.erfc(n / _TAIL_STEPS / math.sqrt(2.0)) for n in range(9 * _TAIL_STEPS + 2)]
) * (1.0 - 5e-5)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gaussian_tail_sum(halves: Vector, counts: Vector, n_used: int, sigma: float) -> float:
    """Return a lower bound of the sum of P(M >= half / sigma) over bins, nearest first."""
    total = 0.0
    for b in range(n_used):
        place = halves[b] * (_TAIL_STEPS / sigma)
        if place >= _TAIL_END * _TAIL_STEPS:  # the rest is below 1e-18 each; omitting it is safe
            break
        point = int(place)
        here = _TAIL[point]
        total += counts[b] * (here + (place - point) * (_TAIL[point + 1] - here))
    return total


@njit(cache=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def _squares(columns: Floats, inverse: Vector, i: int, squares: Vector) -> None:
    squares[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            step = (here - columns[column, j]) * factor
            squares[j] += step * step


@njit(cache=True)  # type: ignore[untyped-decorator]
def _bin_edges(top: int, halves: Vector) -> None:
    """Fill in half the distance at the upper edge of each bin, rounding included."""
    word = np.empty(1, np.int64)
    for b in range(_N_BINS):
        word[0] = np.int64(top - _N_BINS + 2 + b) << _SHIFT
        halves[b] = 0.5 * math.sqrt(word.view(np.float64)[0]) * (1.0 + 1e-12)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _extents(columns: Floats) -> Vector:
    """Return the range of the records in each column."""
    extents = np.empty(columns.shape[0])
    for column in range(columns.shape[0]):
        extents[column] = columns[column].max() - columns[column].min()
    return extents


@njit(cache=True)  # type: ignore[untyped-decorator]
def _top_bin(extents: Vector, factors: Vector) -> int:
    """Return the bin of the largest possible squared distance."""
    cap = np.empty(1)
    cap[0] = 1e-300
    for column in range(len(extents)):
        cap[0] += (extents[column] * factors[column]) ** 2
    cap[0] *= 1.0 + 1e-9
    top: int = cap.view(np.int64)[0] >> _SHIFT
    return top


@njit(cache=True)  # type: ignore[untyped-decorator]
def _count_in_bins(squares: Vector, top: int, histogram: NDArray[np.int64]) -> int:
    """Count the squared distances in each bin; return the number of zeros, which are in no bin.

    The squares are overwritten by their bins.
    """
    n = len(squares)
    n_same = 0
    for j in range(n):
        n_same += squares[j] == 0.0
    words = squares.view(np.int64)
    base = top - _N_BINS + 1
    for j in range(n):
        words[j] = max(np.int64(0), (words[j] >> _SHIFT) - base)
    for j in range(n):
        histogram[words[j]] += 1
    histogram[0] -= n_same  # duplicates and the record itself fit with certainty
    return n_same


@njit(cache=True)  # type: ignore[untyped-decorator]
def _take_used(histogram: NDArray[np.int64], edges: Vector, halves: Vector, counts: Vector) -> int:
    """Move nonempty bins to the front of `halves` and `counts`; return their number."""
    n_used = 0
    for b in range(_N_BINS):
        if histogram[b] > 0:
            halves[n_used] = edges[b]
            counts[n_used] = histogram[b]
            n_used += 1
            histogram[b] = 0
    return n_used


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _gaussian_run(
    columns: Floats, inverse: Floats, order: NDArray[np.int64], k: Vector, out: Vector
) -> None:
    n = columns.shape[1]
    extents = _extents(columns)
    n_runs = (n + _RUN - 1) // _RUN
    for run in prange(n_runs):
        squares = np.empty(n)
        histogram = np.zeros(_N_BINS, np.int64)
        edges = np.empty(_N_BINS)
        halves = np.empty(_N_BINS)
        counts = np.empty(_N_BINS)
        edges_for = np.int64(-1)
        guess = -1.0
        for position in range(run * _RUN, min(n, (run + 1) * _RUN)):
            i = order[position]
            factors = inverse[min(i, inverse.shape[0] - 1)]
            top = _top_bin(extents, factors)
            if top != edges_for:
                _bin_edges(top, edges)
                edges_for = top
            _squares(columns, factors, i, squares)
            n_same = _count_in_bins(squares, top, histogram)
            n_used = _take_used(histogram, edges, halves, counts)
            target = k[i] - n_same
            if target <= 0.0:
                out[i] = 0.0
            elif target >= 0.5 * (n - n_same):
                out[i] = np.inf
            else:
                out[i] = _gaussian_root(halves, counts, n_used, target, guess)
                if out[i] < np.inf:
                    guess = out[i]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gaussian_root(
    halves: Vector, counts: Vector, n_used: int, target: float, guess: float
) -> float:
    """Bracket by growing steps from the guess, bisect on logarithms, return the upper end."""
    scale = guess if guess > 0.0 else halves[0]
    factor = 1.1
    if _gaussian_tail_sum(halves, counts, n_used, scale) >= target:
        low = high = scale
        while True:
            low = high / factor
            if _gaussian_tail_sum(halves, counts, n_used, low) < target:
                break
            high = low
            factor *= factor
    else:
        low = high = scale
        while True:
            high = low * factor
            if high > 1e100:
                return np.inf
            if _gaussian_tail_sum(halves, counts, n_used, high) >= target:
                break
            low = high
            factor *= factor
    while high > low * (1.0 + _PRECISION):
        middle = math.sqrt(low * high)
        if _gaussian_tail_sum(halves, counts, n_used, middle) >= target:
            high = middle
        else:
            low = middle
    return high


# --- scales for uniform noise --------------------------------------------------------------------


@njit(cache=True)  # type: ignore[untyped-decorator]
def _cube_sum(widths: Floats, distances: Vector, n_used: int, side: float) -> float:
    """Return the sum of prod(1 - w / side) over the gathered records within the side."""
    total = 0.0
    inverse = 1.0 / side
    for j in range(n_used):
        if distances[j] < side:
            product = 1.0
            for column in range(widths.shape[1]):
                product *= 1.0 - widths[j, column] * inverse
            total += product
    return total


@njit(cache=True)  # type: ignore[untyped-decorator]
def _max_distances(columns: Floats, inverse: Vector, i: int, distances: Vector) -> None:
    """Compute the largest coordinate difference between record i and each other record."""
    distances[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            distances[j] = max(distances[j], abs(here - columns[column, j]) * factor)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _survey(distances: Vector) -> tuple[int, float, float]:
    """Return the number of duplicates, and the smallest positive and the largest difference."""
    n_same, nearest, farthest = 0, np.inf, 0.0
    for j in range(len(distances)):
        n_same += distances[j] == 0.0
        farthest = max(farthest, distances[j])
        if distances[j] > 0.0:
            nearest = min(nearest, distances[j])
    return n_same, nearest, farthest


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gather(
    columns: Floats,
    factors: Vector,
    i: int,
    distances: Vector,
    bound: float,
    near: Vector,
    widths: Floats,
) -> int:
    """Store the differences of the records within a bound; return their number."""
    n_used = 0
    for j in range(len(distances)):
        if 0.0 < distances[j] < bound:
            near[n_used] = distances[j]
            for column in range(columns.shape[0]):
                step = columns[column, i] - columns[column, j]
                widths[n_used, column] = abs(step) * factors[column]
            n_used += 1
    return n_used


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _uniform_run(
    columns: Floats, inverse: Floats, order: NDArray[np.int64], k: Vector, out: Vector
) -> None:
    d, n = columns.shape
    n_runs = (n + _RUN - 1) // _RUN
    for run in prange(n_runs):
        distances = np.empty(n)
        near = np.empty(n)
        widths = np.empty((n, d))
        guess = -1.0
        for position in range(run * _RUN, min(n, (run + 1) * _RUN)):
            i = order[position]
            factors = inverse[min(i, inverse.shape[0] - 1)]
            _max_distances(columns, factors, i, distances)
            n_same, nearest, farthest = _survey(distances)
            target = k[i] - n_same
            if target <= 0.0:
                out[i] = 0.0
                continue
            if target >= n - n_same:
                out[i] = np.inf
                continue
            # Terms vanish beyond the side: gather records within a bound, and widen it if needed.
            bound = 1.1 * guess if guess > 0.0 else 2.0 * nearest
            low = 0.0
            while True:
                n_used = _gather(columns, factors, i, distances, bound, near, widths)
                if _cube_sum(widths, near, n_used, bound) >= target:
                    break
                low = bound
                bound *= 1.25 if bound < farthest else 2.0
            out[i] = guess = _cube_root(widths, near, n_used, target, low, bound)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _cube_root(
    widths: Floats, distances: Vector, n_used: int, target: float, low: float, high: float
) -> float:
    """Bracket by growing steps down from a sufficient side, bisect, return the upper end.

    A `low` above 0 is a side that is not sufficient.
    """
    step = 1.1
    while low == 0.0:
        trial = high / step
        if _cube_sum(widths, distances, n_used, trial) >= target:
            high = trial
            step *= step
        else:
            low = trial
    while high > low * (1.0 + _PRECISION):
        middle = math.sqrt(low * high)
        if _cube_sum(widths, distances, n_used, middle) >= target:
            high = middle
        else:
            low = middle
    return high
