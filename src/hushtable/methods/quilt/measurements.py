"""The noisy tables of a quilt release and their combination: the basis of all answers.

How a quilt answers
-------------------
A question is a sum over rows of a function of columns S. The function splits into components, one
for each subset U of S: a constant, a part per column, a part per pair that the columns alone do not
explain, and so on (`decompose`, analysis of variance). The answer is the sum over U of the
component's product with the counts by U, and each component has one of three sources:

- *measured*: a table resolves the component. Noise of known variance is its only error.
- *coarse*: a table counts merged values (cells of several buckets, or public bins of several
  codes). The part inside its cells follows from assumptions, whose error is model error.
- *modeled*: no table has these columns. The synthetic rows are counted, with model error. If there
  are more than two columns, this is only a guess, and the limits that pairs imply are the interval.

`TableBasis` has the tables, bins and buckets, and combines tables. `answers.TableSums` solves
generalized least squares if the cells of tables decide a function, else it sums measured and
coarse components. `model_error.ModelError` computes the variances of coarse and modeled components
of sums over synthetic rows, and `limits` bounds what no pair shows. `estimator.QuiltEstimator`
chooses among them.

Tables
------
Every table counts all rows by some of the columns, each at its own resolution, and has independent
noise of known variance in each cell. A table also informs about columns that it shares with S: it
is summed to them (to its total, if there are none), which loses no information about S.

Resolutions of a column are nested, so the unknowns can be reduced before solving: buckets that
neither the question nor the coarsest table that determines it distinguishes form one class. A finer
table is summed to classes, and a coarser one gives sums of classes. A table that is neither is
summed over that column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from hushtable.arrays import ColumnCodes, Floats, Integers
from hushtable.numeric import bucket_shares
from hushtable.query.answers.row_sums import RowFunction

MAX_UNKNOWNS = 1500
"""Classes solved for jointly; if there are more, only tables with all of S are used."""
_EXACT_STD = 1e-3  # represents the absence of noise: far below one row

_LOST = 0.05  # of the dependence inside cells, with its correction, when resolutions are compared
WITHIN = 0.02
"""Error of the dependence inside buckets, as a share of its maximum."""

Group = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A noisy table.

    `cells` gives, for each column, the cell along its axis of each bucket, or of each value in a
    one-way table. By default, every bucket (or value) has its own cell.
    """

    columns: Group
    counts: Floats  # noisy, one axis per column
    std: float  # noise standard deviation of each cell
    cells: tuple[Integers, ...] = ()

    def __post_init__(self) -> None:
        if not self.cells:
            own = tuple(np.arange(size) for size in self.counts.shape)
            object.__setattr__(self, "cells", own)

    @property
    def is_coarse(self) -> bool:
        """True if a one-way table merges values."""
        return len(self.columns) == 1 and len(self.counts) < len(self.cells[0])


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """Independent noisy sums of classes of cells."""

    place: Integers  # index of the sum that contains each class
    sums: Floats
    variances: Floats  # of the noise
    fourth: Floats  # fourth cumulant of the noise


@dataclass(frozen=True, eq=False)
class Component:
    """A noisy marginal at one resolution, averaged over the tables that contain it."""

    columns: Group
    cells: tuple[Integers, ...]  # the cell of each bucket (of each value, for one column by value)
    totals: ClassTotals  # one sum per cell

    @cached_property
    def counts(self) -> Floats:
        """The noisy counts, one axis per column."""
        return self.totals.sums.reshape([int(cells.max()) + 1 for cells in self.cells])

    @cached_property
    def variance(self) -> float:
        """Variance of the noise in a cell; the mean, if cells differ."""
        return float(self.totals.variances.mean())


class TableBasis:
    """All noisy tables of a release, and the estimates that combine them.

    Parameters
    ----------
    tables : sequence of MeasuredTable
        The tables; each column has a one-way table by value.
    buckets : mapping of str to int array
        The bucket of each value of each column.
    kurtosis : float
        Excess kurtosis of the noise: 0 for Gaussian, 3 for Laplace.
    n_rows : int, optional
        The number of rows, if it is public.
    bins : mapping of str to int array, optional
        The counted value of each code; by default, every code is a value.
    """

    def __init__(
        self,
        tables: Sequence[MeasuredTable],
        buckets: Mapping[str, Integers],
        *,
        kurtosis: float,
        n_rows: int | None,
        bins: Mapping[str, Integers] | None = None,
    ) -> None:
        self.tables = tables
        self.buckets = buckets
        self.kurtosis = kurtosis
        self.n_rows = n_rows
        self.bins = bins or {name: np.arange(len(places)) for name, places in buckets.items()}
        self.n_buckets = {name: int(places.max()) + 1 for name, places in buckets.items()}
        self._made: dict[Hashable, Any] = {}

    def having(self, columns: Sequence[str]) -> list[MeasuredTable]:
        """Return the tables that have all these columns, at any resolution."""
        return [table for table in self.tables if set(columns) <= set(table.columns)]

    def axis(self, table: MeasuredTable, name: str) -> Integers:
        """Return the cell of each value of a column, along its axis of a table."""
        cells = table.cells[table.columns.index(name)]
        return cells if len(table.columns) == 1 else cells[self.buckets[name]]

    # --- components -------------------------------------------------------------------------------

    @cached_property
    def total(self) -> ClassTotals:
        """The number of rows, as one sum."""
        if self.n_rows is None:
            return self._combined(self.tables, {})
        zero = np.zeros(1)
        return ClassTotals(np.zeros(1, np.int64), np.array([float(self.n_rows)]), zero, zero)

    @property
    def rows(self) -> float:
        """Estimated number of rows, at least 1."""
        return max(1.0, float(self.total.sums[0]))

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def values(self, name: str) -> Component:
        """Return the counts of single values of a column, from its one-way tables."""

        def make() -> Component:
            own = [t for t in self.tables if t.columns == (name,) and not t.is_coarse]
            every = np.arange(len(self.buckets[name]))
            return Component((name,), (every,), self._combined(own, {name: every}))

        return self._once(("values", name), make)

    def shares(self, name: str) -> Floats:
        """Return the estimated share of each value of a column: nonnegative, sum 1."""

        def make() -> Floats:
            counts, buckets = self.values(name).counts, self.buckets[name]
            missing = self.bucket_counts(name) - np.bincount(buckets, counts)
            counts = counts + (missing / np.bincount(buckets))[buckets]
            return bucket_shares(counts, buckets, self.rows)

        return self._once(("shares", name), make)

    def of_buckets(self, name: str) -> list[ClassTotals]:
        """Return noisy sums of a column's buckets from all its tables."""
        return self._once(
            ("of_buckets", name),
            lambda: self._totals(self.having([name]), {name: self.buckets[name]}),
        )

    def bucket_counts(self, name: str) -> Floats:
        """Return the estimated counts of a column's buckets, from all its tables."""
        precise = sum((one.sums / one.variances)[one.place] for one in self.of_buckets(name))
        return np.asarray(self.noise(name) @ precise)

    def noise(self, name: str) -> Floats:
        """Return the covariance of the noise in a column's bucket counts, from all its tables."""
        return self._once(
            ("noise", name),
            lambda: np.linalg.inv(gram(self.of_buckets(name))).astype(np.float64),
        )

    def resolutions(self, columns: Group) -> list[Component]:
        """Return the marginal of columns from multi-way tables at each resolution."""

        def make() -> list[Component]:
            offered = self._offered(columns)
            return list({_key(cells): self.at(columns, cells) for cells in offered}.values())

        return self._once(("resolutions", columns), make)

    def best(self, columns: Group) -> Component | None:
        """Return the marginal at the resolution with the smallest expected error, if any."""
        return self._once(
            ("best", columns), lambda: min(self.resolutions(columns), key=self._loss, default=None)
        )

    def finest(self, columns: Group) -> Component | None:
        """Return the marginal of columns at the finest resolution of the multi-way tables.

        All multi-way tables that distinguish its cells are combined. Return None if there are none.
        """

        def make() -> Component | None:
            offered = self._offered(columns)
            if not offered:
                return None
            cells = max(offered, key=lambda cells: np.prod([c.max() + 1 for c in cells]))
            classes = self._classes(columns, cells)
            fine = [t for t in self._joint(columns) if self.distinguishes(t, classes)]
            return Component(columns, cells, self._combined(fine, classes))

        return self._once(("finest", columns), make)

    def at(self, columns: Group, cells: tuple[Integers, ...]) -> Component:
        """Return the marginal of columns from the multi-way tables with exactly these cells.

        The noise is equal in all cells, so components that sum to zero along an axis are
        uncorrelated with those of fewer columns.
        """
        key = _key(cells)

        def make() -> Component:
            pairs = zip(self._joint(columns), self._offered(columns), strict=True)
            tables = [table for table, own in pairs if _key(own) == key]
            return Component(columns, cells, self._combined(tables, self._classes(columns, cells)))

        return self._once((columns, key), make)

    def measured(self) -> list[Component]:
        """Return the best component of each measured group of columns."""
        groups = dict.fromkeys(t.columns for t in self.tables if len(t.columns) > 1)
        return [found for found in map(self.best, groups) if found is not None]

    def cells_of(self, component: Component, codes: ColumnCodes) -> Integers:
        """Return the cell of each row, in C order; rows are given as codes."""
        cells = np.zeros(1, np.int64)
        for name, places in zip(component.columns, component.cells, strict=True):
            of_code = places[self.buckets[name]][self.bins[name]]
            cells = cells * (int(places.max()) + 1) + of_code[codes[name]]
        return cells

    def _offered(self, columns: Group) -> list[tuple[Integers, ...]]:
        """Return the cell of each bucket of some columns, for each multi-way table with them."""
        return [
            tuple(table.cells[table.columns.index(name)] for name in columns)
            for table in self._joint(columns)
        ]

    def _joint(self, columns: Group) -> list[MeasuredTable]:
        return [table for table in self.having(columns) if len(table.columns) > 1]

    def _classes(self, columns: Group, cells: Sequence[Integers]) -> dict[str, Integers]:
        pairs = zip(columns, cells, strict=True)
        return {name: places[self.buckets[name]] for name, places in pairs}

    def _loss(self, component: Component) -> float:
        """Return the expected squared error of a resolution: noise, and loss inside cells."""
        noise = component.variance * component.counts.size / 3**component.counts.ndim
        inside = 0.0
        for name, cells in zip(component.columns, component.cells, strict=True):
            width = np.bincount(cells[self.buckets[name]]) / len(self.bins[name])
            inside += float(np.max(width) ** 2) / 12
        return float(noise + (_LOST * self.rows) ** 2 * inside)

    def distance_from_independence(self, table: MeasuredTable) -> tuple[float, float]:
        """Return a table's squared distance from the counts expected under independence.

        The second result is the sum of squares of these expected counts.
        """
        expected = np.full((), self.rows)
        for name in table.columns:
            classes = {name: self.axis(table, name)}
            fine = [t for t in self.having([name]) if self.distinguishes(t, classes)]
            shares = np.maximum(self._combined(fine, classes).sums, 0.0) / self.rows
            expected = np.multiply.outer(expected, shares)
        return float(np.sum((table.counts - expected) ** 2)), float(np.sum(expected**2))

    # --- sums of classes --------------------------------------------------------------------------

    def distinguishes(self, table: MeasuredTable, classes: Mapping[str, Integers]) -> bool:
        """Return whether every cell of a table is contained in one class of each column."""
        return set(classes) <= set(table.columns) and all(
            _refines(self.axis(table, name), of_value) for name, of_value in classes.items()
        )

    def known(self, classes: Mapping[str, Integers]) -> list[ClassTotals]:
        """Return noisy sums of classes from all tables, and the public number of rows, if any.

        If there are more than `MAX_UNKNOWNS` classes, use only tables that distinguish all of them.
        """
        n = int(np.prod([of_value.max() + 1 for of_value in classes.values()]))
        if n > MAX_UNKNOWNS:
            return self._totals([t for t in self.tables if self.distinguishes(t, classes)], classes)
        made = self._totals(self.tables, classes)
        if self.n_rows is not None:
            exact = np.array([_EXACT_STD**2])
            made.append(
                ClassTotals(np.zeros(n, np.int64), self.total.sums, exact, self.total.fourth)
            )
        return made

    def _totals(
        self, tables: Sequence[MeasuredTable], classes: Mapping[str, Integers]
    ) -> list[ClassTotals]:
        """Return noisy sums of classes from some tables, one entry per partition of the classes."""
        groups: dict[bytes, list[MeasuredTable]] = {}
        for table in tables:
            place, _, _ = self._added_up(table, classes)
            groups.setdefault(place.tobytes(), []).append(table)
        return [self._combined(group, classes) for group in groups.values()]

    def _added_up(
        self, table: MeasuredTable, classes: Mapping[str, Integers]
    ) -> tuple[Integers, Floats, Floats]:
        """Sum a table to the coarsest common partition with the classes.

        Return the index of the sum that contains each class (in C order), the sums, and the number
        of cells in each sum.
        """
        shared = [name for name in classes if name in table.columns]
        rest = [name for name in table.columns if name not in classes]
        counts = table.counts.transpose([table.columns.index(name) for name in (*shared, *rest)])
        into, place, n_sums = np.zeros(1, np.int64), np.zeros(1, np.int64), 1
        for name, of_value in classes.items():
            of_cell, of_class = np.zeros(1, np.int64), np.zeros(int(of_value.max()) + 1, np.int64)
            if name in table.columns:
                of_cell, of_class = _joined(self.axis(table, name), of_value)
            size = int(of_class.max()) + 1
            into = (into[:, None] * size + of_cell).ravel()
            place = (place[:, None] * size + of_class).ravel()
            n_sums *= size
        into = np.repeat(into, counts.size // len(into))
        sums = np.bincount(into, counts.ravel(), n_sums).astype(np.float64)
        return place, sums, np.bincount(into, minlength=n_sums).astype(np.float64)

    def _combined(
        self, tables: Sequence[MeasuredTable], classes: Mapping[str, Integers]
    ) -> ClassTotals:
        """Average equal sums by precision."""
        parts = [(*self._added_up(table, classes), table.std) for table in tables]
        precision = np.sum([1 / (width * std**2) for _, _, width, std in parts], axis=0)
        sums = np.sum([y / (width * std**2) for _, y, width, std in parts], axis=0) / precision
        fourth: Floats = np.sum(
            [width * std**4 / (width * std**2 * precision) ** 4 for _, _, width, std in parts],
            axis=0,
        )
        return ClassTotals(parts[0][0], sums, 1 / precision, self.kurtosis * fourth)


def gram(known: Sequence[ClassTotals]) -> Floats:
    """Return the precision matrix of classes whose noisy sums are known."""
    return np.asarray(sum((k.place[:, None] == k.place) / k.variances[k.place] for k in known))


def _key(cells: Sequence[Integers]) -> bytes:
    return b"|".join(places.astype(np.int64).tobytes() for places in cells)


# --- resolutions ----------------------------------------------------------------------------------


def first_of(places: Integers) -> Integers:
    """Return the first position of each distinct place, in ascending order of places."""
    return np.unique(places, return_index=True)[1]


def _refines(fine: Integers, coarse: Integers) -> bool:
    """Return whether positions with equal `fine` have equal `coarse`."""
    return bool((coarse[first_of(fine)][fine] == coarse).all())


def _joined(cells: Integers, classes: Integers) -> tuple[Integers, Integers]:
    """Return the index of the sum that each cell, and each class, belongs to.

    The finer of two nested partitions is summed to the coarser. If they are not nested, everything
    is one sum.

    Examples
    --------
    >>> cells, classes = np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1])
    >>> [places.tolist() for places in _joined(cells, classes)]
    [[0, 1, 1], [0, 1]]
    >>> [places.tolist() for places in _joined(classes, cells)]
    [[0, 1], [0, 1, 1]]
    >>> [places.tolist() for places in _joined(np.array([0, 1, 1]), np.array([0, 0, 1]))]
    [[0, 0], [0, 0]]
    """
    if _refines(cells, classes):
        return classes[first_of(cells)], np.arange(int(classes.max()) + 1)
    if _refines(classes, cells):
        return np.arange(int(cells.max()) + 1), cells[first_of(classes)]
    return np.zeros(int(cells.max()) + 1, np.int64), np.zeros(int(classes.max()) + 1, np.int64)


# --- components of functions ----------------------------------------------------------------------


def interaction(function: Floats, counts: Floats) -> Floats:
    """Return the highest-order component of a function on cells, weighted by counts.

    Examples
    --------
    >>> both = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> interaction(both, np.full((2, 2), 25.0)).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    result = function.copy()
    axes = range(function.ndim)
    inside = function * counts
    for n_kept in axes:
        for kept in combinations(axes, n_kept):
            rest = tuple(axis for axis in axes if axis not in kept)
            total = counts.sum(axis=rest, keepdims=True)
            mean = inside.sum(axis=rest, keepdims=True) / np.maximum(total, 1e-12)
            result += (-1) ** (function.ndim - n_kept) * mean
    return result * (counts > 0)


def decompose(function: Floats) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Yield the components of a function on cells of equal weight, with the axes of each."""
    axes = range(function.ndim)
    for order in range(function.ndim + 1):
        for kept in combinations(axes, order):
            part = np.asarray(function.mean(axis=tuple(axis for axis in axes if axis not in kept)))
            yield kept, interaction(part, np.ones(part.shape))


# --- public bins: codes of a column that are counted as one value ---------------------------------


def by_bin(bins: Integers) -> tuple[Integers | None, Integers]:
    """Return all codes ordered by bin, and the position at which each bin starts.

    The order is None if the codes are already ordered: a column may have ten million of them.

    Examples
    --------
    >>> by_bin(np.array([0, 0, 0, 1, 1]))
    (None, array([0, 3]))
    >>> [places.tolist() for places in by_bin(np.array([0, 1, 1, 0]))]
    [[0, 3, 1, 2], [0, 2]]
    """
    rises = bool((bins[1:] >= bins[:-1]).all())
    sizes = np.bincount(bins)
    return None if rises else np.argsort(bins, kind="stable"), np.cumsum(sizes) - sizes


@dataclass(frozen=True, eq=False)
class WithinBins:
    """A function of a column's codes within its public bins.

    Examples
    --------
    >>> parts = WithinBins(np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([0, 0, 0, 1, 1]))
    >>> parts.mean.round(2).tolist(), parts.range.tolist()
    ([0.33, 1.0], [1.0, 0.0])
    >>> parts.deviation.round(2).tolist()
    [-0.33, 0.67, -0.33, 0.0, 0.0]
    """

    function: Floats  # by code
    bins: Integers  # the counted value of each code

    @property
    def is_binned(self) -> bool:
        """True if some bin has several codes."""
        return int(self.bins.max()) + 1 < len(self.bins)

    @cached_property
    def mean(self) -> Floats:
        """Mean over the codes of each bin."""
        if not self.is_binned:
            return self.function
        return np.asarray(np.bincount(self.bins, self.function) / np.bincount(self.bins))

    @property
    def deviation(self) -> Floats:
        """Deviation from the mean of the bin, by code."""
        return np.asarray(self.function - self.mean[self.bins])

    @property
    def range(self) -> Floats:
        """Maximum minus minimum in each bin."""
        order, first = by_bin(self.bins)
        ordered = self.function if order is None else self.function[order]
        return np.asarray(np.maximum.reduceat(ordered, first) - np.minimum.reduceat(ordered, first))

    def correlation(self, other: WithinBins) -> Floats:
        """Return the correlation with another function of the codes, within each bin."""
        one, two = self.deviation, other.deviation
        squares = np.bincount(self.bins, one**2) * np.bincount(self.bins, two**2)
        both = np.bincount(self.bins, one * two)
        return np.asarray(both / np.sqrt(np.maximum(squares, 1e-300)))


def range_in_bins(function: RowFunction, bins: Mapping[str, Integers]) -> dict[str, Floats]:
    """Return the range of each factor within each bin, by column.

    All rows of a bin may share one value, because people round their answers and queries ask for
    round numbers. Columns that enter as powers of a number are left out, and so are columns whose
    factor is constant within all bins.
    """
    found = {}
    for name, factor in function.factors.items():
        parts = WithinBins(factor, bins[name])
        if name not in function.smooth and parts.is_binned and (ranges := parts.range).any():
            found[name] = ranges
    return found
