"""One table for each pair of columns: what coarser ones tell is folded into the finest.

Waves tell the same pair apart more or less finely. Fitted side by side, such tables hold each other
back: where noise lets them contradict each other, a field pulls one up and the other down without
end, and particles get lost. So a count of a coarse cell is told to the fine cells that it is made
of, by precision: each takes its part of the gap between it and their sum. Variances are those of a
Kalman update; that errors of these cells then hang together is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from hushtable.methods.prior import EarlierTable

Integers = NDArray[np.int64]


def folded(tables: Iterable[EarlierTable], sizes: Mapping[str, int]) -> list[EarlierTable]:
    """Fold tables into finer ones of the same columns, wherever their cells are made of those.

    Parameters
    ----------
    tables : iterable of EarlierTable
        What waves measured.
    sizes : mapping of str to int
        How many buckets each column has.
    """
    made: list[EarlierTable] = []
    by_columns = sorted(tables, key=lambda table: (len(table.columns), table.columns))
    for _, same in groupby(by_columns, key=lambda table: table.columns):
        kept: list[EarlierTable] = []
        for coarse in sorted(same, key=lambda table: -table.counts.size):
            for place, fine in enumerate(kept):
                parts = _parts(fine, coarse, sizes)
                if parts is not None:
                    kept[place] = _told(fine, coarse, parts)
                    break
            else:
                kept.append(coarse)
        made += kept
    return made


def _parts(fine: EarlierTable, coarse: EarlierTable, sizes: Mapping[str, int]) -> Integers | None:
    """Give the coarse cell of each fine one; nothing where one is in several."""
    if len(fine.columns) == 1:
        return None  # by values, and always the same
    cells = np.zeros((), np.int64)
    for axis, name in enumerate(fine.columns):
        buckets = np.arange(sizes[name])
        ours, theirs = (
            buckets if table.cells[axis] is None else np.asarray(table.cells[axis], np.int64)
            for table in (fine, coarse)
        )
        first = np.zeros(fine.shape[axis], np.int64)
        first[ours] = theirs
        if not np.array_equal(first[ours], theirs):
            return None
        cells = cells[..., None] * coarse.shape[axis] + first
    return cells.ravel()


def _told(fine: EarlierTable, coarse: EarlierTable, parts: Integers) -> EarlierTable:
    n = coarse.counts.size
    sums, spread = (np.bincount(parts, of, n) for of in (fine.counts, fine.variances))
    both = spread + coarse.variances
    counts = fine.counts + fine.variances * ((coarse.counts - sums) / both)[parts]
    variances = fine.variances - fine.variances**2 / both[parts]
    return replace(fine, counts=counts, variances=variances)
