"""Estimator of published regions with noisy counts; also makes rows from them.

Answers have two sources of error: the noise of the counts, whose distribution is known, and regions
that a condition splits. Inside these, counts assume that rows follow a column's one-way counts, or
are spread evenly if there are none. Sums assume that rows are spread evenly.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.region_table import (
    COUNT,
    NOISE_SCALE,
    NOISY_COUNT,
    ColumnParts,
    NoisyTree,
    distinct_parts,
    leaf_parts,
    measurements,
    noise_of_sum,
    read_columns,
)
from hushtable.methods.partition.tree import PartitionAxis
from hushtable.numeric import CONFIDENCE, nearly_normal, normal_quantile
from hushtable.privacy.noise.distributions import laplace_kurtosis, laplace_variance
from hushtable.query.answers.cell_sums import PublishedCells, cut_error
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import (
    ComparableRelease,
    Generator,
    encoded,
    fresh,
    published_rows,
)
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.query.where import Predicate, parse
from hushtable.query.where.code_classes import CodeSets
from hushtable.query.where.formula import Formula, Junction
from hushtable.query.where.predicate import independent_parts
from hushtable.schema import Column, Schema
from hushtable.schema.codes import as_numpy, repeated, to_labels

# Bounds on a condition from one-way counts, and positions of rows inside regions.
#
# A condition on one column has its own count. A condition on several columns has at most as many
# rows as each of its parts, and at least the total minus the rows that fail each part (Frechet
# bounds); this needs no assumption. Inside a region, each column is assumed to be distributed as
# overall.

TAIL = (1.0 - CONFIDENCE) / 2.0
"""Error probability at either end."""


@dataclass(frozen=True)
class CountBounds:
    """95% bounds of a count."""

    low: float
    high: float


@dataclass(frozen=True)
class PartOverlaps:
    """Intersections of parts of a column with the parts that were counted."""

    owner: Integers  # part that each piece belongs to
    first: Integers  # pieces, as parts of the axis
    last: Integers
    weight: Floats  # share of the part's rows in each piece; the weights of a part sum to 1


def covering_of(axis: PartitionAxis, parts: Integers) -> CodeSets:
    """Return parts as sets of codes."""
    if not axis.subsets and axis.codes is None:
        bounds = axis.code_bounds(parts)
        return CodeSets(len(parts), np.arange(len(parts)), bounds[:, 0], bounds[:, 1])
    sets = [axis.codes_of(*part) for part in parts.tolist()]
    codes = np.concatenate(sets)
    return CodeSets(len(parts), np.repeat(np.arange(len(sets)), list(map(len, sets))), codes, codes)


def part_overlaps(counted: ColumnParts, parts: Integers) -> PartOverlaps:
    """Intersect parts of a column with the counted parts; weight pieces by their rows.

    A part without any counted rows is weighted uniformly.
    """
    axis = counted.axis
    if axis.subsets:
        first = parts[:, None, 0] & counted.parts[None, :, 0]
        last = np.zeros_like(first)
        meets = first > 0
    else:
        first = np.maximum(parts[:, None, 0], counted.parts[None, :, 0])
        last = np.minimum(parts[:, None, 1], counted.parts[None, :, 1])
        meets = first <= last
    owner, part = np.nonzero(meets)
    first, last = first[meets], last[meets]
    size = _n_codes(axis, first, last)
    rows = counted.rows[part]
    rows *= size / _n_codes(axis, counted.parts[:, 0], counted.parts[:, 1])[part]
    total = np.bincount(owner, rows, len(parts))[owner]
    evenly = size / np.bincount(owner, size, len(parts))[owner]
    return PartOverlaps(
        owner, first, last, np.where(total > 0.0, rows / np.maximum(total, 1e-9), evenly)
    )


def _n_codes(axis: PartitionAxis, first: Integers, last: Integers) -> Floats:
    if axis.starts is None:
        return axis.n_codes(first, last).astype(np.float64)
    bounds = axis.code_bounds(np.stack((first, last), axis=1))
    return (bounds[:, 1] - bounds[:, 0] + 1).astype(np.float64)


@dataclass(frozen=True)
class ColumnBounds:
    """Bounds from one-way counts."""

    schema: Schema
    columns: Mapping[str, ColumnParts]  # counted parts of each column
    everybody: CountBounds  # bounds of the number of rows

    def of(self, formula: Formula) -> CountBounds:
        """Bound how many rows satisfy a condition.

        The bounds of the columns and of the regions must hold simultaneously at 95%, so the
        critical value grows with the number of columns (Bonferroni).
        """
        return self._of(formula, -normal_quantile(TAIL / (1 + len(formula.columns))))

    def _of(self, formula: Formula, z: float) -> CountBounds:
        if len(formula.columns) == 1 and formula.columns[0] in self.columns:
            return self._of_one(formula, z)
        if not isinstance(formula, Junction):
            return CountBounds(0.0, self.everybody.high)
        parts = independent_parts(formula)
        if len(parts) == 1:
            # Each part is bounded separately. They share columns, but Frechet bounds allow any
            # dependence.
            parts = list(formula.parts)
        found = [self._of(part, z) for part in parts]
        if formula.every:
            lacking = sum(self.everybody.high - one.low for one in found)
            low = max(0.0, self.everybody.low - lacking) if len(found) > 1 else found[0].low
            return CountBounds(low, min(one.high for one in found))
        high = min(sum(one.high for one in found), self.everybody.high)
        return CountBounds(max(one.low for one in found), high)

    def _of_one(self, formula: Formula, z: float) -> CountBounds:
        """Sum the matching parts, or subtract the others from the total if that is less noisy."""
        counted = self.columns[formula.columns[0]]
        shares = self.along(formula, counted.axis, counted.parts)
        inside = _sum(counted, shares, z)
        outside = _sum(counted, 1.0 - shares, z)
        from_rest = CountBounds(
            max(0.0, self.everybody.low - outside.high), self.everybody.high - outside.low
        )
        unsure = self.everybody.high - self.everybody.low
        if outside.high - outside.low + unsure < inside.high - inside.low:
            return from_rest
        return inside

    def along(self, formula: Formula, axis: PartitionAxis, parts: Integers) -> Floats:
        """Return the share of each part that satisfies a condition, weighting codes equally."""
        predicate = Predicate(self.schema, "", formula)
        covering = {axis.name: covering_of(axis, parts)}
        return predicate.shares(covering, {axis.name: np.arange(len(parts))})

    def shares(self, formula: Formula, axis: PartitionAxis, parts: Integers) -> Floats:
        """Return the share of the rows of each part that satisfy a condition on this column."""
        evenly = self.along(formula, axis, parts)
        pieces = part_overlaps(self.columns[axis.name], parts)
        each = self.along(formula, axis, np.stack((pieces.first, pieces.last), axis=1))
        found = np.bincount(pieces.owner, pieces.weight * each, len(parts))
        # 0 and 1 are exact; a split part stays split, however few rows it is estimated to have.
        inside = np.clip(found, 1e-9, 1.0 - 1e-9)
        return np.where((evenly == 0.0) | (evenly == 1.0), evenly, inside)


def _sum(counted: ColumnParts, shares: Floats, z: float) -> CountBounds:
    """Sum whole parts for the lower end, and split parts too for the upper end."""
    whole, some = shares == 1.0, shares > 0.0
    low = float(counted.noisy[whole].sum()) - _half(counted.scale[whole], z)
    high = float(counted.noisy[some].sum()) + _half(counted.scale[some], z)
    return CountBounds(max(0.0, low), max(0.0, high))


def _half(scales: Floats, z: float) -> float:
    """Return the half-width of a sum of noise, for a normal critical value of `z`."""
    std, kurtosis = noise_of_sum(scales)
    return nearly_normal(kurtosis, z) * std + 0.5 if std else 0.0


CUT_NOTE = "The condition splits regions; rows are assumed to be spread evenly inside them."
BOUND_NOTE = (
    "The condition splits regions. The interval follows from the counts of regions and of single "
    "columns; the estimate assumes that each column is distributed inside a region as overall."
)
COLUMN_NOTE = (
    "The answer uses counts of parts of the column; the position of rows in a part is unknown."
)


class BoxesEstimator(Estimator):
    """Base class of estimators of boxes, products of parts of the axes, with counts by class.

    `_open` sets the axes, the target and its number of classes.
    """

    quantiles_by_counts = True
    box: ClassVar[str] = "region"  # for notes
    summarize: str = "sample"  # how values are chosen inside a box
    one_way: Mapping[str, ColumnParts] = MappingProxyType({})  # columns with one-way counts
    axes: tuple[PartitionAxis, ...]
    target: str | None
    n_classes: int

    @property
    @abstractmethod
    def ends(self) -> tuple[Integers, Integers]:
        """Parts of the boxes, as two arrays (boxes, axes)."""

    @cached_property
    def parts(self) -> dict[str, tuple[PartitionAxis, Integers, Integers]]:
        """For each attribute: its axis, the distinct parts, and the part of each box."""
        first, last = self.ends
        return {
            axis.name: (axis, *distinct_parts(first[:, at], last[:, at]))
            for at, axis in enumerate(self.axes)
        }

    def coverings(self, names: Sequence[str]) -> tuple[dict[str, CodeSets], dict[str, Integers]]:
        """Return the parts of some columns as sets of codes, and the set of each box and class."""
        coverings, codes = {}, {}
        for name in dict.fromkeys((*names, self.axes[0].name)):
            if name == self.target:
                codes[name] = np.tile(np.arange(self.n_classes), len(self.ends[0]))
            else:
                axis, parts, which = self.parts[name]
                coverings[name] = covering_of(axis, parts)
                codes[name] = np.repeat(which, self.n_classes)
        return coverings, codes

    def cells(self, functions: Sequence[RowFunction]) -> PublishedCells:
        """Return the boxes as cells, restricted to the columns that some functions use."""
        names = [name for one in functions for name in one.columns]
        return PublishedCells(self.schema, *self.coverings(names))

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`, which are not drawn for this."""
        return int(as_numpy(self.table[COUNT]).sum())

    def frame(self, rng: Generator | None = None) -> pa.Table:
        """Return as many rows as the counts say, with values of their box.

        Sampled values follow the one-way counts of their column, or are uniform in the box. Unless
        `summarize` is "sample", numeric columns have the middle or lowest value of the box. Equal
        generators `rng` give equal rows.
        """
        rng = rng or fresh()
        cells = repeated(self.table[COUNT].to_numpy())
        box = cells // self.n_classes
        codes = {} if self.target is None else {self.target: cells % self.n_classes}
        for name, (axis, parts, which) in self.parts.items():
            column, of_rows = self.schema.attributes[name], which[box]
            inside = parts
            if name in self.one_way and (self.summarize == "sample" or not column.is_line):
                pieces = part_overlaps(self.one_way[name], parts)
                of_rows = _drawn_pieces(pieces, of_rows, len(parts), rng)
                inside = np.stack((pieces.first, pieces.last), axis=1)
            codes[name] = _drawn(column, axis, inside, of_rows, summarize=self.summarize, rng=rng)
        columns = self.schema.attributes.items()
        return pa.table({name: to_labels(column, codes[name]) for name, column in columns})

    def published(self, rng: Generator) -> ComparableRelease:
        """Return rows in comparable form, sampled again for each repetition."""
        return published_rows(
            self.schema,
            self.frame(rng),
            redraw=lambda again: encoded(self.schema, self.frame(again)),
            notes=(f"Values inside a {self.box} are sampled again for each repetition.",),
        )


class RegionEstimator(BoxesEstimator):
    """Estimator of counts and sums from a release of regions."""

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self._method = Partition(**self.parameters)
        self._plan = plan = self._method.plan(self.schema)
        self.axes, self.target, self.n_classes = plan.axes, plan.target, plan.n_classes
        self.summarize = self._method.summarize
        self._leaves, self._nodes = self.table, self.tables["tree"]

    # --- what was published -------------------------------------------------------------------

    @cached_property
    def ends(self) -> tuple[Integers, Integers]:
        """Parts of the leaves."""
        return leaf_parts(self._nodes, self.axes)

    @cached_property
    def _shape(self) -> tuple[int, int]:
        return self._leaves.num_rows // self.n_classes, self.n_classes

    @cached_property
    def _measured(self) -> tuple[NoisyTree, Floats]:
        return measurements(
            self._nodes,
            as_numpy(self._leaves[NOISE_SCALE]).reshape(self._shape),
            total=self.schema.counted_rows,
            consistent=self._method.consistent,
        )

    @cached_property
    def counts(self) -> Floats:
        """Counts of regions by class, fitted to all measurements; may be negative."""
        tree, node_counts = self._measured
        noisy = as_numpy(self._leaves[NOISY_COUNT]).reshape(self._shape)
        return tree.fit(noisy.astype(np.float64), node_counts)

    @cached_property
    def _columns(self) -> ColumnBounds | None:
        """Bounds from one-way counts, if there are any."""
        if "columns" not in self.tables:
            return None
        everything = np.ones(self._shape)
        total, half = float(self.counts.sum()), self._noise_of(everything)[1]
        everybody = CountBounds(max(0.0, total - half), max(0.0, total + half))
        counted = read_columns(self.tables["columns"], self._plan.columns.axes, total)
        return ColumnBounds(self.schema, counted, everybody)

    @cached_property
    def one_way(self) -> Mapping[str, ColumnParts]:  # type: ignore[override]  # read on demand
        """Columns with one-way counts."""
        return {} if self._columns is None else self._columns.columns

    # --- answers ------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        formula = parse(where, self.schema).formula
        shares = self._shares(formula)
        value = float((shares * self.counts).sum())
        privacy_std, half = self._noise_of(shares)
        # A negative estimate does not rule out positive counts.
        low, high = value - half, max(value, 0.0) + half
        cut = (shares > 0.0) & (shares < 1.0)
        if not cut.any():
            return self._answer(value, low, high, privacy_std, model_std=0.0)
        error = cut_error(shares[cut], self.counts[cut])
        at_least, at_most = shares.copy(), shares.copy()
        at_least[cut], at_most[cut] = 0.0, error.most
        # At the ends, split regions count as empty or whole; noise is added at both ends.
        low = value - error.below - self._noise_of(at_least)[1]
        high = max(value, 0.0) + error.above + self._noise_of(at_most)[1]
        if self._columns is None:
            return self._answer(value, low, high, privacy_std, error.std, CUT_NOTE)
        bounds = self._columns.of(formula)
        low, high = sorted((max(low, bounds.low), min(high, bounds.high)))
        # The model error is at most that of a uniform distribution between the ends.
        model_std = min(error.std, (high - low) / math.sqrt(12))
        return self._answer(
            min(max(value, low), high), low, high, min(privacy_std, high - low), model_std,
            BOUND_NOTE,
        )  # fmt: skip

    def _answer(
        self,
        value: float,
        low: float,
        high: float,
        privacy_std: float,
        model_std: float,
        *notes: str,
    ) -> Estimate:
        known = self.schema.counted_rows
        most = np.inf if known is None else float(known)
        return Estimate(
            value=float(np.clip(value, 0.0, most)),
            low=float(np.clip(low, 0.0, most)),
            high=float(np.clip(high, 0.0, most)),
            privacy_std=privacy_std,
            model_std=model_std,
            notes=notes,
        )

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows from regions, or from one-way counts for a single column.

        One-way counts are used if their error is smaller; only published numbers decide this.
        """
        regions = self._sums_of_regions(functions, together=together)
        names = {name for one in functions for name in one.columns}
        counted = self.one_way.get("".join(names))
        if len(names) != 1 or counted is None:
            return regions
        own = _sums_of_column(self.schema, counted, functions, together=together)
        open_ = [float(np.trace(one.half_width_squared())) for one in (own, regions)]
        return own if open_[0] < open_[1] else regions

    def _sums_of_regions(self, functions: Sequence[RowFunction], *, together: bool) -> SumEstimates:
        cells, tree, counts = self.cells(functions), self._measured[0], self.counts.ravel()
        inside = [cells.means(function) for function in functions]
        shaped = [one.reshape(self._shape) for one in inside]
        if together:
            privacy = tree.covariance(shaped)
        else:
            privacy = np.diag([tree.error(one)[0] ** 2 for one in shaped])
        model = cells.inside(functions, counts, together=together)
        return SumEstimates(
            values=np.stack(inside) @ counts,
            privacy=privacy,
            model=model,
            notes=(CUT_NOTE,) * bool(model.any()),
        )

    def _noise_of(self, shares: Floats) -> tuple[float, float]:
        """Return standard deviation and 95% half-width of the noise of a weighted sum."""
        std, kurtosis, step = self._measured[0].error(shares)
        # Continuity correction for noise in whole numbers.
        return std, nearly_normal(kurtosis) * std + step / 2

    def _shares(self, formula: Formula) -> Floats:
        """Return the share of each region (and class) that satisfies a condition.

        Along a column with one-way counts, rows are assumed to be distributed as overall; otherwise
        evenly.
        """
        columns, name = self._columns, formula.columns[0] if len(formula.columns) == 1 else None
        if columns is not None and name in self.parts and name in columns.columns:
            axis, parts, which = self.parts[name]
            by_leaf = columns.shares(formula, axis, parts)[which]
            return np.repeat(by_leaf[:, None], self.n_classes, axis=1)
        parts_ = independent_parts(formula)
        if columns is not None and isinstance(formula, Junction) and len(parts_) > 1:
            result = self._shares(parts_[0])
            for part in parts_[1:]:
                share = self._shares(part)
                # This form of OR is exactly 1 if either share is 1.
                result = result * share if formula.every else result + share * (1 - result)
            return result
        predicate = Predicate(self.schema, "", formula)
        return predicate.shares(*self.coverings(formula.columns)).reshape(self._shape)


def _sums_of_column(
    schema: Schema, counted: ColumnParts, functions: Sequence[RowFunction], *, together: bool
) -> SumEstimates:
    """Estimate sums of functions of one column from its one-way counts."""
    name = counted.axis.name
    covering = {name: covering_of(counted.axis, counted.parts)}
    cells = PublishedCells(schema, covering, {name: np.arange(len(counted.noisy))})
    inside = np.stack([cells.means(function) for function in functions])
    variances = laplace_variance(counted.scale)
    privacy = (inside * variances) @ inside.T
    fourth = inside**4 @ (variances**2 * laplace_kurtosis(counted.scale))
    # A function that is zero everywhere has no noise.
    squares = np.maximum(privacy.diagonal() ** 2, 1e-100)
    model = cells.inside(functions, counted.noisy, together=together)
    return SumEstimates(
        values=inside @ counted.noisy,
        privacy=privacy if together else np.diag(privacy.diagonal()),
        model=model,
        privacy_z=nearly_normal(float(np.max(fourth / squares))),
        notes=(COLUMN_NOTE,) * bool(model.any()),
    )


def _drawn_pieces(pieces: PartOverlaps, which: Integers, n_parts: int, rng: Generator) -> Integers:
    """Sample a piece of its part for each row, weighted by the rows of the pieces."""
    starts = np.searchsorted(pieces.owner, np.arange(n_parts))
    # Weights of a part sum to 1; shift the cumulative weights of part p to end at p + 1.
    ends = np.cumsum(pieces.weight)
    ends += pieces.owner - (ends - pieces.weight)[starts][pieces.owner]
    picks = np.searchsorted(ends, which + rng.random(len(which)), side="right")
    last = np.searchsorted(pieces.owner, which, side="right") - 1
    return np.asarray(np.minimum(picks, last))


def _drawn(
    column: Column,
    axis: PartitionAxis,
    parts: Integers,
    which: Integers,
    *,
    summarize: str,
    rng: Generator,
) -> Integers:
    """Return a code for each row, from the row's part of the axis."""
    in_order = not axis.subsets and axis.codes is None
    bounds = axis.code_bounds(parts) if in_order else parts
    if summarize == "sample" or not column.is_line:
        if in_order:
            return np.asarray(rng.integers(bounds[which, 0], bounds[which, 1] + 1))
        n_codes = axis.n_codes(parts[:, 0], parts[:, 1])
        drawn = rng.integers(0, n_codes[which])
        sets = [axis.codes_of(*part) for part in parts.tolist()]
        starts = np.cumsum(n_codes) - n_codes
        return np.asarray(np.concatenate(sets)[starts[which] + drawn])
    first = bounds[:, 0]
    if summarize == "midpoint":  # middle of regular values; special values come last
        first = (first + np.maximum(first, np.minimum(bounds[:, 1], column.n_values - 1))) // 2
    return np.asarray(first[which])
