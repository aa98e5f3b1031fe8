"""Counted values of columns: public bins first, then buckets chosen from noisy counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods.quilt.budget import STEPS
from hushtable.methods.quilt.particles import Group
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.recoding import Intervals, Recoding, Rule, ValueGroups, bins_of, recode
from hushtable.schema.taxonomy import TaxonomyNode

if TYPE_CHECKING:
    from hushtable.methods.quilt.particles import PostprocessingRng


WIDE = 512
"""A numeric column with more counted values is binned by noisy counts."""

CUT_SHARE = 0.3
"""Maximum cost of binning, as a share of the column's budget."""


MAX_VALUES = 10_000
"""Maximum number of values of a categorical column.

One with more is counted at a level of its taxonomy.
"""

N_BINS = 1 << 20
"""Maximum number of equal-width bins in which a numeric column with more values is read."""

MAX_BUCKETS = 192
"""Maximum number of buckets of an unordered column, so that every pair can be counted."""

MAX_INTERVALS = 32
"""Maximum number of buckets of an ordered column, not counting special values and missing.

It is smaller because neighbors are similar, and each cell adds noise.
"""

HEAVY = 3.0
"""Minimum count of a bucket of an ordered column, in standard deviations of its noise.

In columns of many values, the minimum is larger.
"""

HEAVY_UNORDERED = 0.7
"""Share of `HEAVY` that suffices for unordered values: merging one loses its meaning."""


TILT_LIMIT = 3.0
"""Maximum shift of a row inside its bucket, in standard deviations of the bucket's positions."""


@dataclass(frozen=True)
class CountedDomain:
    """Counting rule of one column; public."""

    name: str
    column: Column
    rule: Rule | None = None  # taxonomy level, or lowest values of bins, if values are grouped
    # From codes of the schema to counted values, if they differ. A wide column may be read in bins
    # that have no rule yet.
    recoding: Recoding | None = None
    # Class of each counted value that public rules distinguish; two classes are never merged.
    kinds: Integers | None = field(default=None, compare=False)

    @cached_property
    def size(self) -> int:
        """Number of counted values, including special values and missing."""
        return self.column.size if self.recoding is None else self.recoding.size

    @cached_property
    def n_values(self) -> int:
        """Number of counted values without special values and missing."""
        return self.size - self.column.n_special

    @property
    def zero(self) -> set[int]:
        """The counted value that contains the number 0, if there is one."""
        if isinstance(self.column, Categorical):
            return set()
        code = -self.column.exact_low / self.column.exact_step
        if code.denominator != 1 or not 0 <= code < self.column.n_values:
            return set()
        if self.recoding is None:
            return {int(code)}
        return set(self.recoding.apply(np.array([int(code)])).tolist())

    @cached_property
    def first_codes(self) -> Integers:
        """The first code of the schema in each counted value."""
        if self.recoding is None:
            return np.arange(self.size)
        bins = self.recoding.apply(np.arange(self.column.size))
        return np.unique(bins, return_index=True)[1]

    @cached_property
    def places(self) -> Floats:
        """Position of each counted value of an ordered column: the mean of its codes."""
        return self.first_codes + (self.widths - 1) / 2

    @cached_property
    def is_ordered(self) -> bool:
        """True if the values have an order, so that neighbors are similar."""
        return self.column.is_line

    @cached_property
    def widths(self) -> Integers:
        """Number of codes of the schema in each counted value."""
        return np.ones(self.size, np.int64) if self.recoding is None else self.recoding.widths

    @cached_property
    def is_wide(self) -> bool:
        """True if the column is binned by noisy counts."""
        return not isinstance(self.column, Categorical) and self.n_values > WIDE

    @cached_property
    def planned_size(self) -> int:
        """Number of values for which the column gets budget."""
        return min(self.size, WIDE) if self.is_wide else self.size

    def buckets(self, noisy: Integers | Floats, std: float, *, is_target: bool = False) -> Integers:
        """Choose a bucket for each counted value, from noisy counts alone.

        Special values and missing each get their own bucket, at the end. A target is not merged if
        it has few values.
        """
        n_values, most = self.n_values, MAX_BUCKETS - 1
        counts = np.asarray(noisy[:n_values], np.float64)
        heavy = max(HEAVY, math.sqrt(2 * math.log(max(n_values, 2)))) * std
        if is_target and n_values <= most:
            found = np.arange(n_values)
        elif self.is_ordered:
            found = merge_neighbors(counts, heavy, MAX_INTERVALS)
        else:
            found = merge_rare(counts, HEAVY_UNORDERED * heavy, most, self._tree())
        if self.kinds is not None:
            runs = np.cumsum(np.diff(self.kinds, prepend=0) != 0) if self.is_ordered else self.kinds
            both = found * (int(runs.max()) + 1) + runs
            _, first, found = np.unique(both, return_index=True, return_inverse=True)
            found = np.argsort(np.argsort(first))[found]  # in the order of their first values
        return np.append(found, found.max() + 1 + np.arange(self.size - n_values))

    def _tree(self) -> TaxonomyNode | None:
        """Return the taxonomy with indices of values as labels; None if it does not apply."""
        column = self.column
        if not isinstance(column, Categorical) or column.taxonomy is None or self.rule is not None:
            return None
        place_of = {value: str(place) for place, value in enumerate(column.values)}

        def numbered(node: TaxonomyNode) -> TaxonomyNode:
            if not node.children:
                return TaxonomyNode(place_of[node.label])
            return TaxonomyNode(node.label, tuple(numbered(child) for child in node.children))

        return numbered(column.taxonomy.root)

    def branches(self, buckets: Integers) -> list[Integers]:
        """Return the branch of each bucket at each level of the taxonomy, from fine to coarse.

        A bucket with values of several branches forms its own branch.
        """
        column = self.column
        if not isinstance(column, Categorical) or column.taxonomy is None or self.rule is not None:
            return []
        found = []
        for level in range(1, column.taxonomy.depth):
            label_of = column.taxonomy.level(level)
            labels = np.array([label_of[value] for value in column.values])
            place = np.unique(labels, return_inverse=True)[1].ravel()
            merged = buckets[: self.n_values]
            n = int(merged.max()) + 1
            first = np.array([place[merged == bucket].min() for bucket in range(n)])
            last = np.array([place[merged == bucket].max() for bucket in range(n)])
            found.append(np.where(first == last, first, len(labels) + np.arange(n)))
        return found

    def bucket_recoding(self, buckets: Integers) -> Recoding | None:
        """Return the recoding from codes of the schema to buckets; None if they are equal."""
        merged = buckets[: self.n_values]
        labels = tuple(str(bucket) for bucket in range(int(merged.max()) + 1))
        has_missing = self.column.missing_code is not None
        if self.recoding is None and np.array_equal(merged, np.arange(self.n_values)):
            return None
        if isinstance(self.column, Categorical):
            values = np.arange(self.column.n_values)
            groups = merged[values if self.recoding is None else self.recoding.apply(values)]
            return ValueGroups(labels, self.column.n_values, has_missing, tuple(groups.tolist()))
        first = np.flatnonzero(np.diff(merged, prepend=-1))
        if isinstance(self.recoding, Intervals):
            first = np.asarray(self.recoding.starts)[first]
        special = self.column.special_names
        return Intervals(
            labels, self.column.n_values, has_missing, tuple(first.tolist()), special=special
        )

    def codes(
        self,
        of_rows: Integers,
        buckets: Integers,
        shares: Floats,
        rng: PostprocessingRng,
        tilts: Floats | None = None,
    ) -> Integers:
        """Draw a code of the schema for the bucket of each row.

        The counted value is drawn by `shares`, then a code uniformly from its bin. With `tilts`,
        the rows of a bucket exchange their values so that these follow the tilts.
        """
        if int(buckets.max()) + 1 == self.size:
            values = np.argsort(buckets)[of_rows]
            return values if self.recoding is None else self._inside(values, rng)
        values = np.empty(len(of_rows), np.int64)
        order = np.argsort(of_rows.astype(np.int16), kind="stable")  # short numbers sort faster
        bounds = np.append(0, np.cumsum(np.bincount(of_rows, minlength=int(buckets.max()) + 1)))
        for bucket in range(int(buckets.max()) + 1):
            mine = order[bounds[bucket] : bounds[bucket + 1]]
            among = np.flatnonzero(buckets == bucket)
            if len(among) == 1:
                values[mine] = among[0]
            elif len(mine):
                values[mine] = among[rng.systematic_sample(shares[among] + 1e-9, len(mine))]
        if tilts is not None:
            values = tilted(of_rows, values, self.places, tilts, rng)
        if self.recoding is None:
            return values
        return self._inside(values, rng)

    def _inside(self, values: Integers, rng: PostprocessingRng) -> Integers:
        """Draw a code uniformly from the bin of each value."""
        assert self.recoding is not None  # noqa: S101 - the caller checks it
        bin_of = self.recoding.apply(np.arange(self.column.size))
        by_bin = np.argsort(bin_of, kind="stable")
        starts = np.searchsorted(bin_of[by_bin], np.arange(self.size))
        widths = self.widths
        coin = rng.systematic_sample(np.ones(1 << 20), len(values)) / (1 << 20)
        return by_bin[starts[values] + (coin * widths[values]).astype(np.int64)]


def tilted(
    of_rows: Integers, values: Integers, places: Floats, tilts: Floats, rng: PostprocessingRng
) -> Integers:
    """Permute the values of the rows within each bucket so that they follow a tilt.

    If the log-density of a row has slope `tilt`, its value is larger by tilt times variance on
    average. Rows are ranked by their values after this shift and take the bucket's values in that
    order, so each value occurs as often as before.

    Examples
    --------
    >>> from hushtable.methods.quilt.particles import PostprocessingRng
    >>> rows, tilts = np.zeros(4, np.int64), np.array([9.0, 0.0, 0.0, -9.0])
    >>> tilted(rows, np.array([1, 2, 2, 5]), np.arange(6.0), tilts, PostprocessingRng(1)).tolist()
    [5, 2, 2, 1]
    """
    n, at = np.maximum(np.bincount(of_rows), 1), places[values]
    mean = np.bincount(of_rows, at) / n
    variance = np.maximum(np.bincount(of_rows, at**2) / n - mean**2, 0.0)
    limit = TILT_LIMIT * np.sqrt(variance)[of_rows]
    moved = at + rng.systematic_sample(np.ones(1 << 16), len(values)) / (1 << 16)
    moved += np.clip(tilts * variance[of_rows], -limit, limit)
    moved -= moved.min(initial=0.0)
    by_tilt = np.argsort(of_rows + moved / (moved.max(initial=0.0) + 1.0))
    found = np.empty_like(values)
    n_times = np.bincount(of_rows * len(places) + values)
    found[by_tilt] = np.repeat(np.arange(len(n_times)) % len(places), n_times)
    return found


def values_of(schema: Schema) -> list[CountedDomain]:
    """Return how each column is counted; raise `TooLarge` for columns that cannot be."""
    found, problems = [], []
    for name, column in schema.attributes.items():
        values, bins = CountedDomain(name, column), bins_of(column)
        if bins is not None:
            lowest = [column.value(start) for start in bins.starts]
            rule = [value for value in lowest if value is not None]
            found.append(replace(values, rule=rule, recoding=bins))
            continue
        if not isinstance(column, Categorical):
            wide = column.n_values > N_BINS
            found.append(replace(values, recoding=_bins(values)) if wide else values)
            continue
        if column.size <= MAX_VALUES:
            found.append(values)
            continue
        level = _level(column)
        if level is None:
            problems.append(
                f"column {name!r} has {column.size:,} values; at most {MAX_VALUES:,} can be "
                "counted. Give it a taxonomy that has a level with fewer groups."
            )
            continue
        try:
            found.append(CountedDomain(name, column, level, recode(name, column, level)))
        except ParameterError as error:
            problems += error.problems
    TooLarge.raise_if_any(problems)
    return found


def _bins(values: CountedDomain) -> Intervals:
    """Return public equal-width bins for a numeric column with too many values.

    The minimum, the maximum and 0, which often have many rows, get their own bins.
    """
    n = values.column.n_values
    alone = np.array([0, n - 1, *values.zero])
    starts = np.unique(np.concatenate([np.arange(0, n, -(-n // N_BINS)), alone, alone + 1]))
    starts = starts[starts < n]
    has_missing = values.column.missing_code is not None
    # The labels are never shown: the column is binned further before it is published.
    labels, special = range(len(starts)), values.column.special_names
    return Intervals(labels, n, has_missing, starts, special=special)  # type: ignore[arg-type]


def _level(column: Categorical) -> int | None:
    """Return the finest level of a taxonomy with fewer than `MAX_VALUES` groups, or None."""
    if column.taxonomy is None:
        return None
    sizes = [len({*column.taxonomy.level(at).values()}) for at in range(column.taxonomy.depth)]
    return next((level for level, size in enumerate(sizes) if size < MAX_VALUES), None)


def merge_neighbors(counts: Floats, heavy: float, most: int) -> Integers:
    """Merge neighboring values until each bucket is heavy and there are at most `most`.

    A bucket of w values is heavy if its count is at least ``heavy * sqrt(w)``. The lightest bucket
    is merged with the lighter of its neighbors, unless this would make a heavy one light.

    Examples
    --------
    >>> merge_neighbors(np.array([90.0, 1.0, -2.0, 3.0, 80.0, 70.0]), 10.0, 32).tolist()
    [0, 1, 1, 1, 1, 2]
    >>> merge_neighbors(np.array([90.0, 90.0, 80.0, 70.0]), 10.0, 3).tolist()
    [0, 1, 2, 2]
    """
    sums, widths = counts.astype(np.float64), np.ones(len(counts), np.int64)
    while len(sums) > 1:
        weights = sums / np.sqrt(widths)
        lighter, heavier = np.sort([weights[:-1], weights[1:]], axis=0)
        together = (sums[:-1] + sums[1:]) / np.sqrt(widths[:-1] + widths[1:])
        # A heavy bucket must not disappear in a wide, nearly empty range.
        may_join = (lighter < heavy) & ((heavier < heavy) | (together >= heavy))
        if not may_join.any():
            break
        order = np.lexsort((heavier, lighter))
        left = order[may_join[order]][0]
        for values in (sums, widths):
            values[left] += values[left + 1]
        sums, widths = np.delete(sums, left + 1), np.delete(widths, left + 1)
    return np.repeat(_lightest_neighbors(sums, most), widths)


def merge_rare(
    counts: Floats, heavy: float, most: int, tree: TaxonomyNode | None = None
) -> Integers:
    """Merge rare values, with a taxonomy those of the same branch first.

    Rare values below a node become one bucket if they are heavy together; otherwise they are passed
    to the parent. Those left at the root form a bucket, too. If there are more than `most` buckets,
    the smallest are merged. Buckets are in the order of their first values.

    Examples
    --------
    >>> merge_rare(np.array([90.0, 1.0, 80.0, 3.0]), 10.0, 63).tolist()
    [0, 1, 2, 1]
    >>> leaves = tuple(map(TaxonomyNode, "012"))
    >>> tree = TaxonomyNode("*", (TaxonomyNode("a", leaves), TaxonomyNode("3")))
    >>> merge_rare(np.array([90.0, 8.0, 8.0, 3.0]), 10.0, 63, tree).tolist()
    [0, 1, 1, 2]
    """
    leaves = tuple(TaxonomyNode(str(place)) for place in range(len(counts)))
    buckets, rare = _heavy_below(tree or TaxonomyNode("*", leaves), counts, heavy)
    if rare:
        buckets.append(rare)
    if len(buckets) > most:
        buckets.sort(key=lambda bucket: -float(counts[bucket].sum()))
        buckets[most - 1 :] = [[place for bucket in buckets[most - 1 :] for place in bucket]]
    found = np.empty(len(counts), np.int64)
    for number, bucket in enumerate(sorted(buckets, key=min)):
        found[bucket] = number
    return found


def _heavy_below(
    node: TaxonomyNode, counts: Floats, heavy: float
) -> tuple[list[list[int]], list[int]]:
    if not node.children:
        place = int(node.label)
        return ([[place]], []) if counts[place] >= heavy else ([], [place])
    buckets: list[list[int]] = []
    rare: list[int] = []
    for child in node.children:
        below, left = _heavy_below(child, counts, heavy)
        buckets += below
        rare += left
    if len(rare) > 1 and float(counts[rare].sum()) >= heavy * math.sqrt(len(rare)):
        buckets.append(rare)
        rare = []
    return buckets, rare


# Nested resolutions of columns, and the marginal queries that quilt may measure.
#
# A column that was measured has buckets. A table of several columns need not distinguish all of
# them: `resolution_levels` returns a few nested resolutions of a column, from all buckets to a few
# cells, and a `MarginalQuery` is a group of columns, each at one of its resolutions.
#
# The resolution that suits a one-way table may be too fine for a pair: 32 by 32 cells of 40 rows
# each are lost in noise that hardly affects 8 by 8 cells of 625 rows, and the association of two
# ordered columns shows in few cells. All of it follows from noisy counts and the schema, so it is
# public.

WORTHWHILE = 1.25
"""Minimum ratio of cells between successive resolutions of a column.

It applies to ordered columns and to those with a taxonomy.
"""

WORTHWHILE_UNORDERED = 2.0
"""The same for other columns, in which merged values are not similar."""

HALVES = 2
"""Number of cells of an ordered column at its last resolution, which only interactions use.

They show weak interactions of numbers, whose finer tables are mostly noise.
"""

ResolutionLevels = tuple[Integers, ...]
"""The cell of each bucket at each resolution of a column; the first has all buckets."""


@dataclass(frozen=True)
class MarginalQuery:
    """A table that may be measured: columns, each at one of its resolutions.

    Two queries are equal if their columns and levels are.
    """

    group: Group
    levels: tuple[int, ...]  # index of each column's resolution; 0 has all buckets
    maps: tuple[Integers, ...] = field(compare=False, repr=False)  # the cell of each bucket
    # The same at the resolution at which the group was counted, if that is not by buckets.
    counted: tuple[Integers, ...] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        group: Group,
        levels: Sequence[int],
        resolutions: Sequence[ResolutionLevels],
        base: Sequence[int] | None = None,
    ) -> MarginalQuery:
        """Return the query at these levels of the columns' resolutions.

        `base` are the levels at which the group was counted, if these are not the buckets.
        """

        def at(wanted: Sequence[int]) -> tuple[Integers, ...]:
            return tuple(
                resolutions[column][level] for column, level in zip(group, wanted, strict=True)
            )

        return cls(group, tuple(levels), at(levels), None if base is None else at(base))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def cells(self) -> Integers | None:
        """The cell for each counted combination, both in C order; None if they are equal."""
        maps = self.maps
        if self.counted is not None:
            firsts = (np.unique(cells, return_index=True)[1] for cells in self.counted)
            maps = tuple(places[first] for places, first in zip(maps, firsts, strict=True))
        if all(len(places) == size for places, size in zip(maps, self.shape, strict=True)):
            return None
        found = np.zeros(1, np.int64)
        for places, size in zip(maps, self.shape, strict=True):
            found = (found[:, None] * size + places).ravel()
        return found

    def added_up(self, table: Floats) -> Floats:
        """Sum a table of counted combinations to the cells, flat."""
        flat = table.ravel()
        if self.cells is None:
            return flat
        return np.bincount(self.cells, flat, self.n_cells).astype(np.float64)


def queries_for(
    group: Group, resolutions: Sequence[ResolutionLevels], base: Sequence[int] | None = None
) -> list[MarginalQuery]:
    """Return a group's queries, finest first; all columns become coarser together.

    `base` are the levels at which the group was counted, if these are not the buckets.
    """
    first, last = base or [0] * len(group), [len(resolutions[column]) - 1 for column in group]
    return [
        MarginalQuery.of(
            group,
            [min(start + step, end) for start, end in zip(first, last, strict=True)],
            resolutions,
            base,
        )
        for step in range(max(end - start for start, end in zip(first, last, strict=True)) + 1)
    ]


def resolution_levels(
    masses: Floats, *, is_ordered: bool, n_special: int, branches: Sequence[Integers] = ()
) -> ResolutionLevels:
    """Return the nested resolutions of one column.

    Parameters
    ----------
    masses : array
        The estimated share of each bucket; special values and missing are the last.
    is_ordered : bool
        Whether the column is ordered. Its lightest neighbors are then merged.
    n_special : int
        Number of special values and missing, which are never merged.
    branches : sequence of int arrays
        For each level of a taxonomy, from fine to coarse, the branch of each bucket. Without any,
        an unordered column keeps its largest buckets and merges the others.
    """
    n = len(masses) - n_special
    steps = [np.arange(n)]
    offered = (
        branches
        if len(branches)
        else [
            _lightest_neighbors(masses[:n], size) if is_ordered else _largest(masses[:n], size)
            for size in (*STEPS, *[HALVES] * is_ordered)
            if size < n
        ]
    )
    worthwhile = WORTHWHILE if is_ordered or len(branches) else WORTHWHILE_UNORDERED
    for cells in offered:
        found = np.unique(cells[:n], return_inverse=True)[1].ravel()
        if 1 < found.max() + 1 <= len(np.unique(steps[-1])) / worthwhile:
            steps.append(found)
    return tuple(np.append(cells, cells.max() + 1 + np.arange(n_special)) for cells in steps)


def _lightest_neighbors(masses: Floats, most: int) -> Integers:
    """Merge the lightest pair of neighbors until at most `most` cells are left.

    Examples
    --------
    >>> _lightest_neighbors(np.array([0.5, 0.1, 0.1, 0.2, 0.1]), 3).tolist()
    [0, 1, 1, 2, 2]
    """
    sums, widths = masses.tolist(), [1] * len(masses)
    while len(sums) > most:
        at = min(range(len(sums) - 1), key=lambda place: sums[place] + sums[place + 1])
        sums[at] += sums.pop(at + 1)
        widths[at] += widths.pop(at + 1)
    return np.repeat(np.arange(len(widths)), widths)


def _largest(masses: Floats, most: int) -> Integers:
    """Keep the largest buckets and merge the others.

    Examples
    --------
    >>> _largest(np.array([0.4, 0.1, 0.1, 0.2, 0.2]), 3).tolist()
    [0, 2, 2, 1, 2]
    """
    cells = np.full(len(masses), most - 1)
    cells[np.argsort(-masses, kind="stable")[: most - 1]] = np.arange(most - 1)
    return cells
