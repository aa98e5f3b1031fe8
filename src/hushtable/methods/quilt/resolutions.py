"""Nested resolutions of columns, and the marginal queries that quilt may measure.

A column that was measured has buckets. A table of several columns need not distinguish all of them:
`resolution_levels` returns a few nested resolutions of a column, from all buckets to a few cells,
and a `MarginalQuery` is a group of columns, each at one of its resolutions.

The resolution that suits a one-way table may be too fine for a pair: 32 by 32 cells of 40 rows each
are lost in noise that hardly affects 8 by 8 cells of 625 rows, and the association of two ordered
columns shows in few cells. All of it follows from noisy counts and the schema, so it is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.budget import STEPS
from hushtable.methods.quilt.particles import Group

WORTHWHILE = 1.25
"""Minimum ratio of cells between successive resolutions of an ordered column."""

WORTHWHILE_UNORDERED = 2.0
"""The same for unordered columns, in which merged values are not similar."""

ResolutionLevels = tuple[Integers, ...]
"""The cell of each bucket at each resolution of a column; the first has all buckets."""


@dataclass(frozen=True)
class MarginalQuery:
    """A table that may be measured: columns, each at one of its resolutions.

    Two queries are equal if their columns and levels are.
    """

    group: Group
    levels: tuple[int, ...]  # index of each column's resolution; 0 has all buckets
    maps: tuple[Integers, ...] = field(compare=False, repr=False)  # the cell of each bucket

    @classmethod
    def of(
        cls, group: Group, levels: Sequence[int], resolutions: Sequence[ResolutionLevels]
    ) -> MarginalQuery:
        """Return the query at these levels of the columns' resolutions."""
        maps = tuple(
            resolutions[column][level] for column, level in zip(group, levels, strict=True)
        )
        return cls(group, tuple(levels), maps)

    @property
    def is_full(self) -> bool:
        """True if all buckets are distinguished."""
        return not any(self.levels)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def cells(self) -> Integers | None:
        """The cell for each combination of buckets, both in C order; None if they are equal."""
        if self.is_full:
            return None
        found = np.zeros(1, np.int64)
        for places, size in zip(self.maps, self.shape, strict=True):
            found = (found[:, None] * size + places).ravel()
        return found

    def added_up(self, table: Floats) -> Floats:
        """Sum a table of buckets to the cells, flat."""
        flat = table.ravel()
        if self.cells is None:
            return flat
        return np.bincount(self.cells, flat, self.n_cells).astype(np.float64)


def queries_for(group: Group, resolutions: Sequence[ResolutionLevels]) -> list[MarginalQuery]:
    """Return a group's queries, finest first; all columns become coarser together."""
    most = max(len(resolutions[column]) for column in group)
    return [
        MarginalQuery.of(
            group, [min(step, len(resolutions[column]) - 1) for column in group], resolutions
        )
        for step in range(most)
    ]


def resolution_levels(
    masses: Floats, *, is_ordered: bool, n_special: int, branches: Sequence[Integers] = ()
) -> ResolutionLevels:
    """Return the nested resolutions of one column.

    Parameters
    ----------
    masses : array
        The estimated share of each bucket; special values and missing are the last.
    is_ordered : bool
        Whether the lightest neighbors are merged.
    n_special : int
        Number of special values and missing, which are never merged.
    branches : sequence of int arrays
        For each level of a taxonomy, from fine to coarse, the branch of each bucket. Without any,
        an unordered column keeps its largest buckets and merges the others.
    """
    n = len(masses) - n_special
    steps = [np.arange(n)]
    offered = (
        branches
        if len(branches)
        else [
            _lightest_neighbors(masses[:n], size) if is_ordered else _largest(masses[:n], size)
            for size in STEPS
            if size < n
        ]
    )
    worthwhile = WORTHWHILE if is_ordered or len(branches) else WORTHWHILE_UNORDERED
    for cells in offered:
        found = np.unique(cells[:n], return_inverse=True)[1].ravel()
        if 1 < found.max() + 1 <= len(np.unique(steps[-1])) / worthwhile:
            steps.append(found)
    return tuple(np.append(cells, cells.max() + 1 + np.arange(n_special)) for cells in steps)


def _lightest_neighbors(masses: Floats, most: int) -> Integers:
    """Merge the lightest pair of neighbors until at most `most` cells are left.

    Examples
    --------
    >>> _lightest_neighbors(np.array([0.5, 0.1, 0.1, 0.2, 0.1]), 3).tolist()
    [0, 1, 1, 2, 2]
    """
    sums, widths = masses.tolist(), [1] * len(masses)
    while len(sums) > most:
        at = min(range(len(sums) - 1), key=lambda place: sums[place] + sums[place + 1])
        sums[at] += sums.pop(at + 1)
        widths[at] += widths.pop(at + 1)
    return np.repeat(np.arange(len(widths)), widths)


def _largest(masses: Floats, most: int) -> Integers:
    """Keep the largest buckets and merge the others.

    Examples
    --------
    >>> _largest(np.array([0.4, 0.1, 0.1, 0.2, 0.2]), 3).tolist()
    [0, 2, 2, 1, 2]
    """
    cells = np.full(len(masses), most - 1)
    cells[np.argsort(-masses, kind="stable")[: most - 1]] = np.arange(most - 1)
    return cells
