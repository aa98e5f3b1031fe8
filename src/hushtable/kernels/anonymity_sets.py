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

Records are processed in runs along a space-filling order. Each search starts from the scale of the
previous record: neighbors need similar noise, so few steps are needed. Runs are distributed over
threads and are independent, so results do not depend on the number of threads.

All functions work on points in normalized units, one row per record. `shape` contains a positive
factor per record and column (or one row for all): record i is perturbed in column l with
``scale * shape[i, l]``, and its distances are measured in those units. Notation follows
``methods/uncertain/uncertain.md``: delta is a Euclidean distance and w a coordinate difference,
both after the division by the shape. Loops get points column by column and the inverse of the
shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.extras import needing

with needing("publish"):
    from numba import get_num_threads, njit, prange, set_num_threads


# Records as points in space: shared by loops over all pairs of records.

TIE = 1e-9  # relative difference of distances below which two fits are equal

BLOCK = 32  # records per leaf of the order in space

_LITTLE_WORK = 500_000  # draws times records; a pair of records counts as a hundredth


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """Use one thread for little work (about half a second): starting others may take longer."""
    usual = get_num_threads()
    set_num_threads(1 if work < _LITTLE_WORK else usual)
    try:
        yield
    finally:
        set_num_threads(usual)


def leaf_order(points: Floats) -> Integers:
    """Order records so that neighbors in the list are close in space (leaves of a k-d tree).

    Examples
    --------
    >>> sorted(leaf_order(np.array([[3.0], [1.0], [2.0]])).tolist())
    [0, 1, 2]
    """
    order = np.arange(len(points))
    _split_by_median(np.ascontiguousarray(points, np.float64), order, BLOCK)
    return order


@njit(cache=True)  # type: ignore[untyped-decorator]
def _split_by_median(points: Floats, order: Integers, leaf: int) -> None:
    """Sort runs of indexes by their widest column, halve them, and repeat with the halves."""
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
        # Halves are multiples of a leaf, so that blocks do not straddle a cut.
        middle = begin + max(1, (end - begin) // (2 * leaf)) * leaf
        stack.append((begin, middle))
        stack.append((middle, end))


# ruff: noqa: PLR0917 - numba compiles positional parameters


# Squared distances are binned by the top bits of their double: 7 bits of mantissa yield bins whose
# upper edge is at most 1 + 1/128 times the value, that is 0.39% in the distance.
_SHIFT = 45
_BINS_PER_OCTAVE = 128
_OCTAVES = 48
_N_BINS = _BINS_PER_OCTAVE * _OCTAVES

_RUN = 32  # records processed sequentially, each starting from the scale of the previous one
_PRECISION = 5e-4  # relative width of the bracket whose upper end is returned


def gaussian_scales(points: Floats, k: Floats, *, shape: Floats | None = None) -> Floats:
    """Return a sigma per record with A >= k, at most 0.5% above the smallest such sigma.

    Distances are rounded up to the edge of their bin, so the sum is a lower bound of A and errors
    only increase the result. It is infinite if no sigma suffices (A stays below 1 + duplicates +
    (others) / 2), and 0 if duplicates alone suffice.
    """
    return _solve(_gaussian_run, points, k, shape)


def uniform_scales(points: Floats, k: Floats, *, shape: Floats | None = None) -> Floats:
    """Return a cube side per record with A >= k, at most 0.05% above the smallest such side.

    Only records within the side in every column count, so no distance is approximated. The result
    is infinite if no side suffices (A stays below the number of records, unless all are equal), and
    0 if duplicates alone suffice.
    """
    return _solve(_uniform_run, points, k, shape)


def _solve(kernel: Any, points: Floats, k: Floats, shape: Floats | None) -> Floats:
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
def _gaussian_tail_sum(halves: Floats, counts: Floats, n_used: int, sigma: float) -> float:
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
def _squares(columns: Floats, inverse: Floats, i: int, squares: Floats) -> None:
    squares[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            step = (here - columns[column, j]) * factor
            squares[j] += step * step


@njit(cache=True)  # type: ignore[untyped-decorator]
def _bin_edges(top: int, halves: Floats) -> None:
    """Fill in half the distance at the upper edge of each bin, rounding included."""
    word = np.empty(1, np.int64)
    for b in range(_N_BINS):
        word[0] = np.int64(top - _N_BINS + 2 + b) << _SHIFT
        halves[b] = 0.5 * math.sqrt(word.view(np.float64)[0]) * (1.0 + 1e-12)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _extents(columns: Floats) -> Floats:
    """Return the range of the records in each column."""
    extents = np.empty(columns.shape[0])
    for column in range(columns.shape[0]):
        extents[column] = columns[column].max() - columns[column].min()
    return extents


@njit(cache=True)  # type: ignore[untyped-decorator]
def _top_bin(extents: Floats, factors: Floats) -> int:
    """Return the bin of the largest possible squared distance."""
    cap = np.empty(1)
    cap[0] = 1e-300
    for column in range(len(extents)):
        cap[0] += (extents[column] * factors[column]) ** 2
    cap[0] *= 1.0 + 1e-9
    top: int = cap.view(np.int64)[0] >> _SHIFT
    return top


@njit(cache=True)  # type: ignore[untyped-decorator]
def _count_in_bins(squares: Floats, top: int, histogram: Integers) -> int:
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
def _take_used(histogram: Integers, edges: Floats, halves: Floats, counts: Floats) -> int:
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
    columns: Floats, inverse: Floats, order: Integers, k: Floats, out: Floats
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
    halves: Floats, counts: Floats, n_used: int, target: float, guess: float
) -> float:
    """Find the smallest sufficient sigma, rounded up: bracket it from the guess, then bisect."""
    scale = guess if guess > 0.0 else halves[0]
    low = high = scale
    is_enough = _gaussian_tail_sum(halves, counts, n_used, scale) >= target
    factor = 1.1
    while True:
        trial = low / factor if is_enough else high * factor
        if trial > 1e100:
            return np.inf
        suffices = _gaussian_tail_sum(halves, counts, n_used, trial) >= target
        if is_enough:
            low, high = trial, low
        else:
            low, high = high, trial
        if suffices != is_enough:
            break
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
def _cube_sum(widths: Floats, distances: Floats, n_used: int, side: float) -> float:
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
def _max_distances(columns: Floats, inverse: Floats, i: int, distances: Floats) -> None:
    """Compute the largest coordinate difference between record i and each other record."""
    distances[:] = 0.0
    for column in range(columns.shape[0]):
        here, factor = columns[column, i], inverse[column]
        for j in range(columns.shape[1]):
            distances[j] = max(distances[j], abs(here - columns[column, j]) * factor)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _survey(distances: Floats) -> tuple[int, float, float]:
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
    factors: Floats,
    i: int,
    distances: Floats,
    bound: float,
    near: Floats,
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
def _uniform_run(columns: Floats, inverse: Floats, order: Integers, k: Floats, out: Floats) -> None:
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
    widths: Floats, distances: Floats, n_used: int, target: float, low: float, high: float
) -> float:
    """Find the smallest sufficient side, rounded up: bracket it below `high`, then bisect.

    `high` is a sufficient side. A `low` above 0 is a side that is not sufficient.
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


# Number of noise draws after which fewer than k records fit, computed by bounding boxes.

# ruff: noqa: PLR0917 - numba compiles positional parameters best


_FAMILY = 16  # blocks per enclosing box


def count_uncovered(
    points: Floats,
    noise: Floats,
    *,
    k: Integers,
    limit: int,
    period: Floats | None = None,
    half_sides: Floats | None = None,
    rows: Integers | None = None,
) -> Integers:
    """Count, per record, the noise draws after which fewer than k records fit.

    Parameters
    ----------
    points : array (n, d)
        The records of one level, in units in which the noise is isotropic, in `leaf_order`.
    noise : array (m, d)
        Draws of the noise, the same for every record; at most half a period in each direction.
    k : array (n,)
        Number of records that must fit, the record itself included; one per requested row.
    limit : int
        Stop counting for a record when its count exceeds this.
    period : array (d,), optional
        Length of each cyclic column; by default no column is cyclic.
    half_sides : array (d,), optional
        For uniform noise: half the width of the box. By default, fits are compared by distance.
    rows : array, optional
        Requested records; by default all.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [2.0]])
    >>> outward = np.array([[1.0], [-1.0]])
    >>> count_uncovered(line, outward, k=np.full(3, 2), limit=9)  # 0 - 1 and 2 + 1 fit one only
    array([1, 0, 1])
    >>> count_uncovered(line, outward, k=np.full(3, 2), limit=9, period=np.array([3.0]))
    array([0, 0, 0])
    """
    n_columns = points.shape[1]
    rows = np.arange(len(points)) if rows is None else rows
    out = np.zeros(len(rows), np.int64)
    if len(rows):
        sides = np.full(n_columns, -1.0) if half_sides is None else half_sides * (1.0 + TIE)
        around = np.full(n_columns, np.inf) if period is None else period
        with threads_for(len(rows) * len(noise)):
            blocks = Blocks(
                _blocked(points), *_boxes(points, BLOCK), *_boxes(points, BLOCK * _FAMILY), around
            )
            points = np.ascontiguousarray(points)
            _count_uncovered(points, blocks, noise, sides, rows, k, limit, out)
    return out


class Blocks(NamedTuple):
    """Points in blocks of `BLOCK`, and the bounding boxes of blocks and of families of them."""

    points: Floats  # (block, column, position in the block)
    low: Floats
    high: Floats
    family_low: Floats
    family_high: Floats
    period: Floats  # length of each cyclic column; infinite if it is not cyclic


def _boxes(points: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the low and high corners of the bounding box of each run of `size` points."""
    starts = np.arange(0, len(points), size)
    return np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)


def _blocked(points: Floats) -> Floats:
    """Arrange points as (block, column, position in the block); pad the last block."""
    n, d = points.shape
    n_blocks = -(-n // BLOCK)
    filled = np.concatenate((points, np.repeat(points[-1:], n_blocks * BLOCK - n, axis=0)))
    return np.ascontiguousarray(filled.reshape(n_blocks, BLOCK, d).transpose(0, 2, 1))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gap(low: float, high: float, z: float, period: float) -> float:
    """Return the distance from z to an interval; in a cyclic column, the shorter way around."""
    if low <= z <= high:
        return 0.0
    up, down = low - z, z - high
    return min(up if up >= 0.0 else up + period, down if down >= 0.0 else down + period)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _is_apart(
    low: Floats, high: Floats, period: Floats, z: Floats, sides: Floats, square: float
) -> bool:
    """Return whether nothing in a box can fit: outside in one column, or too distant overall."""
    gaps = 0.0
    for column in range(len(z)):
        gap = _gap(low[column], high[column], z[column], period[column])
        if square < 0.0:
            if gap > sides[column]:
                return True
        else:
            gaps += gap * gap
            if gaps > square:
                return True
    return False


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fits_in_block(
    block: Floats,
    n_real: int,
    period: Floats,
    z: Floats,
    sides: Floats,
    square: float,
    work: Floats,
) -> int:
    """Count the records of a block that fit, with simple loops that vectorize."""
    n_fits = 0
    if square < 0.0:
        for place in range(BLOCK):
            work[place] = -1.0
        for column in range(len(z)):
            here, around, side = z[column], period[column], sides[column]
            for place in range(BLOCK):
                step = abs(block[column, place] - here)
                work[place] = max(work[place], min(step, around - step) - side)
        for place in range(n_real):
            n_fits += work[place] <= 0.0
    else:
        for place in range(BLOCK):
            work[place] = 0.0
        for column in range(len(z)):
            here, around = z[column], period[column]
            for place in range(BLOCK):
                step = abs(block[column, place] - here)
                step = min(step, around - step)
                work[place] += step * step
        for place in range(n_real):
            n_fits += work[place] <= square
    return n_fits


@njit(cache=True)  # type: ignore[untyped-decorator]
def _n_fits(
    n: int,
    blocks: Blocks,
    own: int,
    z: Floats,
    sides: Floats,
    square: float,
    k: int,
    work: Floats,
) -> int:
    """Count records that fit until k are found: in the own family of blocks first, then outward."""
    n_families, n_blocks, period = len(blocks.family_low), len(blocks.low), blocks.period
    n_fits = 0
    for turn in range(2 * n_families):
        family = own // _FAMILY + (turn + 1) // 2 * (1 if turn % 2 else -1)
        if family < 0 or family >= n_families:
            continue
        low, high = blocks.family_low[family], blocks.family_high[family]
        if _is_apart(low, high, period, z, sides, square):
            continue
        for block in range(family * _FAMILY, min(n_blocks, (family + 1) * _FAMILY)):
            if _is_apart(blocks.low[block], blocks.high[block], period, z, sides, square):
                continue
            n_real = min(BLOCK, n - block * BLOCK)
            points = blocks.points[block]
            n_fits += int(_fits_in_block(points, n_real, period, z, sides, square, work))
            if n_fits >= k:
                return n_fits
    return n_fits


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _count_uncovered(
    points: Floats,
    blocks: Blocks,
    noise: Floats,
    sides: Floats,
    rows: Integers,
    k: Integers,
    limit: int,
    out: Integers,
) -> None:
    n, d = points.shape
    period = blocks.period
    squares = np.full(len(noise), -1.0)  # negative: fits are compared by box
    if sides[0] < 0.0:
        for draw in range(len(noise)):
            squares[draw] = (noise[draw] ** 2).sum() * (1.0 + TIE)
    for row in prange(len(rows)):
        i = rows[row]
        z = np.empty(d)
        work = np.empty(BLOCK)
        n_uncovered = 0
        for draw in range(len(noise)):
            for column in range(d):
                z[column] = points[i, column] + noise[draw, column]
                if z[column] < 0.0:
                    # Columns that are not cyclic have an infinite period.
                    z[column] += period[column] if period[column] < np.inf else 0.0
                elif z[column] >= period[column]:
                    z[column] -= period[column]
            n_fits = _n_fits(n, blocks, i // BLOCK, z, sides, squares[draw], k[row], work)
            if n_fits < k[row]:
                n_uncovered += 1
                if n_uncovered > limit:
                    break
        out[row] = n_uncovered
