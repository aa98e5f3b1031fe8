"""Counts from overlapping noisy tables of the same rows, by generalized least squares.

Every table counts all rows by some of the columns, each at its own resolution, and has independent
noise of known variance in each cell. A question about columns S is answered by the tables that
distinguish their values finely enough, but the other tables help: each is summed to the columns
that it shares with S (to its total, if there are none), which loses no information about S.
Generalized least squares combines all of them into the best linear unbiased estimate.

Resolutions of a column are nested, so the unknowns can be reduced before solving: buckets that
neither the question nor the coarsest table that determines it distinguishes form one class. A finer
table is summed to classes, and a coarser one gives sums of classes. A table that is neither is
summed over that column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.numeric import nearly_normal
from hushtable.query.answers.row_sums import RowFunction

MAX_UNKNOWNS = (
    1500  # classes solved for jointly; if there are more, only tables with all of S are used
)
_EXACT_STD = 1e-3  # represents the absence of noise: far below one row

Wanted = NDArray[np.bool_] | Floats
"""Cells to count (boolean), or the weight of each cell."""


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy table.

    `cells` gives, for each column, the cell along its axis of each bucket, or of each value in a
    one-way table. By default, every bucket (or value) has its own cell.
    """

    columns: tuple[str, ...]
    counts: Floats  # noisy, one axis per column
    std: float  # noise standard deviation of each cell
    cells: tuple[Integers, ...] = ()

    def __post_init__(self) -> None:
        if not self.cells:
            own = tuple(np.arange(size) for size in self.counts.shape)
            object.__setattr__(self, "cells", own)

    @property
    def merged(self) -> bool:
        """True if cells combine buckets of merged values."""
        return len(self.columns) > 1


@dataclass(frozen=True)
class ClassTotals:
    """Independent noisy sums of classes of cells."""

    place: Integers  # index of the sum that contains each class
    sums: Floats
    variances: Floats  # of the noise
    fourth: Floats  # fourth cumulant of the noise


@dataclass(frozen=True)
class LinearAnswer:
    """An unbiased count with its noise."""

    value: float
    std: float
    half_width: float
    """Half-width of the 95% interval."""
    with_total: float = 0.0
    """Covariance of its noise with that of the number of rows estimated from all tables."""


class MeasuredTables:
    """Counts from all noisy tables of a release.

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
    """

    def __init__(
        self,
        tables: Sequence[MeasuredTable],
        buckets: Mapping[str, Integers],
        *,
        kurtosis: float,
        n_rows: int | None,
    ) -> None:
        self.tables = tables
        self.buckets = buckets
        self.kurtosis = kurtosis
        self.n_rows = n_rows
        self.n_buckets = {name: int(places.max()) + 1 for name, places in buckets.items()}
        self._noise: dict[str, Floats] = {}
        self._groups: dict[tuple[str, ...], MeasuredTable | None] = {}

    def has(self, columns: frozenset[str]) -> bool:
        """Return whether some table has all these columns, at any resolution."""
        return any(columns <= set(table.columns) for table in self.tables)

    def axis(self, table: MeasuredTable, name: str) -> Integers:
        """Return the cell of each value of a column, along its axis of a table."""
        cells = table.cells[table.columns.index(name)]
        return cells[self.buckets[name]] if table.merged else cells

    # --- totals -------------------------------------------------------------------------------

    @cached_property
    def total(self) -> LinearAnswer:
        """The number of rows."""
        if self.n_rows is not None:
            return LinearAnswer(float(self.n_rows), 0.0, 0.0)
        return self._answer(np.ones(1), self._known({}))

    # --- counts -------------------------------------------------------------------------------

    def of_column(self, column: str, wanted: Wanted) -> LinearAnswer:
        """Return the count, or weighted sum, of values of one column."""
        own = [table for table in self.tables if table.columns == (column,)]
        seen = [self.buckets[column], wanted, *(table.cells[0] for table in own if _merges(table))]
        # Values with equal weight that no coarse table distinguishes form one class.
        _, first, classes = np.unique(
            np.stack([np.asarray(part, np.float64) for part in seen]),
            axis=1,
            return_index=True,
            return_inverse=True,
        )
        weights = np.asarray(wanted, np.float64)[first]
        return self._answer(weights, self._known({column: classes.ravel()}))

    def of_cells(self, columns: tuple[str, ...], wanted: Wanted) -> LinearAnswer | None:
        """Return the count, or weighted sum, of cells of buckets of two or more columns.

        `wanted` has one axis per column, over its buckets. Return None if no table distinguishes
        these cells.
        """
        tables = [table for table in self.tables if set(columns) <= set(table.columns)]
        weights = np.asarray(wanted, np.float64)
        classes: dict[str, Integers] = {}
        for axis, name in enumerate(columns):
            offered = [table.cells[table.columns.index(name)] for table in tables]
            places = _coarsest(weights, axis, offered)
            if places is None:
                return None
            weights = weights.take(_first_of(places), axis)
            classes[name] = places[self.buckets[name]]
        if not any(self._distinguishes(table, classes) for table in tables):
            return None
        return self._answer(weights.ravel(), self._known(classes))

    # --- tables of given columns --------------------------------------------------------------

    def noise(self, column: str) -> Floats:
        """Return the covariance of the noise in a column's bucket counts, from all tables."""
        if column not in self._noise:
            classes = {column: self.buckets[column]}
            n = self.n_buckets[column]
            together: dict[bytes, tuple[Integers, Floats]] = {}
            for table in self.tables:
                if column in table.columns:
                    place, _, width = self._added_up(table, classes)
                    _, precision = together.get(place.tobytes(), (place, np.zeros(len(width))))
                    together[place.tobytes()] = place, precision + 1 / (width * table.std**2)
            gram = np.zeros((n, n))
            for place, precision in together.values():
                gram += (place[:, None] == place) * precision[place]
            self._noise[column] = np.linalg.inv(gram).astype(np.float64)
        return self._noise[column]

    def value_variance(self, column: str) -> float:
        """Return the variance of the noise in the count of one value of a column."""
        return float(1 / np.sum([1 / table.std**2 for table in self._by_value(column)]))

    def value_counts(self, column: str) -> Floats:
        """Return the noisy count of each value of a column."""
        counts = [table.counts / table.std**2 for table in self._by_value(column)]
        return np.asarray(np.sum(counts, axis=0) * self.value_variance(column))

    def _by_value(self, column: str) -> list[MeasuredTable]:
        return [t for t in self.tables if t.columns == (column,) and not _merges(t)]

    def of_group(self, columns: tuple[str, ...]) -> MeasuredTable | None:
        """Return the noisy table of columns at the finest resolution that was measured."""
        if columns not in self._groups:
            self._groups[columns] = self._of_group(columns)
        return self._groups[columns]

    def _of_group(self, columns: tuple[str, ...]) -> MeasuredTable | None:
        tables = [table for table in self.tables if set(columns) <= set(table.columns)]
        if not tables:
            return None
        finest = max(
            tables,
            key=lambda table: np.prod(
                [table.counts.shape[table.columns.index(name)] for name in columns]
            ),
        )
        cells = tuple(finest.cells[finest.columns.index(name)] for name in columns)
        classes = {
            name: places[self.buckets[name]] for name, places in zip(columns, cells, strict=True)
        }
        known = self._combined([t for t in tables if self._distinguishes(t, classes)], classes)
        shape = tuple(int(places.max()) + 1 for places in cells)
        std = float(known.variances.mean() ** 0.5)
        return MeasuredTable(columns, known.sums.reshape(shape), std, cells)

    def distance_from_independence(self, table: MeasuredTable) -> tuple[float, float]:
        """Return a table's squared distance from independence, and the squares of the latter."""
        total = max(1.0, self.total.value)
        expected = np.full((), total)
        for name in table.columns:
            classes = {name: self.axis(table, name)}
            fine = [t for t in self.tables if name in t.columns and self._distinguishes(t, classes)]
            shares = np.maximum(self._combined(fine, classes).sums, 0.0) / total
            expected = np.multiply.outer(expected, shares)
        return float(np.sum((table.counts - expected) ** 2)), float(np.sum(expected**2))

    # --- sums of classes ------------------------------------------------------------------------

    def _distinguishes(self, table: MeasuredTable, classes: Mapping[str, Integers]) -> bool:
        """Return whether every cell of a table is contained in one class of each column."""
        return set(classes) <= set(table.columns) and all(
            _refines(self.axis(table, name), of_value) for name, of_value in classes.items()
        )

    def _known(self, classes: Mapping[str, Integers]) -> list[ClassTotals]:
        """Return the noisy sums of classes from all tables, one entry per way to sum them."""
        n = int(np.prod([of_value.max() + 1 for of_value in classes.values()]))
        groups: dict[bytes, list[MeasuredTable]] = {}
        for table in self.tables:
            if n <= MAX_UNKNOWNS or self._distinguishes(table, classes):
                place, _, _ = self._added_up(table, classes)
                groups.setdefault(place.tobytes(), []).append(table)
        made = [self._combined(tables, classes) for tables in groups.values()]
        if self.n_rows is not None and n <= MAX_UNKNOWNS:
            rows, exact = np.array([float(self.n_rows)]), np.array([_EXACT_STD**2])
            made.append(ClassTotals(np.zeros(n, np.int64), rows, exact, np.zeros(1)))
        return made

    def _added_up(
        self, table: MeasuredTable, classes: Mapping[str, Integers]
    ) -> tuple[Integers, Floats, Floats]:
        """Sum a table to the coarsest common partition with the classes.

        Returns
        -------
        int array
            The index of the sum that contains each class, in C order.
        float array
            The sums.
        float array
            Number of cells in each sum.
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
            into = (
                (into[:, None] * size + of_cell).ravel() if name in table.columns else into * size
            )
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

    def _answer(self, wanted: Floats, known: Sequence[ClassTotals]) -> LinearAnswer:
        """Return the generalized least squares estimate of a weighted sum of classes."""
        if not wanted.any():
            return LinearAnswer(0.0, 0.0, 0.0)
        n = len(wanted)
        if len(known) == 1 and len(known[0].sums) == n:
            solution = wanted * known[0].variances[known[0].place]
        else:
            gram = np.zeros((n, n))
            for one in known:
                gram += (one.place[:, None] == one.place) / one.variances[one.place]
            solution = np.linalg.solve(gram, wanted).astype(np.float64)
        value = fourth = 0.0
        for one in known:
            weights = np.bincount(one.place, solution, len(one.sums)) / one.variances
            value += float(weights @ one.sums)
            fourth += float(weights**4 @ one.fourth)
        variance = max(0.0, float(wanted @ solution))
        excess = fourth / variance**2 if variance > 0 else 0.0
        std = variance**0.5
        return LinearAnswer(value, std, std * nearly_normal(excess), float(solution.sum()))


# --- resolutions ----------------------------------------------------------------------------------


def _merges(table: MeasuredTable) -> bool:
    """Return whether a one-way table is coarser than the column's values."""
    return len(table.counts) < len(table.cells[0])


def _first_of(places: Integers) -> Integers:
    """Return the first position of each place."""
    return np.unique(places, return_index=True)[1]


def _refines(fine: Integers, coarse: Integers) -> bool:
    """Return whether positions with equal `fine` have equal `coarse`."""
    return bool((coarse[_first_of(fine)][fine] == coarse).all())


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
        return classes[_first_of(cells)], np.arange(int(classes.max()) + 1)
    if _refines(classes, cells):
        return np.arange(int(cells.max()) + 1), cells[_first_of(classes)]
    return np.zeros(int(cells.max()) + 1, np.int64), np.zeros(int(classes.max()) + 1, np.int64)


def _coarsest(weights: Floats, axis: int, offered: Sequence[Integers]) -> Integers | None:
    """Return the coarsest resolution of an axis in which cells have one weight; None if none."""
    for places in sorted(offered, key=lambda cells: int(cells.max())):
        if (weights.take(_first_of(places)[places], axis) == weights).all():
            return places
    return None


# Public bins: codes of a column that are counted as one value.


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


def range_in_bins(function: RowFunction, bins: Mapping[str, Integers]) -> dict[str, Floats]:
    """Return the range (maximum minus minimum) of each factor within each bin, by column.

    All rows of a bin may share one value, because people round their answers and queries ask for
    round numbers. Columns that enter as powers of a number are left out, and so are columns without
    such a range.

    Examples
    --------
    >>> one_of_three = RowFunction({"age": np.array([0.0, 1.0, 0.0, 1.0, 1.0])})
    >>> range_in_bins(one_of_three, {"age": np.array([0, 0, 0, 1, 1])})["age"].tolist()
    [1.0, 0.0]
    """
    found = {}
    for name, factor in function.factors.items():
        if name not in function.powers and int(bins[name].max()) + 1 < len(factor):
            order, first = by_bin(bins[name])
            ordered = factor if order is None else factor[order]
            ranges = np.maximum.reduceat(ordered, first) - np.minimum.reduceat(ordered, first)
            if ranges.any():
                found[name] = np.asarray(ranges)
    return found


def heaped(
    heaps: Sequence[Mapping[str, Floats]],
    factors: Sequence[Mapping[str, Floats]],
    bins: Mapping[str, Integers],
    *,
    together: bool,
) -> Floats:
    """Return squared half-widths that allow for heaping inside public bins.

    A binned column is counted by bin, so the position of a row inside its bin is unknown. People
    round their answers: all rows of a bin may have the queried value, or none. This can change sum
    i by up to ``heaps[i][column][bin]``; squared changes add over bins and columns. Two sums that
    query the same codes of a bin change together, so their ratio may be known although neither sum
    is: their product is weighted by the correlation of their factors over the codes.

    The result has shape (sums, sums); products are 0 unless `together`. Entries are squared
    half-widths: divide by the squared critical value before adding them to a covariance.

    Examples
    --------
    >>> whole, half = np.array([8.0, 0.0]), np.array([4.0, 0.0])
    >>> first = np.array([1.0, 0.0, 0.0, 0.0])
    >>> bins = {"age": np.array([0, 0, 1, 1])}
    >>> heaped([{"age": whole}, {"age": half}], [{"age": first}] * 2, bins, together=True).tolist()
    [[64.0, 32.0], [32.0, 16.0]]
    """
    found = np.zeros((len(heaps), len(heaps)))
    for i, one in enumerate(heaps):
        for j in range(i + 1) if together else (i,):
            for name in one.keys() & heaps[j].keys():
                alike = _alike(bins[name], factors[i][name], factors[j][name]) if i != j else 1.0
                found[i, j] += float(np.sum(alike * one[name] * heaps[j][name]))
            found[j, i] = found[i, j]
    return found


def _alike(bins: Integers, one: Floats, other: Floats) -> Floats:
    """Return the correlation of two functions of codes within each bin."""
    sizes = np.bincount(bins)
    one, other = (f - (np.bincount(bins, f) / sizes)[bins] for f in (one, other))
    squares = np.bincount(bins, one**2) * np.bincount(bins, other**2)
    return np.asarray(np.bincount(bins, one * other) / np.sqrt(np.maximum(squares, 1e-300)))
