"""Sums over rows, estimated from published cells with counts.

A cell is a set of combinations of values. The position of its rows inside the cell is unknown. The
estimate replaces a function by its mean over the combinations of the cell. The error assumes that
all rows of a cell have the same combination, which may be any.

If functions are monotone along a cell, as a number is, 1.96 standard deviations over the cell
exceed half of their range. So the variance suffices, and the interval of a mean is valid wherever
the rows are. In wide cells, rows often cluster at an end, as incomes do.

If conditions split a cell, the variance does not suffice. One of a hundred codes is *missing*, for
example, and all rows may have it: a function that is 1 for the other codes has mean 0.99 and
standard deviation 0.1. So the conditions of the query divide the codes of a cell into classes. The
error is a sum over classes: the variance inside the class, plus the squared distance of its mean
from that of the cell. Weights make 1.96 times the root of this sum cover every code of the class
(`UNORDERED`, `UNORDERED_AND_RISING`). This is a quadratic form in the functions, so it is valid for
every linear combination. If no condition splits a cell, it equals the variance.

Errors of cells may have the same sign, so standard deviations would have to be added. The code uses
a quadratic form that is never smaller: the sum of the cells' forms times the number of rows in such
cells (Cauchy-Schwarz inequality).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import ColumnCodes, Floats, Integers
from hushtable.numeric import NORMAL
from hushtable.query.answers.drawing import draw_inside
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.where.covering import CodeSets
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

Coarser = Recoding | CodeSets

N_DRAWS = 32
"""Number of samples inside cells for functions that link generalized columns."""

UNORDERED = 1 / NORMAL**2
"""Weight of the squared distance of a class with constant functions, so that 1.96 standard
deviations cover it."""

UNORDERED_AND_RISING = UNORDERED / (1 - 3 / NORMAL**2)
"""The same for a class with a monotone function. If s is the standard deviation in the class, a
number is at most sqrt(3) s from its mean. (x + sqrt(3) s)^2 <= 1.96^2 (s^2 + w x^2) holds for all x
and s if and only if 1 / (1.96^2 w) + 3 / 1.96^2 <= 1 (Cauchy-Schwarz inequality)."""


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Two functions of a column, summed over the classes of codes in each generalized code."""

    products: Floats  # sum over classes of the mean product
    # Shape (2, 4, generalized codes): sums over classes of 1, of the two means, and of the product
    # of the means; first over all classes, then over classes of one code.
    means: Floats


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """Published cells, as generalized codes."""

    schema: Schema  # the columns
    recode: Mapping[str, Coarser]  # recodings of generalized columns
    codes: ColumnCodes  # generalized code of each cell, by column

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(next(iter(self.codes.values())))

    def means(self, function: RowFunction) -> Floats:
        """Return the mean of a function over the combinations of each cell."""
        if self._is_tied(function):
            return np.asarray(self._drawn(function).mean(axis=0))
        result: Floats = np.ones(self.n_cells)
        for name, factor in function.factors.items():
            result *= self._axis(name, factor)[self.codes[name]]
        return result if function.over_rows is None else result * function.over_rows(self.codes)

    def everywhere(self, function: RowFunction) -> float:
        """Return the mean over all possible cells; row factors use published cells."""
        result = 1.0 if function.over_rows is None else float(self.means(function).mean())
        for name, factor in function.factors.items():
            if function.over_rows is None:
                result *= float(self._axis(name, factor).mean())
        return result

    def spreads(
        self, one: RowFunction, other: RowFunction, classes: Mapping[str, Integers], rising: float
    ) -> Floats | None:
        """Return an entry of the error form for each cell; None if it is zero everywhere.

        This is the quadratic form of the module docstring, for a pair of functions. `rising`
        weights the distance of classes that contain a monotone function.
        """
        if not (set(one.columns) | set(other.columns)) & set(self.recode):
            return None
        if self._is_tied(one) or self._is_tied(other):
            left, right = self._drawn(one), self._drawn(other)
            spread: Floats = (left * right).mean(axis=0) - left.mean(axis=0) * right.mean(axis=0)
            return spread
        if not classes:
            return np.asarray(self.means(one * other) - self.means(one) * self.means(other))
        products, sums = np.ones(self.n_cells), np.ones((2, 4, self.n_cells))
        for name in {*one.factors, *other.factors, *classes}:
            ones = np.ones(self.schema.attributes[name].size)
            left, right = one.factors.get(name, ones), other.factors.get(name, ones)
            at = self.codes[name]
            if name in self.recode:
                own = self._class_sums(name, left, right, classes[name])
                products, sums = products * own.products[at], sums * own.means[:, :, at]
            else:
                products = products * (left * right)[at]
                sums = sums * np.stack([ones, left, right, left * right])[:, at]
        mean_one, mean_other = self.means(one), self.means(other)
        n, of_one, of_other, of_both = sums.transpose(1, 0, 2)
        away = of_both - mean_other * of_one - mean_one * of_other + n * mean_one * mean_other
        # A class of one code contains no monotone part.
        apart = rising * (away[0] - away[1]) + UNORDERED * away[1]
        return np.asarray(products - of_both[0] + apart)

    def _class_sums(self, name: str, one: Floats, other: Floats, labels: Integers) -> ClassSums:
        """Sum over the classes of codes in each generalized code."""
        size = self.recode[name].size
        products, means = np.zeros(size), np.zeros((2, 4, size))
        for label in range(int(labels.max()) + 1):
            mine = (labels == label).astype(np.float64)
            there = self._added(name, mine)
            left, right, both = (
                self._added(name, mine * factor) / np.maximum(there, 1.0)
                for factor in (one, other, one * other)
            )
            products += both
            own = np.stack([there > 0, left, right, left * right])
            means += np.stack([own, own * (there == 1)])
        return ClassSums(products, means)

    def inside(self, functions: Sequence[RowFunction], counts: Floats, *, together: bool) -> Floats:
        """Return the covariance of sums that comes from unknown positions of rows inside cells."""
        n = len(functions)
        there = np.maximum(counts, 0.0)
        result, cut = np.zeros((n, n)), np.zeros(len(there), np.bool_)
        classes, rising = self._classes(functions if together else [])
        for i in range(n):
            if not together:
                classes, rising = self._classes([functions[i]])
            for j in range(i, n) if together else (i,):
                found = self.spreads(functions[i], functions[j], classes, rising)
                if found is None:
                    continue
                result[i, j] = result[j, i] = float(there @ found)
                if i == j:
                    own = found > 1e-12
                    cut |= own
                    if not together:
                        result[i, i] *= float(there[own].sum())
        return result * float(there[cut].sum()) if together else result

    def _classes(self, functions: Sequence[RowFunction]) -> tuple[dict[str, Integers], float]:
        """Divide codes of columns into classes by the conditions among the functions.

        Return no classes if no condition splits a column, and the weight of their distances. The
        weight is smaller if all functions are conditions, which are constant inside a class.
        """
        found: dict[str, Integers] = {}
        rising = UNORDERED
        if any(self._is_tied(function) for function in functions):
            return found, rising
        for function in functions:
            for name, factor in function.factors.items():
                if name not in self.recode:
                    continue
                labels = found.setdefault(name, np.zeros(len(factor), np.int64))
                if not np.isin(factor, (0.0, 1.0)).all():
                    rising = UNORDERED_AND_RISING
                else:
                    labels = 2 * labels + factor.astype(np.int64)
                    found[name] = np.unique(labels, return_inverse=True)[1]
        # For all columns or none: every entry of the form must use the same classes.
        return found if any(labels.any() for labels in found.values()) else {}, rising

    def _axis(self, name: str, factor: Floats) -> Floats:
        """Average a factor over the codes of each generalized code."""
        if name not in self.recode:
            return factor
        return self._added(name, factor) / self._added(name, np.ones(len(factor)))

    def _added(self, name: str, factor: Floats) -> Floats:
        """Sum a factor over the codes of each generalized code."""
        coarser = self.recode[name]
        if isinstance(coarser, CodeSets):
            before = np.concatenate([[0.0], np.cumsum(factor)])
            sums = before[coarser.last + 1] - before[coarser.first]
            return np.asarray(np.bincount(coarser.owner, sums, coarser.size))
        new = coarser.apply(np.arange(len(factor)))
        return np.asarray(np.bincount(new, factor, coarser.size))

    # --- functions that link columns --------------------------------------------------------------

    def _is_tied(self, function: RowFunction) -> bool:
        return any(name in self.recode for name in function.tied)

    def _drawn(self, function: RowFunction) -> Floats:
        """Return a function at sampled positions inside each cell, the same for all functions."""
        rng = np.random.default_rng(0)  # fixed seed, so that answers are reproducible
        drawn = []
        for _ in range(N_DRAWS):
            codes = {}
            for name in self.codes:  # all columns, so that positions match between functions
                if name in self.recode:
                    codes[name] = _draw(self.recode[name], self.codes[name], rng)
                else:
                    codes[name] = self.codes[name]
            drawn.append(function.values(codes))
        return np.stack(drawn)


def _draw(
    coarser: Coarser, codes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    if not isinstance(coarser, CodeSets):
        return draw_inside(coarser, codes, rng)
    order = np.argsort(coarser.owner, kind="stable")
    widths = (coarser.last + 1 - coarser.first)[order]
    ends = np.cumsum(widths)
    sizes = np.bincount(coarser.owner, coarser.last + 1 - coarser.first, coarser.size)
    starts = np.concatenate([[0.0], np.cumsum(sizes)])
    picks = starts[codes] + np.floor(rng.random(len(codes)) * sizes[codes])
    run = np.searchsorted(ends, picks, side="right")
    return np.asarray(coarser.last[order][run] - (ends[run] - 1 - picks).astype(np.int64))
