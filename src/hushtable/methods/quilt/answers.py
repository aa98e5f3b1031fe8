"""Sums over rows from noisy tables: measured and coarse components, with their noise.

See `hushtable.methods.quilt.measurements` for components and their sources.

Where the cells of tables decide a function, generalized least squares combines all tables into the
best linear unbiased estimate (`TableSums.decided`).

Other functions (products of numbers, conditions inside merged values, many sums with their
covariance) are written as linear combinations of components (`TableSums.linear`): a constant, a
function of each column, and for each larger set of columns a part that sums to zero along each of
its axes. In a table with equal noise in all cells, such parts are uncorrelated. So this is the
least-squares estimate from all tables without solving for their cells, and its variance is a sum of
squares. One-way tables are finer than the others, which count buckets of merged values; for them
the covariance with the total is computed.

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

from hushtable.arrays import Bools, ColumnCodes, Floats, Integers
from hushtable.methods.quilt.measurements import (
    WITHIN,
    ClassTotals,
    Component,
    Group,
    TableBasis,
    WithinBins,
    decompose,
    first_of,
    gram,
    range_in_bins,
)
from hushtable.numeric import NORMAL, nearly_normal, project_to_simplex
from hushtable.query.answers.published import Generator
from hushtable.query.answers.resampling import MOST, tilted
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, power
from hushtable.schema import Integer, Number, Schema

LEAST_BETWEEN = 0.8
"""Minimum share of a factor's variance between cells for which tables of cells are used."""

CORRECTED = 0.5
"""Largest relative error of the correction for merged values."""

CORRECTED_RISE = 4.0
"""Relative error of this correction, per share of a factor's variance inside cells."""

MAX_GRID = 2_000_000  # combinations of codes that are enumerated


class _NoisySums:
    """Weighted sums of independent noisy totals, accumulated term by term."""

    def __init__(self, n: int, *, together: bool = True) -> None:
        self.together = together  # False: compute no covariance between the sums
        self.values: Floats = np.zeros(n)
        self.covariance: Floats = np.zeros((n, n))
        self.fourth: Floats = np.zeros(n)  # fourth cumulant of the noise

    def add(self, weights: Floats, totals: ClassTotals) -> None:
        """Add weights (sums, totals) times totals."""
        self.values += weights @ totals.sums
        self.add_products(weights * totals.variances, weights)
        if totals.fourth.any():
            self.fourth += weights**4 @ totals.fourth

    def add_solution(self, solution: Floats, known: Sequence[ClassTotals]) -> None:
        """Add least-squares sums, given the weights of classes times their covariance."""
        for one in known:
            summed = [np.bincount(one.place, s, len(one.sums)) for s in solution]
            self.add(np.stack(summed) / one.variances, one)

    def add_products(self, one: Floats, other: Floats) -> None:
        """Add the product ``one @ other.T`` to the covariance; both have shape (sums, terms)."""
        if self.together:
            self.covariance += one @ other.T
        else:
            self.covariance += np.diag(np.einsum("ij,ij->i", one, other))

    def estimates(self, basis: TableBasis, model: Floats) -> SumEstimates:
        """Return the sums; the critical value is that of the sum with the heaviest tails."""
        variances = self.covariance.diagonal() ** 2
        there = variances > 0
        excess = float(np.max(self.fourth[there] / variances[there], initial=0.0))
        z = nearly_normal(min(basis.kurtosis, excess))
        return SumEstimates(self.values, self.covariance, model, privacy_z=z)


@dataclass(eq=False)
class LinearQuery:
    """A sum over rows as a linear combination of the total, single values and components."""

    constant: float = 0.0  # weight of the total
    values: dict[str, Floats] = field(default_factory=dict)  # weights of values, by column
    # Weights of cells, which sum to zero along each axis.
    components: dict[Component, Floats] = field(default_factory=dict)
    # For binned columns, the deviation of the function from its mean in the bin, by code.
    model: dict[str, Floats] = field(default_factory=dict)
    # For binned columns in a condition: by bin, the largest change of the sum that is possible if
    # all rows of the bin have the same value.
    heaps: dict[str, Floats] = field(default_factory=dict)
    inside: float = 0.0  # standard deviation of the error from merged values

    def add_column(self, name: str, weights: Floats) -> None:
        """Add a function of the values of one column."""
        self.values[name] = self.values.get(name, 0.0) + weights


class TableSums:
    """Sums of functions over rows, from measured tables."""

    def __init__(self, basis: TableBasis) -> None:
        self.basis = basis

    @cached_property
    def total(self) -> SumEstimates:
        """The number of rows."""
        return self._least_squares(np.ones((1, 1)), [self.basis.total])

    # --- least squares ----------------------------------------------------------------------------

    def decided(
        self, columns: Group, wanted: Bools | Floats, *, with_total: bool = False
    ) -> SumEstimates | None:
        """Estimate a weighted sum of combinations of codes by generalized least squares.

        `wanted` has one axis per column, over its codes: the combinations to count, or the weight
        of each. With `with_total`, the number of rows is estimated as the second sum. Return None
        if no table distinguishes these combinations.
        """
        basis, weights = self.basis, np.asarray(wanted, np.float64)
        tables = basis.having(columns)
        classes: dict[str, Integers] = {}
        for axis, name in enumerate(columns):
            offered = sorted((basis.axis(t, name) for t in tables), key=lambda c: int(c.max()))
            if len(columns) == 1:
                offered = [self._classes_of_values(name, weights)]
            for of_value in offered:
                of_code = of_value[basis.bins[name]]
                first = first_of(of_code)
                if (weights.take(first[of_code], axis) == weights).all():
                    classes[name] = of_value
                    weights = weights.take(first, axis)
                    break
            else:
                return None
        if not any(basis.distinguishes(table, classes) for table in tables):
            return None
        known = basis.known(classes) if classes else [basis.total]
        weights = weights.reshape(1, -1)
        if with_total:
            weights = np.concatenate([weights, np.ones_like(weights)])
        return self._least_squares(weights, known)

    def _classes_of_values(self, name: str, weights: Floats) -> Integers:
        """Return the class of each value of a column.

        Values share a class if they have equal weights and no bucket or coarse one-way table
        distinguishes them.
        """
        basis = self.basis
        coarse = [t.cells[0] for t in basis.tables if t.columns == (name,) and t.is_coarse]
        seen = np.stack([basis.buckets[name], weights[first_of(basis.bins[name])], *coarse])
        return np.unique(seen, axis=1, return_inverse=True)[1].ravel()

    def _least_squares(self, weights: Floats, known: Sequence[ClassTotals]) -> SumEstimates:
        """Estimate weighted sums of classes; `weights` has shape (sums, classes)."""
        found = _NoisySums(len(weights))
        if len(known) == 1 and len(known[0].sums) == weights.shape[1]:
            found.add(weights, known[0])
        else:
            solution = np.linalg.solve(gram(known), weights.T).T.astype(np.float64)
            found.add_solution(solution, known)
        return found.estimates(self.basis, np.zeros_like(found.covariance))

    # --- functions as linear combinations ---------------------------------------------------------

    def linear(self, function: RowFunction) -> LinearQuery | None:
        """Return the sum of a function as a linear combination; None if not determined."""
        if function.over_rows is not None:
            return self._joint(function)
        basis, scale = self.basis, 1.0
        within = dict[str, WithinBins]()
        for name, factor in sorted(function.factors.items()):
            if (factor == factor[0]).all():
                scale *= float(factor[0])
            else:
                within[name] = WithinBins(factor, basis.bins[name])
        factors = {name: parts.mean for name, parts in within.items()}
        if len(factors) > 1 and not self._resolves(factors):
            return None
        made = LinearQuery()
        if not factors or scale == 0.0:
            made.constant = scale
            return made
        means = {name: float(basis.shares(name) @ factor) for name, factor in factors.items()}
        self._add_product(made, scale, factors, means)
        ranges = range_in_bins(function, basis.bins)
        for name, parts in within.items():
            if parts.is_binned:
                others = scale * prod(mean for other, mean in means.items() if other != name)
                made.model[name] = others * parts.deviation
                if name in ranges:
                    made.heaps[name] = abs(others) * self._there(name) * ranges[name]
        return made

    def _there(self, name: str) -> Floats:
        """Return the estimated number of rows with each value of a column."""
        return np.asarray(self.basis.total.sums * self.basis.shares(name))

    def _add_product(
        self,
        made: LinearQuery,
        scale: float,
        factors: Mapping[str, Floats],
        means: Mapping[str, float],
    ) -> None:
        """Add a product: its mean, a part per column, and one per larger set of columns."""
        if len(factors) == 1:
            ((name, factor),) = factors.items()
            made.add_column(name, scale * factor)
            return
        for order in range(len(factors) + 1):
            for group in combinations(factors, order):
                others = scale * prod(mean for name, mean in means.items() if name not in group)
                if not group:
                    made.constant += others
                elif len(group) == 1:
                    made.add_column(group[0], others * (factors[group[0]] - means[group[0]]))
                else:
                    self._add_group(made, group, others, factors, means)

    def _resolves(self, factors: Mapping[str, Floats]) -> bool:
        """Return whether a table of all columns has most of each factor's variance."""
        component = self.basis.best(tuple(factors))
        return component is not None and all(
            self._between(name, factor, cells)[1] >= LEAST_BETWEEN
            for (name, factor), cells in zip(factors.items(), component.cells, strict=True)
        )

    def _between(self, name: str, factor: Floats, places: Integers) -> tuple[Floats, float]:
        """Return the mean of a factor in each cell, and the share of its variance between cells."""
        shares = self.basis.shares(name)
        cells = places[self.basis.buckets[name]]
        mass = np.bincount(cells, shares)
        plain = np.bincount(cells, factor) / np.bincount(cells)
        weighed = np.bincount(cells, shares * factor) / np.where(mass > 0, mass, 1.0)
        means: Floats = np.where(mass > 0, weighed, plain)
        if np.allclose(factor, means[cells]):
            return means, 1.0
        inside = float(shares @ (factor - means[cells]) ** 2)
        variance = float(shares @ (factor - float(shares @ factor)) ** 2)
        return means, 1.0 - inside / variance if variance > 0 else 0.0

    def _correction(self, name: str, factor: Floats, places: Integers, means: Floats) -> Floats:
        """Return what to add to each cell's score to restore covariance lost inside cells.

        The sum of f * g over rows has a part between cells, from the cell means of f, and a part
        inside cells, which a table of cells does not show. Assume that inside a cell g is linear in
        f, with the slope fitted by weighted least squares to the cell and its two neighbors (cells
        ordered by their mean of f). The missing part is the slope times the sum of squared
        deviations of f inside the cell. The slope is linear in the three cell totals of g, so the
        correction is a score per cell.
        """
        shares = self.basis.shares(name)
        cells = places[self.basis.buckets[name]]
        mass = np.bincount(cells, shares)
        inside = np.bincount(cells, shares * (factor - means[cells]) ** 2)
        added = np.zeros(len(means))
        order = np.argsort(means, kind="stable")
        for at in np.flatnonzero(inside[order] > 1e-15).tolist():
            near = order[max(0, at - 1) : at + 2]
            weights = mass[near]
            if weights.sum() <= 0:
                continue
            centered = means[near] - weights @ means[near] / weights.sum()
            squares = float(weights @ centered**2)
            if squares > 1e-15:
                added[near] += inside[order[at]] * centered / squares
        return added

    def _add_group(
        self,
        made: LinearQuery,
        group: Group,
        scale: float,
        factors: Mapping[str, Floats],
        means: Mapping[str, float],
    ) -> None:
        """Add the part of a group: the product of its centered factors.

        It comes from the resolution with the smallest expected error for these factors.
        """
        offered = [
            self._of_group(component, scale, factors, means)
            for component in self.basis.resolutions(group)
        ]
        inside, component, weights = min(
            offered, key=lambda one: one[0] ** 2 + one[1].variance * float(np.sum(one[2] ** 2))
        )
        made.inside = float(np.hypot(made.inside, inside))
        self._add_cells(made, component, weights)

    def _of_group(
        self,
        component: Component,
        scale: float,
        factors: Mapping[str, Floats],
        means: Mapping[str, float],
    ) -> tuple[float, Component, Floats]:
        """Return the error from merged values, the component, and weights of its cells."""
        plain, corrected, between, most = np.array(scale), np.array(scale), 1.0, abs(scale)
        worst = 0.0
        for name, places in zip(component.columns, component.cells, strict=True):
            cells, share = self._between(name, factors[name], places)
            score = cells - means[name]
            plain = np.multiply.outer(plain, score)
            score = score + self._correction(name, factors[name], places, cells)
            corrected = np.multiply.outer(corrected, score)
            between *= share
            worst = max(worst, 1 - share)
            most *= float(self.basis.shares(name) @ (factors[name] - means[name]) ** 2) ** 0.5
        if between >= 1.0:
            return 0.0, component, corrected
        change = float(np.sum((corrected - plain) * component.counts))
        wrong = min(CORRECTED, CORRECTED_RISE * worst) * change
        # Independent columns are dependent inside cells, too, by chance.
        within = (WITHIN**2 + 1 / self.basis.rows) ** 0.5 * most
        within *= self.basis.rows * (1 - between) ** 0.5
        return float(np.hypot(wrong, within)), component, corrected

    def _add_cells(self, made: LinearQuery, component: Component, weights: Floats) -> None:
        """Add a weighted sum of cells, split into parts that sum to zero along each axis."""
        for kept, part in decompose(weights):
            names = tuple(component.columns[axis] for axis in kept)
            places = tuple(component.cells[axis] for axis in kept)
            if not kept:
                made.constant += float(part)
            elif len(kept) == 1:
                made.add_column(names[0], part[places[0][self.basis.buckets[names[0]]]])
            else:
                own = self.basis.at(names, places)
                made.components[own] = made.components.get(own, 0.0) + part

    def _joint(self, function: RowFunction) -> LinearQuery | None:
        """Express a function of several columns jointly as weights of the cells of one table."""
        columns = tuple(sorted(function.columns))
        component = self.basis.best(columns) if len(columns) > 1 else None
        sizes = [len(self.basis.bins[name]) for name in columns]
        if component is None or prod(sizes) > MAX_GRID:
            return None
        codes = dict(zip(columns, np.indices(sizes).reshape(len(sizes), -1), strict=True))
        values = function.values(codes)
        cells, size = self.basis.cells_of(component, codes), component.counts.size
        n = np.bincount(cells, minlength=size)
        means = np.bincount(cells, values, size) / n
        variances = np.bincount(cells, (values - means[cells]) ** 2, size) / n
        there = np.maximum(component.counts.ravel(), 0.0)
        inside = float(there[variances > 1e-12].sum() * (there @ variances) / 2) ** 0.5
        if inside > (1 - LEAST_BETWEEN) * max(1.0, float(there @ np.abs(means))):
            return None
        made = LinearQuery(inside=inside)
        self._add_cells(made, component, means.reshape(component.counts.shape))
        return made

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, linear: Sequence[LinearQuery], *, together: bool) -> SumEstimates:
        """Return sums of functions with the covariance of the noise.

        All tables with a column estimate the counts of its buckets. A function of the column is
        split into a multiple of the total and a rest that is uncorrelated with the total. Then
        every table has weights that sum to 0 in the rest, so it is uncorrelated with the rest of
        other columns and with components of several columns, too.
        """
        basis = self.basis
        constants = np.array([one.constant for one in linear])
        found = _NoisySums(len(linear), together=together)
        for name in dict.fromkeys(name for one in linear for name in one.values):
            zero, buckets = np.zeros(len(basis.buckets[name])), basis.buckets[name]
            functions = np.stack([one.values.get(name, zero) for one in linear])
            sums = np.stack([np.bincount(buckets, function) for function in functions])
            means: Floats = sums / np.bincount(buckets)
            found.add(functions - means[:, buckets], basis.values(name).totals)
            noise = basis.noise(name)
            with_total = noise.sum(axis=1)
            multiples = means @ with_total / with_total.sum()
            constants = constants + multiples
            found.add_solution((means - multiples[:, None]) @ noise, basis.of_buckets(name))
        found.add(constants[:, None], basis.total)
        for component in dict.fromkeys(own for one in linear for own in one.components):
            zero = np.zeros(component.counts.shape)
            weights = np.stack([one.components.get(component, zero).ravel() for one in linear])
            found.add(weights, component.totals)
        return found.estimates(basis, self._model(linear, together=together))

    def _model(self, linear: Sequence[LinearQuery], *, together: bool) -> Floats:
        """Return the covariance of the model error from buckets and public bins."""
        inside = np.array([one.inside for one in linear])
        model = np.diag(inside**2)
        if together:
            groups = [frozenset(one.components) for one in linear]
            same = np.array([[one == other for other in groups] for one in groups])
            model = np.where(same, np.outer(inside, inside), 0.0)
        for name in dict.fromkeys(name for one in linear for name in one.model):
            bins, there = self.basis.bins[name], self._there(name)
            widths = np.bincount(bins)
            per_code = (there / widths)[bins] * there[widths > 1].sum() / 2
            # Loop instead of a matrix product: a column may have ten million codes.
            binned = [place for place, one in enumerate(linear) if name in one.model]
            errors = np.zeros_like(model)
            for n_before, place in enumerate(binned):
                weighed = linear[place].model[name] * per_code
                for other in (*binned[:n_before], place) if together else (place,):
                    both = float(np.einsum("i,i->", weighed, linear[other].model[name]))
                    errors[place, other] = errors[other, place] = both
            variances = errors.diagonal().tolist()
            limits = [_limit(o.heaps.get(name), v) for o, v in zip(linear, variances, strict=True)]
            model += errors * np.outer(limits, limits)
        return np.asarray(model)


def _limit(heaps: Floats | None, variance: float) -> float:
    """Return the factor that limits a deviation to what the rows of partly covered bins allow.

    All bins may deviate in the same direction, by at most all of their rows. Independent deviations
    of single bins are added separately (`ModelError.heaped`).
    """
    if heaps is None or variance <= 0:
        return 1.0
    most = (float(heaps.sum()) ** 2 - float(heaps @ heaps)) / NORMAL**2
    return float(min(1.0, max(0.0, most) / variance) ** 0.5)


# Share of the dependence between columns that remains in the rows of a quilt.
#
# The noisy tables are unbiased, the rows are not: the fit shrinks noise, and dependence with it.
# Both are published, so the loss can be estimated for each pair without the private table. Let D be
# the deviation of a table from independence. The share of the noisy table's D that the rows have is
# the inner product of the two deviations divided by the square of the noisy one, both corrected for
# noise: the noise variance is subtracted from the square, and the part of it that the fit passed on
# from the product.

CLEAR_DEPENDENCE = 3.0
"""Minimum dependence of a pair, in standard deviations of its noise; others are left out."""


def association_kept(
    basis: TableBasis, codes: ColumnCodes, *, weight: float, shrinkage: float
) -> dict[tuple[str, str], float]:
    """Return the share of dependence that remains in the rows, for measured, dependent pairs.

    `codes` are the rows, `weight` the number of original rows that each represents, and `shrinkage`
    the strength of the regularizer in standard deviations of the noise.
    """
    found: dict[tuple[str, str], float] = {}
    for pair in basis.measured():
        if len(pair.columns) != 2:
            continue
        counts, variance = pair.counts, pair.variance
        cells = np.bincount(basis.cells_of(pair, codes), minlength=counts.size)
        rows: Floats = (weight * cells).astype(np.float64).reshape(counts.shape)
        even = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / max(float(rows.sum()), 1.0)
        noisy, fitted = counts - even, rows - even
        passed_on = rows / (rows + shrinkage * variance**0.5)
        squares = float(np.sum(noisy**2)) - variance * noisy.size
        if squares > CLEAR_DEPENDENCE * variance * (2 * noisy.size) ** 0.5:
            both = float(np.sum(noisy * fitted)) - variance * float(passed_on.sum())
            found[pair.columns[0], pair.columns[1]] = min(max(both / squares, 0.0), 1.0)
    return found


# Weights of the rows of a quilt, drawn from the uncertainty of its noisy tables.
#
# The rows follow the tables only as far as the fit allowed: noise was shrunk, and dependence with
# it. Here tables are drawn from their uncertainty, and rows are weighted to agree with them:
#
# 1. Weights are raked (Deming and Stephan 1940) to noisy tables with fresh noise of the same size,
#    made nonnegative. This leaves noise in empty cells, which weakens the correlation of numbers.
# 2. So the weights are tilted until sums, squares and products of numbers are those drawn for them.
#    These are linear in the noisy tables, unbiased, and drawn with all their covariances.
#
# Several such weightings differ from each other as each differs from the truth, as far as the
# tables determine it.

N_SWEEPS = 4


def redrawn_weights(
    tables: TableSums, schema: Schema, codes: ColumnCodes, rng: Generator
) -> Floats:
    """Draw a weight for each row; weights sum to the drawn number of rows of the table."""
    known = tables.basis.total
    total = max(1.0, float(rng.normal(known.sums[0], known.variances[0] ** 0.5)))
    weights = _raked(tables.basis, codes, total, rng)
    functions = _numbers(tables.basis, schema)
    if functions:
        weights = _tilted(tables, codes, functions, weights, rng)
    return np.asarray(weights * (total / max(float(weights.sum()), 1e-9)))


def _raked(basis: TableBasis, codes: ColumnCodes, total: float, rng: Generator) -> Floats:
    n_rows = len(next(iter(codes.values())))
    targets: list[tuple[Integers, Floats]] = []
    for name, of_rows in codes.items():
        by_bucket = rng.multivariate_normal(basis.bucket_counts(name), basis.noise(name))
        of_code = basis.buckets[name][basis.bins[name]]
        targets.append((of_code[of_rows], project_to_simplex(by_bucket, total)))
    for component in basis.measured():
        noise = rng.normal(0.0, component.variance**0.5, component.counts.size)
        target = project_to_simplex(component.counts.ravel() + noise, total)
        targets.append((basis.cells_of(component, codes), target))
    weights: Floats = np.full(n_rows, total / max(1, n_rows))
    for _ in range(N_SWEEPS):
        for cells, target in targets:
            there = np.bincount(cells, weights, len(target))
            ratio = np.clip(target / np.maximum(there, 1e-9), 1 / MOST, MOST)
            weights = weights * ratio[cells]
    return weights


def _numbers(basis: TableBasis, schema: Schema) -> list[RowFunction]:
    """Return numbers, their squares, and products of numbers that were measured together."""
    columns = {
        name: column
        for name, column in schema.attributes.items()
        if isinstance(column, Integer | Number)
    }
    made = [power(name, column, k) for name, column in columns.items() for k in (1, 2)]
    for one, two in combinations(columns, 2):
        if basis.having([one, two]):
            made.append(power(one, columns[one], 1) * power(two, columns[two], 1))
    return made


def _tilted(
    tables: TableSums,
    codes: ColumnCodes,
    functions: list[RowFunction],
    weights: Floats,
    rng: Generator,
) -> Floats:
    """Multiply weights by the exponential of a sum of functions until means are as drawn."""
    pairs = [(one, tables.linear(one)) for one in functions]
    known = [(one, linear) for one, linear in pairs if linear is not None]
    found = tables.sums([linear for _, linear in known], together=True)
    covariance = found.privacy + found.model
    drawn = rng.multivariate_normal(found.values, covariance, method="eigh")
    values = np.stack([one.values(codes) for one, _ in known])
    return tilted(weights, values, drawn / tables.basis.rows)
