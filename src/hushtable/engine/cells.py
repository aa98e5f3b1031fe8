"""Occupied cells of a table and their row counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools, Integers
from hushtable.domain import Domain
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.recoding import Recoding

Counts = Integers
Keys = Integers
Recodings = Mapping[str, Recoding]  # by column name
ColumnGroups = Sequence[Sequence[str]]  # by column names


@dataclass(frozen=True)
class OccupiedCells:
    """Occupied cells of a projection: packed codes (`Domain.pack`) and row counts.

    Cells are sorted by their codes (first column slowest) and distinct; no count is 0.
    """

    domain: Domain
    keys: Keys
    counts: Counts

    @property
    def codes(self) -> Integers:
        """The codes of all columns, decoded at each access; they take much more memory."""
        return self.domain.unpack(self.keys)

    def column(self, place: int) -> Integers:
        """Return the codes of one column."""
        return self.domain.column(self.keys, place)

    def only(self, kept: Bools | slice) -> OccupiedCells:
        """Return the cells selected by a mask."""
        return OccupiedCells(self.domain, self.keys[kept], self.counts[kept])


# Published rows of occupied cells, created on this machine or written by Spark executors.


@dataclass(frozen=True)
class AllCells:
    """Marker for all cells of a domain."""


RowsOf = Callable[[OccupiedCells, Noise], pa.Table]
"""Function that returns the published rows of some cells, with independent noise per cell."""


@dataclass(frozen=True)
class WrittenParts:
    """Rows that executors write once, into several files of one folder."""

    write: Callable[[Path], Sequence[str]]
    """Function that writes a new folder and returns the names of the files to publish, in order.

    Other files in the folder must not be published. The function draws noise, so it may run only
    once.
    """


def publish_here(
    cells: OccupiedCells, rows_of: RowsOf, noise: Noise, *, also: Keys | AllCells | None
) -> pa.Table:
    """Return the published rows of cells that are on this machine, and of the cells `also`.

    Cells of `also` that are not occupied have count 0.
    """
    if isinstance(also, AllCells):
        counts = np.zeros(cells.domain.size, np.int64)
        counts[cells.keys[:, 0]] = cells.counts
        return rows_of(OccupiedCells(cells.domain, np.arange(len(counts))[:, None], counts), noise)
    return rows_of(cells if also is None else _joined(cells, also), noise)


def _joined(cells: OccupiedCells, also: Keys) -> OccupiedCells:
    """Add the cells `also`, with count 0 if they are not occupied."""
    keys = np.concatenate((cells.keys, also))
    counts = np.concatenate((cells.counts, np.zeros(len(also), np.int64)))
    order = np.lexsort((-counts, *keys.T[::-1]))  # of equal keys, the occupied one first
    keys, counts = keys[order], counts[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return OccupiedCells(cells.domain, keys[first], counts[first])
