"""The tables of a field: noisy counts, and the log-factors that are fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.kernels.field import Floats, Integers
from hushtable.methods.quilt.particles import Group

FINE_LIMIT = 16.0
"""Log-factors of a group of columns, all its tables together, stay between minus and plus this."""


@dataclass
class FactorTable:
    """Hold a noisy table and its log-factors; the cells are in C order.

    Parameters
    ----------
    group : tuple of int
        Its columns.
    counts : array
        The noisy counts.
    std : array
        Standard deviation of each count.
    theta : array
        The log-factors.
    maps : tuple of int arrays
        The cell of each code, for each column.
    lines : tuple of arrays, optional
        For each column what part of which cells' log-factors its codes get; without them those of
        their own cell.
    strength : float
        How strongly it is held back, in parts of what others are.
    goal : array, optional
        What is fitted in place of the noisy counts, where those were smoothed.
    believed : bool
        Whether it is not a noisy table but a prior's, with its doubt as standard deviation.
    """

    group: Group
    counts: Floats
    std: Floats
    theta: Floats
    maps: tuple[Integers, ...]
    lines: tuple[Floats, ...] | None = None
    strength: float = 1.0
    goal: Floats | None = None
    believed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    @property
    def wanted(self) -> Floats:
        """What is fitted."""
        return self.counts if self.goal is None else self.goal

    def is_of(self, group: Group, maps: Sequence[Integers]) -> bool:
        """Say whether it has these columns at these resolutions."""
        return (
            not self.believed
            and self.group == group
            and all(
                np.array_equal(mine, other) for mine, other in zip(self.maps, maps, strict=True)
            )
        )

    def fine(self, values: Floats) -> Floats:
        """Spread log-factors of cells to combinations of codes, one axis for each column."""
        table = values.reshape(self.shape)
        if self.lines is None:
            return table[np.ix_(*self.maps)]
        for axis, line in enumerate(self.lines):
            table = np.moveaxis(np.tensordot(line, table, axes=(1, axis)), 0, axis)
        return table

    def add(self, counts: Floats, std: Floats) -> None:
        """Take the weighted mean with another noisy table of the same cells."""
        old, new = self.std**-2.0, std**-2.0
        self.counts = (old * self.counts + new * counts) / (old + new)
        self.std = (old + new) ** -0.5


def log_factors(tables: Sequence[FactorTable]) -> dict[Group, Floats]:
    """Add up the log-factors of all resolutions of each group of columns."""
    found: dict[Group, Floats] = {}
    for table in tables:
        mine = table.fine(table.theta)
        found[table.group] = found[table.group] + mine if table.group in found else mine
    return {group: np.clip(both, -FINE_LIMIT, FINE_LIMIT) for group, both in found.items()}


def dispersion(counts: Floats, expected: Floats, std: float) -> float:
    """Give the c for which the mean absolute gap is that of noise of variance std^2 + c expected.

    It is kept between a fifth and five times the standard deviation of the noise.

    Examples
    --------
    >>> round(dispersion(np.array([100.0, 100.0]), np.array([100.0, 100.0]), 10.0), 1)
    2.0
    """
    model = np.maximum(expected, 0.0)
    seen = float(np.abs(counts - expected).sum()) / math.sqrt(2 / math.pi)
    low, high = math.log(std / 5), math.log(5 * std)
    for _ in range(30):
        middle = (low + high) / 2
        if float(np.sqrt(std**2 + math.exp(middle) * model).sum()) < seen:
            low = middle
        else:
            high = middle
    return math.exp(low)
