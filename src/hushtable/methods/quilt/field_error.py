"""How far counts over the rows of a fitted field may be from the truth.

What it does. `FieldError.of` takes a condition that no measured table decides and gives two
variances for the count of the rows that satisfy it: one from noise, one from what the model does
not know.

How. A condition on columns S, seen as a function on the cells of S, is the sum of a constant, a
part for each column, a part for each pair of columns that is left when those are taken off, and so
on (the decomposition of the analysis of variance, under the rows themselves, `_interaction`). Each
part meets the error of one table of the field, and these errors have different sources:

- the total and single columns are known up to noise of known size, and where rows were drawn
  towards a simple shape, by how far the noisy counts are from it (`_column`);
- a pair (or triple) that was measured errs by the noise that the fit lets through, and by what the
  fit holds back: the regularizer draws cells towards the model without that table. How much that
  is shows in the distance between noisy and fitted table, from which the noise is taken off
  (`_fitted`);
- a pair that was never measured errs by a share of each cell that is not known. What is known is
  how large this share was in the tables that were measured last: they were chosen because the
  field seemed to miss them most, so the others are missed less (`Missed`);
- finer dependence is not measured at all. It is allowed for by the spread that the count would have
  if the rows of the table had been drawn from the field, and by a share for triples;
- values that were merged for being rare share the dependence of their bucket. Within a bucket it
  is not known (`_inside_buckets`), and neither is where in a public bin a row lies
  (`_inside_bins`).

The first, and the noise let through in the second, are noise; the rest is error of the model.

Why so. The parts are orthogonal under the rows, so their variances add up, and a source that a
condition does not touch adds nothing: a condition on one column alone is charged for that column
and the drawing, however badly the pairs are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.row_functions import RowFunction
from hushtable.methods.quilt.bins import by_bin, heaped, reaches
from hushtable.methods.quilt.domains import Floats, Integers
from hushtable.methods.quilt.measured_tables import MeasuredTables

ValueOf = Callable[[Mapping[str, Integers]], Floats]
"""What a row adds to a sum, for rows as codes."""

TRIPLE_SHARE = 0.5
"""Error of cells of triples, as a share of that of pairs never measured."""

BUCKET_SHARE = 1.0
"""Error of cells inside merged buckets, as a share of their counts."""

ROWS_DRAWN = 1.0
"""Variance of a count, for each row, since rows were drawn from the field."""

TABLE_DRAWN = 1.0
"""The same for the table itself, which is not the field: it differs as if it had been drawn."""

PAIR = 2  # columns whose dependence is told by itself

MAX_TRIPLES = 24
"""Triples of columns that are looked at; a condition on 7 columns has more."""

_FEW = 20  # values with fewer rows are looked at through rows of other values, too
_STAND_INS = 5.0  # for how many rows these count
_MAX_STAND_INS = 50_000
_N_PLACES = 8  # of a bin that are looked at
_N_UNSEEN = 4  # rows that stand for those of a cell without any
_MAX_LOOKED_INTO = 100_000  # cells of two columns that are told by single values
_FEW_COLUMNS = 4  # whose stand-ins are remembered from one question to the next
_MAX_KEPT = 5000  # rows whose cells are remembered from one question to the next


@dataclass(frozen=True)
class Spread:
    """Two sources of error, as variances."""

    privacy: float = 0.0
    model: float = 0.0

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.privacy + other.privacy, self.model + other.model)

    def times(self, factor: float) -> Spread:
        """Give so many times the variances."""
        return Spread(factor * self.privacy, factor * self.model)


@dataclass(frozen=True)
class Missed:
    """How far the cells of a table are off that was not measured, told from others that were.

    Only the sum of squares is known. It may be spread over cells by their squares, so that all are
    off by the same share, or by their counts, so that small cells are off by a larger one. In an
    even table both are the same; otherwise the larger is taken.

    Parameters
    ----------
    share : float
        The standard deviation of a cell as a share of its count.
    per_row : float
        The variance of a cell for each of its rows.
    per_cell : float
        What a table's noise costs it when tables are chosen, for each cell, as a share of all rows:
        a table of many cells may be missed by so much more and not be chosen. It is taken to be
        anywhere up to that.
    """

    share: float
    per_row: float
    per_cell: float = 0.0

    def rising(self, part: Floats, counts: Floats) -> float:
        """Give the variance that comes from columns that rise or fall together unseen.

        Errors of cells then have the same sign wherever both columns are high or both are low, and
        add up in a sum that tells such cells from others: by its part along the product of ranks.
        """
        scores = np.multiply.outer(*(_ranks(counts.sum(axis=1 - axis)) for axis in (0, 1)))
        along = float(np.sum(counts * part * scores)) ** 2
        squares = max(float(np.sum(counts * scores**2)), 1e-12)
        share = self.share**2 + min(1.0, self.per_cell * counts.size) ** 2 / 3
        return share * float(counts.sum()) * along / squares

    def variance(self, part: Floats, counts: Floats) -> float:
        """Give the variance that this makes in a sum over cells."""
        by_squares = self.share**2 * float(np.sum((counts * part) ** 2))
        return max(by_squares, self.per_row * float(np.sum(counts * part**2)))


@dataclass(frozen=True)
class Added:
    """What is added up: the rows that add anything, and how much."""

    where: Integers
    weights: Floats


@dataclass(frozen=True)
class ColumnNoise:
    """What the tables say of a single column.

    Parameters
    ----------
    noise : array (buckets, buckets)
        Covariance of the noise in the counts of buckets.
    variance : float
        Of the noise in the count of one value.
    gaps : array (values,)
        How much larger the noisy counts of values are than those of the rows.
    """

    noise: Floats
    variance: float
    gaps: Floats


class FieldError:
    """Tell the error of counts over rows.

    Parameters
    ----------
    codes : mapping of str to int array
        The rows, as codes of the schema.
    bins : mapping of str to int array
        For each code of a column the value that it was counted as.
    weight : float
        What one row counts for.
    measured : MeasuredTables
        The noisy tables that the field was fitted to.
    shrinkage : float
        How strongly the fit was held back, in standard deviations of the noise.
    missed : Missed
        How far cells of a pair never measured are off.
    times : float array, optional
        How many rows each of them stands for; one, unless it is said.
    ordered : frozenset of str
        The columns whose values have an order.
    """

    def __init__(
        self,
        codes: Mapping[str, Integers],
        bins: Mapping[str, Integers],
        weight: float,
        measured: MeasuredTables,
        *,
        shrinkage: float,
        missed: Missed,
        times: Floats | None = None,
        ordered: frozenset[str] = frozenset(),
    ) -> None:
        self.ordered = ordered
        self.codes = codes
        self.bins = bins
        n_rows = len(next(iter(codes.values())))
        self.times = np.ones(n_rows) if times is None else times
        self.weight = weight
        self.measured = measured
        self.shrinkage = shrinkage
        self.missed = missed
        self._values: dict[str, Integers] = {}
        self._bucketed: dict[str, Integers] = {}
        self._columns: dict[str, ColumnNoise] = {}
        self._codes_of_values: dict[str, tuple[Integers | None, Integers]] = {}
        self._codes_of_buckets: dict[str, Integers] = {}
        self._posed: dict[str, dict[str, Integers]] = {}
        self._counts: dict[tuple[tuple[str, ...], frozenset[str]], tuple[Integers, Floats]] = {}

    def of(self, columns: Sequence[str], added: Floats, function: ValueOf) -> Spread:
        """Give the error of a sum over the rows.

        Parameters
        ----------
        columns : sequence of str
            The columns that decide.
        added : float array
            What is added up: 1 for rows that are counted, 0 for others.
        function : callable
            Gives the same for other rows, as codes.
        """
        n = float(self.times.sum())
        mean = float(added @ self.times) / n if n else 0.0
        least = float(np.max(added**2, initial=0.0)) or 1.0
        squares = float((added - mean) ** 2 @ self.times) + least * (1 - min(1.0, abs(mean)))
        # Counts by two columns are told above; what more columns decide was drawn from the field.
        drawn = ROWS_DRAWN if len(columns) <= PAIR else ROWS_DRAWN + TABLE_DRAWN
        return self._of(columns, self._added(added), function) + Spread(
            mean**2 * self.measured.total.std**2,
            drawn * self.weight * squares,  # one row more than is seen: nothing is sure
        )

    def heaped(self, functions: Sequence[RowFunction], *, together: bool) -> Floats:
        """Say what people of bins may add to sums, who may all be where is asked for, or nobody.

        As squares and products: what intervals are to reach.
        """
        heaps = [self._heaps(function) for function in functions]
        factors = [function.factors for function in functions]
        return heaped(heaps, factors, self.bins, together=together)

    def _heaps(self, function: RowFunction) -> dict[str, Floats]:
        found = {}
        for name, reach in reaches(function, self.bins).items():
            others = function.without(name).values(self.codes) * self.times
            there = np.bincount(self._values_of(name), others, len(reach))
            found[name] = self.weight * reach * there
        return found

    def _added(self, values: Floats) -> Added:
        where = np.flatnonzero(values)
        return Added(where, (values * self.times)[where])

    def _of(self, columns: Sequence[str], added: Added, function: ValueOf) -> Spread:
        spread = Spread()
        for name in columns:
            spread += self._column(name, added, function)
        for pair in combinations(sorted(columns), 2):
            spread += self._group(pair, added, function)
        triples = list(combinations(sorted(columns), 3))
        # Of many triples some stand for all.
        some = triples[:: -(-len(triples) // MAX_TRIPLES)] if triples else []
        for group in some:
            spread += self._group(group, added, function).times(len(triples) / len(some))
        return spread

    # --- single columns -------------------------------------------------------------------------

    def _column(self, name: str, added: Added, function: ValueOf) -> Spread:
        """Single columns are known up to noise: between buckets, and between values of one."""
        places = self.measured.buckets[name]
        inside, everyone = self._rows_by_value(name, added, function)
        shares = inside / everyone
        merged = np.bincount(places, inside) / np.bincount(places, everyone)
        overall = inside.sum() / everyone.sum()
        known = self._known_column(name)
        # The fit weighs all tables, so it errs no more than what they say together.
        between = float((merged - overall) @ known.noise @ (merged - overall))
        apart = (shares - merged[places])[_is_merged(places)]
        within = float(apart @ apart) * known.variance
        # Inside buckets rows follow a simple shape: what the counts say against it, up to noise.
        part = shares - overall
        along = float(part @ known.gaps) ** 2 - known.variance * float(part @ part)
        return Spread(between + within, self._inside_bins(name, function) + max(0.0, along))

    def _known_column(self, name: str) -> ColumnNoise:
        if name not in self._columns:
            rows = np.bincount(self._values_of(name), self.times, len(self.measured.buckets[name]))
            self._columns[name] = ColumnNoise(
                self.measured.noise(name),
                self.measured.value_variance(name),
                self.measured.value_counts(name) - self.weight * rows,
            )
        return self._columns[name]

    def _rows_by_value(self, name: str, added: Added, function: ValueOf) -> tuple[Floats, Floats]:
        """Give the sums, and the rows, by the values of a column; none has no rows."""
        values, size = self._values_of(name), len(self.measured.buckets[name])
        everyone = np.bincount(values, self.times, size).astype(np.float64)
        inside = np.bincount(values[added.where], added.weights, size).astype(np.float64)
        rare = np.flatnonzero(everyone < _FEW)
        if len(rare):
            # Rows that noise has removed would count too: those of other values stand in for them.
            n_adding = float(self.times[added.where].sum())
            inside[rare] += _STAND_INS * self._stand_ins(name, rare, function, n_adding)
            everyone[rare] += _STAND_INS
        return inside, everyone

    def _inside_bins(self, name: str, function: ValueOf) -> float:
        """Variance from public bins that the function cuts through: where in them rows are.

        Some places are looked at, not the ends alone: between ends that count alike, codes may
        count otherwise.
        """
        bins = self.bins[name]
        if len(bins) == len(self.measured.buckets[name]):
            return 0.0
        values = self._values_of(name)
        wide = np.flatnonzero(np.bincount(bins)[values] > 1)  # others have one place
        values = values[wide]
        codes = {other: taken[wide] for other, taken in self.codes.items()}
        sums = []
        for part in np.linspace(0, 1, _N_PLACES):
            codes[name] = self._codes_at(name, part)[values]
            sums.append(np.bincount(values, function(codes) * self.times[wide]))
        return self.weight**2 * float(np.var(sums, axis=0).sum())

    def _codes_at(self, name: str, part: float) -> Integers:
        """Give a code for each value of a column: the first one behind it, the last, or between."""
        if name not in self._codes_of_values:
            self._codes_of_values[name] = by_bin(self.bins[name])
        order, first = self._codes_of_values[name]
        sizes = np.diff(first, append=len(self.bins[name]))
        places = first + np.rint(part * (sizes - 1)).astype(np.int64)
        return places if order is None else order[places]

    def _stand_ins(self, name: str, values: Integers, function: ValueOf, n_adding: float) -> Floats:
        """Give what rows would add if they had a certain value.

        On average it is what others add. But those who have the value may be alike: all of them
        then add the same, and by how much the sum errs goes by the root of the mean square. Where
        many rows add something, they tell better what such rows look like.
        """
        n = max(16, min(500, _MAX_STAND_INS // len(values)))
        codes = self._posed.get(name)  # which values are rare is the same for all questions
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
        """Take some rows again and again, with codes of some columns in the place of their own.

        For each case (first axis) the same rows, with the codes given for each (second).
        """
        n_cases, n = next(iter(posed.values())).shape
        some = self._some_rows(tuple(self.codes), n)
        rows = {name: np.tile(codes, n_cases) for name, codes in some.items()}
        return rows | {name: codes.ravel() for name, codes in posed.items()}

    def _some_rows(self, columns: Sequence[str], n: int) -> dict[str, Integers]:
        """Take some of the rows; where there are none, some combinations of codes."""
        n_rows = float(self.times.sum())
        if n_rows:
            ends = np.cumsum(self.times)
            taken = np.searchsorted(ends, np.linspace(0, n_rows - 1, n), side="right")
            return {name: self.codes[name][taken] for name in columns}
        return {
            name: np.arange(n) * (2 * place + 1) % len(self.bins[name])
            for place, name in enumerate(columns)
        }

    # --- groups of columns ------------------------------------------------------------------------

    def _group(self, group: tuple[str, ...], added: Added, function: ValueOf) -> Spread:
        """Tell the error of a group by its table, or by how far others were off."""
        shares, model = self._means(group, added)
        counts = model
        if len(group) == PAIR:
            shares, counts = self._with_unseen(group, shares, model, function)
        part = _interaction(shares, counts)
        known = self.measured.of_group(group)
        scale = 1.0 if len(group) == PAIR else TRIPLE_SHARE**2
        if known is None:
            missed = self.missed.variance(part, counts)
            if len(group) == PAIR and self.ordered >= set(group):
                missed = max(missed, self.missed.rising(part, counts))
            spread = Spread(0.0, scale * missed)
        else:
            # What a coarse table says, and what differs inside its cells, which none has measured.
            weights = _summed(counts, known.cells)
            mean = _summed(part * counts, known.cells) / np.maximum(weights, 1e-12)
            spread = self._fitted(mean, _summed(model, known.cells), known.counts, known.std)
            inside = part - mean[np.ix_(*known.cells)]
            spread += Spread(0.0, scale * self.missed.variance(inside, counts))
        if len(group) == PAIR:
            spread += Spread(0.0, self._inside_buckets(group, part, added))
        return spread

    def _with_unseen(
        self, group: tuple[str, ...], shares: Floats, model: Floats, function: ValueOf
    ) -> tuple[Floats, Floats]:
        """Put rows into cells that have none: as many as independent columns would have there.

        That no row was drawn does not say that nobody is there; but cells err by what they count,
        and what is not there would not err. A bucket without rows has as many as noise may hide.
        """
        places = np.nonzero(model == 0)
        total = float(model.sum())
        if not len(places[0]) or not total:
            return shares, model
        sides = []
        for axis, name in enumerate(group):
            side = model.sum(axis=1 - axis)
            empty = side == 0
            hidden = float(np.diag(self._known_column(name).noise)[empty].sum()) ** 0.5
            sides.append(np.where(empty, hidden / max(1, int(empty.sum())), side))
        counts = np.where(model > 0, model, np.multiply.outer(*sides) / total)
        filled = shares.copy()
        filled[places] = self._of_unseen(group, places, function)
        return filled, counts

    def _of_unseen(
        self, group: tuple[str, ...], places: tuple[Integers, ...], function: ValueOf
    ) -> Floats:
        """Give what rows would add on average in cells, for rows with other values elsewhere."""
        pairs = zip(group, places, strict=True)
        codes = self._rows_with({name: self._some_codes(name)[buckets] for name, buckets in pairs})
        return np.asarray(function(codes).reshape(-1, _N_UNSEEN).mean(axis=1))

    def _some_codes(self, name: str) -> Integers:
        """Give some codes of each bucket of a column, from its first to its last value."""
        if name not in self._codes_of_buckets:
            places = self.measured.buckets[name]
            order = np.argsort(places, kind="stable")
            sizes = np.bincount(places)
            steps = np.linspace(0, 1, _N_UNSEEN) * (sizes - 1)[:, None]
            values = order[(np.cumsum(sizes) - sizes)[:, None] + steps.astype(np.int64)]
            self._codes_of_buckets[name] = self._codes_at(name, 0)[values]
        return self._codes_of_buckets[name]

    def _fitted(self, part: Floats, model: Floats, noisy: Floats, std: float) -> Spread:
        """Error of a table that the field was fitted to."""
        let_through = model / (model + self.shrinkage * std)
        noise = (std * let_through) ** 2
        held_back = np.sum((noisy - model) ** 2 - (std * (1 - let_through)) ** 2)
        # What is held back is told only up to noise; it is not taken as less than its error.
        unsure = std**2 * (2 * float(np.sum((1 - let_through) ** 4))) ** 0.5
        held_back = max(0.0, float(held_back)) + unsure
        scale = held_back / max(float(noise.sum()), 1e-12)
        variance = float(np.sum(noise * part**2))
        # By the noise that each cell lets through, or evenly: an empty one lets none through.
        held = max(min(scale, 25.0) * variance, held_back * float(np.mean(part**2)))
        # Cells may be held back in one direction; along the function that is seen, up to noise.
        along = float(np.sum((noisy - model) * part)) ** 2 - std**2 * float(np.sum(part**2))
        return Spread(variance, max(held, along))

    def _inside_buckets(self, group: tuple[str, ...], coarse: Floats, added: Added) -> float:
        """Variance from dependence between single values of merged buckets.

        `coarse` is the part of the condition that belongs to the pair, told by buckets.
        """
        fine = self._looked_into(group)
        first, second = (
            self.measured.buckets[name]
            if name in fine
            else np.arange(self.measured.n_buckets[name])
            for name in group
        )
        inside = _is_merged(first)[:, None] | _is_merged(second)
        if not inside.any():
            return 0.0
        shares, model = self._means(group, added, fine)
        rest = _interaction(shares, model) - coarse[first[:, None], second]
        return BUCKET_SHARE**2 * float(np.sum((model * rest)[inside] ** 2))

    def _looked_into(self, group: tuple[str, ...]) -> frozenset[str]:
        """Say which columns are told by values; of two with many, the one with more."""
        sizes = {name: len(self.measured.buckets[name]) for name in group}
        if np.prod(list(sizes.values())) <= _MAX_LOOKED_INTO:
            return frozenset(group)
        return frozenset([max(group, key=lambda name: sizes[name])])

    # --- counting rows ----------------------------------------------------------------------------

    def _means(
        self, group: tuple[str, ...], added: Added, fine: frozenset[str] = frozenset()
    ) -> tuple[Floats, Floats]:
        """Give the mean of what is added up in each cell, and the cells' counts.

        Cells are of buckets, or of single values for the columns that are `fine`.
        """
        sizes, cells, everyone = self._cells(group, fine)
        inside = np.bincount(cells[added.where], added.weights, len(everyone)).astype(np.float64)
        # An empty cell is given the overall mean.
        overall = float(inside.sum()) / max(float(everyone.sum()), 1.0)
        means = np.where(everyone > 0, inside / np.maximum(everyone, 1), overall)
        return means.reshape(sizes), (self.weight * everyone).reshape(sizes)

    def _cells(
        self, group: tuple[str, ...], fine: frozenset[str]
    ) -> tuple[list[int], Integers, Floats]:
        """Give the shape of a table, the cell of each row, and the number of rows of each cell."""
        sizes = [
            len(self.measured.buckets[name]) if name in fine else self.measured.n_buckets[name]
            for name in group
        ]
        key = group, fine
        if key in self._counts:
            return sizes, *self._counts[key]
        cells = np.zeros(len(self.times), np.int64)
        for name, size in zip(group, sizes, strict=True):
            cells *= size
            cells += self._values_of(name) if name in fine else self._buckets_of(name)
        rows = np.bincount(cells, self.times, int(np.prod(sizes)))
        found = cells, rows.astype(np.float64)
        if len(cells) <= _MAX_KEPT:
            self._counts[key] = found
        return sizes, *found

    def _values_of(self, name: str) -> Integers:
        if name not in self._values:
            self._values[name] = self.bins[name][self.codes[name]]
        return self._values[name]

    def _buckets_of(self, name: str) -> Integers:
        if name not in self._bucketed:
            self._bucketed[name] = self.measured.buckets[name][self._values_of(name)]
        return self._bucketed[name]


def _summed(counts: Floats, cells: Sequence[Integers]) -> Floats:
    """Add buckets up to cells, axis by axis.

    Examples
    --------
    >>> _summed(np.array([[1.0, 2.0], [3.0, 4.0]]), [np.array([0, 1]), np.array([0, 0])]).tolist()
    [[3.0], [7.0]]
    """
    result = np.zeros([int(places.max()) + 1 for places in cells])
    np.add.at(result, np.ix_(*cells), counts)
    return result


def _ranks(counts: Floats) -> Floats:
    """Give the mean rank of each value, from -1 to 1."""
    ends = np.cumsum(counts)
    return np.asarray((2 * ends - counts) / max(float(ends[-1]), 1e-12) - 1)


def _is_merged(places: Integers) -> NDArray[np.bool_]:
    """Say which values share their bucket with others."""
    return np.bincount(places)[places] > 1


def _interaction(shares: Floats, counts: Floats) -> Floats:
    """Take off what fewer axes explain: the part of a function that belongs to all of them.

    Examples
    --------
    >>> both = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> _interaction(both, np.full((2, 2), 25.0)).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    result = shares.copy()
    axes = range(shares.ndim)
    inside = shares * counts
    for n_kept in range(shares.ndim):
        for kept in combinations(axes, n_kept):
            rest = tuple(axis for axis in axes if axis not in kept)
            total = counts.sum(axis=rest, keepdims=True)
            mean = inside.sum(axis=rest, keepdims=True) / np.maximum(total, 1e-12)
            result += (-1) ** (shares.ndim - n_kept) * mean
    return result * (counts > 0)
