"""Grow the tree of regions, level by level, paying for every look at the data.

The budget is kept per path: what a region has left is what its ancestors and it did not spend. Why
that is enough is proved in ``partition.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.methods.partition.axes import Axis
from hushtable.privacy.noise import Noise, add_noise

Integers = NDArray[np.int64]
Runs = tuple[Integers, Integers, Integers]
"""Splits of one axis with equal scores side by side: the score, how many there are, the first."""

Split = Literal["median", "random-attribute", "midpoint"]

MOST_SPLITS = 10
"""All splits have the same base measure, but those of one axis together never more than so many."""

_UNIT = 1 << 40  # of so many splits together; an axis has at most 2**31


@dataclass(frozen=True)
class GrowthRules:
    """Say how a tree is grown; all of it is public.

    Parameters
    ----------
    max_depth : int
        Number of levels that may be split.
    stop_count : int
        A region whose noisy count is below is not split.
    test_from : int
        First level with a stopping test.
    split : {"median", "random-attribute", "midpoint"}
        How splits are chosen.
    by_class : bool
        Whether splits are valued by quality (3) instead of (2).
    epsilon : Fraction
        What a path may spend in all, its leaf included.
    epsilon_test, epsilon_split : Fraction
        What a stopping test costs, and the choice of a split on a level without and with a test.
    max_rows : int
        Rows of one unit.
    max_regions : int
        Number of leaves at which growth ends.
    """

    max_depth: int
    stop_count: int
    test_from: int
    split: Split
    by_class: bool
    epsilon: Fraction
    epsilon_test: Fraction
    epsilon_split: tuple[Fraction, Fraction]
    max_rows: int
    max_regions: int

    @property
    def sensitivity(self) -> int:
        """How far one unit raises a score: by 0 to this (errata 001-3 and 001-8)."""
        return (3 if self.by_class else 1) * self.max_rows

    def is_tested(self, level: int) -> bool:
        """Say whether regions of a level are tested before they are split."""
        return level >= self.test_from

    def split_budget(self, level: int) -> Fraction:
        """Say what the choice of a split costs on a level."""
        return self.epsilon_split[self.is_tested(level)]


@dataclass
class Tree:
    """Hold a grown tree: nodes in the order of their levels, the root first.

    ``left[i]`` is the first child of node i and ``left[i] + 1`` the second; -1 marks a leaf.
    ``noisy[i]`` is the noisy count of its stopping test where ``tested[i]``. ``epsilon[i]`` is what
    the path has left at node i: at a leaf, what its counts are noised with.
    """

    levels: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    axis: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    tested: list[bool] = field(default_factory=list)
    noisy: list[int] = field(default_factory=list)
    epsilon: list[Fraction] = field(default_factory=list)

    def add(self, level: int, epsilon: Fraction) -> int:
        """Add a node, a leaf for now."""
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
        """The numbers of the leaves, rising."""
        return np.flatnonzero(np.asarray(self.left) < 0)


class OrderedCells:
    """Hold the frequency table, ordered along every axis inside every open region.

    Parameters
    ----------
    axes : sequence of Axis
        The attributes that are cut.
    codes : array (cells, axes)
        Codes of the occupied cells.
    classes : array
        Class of each cell.
    n_classes : int
        Number of classes.
    counts : array
        Rows in each cell.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        codes: Integers,
        classes: Integers,
        n_classes: int,
        counts: Integers,
    ) -> None:
        self.axes, self.n_classes = axes, n_classes
        self.positions = np.empty((len(axes), len(counts)), np.int32)
        self.orders = np.empty_like(self.positions)
        for at, axis in enumerate(axes):
            self.positions[at] = axis.positions(codes[:, at])
            self.orders[at] = np.argsort(self.positions[at], kind="stable")
        self.classes, self.counts = classes.astype(np.int32), counts
        self._subsets = np.array([axis.subsets for axis in axes], np.bool_)

    def class_counts(self, begins: Integers, ends: Integers) -> Integers:
        """Count the rows of regions by class."""
        tally: Integers = kernels.regions.class_counts(
            self.orders[0], self.counts, self.classes, begins, ends, self.n_classes
        )
        return tally

    def runs(
        self, at: int, part: tuple[int, int], where: slice, *, whole: Integers, by_class: bool
    ) -> Runs:
        """Score the splits of a region along one axis."""
        order = self.orders[at, where]
        known = order, self.positions[at], self.counts, self.classes, whole
        if self.axes[at].subsets:
            out = np.empty((3, 1 << part[0].bit_count()), np.int64)
            n_runs = kernels.regions.score_subsets(*known, part[0], by_class, *out)
        else:
            out = np.empty((3, len(order) + 1), np.int64)
            n_runs = kernels.regions.score_interval(*known, *part, by_class, *out)
        return out[0, :n_runs], out[1, :n_runs], out[2, :n_runs]

    def divide(self, begins: Integers, ends: Integers, axes: Integers, cuts: Integers) -> Integers:
        """Carry out splits; say where the left halves end."""
        middles: Integers = kernels.regions.divide(
            self.orders, self.positions, begins, ends, axes, self._subsets, cuts
        )
        return middles


@dataclass
class _Open:
    """The regions of one level that may still be split: node, parts and range of places."""

    nodes: Integers
    first: Integers  # (regions, axes)
    last: Integers
    begins: Integers
    ends: Integers

    def keep(self, mask: NDArray[np.bool_]) -> _Open:
        return _Open(
            self.nodes[mask], self.first[mask], self.last[mask], self.begins[mask], self.ends[mask]
        )

    def beside(self, others: _Open) -> _Open:
        return _Open(
            *(
                np.concatenate((getattr(self, part.name), getattr(others, part.name)))
                for part in fields(self)
            )
        )


def apart_cuts(axes: Sequence[Axis], max_regions: int) -> list[tuple[int, int]]:
    """List axis and position of the cuts that split off special values before the tree is grown.

    A column with two of them makes three times as many regions, so columns that come when there is
    no room are cut like any other.
    """
    cuts, n_regions = [], 1
    for at, axis in enumerate(axes):
        if n_regions * (axis.n_apart + 1) <= max_regions:
            n_regions *= axis.n_apart + 1
            cuts += [(at, cut) for cut in range(axis.size - axis.n_apart, axis.size)]
    return cuts


def grow(rows: OrderedCells, rules: GrowthRules, noise: Noise) -> tuple[Tree, Integers]:
    """Grow a tree and count its leaves by class.

    Returns
    -------
    Tree, array (leaves, classes)
        The tree, whose splits and noisy counts have been paid for, and the exact counts of its
        leaves in the order of `Tree.leaves`, which have not.
    """
    growth = _Growth(rows, rules, noise, Tree())
    exact = growth.run()
    return growth.tree, exact


@dataclass(frozen=True)
class _Growth:
    """A tree that is being grown."""

    rows: OrderedCells
    rules: GrowthRules
    noise: Noise
    tree: Tree

    def run(self) -> Integers:
        """Grow level by level; give the exact counts of the leaves."""
        rows, rules = self.rows, self.rules
        regions = self._root()
        counted: dict[int, Integers] = {}

        def close(done: _Open) -> None:
            counts = rows.class_counts(done.begins, done.ends)
            counted.update(zip(done.nodes.tolist(), counts, strict=True))

        regions = self._apart(regions)
        n_leaves = len(regions.nodes)
        for level in range(rules.max_depth):
            n_splits = self._count_splits(regions)
            goes_on = n_splits.any(axis=1)
            # Growth ends at a public number of leaves, in a public order: no look at the data.
            goes_on &= np.cumsum(goes_on) <= rules.max_regions - n_leaves
            if rules.is_tested(level):
                goes_on[goes_on] = self._test(regions.keep(goes_on))
            close(regions.keep(~goes_on))
            regions, n_splits = regions.keep(goes_on), n_splits[goes_on]
            n_leaves += len(regions.nodes)
            if not len(regions.nodes):
                break
            for i, node in enumerate(regions.nodes.tolist()):
                epsilon = rules.split_budget(level)
                self._choose_split(node, regions, i, n_splits[i], epsilon)
            regions = self._split(regions)
        close(regions)
        return np.array([counted[leaf] for leaf in self.tree.leaves.tolist()], np.int64)

    def _root(self) -> _Open:
        whole = np.array([axis.whole for axis in self.rows.axes], np.int64)
        return _Open(
            nodes=np.array([self.tree.add(0, self.rules.epsilon)]),
            first=whole[None, :, 0],
            last=whole[None, :, 1],
            begins=np.zeros(1, np.int64),
            ends=np.array([len(self.rows.counts)], np.int64),
        )

    def _apart(self, regions: _Open) -> _Open:
        """Split off what is apart, each by itself: by the schema, so nothing is paid."""
        for at, cut in apart_cuts(self.rows.axes, self.rules.max_regions):
            holds = (regions.first[:, at] < cut) & (regions.last[:, at] >= cut)
            divided = regions.keep(holds)
            for node in divided.nodes.tolist():
                self.tree.axis[node], self.tree.cut[node] = at, cut
            regions = regions.keep(~holds).beside(self._split(divided))
        return regions

    def _count_splits(self, regions: _Open) -> Integers:
        """Count the ways to split each region along each axis."""
        return np.stack(
            [
                axis.n_splits(regions.first[:, at], regions.last[:, at])
                for at, axis in enumerate(self.rows.axes)
            ],
            axis=1,
        )

    def _test(self, regions: _Open) -> NDArray[np.bool_]:
        """Count regions with noise; say which are large enough to be split."""
        tree, epsilon = self.tree, self.rules.epsilon_test
        counts = self.rows.class_counts(regions.begins, regions.ends).sum(axis=1)
        drawn = self.noise.discrete_laplace(self.rules.max_rows / epsilon, size=len(counts))
        noisy = add_noise(counts, drawn)
        for node, count in zip(regions.nodes.tolist(), noisy.tolist(), strict=True):
            tree.tested[node], tree.noisy[node] = True, count
            tree.epsilon[node] -= epsilon
        return np.asarray(noisy >= self.rules.stop_count)

    def _choose_split(
        self, node: int, regions: _Open, i: int, n_splits: Integers, epsilon: Fraction
    ) -> None:
        """Choose axis and cut of a region, the i-th of those that are open."""
        tree, axes = self.tree, self.rows.axes
        parts = list(zip(regions.first[i].tolist(), regions.last[i].tolist(), strict=True))
        ways = {at: n for at, n in enumerate(n_splits.tolist()) if n}
        if self.rules.split == "midpoint":
            widest = max(ways, key=lambda at: axes[at].share(*parts[at]))  # the first of equals
            tree.axis[node], tree.cut[node] = widest, axes[widest].middle(*parts[widest])
            return
        if self.rules.split == "random-attribute":
            drawn = list(ways)[self.noise.integer_below(len(ways))]
            ways = {drawn: ways[drawn]}
        if sum(ways.values()) == 1:  # no choice, so nothing to pay for
            (only,) = ways
            tree.axis[node], tree.cut[node] = only, axes[only].middle(*parts[only])
            return
        where = slice(int(regions.begins[i]), int(regions.ends[i]))
        tree.epsilon[node] -= epsilon
        whole = self.rows.class_counts(regions.begins[i : i + 1], regions.ends[i : i + 1])[0]
        by_class = self.rules.by_class
        runs = [self.rows.runs(at, parts[at], where, whole=whole, by_class=by_class) for at in ways]
        tree.axis[node], tree.cut[node] = self._choose(ways, runs, epsilon)

    def _choose(
        self, ways: Mapping[int, int], runs: Sequence[Runs], epsilon: Fraction
    ) -> tuple[int, int]:
        """Choose among all splits of some axes by the exponential mechanism.

        A column with a million values would crowd out the others, so the base measure of its splits
        is divided: it counts like `MOST_SPLITS` of them.
        """
        base = [
            n * (_UNIT // max(all_ways, MOST_SPLITS))
            for (_, n, _), all_ways in zip(runs, ways.values(), strict=True)
        ]
        chosen = self.noise.choose(
            np.concatenate([scores for scores, _, _ in runs]),
            epsilon=epsilon,
            sensitivity=Fraction(self.rules.sensitivity),
            monotone=True,
            base=np.concatenate(base).tolist(),
        )
        ends = np.cumsum([len(scores) for scores, _, _ in runs])
        which = int(np.searchsorted(ends, chosen, side="right"))
        scores, n, starts = runs[which]
        run = chosen - int(ends[which]) + len(scores)
        return list(ways)[which], int(starts[run]) + self.noise.integer_below(int(n[run]))

    def _split(self, regions: _Open) -> _Open:
        """Carry out the splits of a level; give the regions of the next."""
        tree, nodes = self.tree, regions.nodes.tolist()
        axes = np.array([tree.axis[node] for node in nodes], np.int64)
        cuts = np.array([tree.cut[node] for node in nodes], np.int64)
        middles = self.rows.divide(regions.begins, regions.ends, axes, cuts)
        first, last = np.repeat(regions.first, 2, axis=0), np.repeat(regions.last, 2, axis=0)
        children = []
        level = tree.levels[-1] + 1  # behind all there are, whatever the parent's
        for i, node in enumerate(nodes):
            at = tree.axis[node]
            part = int(regions.first[i, at]), int(regions.last[i, at])
            for side, half in enumerate(self.rows.axes[at].halves(*part, tree.cut[node])):
                first[2 * i + side, at], last[2 * i + side, at] = half
                children.append(tree.add(level, tree.epsilon[node]))
            tree.left[node] = children[-2]
        return _Open(
            nodes=np.array(children, np.int64),
            first=first,
            last=last,
            begins=np.stack((regions.begins, middles), axis=1).ravel(),
            ends=np.stack((middles, regions.ends), axis=1).ravel(),
        )
