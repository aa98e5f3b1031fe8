"""Occupied cells of a table, and how many rows are in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Hold the occupied cells of a projection: their codes and how many rows each has.

    Rows are in the order of their codes (first column slowest), each cell once, no zero counts.
    """

    domain: Domain
    codes: NDArray[np.int64]
    counts: Counts

    def only(self, kept: NDArray[np.bool_]) -> Cells:
        """Keep some of the cells."""
        return Cells(self.domain, self.codes[kept], self.counts[kept])
