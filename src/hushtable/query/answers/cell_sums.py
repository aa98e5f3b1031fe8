"""Sums over rows, estimated from published cells with counts.

A cell is a set of combinations of values. The position of its rows inside the cell is unknown. The
estimate replaces a function by its mean over the combinations of the cell. The error assumes that
all rows of a cell have the same combination, which may be any.

If a function is linear along a cell, as a number is, 1.96 standard deviations over the cell exceed
half of its range. So the variance suffices, and the interval of a mean is valid wherever the rows
are. In wide cells, rows often cluster at an end, as incomes do.

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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import ColumnCodes, Floats, Integers
from hushtable.numeric import NORMAL, normal_quantile
from hushtable.query.answers.estimator import Estimator
from hushtable.query.answers.published import draw_inside
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.where.code_classes import CodeSets
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy, repeated
from hushtable.schema.recoding import Recoding

Coarser = Recoding | CodeSets

N_DRAWS = 32
"""Number of samples inside cells for functions that link generalized columns."""

UNORDERED = 1 / NORMAL**2
"""Weight of the squared distance of a class with constant functions, so that 1.96 standard
deviations cover it."""

UNORDERED_AND_RISING = UNORDERED / (1 - 3 / NORMAL**2)
"""The same for a class with a linear function. If s is the standard deviation in the class, a
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
        """Return the mean of a function over all possible cells.

        If the function has a factor over whole rows, the mean is over the published cells.
        """
        tied = function.over_rows is not None and self.n_cells > 0
        result = float(self.means(function).mean()) if tied else 1.0
        for name, factor in function.factors.items():
            if function.over_rows is None:
                result *= float(self._axis(name, factor).mean())
        return result

    def spreads(
        self, one: RowFunction, other: RowFunction, classes: Mapping[str, Integers], rising: float
    ) -> Floats | None:
        """Return an entry of the error form for each cell; None if it is zero everywhere.

        This is the quadratic form of the module docstring, for a pair of functions. `rising` is the
        weight of the squared distance of classes of several codes.
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
        # Every function is constant on a class of one code.
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

        Return the class of each code by column (empty if no condition splits a column), and the
        weight of squared distances of classes. The weight is smaller if all functions are
        conditions, which are constant inside a class.
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
            # All columns, so that positions match between functions.
            codes = {
                name: draw_inside(self.recode[name], own, rng) if name in self.recode else own
                for name, own in self.codes.items()
            }
            drawn.append(function.values(codes))
        return np.stack(drawn)


# Distribution of the error of sums of published counts with independent, known noise.

_MANY = 512
"""From this number of terms on, quantiles use the Cornish-Fisher expansion. Its error is below
10^-4 of the half-width, plus at most 1 for rounding outward to whole numbers."""


@dataclass(frozen=True)
class ErrorLaw:
    """Distribution of the noise of one count; sums of n of them have exact quantiles.

    Parameters
    ----------
    values : array of int
        Consecutive integers, ascending.
    probabilities : array of float
        Their probabilities; the sum is 1 up to a negligible rest.

    Examples
    --------
    >>> fair = ErrorLaw(np.array([0, 1]), np.array([0.5, 0.5]))
    >>> fair.quantiles(100, 0.95)
    (40.0, 60.0)
    """

    values: Integers
    probabilities: Floats

    @cached_property
    def mean(self) -> float:
        """Mean of one count's noise."""
        return float(self.values @ self.probabilities)

    @cached_property
    def variance(self) -> float:
        """Variance of one count's noise."""
        return float((self.values - self.mean) ** 2 @ self.probabilities)

    def quantiles(self, n: int, confidence: float) -> tuple[float, float]:
        """Return the central interval of a sum of n errors, which has probability `confidence`."""
        if n == 0:
            return 0.0, 0.0
        tail = (1 - confidence) / 2
        points = n * (len(self.values) - 1) + 1
        if n >= _MANY:
            return self._of_many(n, tail)
        size = 1 << (points - 1).bit_length()
        mass = np.fft.irfft(np.fft.rfft(self.probabilities, size) ** n, size)[:points]
        below = np.cumsum(np.maximum(mass, 0.0))
        below /= below[-1]
        first = n * int(self.values[0])
        low = int(np.searchsorted(below, tail))
        high = int(np.searchsorted(below, 1 - tail))
        return float(first + low), float(first + high)

    def _of_many(self, n: int, tail: float) -> tuple[float, float]:
        """Return the central interval of a nearly normal sum, from its first four moments."""
        away, std = self.values - self.mean, self.variance**0.5
        if std == 0.0:
            return n * self.mean, n * self.mean
        skew, fourth = (float(away**k @ self.probabilities) / std**k for k in (3, 4))
        skew, kurtosis = skew / n**0.5, (fourth - 3) / n
        ends = []
        for z in (normal_quantile(tail), normal_quantile(1 - tail)):
            bent = (z**2 - 1) * skew / 6 + (z**3 - 3 * z) * kurtosis / 24
            bent -= (2 * z**3 - 5 * z) * skew**2 / 36
            ends.append(n * self.mean + n**0.5 * std * (z + bent))
        return float(math.floor(ends[0])), float(math.ceil(ends[1]))


# Model error of conditions that split published groups.
#
# A release does not show where in a group its rows are. The share of rows that satisfy a condition
# is estimated by p, the share of the group's combinations that do. For the standard deviation, the
# distribution of rows in a group is modeled as a Dirichlet process around the uniform distribution
# with concentration 1, because columns are rarely uniform and often most rows have one of many
# values. The share of any fixed set of combinations then has the beta distribution (p, 1 - p).
#
# The interval is wider: from none of the group's rows to all of them. Analysts ask about a
# condition, or its opposite, because such rows exist, and a column may contain a code among its
# numbers, such as 999 for "never", that all rows of a group share. No release of groups can
# distinguish this from uniform rows, so neither end may be excluded. The beta distribution alone,
# with one row known to satisfy the condition, would exclude the last 2.5%, where such codes are.


@dataclass(frozen=True)
class CutError:
    """Model error of a count whose condition splits groups.

    Examples
    --------
    >>> error = cut_error(np.array([0.1]), np.array([1000.0]))
    >>> round(error.std), round(error.below), round(error.above)
    (212, 100, 900)
    """

    std: float  # standard deviation of the answer
    below: float  # distance from the estimate to the lower end of the interval
    above: float  # distance to the upper end
    most: Floats  # share of each group at the upper end, which weights its noise there: 1


def cut_error(shares: Floats, counts: Floats) -> CutError:
    """Return the joint error of groups that one condition splits; errors have the same sign.

    `shares` is the share of each group's combinations that satisfy the condition, above 0 and below
    1. `counts` are estimated rows of the groups. Groups of equal share are added before clipping at
    0, so that noise on many empty groups cancels.
    """
    distinct, which = np.unique(shares, return_inverse=True)
    rows = np.maximum(np.bincount(which, counts, len(distinct)), 0.0)
    return CutError(
        std=float(rows @ np.sqrt(distinct * (1.0 - distinct) / 2.0)),
        below=float(rows @ distinct),
        above=float(rows @ (1.0 - distinct)),
        most=np.ones(len(shares)),
    )


COUNT, NOISY_COUNT = "count", "noisy_count"
"""Columns of published cells besides the schema's: number of published rows, and unbiased count."""


class CellsEstimator(Estimator):
    """Base class of estimators of published cells with counts."""

    counts: Floats
    """Unbiased estimates of the number of rows of each cell."""

    @property
    def quantiles_by_counts(self) -> bool:  # type: ignore[override]
        """True if cells merge codes: their rows may all have one code, so sums do not suffice."""
        return bool(self.recode)

    @property
    def cells(self) -> PublishedCells:
        """The published cells."""
        return PublishedCells(self.schema, self.recode, self.codes)

    def _repeated(self) -> Integers:
        """Return the index of the cell of each published row."""
        return repeated(self.table.column(COUNT).to_numpy())

    def frame(self) -> pa.Table:
        """Repeat each published cell according to its count."""
        return self.table.select(list(self.schema.attributes)).take(pa.array(self._repeated()))

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`."""
        return int(as_numpy(self.table.column(COUNT)).sum())
