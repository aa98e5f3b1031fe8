"""Count each column by itself, beside the tree: regions say little about columns they do not cut.

A column of few values is counted value by value. A longer one is cut by a tree of its own, which is
grown as the tree of all columns is. Each column pays its part of what is set aside for all of them;
why these parts add up is said in ``partition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import as_numpy
from hushtable.estimate.simplex import on_simplex
from hushtable.kernels.split_quality import EVEN
from hushtable.methods.count_error import laplace_error
from hushtable.methods.partition.axes import Axis
from hushtable.methods.partition.regions import NOISE_SCALE, NOISY_COUNT, leaf_parts, tree_table
from hushtable.methods.partition.tree import GrowthRules, grow
from hushtable.privacy.mechanism import Laplace
from hushtable.privacy.noise import Noise
from hushtable.privacy.regions import SealedRegions
from hushtable.privacy.sealed import SealedCells

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LEVELS = 5
"""How often a column is halved: into 32 parts."""

CHOICES = Fraction(1, 2)
"""What share of a column's budget its cuts get, where they are chosen."""

_NO_LIMIT = 1 << 20  # leaves of one column are far fewer


@dataclass(frozen=True)
class ColumnParts:
    """Hold the published parts of one column, and their noisy counts.

    Parameters
    ----------
    axis : Axis
        The column.
    parts : array (parts, 2)
        First and last position of each, or its mask and 0.
    noisy : array
        Noisy counts.
    scale : array
        Scales of their noise.
    total : float
        How many rows there are, as regions say, whose noise is less than that of a column.
    """

    axis: Axis
    parts: Integers
    noisy: Floats
    scale: Floats
    total: float

    @cached_property
    def rows(self) -> Floats:
        """The nearest counts that are not negative and add up: cut off, noise would be rows."""
        return on_simplex(self.noisy, self.total, self.scale**2)


@dataclass(frozen=True)
class CountedColumns:
    """Say which columns are counted by themselves, and for how much.

    Parameters
    ----------
    axes : tuple of Axis
        The columns; none where there are to be no such counts.
    epsilon : Fraction
        What they pay together, each the same part.
    max_rows : int
        Rows of one unit.
    """

    axes: tuple[Axis, ...]
    epsilon: Fraction
    max_rows: int

    def rules(self, axis: Axis) -> GrowthRules:
        """Say how a column is cut: at no cost where all its values can be counted."""
        epsilon = self.epsilon / len(self.axes)
        is_short = axis.size <= 1 << LEVELS
        each = Fraction(0) if is_short else CHOICES * epsilon / LEVELS
        return GrowthRules(
            max_depth=LEVELS,
            stop_count=0,
            test_from=LEVELS,
            split="midpoint" if is_short else "median",
            quality=EVEN,
            epsilon=epsilon,
            epsilon_test=epsilon,  # no level has a test
            epsilon_split=(each, each),
            max_rows=self.max_rows,
            max_regions=_NO_LIMIT,
        )

    @property
    def largest_scale(self) -> Fraction:
        """The scale of the noisiest count; 0 where there is none."""
        if not self.axes:
            return Fraction(0)
        return self.max_rows * len(self.axes) / ((1 - CHOICES) * self.epsilon)

    def typical_width(self, rows: int) -> float:
        """Expect half of the parts of a column, and one that is cut: a share of the rows."""
        if not self.axes:
            return math.inf
        return math.fsum(min(self._width(axis, rows), 1) for axis in self.axes) / len(self.axes)

    def _width(self, axis: Axis, rows: int) -> float:
        n_parts = min(axis.size, 1 << LEVELS)
        is_short = n_parts == axis.size  # all its values are counted, and no choice is paid
        left = 1 if is_short else 1 - CHOICES
        rate = left * self.epsilon / (self.max_rows * len(self.axes))
        noise = laplace_error(rate, max(n_parts // 2, 1), "")
        return 2 * noise.half_width / max(rows, 1) + (0 if is_short else 1 / n_parts)

    def count(self, cells: SealedCells, names: Sequence[str], noise: Noise) -> pa.Table | None:
        """Count all columns with noise, from cells of the columns of these names.

        Gives one row per part of a column.
        """
        if not self.axes:
            return None
        found = []
        for axis in self.axes:
            rows = SealedRegions.of(cells, [axis], places=[names.index(axis.name)])
            found.append(_count_column(rows, axis, self.rules(axis), noise))
        return pa.concat_tables(found)


def _count_column(rows: SealedRegions, axis: Axis, rules: GrowthRules, noise: Noise) -> pa.Table:
    tree, leaves = grow(rows, [axis], rules, noise)
    first, last = leaf_parts(tree_table(tree, [axis], rules), [axis])
    noisy, scales = np.empty(len(leaves), np.int64), np.empty(len(leaves))
    left = [tree.epsilon[leaf] for leaf in tree.leaves.tolist()]
    for amount in dict.fromkeys(left):
        these = [at for at, own in enumerate(left) if own == amount]
        scale = rules.max_rows / amount
        counts = rows.totals([leaves[at] for at in these])
        noisy[these] = noise.open(counts, Laplace(scale), f"counts of column {axis.name!r}")
        scales[these] = float(scale)
    return pa.table(
        {
            "column": pa.array([axis.name] * len(leaves), pa.string()),
            "first": pa.array(first[:, 0], pa.int64()),
            "last": pa.array(last[:, 0], pa.int64()),
            NOISY_COUNT: pa.array(noisy, pa.int64()),
            NOISE_SCALE: pa.array(scales, pa.float64()),
        }
    )


def read_columns(table: pa.Table, axes: Sequence[Axis], total: float) -> dict[str, ColumnParts]:
    """Read the table back, column by column, each with as many rows as there are."""
    owner = np.asarray(table["column"].to_pylist(), object)
    parts = np.stack((as_numpy(table["first"]), as_numpy(table["last"])), axis=1)
    noisy = as_numpy(table[NOISY_COUNT]).astype(np.float64)
    scale = as_numpy(table[NOISE_SCALE])
    return {
        axis.name: ColumnParts(axis, parts[own], noisy[own], scale[own], total)
        for axis in axes
        if (own := owner == axis.name).any()
    }
