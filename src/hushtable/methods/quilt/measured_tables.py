"""Count from overlapping noisy tables of the same rows: the best linear unbiased answer.

Every table counts all rows by some of the columns, each at a resolution of its own, and carries
independent noise of known size in each cell. A question about columns S is answered by the tables
that tell them apart finely enough, but the other tables help: each is added up to the columns it
shares with S (its total, if there are none), which loses nothing that bears on S, and all that is
known is weighed by generalized least squares.

Resolutions of a column are nested, so what is unknown can be cut down before anything is solved:
buckets that the question does not tell apart, and that the coarsest table which decides it does not
tell apart either, are one class. A finer table is added up to classes, a coarser one knows sums of
classes. A table that fits classes in neither way is added up over that column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.quantiles import nearly_normal
from hushtable.methods.quilt.domains import Floats, Integers

MAX_UNKNOWNS = (
    1500  # classes that are solved for together: beyond, only tables of all of S are used
)
_EXACT_STD = 1e-3  # what stands for no noise at all: far below one row

Wanted = NDArray[np.bool_] | Floats
"""What is asked for: the cells that count, or what each of them weighs."""


@dataclass(frozen=True)
class MeasuredTable:
    """One noisy table.

    Parameters
    ----------
    columns : tuple of str
        What it counts by.
    counts : float array
        Noisy counts, one axis for each column.
    std : float
        Standard deviation of the noise in each cell.
    cells : tuple of int arrays
        For each column where along its axis a row is counted: the cell of each bucket of merged
        values, or of each value where the table is of a single column. Where none are given, every
        bucket (or value) has a cell of its own.
    """

    columns: tuple[str, ...]
    counts: Floats
    std: float
    cells: tuple[Integers, ...] = ()

    def __post_init__(self) -> None:
        if not self.cells:
            own = tuple(np.arange(size) for size in self.counts.shape)
            object.__setattr__(self, "cells", own)

    @property
    def merged(self) -> bool:
        """Whether cells are made of buckets of merged values."""
        return len(self.columns) > 1


@dataclass(frozen=True)
class KnownSums:
    """What tables say about classes of cells: independent noisy sums.

    Parameters
    ----------
    place : int array
        The sum that each class goes into.
    sums, variances : float array
        The noisy sums and the variances of their noise.
    fourth : float array
        Fourth cumulant of the noise.
    """

    place: Integers
    sums: Floats
    variances: Floats
    fourth: Floats


@dataclass(frozen=True)
class LinearAnswer:
    """An unbiased count with its noise."""

    value: float
    std: float
    reach: float
    """Half of the 95 % interval."""
    with_total: float = 0.0
    """Covariance of its noise with that of the number of rows, as all tables tell it."""


class MeasuredTables:
    """Answer counts from all tables together.

    Parameters
    ----------
    tables : sequence of MeasuredTable
        The tables; each column has one of its own that tells all its values apart.
    buckets : mapping of str to int array
        The bucket of each value of each column.
    kurtosis : float
        Excess kurtosis of the noise: 0 for Gaussian, 3 for Laplace.
    n_rows : int, optional
        The number of rows, where it is public.
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
        """Say whether some table tells all these columns apart, at some resolution."""
        return any(columns <= set(table.columns) for table in self.tables)

    def axis(self, table: MeasuredTable, name: str) -> Integers:
        """Give the cell of each value of a column, along its axis of a table."""
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
        """Count the rows with certain values of one column, or weigh them."""
        own = [table for table in self.tables if table.columns == (column,)]
        seen = [self.buckets[column], wanted, *(table.cells[0] for table in own if _merges(table))]
        # Values that are asked for alike, and that every coarse table takes for alike, are one.
        _, first, classes = np.unique(
            np.stack([np.asarray(part, np.float64) for part in seen]),
            axis=1,
            return_index=True,
            return_inverse=True,
        )
        weights = np.asarray(wanted, np.float64)[first]
        return self._answer(weights, self._known({column: classes.ravel()}))

    def of_cells(self, columns: tuple[str, ...], wanted: Wanted) -> LinearAnswer | None:
        """Count the rows in certain cells of merged values, or weigh them.

        Parameters
        ----------
        columns : tuple of str
            Two or more.
        wanted : bool or float array
            One axis for each column, over its buckets.

        Returns
        -------
        LinearAnswer or None
            None where no table tells enough of these columns apart.
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
        if not any(self._tells_apart(table, classes) for table in tables):
            return None
        return self._answer(weights.ravel(), self._known(classes))

    # --- what is known of single tables -------------------------------------------------------

    def noise(self, column: str) -> Floats:
        """Give the covariance of the noise in the counts of a column's buckets, from all tables."""
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
        """Give the variance of the noise in the count of one value of a column."""
        return float(1 / np.sum([1 / table.std**2 for table in self._by_value(column)]))

    def value_counts(self, column: str) -> Floats:
        """Give the noisy count of each value of a column."""
        counts = [table.counts / table.std**2 for table in self._by_value(column)]
        return np.asarray(np.sum(counts, axis=0) * self.value_variance(column))

    def _by_value(self, column: str) -> list[MeasuredTable]:
        return [t for t in self.tables if t.columns == (column,) and not _merges(t)]

    def of_group(self, columns: tuple[str, ...]) -> MeasuredTable | None:
        """Give the noisy table of columns at the finest resolution that was measured."""
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
        known = self._combined([t for t in tables if self._tells_apart(t, classes)], classes)
        shape = tuple(int(places.max()) + 1 for places in cells)
        std = float(known.variances.mean() ** 0.5)
        return MeasuredTable(columns, known.sums.reshape(shape), std, cells)

    def distance_from_independence(self, table: MeasuredTable) -> tuple[float, float]:
        """Give the squared distance of a table from independent columns, and their squares."""
        total = max(1.0, self.total.value)
        expected = np.full((), total)
        for name in table.columns:
            classes = {name: self.axis(table, name)}
            fine = [t for t in self.tables if name in t.columns and self._tells_apart(t, classes)]
            shares = np.maximum(self._combined(fine, classes).sums, 0.0) / total
            expected = np.multiply.outer(expected, shares)
        return float(np.sum((table.counts - expected) ** 2)), float(np.sum(expected**2))

    # --- sums of classes ------------------------------------------------------------------------

    def _tells_apart(self, table: MeasuredTable, classes: Mapping[str, Integers]) -> bool:
        """Say whether every cell of a table lies in one class of each column."""
        return set(classes) <= set(table.columns) and all(
            _refines(self.axis(table, name), of_value) for name, of_value in classes.items()
        )

    def _known(self, classes: Mapping[str, Integers]) -> list[KnownSums]:
        """Gather what all tables say about classes, one entry for each way to add them up."""
        n = int(np.prod([of_value.max() + 1 for of_value in classes.values()]))
        groups: dict[bytes, list[MeasuredTable]] = {}
        for table in self.tables:
            if n <= MAX_UNKNOWNS or self._tells_apart(table, classes):
                place, _, _ = self._added_up(table, classes)
                groups.setdefault(place.tobytes(), []).append(table)
        made = [self._combined(tables, classes) for tables in groups.values()]
        if self.n_rows is not None and n <= MAX_UNKNOWNS:
            rows, exact = np.array([float(self.n_rows)]), np.array([_EXACT_STD**2])
            made.append(KnownSums(np.zeros(n, np.int64), rows, exact, np.zeros(1)))
        return made

    def _added_up(
        self, table: MeasuredTable, classes: Mapping[str, Integers]
    ) -> tuple[Integers, Floats, Floats]:
        """Add a table up as far as the classes have it.

        Returns
        -------
        int array
            The sum that each class, in C order, goes into.
        float array
            The sums.
        float array
            How many cells went into each.
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
    ) -> KnownSums:
        """Average sums of the same classes by the inverse of their variances."""
        parts = [(*self._added_up(table, classes), table.std) for table in tables]
        precision = np.sum([1 / (width * std**2) for _, _, width, std in parts], axis=0)
        sums = np.sum([y / (width * std**2) for _, y, width, std in parts], axis=0) / precision
        fourth: Floats = np.sum(
            [width * std**4 / (width * std**2 * precision) ** 4 for _, _, width, std in parts],
            axis=0,
        )
        return KnownSums(parts[0][0], sums, 1 / precision, self.kurtosis * fourth)

    def _answer(self, wanted: Floats, known: Sequence[KnownSums]) -> LinearAnswer:
        """Weigh everything known about classes for the weighted sum of them."""
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
    """Say whether the table of one column is coarser than its values."""
    return len(table.counts) < len(table.cells[0])


def _first_of(places: Integers) -> Integers:
    """Give the first position of each place."""
    return np.unique(places, return_index=True)[1]


def _refines(fine: Integers, coarse: Integers) -> bool:
    """Say whether all of one place of `fine` have the same place of `coarse`."""
    return bool((coarse[_first_of(fine)][fine] == coarse).all())


def _joined(cells: Integers, classes: Integers) -> tuple[Integers, Integers]:
    """Say into which sums cells and classes go, so that both are told apart where they can be.

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
    """Find the coarsest resolution of an axis that tells apart what is weighed differently."""
    for places in sorted(offered, key=lambda cells: int(cells.max())):
        if (weights.take(_first_of(places)[places], axis) == weights).all():
            return places
    return None
