"""How many records fit a perturbed record at least as well as its owner: sums over all pairs.

All functions work on points in normalized units, one row per record. `shape` holds a positive
factor per record and column (or one row for all): record i is perturbed in column l with
``scale * shape[i, l]``, and its distances are measured in those units. Notation follows
``uncertain.md`` of the family: delta is a Euclidean distance, w a coordinate difference after the
division by the shape, A the expected number of records that fit, the record itself counted as 1.
"""

# ruff: noqa: PLR0912, PLR0917 - numba compiles positional parameters and long loops best

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange, set_num_threads
from numpy.typing import NDArray

Points = NDArray[np.float64]
Vector = NDArray[np.float64]

# Squared distances are binned on the top bits of their double: 7 bits of mantissa make bins whose
# upper edge is at most 1 + 1/128 times the value, that is 0.39 % in the distance.
_SHIFT = 45
_BINS_PER_OCTAVE = 128
_OCTAVES = 48
_N_BINS = _BINS_PER_OCTAVE * _OCTAVES

_RUN = 32  # records solved one after the other, each starting from the scale of the one before
_PRECISION = 5e-4  # relative width of the bracket whose upper end is returned
TIE = 1e-9  # relative difference in distance below which two fits are called equal

_LITTLE_WORK = 500_000  # draws times records; a pair of records is a hundredth of that

BLOCK = 32  # records per leaf of the order in space


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """Use one thread for little work (about half a second): waking others may take longer."""
    usual = get_num_threads()
    set_num_threads(1 if work < _LITTLE_WORK else usual)
    try:
        yield
    finally:
        set_num_threads(usual)


def gaussian_scales(points: Points, k: Vector, *, shape: Points | None = None) -> Vector:
    """Find a sigma per record with A >= k, at most 0.5 % above the smallest such sigma.

    Distances are rounded up to the edge of their bin, so the sum is a lower bound of A and the
    result errs upward only. Where no sigma is enough, the result is infinite: A stays below
    1 + duplicates + (others) / 2. Where duplicates alone suffice, it is 0.
    """
    return _solve(_gaussian_run, points, k, shape)


def uniform_scales(points: Points, k: Vector, *, shape: Points | None = None) -> Vector:
    """Find a cube side per record with A >= k, at most 0.05 % above the smallest such side.

    Only records within the side in every column count, so no distance is approximated. Where no
    side is enough (A stays below the number of records, unless all are equal), the result is
    infinite; where duplicates alone suffice, it is 0.
    """
    return _solve(_uniform_run, points, k, shape)


def _solve(kernel: Any, points: Points, k: Vector, shape: Points | None) -> Vector:
    columns = np.ascontiguousarray(np.asarray(points, np.float64).T)
    # One row for all records, or one for each.
    inverse = 1.0 / (np.ones((1, len(columns))) if shape is None else np.ascontiguousarray(shape))
    n = columns.shape[1]
    out = np.empty(n)
    # Neighbors in space have similar scales: solve along a space-filling order.
    order = leaf_order(points)
    wanted = np.broadcast_to(np.asarray(k, np.float64), n).copy()
    with threads_for(n * n // 100):
        kernel(columns, inverse, order, wanted, out)
    return out


def leaf_order(points: Points) -> NDArray[np.int64]:
    """Order records so that neighbors in the list are neighbors in space (k-d tree leaves).

    Examples
    --------
    >>> sorted(leaf_order(np.array([[3.0], [1.0], [2.0]])).tolist())
    [0, 1, 2]
    """
    order = np.arange(len(points))
    _split_by_median(np.ascontiguousarray(points, np.float64), order, BLOCK)
    return order


@njit(cache=True)  # type: ignore[untyped-decorator]
def _split_by_median(points: Points, order: NDArray[np.int64], leaf: int) -> None:
    """Sort index runs by their widest column, halve them, and go on with the halves."""
    n, d = points.shape
    stack = [(0, n)]
    while len(stack) > 0:
        begin, end = stack.pop()
        if end - begin <= leaf:
            continue
        widest, width = 0, -1.0
        for column in range(d):
            low, high = np.inf, -np.inf
            for position in range(begin, end):
                value = points[order[position], column]
                low, high = min(low, value), max(high, value)
            if high - low > width:
                widest, width = column, high - low
        if width == 0.0:
            continue
        values = np.empty(end - begin)
        for position in range(begin, end):
            values[position - begin] = points[order[position], widest]
        order[begin:end] = order[begin:end][np.argsort(values, kind="mergesort")]
        # Halves are whole numbers of leaves, so that blocks do not straddle a cut.
        middle = begin + max(1, (end - begin) // (2 * leaf)) * leaf
        stack.append((begin, middle))
        stack.append((middle, end))


# P(M >= z) between table points by straight lines: the tail is convex, so the lines lie above it,
# by at most (z^2 + 1) / (8 * 512^2) < 4e-5 of it for z <= 9. The factor brings them below again.
_TAIL_STEPS = 512
_TAIL_END = 9.0
_TAIL = np.array(
    [0.5 * math.erfc(n / _TAIL_STEPS / math.sqrt(2.0)) for n in range(9 * _TAIL_STEPS + 2)]
) * (1.0 - 5e-5)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gaussian_tail_sum(halves: Vector, counts: Vector, n_used: int, sigma: float) -> float:
    """Sum a lower bound of P(M >= half / sigma) over the bins, the nearest first."""
    total = 0.0
    for b in range(n_used):
        place = halves[b] * (_TAIL_STEPS / sigma)
        if place >= _TAIL_END * _TAIL_STEPS:  # the rest is below 1e-18 each; leaving it out is safe
            break
        point = int(place)
        here = _TAIL[point]
        total += counts[b] * (here + (place - point) * (_TAIL[point + 1] - here))
    return total


@njit(cache=True)  # type: ignore[untyped-decorator]
def _cube_sum(widths: Points, reach: Vector, n_used: int, side: float) -> float:
    total = 0.0
    inverse = 1.0 / side
    for j in range(n_used):
        if reach[j] < side:
            product = 1.0
            for column in range(widths.shape[1]):
                product *= 1.0 - widths[j, column] * inverse
            total += product
    return total


@njit(cache=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def _squares(columns: Points, inverse: Vector, i: int, squares: Vector) -> None:
    squares[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            step = (here - columns[column, j]) * factor
            squares[j] += step * step


@njit(cache=True)  # type: ignore[untyped-decorator]
def _reaches(columns: Points, inverse: Vector, i: int, reaches: Vector) -> None:
    reaches[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            reaches[j] = max(reaches[j], abs(here - columns[column, j]) * factor)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _bin_edges(top: int, halves: Vector) -> None:
    """Fill in half the distance at the upper edge of each bin, rounding included."""
    word = np.empty(1, np.int64)
    for b in range(_N_BINS):
        word[0] = np.int64(top - _N_BINS + 2 + b) << _SHIFT
        halves[b] = 0.5 * math.sqrt(word.view(np.float64)[0]) * (1.0 + 1e-12)


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _gaussian_run(
    columns: Points, inverse: Points, order: NDArray[np.int64], k: Vector, out: Vector
) -> None:
    d, n = columns.shape
    extent = np.empty(d)
    for column in range(d):
        extent[column] = columns[column].max() - columns[column].min()
    n_runs = (n + _RUN - 1) // _RUN
    for run in prange(n_runs):
        squares = np.empty(n)
        words = squares.view(np.int64)
        histogram = np.zeros(_N_BINS, np.int64)
        edges = np.empty(_N_BINS)
        halves = np.empty(_N_BINS)
        counts = np.empty(_N_BINS)
        cap = np.empty(1)
        edges_for = np.int64(-1)
        guess = -1.0
        for position in range(run * _RUN, min(n, (run + 1) * _RUN)):
            i = order[position]
            factors = inverse[min(i, inverse.shape[0] - 1)]
            cap[0] = 1e-300
            for column in range(d):
                cap[0] += (extent[column] * factors[column]) ** 2
            cap[0] *= 1.0 + 1e-9
            top = cap.view(np.int64)[0] >> _SHIFT
            if top != edges_for:
                _bin_edges(top, edges)
                edges_for = top
            _squares(columns, factors, i, squares)
            n_same = 0
            for j in range(n):
                n_same += squares[j] == 0.0
            base = top - _N_BINS + 1
            for j in range(n):
                words[j] = max(np.int64(0), (words[j] >> _SHIFT) - base)
            for j in range(n):
                histogram[words[j]] += 1
            histogram[0] -= n_same  # duplicates and the record itself fit with certainty
            n_used = 0
            for b in range(_N_BINS):
                if histogram[b] > 0:
                    halves[n_used] = edges[b]
                    counts[n_used] = histogram[b]
                    n_used += 1
                    histogram[b] = 0
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


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _uniform_run(
    columns: Points, inverse: Points, order: NDArray[np.int64], k: Vector, out: Vector
) -> None:
    d, n = columns.shape
    n_runs = (n + _RUN - 1) // _RUN
    for run in prange(n_runs):
        reaches = np.empty(n)
        near = np.empty(n)
        widths = np.empty((n, d))
        guess = -1.0
        for position in range(run * _RUN, min(n, (run + 1) * _RUN)):
            i = order[position]
            factors = inverse[min(i, inverse.shape[0] - 1)]
            _reaches(columns, factors, i, reaches)
            n_same, farthest, nearest = 0, 0.0, np.inf
            for j in range(n):
                n_same += reaches[j] == 0.0
                farthest = max(farthest, reaches[j])
                if reaches[j] > 0.0:
                    nearest = min(nearest, reaches[j])
            target = k[i] - n_same
            if target <= 0.0:
                out[i] = 0.0
                continue
            if target >= n - n_same:
                out[i] = np.inf
                continue
            # Terms vanish beyond the side: gather who is within a bound, widen it if it is short.
            bound = 1.1 * guess if guess > 0.0 else 2.0 * nearest
            low = 0.0
            while True:
                n_used = 0
                for j in range(n):
                    if 0.0 < reaches[j] < bound:
                        near[n_used] = reaches[j]
                        for column in range(d):
                            step = columns[column, i] - columns[column, j]
                            widths[n_used, column] = abs(step) * factors[column]
                        n_used += 1
                if _cube_sum(widths, near, n_used, bound) >= target:
                    break
                low = bound
                bound *= 1.25 if bound < farthest else 2.0
            high = bound
            step = 1.1
            while low == 0.0:
                trial = high / step
                if _cube_sum(widths, near, n_used, trial) >= target:
                    high = trial
                    step *= step
                else:
                    low = trial
            while high > low * (1.0 + _PRECISION):
                middle = math.sqrt(low * high)
                if _cube_sum(widths, near, n_used, middle) >= target:
                    high = middle
                else:
                    low = middle
            out[i] = guess = high


def rank_owners(
    points: Points,
    z: Points,
    reach: Points,
    *,
    level: NDArray[np.int64],
    is_gaussian: bool,
    period: Vector | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    """Compare, for each noisy record, its owner's fit with that of the records of its level.

    Parameters
    ----------
    points, z : array (n, d)
        True and noisy records, row by row.
    reach : array (n, d)
        Sigma, or half the side from end to end.
    level : array (n,)
        Records with different numbers are told apart.
    is_gaussian : bool
        How fits are compared.
    period : array (d,), optional
        Length of each column where its ends are joined.

    Returns
    -------
    n_better, n_equal, posterior : arrays (n,)
        Records that fit better, those that fit equally (the owner included), and the owner's
        posterior probability from equal prior ones.
    """
    n, d = points.shape
    better, equal = np.empty(n, np.int64), np.empty(n, np.int64)
    posterior = np.empty(n)
    around = np.full(d, np.inf) if period is None else period
    _rank_owners(points, z, reach, level, is_gaussian, around, better, equal, posterior)
    return better, equal, posterior


@njit(cache=True)  # type: ignore[untyped-decorator]
def _misfit(x: Vector, z: Vector, reach: Vector, is_gaussian: bool, period: Vector) -> float:
    """Give the squared distance in sigmas; or 0 inside the box and infinity outside."""
    total = 0.0
    for column in range(len(x)):
        step = abs(x[column] - z[column])
        step = min(step, abs(period[column] - step))
        if is_gaussian:
            total += (step / reach[column]) ** 2
        elif step > reach[column] * (1.0 + TIE) + 1e-12:
            return np.inf
    return total


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _rank_owners(
    points: Points,
    z: Points,
    reach: Points,
    level: NDArray[np.int64],
    is_gaussian: bool,
    period: Vector,
    better: NDArray[np.int64],
    equal: NDArray[np.int64],
    posterior: Vector,
) -> None:
    for i in prange(len(points)):
        own = _misfit(points[i], z[i], reach[i], is_gaussian, period)
        n_better, n_equal, weight = 0, 0, 0.0
        for j in range(len(points)):
            if level[j] != level[i]:
                continue
            misfit = _misfit(points[j], z[i], reach[i], is_gaussian, period)
            if misfit <= own * (1.0 + TIE):
                if misfit >= own * (1.0 - TIE):
                    n_equal += 1
                else:
                    n_better += 1
            if misfit < np.inf:
                weight += math.exp(min(0.5 * (own - misfit), 700.0))
        better[i], equal[i], posterior[i] = n_better, n_equal, 1.0 / weight


def best_fits(
    tests: Points,
    z: Points,
    reach: Points,
    *,
    q: int,
    is_gaussian: bool,
    period: Vector | None = None,
) -> tuple[NDArray[np.int64], Vector]:
    """Find the q uncertain records with the largest density at each test point.

    Parameters
    ----------
    tests : array (m, d)
        The points asked about.
    z, reach : array (n, d)
        Noisy records; sigma, or half the side from end to end.

    Returns
    -------
    rows : array (m, q)
        The best fits, best first.
    logs : array (m, q)
        Their log densities without the constants that all share. Where no box holds the point,
        minus infinity, and the rows are those whose boxes would have to grow least to hold it.
    """
    n_columns = tests.shape[1]
    rows = np.empty((len(tests), q), np.int64)
    logs = np.empty((len(tests), q))
    around = np.full(n_columns, np.inf) if period is None else period
    logs_of_volume = np.log(np.maximum(reach, 1e-300)).sum(axis=1)
    inverse = 1.0 / np.maximum(np.ascontiguousarray(reach.T), 1e-300)
    _best_fits(
        tests, np.ascontiguousarray(z.T), inverse, logs_of_volume, is_gaussian, around, rows, logs
    )
    return rows, logs


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _best_fits(
    tests: Points,
    columns: Points,
    inverse: Points,
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
        # Smaller is better: minus the log density, or for boxes beyond reach a large number that
        # grows with how far the box falls short.
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
