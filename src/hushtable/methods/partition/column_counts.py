"""One-way counts beside the tree, because regions say little about columns they do not split.

A column of few values is counted by value. A longer one is split by its own tree, grown like the
tree of all columns. Each column pays an equal part of their common budget; ``partition.md`` shows
that these parts add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.kernels import EVEN
from hushtable.methods.count_error import laplace_error
from hushtable.methods.partition.region_table import (
    NOISE_SCALE,
    NOISY_COUNT,
    leaf_parts,
    tree_table,
)
from hushtable.methods.partition.tree import GrowthRules, PartitionAxis, grow
from hushtable.numeric import project_to_simplex
from hushtable.privacy.accounting.sealed import SealedCells
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.codes import as_numpy

LEVELS = 5
"""Number of times a column is halved: 32 parts."""

CHOICES = Fraction(1, 2)
"""Share of a column's budget for its splits, if they are chosen."""

_NO_LIMIT = 1 << 20  # one column has far fewer leaves


@dataclass(frozen=True)
class ColumnParts:
    """Published parts of one column, and their noisy counts."""

    axis: PartitionAxis  # the column
    parts: Integers  # (parts, 2): first and last position of each, or its mask and 0
    noisy: Floats  # noisy counts
    scale: Floats  # scales of their noise
    total: float  # number of rows, from the regions, which have less noise than a column

    @cached_property
    def rows(self) -> Floats:
        """Nearest non-negative counts with the right sum; clipping alone would add rows."""
        return project_to_simplex(self.noisy, self.total, self.scale**2)


@dataclass(frozen=True)
class CountedColumns:
    """Columns with one-way counts, and their budget."""

    axes: tuple[PartitionAxis, ...]  # the columns; empty if there are no such counts
    epsilon: Fraction  # total epsilon; each column pays the same part
    max_rows: int  # rows of one unit

    def rules(self, axis: PartitionAxis) -> GrowthRules:
        """Return how a column is split: at no cost if all its values can be counted."""
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
            epsilon_test=epsilon,  # unused: no level has a test
            epsilon_split=(each, each),
            max_rows=self.max_rows,
            max_regions=_NO_LIMIT,
        )

    @property
    def largest_scale(self) -> Fraction:
        """Largest noise scale of a count; 0 if there is none."""
        if not self.axes:
            return Fraction(0)
        return self.max_rows * len(self.axes) / ((1 - CHOICES) * self.epsilon)

    def typical_width(self, rows: int) -> float:
        """Return the expected width of a count by one column, as a share of the rows."""
        if not self.axes:
            return math.inf
        return math.fsum(min(self._width(axis, rows), 1) for axis in self.axes) / len(self.axes)

    def _width(self, axis: PartitionAxis, rows: int) -> float:
        n_parts = min(axis.size, 1 << LEVELS)
        is_short = n_parts == axis.size  # all values are counted, and no choice is paid
        left = 1 if is_short else 1 - CHOICES
        rate = left * self.epsilon / (self.max_rows * len(self.axes))
        noise = laplace_error(rate, max(n_parts // 2, 1), "")
        return 2 * noise.half_width / max(rows, 1) + (0 if is_short else 1 / n_parts)

    def count(self, cells: SealedCells, names: Sequence[str], noise: Noise) -> pa.Table | None:
        """Count all columns with noise, from cells of the columns `names`; one row per part."""
        if not self.axes:
            return None
        found = []
        for axis in self.axes:
            rows = SealedRegions.of(cells, [axis], places=[names.index(axis.name)])
            found.append(_count_column(rows, axis, self.rules(axis), noise))
        return pa.concat_tables(found)


def _count_column(
    rows: SealedRegions, axis: PartitionAxis, rules: GrowthRules, noise: Noise
) -> pa.Table:
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


def read_columns(
    table: pa.Table, axes: Sequence[PartitionAxis], total: float
) -> dict[str, ColumnParts]:
    """Read the table by column; `total` is the number of rows."""
    owner = np.asarray(table["column"].to_pylist(), object)
    parts = np.stack((as_numpy(table["first"]), as_numpy(table["last"])), axis=1)
    noisy = as_numpy(table[NOISY_COUNT]).astype(np.float64)
    scale = as_numpy(table[NOISE_SCALE])
    return {
        axis.name: ColumnParts(axis, parts[own], noisy[own], scale[own], total)
        for axis in axes
        if (own := owner == axis.name).any()
    }
