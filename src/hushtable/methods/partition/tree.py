"""Growth of the tree of regions, level by level; every query of the data is paid.

The budget is tracked per path: a region has left what it and its ancestors did not spend.
``partition.md`` proves that this suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from hushtable.arrays import Bools, Integers
from hushtable.kernels import MOVES
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.scored_splits import SplitChoice
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Column, GridColumn

# Axes of a partition: how regions may be split along one attribute.
#
# A region is a product of parts, one per attribute. The possible splits of a part depend only on
# the schema and the part, never on the values in the data.

MAX_SUBSET_VALUES = 8
"""An unordered column with at most this many codes is split into any two subsets."""


@dataclass(frozen=True)
class PartitionAxis:
    """One attribute with its codes in a public order; missing is last.

    A part of the axis is a pair of integers. On an ordered axis, these are the first and the last
    position. On an axis of subsets, the first is a bit mask of positions and the second is 0.

    Examples
    --------
    >>> column = Categorical(type="categorical", values=("a", "b", "c"), missing="category")
    >>> axis = axis_of("x", column)
    >>> axis.subsets, axis.whole, int(axis.n_splits(np.array([0b1111]), np.array([0]))[0])
    (True, (15, 0), 7)
    >>> axis.codes_of(0b1001, 0).tolist()
    [0, 3]
    """

    name: str  # name of the attribute
    codes: tuple[int, ...] | None  # code at each position; None if positions are codes
    size: int  # number of positions
    subsets: bool  # whether any subset may be a part
    starts: tuple[int, ...] | None = None  # first code of each position, for public bins
    n_special: int = 0  # number of special values and missing, which are the last positions

    @property
    def whole(self) -> tuple[int, int]:
        """The part that contains all positions."""
        return ((1 << self.size) - 1, 0) if self.subsets else (0, self.size - 1)

    @cached_property
    def _position_of(self) -> Integers | None:
        if self.codes is None:
            return None
        return np.argsort(np.asarray(self.codes, np.int64))

    def positions(self, codes: Integers) -> Integers:
        """Convert codes of the schema to positions."""
        if self.starts is not None:
            return np.searchsorted(self.starts, codes, side="right") - 1
        return codes if self._position_of is None else self._position_of[codes]

    def n_codes(self, first: Integers, last: Integers) -> Integers:
        """Return the number of positions in each part."""
        return np.bitwise_count(first).astype(np.int64) if self.subsets else last - first + 1

    def share(self, first: int, last: int) -> Fraction:
        """Return the share of all positions that a part has."""
        n_codes = first.bit_count() if self.subsets else last - first + 1
        return Fraction(n_codes, self.size)

    def n_splits(self, first: Integers, last: Integers) -> Integers:
        """Return the number of ways to split parts into two non-empty sides."""
        n_codes = self.n_codes(first, last)
        return (1 << (n_codes - 1)) - 1 if self.subsets else n_codes - 1

    def middle(self, first: int, last: int) -> int:
        """Return the split of a part into halves by position; the left half may have one more."""
        if not self.subsets:
            return first + (last - first) // 2 + 1
        inside = [position for position in range(self.size) if first >> position & 1]
        return sum(1 << position for position in inside[: (len(inside) + 1) // 2])

    def halves(self, first: int, last: int, cut: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Split a part at a position (the first of the right half), or into a mask and the rest.

        Examples
        --------
        >>> PartitionAxis("age", None, 100, False).halves(20, 39, 30)
        ((20, 29), (30, 39))
        """
        if self.subsets:
            return (cut, 0), (first & ~cut, 0)
        return (first, cut - 1), (cut, last)

    def code_bounds(self, parts: Integers) -> Integers:
        """Return the first and last code of parts (n, 2), for an axis in code order."""
        if self.starts is None:
            return parts
        starts = np.asarray(self.starts, np.int64)
        return np.stack((starts[parts[:, 0]], starts[1:][parts[:, 1]] - 1), axis=1)

    def codes_of(self, first: int, last: int) -> Integers:
        """Return the codes of a part, ascending."""
        if self.starts is not None:
            (bounds,) = self.code_bounds(np.array([[first, last]])).tolist()
            return np.arange(bounds[0], bounds[1] + 1)
        if self.subsets:
            places = np.flatnonzero([first >> position & 1 for position in range(self.size)])
        else:
            places = np.arange(first, last + 1)
        if self.codes is None:
            return places.astype(np.int64)
        return np.sort(np.asarray(self.codes, np.int64)[places])


def axis_of(name: str, column: Column) -> PartitionAxis:
    """Return the axis of a column.

    Numbers and ordered categories are split in their order; categories with a taxonomy in the order
    of its leaves. Other categories are split into any two subsets if there are few; otherwise in
    the order of the schema. Missing is one more value, at the end.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> axis_of("age", Integer(type="integer", low=0, high=9, missing="category")).size
    11
    """
    ordered = column.is_line or getattr(column, "taxonomy", None) is not None
    if ordered or column.size > MAX_SUBSET_VALUES:
        return ordered_axis_of(name, column)
    return PartitionAxis(name, None, column.size, True)


def ordered_axis_of(name: str, column: Column) -> PartitionAxis:
    """Return an axis with the codes in a public order, split only between neighbors."""
    if not isinstance(column, Categorical):
        return _line(name, column)
    if column.ordered or column.taxonomy is None:
        return PartitionAxis(name, None, column.size, False)
    code_of = {value: code for code, value in enumerate(column.values)}
    codes = [code_of[value] for value in column.taxonomy.values]
    return PartitionAxis(name, (*codes, *range(column.n_values, column.size)), column.size, False)


def _line(name: str, column: GridColumn) -> PartitionAxis:
    """Return an axis of numbers, dates or times, split between neighbors or public bins."""
    n_special = len(column.special_names)
    apart = column.n_special if n_special else 0  # missing alone is one more value at the end
    if column.bin_starts is None:
        return PartitionAxis(name, None, column.size, False, n_special=apart)
    # The last start is the end of the last position.
    starts = (*column.bin_starts, *range(column.n_values, column.size + 1))
    return PartitionAxis(name, None, len(starts) - 1, False, starts, apart)


Split = Literal["class", "median", "random-attribute", "midpoint"]

MOST_SPLITS = 10
"""All splits have the same base measure, but the splits of one axis count as at most this many."""

MAX_SPECIAL_REGIONS = 8
"""Maximum number of regions made by free splits on special values; each grows like a root."""

_UNIT = 1 << 40  # base measure of an axis; an axis has at most 2**31 splits


@dataclass(frozen=True)
class GrowthRules:
    """Public rules for growing a tree."""

    max_depth: int  # number of levels that may be split
    stop_count: int  # a region with a smaller noisy count is not split
    test_from: int  # first level with a stopping test
    split: Split  # how splits are chosen
    quality: int  # quality function of splits
    epsilon: Fraction  # total epsilon of a path, including its leaf
    epsilon_test: Fraction  # epsilon of a stopping test
    epsilon_split: tuple[Fraction, Fraction]  # epsilon of a choice on a level without, with a test
    max_rows: int  # rows of one unit
    max_regions: int  # maximum number of leaves

    @property
    def sensitivity(self) -> int:
        """Sensitivity of score differences to one unit (errata qardaji-2012-3 and -8)."""
        return MOVES[self.quality] * self.max_rows

    @property
    def max_special_regions(self) -> int:
        """Maximum number of regions before the data is queried."""
        return min(MAX_SPECIAL_REGIONS, self.max_regions)

    def is_tested(self, level: int) -> bool:
        """Return whether regions of a level are tested before they are split."""
        return level >= self.test_from

    def split_budget(self, level: int) -> Fraction:
        """Return the epsilon of choosing a split on a level."""
        return self.epsilon_split[self.is_tested(level)]


@dataclass
class PartitionTree:
    """A tree of regions: nodes in the order of their levels, root first.

    ``left[i]`` is the first child of node i and ``left[i] + 1`` the second; -1 marks a leaf.
    ``noisy[i]`` is the noisy count of its stopping test if ``tested[i]``. ``epsilon[i]`` is what
    the path has left at node i: at a leaf, the epsilon of its counts.
    """

    levels: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    axis: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    tested: list[bool] = field(default_factory=list)
    noisy: list[int] = field(default_factory=list)
    epsilon: list[Fraction] = field(default_factory=list)

    def add(self, level: int, epsilon: Fraction) -> int:
        """Add a node as a leaf and return its number."""
        self.levels.append(level)
        self.left.append(-1)
        self.axis.append(-1)
        self.cut.append(0)
        self.tested.append(False)
        self.noisy.append(0)
        self.epsilon.append(epsilon)
        return len(self.levels) - 1

    @property
    def leaves(self) -> Integers:
        """Numbers of the leaves, ascending."""
        return np.flatnonzero(np.asarray(self.left) < 0)


@dataclass
class _Open:
    """Regions of one level that may still be split: node, region number, extent."""

    nodes: Integers
    regions: Integers
    first: Integers  # (regions, axes)
    last: Integers

    def keep(self, mask: Bools) -> _Open:
        return _Open(self.nodes[mask], self.regions[mask], self.first[mask], self.last[mask])

    def beside(self, others: _Open) -> _Open:
        return _Open(
            *(
                np.concatenate((getattr(self, part.name), getattr(others, part.name)))
                for part in fields(self)
            )
        )


def special_cuts(axes: Sequence[PartitionAxis], most: int) -> list[tuple[int, int]]:
    """List axis and position of the free splits that separate special values.

    A column with two special values triples the number of regions, which is limited by `most`.
    Columns that would exceed it are split like any other.
    """
    cuts, n_regions = [], 1
    for at, axis in enumerate(axes):
        if n_regions * (axis.n_special + 1) <= most:
            n_regions *= axis.n_special + 1
            cuts += [(at, cut) for cut in range(axis.size - axis.n_special, axis.size)]
    return cuts


def most_leaves(axes: Sequence[PartitionAxis], rules: GrowthRules) -> int:
    """Return the maximum number of leaves. Public.

    Each region made by a free split grows like a root, to at most one leaf per cell.
    """
    cut = {at for at, _ in special_cuts(axes, rules.max_special_regions)}
    roots = [1]  # number of cells of each root
    for at, axis in enumerate(axes):
        n_apart = axis.n_special if at in cut else 0
        roots = [n * part for n in roots for part in (axis.size - n_apart, *[1] * n_apart)]
    return min(rules.max_regions, sum(min(n, 1 << rules.max_depth) for n in roots))


def grow(
    rows: SealedRegions, axes: Sequence[PartitionAxis], rules: GrowthRules, noise: Noise
) -> tuple[PartitionTree, list[int]]:
    """Grow a tree.

    Return the tree and the regions of its leaves, in the order of `PartitionTree.leaves`. Splits
    and stopping tests are paid for; the counts of the leaves are not.
    """
    growth = _Growth(rows, axes, rules, noise, PartitionTree())
    leaves = growth.run()
    return growth.tree, leaves


@dataclass(frozen=True)
class _Growth:
    """State of a growing tree."""

    rows: SealedRegions
    axes: Sequence[PartitionAxis]
    rules: GrowthRules
    noise: Noise
    tree: PartitionTree

    def run(self) -> list[int]:
        """Grow level by level; return the regions of the leaves."""
        rules = self.rules
        open_ = self._split_special(self._root())
        region_of: dict[int, int] = {}
        n_leaves = len(open_.nodes)
        for level in range(rules.max_depth):
            n_splits = self._count_splits(open_)
            goes_on = n_splits.any(axis=1)
            # Growth ends at a public number of leaves, in a public order, without querying the
            # data.
            goes_on &= np.cumsum(goes_on) <= rules.max_regions - n_leaves
            if rules.is_tested(level):
                goes_on[goes_on] = self._test(open_.keep(goes_on))
            region_of.update(_regions(open_.keep(~goes_on)))
            open_, n_splits = open_.keep(goes_on), n_splits[goes_on]
            n_leaves += len(open_.nodes)
            if not len(open_.nodes):
                break
            for i, node in enumerate(open_.nodes.tolist()):
                self._choose_split(node, open_, i, n_splits[i], rules.split_budget(level))
            open_ = self._split(open_)
        region_of.update(_regions(open_))
        return [region_of[leaf] for leaf in self.tree.leaves.tolist()]

    def _root(self) -> _Open:
        whole = np.array([axis.whole for axis in self.axes], np.int64)
        return _Open(
            nodes=np.array([self.tree.add(0, self.rules.epsilon)]),
            regions=np.zeros(1, np.int64),
            first=whole[None, :, 0],
            last=whole[None, :, 1],
        )

    def _split_special(self, open_: _Open) -> _Open:
        """Split off each special value; this follows from the schema, so it costs nothing."""
        for at, cut in special_cuts(self.axes, self.rules.max_special_regions):
            holds = (open_.first[:, at] < cut) & (open_.last[:, at] >= cut)
            divided = open_.keep(holds)
            for node in divided.nodes.tolist():
                self.tree.axis[node], self.tree.cut[node] = at, cut
            open_ = open_.keep(~holds).beside(self._split(divided))
        return open_

    def _count_splits(self, open_: _Open) -> Integers:
        """Return the number of ways to split each region along each axis."""
        return np.stack(
            [
                axis.n_splits(open_.first[:, at], open_.last[:, at])
                for at, axis in enumerate(self.axes)
            ],
            axis=1,
        )

    def _test(self, open_: _Open) -> Bools:
        """Count regions with noise; return which are large enough to split."""
        tree, epsilon = self.tree, self.rules.epsilon_test
        totals = self.rows.totals(open_.regions.tolist())
        noisy = self.noise.open(totals, Laplace(self.rules.max_rows / epsilon), "stopping tests")
        for node, count in zip(open_.nodes.tolist(), noisy.tolist(), strict=True):
            tree.tested[node], tree.noisy[node] = True, count
            tree.epsilon[node] -= epsilon
        return np.asarray(noisy >= self.rules.stop_count)

    def _choose_split(
        self, node: int, open_: _Open, i: int, n_splits: Integers, epsilon: Fraction
    ) -> None:
        """Choose axis and cut of the i-th open region."""
        tree, axes = self.tree, self.axes
        parts = list(zip(open_.first[i].tolist(), open_.last[i].tolist(), strict=True))
        ways = {at: n for at, n in enumerate(n_splits.tolist()) if n}
        if self.rules.split == "midpoint":
            widest = max(ways, key=lambda at: axes[at].share(*parts[at]))  # the first on ties
            tree.axis[node], tree.cut[node] = widest, axes[widest].middle(*parts[widest])
            return
        if self.rules.split == "random-attribute":
            drawn = list(ways)[self.noise.integer_below(len(ways))]
            ways = {drawn: ways[drawn]}
        if sum(ways.values()) == 1:  # no choice, so no cost
            (only,) = ways
            tree.axis[node], tree.cut[node] = only, axes[only].middle(*parts[only])
            return
        tree.epsilon[node] -= epsilon
        splits = self.rows.ways(
            int(open_.regions[i]), {at: parts[at] for at in ways}, sum(ways.values()),
            quality=self.rules.quality,
        )  # fmt: skip
        # A column with a million values would dominate the others, so the base measure of its
        # splits is reduced: together they count as `MOST_SPLITS`.
        weights = tuple(_UNIT // max(n, MOST_SPLITS) for n in ways.values())
        choice = SplitChoice(epsilon / self.rules.sensitivity, weights, by_levels=False)
        which, cut = self.noise.open(splits, choice, "splits")
        tree.axis[node], tree.cut[node] = list(ways)[which], cut

    def _split(self, open_: _Open) -> _Open:
        """Apply the splits of a level; return the regions of the next."""
        tree, nodes = self.tree, open_.nodes.tolist()
        axes = np.array([tree.axis[node] for node in nodes], np.int64)
        cuts = np.array([tree.cut[node] for node in nodes], np.int64)
        halves = self.rows.divide(open_.regions.tolist(), axes, cuts)
        first, last = np.repeat(open_.first, 2, axis=0), np.repeat(open_.last, 2, axis=0)
        children = []
        level = tree.levels[-1] + 1  # after all existing levels, whatever the parent's
        for i, node in enumerate(nodes):
            at = tree.axis[node]
            part = int(open_.first[i, at]), int(open_.last[i, at])
            for side, half in enumerate(self.axes[at].halves(*part, tree.cut[node])):
                first[2 * i + side, at], last[2 * i + side, at] = half
                children.append(tree.add(level, tree.epsilon[node]))
            tree.left[node] = children[-2]
        return _Open(np.array(children, np.int64), np.array(halves, np.int64), first, last)


def _regions(done: _Open) -> dict[int, int]:
    return dict(zip(done.nodes.tolist(), done.regions.tolist(), strict=True))
