"""Merging of noisy tables of the same columns: coarser tables update the finest.

Waves measure the same pair at different resolutions. If such tables were fitted side by side and
noise made them contradict each other, the model would increase one factor and decrease the other
without limit, and particles would be lost. So a coarse count updates the fine cells that it
contains, by precision: each takes its part of the difference between the coarse count and their
sum. Variances are those of a Kalman update; the resulting correlation of the errors of these cells
is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

import numpy as np

from hushtable.arrays import Integers
from hushtable.methods.prior import EarlierTable


def folded(tables: Iterable[EarlierTable], sizes: Mapping[str, int]) -> list[EarlierTable]:
    """Merge tables into finer ones of the same columns, if their cells are unions of those.

    `sizes` is the number of buckets of each column.
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
    """Return the coarse cell of each fine one; None if the tables are not nested."""
    if len(fine.columns) == 1:
        return None  # one-way tables are by value and always the same
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
