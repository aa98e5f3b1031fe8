"""Sums over rows from published cells, each a set of combinations of values with a count.

Inside a cell nothing is known about where its rows are. A function is replaced by its mean over the
cell's combinations. For the error, all rows of a cell are taken to be at one place of it, which may
be any.

Where functions only rise or fall along a cell, as a number does, 1.96 times their standard
deviation over it is more than half of their range, so the variance is enough: the interval of a
mean holds wherever rows are; and in a wide cell they do pile up at an end, as incomes do.

Where conditions cut through a cell it is not. Of a hundred codes one is *missing*, and so may be
all rows: a function that is 1 for the others has a mean of .99 there and a deviation of .1. So the
codes of a cell are put into classes by the conditions that are asked about, and the error is the
sum over classes of the variance inside the class and of the squared distance of its mean from that
of the cell, with a weight that lets 1.96 times the root of the two reach every code of the class
(`APART`, `APART_AND_RISING`). That is a quadratic form in the functions, so it holds for every
weighted sum of them; where no condition cuts a cell it is the variance.

Cells err in the same direction, so standard deviations add up; a quadratic form that is never less
is used instead, the sum of the cells' forms times the number of rows in such cells (by Cauchy and
Schwarz).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.drawing import draw_inside
from hushtable.estimate.quantiles import NORMAL
from hushtable.estimate.row_functions import Codes, Floats, RowFunction
from hushtable.predicate.covering import Covering
from hushtable.recoding import Recoding
from hushtable.schema import Schema

Coarser = Recoding | Covering
Integers = NDArray[np.int64]

N_DRAWS = 32
"""Places inside cells that are tried where a function ties generalized columns together."""

APART = 1 / NORMAL**2
"""Weight of the squared distance of a class in which nothing rises: 1.96 deviations reach it."""

APART_AND_RISING = APART / (1 - 3 / NORMAL**2)
"""The same where something does. With s the deviation in the class a number is sqrt(3) s from its
mean at most, and (x + sqrt(3) s)^2 <= 1.96^2 (s^2 + w x^2) for all x and s is 1 / (1.96^2 w) + 3 /
1.96^2 <= 1, by Cauchy and Schwarz."""


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Two functions of a column, added up over the classes of codes in each generalized one.

    Parameters
    ----------
    products : array
        The sum over classes of their mean product.
    means : array (2, 4, generalized codes)
        The sums over classes of 1, of the mean of either, and of the product of the means; first
        for all classes, then for those of one code.
    """

    products: Floats
    means: Floats


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """Published cells.

    Parameters
    ----------
    schema : Schema
        The columns.
    recode : mapping of str to Recoding or Covering
        How columns were generalized; others have their own codes.
    codes : mapping of str to int array
        The generalized code of each cell.
    """

    schema: Schema
    recode: Mapping[str, Coarser]
    codes: Codes

    @property
    def n_cells(self) -> int:
        """How many there are."""
        return len(next(iter(self.codes.values())))

    def means(self, function: RowFunction) -> Floats:
        """Give the mean of a function over the combinations of each cell."""
        if self._is_tied(function):
            return np.asarray(self._drawn(function).mean(axis=0))
        result: Floats = np.ones(self.n_cells)
        for name, factor in function.factors.items():
            result *= self._axis(name, factor)[self.codes[name]]
        return result if function.over_rows is None else result * function.over_rows(self.codes)

    def everywhere(self, function: RowFunction) -> float:
        """Give the mean of a function over all possible cells; ties are taken as in those there."""
        result = 1.0 if function.over_rows is None else float(self.means(function).mean())
        for name, factor in function.factors.items():
            if function.over_rows is None:
                result *= float(self._axis(name, factor).mean())
        return result

    def spreads(
        self, one: RowFunction, other: RowFunction, classes: Mapping[str, Integers], rising: float
    ) -> Floats | None:
        """Give how far rows of each cell may be off for two functions; None where it is zero.

        The entry of the two in the form of this module's head, with the weight of the distance of
        classes in which something rises.
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
        # A class of one code has nothing that rises.
        apart = rising * (away[0] - away[1]) + APART * away[1]
        return np.asarray(products - of_both[0] + apart)

    def _class_sums(self, name: str, one: Floats, other: Floats, labels: Integers) -> ClassSums:
        """Add up over the classes of codes behind each generalized one."""
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
        """Give the covariance of sums that comes from not knowing where in a cell rows are."""
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
        """Put the codes of columns into classes, by the conditions among what is added up.

        There are none where no condition cuts a column. Beside them is the weight of their
        distances: less where all that is added up are conditions, since nothing rises inside a
        class then.
        """
        found: dict[str, Integers] = {}
        rising = APART
        if any(self._is_tied(function) for function in functions):
            return found, rising
        for function in functions:
            for name, factor in function.factors.items():
                if name not in self.recode:
                    continue
                labels = found.setdefault(name, np.zeros(len(factor), np.int64))
                if not np.isin(factor, (0.0, 1.0)).all():
                    rising = APART_AND_RISING
                else:
                    labels = 2 * labels + factor.astype(np.int64)
                    found[name] = np.unique(labels, return_inverse=True)[1]
        # Of all columns or of none: every entry of the form is about the same classes.
        return found if any(labels.any() for labels in found.values()) else {}, rising

    def _axis(self, name: str, factor: Floats) -> Floats:
        """Average a factor over the codes behind each generalized one."""
        if name not in self.recode:
            return factor
        return self._added(name, factor) / self._added(name, np.ones(len(factor)))

    def _added(self, name: str, factor: Floats) -> Floats:
        """Add a factor up over the codes behind each generalized one."""
        coarser = self.recode[name]
        if isinstance(coarser, Covering):
            before = np.concatenate([[0.0], np.cumsum(factor)])
            sums = before[coarser.last + 1] - before[coarser.first]
            return np.asarray(np.bincount(coarser.owner, sums, coarser.size))
        new = coarser.apply(np.arange(len(factor)))
        return np.asarray(np.bincount(new, factor, coarser.size))

    # --- functions that tie columns together ------------------------------------------------------

    def _is_tied(self, function: RowFunction) -> bool:
        return any(name in self.recode for name in function.tied)

    def _drawn(self, function: RowFunction) -> Floats:
        """Give a function's values at some places inside each cell; the same for all functions."""
        rng = np.random.default_rng(0)  # of a public release, so that answers repeat
        drawn = []
        for _ in range(N_DRAWS):
            codes = {}
            for name in self.codes:  # all of them, so that functions meet the same places
                if name in self.recode:
                    codes[name] = _draw(self.recode[name], self.codes[name], rng)
                else:
                    codes[name] = self.codes[name]
            drawn.append(function.values(codes))
        return np.stack(drawn)


def _draw(
    coarser: Coarser, codes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    if not isinstance(coarser, Covering):
        return draw_inside(coarser, codes, rng)
    order = np.argsort(coarser.owner, kind="stable")
    widths = (coarser.last + 1 - coarser.first)[order]
    ends = np.cumsum(widths)
    sizes = np.bincount(coarser.owner, coarser.last + 1 - coarser.first, coarser.size)
    starts = np.concatenate([[0.0], np.cumsum(sizes)])
    picks = starts[codes] + np.floor(rng.random(len(codes)) * sizes[codes])
    run = np.searchsorted(ends, picks, side="right")
    return np.asarray(coarser.last[order][run] - (ends[run] - 1 - picks).astype(np.int64))
