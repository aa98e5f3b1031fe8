"""Counting of many small tables in one pass over rows of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Integers
from hushtable.extras import needing

with needing("publish"):
    from numba import njit


class Tally:
    """Dense tables of groups of columns, accumulated from rows that arrive in parts.

    Parameters
    ----------
    groups : sequence of sequences of int
        Positions of the columns of each table.
    shapes : sequence of tuples of int
        Sizes of those columns.

    Examples
    --------
    >>> tally = Tally([[0], [1, 0]], [(2,), (3, 2)])
    >>> tally.add(np.array([[0, 1, 1], [2, 2, 0]], np.int32), 3)
    >>> [table.tolist() for table in tally.tables()]
    [[1, 2], [[0, 1], [0, 0], [1, 1]]]
    """

    def __init__(self, groups: Sequence[Sequence[int]], shapes: Sequence[Sequence[int]]) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        strides = [
            [math.prod(shape[position + 1 :]) for position in range(len(shape))] for shape in shapes
        ]
        self._starts = np.cumsum([0, *(len(group) for group in groups)]).astype(np.int64)
        self._columns = np.array([c for group in groups for c in group], np.int64)
        self._strides = np.array([s for group in strides for s in group], np.int64)
        self._offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).astype(np.int64)
        self._counts = np.zeros(int(self._offsets[-1]), np.int64)

    def add(self, codes: NDArray[np.int32], n_rows: int) -> None:
        """Count the first `n_rows` rows of an array (column, row)."""
        _tally(
            codes, n_rows, self._starts, self._columns, self._strides, self._offsets, self._counts
        )

    def tables(self) -> list[Integers]:
        """Return the tables; they share memory with the counts."""
        bounds = zip(self._offsets[:-1], self._offsets[1:], self._shapes, strict=True)
        return [self._counts[start:stop].reshape(shape) for start, stop, shape in bounds]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _tally(  # noqa: PLR0917 - kernels take arrays by position
    codes: NDArray[np.int32],
    n_rows: int,
    starts: Integers,
    columns: Integers,
    strides: Integers,
    offsets: Integers,
    counts: Integers,
) -> None:
    for group in range(len(starts) - 1):
        first, n_columns = starts[group], starts[group + 1] - starts[group]
        offset = offsets[group]
        a, stride_a = columns[first], strides[first]
        if n_columns == 1:
            for row in range(n_rows):
                counts[offset + codes[a, row]] += 1
        elif n_columns == 2:
            b = columns[first + 1]
            for row in range(n_rows):
                counts[offset + codes[a, row] * stride_a + codes[b, row]] += 1
        else:
            for row in range(n_rows):
                cell = offset
                for position in range(first, first + n_columns):
                    cell += codes[columns[position], row] * strides[position]
                counts[cell] += 1


# Counting of pairs of items in the same record.


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_pairs(  # noqa: PLR0917 - kernels take arrays by position
    owners: Integers,
    items: Integers,
    values: Integers,
    n_items: int,
    agree: Integers,
    differ: Integers,
) -> None:
    """Count each pair of a record's items in `agree` if their values are equal, else in `differ`.

    A record is a run of equal owners, in which items increase. The pair (i, j) with i < j is entry
    i n - i (i + 1) / 2 + j - i - 1, where n is `n_items`.
    """
    start = 0
    for place in range(len(owners)):
        if owners[place] != owners[start]:
            start = place
        j = items[place]
        for other in range(start, place):
            i = items[other]
            pair = i * n_items - i * (i + 1) // 2 + j - i - 1
            if values[other] == values[place]:
                agree[pair] += 1
            else:
                differ[pair] += 1
