"""Counting of pairs of items in the same record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("publish"):
    from numba import njit


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_pairs(  # noqa: PLR0917 - kernels take arrays by position
    owners: NDArray[np.int64],
    items: NDArray[np.int64],
    values: NDArray[np.int64],
    n_items: int,
    agree: NDArray[np.int64],
    differ: NDArray[np.int64],
) -> None:
    """Add each pair of a record's items to `agree` or `differ`; a record is a run of equal owners.

    Items increase within a record; pair (i, j) with i < j is entry i n - i (i + 1) / 2 + j - i - 1.
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
