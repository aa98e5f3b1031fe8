"""Count from overlapping noisy tables of the same rows: the best linear unbiased answer.

Every table counts all rows by some of the columns and carries independent noise of known size in
each cell. A question about columns S is answered by the tables that tell them apart, but the other
tables help: each is added up to the columns it shares with S (its total, if there are none), which
loses nothing that bears on S, and all that is known is weighed by generalized least squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.quantiles import nearly_normal
from hushtable.methods.quilt.domains import Floats, Integers

MAX_UNKNOWNS = 1500  # cells that are solved for together: beyond, only tables of all of S are used
_EXACT_STD = 1e-3  # what stands for no noise at all: far below one row


@dataclass(frozen=True)
class MeasuredTable:
    """One noisy table.

    Parameters
    ----------
    columns : tuple of str
        What it counts by.
    counts : float array
        Noisy counts, one axis for each column: over the values of a single column, over the
        buckets of merged values where there are more columns.
    std : float
        Standard deviation of the noise in each cell.
    """

    columns: tuple[str, ...]
    counts: Floats
    std: float

    @property
    def merged(self) -> bool:
        """Whether cells are buckets of merged values."""
        return len(self.columns) > 1


@dataclass(frozen=True)
class KnownSums:
    """What tables say about cells: independent noisy sums.

    Parameters
    ----------
    place : int array
        The sum that each cell goes into.
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


class MeasuredTables:
    """Answer counts from all tables together.

    Parameters
    ----------
    tables : sequence of MeasuredTable
        The tables; each column has one of its own.
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

    def has(self, columns: frozenset[str]) -> bool:
        """Say whether some table tells all these columns apart."""
        return any(columns <= set(table.columns) for table in self.tables)

    # --- totals -------------------------------------------------------------------------------

    @cached_property
    def total(self) -> LinearAnswer:
        """The number of rows."""
        if self.n_rows is not None:
            return LinearAnswer(float(self.n_rows), 0.0, 0.0)
        known = self._known(self.tables, (), np.zeros(1, np.int64))
        return self._answer(np.ones(1), [known])

    # --- counts -------------------------------------------------------------------------------

    def of_column(self, column: str, truth: NDArray[np.bool_]) -> LinearAnswer:
        """Count the rows with certain values of one column."""
        # Values of one bucket that are asked for alike are alike to every table.
        kinds = 2 * self.buckets[column] + truth
        present, kind_of_value = np.unique(kinds, return_inverse=True)
        widths = np.bincount(kind_of_value).astype(np.float64)
        own = [
            (np.bincount(kind_of_value, table.counts).astype(np.float64), widths, table.std)
            for table in self.tables
            if table.columns == (column,)
        ]
        known = [self._combined(np.arange(len(present)), own)]
        known += self._shared((column,), present // 2, besides=(column,))
        return self._answer((present % 2).astype(np.float64), known)

    def of_cells(self, columns: tuple[str, ...], wanted: NDArray[np.bool_]) -> LinearAnswer:
        """Count the rows in certain cells of merged values, one axis of `wanted` per column."""
        known = self._shared(columns, np.arange(wanted.size))
        if wanted.size > MAX_UNKNOWNS:
            known = [one for one in known if len(one.sums) == wanted.size]
        return self._answer(wanted.ravel().astype(np.float64), known)

    # --- what is known of single tables -------------------------------------------------------

    def noise(self, columns: tuple[str, ...]) -> Floats:
        """Give the variance of the noise in each cell of merged values of these columns."""
        tables = [table for table in self.tables if set(columns) <= set(table.columns)]
        n_cells = int(np.prod([self.n_buckets[name] for name in columns]))
        return self._known(tables, columns, np.arange(n_cells)).variances

    def value_variance(self, column: str) -> float:
        """Give the variance of the noise in the count of one value of a column."""
        stds = [table.std for table in self.tables if table.columns == (column,)]
        return float(1 / np.sum([1 / std**2 for std in stds]))

    def of_group(self, columns: tuple[str, ...]) -> tuple[Floats, float] | None:
        """Give the noisy table of columns and its noise, if it was measured."""
        tables = [table for table in self.tables if set(columns) <= set(table.columns)]
        if not tables:
            return None
        shape = tuple(self.n_buckets[name] for name in columns)
        known = self._known(tables, columns, np.arange(int(np.prod(shape))))
        return known.sums.reshape(shape), float(known.variances.mean() ** 0.5)

    def distance_from_independence(self, table: MeasuredTable) -> tuple[float, float]:
        """Give the squared distance of a table from independent columns, and their squares."""
        total = max(1.0, self.total.value)
        expected = np.full((), total)
        for name in table.columns:
            places = np.arange(self.n_buckets[name])
            tables = [table for table in self.tables if name in table.columns]
            shares = np.maximum(self._known(tables, (name,), places).sums, 0.0) / total
            expected = np.multiply.outer(expected, shares)
        return float(np.sum((table.counts - expected) ** 2)), float(np.sum(expected**2))

    def _shared(
        self, columns: tuple[str, ...], cells: Integers, besides: tuple[str, ...] | None = None
    ) -> list[KnownSums]:
        """Gather what tables say about cells, one entry for each set of shared columns."""
        shape = tuple(self.n_buckets[name] for name in columns)
        axes = dict(zip(columns, np.unravel_index(cells, shape), strict=True))
        groups: dict[tuple[str, ...], list[MeasuredTable]] = {}
        for table in self.tables:
            if table.columns != besides:
                shared = tuple(name for name in columns if name in table.columns)
                groups.setdefault(shared, []).append(table)
        made = []
        for shared, tables in groups.items():
            place = np.zeros(len(cells), np.int64)
            for name in shared:
                place = place * self.n_buckets[name] + axes[name]
            made.append(self._known(tables, shared, place))
        if self.n_rows is not None:
            rows, exact = np.array([float(self.n_rows)]), np.array([_EXACT_STD**2])
            made.append(KnownSums(np.zeros(len(cells), np.int64), rows, exact, np.zeros(1)))
        return made

    def _known(
        self, tables: Sequence[MeasuredTable], shared: tuple[str, ...], place: Integers
    ) -> KnownSums:
        return self._combined(place, [self._added_up(table, shared) for table in tables])

    def _added_up(
        self, table: MeasuredTable, shared: tuple[str, ...]
    ) -> tuple[Floats, Floats, float]:
        """Add a table up to some of its columns: sums, and how many cells went into each."""
        counts = table.counts
        if not table.merged and shared:
            places = self.buckets[table.columns[0]]
            size = self.n_buckets[table.columns[0]]
            widths = np.bincount(places, minlength=size).astype(np.float64)
            return np.bincount(places, counts, size).astype(np.float64), widths, table.std
        rest = tuple(i for i, name in enumerate(table.columns) if name not in shared)
        kept = [name for name in table.columns if name in shared]
        summed = counts.sum(axis=rest).transpose([kept.index(name) for name in shared])
        width = counts.size / max(1, summed.size)
        return summed.reshape(-1), np.full(summed.size, width), table.std

    def _combined(self, place: Integers, parts: list[tuple[Floats, Floats, float]]) -> KnownSums:
        """Average sums of the same cells by the inverse of their variances."""
        precision = np.sum([1 / (width * std**2) for _, width, std in parts], axis=0)
        sums = np.sum([y / (width * std**2) for y, width, std in parts], axis=0) / precision
        fourth: Floats = np.sum(
            [width * std**4 / (width * std**2 * precision) ** 4 for _, width, std in parts], axis=0
        )
        return KnownSums(place, sums, 1 / precision, self.kurtosis * fourth)

    def _answer(self, wanted: Floats, known: Sequence[KnownSums]) -> LinearAnswer:
        """Weigh everything known about cells for the sum of the wanted ones."""
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
        return LinearAnswer(value, variance**0.5, variance**0.5 * nearly_normal(excess))
