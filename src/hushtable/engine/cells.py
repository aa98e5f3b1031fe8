"""Occupied cells of a table and their row counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class OccupiedCells:
    """Occupied cells of a projection: codes and row counts.

    Cells are sorted by their codes (first column slowest) and distinct; no count is 0.
    """

    domain: Domain
    codes: NDArray[np.int64]
    counts: Counts

    def only(self, kept: NDArray[np.bool_]) -> OccupiedCells:
        """Return the cells selected by a mask."""
        return OccupiedCells(self.domain, self.codes[kept], self.counts[kept])
