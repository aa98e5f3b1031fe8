"""Nested resolutions of columns, and the patches that a quilt may measure.

What it does. A column that was measured alone has buckets. A table of several columns need not tell
all of them apart: `ladder` gives each column a few nested resolutions, from all buckets to a few
cells, and a `Patch` is a group of columns, each at one of its resolutions.

Why so. How finely a column can be told apart alone says nothing about how finely two of them can be
told apart together: 32 times 32 cells of 40 rows each are lost in noise that 8 times 8 cells of 625
rows do not feel, and what two ordered columns have to do with each other shows in few cells. All of
it follows from noisy counts and the schema, so it is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hushtable.methods.quilt.domains import Floats, Integers
from hushtable.methods.quilt.particles import Group

STEPS = (16, 8, 4)
"""Cells of a column at its coarser resolutions, missing not counted."""

WORTHWHILE = 1.25
"""A resolution of an ordered column has at least this many times the cells of the next coarser."""

WORTHWHILE_APART = 2.0
"""The same where values have no order, and merging them says nothing about their likeness."""

Ladder = tuple[Integers, ...]
"""The cell of each bucket, at each resolution of a column; the first tells all of them apart."""


@dataclass(frozen=True)
class Patch:
    """A table that may be measured: columns, each at one of its resolutions.

    Two patches are the same if their columns and levels are.

    Parameters
    ----------
    group : tuple of int
        The columns.
    levels : tuple of int
        The resolution of each, as a place in its ladder; 0 tells all buckets apart.
    maps : tuple of int arrays
        The cell of each bucket, for each column.
    """

    group: Group
    levels: tuple[int, ...]
    maps: tuple[Integers, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, group: Group, levels: Sequence[int], ladders: Sequence[Ladder]) -> Patch:
        """Look the cells up in the ladders of all columns."""
        maps = tuple(ladders[column][level] for column, level in zip(group, levels, strict=True))
        return cls(group, tuple(levels), maps)

    @property
    def is_full(self) -> bool:
        """Whether all buckets are told apart."""
        return not any(self.levels)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    @property
    def n_cells(self) -> int:
        """Cells of the table."""
        return math.prod(self.shape)

    @cached_property
    def cells(self) -> Integers | None:
        """The cell for each combination of buckets, both in C order; None if they are the same."""
        if self.is_full:
            return None
        found = np.zeros(1, np.int64)
        for places, size in zip(self.maps, self.shape, strict=True):
            found = (found[:, None] * size + places).ravel()
        return found

    def added_up(self, table: Floats) -> Floats:
        """Add a table of buckets up to the cells, flat."""
        flat = table.ravel()
        if self.cells is None:
            return flat
        return np.bincount(self.cells, flat, self.n_cells).astype(np.float64)


def patches_of(group: Group, ladders: Sequence[Ladder]) -> list[Patch]:
    """List a group's resolutions, finest first: all its columns go down their ladders together."""
    most = max(len(ladders[column]) for column in group)
    return [
        Patch.of(group, [min(step, len(ladders[column]) - 1) for column in group], ladders)
        for step in range(most)
    ]


def ladder(
    masses: Floats, *, is_ordered: bool, n_apart: int, branches: Sequence[Integers] = ()
) -> Ladder:
    """Give the nested resolutions of one column.

    Parameters
    ----------
    masses : array
        The estimated share of each bucket; special values and missing are the last.
    is_ordered : bool
        Whether neighbors are alike: then the lightest neighbors are merged.
    n_apart : int
        How many of the last buckets are special values or missing, which stay alone.
    branches : sequence of int arrays
        For each level of a taxonomy, from fine to coarse, the branch of each bucket. Without any,
        an unordered column keeps its largest buckets and merges the others.
    """
    n = len(masses) - n_apart
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
    worthwhile = WORTHWHILE if is_ordered or len(branches) else WORTHWHILE_APART
    for cells in offered:
        found = np.unique(cells[:n], return_inverse=True)[1].ravel()
        if 1 < found.max() + 1 <= len(np.unique(steps[-1])) / worthwhile:
            steps.append(found)
    return tuple(np.append(cells, cells.max() + 1 + np.arange(n_apart)) for cells in steps)


def _lightest_neighbors(masses: Floats, most: int) -> Integers:
    """Join the neighbors that are lightest together until so many cells are left.

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
    """Keep the largest buckets and put the others together.

    Examples
    --------
    >>> _largest(np.array([0.4, 0.1, 0.1, 0.2, 0.2]), 3).tolist()
    [0, 2, 2, 1, 2]
    """
    cells = np.full(len(masses), most - 1)
    cells[np.argsort(-masses, kind="stable")[: most - 1]] = np.arange(most - 1)
    return cells
