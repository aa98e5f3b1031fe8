"""Error of sums over synthetic rows: the variances of coarse and modeled components.

See `hushtable.methods.quilt.measurements` for components and their sources. `ModelError.of` takes a
sum that no measured table determines and returns two variances for it: one from noise, one from
what the model does not know. Components are computed with the synthetic rows as weights
(`interaction`). The error of a component comes from one marginal of the model:

- The total and one-way marginals are known up to noise of known size. If the rows were shrunk
  toward a simple shape inside buckets, the distance between this shape and the noisy counts is
  added (`_column`).
- In a pair that was measured, the fit passes on part of the noise, and its regularizer
  biases cells toward the model without that table. The distance between noisy and fitted table,
  minus the noise, estimates this bias (`_fitted`).
- In a pair that was never measured, the relative error of a cell is unknown. It is estimated from
  the tables measured last: they were selected because the model seemed to fit them worst, so it
  fits the others no worse (`UnmeasuredError`).
- Dependence of higher order is not measured. It is allowed for by the variance that the count would
  have if the private rows had been drawn from the model. `limits` bounds what it may do.
- Rare values that were merged share the dependence of their bucket. Dependence inside a bucket is
  unknown (`_inside_buckets`), and so is the position of a row inside a public bin (`_inside_bins`).

The first, and the noise passed on in the second, count as noise; the rest as model error.

The errors of two sums from one source are as correlated as the sums' components (`covariances`).
The components are orthogonal under the rows, so their variances add, and a source that does not
affect a condition adds nothing: a condition on one column has the error of that column and of the
sampling, however inaccurate the pairs are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hushtable.arrays import Bools, ColumnCodes, Floats, Integers
from hushtable.methods.quilt.measurements import (
    Component,
    Group,
    TableBasis,
    WithinBins,
    by_bin,
    interaction,
    range_in_bins,
)
from hushtable.query.answers.row_sums import RowFunction

ValueOf = Callable[[ColumnCodes], Floats]
"""Contribution of each row to a sum, for rows given as codes."""

BUCKET_SHARE = 1.0
"""Error of cells inside merged buckets, as a share of their counts."""

ROWS_DRAWN = 1.0
"""Variance of a count per row because synthetic rows are a sample from the model."""

TABLE_DRAWN = 1.0
"""The same for the private table, which differs from the model as if drawn from it."""

PAIR = 2  # number of columns up to which errors of marginals are estimated directly

N_LAST = 6
"""Number of multi-way tables, those measured last, that estimate the error in unmeasured ones."""

_FEW = 20  # values with fewer rows borrow rows of other values
_STAND_INS = 5.0  # number of rows that the borrowed ones count as
_MAX_STAND_INS = 50_000
_N_PLACES = 8  # positions of a bin that are evaluated
_N_UNSEEN = 4  # sampled rows that represent those of an empty cell
_MAX_LOOKED_INTO = 100_000  # cells of two columns that are resolved by single values
_FEW_COLUMNS = 4  # up to this number of columns, borrowed rows are cached
_MAX_KEPT = 5000  # up to this number of rows, their cells are cached


@dataclass(frozen=True)
class ErrorVariance:
    """Variances of two sources of error."""

    privacy: float = 0.0
    model: float = 0.0

    def __add__(self, other: ErrorVariance) -> ErrorVariance:
        return ErrorVariance(self.privacy + other.privacy, self.model + other.model)

    def times(self, factor: float) -> ErrorVariance:
        """Return the variances multiplied by a factor."""
        return ErrorVariance(factor * self.privacy, factor * self.model)


@dataclass(frozen=True, eq=False)
class ErrorSource:
    """Error of a sum from one source.

    `weights` are those of the source's independent errors in the sum, up to a factor: the errors of
    two sums from one source are as correlated as their weights.
    """

    variance: ErrorVariance
    weights: Floats


Source = tuple[str, ...]  # columns, or a kind of error


def covariances(
    sums: Iterable[Mapping[Source, ErrorSource]], *, together: bool
) -> tuple[Floats, Floats]:
    """Return the covariance of the noise and of the model error of sums, given their sources."""
    known = list(sums) if together else []
    totals = [sum((one.variance for one in of.values()), ErrorVariance()) for of in known or sums]
    privacy = np.diag([total.privacy for total in totals])
    model = np.diag([total.model for total in totals])
    for source in dict.fromkeys(source for one in known for source in one):
        places = [place for place, one in enumerate(known) if source in one]
        own = [known[place][source] for place in places]
        weights = np.stack([one.weights.ravel() for one in own])
        unit = weights / np.maximum(np.linalg.norm(weights, axis=1), 1e-300)[:, None]
        correlation = unit @ unit.T
        np.fill_diagonal(correlation, 0.0)
        stds = np.array([(one.variance.privacy, one.variance.model) for one in own]).T ** 0.5
        privacy[np.ix_(places, places)] += np.outer(stds[0], stds[0]) * correlation
        model[np.ix_(places, places)] += np.outer(stds[1], stds[1]) * correlation
    return privacy, model


@dataclass(frozen=True)
class UnmeasuredError:
    """Error of the model in a marginal that was never measured.

    It is estimated from the tables measured last: the squared distance between each noisy table and
    the model's prediction, minus the noise, plus a standard error. The model seemed to fit those
    tables worst, so on average it fits the others no worse.

    This gives a sum of squares over a table, but not its distribution over cells. Two are tried and
    the larger variance is used: the same relative error in all cells, or a variance proportional to
    the count, so that small cells have larger relative errors.
    """

    share: float  # standard deviation of a cell's error, divided by its count
    per_row: float  # variance of a cell's error, divided by its count
    # Selection penalizes each cell for its noise, so a table of many cells may fit worse by that
    # much and not be selected. As a share of all rows; assumed uniform from 0 to this.
    per_cell: float = 0.0

    @classmethod
    def estimated(cls, rounds: Sequence[Mapping[str, Any]], basis: TableBasis) -> UnmeasuredError:
        """Estimate the error from the tables that were measured last.

        Before a group was measured, the model made a prediction for it: independence in the
        spanning forest, the fitted model in the rounds. The squared distance between noisy table
        and prediction, minus the noise, estimates that between truth and prediction. It is divided
        by the squares of the prediction, times the share of the table that lower-order marginals
        leave free. Its standard error is added because the groups are few. Nothing is added for
        noisy selection: the worse the model fits a group, the likelier its selection, so on average
        it fits the remaining groups no worse.
        """
        multiway = [table for table in basis.tables if len(table.columns) > 1]
        # The tables of the rounds come last; those before are compared with independence.
        predicted = [
            pair
            for made in rounds
            for pair in zip(made["squared_errors"], made["squared_predictions"], strict=True)
        ][-len(multiway) :]
        earlier = map(basis.distance_from_independence, multiway[: len(multiway) - len(predicted)])
        # Interactions were selected because no pair shows them: they say nothing about pairs.
        last = [
            (table, squares)
            for table, squares in zip(multiway, [*earlier, *predicted], strict=True)
            if len(table.columns) == PAIR
        ][-N_LAST:]
        if not last:
            return cls(1.0, 1.0)
        distance = sum(squares[0] for _, squares in last)
        noise = sum(table.counts.size * table.std**2 for table, _ in last)
        noise_error = sum(2 * table.counts.size * table.std**4 for table, _ in last) ** 0.5
        free = [math.prod((size - 1) / size for size in table.counts.shape) for table, _ in last]
        squares = sum(pair[1] * part for (_, pair), part in zip(last, free, strict=True))
        share = ((max(0.0, distance - noise) + noise_error) / max(squares, 1.0)) ** 0.5
        per_row = share**2 * squares / (basis.rows * sum(free))
        return cls(share, per_row, _per_cell(rounds, basis))

    def rising(self, part: Floats, counts: Floats) -> float:
        """Return the variance from an unmeasured monotone association of two ordered columns.

        Such errors have the same sign in all cells in which both columns are high or both are low.
        They add up in a sum in proportion to its component along the product of ranks.
        """
        scores = np.multiply.outer(*(_ranks(counts.sum(axis=1 - axis)) for axis in (0, 1)))
        along = float(np.sum(counts * part * scores)) ** 2
        squares = max(float(np.sum(counts * scores**2)), 1e-12)
        share = self.share**2 + min(1.0, self.per_cell * counts.size) ** 2 / 3
        return share * float(counts.sum()) * along / squares

    def variance(self, part: Floats, counts: Floats) -> float:
        """Return the variance of a weighted sum over cells."""
        by_squares = self.share**2 * float(np.sum((counts * part) ** 2))
        return max(by_squares, self.per_row * float(np.sum(counts * part**2)))


@dataclass(frozen=True)
class WeightedRows:
    """The rows that contribute to a sum, and their contributions."""

    where: Integers  # indices of the rows
    weights: Floats  # what each contributes, times its frequency


def _per_cell(rounds: Sequence[Mapping[str, Any]], basis: TableBasis) -> float:
    """Return the largest penalty per cell of the tables selected last, as a share of all rows.

    It is converted to a standard deviation, assuming a normal error.
    """
    names = list(basis.buckets)
    of_rounds = [
        [
            penalty / math.prod(basis.n_buckets[names[column]] for column in group)
            for group, penalty in zip(
                made.get("selected", ()), made.get("penalties", ()), strict=True
            )
            if len(group) == PAIR
        ]
        for made in rounds
    ]
    penalties: list[float] = next((found for found in reversed(of_rounds) if found), [])
    return float(max(penalties, default=0.0) / ((2 / math.pi) ** 0.5 * basis.rows))


class ModelError:
    """Error model of sums over the synthetic rows.

    Parameters
    ----------
    codes : mapping of str to int array
        The rows, as codes of the schema.
    weight : float
        Number of original rows that one synthetic row represents.
    basis : TableBasis
        The noisy tables to which the model was fitted.
    shrinkage : float
        Strength of the regularizer, in standard deviations of the noise.
    missed : UnmeasuredError
        Error in cells of pairs that were never measured.
    times : float array, optional
        Frequency of each row; 1 by default.
    ordered : frozenset of str
        The columns whose values have an order.
    """

    def __init__(
        self,
        codes: ColumnCodes,
        weight: float,
        basis: TableBasis,
        *,
        shrinkage: float,
        missed: UnmeasuredError,
        times: Floats | None = None,
        ordered: frozenset[str] = frozenset(),
    ) -> None:
        self.codes = codes
        self.weight = weight
        self.basis = basis
        self.shrinkage = shrinkage
        self.missed = missed
        n_rows = len(next(iter(codes.values())))
        self.times = np.ones(n_rows) if times is None else times
        self.ordered = ordered
        self._values = {name: basis.bins[name][of_rows] for name, of_rows in codes.items()}
        self._codes_of_values: dict[str, tuple[Integers | None, Integers]] = {}
        self._posed: dict[str, dict[str, Integers]] = {}
        self._counts: dict[tuple[Group, frozenset[str]], tuple[Integers, Floats]] = {}

    def of(self, columns: Sequence[str], added: Floats, function: ValueOf) -> ErrorVariance:
        """Return the error of a sum over the rows.

        `columns` determine the sum. `added` is the contribution of each row (1 if counted, else 0),
        and `function` computes it for other rows.
        """
        found = self.sources(columns, added, function)
        return sum((one.variance for one in found.values()), ErrorVariance())

    def sources(
        self, columns: Sequence[str], added: Floats, function: ValueOf
    ) -> dict[Source, ErrorSource]:
        """Return the error of a sum over the rows by source; see `of`."""
        n = float(self.times.sum())
        mean = float(added @ self.times) / n if n else 0.0
        least = float(np.max(added**2, initial=0.0)) or 1.0
        squares = float((added - mean) ** 2 @ self.times) + least * (1 - min(1.0, abs(mean)))
        # The errors of one- and two-way marginals are estimated directly; for more columns, allow
        # for the private table being a sample from the model.
        drawn = ROWS_DRAWN if len(columns) <= PAIR else ROWS_DRAWN + TABLE_DRAWN
        # `squares` includes one row more than observed, so that 0 is never certain.
        of_rows = ErrorVariance(0.0, drawn * self.weight * squares)
        of_total = ErrorVariance(mean**2 * float(self.basis.total.variances[0]))
        rows = self._added(added)
        found: dict[Source, ErrorSource] = {
            ("rows",): ErrorSource(of_rows, (added - mean) * np.sqrt(self.times)),
            ("total",): ErrorSource(of_total, np.array([mean])),
        }
        for name in columns:
            found["column", name] = self._column(name, rows, function)
        for pair in combinations(sorted(columns), 2):
            found["group", *pair] = self._group(pair, rows, function)
        return found

    def heaped(self, functions: Sequence[RowFunction], *, together: bool) -> Floats:
        """Return squared half-widths that allow for heaping inside public bins.

        A binned column is counted by bin, so the position of a row inside its bin is unknown.
        People round their answers: all rows of a bin may have the queried value, or none. Squared
        changes of a sum add over bins and columns. Two sums that query the same codes of a bin
        change together, so their ratio may be known although neither sum is: their product is
        weighted by the correlation of their factors over the codes.

        The result has shape (sums, sums); products are 0 unless `together`. Entries are squared
        half-widths: divide by the squared critical value before adding them to a covariance.
        """
        heaps = [self._heaps(function) for function in functions]
        found = np.zeros((len(heaps), len(heaps)))
        for i, one in enumerate(heaps):
            for j in range(i + 1) if together else (i,):
                for name in one.keys() & heaps[j].keys():
                    both = one[name] * heaps[j][name]
                    if i != j:
                        bins = self.basis.bins[name]
                        mine, other = (
                            WithinBins(functions[place].factors[name], bins) for place in (i, j)
                        )
                        both = mine.correlation(other) * both
                    found[i, j] += float(np.sum(both))
                found[j, i] = found[i, j]
        return found

    def _heaps(self, function: RowFunction) -> dict[str, Floats]:
        """Return the largest change of a sum if all rows of a bin are equal, by column and bin."""
        found = {}
        for name, ranges in range_in_bins(function, self.basis.bins).items():
            others = function.without(name).values(self.codes) * self.times
            there = np.bincount(self._values[name], others, len(ranges))
            found[name] = self.weight * ranges * there
        return found

    def _added(self, values: Floats) -> WeightedRows:
        where = np.flatnonzero(values)
        return WeightedRows(where, (values * self.times)[where])

    # --- single columns -------------------------------------------------------------------------

    def _column(self, name: str, added: WeightedRows, function: ValueOf) -> ErrorSource:
        """Return the error from one column.

        The noise variance has a part between buckets and one between their values. The model
        variance is that inside public bins and from shrinkage inside buckets.
        """
        places = self.basis.buckets[name]
        inside, everyone = self._rows_by_value(name, added, function)
        shares = inside / everyone
        merged = np.bincount(places, inside) / np.bincount(places, everyone)
        overall = inside.sum() / everyone.sum()
        noise, known = self.basis.noise(name), self.basis.values(name)
        # The fit uses all tables, so its error is at most that of their combined estimate.
        between = float((merged - overall) @ noise @ (merged - overall))
        apart = (shares - merged[places])[_is_merged(places)]
        within = float(apart @ apart) * known.variance
        # Inside buckets, rows were shrunk toward a simple shape: add the contrary evidence of the
        # counts, minus its noise.
        part = shares - overall
        gaps = known.counts - self.weight * np.bincount(self._values[name], self.times, len(places))
        along = float(part @ gaps) ** 2 - known.variance * float(part @ part)
        model = self._inside_bins(name, function) + max(0.0, along)
        return ErrorSource(ErrorVariance(between + within, model), part)

    def _rows_by_value(
        self, name: str, added: WeightedRows, function: ValueOf
    ) -> tuple[Floats, Floats]:
        """Return contributions and row counts by value of a column; every count is positive."""
        values, size = self._values[name], len(self.basis.buckets[name])
        everyone = np.bincount(values, self.times, size).astype(np.float64)
        inside = np.bincount(values[added.where], added.weights, size).astype(np.float64)
        rare = np.flatnonzero(everyone < _FEW)
        if len(rare):
            # Noise may have removed the rows of a rare value: borrow rows of other values.
            n_adding = float(self.times[added.where].sum())
            inside[rare] += _STAND_INS * self._stand_ins(name, rare, function, n_adding)
            everyone[rare] += _STAND_INS
        return inside, everyone

    def _inside_bins(self, name: str, function: ValueOf) -> float:
        """Return the variance from the unknown position of rows in public bins.

        Several positions are evaluated, not only the ends: the function may be equal at both ends
        and differ in between.
        """
        bins = self.basis.bins[name]
        if len(bins) == len(self.basis.buckets[name]):
            return 0.0
        values = self._values[name]
        wide = np.flatnonzero(np.bincount(bins)[values] > 1)  # others have one code
        values = values[wide]
        codes = {other: taken[wide] for other, taken in self.codes.items()}
        sums = []
        for part in np.linspace(0, 1, _N_PLACES):
            codes[name] = self._codes_at(name, part)[values]
            sums.append(np.bincount(values, function(codes) * self.times[wide]))
        return self.weight**2 * float(np.var(sums, axis=0).sum())

    def _codes_at(self, name: str, part: float) -> Integers:
        """Return a code for each value of a column, at a relative position (0 to 1) in its bin."""
        if name not in self._codes_of_values:
            self._codes_of_values[name] = by_bin(self.basis.bins[name])
        order, first = self._codes_of_values[name]
        sizes = np.diff(first, append=len(self.basis.bins[name]))
        places = first + np.rint(part * (sizes - 1)).astype(np.int64)
        return places if order is None else order[places]

    def _stand_ins(self, name: str, values: Integers, function: ValueOf, n_adding: float) -> Floats:
        """Estimate the mean contribution to a sum of rows that have each of some rare values.

        Noise may have removed the rows of a rare value. Assign the value to a sample of other rows
        and average `function` over them: the mean if the value is independent of other columns. But
        rows that share a rare value may be similar and contribute the same; the error of the sum
        then follows the root mean square. Return a weighted average of both, in which the root mean
        square has weight ``20 / (20 + n_adding)``: if many rows contribute, the sample is a good
        guide.
        """
        n = max(16, min(500, _MAX_STAND_INS // len(values)))
        codes = self._posed.get(name)  # the same values are rare in all questions
        if codes is None:
            first = self._codes_at(name, 0)[values]
            codes = self._rows_with({name: np.repeat(first[:, None], n, axis=1)})
            if len(self.codes) <= _FEW_COLUMNS:
                self._posed[name] = codes
        added = function(codes).reshape(len(values), n)
        mean = added.mean(axis=1)
        alike = np.copysign(np.sqrt((added**2).mean(axis=1)), mean)
        return np.asarray(mean + _FEW / (_FEW + n_adding) * (alike - mean))

    def _rows_with(self, posed: Mapping[str, Integers]) -> dict[str, Integers]:
        """Return sampled rows with the codes of some columns replaced.

        The same rows are used for each case (first axis), with its codes (second axis).
        """
        n_cases, n = next(iter(posed.values())).shape
        some = self._some_rows(tuple(self.codes), n)
        rows = {name: np.tile(codes, n_cases) for name, codes in some.items()}
        return rows | {name: codes.ravel() for name, codes in posed.items()}

    def _some_rows(self, columns: Sequence[str], n: int) -> dict[str, Integers]:
        """Return a systematic sample of the rows; if there are none, combinations of codes."""
        n_rows = float(self.times.sum())
        if n_rows:
            ends = np.cumsum(self.times)
            taken = np.searchsorted(ends, np.linspace(0, n_rows - 1, n), side="right")
            return {name: self.codes[name][taken] for name in columns}
        return {
            name: np.arange(n) * (2 * place + 1) % len(self.basis.bins[name])
            for place, name in enumerate(columns)
        }

    # --- pairs of columns -------------------------------------------------------------------------

    def _group(self, group: Group, added: WeightedRows, function: ValueOf) -> ErrorSource:
        """Return the error from the interaction of a pair of columns.

        It comes from the pair's measured table, or from `missed` if there is none.
        """
        shares, model = self._means(group, added)
        shares, counts = self._with_unseen(group, shares, model, function)
        part = interaction(shares, counts)
        known = self.basis.finest(group)
        spread = ErrorVariance(0.0, self._inside_buckets(group, part, added))
        if known is None:
            missed = self.missed.variance(part, counts)
            if self.ordered >= set(group):
                missed = max(missed, self.missed.rising(part, counts))
            spread += ErrorVariance(0.0, missed)
        else:
            # The error of the coarse table, and the unmeasured differences inside its cells.
            weights = _summed(counts, known.cells)
            mean = _summed(part * counts, known.cells) / np.maximum(weights, 1e-12)
            spread += self._fitted(mean, _summed(model, known.cells), known)
            inside = part - mean[np.ix_(*known.cells)]
            spread += ErrorVariance(0.0, self.missed.variance(inside, counts))
        return ErrorSource(spread, part * np.sqrt(counts))

    def _with_unseen(
        self, group: Group, shares: Floats, model: Floats, function: ValueOf
    ) -> tuple[Floats, Floats]:
        """Fill cells without synthetic rows with the counts expected under independence.

        Synthetic rows are a sample: a cell without them may have rows in the private table. The
        error of a cell scales with its count, so an empty cell would have no error at all. A bucket
        without any rows gets an equal part of the noise standard deviation of all such buckets.
        Return the means of `function` by cell (in filled cells, over sampled rows moved there) and
        the counts.
        """
        places = np.nonzero(model == 0)
        total = float(model.sum())
        if not len(places[0]) or not total:
            return shares, model
        sides = []
        for axis, name in enumerate(group):
            side = model.sum(axis=1 - axis)
            empty = side == 0
            hidden = float(np.diag(self.basis.noise(name))[empty].sum()) ** 0.5
            sides.append(np.where(empty, hidden / max(1, int(empty.sum())), side))
        counts = np.where(model > 0, model, np.multiply.outer(*sides) / total)
        filled = shares.copy()
        filled[places] = self._of_unseen(group, places, function)
        return filled, counts

    def _of_unseen(self, group: Group, places: tuple[Integers, ...], function: ValueOf) -> Floats:
        """Return the mean contribution of sampled rows moved to each of some cells."""
        pairs = zip(group, places, strict=True)
        codes = self._rows_with({name: self._some_codes(name)[buckets] for name, buckets in pairs})
        return np.asarray(function(codes).reshape(-1, _N_UNSEEN).mean(axis=1))

    def _some_codes(self, name: str) -> Integers:
        """Return some codes of each bucket of a column, from its first to its last value."""
        places = self.basis.buckets[name]
        order = np.argsort(places, kind="stable")
        sizes = np.bincount(places)
        steps = np.linspace(0, 1, _N_UNSEEN) * (sizes - 1)[:, None]
        values = order[(np.cumsum(sizes) - sizes)[:, None] + steps.astype(np.int64)]
        return np.asarray(self._codes_at(name, 0)[values])

    def _fitted(self, part: Floats, model: Floats, table: Component) -> ErrorVariance:
        """Return the error of a weighted sum over a table that the model was fitted to.

        The fit is penalized. If a noisy count changes by 1, the fitted count m changes by
        ``let_through = m / (m + shrinkage * std)``; this share of the noise is the privacy
        variance. The fit also biases counts toward the model without this table. The squared
        residuals, minus what noise contributes to them, estimate the sum of squared biases; its
        standard error is added.

        How this sum is distributed over cells is unknown. The model variance is the largest of
        three assumptions: proportional to the noise that each cell passes on (at most 25 times it),
        equal in all cells, or as large as the residual along `part`, minus its noise.
        """
        noisy, std = table.counts, table.variance**0.5
        let_through = model / (model + self.shrinkage * std)
        noise = (std * let_through) ** 2
        held_back = np.sum((noisy - model) ** 2 - (std * (1 - let_through)) ** 2)
        # The bias is estimated with noise: use at least the standard error of the estimate.
        unsure = std**2 * (2 * float(np.sum((1 - let_through) ** 4))) ** 0.5
        held_back = max(0.0, float(held_back)) + unsure
        scale = held_back / max(float(noise.sum()), 1e-12)
        variance = float(np.sum(noise * part**2))
        # Equal in all cells as well: an empty cell passes on no noise.
        held = max(min(scale, 25.0) * variance, held_back * float(np.mean(part**2)))
        # All biases may have the sign of `part`; the residual along it shows this, up to noise.
        along = float(np.sum((noisy - model) * part)) ** 2 - std**2 * float(np.sum(part**2))
        return ErrorVariance(variance, max(held, along))

    def _inside_buckets(self, group: Group, coarse: Floats, added: WeightedRows) -> float:
        """Return the variance from dependence between single values of merged buckets.

        `coarse` is the interaction of the pair, by bucket.
        """
        fine = self._looked_into(group)
        first, second = (
            self.basis.buckets[name] if name in fine else np.arange(self.basis.n_buckets[name])
            for name in group
        )
        inside = _is_merged(first)[:, None] | _is_merged(second)
        if not inside.any():
            return 0.0
        shares, model = self._means(group, added, fine)
        rest = interaction(shares, model) - coarse[first[:, None], second]
        return BUCKET_SHARE**2 * float(np.sum((model * rest)[inside] ** 2))

    def _looked_into(self, group: Group) -> frozenset[str]:
        """Return the columns to resolve by value: both, or the larger if cells are many."""
        sizes = {name: len(self.basis.buckets[name]) for name in group}
        if np.prod(list(sizes.values())) <= _MAX_LOOKED_INTO:
            return frozenset(group)
        return frozenset([max(group, key=lambda name: sizes[name])])

    # --- counting rows ----------------------------------------------------------------------------

    def _means(
        self, group: Group, added: WeightedRows, fine: frozenset[str] = frozenset()
    ) -> tuple[Floats, Floats]:
        """Return the mean contribution and the count of each cell.

        Cells combine buckets, or single values of the columns in `fine`.
        """
        sizes, cells, everyone = self._cells(group, fine)
        inside = np.bincount(cells[added.where], added.weights, len(everyone)).astype(np.float64)
        overall = float(inside.sum()) / max(float(everyone.sum()), 1.0)
        means = np.where(everyone > 0, inside / np.maximum(everyone, 1), overall)
        return means.reshape(sizes), (self.weight * everyone).reshape(sizes)

    def _cells(self, group: Group, fine: frozenset[str]) -> tuple[list[int], Integers, Floats]:
        """Return the shape of a table, the cell of each row, and the frequency of each cell."""
        sizes = [
            len(self.basis.buckets[name]) if name in fine else self.basis.n_buckets[name]
            for name in group
        ]
        key = group, fine
        if key in self._counts:
            return sizes, *self._counts[key]
        cells = np.zeros(len(self.times), np.int64)
        for name, size in zip(group, sizes, strict=True):
            cells *= size
            cells += (
                self._values[name] if name in fine else self.basis.buckets[name][self._values[name]]
            )
        rows = np.bincount(cells, self.times, int(np.prod(sizes)))
        found = cells, rows.astype(np.float64)
        if len(cells) <= _MAX_KEPT:
            self._counts[key] = found
        return sizes, *found


def _summed(counts: Floats, cells: Sequence[Integers]) -> Floats:
    """Sum buckets to cells, axis by axis.

    Examples
    --------
    >>> _summed(np.array([[1.0, 2.0], [3.0, 4.0]]), [np.array([0, 1]), np.array([0, 0])]).tolist()
    [[3.0], [7.0]]
    """
    result = np.zeros([int(places.max()) + 1 for places in cells])
    np.add.at(result, np.ix_(*cells), counts)
    return result


def _ranks(counts: Floats) -> Floats:
    """Return the mean rank of each value, scaled to -1 to 1."""
    ends = np.cumsum(counts)
    return np.asarray((2 * ends - counts) / max(float(ends[-1]), 1e-12) - 1)


def _is_merged(places: Integers) -> Bools:
    """Return which values share their bucket with others."""
    return np.bincount(places)[places] > 1
