"""Tables of a partition, and how they are read; one-way counts of columns.

``tree`` has one row per node, level by level, root first. ``data`` has one row per leaf and class,
in the order of the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.kernels import EVEN
from hushtable.methods.count_error import laplace_error
from hushtable.methods.partition.tree import GrowthRules, PartitionAxis, PartitionTree, grow
from hushtable.numeric import project_to_simplex
from hushtable.privacy.accounting.sealed import SealedCells
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.noise.distributions import laplace_kurtosis, laplace_variance
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.codes import arrow_type, as_numpy, to_labels, typed

# Least squares over a tree of noisy counts.
#
# The cells (classes of leaves) are measured, and so are some of the nodes above them. With
# independent noise of known variance, least squares gives the best linear unbiased estimate
# (Gauss-Markov theorem). Its normal equations have the matrix
#
#     A = diag(1 / cell variance) + sum over measured nodes v of (1 / variance of v) 1_v 1_v',
#
# where 1_v marks the cells below v. One pass up the tree and one down solve these equations (each
# step applies the Sherman-Morrison formula). The inverse of A is the covariance of the estimate.


@dataclass(frozen=True)
class NoisyTree:
    """Measurements of a tree and their noise.

    Examples
    --------
    >>> pair = NoisyTree(np.array([1, -1, -1]), np.array([0, 1, 1]), np.full((2, 1), 1e6),
    ...                  np.array([1e6, np.inf, np.inf]))
    >>> pair.fit(np.array([[40.0], [40.0]]), np.array([110.0, 0.0, 0.0])).ravel().round(6).tolist()
    [50.0, 50.0]
    """

    left: Integers  # first child of each node, the second follows; -1 for a leaf; level order
    levels: Integers  # level of each node, ascending
    cell_scale: Floats  # scale of the discrete Laplace noise on each cell (leaves, classes)
    node_scale: Floats  # scale of the noise on a node's count; infinite if not measured
    total: int | None = None  # number of rows, if known

    @cached_property
    def _leaves(self) -> Integers:
        return np.flatnonzero(self.left < 0)

    @cached_property
    def _by_level(self) -> list[tuple[Integers, Integers]]:
        """Inner nodes of each level, and their first children."""
        ends = np.searchsorted(self.levels, np.arange(int(self.levels[-1]) + 2))
        found = []
        for begin, end in pairwise(ends.tolist()):
            inner = begin + np.flatnonzero(self.left[begin:end] >= 0)
            found.append((inner, self.left[inner]))
        return found

    @cached_property
    def _cell_variance(self) -> Floats:
        return laplace_variance(self.cell_scale)

    @cached_property
    def _weight(self) -> Floats:
        """1 / variance of a node's count; 0 if it was not measured."""
        weight = np.zeros(len(self.left))
        measured = np.isfinite(self.node_scale)
        weight[measured] = 1.0 / laplace_variance(self.node_scale[measured])
        return weight

    @cached_property
    def _spread(self) -> Floats:
        """Sum of the covariance of the cells below each node, given the measurements below it."""
        return self._upward(self._cell_variance.sum(axis=1))

    def _upward(self, of_leaves: Floats, below: Floats | None = None) -> Floats:
        values = np.zeros(len(self.left))
        values[self._leaves] = of_leaves
        spread = np.zeros(len(self.left)) if below is None else below
        for inner, left in [(self._leaves, None), *reversed(self._by_level)]:
            if left is not None:
                values[inner] = values[left] + values[left + 1]
            if below is None:  # the covariance sum, reduced by the node's own measurement
                spread[inner] = values[inner] / (1.0 + self._weight[inner] * values[inner])
                values[inner] = spread[inner]
            else:
                values[inner] *= 1.0 - self._weight[inner] * spread[inner]
        return values

    def _solve(self, cells: Floats) -> tuple[Floats, Floats]:
        """Solve A x = cells; return x and the sum of x below each node."""
        sums = self._upward((self._cell_variance * cells).sum(axis=1), self._spread)
        pull = np.zeros(len(self.left))  # subtracted from the right side by measurements above
        for inner, left in self._by_level:
            sums[inner] -= pull[inner] * self._spread[inner]
            pull[left] = pull[left + 1] = pull[inner] + self._weight[inner] * sums[inner]
        leaves = self._leaves
        sums[leaves] -= pull[leaves] * self._spread[leaves]
        pull[leaves] += self._weight[leaves] * sums[leaves]
        return self._cell_variance * (cells - pull[leaves][:, None]), sums

    @cached_property
    def _of_ones(self) -> tuple[Floats, Floats]:
        return self._solve(np.ones(self.cell_scale.shape))

    def fit(self, cells: Floats, nodes: Floats) -> Floats:
        """Estimate the cells from their noisy counts and those of the measured nodes."""
        pull = np.where(self._weight > 0, self._weight * nodes, 0.0)
        for inner, left in self._by_level:
            pull[left] += pull[inner]
            pull[left + 1] += pull[inner]
        fitted, _ = self._solve(cells / self._cell_variance + pull[self._leaves][:, None])
        if self.total is not None:
            ones, _ = self._of_ones
            fitted = fitted + ones * ((self.total - fitted.sum()) / ones.sum())
        return fitted

    def error(self, weights: Floats) -> tuple[float, float, float]:
        """Return the error of a weighted sum of the fitted cells.

        Return its standard deviation, its excess kurtosis, and the largest weight of a single
        integer noise variable.
        """
        factors, scales = self._noise_of(weights)
        std, kurtosis = noise_of_sum(scales, factors)
        return std, kurtosis, float(np.abs(factors).max()) if std else 0.0

    def covariance(self, weights: Sequence[Floats]) -> Floats:
        """Return the covariance of the errors of several weighted sums of the fitted cells."""
        found = [self._noise_of(one) for one in weights]
        factors = np.stack([factor for factor, _ in found])
        return np.asarray((factors * laplace_variance(found[0][1])) @ factors.T)

    def _noise_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the error of a weighted sum as weights and scales of independent noise."""
        solved, sums = self._solve(weights)
        if self.total is not None:
            ones, sums_of_ones = self._of_ones
            part = solved.sum() / ones.sum()
            solved, sums = solved - part * ones, sums - part * sums_of_ones
        measured = self._weight > 0
        factors = np.concatenate(
            ((solved / self._cell_variance).ravel(), (self._weight * sums)[measured])
        )
        return factors, np.concatenate((self.cell_scale.ravel(), self.node_scale[measured]))


def noise_of_sum(scales: Floats, factors: Floats | float = 1.0) -> tuple[float, float]:
    """Return standard deviation and excess kurtosis of a weighted sum of Laplace noise."""
    variances = factors**2 * laplace_variance(scales)
    variance = float(variances.sum())
    if variance <= 0.0:
        return 0.0, 0.0
    return variance**0.5, float(variances**2 @ laplace_kurtosis(scales)) / variance**2


NODE, COUNT, NOISY_COUNT, NOISE_SCALE = "node", "count", "noisy_count", "noise_scale"
"""Columns that are published in addition to the schema's own."""


def noisy_leaves(
    tree: PartitionTree,
    rows: SealedRegions,
    leaves: Sequence[int],
    max_rows: int,
    noise: Noise,
    *,
    what: str = "counts of leaves",
) -> tuple[Integers, Floats]:
    """Add noise to the counts (leaves, classes), scaled to the epsilon left on each path.

    Return the noisy counts and the scales of their noise; a unit has at most `max_rows` rows.
    """
    noisy = np.empty((len(leaves), rows.n_classes), np.int64)
    scales = np.empty(noisy.shape)
    left = [tree.epsilon[leaf] for leaf in tree.leaves.tolist()]
    for epsilon in dict.fromkeys(left):
        these = [at for at, own in enumerate(left) if own == epsilon]
        counts = rows.class_counts([leaves[at] for at in these])
        noisy[these] = noise.open(counts, Laplace(max_rows / epsilon), what)
        scales[these] = float(max_rows / epsilon)
    return noisy, scales


def tree_table(tree: PartitionTree, axes: Sequence[PartitionAxis], rules: GrowthRules) -> pa.Table:
    """Return the nodes of a tree as a table: splits and counts of stopping tests."""
    leaf = np.asarray(tree.left) < 0
    untested = ~np.asarray(tree.tested)
    names = pa.array([axis.name for axis in axes], pa.string())
    scale = float(rules.max_rows / rules.epsilon_test)
    return pa.table(
        {
            "level": pa.array(tree.levels, pa.int64()),
            "left": pa.array(np.asarray(tree.left), pa.int64(), mask=leaf),
            "column": names.take(pa.array(np.asarray(tree.axis), pa.int64(), mask=leaf)),
            "cut": pa.array(np.asarray(tree.cut), pa.int64(), mask=leaf),
            NOISY_COUNT: pa.array(np.asarray(tree.noisy), pa.int64(), mask=untested),
            NOISE_SCALE: pa.array(np.full(len(leaf), scale), pa.float64(), mask=untested),
        }
    )


def measurements(
    nodes: pa.Table, cell_scale: Floats, *, total: int | None, consistent: bool
) -> tuple[NoisyTree, Floats]:
    """Return the noise of all counts of a tree, and the noisy counts of its nodes.

    `cell_scale` (leaves, classes) is the noise scale of the leaf counts; `total` the number of rows
    if it is public; `consistent` whether the counts of nodes are used.
    """
    left = as_numpy(nodes["left"], null=-1)
    scale = as_numpy(nodes[NOISE_SCALE], null=np.nan)
    scale[np.isnan(scale) | (not consistent)] = np.inf
    tree = NoisyTree(left, as_numpy(nodes["level"]), cell_scale, scale, total)
    return tree, as_numpy(nodes[NOISY_COUNT], null=0).astype(np.float64)


def leaf_parts(nodes: pa.Table, axes: Sequence[PartitionAxis]) -> tuple[Integers, Integers]:
    """Return the parts of the leaves of a tree, as two arrays (leaves, axes)."""
    left = as_numpy(nodes["left"], null=-1)
    cuts = as_numpy(nodes["cut"], null=0)
    at_axis = {axis.name: at for at, axis in enumerate(axes)}
    names = nodes["column"].to_pylist()  # dictionary encoding would load a library
    split_axis = np.array([-1 if name is None else at_axis[name] for name in names], np.int64)
    whole = np.array([axis.whole for axis in axes], np.int64)
    first = np.tile(whole[:, 0], (len(left), 1))
    last = np.tile(whole[:, 1], (len(left), 1))
    levels = as_numpy(nodes["level"])
    for level in range(int(levels[-1])):
        inner = np.flatnonzero((levels == level) & (left >= 0))
        for child in (left[inner], left[inner] + 1):
            first[child], last[child] = first[inner], last[inner]
        for at, axis in enumerate(axes):
            here = inner[split_axis[inner] == at]
            if axis.subsets:
                first[left[here], at] = cuts[here]
                first[left[here] + 1, at] = first[here, at] & ~cuts[here]
            else:
                last[left[here], at] = cuts[here] - 1
                first[left[here] + 1, at] = cuts[here]
    leaves = left < 0
    return first[leaves], last[leaves]


def leaf_table(
    schema: Schema,
    nodes: pa.Table,
    axes: Sequence[PartitionAxis],
    target: str | None,
    *,
    counts: Integers,
    noisy: Integers,
    scales: Floats,
) -> pa.Table:
    """Return the leaves as a table: region, class, fitted and noisy count.

    A region lists the values of a categorical column, null for missing. For a numeric column it has
    the lowest and highest value, whether missing values are included, and which special values.
    """
    n_classes = noisy.shape[1]
    leaves = np.flatnonzero(nodes["left"].is_null().to_numpy())
    ends = leaf_parts(nodes, axes)
    return pa.table(
        {
            NODE: pa.array(np.repeat(leaves, n_classes), pa.int64()),
            **box_columns(schema, axes, ends, target, n_classes),
            COUNT: pa.array(counts, pa.int64()),
            NOISY_COUNT: pa.array(noisy.ravel(), pa.int64()),
            NOISE_SCALE: pa.array(scales.ravel(), pa.float64()),
        }
    )


def box_columns(
    schema: Schema,
    axes: Sequence[PartitionAxis],
    ends: tuple[Integers, Integers],
    target: str | None,
    n_classes: int,
) -> dict[str, pa.Array]:
    """Return boxes as columns in the order of the schema, one row per box and class.

    `ends` are the parts of the boxes, two arrays (boxes, axes).
    """
    columns = {}
    for at, axis in enumerate(axes):
        parts, which = distinct_parts(ends[0][:, at], ends[1][:, at])
        values = part_values(schema.attributes[axis.name], axis, parts)
        columns[axis.name] = values.take(pa.array(np.repeat(which, n_classes)))
    if target is not None:
        codes = np.tile(np.arange(n_classes), len(ends[0]))
        columns[target] = to_labels(schema.attributes[target], codes)
    return {name: columns[name] for name in schema.attributes}


def distinct_parts(first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """Return the distinct parts of an axis, and the part of each box."""
    parts, which = np.unique(np.stack((first, last), axis=1), axis=0, return_inverse=True)
    return parts, which.reshape(-1)


def part_values(column: Column, axis: PartitionAxis, parts: Integers) -> pa.Array:
    """Return parts of a column: lists of values if it is categorical, otherwise their ends."""
    kind = arrow_type(column)
    if isinstance(column, Categorical):
        lists = [typed(column, [column.value(int(c)) for c in axis.codes_of(*part)])
                 for part in parts.tolist()]  # fmt: skip
        return pa.array([values.to_pylist() for values in lists], pa.list_(kind))
    lows, highs, missing, special = [], [], [], []
    for first, last in axis.code_bounds(parts).tolist():
        top = min(last, column.n_values - 1)
        some = first <= top
        lows.append(column.value(first) if some else None)
        highs.append(column.value(top) if some else None)
        missing.append(last == column.missing_code)
        names = column.special_names
        special.append([names[c - column.n_values] for c in range(max(first, column.n_values),
                        min(last + 1, column.n_values + len(names)))])  # fmt: skip
    fields = {
        "low": typed(column, lows),
        "high": typed(column, highs),
        "missing": pa.array(missing),
    }
    if column.special_names:
        fields["special"] = pa.array(special, pa.list_(pa.string()))
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


# One-way counts beside the tree, because regions say little about columns they do not split.
#
# A column of few values is counted by value. A longer one is split by its own tree, grown like the
# tree of all columns. Each column pays an equal part of their common budget; ``partition.md`` shows
# that these parts add up.

LEVELS = 5
"""Depth of the tree of one column, which has at most 32 leaves."""

CHOICES = Fraction(1, 2)
"""Share of a column's budget for its splits, if they are chosen."""

_NO_LIMIT = 1 << 20  # more leaves than any column can have


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
        """Nearest non-negative counts that sum to `total`; clipping alone would add rows."""
        return project_to_simplex(self.noisy, self.total, self.scale**2)


@dataclass(frozen=True)
class CountedColumns:
    """Columns with one-way counts, and their budget."""

    axes: tuple[PartitionAxis, ...]  # the columns; empty if there are no such counts
    epsilon: Fraction  # total epsilon; each column pays the same part
    max_rows: int  # rows of one unit

    def rules(self, axis: PartitionAxis) -> GrowthRules:
        """Return the growth rules of a column; splits are free if each value has its own count."""
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
        """Return the expected width of intervals of one-column counts, as a share of the rows."""
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
    noisy, scales = noisy_leaves(
        tree, rows, leaves, rules.max_rows, noise, what=f"counts of column {axis.name!r}"
    )
    return pa.table(
        {
            "column": pa.array([axis.name] * len(leaves), pa.string()),
            "first": pa.array(first[:, 0], pa.int64()),
            "last": pa.array(last[:, 0], pa.int64()),
            NOISY_COUNT: pa.array(noisy[:, 0], pa.int64()),
            NOISE_SCALE: pa.array(scales[:, 0], pa.float64()),
        }
    )


def read_columns(
    table: pa.Table, axes: Sequence[PartitionAxis], total: float
) -> dict[str, ColumnParts]:
    """Read the table ``columns`` of a release; `total` is the number of rows."""
    owner = np.asarray(table["column"].to_pylist(), object)
    parts = np.stack((as_numpy(table["first"]), as_numpy(table["last"])), axis=1)
    noisy = as_numpy(table[NOISY_COUNT]).astype(np.float64)
    scale = as_numpy(table[NOISE_SCALE])
    return {
        axis.name: ColumnParts(axis, parts[own], noisy[own], scale[own], total)
        for axis in axes
        if (own := owner == axis.name).any()
    }
