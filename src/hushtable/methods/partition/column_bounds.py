"""What counts of single columns say about a condition, and about where in a region rows are.

A condition on one column has a count of its own. One on several has at most as many rows as each of
its parts, and at least what is left when the rows without one of them are taken away (Frechet);
this needs no assumption. Inside a region, rows are taken to lie along each column as all rows do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.base import CONFIDENCE
from hushtable.estimate.quantiles import normal_quantile
from hushtable.methods.partition.axes import Axis
from hushtable.methods.partition.column_counts import ColumnParts
from hushtable.predicate import Predicate
from hushtable.predicate.clause import independent_parts
from hushtable.predicate.covering import Covering
from hushtable.predicate.formula import Formula, Junction
from hushtable.privacy.distributions import laplace_kurtosis, laplace_variance
from hushtable.schema import Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

TAIL = (1.0 - CONFIDENCE) / 2.0
"""The chance to be off at either end."""


@dataclass(frozen=True)
class Bounds:
    """Say between what numbers a count lies, at 95 %."""

    low: float
    high: float


@dataclass(frozen=True)
class Pieces:
    """Hold what parts of a column are made of: where they meet the parts that were counted.

    Parameters
    ----------
    owner : array
        The part that each piece belongs to.
    first, last : array
        The pieces, as parts of the axis.
    weight : array
        The share of the part's rows in each piece; those of a part add up to 1.
    """

    owner: Integers
    first: Integers
    last: Integers
    weight: Floats


def covering_of(axis: Axis, parts: Integers) -> Covering:
    """Write parts as sets of codes."""
    if not axis.subsets and axis.codes is None:
        bounds = axis.code_bounds(parts)
        return Covering(len(parts), np.arange(len(parts)), bounds[:, 0], bounds[:, 1])
    sets = [axis.codes_of(*part) for part in parts.tolist()]
    codes = np.concatenate(sets)
    return Covering(len(parts), np.repeat(np.arange(len(sets)), list(map(len, sets))), codes, codes)


def pieces_of(counted: ColumnParts, parts: Integers) -> Pieces:
    """Cut parts of a column where it was counted, with the rows that each piece has.

    A part without any counted rows is spread evenly.
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
    return Pieces(owner, first, last, np.where(total > 0.0, rows / np.maximum(total, 1e-9), evenly))


def _n_codes(axis: Axis, first: Integers, last: Integers) -> Floats:
    if axis.starts is None:
        return axis.n_codes(first, last).astype(np.float64)
    bounds = axis.code_bounds(np.stack((first, last), axis=1))
    return (bounds[:, 1] - bounds[:, 0] + 1).astype(np.float64)


@dataclass(frozen=True)
class ColumnBounds:
    """Answer from counts of single columns.

    Parameters
    ----------
    schema : Schema
        The public schema.
    columns : mapping of str to ColumnParts
        The counted parts of each column.
    everybody : Bounds
        The number of rows.
    """

    schema: Schema
    columns: Mapping[str, ColumnParts]
    everybody: Bounds

    def of(self, formula: Formula) -> Bounds:
        """Bound how many rows satisfy a condition.

        Every column of it is one more chance to be off, and what the regions say is another: ends
        that all hold at 95 % together are farther out for each.
        """
        return self._of(formula, -normal_quantile(TAIL / (1 + len(formula.columns))))

    def _of(self, formula: Formula, reach: float) -> Bounds:
        if len(formula.columns) == 1 and formula.columns[0] in self.columns:
            return self._of_one(formula, reach)
        if not isinstance(formula, Junction):
            return Bounds(0.0, self.everybody.high)
        parts = independent_parts(formula)
        if len(parts) == 1:
            # Every part is bounded by itself; they share columns, which Frechet does not mind.
            parts = list(formula.parts)
        found = [self._of(part, reach) for part in parts]
        if formula.every:
            lacking = sum(self.everybody.high - one.low for one in found)
            low = max(0.0, self.everybody.low - lacking) if len(found) > 1 else found[0].low
            return Bounds(low, min(one.high for one in found))
        high = min(sum(one.high for one in found), self.everybody.high)
        return Bounds(max(one.low for one in found), high)

    def _of_one(self, formula: Formula, reach: float) -> Bounds:
        """Count what matches along a column, or all but what does not: the less noisy one."""
        counted = self.columns[formula.columns[0]]
        shares = self.along(formula, counted.axis, counted.parts)
        inside = _sum(counted, shares, reach)
        outside = _sum(counted, 1.0 - shares, reach)
        from_rest = Bounds(
            max(0.0, self.everybody.low - outside.high), self.everybody.high - outside.low
        )
        unsure = self.everybody.high - self.everybody.low
        if outside.high - outside.low + unsure < inside.high - inside.low:
            return from_rest
        return inside

    def along(self, formula: Formula, axis: Axis, parts: Integers) -> Floats:
        """Give the share of each part of a column that a condition on it alone takes, evenly."""
        predicate = Predicate(self.schema, "", formula)
        covering = {axis.name: covering_of(axis, parts)}
        return predicate.shares(covering, {axis.name: np.arange(len(parts))})

    def shares(self, formula: Formula, axis: Axis, parts: Integers) -> Floats:
        """Give the share of the rows of each part of a column that satisfy a condition on it."""
        evenly = self.along(formula, axis, parts)
        pieces = pieces_of(self.columns[axis.name], parts)
        each = self.along(formula, axis, np.stack((pieces.first, pieces.last), axis=1))
        found = np.bincount(pieces.owner, pieces.weight * each, len(parts))
        # None and all are exact; what is cut stays cut, however few rows are thought to be there.
        inside = np.clip(found, 1e-9, 1.0 - 1e-9)
        return np.where((evenly == 0.0) | (evenly == 1.0), evenly, inside)


def _sum(counted: ColumnParts, shares: Floats, reach: float) -> Bounds:
    """Add up whole parts for the lower end, and cut ones too for the upper."""
    whole, some = shares == 1.0, shares > 0.0
    low = float(counted.noisy[whole].sum()) - _half(counted.scale[whole], reach)
    high = float(counted.noisy[some].sum()) + _half(counted.scale[some], reach)
    return Bounds(max(0.0, low), max(0.0, high))


def _half(scales: Floats, reach: float) -> float:
    """Give half the interval of a sum of noises that reaches so many normal deviations.

    By Cornish and Fisher, as `hushtable.estimate.quantiles.nearly_normal` for 1.96 of them.
    """
    variances = laplace_variance(scales)
    variance = float(variances.sum())
    if variance <= 0.0:
        return 0.0
    kurtosis = float((variances**2) @ laplace_kurtosis(scales)) / variance**2
    wider = reach + kurtosis * (reach**3 - 3 * reach) / 24
    return wider * math.sqrt(variance) + 0.5
