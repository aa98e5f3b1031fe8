"""Tables of the log-linear model: noisy counts and the log-factors fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.particles import Group

FINE_LIMIT = 16.0
"""Bound on the absolute log-factor of a group of columns, summed over its tables."""


@dataclass
class FactorTable:
    """A noisy table and its log-factors; cells are in C order."""

    group: Group  # its columns
    counts: Floats  # noisy
    std: Floats  # of each count
    theta: Floats  # log-factors
    maps: tuple[Integers, ...]  # the cell of each code, by column
    lines: tuple[Floats, ...] | None = None  # interpolation matrix (code, cell), by column
    strength: float = 1.0  # relative strength of its regularizer
    goal: Floats | None = None  # what is fitted instead of the counts, if they were smoothed
    from_prior: bool = False  # whether it is a prior's table, with `std` from its prior variance

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    @property
    def wanted(self) -> Floats:
        """The counts that are fitted."""
        return self.counts if self.goal is None else self.goal

    def is_of(self, group: Group, maps: Sequence[Integers]) -> bool:
        """Return whether this is a noisy table of these columns at these resolutions."""
        return (
            not self.from_prior
            and self.group == group
            and all(
                np.array_equal(mine, other) for mine, other in zip(self.maps, maps, strict=True)
            )
        )

    def fine(self, values: Floats) -> Floats:
        """Expand log-factors of cells to combinations of codes, one axis per column."""
        table = values.reshape(self.shape)
        if self.lines is None:
            return table[np.ix_(*self.maps)]
        for axis, line in enumerate(self.lines):
            table = np.moveaxis(np.tensordot(line, table, axes=(1, axis)), 0, axis)
        return table

    def add(self, counts: Floats, std: Floats) -> None:
        """Average with another noisy table of the same cells by precision."""
        old, new = self.std**-2.0, std**-2.0
        self.counts = (old * self.counts + new * counts) / (old + new)
        self.std = (old + new) ** -0.5


def log_factors(tables: Sequence[FactorTable]) -> dict[Group, Floats]:
    """Sum the log-factors of all resolutions of each group of columns."""
    found: dict[Group, Floats] = {}
    for table in tables:
        mine = table.fine(table.theta)
        found[table.group] = found[table.group] + mine if table.group in found else mine
    return {group: np.clip(both, -FINE_LIMIT, FINE_LIMIT) for group, both in found.items()}


def dispersion(counts: Floats, expected: Floats, std: float) -> float:
    """Return c such that the mean absolute gap is that of noise of variance std^2 + c * expected.

    The result is between a fifth and five times the standard deviation of the noise.

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
