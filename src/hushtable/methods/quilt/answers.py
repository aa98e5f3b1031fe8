"""Sums over rows from overlapping noisy tables: linear in their cells, with exact noise variances.

A function of a row that is a product of factors, one for each of a few columns, is written as a
constant, a function of each column, and for each larger set of columns a part that sums to zero
along each of its axes. Each part is summed over the tables with its columns, and these sums are
averaged by precision.

In a table with equal noise in all cells, such parts are uncorrelated. So this is the least-squares
estimate from all tables without solving for their cells, and its variance is a sum of squares.
One-way tables are finer than the others, which count buckets of merged values; for them the
covariance with the total is computed.

Merged values: a factor is replaced by its mean over a bucket, estimated from the noisy counts of
single values. This removes part of the covariance of two factors. It is restored under the
assumption that they depend on each other inside buckets as between neighboring buckets: the scores
of cells are corrected (`_correction`). Half of the correction counts as model error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.binning import shares_of
from hushtable.methods.quilt.measurements import MeasuredTable, MeasuredTables, range_in_bins
from hushtable.numeric import NORMAL, nearly_normal, project_to_simplex
from hushtable.query.answers.published import Generator
from hushtable.query.answers.resampling import MOST, tilted
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, power
from hushtable.schema import Integer, Number, Schema

LEAST_BETWEEN = 0.8
"""Minimum share of a factor's variance between cells for which tables of cells are used."""

CORRECTED = 0.5
"""Relative error of the correction for merged values."""

WITHIN = 0.05
"""Error of the dependence inside buckets, as a share of its maximum."""

MAX_GRID = 2_000_000  # combinations of codes that are enumerated

Group = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Margin:
    """A noisy marginal, averaged over all tables that contain it at one resolution."""

    columns: Group
    places: tuple[Integers, ...]  # the cell of each bucket, by column
    counts: Floats  # the average, one axis per column
    variance: float  # of the noise in each cell
    weight: float  # minimum number of counts summed in a cell: sums of noise are nearly normal


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """The single values of a column, from its one-way tables."""

    counts: Floats  # noisy
    variance: float  # of the noise
    with_total: float  # covariance of each count with the total
    shares: Floats  # nonnegative, sum to 1


@dataclass(eq=False)
class LinearQuery:
    """A sum over rows as a linear combination of the total, single values and marginals."""

    constant: float = 0.0  # weight of the total
    values: dict[str, Floats] = field(default_factory=dict)  # weights of values, by column
    margins: dict[Margin, Floats] = field(default_factory=dict)  # sum to zero along each axis
    # For binned columns, the deviation of the function from its mean in the bin, by code.
    model: dict[str, Floats] = field(default_factory=dict)
    # For those in a condition, the largest change of the sum if all rows of a bin are equal.
    heaps: dict[str, Floats] = field(default_factory=dict)
    inside: float = 0.0  # standard deviation of the error from merged values

    def add_column(self, name: str, weights: Floats) -> None:
        """Add a function of the values of one column."""
        self.values[name] = self.values.get(name, 0.0) + weights


class TableSums:
    """Sums of functions over rows, from measured tables.

    Parameters
    ----------
    measured : MeasuredTables
        The tables.
    bins : mapping of str to int array
        The counted value of each code, by column.
    """

    def __init__(self, measured: MeasuredTables, bins: Mapping[str, Integers]) -> None:
        self.measured = measured
        self.bins = bins
        self._margins: dict[Group, Margin | None] = {}
        self._resolved: dict[tuple[Group, bytes], Margin] = {}
        self._values: dict[str, ValueCounts] = {}

    # --- total, values and marginals --------------------------------------------------------------

    @cached_property
    def _total(self) -> tuple[float, float, list[float]]:
        """The number of rows, its variance, and the weight of each table in it."""
        if self.measured.n_rows is not None:
            return float(self.measured.n_rows), 0.0, [0.0] * len(self.measured.tables)
        precisions = [1 / (t.counts.size * t.std**2) for t in self.measured.tables]
        weights = [precision / sum(precisions) for precision in precisions]
        value = sum(w * t.counts.sum() for w, t in zip(weights, self.measured.tables, strict=True))
        return float(value), 1 / sum(precisions), weights

    def _values_of(self, name: str) -> ValueCounts:
        if name not in self._values:
            own = [
                (table, weight)
                for table, weight in zip(self.measured.tables, self._total[2], strict=True)
                if table.columns == (name,) and table.counts.size == len(table.cells[0])
            ]
            precision = float(np.sum([1 / table.std**2 for table, _ in own]))
            counts = np.sum([table.counts / table.std**2 for table, _ in own], axis=0) / precision
            shares = shares_of(counts, self.measured.buckets[name], max(1.0, self._total[0]))
            # Sum over tables of: weight in the total, times weight in the average, times variance.
            with_total = sum(weight for _, weight in own) / precision
            self._values[name] = ValueCounts(counts, 1 / precision, with_total, shares)
        return self._values[name]

    def cells_of(self, table: MeasuredTable, name: str) -> Integers:
        """Return the cell of each bucket along one axis of a table of several columns."""
        return table.cells[table.columns.index(name)]

    def margin(self, columns: Group) -> Margin | None:
        """Average the tables that contain some columns, at the best measured resolution."""
        if columns not in self._margins:
            found: dict[bytes, Margin] = {}
            for table in self._with(columns):
                places = [self.cells_of(table, name) for name in columns]
                if len(columns) == 1 and places[0].max() + 1 < len(places[0]):
                    continue  # of single columns, only tables by bucket
                found.setdefault(_key(places), self.margin_at(columns, places))
            self._margins[columns] = min(found.values(), key=self._loss, default=None)
        return self._margins[columns]

    def margin_at(self, columns: Group, places: Sequence[Integers]) -> Margin:
        """Average the tables that contain some columns at one resolution."""
        key = columns, _key(places)
        if key not in self._resolved:
            self._resolved[key] = self._averaged(
                columns,
                [
                    table
                    for table in self._with(columns)
                    if _key([self.cells_of(table, name) for name in columns]) == key[1]
                ],
            )
        return self._resolved[key]

    def _with(self, columns: Group) -> list[MeasuredTable]:
        return [
            table
            for table in self.measured.tables
            if len(table.columns) > 1 and set(columns) <= set(table.columns)
        ]

    def _averaged(self, columns: Group, tables: Sequence[MeasuredTable]) -> Margin:
        places = tuple(self.cells_of(tables[0], name) for name in columns)
        shape = tuple(int(place.max()) + 1 for place in places)
        precision, counts, least = 0.0, np.zeros(shape), np.inf
        for table in tables:
            rest = tuple(i for i, name in enumerate(table.columns) if name not in columns)
            kept = [name for name in table.columns if name in columns]
            summed = table.counts.sum(axis=rest).transpose([kept.index(name) for name in columns])
            n_added = table.counts.size / summed.size
            precision += 1 / (n_added * table.std**2)
            counts += summed / (n_added * table.std**2)
            least = min(least, n_added)
        return Margin(columns, places, counts / precision, 1 / precision, float(least))

    def _loss(self, margin: Margin) -> float:
        """Return the expected squared error of a resolution: noise, and loss inside cells."""
        noise = margin.variance * margin.counts.size / 3**margin.counts.ndim
        inside = 0.0
        for name, cells in zip(margin.columns, margin.places, strict=True):
            width = np.bincount(cells[self.measured.buckets[name]]) / len(self.bins[name])
            inside += float(np.max(width) ** 2) / 12
        return float(noise + (WITHIN * max(1.0, self._total[0])) ** 2 * inside)

    # --- draws from the uncertainty ---------------------------------------------------------------

    @property
    def total(self) -> float:
        """The number of rows."""
        return self._total[0]

    def draw_total(self, rng: Generator) -> float:
        """Draw the number of rows from its estimated distribution."""
        total, variance, _ = self._total
        return float(rng.normal(total, variance**0.5))

    def draw_column(self, name: str, rng: Generator) -> Floats:
        """Draw the counts of a column's values from their estimated distribution."""
        own, margin = self._values_of(name), self.margin((name,))
        drawn = own.counts + rng.normal(0.0, own.variance**0.5, len(own.counts))
        if margin is None:
            return np.asarray(drawn)
        buckets = self.measured.buckets[name]
        widths = np.bincount(buckets)
        better = margin.counts + rng.normal(0.0, margin.variance**0.5, len(widths))
        share = widths * own.variance / (widths * own.variance + margin.variance)
        missing = share * (better - np.bincount(buckets, drawn)) / widths
        return np.asarray(drawn + missing[buckets])

    def margins(self) -> list[Margin]:
        """Return the marginal of each measured group of columns."""
        groups = dict.fromkeys(t.columns for t in self.measured.tables if len(t.columns) > 1)
        found = [self.margin(group) for group in groups]
        return [margin for margin in found if margin is not None]

    # --- functions --------------------------------------------------------------------------------

    def linear(self, function: RowFunction) -> LinearQuery | None:
        """Return the sum of a function as a linear combination; None if not determined."""
        if function.over_rows is not None:
            return self._joint(function)
        scale, factors = 1.0, dict[str, Floats]()
        for name, factor in function.factors.items():
            if (factor == factor[0]).all():
                scale *= float(factor[0])
            else:
                factors[name] = self._by_value(name, factor)
        columns = tuple(sorted(factors))
        if len(columns) > 1 and not self._tells(factors, columns):
            return None
        made = LinearQuery()
        if not columns or scale == 0.0:
            made.constant = scale
            return made
        self._add_product(made, scale, factors)
        ranges = range_in_bins(function, self.bins)
        for name in columns:
            spread = self._inside_bins(name, function.factors[name])
            if spread is not None:
                others = scale * prod(self._mean(n, f) for n, f in factors.items() if n != name)
                made.model[name] = others * spread
                if name in ranges:
                    made.heaps[name] = abs(others) * self._there(name) * ranges[name]
        return made

    def _there(self, name: str) -> Floats:
        """Return the estimated number of rows with each value of a column."""
        return self._total[0] * self._values_of(name).shares

    def _mean(self, name: str, factor: Floats) -> float:
        return float(self._values_of(name).shares @ factor)

    def _add_product(self, made: LinearQuery, scale: float, factors: Mapping[str, Floats]) -> None:
        """Add a product: its mean, a part per column, and one per larger set of columns."""
        columns = tuple(sorted(factors))
        if len(columns) == 1:
            made.add_column(columns[0], scale * factors[columns[0]])
            return
        means = {name: self._mean(name, factor) for name, factor in factors.items()}
        made.constant += scale * prod(means.values())
        for name in columns:
            others = prod(means[other] for other in columns if other != name)
            made.add_column(name, scale * others * (factors[name] - means[name]))
        for order in range(2, len(columns) + 1):
            for group in combinations(columns, order):
                others = prod(means[other] for other in columns if other not in group)
                self._add_group(made, group, scale * others, factors, means)

    def _by_value(self, name: str, factor: Floats) -> Floats:
        """Average a factor over the codes that are counted as one value."""
        bins = self.bins[name]
        size = len(self.measured.buckets[name])
        if len(bins) == size:
            return factor
        averaged: Floats = np.bincount(bins, factor, size) / np.bincount(bins, minlength=size)
        return averaged

    def _inside_bins(self, name: str, factor: Floats) -> Floats | None:
        """Return the deviation of a factor from its mean in each public bin, by code."""
        bins = self.bins[name]
        if len(bins) == len(self.measured.buckets[name]):
            return None
        return np.asarray(factor - self._by_value(name, factor)[bins])

    def _tells(self, factors: Mapping[str, Floats], columns: Group) -> bool:
        margin = self.margin(columns)
        if margin is None:
            return False
        return all(
            self._between(name, factors[name], places)[1] >= LEAST_BETWEEN
            for name, places in zip(columns, margin.places, strict=True)
        )

    def _between(self, name: str, factor: Floats, places: Integers) -> tuple[Floats, float]:
        """Return the mean of a factor in each cell, and the share of its variance between cells."""
        shares = self._values_of(name).shares
        cells = places[self.measured.buckets[name]]
        mass = np.bincount(cells, shares)
        plain = np.bincount(cells, factor) / np.bincount(cells)
        weighed = np.bincount(cells, shares * factor) / np.where(mass > 0, mass, 1.0)
        means: Floats = np.where(mass > 0, weighed, plain)
        inside = float(shares @ (factor - means[cells]) ** 2)
        overall = float(shares @ factor)
        spread = float(shares @ (factor - overall) ** 2)
        if np.allclose(factor, means[cells]):
            return means, 1.0
        return means, 1.0 - inside / spread if spread > 0 else 0.0

    def _correction(self, name: str, factor: Floats, places: Integers, means: Floats) -> Floats:
        """Return what to add to each cell's score to restore covariance lost inside cells.

        The sum of f * g over rows has a part between cells, from the cell means of f, and a part
        inside cells, which a table of cells does not show. Assume that inside a cell g is linear in
        f, with the slope fitted by weighted least squares to the cell and its two neighbors (cells
        ordered by their mean of f). The missing part is the slope times the sum of squared
        deviations of f inside the cell. The slope is linear in the three cell totals of g, so the
        correction is a score per cell.
        """
        shares = self._values_of(name).shares
        cells = places[self.measured.buckets[name]]
        mass = np.bincount(cells, shares)
        inside = np.bincount(cells, shares * (factor - means[cells]) ** 2)
        added = np.zeros(len(means))
        order = np.argsort(means, kind="stable")
        for at in np.flatnonzero(inside[order] > 1e-15).tolist():
            near = order[max(0, at - 1) : at + 2]
            weights = mass[near]
            if weights.sum() <= 0:
                continue
            apart = means[near] - weights @ means[near] / weights.sum()
            squares = float(weights @ apart**2)
            if squares > 1e-15:
                added[near] += inside[order[at]] * apart / squares
        return added

    def _add_group(
        self,
        made: LinearQuery,
        group: Group,
        scale: float,
        factors: Mapping[str, Floats],
        means: Mapping[str, float],
    ) -> None:
        """Add the part of a group: the product of its centered factors."""
        margin = self.margin(group)
        assert margin is not None  # noqa: S101 - a table of more columns was found
        plain, scores, between, spread = [], [], 1.0, 1.0
        for name, places in zip(group, margin.places, strict=True):
            cells, share = self._between(name, factors[name], places)
            plain.append(cells - means[name])
            scores.append(plain[-1] + self._correction(name, factors[name], places, cells))
            between *= share
            shares = self._values_of(name).shares
            spread *= float(shares @ (factors[name] - means[name]) ** 2) ** 0.5
        added = scale * _outer(scores)
        if between < 1.0:
            corrected = float(np.sum((added - scale * _outer(plain)) * margin.counts))
            most = abs(scale) * max(1.0, self._total[0]) * spread * (1 - between) ** 0.5
            made.inside = float(
                np.hypot(made.inside, np.hypot(CORRECTED * corrected, WITHIN * most))
            )
        self._add_table(made, group, margin.places, added)

    def _add_table(
        self, made: LinearQuery, group: Group, places: Sequence[Integers], table: Floats
    ) -> None:
        """Split a function of cells into parts that sum to zero along each axis, and add them."""
        axes = range(table.ndim)
        for order in range(table.ndim + 1):
            for kept in combinations(axes, order):
                part = _centered(table, kept)
                names = tuple(group[axis] for axis in kept)
                if not kept:
                    made.constant += float(part)
                elif len(kept) == 1:
                    cells = places[kept[0]][self.measured.buckets[names[0]]]
                    made.add_column(names[0], part[cells])
                else:
                    margin = self.margin_at(names, [places[axis] for axis in kept])
                    made.margins[margin] = made.margins.get(margin, 0.0) + part

    def _joint(self, function: RowFunction) -> LinearQuery | None:
        """Express a function of several columns jointly as weights of the cells of one table."""
        columns = tuple(sorted(function.columns))
        margin = self.margin(columns) if len(columns) > 1 else None
        sizes = [len(self.bins[name]) for name in columns]
        if margin is None or prod(sizes) > MAX_GRID:
            return None
        grids = np.meshgrid(*map(np.arange, sizes), indexing="ij", copy=False)
        codes = {n: grid.ravel() for n, grid in zip(columns, grids, strict=True)}
        values = function.values(codes)
        cells = np.zeros(len(values), np.int64)
        for name, places in zip(columns, margin.places, strict=True):
            mine = places[self.measured.buckets[name][self.bins[name]]]
            cells = cells * (int(places.max()) + 1) + mine[codes[name]]
        n = np.bincount(cells, minlength=margin.counts.size)
        means = np.bincount(cells, values, margin.counts.size) / n
        spread = np.bincount(cells, (values - means[cells]) ** 2, margin.counts.size) / n
        made = LinearQuery()
        self._add_table(made, columns, margin.places, means.reshape(margin.counts.shape))
        there = np.maximum(margin.counts.ravel(), 0.0)
        cut = there[spread > 1e-12].sum()
        made.inside = float(cut * (there @ spread) / 2) ** 0.5
        if made.inside > (1 - LEAST_BETWEEN) * max(1.0, float(there @ np.abs(means))):
            return None
        return made

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, linear: Sequence[LinearQuery], *, together: bool) -> SumEstimates:
        """Return sums of functions with the covariance of the noise."""
        total, total_variance, _ = self._total
        constants = np.array([one.constant for one in linear])
        noise = _Noise(len(linear), together=together)
        values, with_total = np.zeros(len(linear)), np.zeros(len(linear))
        for name in dict.fromkeys(name for one in linear for name in one.values):
            own = self._values_of(name)
            fine, coarse, overall = self._split(name, [one.values.get(name) for one in linear])
            constants = constants + overall
            values += fine @ own.counts
            noise.add(fine, own.variance)
            margin = self.margin((name,))
            if margin is not None:
                values += coarse @ margin.counts
                noise.add(coarse, margin.variance, margin.weight)
            with_total += fine.sum(axis=1) * own.with_total
        values += constants * total
        noise.add(constants[:, None], total_variance, np.inf)
        for margin in dict.fromkeys(margin for one in linear for margin in one.margins):
            zero = np.zeros(margin.counts.size)
            weights = np.stack(
                [one.margins[margin].ravel() if margin in one.margins else zero for one in linear]
            )
            values += weights @ margin.counts.ravel()
            noise.add(weights, margin.variance, margin.weight)
        noise.add_products(constants, with_total)
        return SumEstimates(
            values=values,
            privacy=noise.covariance,
            model=self._model(linear, together=together),
            privacy_z=nearly_normal(self.measured.kurtosis * noise.concentration),
        )

    def _split(self, name: str, given: Sequence[Floats | None]) -> tuple[Floats, Floats, Floats]:
        """Split functions of a column into weights of values, of buckets, and a constant."""
        buckets = self.measured.buckets[name]
        size = len(buckets)
        functions = np.stack([np.zeros(size) if f is None else f for f in given])
        margin = self.margin((name,))
        if margin is None:
            return functions, np.zeros((len(given), 1)), np.zeros(len(given))
        widths = np.bincount(buckets).astype(np.float64)
        order = np.argsort(buckets, kind="stable")
        starts = np.cumsum(widths).astype(np.int64) - widths.astype(np.int64)
        means = np.add.reduceat(functions[:, order], starts, axis=1) / widths
        overall = means.mean(axis=1)
        own = self._values_of(name).variance * float(widths.mean())
        of_own = (1 / own) / (1 / own + 1 / margin.variance)
        centered = means - overall[:, None]
        fine = functions - means[:, buckets] + of_own * centered[:, buckets]
        return fine, (1 - of_own) * centered, overall

    def _model(self, linear: Sequence[LinearQuery], *, together: bool) -> Floats:
        """Return the covariance of the model error from buckets and public bins."""
        inside = np.array([one.inside for one in linear])
        model = np.diag(inside**2)
        if together:
            groups = [frozenset(one.margins) for one in linear]
            same = np.array([[one == other for other in groups] for one in groups])
            model = np.where(same, np.outer(inside, inside), 0.0)
        for name in dict.fromkeys(name for one in linear for name in one.model):
            bins, there = self.bins[name], self._there(name)
            wide = np.bincount(bins) > 1
            per_code = (there / np.bincount(bins))[bins] * there[wide].sum() / 2
            # Loop instead of a matrix product: a column may have ten million codes.
            told = [place for place, one in enumerate(linear) if name in one.model]
            leaning = np.zeros_like(model)
            for n_before, place in enumerate(told):
                weighed = linear[place].model[name] * per_code
                for other in (*told[:n_before], place) if together else (place,):
                    both = float(np.einsum("i,i->", weighed, linear[other].model[name]))
                    leaning[place, other] = leaning[other, place] = both
            pairs = zip(linear, leaning.diagonal().tolist(), strict=True)
            possible = [_possible(one.heaps.get(name), variance) for one, variance in pairs]
            model += leaning * np.outer(possible, possible)
        return np.asarray(model)


def _possible(heaps: Floats | None, variance: float) -> float:
    """Return the factor that limits a deviation to what the rows of partly covered bins allow.

    All bins may deviate in the same direction, by at most all of their rows. Independent deviations
    of single bins are added separately (`ModelError.heaped`).
    """
    if heaps is None or variance <= 0:
        return 1.0
    most = (float(heaps.sum()) ** 2 - float(heaps @ heaps)) / NORMAL**2
    return float(min(1.0, max(0.0, most) / variance) ** 0.5)


class _Noise:
    """Covariance of weighted sums of independent noise, accumulated term by term."""

    def __init__(self, n: int, *, together: bool) -> None:
        self.together = together
        self.covariance: Floats = np.zeros((n, n))
        self.fourth: Floats = np.zeros(n)

    def add(self, weights: Floats, variance: float, n_added: float = 1.0) -> None:
        """Add weighted counts with noise of one variance, each a sum of `n_added` counts."""
        if self.together:
            self.covariance += variance * (weights @ weights.T)
        else:
            np.fill_diagonal(
                self.covariance, self.covariance.diagonal() + variance * (weights**2).sum(axis=1)
            )
        if np.isfinite(n_added):
            self.fourth += variance**2 * (weights**4).sum(axis=1) / n_added

    def add_products(self, one: Floats, other: Floats) -> None:
        """Add the covariance of two parts of each sum, given as products."""
        both = np.outer(one, other)
        both = both + both.T
        self.covariance += both if self.together else np.diag(both.diagonal())

    @property
    def concentration(self) -> float:
        """Concentration of a sum's variance in single counts: 1 if all is in one."""
        variances = self.covariance.diagonal() ** 2
        there = variances > 0
        return float(min(1.0, np.max(self.fourth[there] / variances[there], initial=0.0)))


def _key(places: Sequence[Integers]) -> bytes:
    return b"|".join(place.astype(np.int64).tobytes() for place in places)


def _outer(parts: Sequence[Floats]) -> Floats:
    result: Floats = np.ones(())
    for part in parts:
        result = np.multiply.outer(result, part)
    return result


def _centered(table: Floats, kept: tuple[int, ...]) -> Floats:
    """Average over the other axes, and center along each axis in `kept`."""
    rest = tuple(axis for axis in range(table.ndim) if axis not in kept)
    part = table.mean(axis=rest)
    for axis in range(len(kept)):
        part = part - part.mean(axis=axis, keepdims=True)
    return np.asarray(part)


# Share of the dependence between columns that remains in the rows of a quilt.
#
# The noisy tables are unbiased, the rows are not: the fit shrinks noise, and dependence with it.
# Both are published, so the loss can be estimated for each pair without the private table. Let D be
# the deviation of a table from independence. The share of the noisy table's D that the rows have is
# the inner product of the two deviations divided by the square of the noisy one, both corrected for
# noise: the noise variance is subtracted from the square, and the part of it that the fit passed on
# from the product.

SURE = 3.0
"""Minimum dependence of a pair, in standard deviations of its noise; others are left out."""


def association_kept(
    tables: TableSums, values: Mapping[str, Integers], *, weight: float, shrinkage: float
) -> dict[tuple[str, str], float]:
    """Return the share of dependence that remains in the rows, for measured, dependent pairs.

    `values` are the counted values of the rows, `weight` the number of original rows that each
    represents, and `shrinkage` the strength of the regularizer in standard deviations of the noise.
    """
    found: dict[tuple[str, str], float] = {}
    for margin in tables.margins():
        if len(margin.columns) != 2:
            continue
        first, second = (
            places[tables.measured.buckets[name]][values[name]]
            for name, places in zip(margin.columns, margin.places, strict=True)
        )
        shape = margin.counts.shape
        cells = np.bincount(first * shape[1] + second, minlength=margin.counts.size)
        rows: Floats = (weight * cells).astype(np.float64).reshape(shape)
        even = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / max(float(rows.sum()), 1.0)
        noisy, fitted = margin.counts - even, rows - even
        let_through = rows / (rows + shrinkage * margin.variance**0.5)
        squares = float(np.sum(noisy**2)) - margin.variance * noisy.size
        unsure = margin.variance * (2 * noisy.size) ** 0.5
        if squares > SURE * unsure:
            both = float(np.sum(noisy * fitted)) - margin.variance * float(let_through.sum())
            one, two = margin.columns
            found[one, two] = min(max(both / squares, 0.0), 1.0)
    return found


# Weights of the rows of a quilt, drawn from the uncertainty of its noisy tables.
#
# The rows follow the tables only as far as the fit allowed: noise was shrunk, and dependence with
# it. Here tables are drawn from their uncertainty, and rows are weighted to agree with them:
#
# 1. Weights are raked (Deming and Stephan 1940) to noisy tables with fresh noise of the same size,
# made
#    nonnegative. This leaves noise in empty cells, which weakens the correlation of numbers.
# 2. So the weights are tilted until sums, squares and products of numbers are those drawn for them.
#    These are linear in the noisy tables, unbiased, and drawn with all their covariances.
#
# Several such weightings differ from each other as each differs from the truth, as far as the
# tables determine it.

N_SWEEPS = 4


@dataclass(frozen=True, eq=False)
class QuiltRows:
    """The rows of a quilt."""

    schema: Schema
    codes: Mapping[str, Integers]  # codes of the schema, by column
    values: Mapping[str, Integers]  # counted values, by column


def redrawn_weights(tables: TableSums, rows: QuiltRows, rng: Generator) -> Floats:
    """Draw a weight for each row; weights sum to the drawn number of rows of the table."""
    total = max(1.0, tables.draw_total(rng))
    weights = _raked(tables, rows, total, rng)
    functions = _numbers(tables, rows.schema)
    if functions:
        weights = _tilted(tables, rows, functions, weights, rng)
    return np.asarray(weights * (total / max(float(weights.sum()), 1e-9)))


def _raked(tables: TableSums, rows: QuiltRows, total: float, rng: Generator) -> Floats:
    n_rows = len(next(iter(rows.values.values())))
    targets: list[tuple[Integers, Floats]] = []
    for name, of_rows in rows.values.items():
        buckets = tables.measured.buckets[name]
        by_bucket = np.bincount(buckets, tables.draw_column(name, rng))
        targets.append((buckets[of_rows], project_to_simplex(by_bucket, total)))
    for margin in tables.margins():
        cells = np.zeros(n_rows, np.int64)
        for name, places in zip(margin.columns, margin.places, strict=True):
            mine = places[tables.measured.buckets[name]][rows.values[name]]
            cells = cells * (int(places.max()) + 1) + mine
        noise = rng.normal(0.0, margin.variance**0.5, margin.counts.size)
        targets.append((cells, project_to_simplex(margin.counts.ravel() + noise, total)))
    weights: Floats = np.full(n_rows, total / max(1, n_rows))
    for _ in range(N_SWEEPS):
        for cells, target in targets:
            there = np.bincount(cells, weights, len(target))
            ratio = np.clip(target / np.maximum(there, 1e-9), 1 / MOST, MOST)
            weights = weights * ratio[cells]
    return weights


def _numbers(tables: TableSums, schema: Schema) -> list[RowFunction]:
    """Return numbers, their squares, and products of numbers that were measured together."""
    columns = {
        name: column
        for name, column in schema.attributes.items()
        if isinstance(column, Integer | Number)
    }
    made = [power(name, column, k) for name, column in columns.items() for k in (1, 2)]
    for one, two in combinations(columns, 2):
        if tables.margin(tuple(sorted((one, two)))) is not None:
            made.append(power(one, columns[one], 1) * power(two, columns[two], 1))
    return made


def _tilted(
    tables: TableSums,
    rows: QuiltRows,
    functions: list[RowFunction],
    weights: Floats,
    rng: Generator,
) -> Floats:
    """Multiply weights by the exponential of a sum of functions until means are as drawn."""
    told = [(one, tables.linear(one)) for one in functions]
    known = [(one, linear) for one, linear in told if linear is not None]
    found = tables.sums([linear for _, linear in known], together=True)
    covariance = found.privacy + found.model
    drawn = rng.multivariate_normal(found.values, covariance, method="eigh")
    wanted = drawn / max(1.0, tables.total)
    values = np.stack([one.values(rows.codes) for one, _ in known])
    return tilted(weights, values, wanted)
