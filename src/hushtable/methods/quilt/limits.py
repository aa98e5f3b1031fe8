"""Limits of sums over columns whose joint table was neither measured nor tested.

Tables of pairs say nothing about dependence of three columns: if y is the exclusive or of two fair
bits a and b, all pairs are independent, and every model of pairs assigns an eighth of the rows to
each cell of (a, b, y), where half of the cells are empty. All that pairs imply are the limits of
Fréchet (1951) for each cell s of columns S,

    n(s) <= n_ij(s) for each pair (i, j), and
    n(s) >= sum over j of n_ij(s) - (|S| - 2) n_i(s) for each column i.

Three columns also have n(s) <= n - sum n_i(s) + sum n_ij(s), and then the limits are sharp for
conditions. For sums of other functions, let d(s) be the largest distance of n(s) from the model's
count. By the Cauchy-Schwarz inequality, the error of the sum of f is at most
sqrt(D sum of d(s) f(s)^2), where D is the sum of d over the cells where f may differ from 0. This
is a quadratic form in f, so it is valid for all linear combinations of sums, hence for means and
regressions. Among three columns the errors sum to 0 along each column (the pairs are known), so f
may be centered along one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations

import numpy as np

from hushtable.arrays import ColumnCodes, Floats, Integers
from hushtable.numeric import CONFIDENCE, NORMAL, normal_quantile
from hushtable.query.answers.row_sums import ONE, RowFunction, SumEstimates

MAX_CELLS = 300_000
"""Limit of cells of classes; above it, values of numbers are rounded to `_STEPS` classes."""

_STEPS = 32
_SHARP = 3  # number of columns for which the limits are sharp, and errors sum to 0 along a column

Ask = Callable[[Sequence[RowFunction]], SumEstimates]


def active_columns(function: RowFunction) -> tuple[str, ...]:
    """Return the columns that a function depends on, sorted."""
    moving = {name for name, factor in function.factors.items() if (factor != factor[0]).any()}
    return tuple(sorted(moving | set(function.tied)))


class _Support:
    """Combinations of classes of codes where some of several functions is not 0.

    A class of a column has codes on which each function is constant. The functions depend on the
    same columns, and are products of functions of these.
    """

    def __init__(self, functions: Sequence[RowFunction]) -> None:
        self.columns = active_columns(functions[0])
        self.n_functions = len(functions)
        self.classes: dict[str, Integers] = {}  # of each code; -1 outside the support
        self.factors: dict[str, Floats] = {}  # shape (functions, classes)
        for steps in (None, _STEPS):
            for name in self.columns:
                self._classify(name, [one.factors[name] for one in functions], steps)
            if math.prod(self.shape) <= MAX_CELLS:
                break

    def _classify(self, name: str, factors: Sequence[Floats], steps: int | None) -> None:
        if len(factors[0]) > MAX_CELLS:
            steps = _STEPS
        distinct: list[Floats] = []
        for factor in factors:  # most functions share their factors, which may be very long
            if not any(factor is one or np.array_equal(factor, one) for one in distinct):
                distinct.append(factor)
        of_code = np.zeros(len(factors[0]), np.int64)
        for factor in distinct:
            rounded = factor if steps is None else np.rint((factor - factor.min()) * steps)
            labels = (
                np.unique(rounded, return_inverse=True)[1].ravel() if steps is None
                else rounded.astype(np.int64)
            )  # fmt: skip
            of_code = _dense(of_code * (int(labels.max()) + 1) + labels)
        first = np.empty(int(of_code.max()) + 1, np.int64)
        first[of_code[::-1]] = np.arange(len(of_code))[::-1]  # the last assignment remains
        values = np.stack([factor[first] for factor in factors])
        # Keep all classes of a number: its errors sum to 0 over all of them.
        there = (values != 0).any(axis=0) | (len(first) > 2)
        self.classes[name] = np.where(there, np.cumsum(there) - 1, -1)[of_code]
        self.factors[name] = values[:, there]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of classes of each column."""
        return tuple(self.factors[name].shape[1] for name in self.columns)

    @property
    def values(self) -> Floats:
        """Values of the functions, with an axis for each column."""
        values = np.ones((self.n_functions, *self.shape))
        for axis, name in enumerate(self.columns):
            factors = self.factors[name]
            values = values * factors.reshape(-1, *self._along(axis))
        return values

    def _along(self, *axes: int) -> list[int]:
        return [size if axis in axes else 1 for axis, size in enumerate(self.shape)]

    def indicators(self) -> dict[Hashable, RowFunction]:
        """Return the sums that the limits need: all rows, and the support of columns and pairs."""
        inside = {name: (of_code >= 0).astype(np.float64) for name, of_code in self.classes.items()}
        return {
            self._key(names): RowFunction({name: inside[name] for name in names})
            for n in range(3)
            for names in combinations(self.columns, n)
        }

    def _key(self, names: Sequence[str]) -> Hashable:
        return tuple((name, (self.classes[name] >= 0).tobytes()) for name in names)

    def limits(
        self, codes: ColumnCodes, rows: Floats, sums: Mapping[Hashable, tuple[float, float]]
    ) -> tuple[Floats, Floats, Floats]:
        """Return the model's count of each combination, with lower and upper limits."""
        k, shape = len(self.columns), self.shape
        of_rows = [self.classes[name][codes[name]] for name in self.columns]
        z = normal_quantile(1 - (1 - CONFIDENCE) / 2 / (1 + k + k * (k - 1) // 2)) / NORMAL

        def counted(axes: Sequence[int]) -> Floats:
            mine = np.all([of_rows[axis] >= 0 for axis in axes], axis=0)
            sizes = [shape[axis] for axis in axes]
            flat = np.ravel_multi_index(tuple(of_rows[axis][mine] for axis in axes), sizes)
            counts = np.bincount(flat, rows[mine], math.prod(sizes)).astype(np.float64)
            return counts.reshape(self._along(*axes))

        def ends(*axes: int) -> tuple[Floats, Floats]:
            value, half = sums[self._key([self.columns[axis] for axis in axes])]
            counts = counted(axes) if axes else np.ones([1] * k)
            shares = (
                counts / counts.sum() if counts.any() else np.full(counts.shape, 1 / counts.size)
            )
            return max(0.0, value - z * half) * shares, (max(0.0, value) + z * half) * shares

        (_, total), singles = ends(), [ends(axis) for axis in range(k)]
        pairs = {pair: ends(*pair) for pair in combinations(range(k), 2)}
        zero = np.zeros(shape)
        low, high = zero, zero + total
        for _, most in pairs.values():
            high = np.minimum(high, most)
        if k == _SHARP:
            fewest = sum((least for least, _ in singles), start=zero)
            most = sum((most for _, most in pairs.values()), start=zero)
            high = np.minimum(high, np.maximum(total - fewest + most, 0.0))
        for axis, (_, most) in enumerate(singles):
            mine = sum((pair[0] for key, pair in pairs.items() if axis in key), start=zero)
            low = np.maximum(low, mine - (k - 2) * most)
        return counted(range(k)), np.minimum(low, high), high

    def form(self, distance: Floats) -> Floats:
        """Return squared half-widths of the sums as a quadratic form.

        `distance` is the largest error of the model's count of each combination.
        """
        values = self.values
        if len(self.columns) == _SHARP and max(self.shape) > 1:
            axis = int(np.argmax(self.shape))
            mass = np.maximum(distance.sum(axis=axis, keepdims=True), 1e-12)
            means = (values * distance).sum(axis=1 + axis, keepdims=True) / mass
            name = self.columns[axis]
            if (self.classes[name] >= 0).all():  # errors sum to 0 over all codes only
                values = values - means
        flat = values.reshape(self.n_functions, -1)
        return np.asarray(float(distance.sum()) * (flat * distance.ravel()) @ flat.T)


def _dense(labels: Integers) -> Integers:
    """Return labels numbered from 0 without gaps, in their order.

    Examples
    --------
    >>> _dense(np.array([7, 0, 7, 3])).tolist()
    [2, 0, 2, 1]
    """
    seen = np.zeros(int(labels.max()) + 1, np.bool_)
    seen[labels] = True
    return np.asarray((np.cumsum(seen) - 1)[labels])


def untested_limits(
    functions: Sequence[RowFunction], codes: ColumnCodes, rows: Floats, ask: Ask, *, together: bool
) -> tuple[Floats, Floats]:
    """Return squared half-widths of sums that nothing tested, and limits of those that are counts.

    `codes` and `rows` are the distinct rows of the model and the number that each represents. `ask`
    estimates sums of functions of at most two columns. The limits have shape (2, sums), with NaN
    for sums of other functions.
    """
    n = len(functions)
    squares, limits = np.zeros((n, n)), np.full((2, n), np.nan)
    groups: dict[Hashable, list[int]] = {}
    for place, function in enumerate(functions):
        alone = function.over_rows is not None or not together
        groups.setdefault((active_columns(function), place if alone else -1), []).append(place)
    asked: dict[Hashable, RowFunction] = {(): ONE}
    supports = {}
    for key, places in groups.items():
        if functions[places[0]].over_rows is None:
            supports[key] = _Support([functions[place] for place in places])
            asked |= supports[key].indicators()
    found = ask(list(asked.values()))
    halves = np.sqrt(np.maximum(found.half_width_squared().diagonal(), 0.0))
    sums = dict(zip(asked, zip(found.values.tolist(), halves.tolist(), strict=True), strict=True))
    for key, places in groups.items():
        support = supports.get(key)
        if support is None:  # a condition that links columns: none of the rows, or all
            limits[:, places] = [[0.0], [sums[()][0] + sums[()][1]]]
            squares[places, places] = limits[1, places] ** 2
            continue
        counts, low, high = support.limits(codes, rows, sums)
        at = np.ix_(places, places)
        squares[at] = support.form(np.maximum(np.maximum(counts - low, high - counts), 0.0))
        if counts.size == 1:
            for place, value in zip(places, support.values.ravel(), strict=True):
                if value == 1.0:
                    limits[:, place] = low.item(), high.item()
    return squares * (len(groups) if together else 1), limits
