"""Bounds on a condition from one-way counts, and positions of rows inside regions.

A condition on one column has its own count. A condition on several columns has at most as many rows
as each of its parts, and at least the total minus the rows that fail each part (Frechet bounds);
this needs no assumption. Inside a region, each column is assumed to be distributed as overall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.partition.axes import PartitionAxis
from hushtable.methods.partition.column_counts import ColumnParts
from hushtable.numeric import CONFIDENCE, normal_quantile
from hushtable.privacy.noise.distributions import laplace_kurtosis, laplace_variance
from hushtable.query.where import Predicate
from hushtable.query.where.covering import CodeSets
from hushtable.query.where.formula import Formula, Junction
from hushtable.query.where.predicate import independent_parts
from hushtable.schema import Schema

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
    everybody: CountBounds  # number of rows

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
    """Return the half-width of a sum of noise, for a normal critical value of `z`.

    Cornish-Fisher expansion, as in `hushtable.numeric.nearly_normal`.
    """
    variances = laplace_variance(scales)
    variance = float(variances.sum())
    if variance <= 0.0:
        return 0.0
    kurtosis = float((variances**2) @ laplace_kurtosis(scales)) / variance**2
    wider = z + kurtosis * (z**3 - 3 * z) / 24
    return wider * math.sqrt(variance) + 0.5
