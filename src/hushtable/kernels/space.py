"""Records as points in space: shared by loops over all pairs of records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.extras import needing

with needing("publish"):
    from numba import get_num_threads, njit, set_num_threads


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


def leaf_order(points: Floats) -> NDArray[np.int64]:
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
def _split_by_median(points: Floats, order: NDArray[np.int64], leaf: int) -> None:
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
