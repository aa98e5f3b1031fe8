"""Number of noise draws after which fewer than k records fit, computed by bounding boxes."""

# ruff: noqa: PLR0917 - numba compiles positional parameters best

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.arrays import Floats as Vector
from hushtable.extras import needing
from hushtable.kernels.space import BLOCK, TIE, threads_for

with needing("publish"):
    from numba import njit, prange

_FAMILY = 16  # blocks per enclosing box


def count_uncovered(
    points: Floats,
    noise: Floats,
    *,
    k: NDArray[np.int64],
    limit: int,
    period: Vector | None = None,
    half_sides: Vector | None = None,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
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
            _count_uncovered(
                np.ascontiguousarray(points), _blocked(points),
                *_boxes(points, BLOCK), *_boxes(points, BLOCK * _FAMILY),
                around, noise, sides, rows, k, limit, out,
            )  # fmt: skip
    return out


def _boxes(points: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the low and high corners of the bounding box of each run of `size` points."""
    starts = np.arange(0, len(points), size)
    return np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)


def _blocked(points: Floats) -> NDArray[np.float64]:
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
    low: Vector, high: Vector, period: Vector, z: Vector, sides: Vector, square: float
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
    period: Vector,
    z: Vector,
    sides: Vector,
    square: float,
    work: Vector,
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
    blocks: NDArray[np.float64],
    low: Floats,
    high: Floats,
    family_low: Floats,
    family_high: Floats,
    period: Vector,
    own: int,
    z: Vector,
    sides: Vector,
    square: float,
    k: int,
    work: Vector,
) -> int:
    """Count the records that fit, up to k: first the own group of blocks, then outward."""
    n_families, n_blocks = len(family_low), len(low)
    n_fits = 0
    for turn in range(2 * n_families):
        family = own // _FAMILY + (turn + 1) // 2 * (1 if turn % 2 else -1)
        if family < 0 or family >= n_families:
            continue
        if _is_apart(family_low[family], family_high[family], period, z, sides, square):
            continue
        for block in range(family * _FAMILY, min(n_blocks, (family + 1) * _FAMILY)):
            if _is_apart(low[block], high[block], period, z, sides, square):
                continue
            n_real = min(BLOCK, n - block * BLOCK)
            n_fits += int(_fits_in_block(blocks[block], n_real, period, z, sides, square, work))
            if n_fits >= k:
                return n_fits
    return n_fits


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _count_uncovered(
    points: Floats,
    blocks: NDArray[np.float64],
    low: Floats,
    high: Floats,
    family_low: Floats,
    family_high: Floats,
    period: Vector,
    noise: Floats,
    sides: Vector,
    rows: NDArray[np.int64],
    k: NDArray[np.int64],
    limit: int,
    out: NDArray[np.int64],
) -> None:
    n, d = points.shape
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
            n_fits = _n_fits(
                n, blocks, low, high, family_low, family_high, period, i // BLOCK, z, sides,
                squares[draw], k[row], work,
            )  # fmt: skip
            if n_fits < k[row]:
                n_uncovered += 1
                if n_uncovered > limit:
                    break
        out[row] = n_uncovered
