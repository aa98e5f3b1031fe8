"""Estimator of published cells: noisy counts of (generalized) tuples, some suppressed.

Answers have three sources of error:

- Noise on published counts, whose distribution is known exactly.
- Suppressed rows. Their number follows from the total if that is known, and a single suppressed
  cell cannot contain many. A model that is validated on the release (`hidden_rows`) estimates
  where they are, within certain bounds.
- Cells that a condition splits; rows are assumed to be spread evenly inside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.domain import Domain
from hushtable.errors import Refused
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.methods.parameters import MAX_K, whole
from hushtable.numeric import CONFIDENCE, NORMAL, bisect
from hushtable.privacy.mechanisms.single_counts import CountMechanism, TwoSidedGeometric
from hushtable.privacy.rational import as_rational
from hushtable.query.answers.cell_sums import (
    COUNT,
    NOISY_COUNT,
    CellsEstimator,
    ErrorLaw,
    PublishedCells,
    cut_error,
)
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.published import Generator
from hushtable.query.answers.resampling import redrawn_cells
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, products
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy
from hushtable.schema.recoding import recoded_domain, recodings

# Model of the rows of unpublished combinations, with a validation that estimates its error.
#
# A release of cells omits cells of few rows. The number of missing rows follows from the total, but
# their position is unknown. The only certain answer is a range: none of them satisfies a condition,
# or all that are possible do. This range is wide, so answers use a model and say so. The model is
# validated:
#
# *Model.* The number of rows of a cell has a negative binomial distribution, whose mean is the
# product of its columns' shares of all rows. It is weighted by the known probability that each
# number is suppressed. One exponential tilt for all cells makes the expected rows add up to the
# missing rows. Shares of columns and rows of hidden cells are estimated alternately until they
# agree.
#
# *Validation.* The threshold is raised until about as many published rows are hidden as are
# missing. The model is fitted without them, and its predictions are compared with the published
# counts. The difference is the error of the same model on the same table, for every condition. Two
# figures of it are used: its mean square over many conditions, and its value for the condition of
# the query. If the model does not fit a table, such as one where a single group has all the rare
# combinations, the validation shows it, and intervals are wide.
#
# For a function f of cells, let e be the rows that the model assigns to hidden cells, n their
# total, and m the mean of f over e. The sum over hidden rows has the mean n m and a variance of
# three parts:
#
# - sum of v (f - m)^2, where v is the variance of the distribution of each cell;
# - u n^2 (mean of f^2 over e, minus m^2), where u (`HiddenRows.unlike`) is the mean square of the
#   validation errors;
# - the square of n times the validation error for f, per hidden row.

SHAPES = (1.0, 3.0, 10.0)
"""Shape parameters of the negative binomial distribution of rows per cell.

Shape 1 is the geometric distribution, which ranges from nothing to several times the mean. The
shape that validates best is used. None is as narrow as the Poisson distribution, which would leave
no variance for dependent columns.
"""

LEAST = 3
"""Minimum number of published cells that a validation must hide."""

MOST_HIDDEN = 0.4
"""Maximum share of published rows that a validation hides."""

LEAST_HIDDEN = 0.03
"""Minimum share of published rows that a validation hides; fewer rows show little."""

EDGE = 0.005
"""A validation averages only over conditions that select at least this share of the hidden rows,
and at most 1 minus this share."""

_TILTS = np.linspace(-16.0, 8.0, 481)
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Modeled rows of unpublished cells."""

    hidden: Bools  # which cells of the domain are not published
    expected: Floats  # mean number of rows of each cell; 0 for published cells
    variance: Floats  # variance of the number of rows of each cell; 0 for published cells
    unlike: float  # mean square of the validation errors, for a share with variance 1
    missed: Floats  # validation error in each cell, per hidden row

    @property
    def n_rows(self) -> float:
        """Number of hidden rows."""
        return float(self.expected.sum())

    @property
    def is_untested(self) -> bool:
        """True if too few cells are published to validate the model."""
        return self.unlike >= 1.0

    def means(self, functions: Floats) -> Floats:
        """Return means of functions of cells, one per row, over hidden rows."""
        return np.asarray(functions @ self.expected / self.n_rows)

    def covariance(self, functions: Floats) -> Floats:
        """Return the covariance of sums over hidden rows."""
        n = self.n_rows
        rest = functions - self.means(functions)[:, None]
        alike = (rest * (self.variance * self.hidden + self.unlike * n * self.expected)) @ rest.T
        own = n * (functions @ self.missed)
        return np.asarray(alike + np.outer(own, own))


def hidden_rows(counts: Floats, hidden: Bools, n_rows: float, suppressed: Floats) -> HiddenRows:
    """Distribute missing rows over the unpublished cells, and validate the result.

    `counts` are rows of published cells, with an axis for each column; `hidden` marks unpublished
    cells, which have `n_rows` rows together. `suppressed` is the probability that a cell of 0, 1,
    2, ... rows is not published; 0 beyond.

    Examples
    --------
    >>> counts = np.outer([700.0, 250.0, 10.0], [0.9, 0.09, 0.01])
    >>> rows = hidden_rows(counts, counts < 10, 20, np.ones(10))
    >>> rows.expected.reshape(3, 3).round()
    array([[0., 0., 7.],
           [0., 0., 5.],
           [6., 2., 0.]])
    """
    candidates = [_fitted(counts, hidden, n_rows, suppressed, shape) for shape in SHAPES]
    return min(candidates, key=lambda rows: rows.unlike)


def _fitted(
    counts: Floats, hidden: Bools, n_rows: float, suppressed: Floats, shape: float
) -> HiddenRows:
    """Fit and validate the model with one shape parameter."""
    expected, variance = _spread(counts, hidden, n_rows, suppressed, shape)
    unlike, missed = _validated(counts, hidden, expected, suppressed, shape)
    return HiddenRows(hidden.ravel(), expected.ravel(), variance.ravel(), unlike, missed.ravel())


def _spread(
    counts: Floats, hidden: Bools, n_rows: float, suppressed: Floats, shape: float
) -> tuple[Floats, Floats]:
    """Return mean and variance of the rows of every cell; 0 for published cells."""
    mean, variance = _law(suppressed, shape)
    n_cells = int(np.count_nonzero(hidden))
    n_rows = min(n_rows, 0.999 * n_cells * float(mean[-1]))
    there = np.where(hidden, n_rows / n_cells, np.maximum(counts, 0.0))
    tilt = 0.0
    for _ in range(_ROUNDS):
        rows = _product(there)[hidden]
        own = np.log(np.maximum(rows, 1e-6) / (shape + rows))
        tilt = _tilted(own, n_rows, mean)
        told = np.interp(own + tilt, _TILTS, mean)
        there[hidden] = told * (n_rows / told.sum())
    left = np.zeros(counts.shape)
    left[hidden] = np.interp(own + tilt, _TILTS, variance)
    return np.where(hidden, there, 0.0), left


def _law(suppressed: Floats, shape: float) -> tuple[Floats, Floats]:
    """Return mean and variance of the rows of a suppressed cell, for each tilt."""
    rows = np.arange(len(suppressed))
    # Log ratios of the negative binomial distribution.
    steps = np.log((rows[1:] + shape - 1) / rows[1:])
    with np.errstate(divide="ignore"):
        logs = np.log(suppressed) + np.concatenate([[0.0], np.cumsum(steps)])
    logs = logs + _TILTS[:, None] * rows
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ rows
    return mean, chances @ rows**2 - mean**2


def _tilted(own: Floats, n_rows: float, mean: Floats) -> float:
    """Return the tilt at which the expected rows of the cells add up to n_rows."""
    # There may be many cells, so cells with nearly equal tilts are grouped.
    steps = np.bincount(np.clip(np.rint((own + 16) * 20), 0, 480).astype(np.int64), minlength=481)

    def is_too_low(tilt: float) -> bool:
        return float(steps @ np.interp(_TILTS + tilt, _TILTS, mean)) < n_rows

    return sum(bisect(is_too_low, -24.0, 24.0, steps=40)) / 2


def _product(there: Floats) -> Floats:
    """Return the total times the product of the columns' shares, for every cell."""
    total = float(there.sum())
    result = np.array(total)
    for axis in range(there.ndim):
        others = tuple(a for a in range(there.ndim) if a != axis)
        result = np.multiply.outer(result, there.sum(axis=others) / total)
    return result


def _validated(
    counts: Floats, hidden: Bools, expected: Floats, suppressed: Floats, shape: float
) -> tuple[float, Floats]:
    """Raise the threshold, refit, and return the mean squared error and the error per cell.

    Both are relative to hidden rows, as in `HiddenRows`. If too few cells can be hidden, return a
    mean squared error of 1, its maximum, and errors of 0.
    """
    unknown = 1.0, np.zeros(counts.shape)
    published = np.sort(counts[~hidden])
    if len(published) <= LEAST:
        return unknown
    n_rows, rows = float(expected.sum()), np.cumsum(published)
    wanted = min(max(n_rows, LEAST_HIDDEN * rows[-1]), MOST_HIDDEN * rows[-1])
    place = min(int(np.searchsorted(rows, wanted)) + 1, len(published) - 1)
    threshold = float(published[place])
    taken = ~hidden & (counts < threshold)
    if np.count_nonzero(taken) < LEAST:
        return unknown
    n_taken = float(counts[taken].sum())
    n_both = n_rows + n_taken
    half = int(np.count_nonzero(suppressed > 1 / 2))
    higher = np.concatenate([np.ones(max(0, int(threshold) - half)), suppressed])
    told, _ = _spread(counts, hidden | taken, n_both, higher, shape)
    off = told - expected - np.where(taken, counts, 0.0)
    errors, shares = _over_conditions(off), _over_conditions(told) / n_both
    inner = (shares > EDGE) & (shares < 1 - EDGE)
    if not inner.any():
        return unknown
    squares = errors[inner] ** 2 / (shares[inner] * (1 - shares[inner]))
    return min(1.0, float(squares.mean()) / (n_taken * n_both)), off / n_taken


def _over_conditions(cells: Floats) -> Floats:
    """Sum over many conditions: values, and cumulative values, of one or two columns."""
    n = cells.ndim
    found = []
    for axes in combinations(range(n), min(2, n)):
        sums = cells.sum(axis=tuple(a for a in range(n) if a not in axes))
        found.append(sums.ravel())
        for axis in range(sums.ndim):
            sums = sums.cumsum(axis)
        found.append(sums.ravel())
    return np.concatenate(found)


MAX_ENUMERATED = 2_000_000  # largest domain whose cells are enumerated
MAX_SPREAD = 100_000  # largest domain for the model of suppressed rows

_VAST = 10.0
"""Upper ends of more than so many times all published rows, or 1,000, are given as unbounded."""

_SURELY_PUBLISHED = 1 - 1e-6

ANYWHERE = 0.25
"""Share of suppressed rows that are assumed to be uniform over all combinations.

The others are assumed to resemble the rows of the smallest published cells. So values that no
published cell has are possible, too.
"""

LIKENESS = 1.0
"""Precision of the assumption described at `ANYWHERE`, as a number of randomly drawn rows.

A mean over suppressed rows deviates from the assumed mean as much as a mean of this many random
rows would. All suppressed rows may deviate in the same direction, so the precision does not grow
with their number.
"""

CUT_NOTE = (
    "The condition splits generalized cells; rows are assumed to be spread evenly inside them."
)
LIKE_SMALL_NOTE = (
    "Combinations of few rows are not published; their rows are assumed to resemble those of the "
    "smallest published combinations."
)
SPREAD_NOTE = (
    "Combinations of few rows are not published. A model with independent columns estimates "
    "where their rows are; its error is estimated by hiding more of the published "
    "combinations."
)

_FEW_HIDDEN = 0.02  # share of rows whose absence from sampled rows hardly matters


@dataclass(frozen=True)
class SuppressedShare:
    """Numbers of unpublished cells that a condition may select, and that it may not.

    `n_inside` cells may contain rows that satisfy the condition, and `n_outside` cells rows that do
    not; a cell may be in both. `share` is the estimated share of suppressed rows that satisfy it.
    """

    n_inside: int
    n_outside: int
    share: float


class CellEstimator(CellsEstimator):
    """Estimator of counts and sums from a release of cells."""

    total_is_published: ClassVar[str] = "a release with row_count_share"
    """Kind of release that would contain the number of rows, for messages to the analyst."""

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        plan = NoisyCounts(**self.parameters).plan(self.schema)
        self.recode = plan.recode
        self.suppresses = not isinstance(plan.mechanism, TwoSidedGeometric)
        self.noise = noise_of_one(plan.mechanism)
        self.suppressed = chances_suppressed(plan.mechanism) if self.suppresses else np.ones(1)
        self.total = row_total(self.schema.counted_rows, self.settings["row_total"])

    @cached_property
    def domain(self) -> Domain:
        """All cells, published or not."""
        return recoded_domain(self.schema, list(self.schema.attributes), self.recode)

    @property
    def most_suppressed(self) -> int:
        """Maximum number of rows of a suppressed cell; larger cells are published almost surely."""
        return len(self.suppressed) - 1

    @cached_property
    def counts(self) -> Floats:  # type: ignore[override]  # computed on demand
        """Published counts minus the known bias of their noise."""
        raw = NOISY_COUNT if NOISY_COUNT in self.table.column_names else COUNT
        published: Floats = as_numpy(self.table.column(raw)).astype(np.float64)
        return published - self.noise.mean

    def redrawn(self, rng: Generator) -> tuple[dict[str, Integers], Floats]:
        """Sample counts of cells from their uncertainty, and positions of rows inside cells."""
        self._require_few_hidden()
        return redrawn_cells(self.cells, self.counts, self.noise.variance, rng)

    def _require_few_hidden(self) -> None:
        """Refuse to sample rows if many are suppressed, because no sample would contain them."""
        if not self.suppresses or self._n_hidden == 0:
            return
        total = self._some_total
        seen = float(self.counts.sum())
        if total is not None and total.high - seen <= _FEW_HIDDEN * total.value:
            return
        many = "an unknown number of" if total is None else f"up to {total.high - seen:,.0f}"
        raise Refused(
            f"combinations of few rows are not published, with {many} rows in them; sampled rows "
            "would lack them. Use mean(), regression() and other answers, "
            "which allow for them, or frame() for the published combinations only."
        )

    # --- sums -------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows; suppressed rows are modeled, see `hidden_rows`."""
        cells = self.cells
        inside = np.stack([cells.means(function) for function in functions])
        rows = self.hidden_rows
        if rows is None:
            model = cells.inside(functions, self.counts, together=together)
        else:  # rows of all cells that a condition splits may satisfy it, or none
            there = rows.expected + np.bincount(self._places, self.counts, self.domain.size)
            everywhere = replace(cells, codes=self._all_codes)
            model = everywhere.inside(functions, there, together=together)
        notes = [CUT_NOTE] if model.any() else []
        if self._n_hidden == 0:
            privacy = self.noise.variance * products(inside, together=together)
            return SumEstimates(inside @ self.counts, privacy, model, notes=tuple(notes))
        total = self._some_total
        if total is None:
            raise Refused(
                "combinations of few rows are not published, and their number of rows is "
                f"unknown; {self.total_is_published} would publish it. Ask for counts, or use "
                "frame() for the published combinations only."
            )
        means, unlike, note = self._suppressed(cells, functions, inside)
        rest = inside - means[:, None]
        privacy = self.noise.variance * products(rest, together=together)
        of_total = products(means[:, None], together=together)
        privacy += total.privacy_std**2 * of_total
        model = model + total.model_std**2 * of_total
        unlike = unlike if together else np.diag(unlike.diagonal())
        return SumEstimates(
            values=rest @ self.counts + means * total.value,
            privacy=privacy,
            model=model + unlike,
            notes=(*notes, note),
        )

    @property
    def _n_hidden(self) -> int:
        """Number of unpublished combinations."""
        return self.domain.size - len(self.counts) if self.suppresses else 0

    @cached_property
    def _some_total(self) -> Estimate | None:
        """Number of rows; if unknown, bounds from suppressed cells, or None if these are wide."""
        if self.total is not None:
            return self.total
        seen = float(self.counts.sum())
        most = float(self._n_hidden * self.most_suppressed)
        if most > seen / 4:
            return None
        return Estimate(
            value=seen + most / 2,
            low=seen,
            high=seen + most,
            privacy_std=0.0,
            model_std=most / 12**0.5,
        )

    def _n_suppressed(self) -> float:
        """Estimate the number of suppressed rows, or its standard deviation or 1 if larger."""
        total = self._some_total
        assert total is not None  # noqa: S101 - asked for only where it is known
        n_cells = len(self.counts)
        spread = np.hypot(total.privacy_std, (n_cells * self.noise.variance) ** 0.5)
        return max(total.value - float(self.counts.sum()), float(spread), 1.0)

    def _unlike(self) -> float:
        """Return the variance of a sum over suppressed rows, for a function of variance 1.

        All suppressed rows may deviate from the assumption in the same direction, and a suppressed
        cell may have several rows, which are alike.
        """
        n_rows = self._n_suppressed()
        return n_rows**2 / LIKENESS + n_rows * self.most_suppressed / 2

    def _small(self) -> Floats:
        """Return weights of the smallest published cells; weights of other cells are 0.

        These cells have as many rows as are suppressed, and at least 5% of the published rows.
        """
        there = np.maximum(self.counts, 0.0)
        order = np.argsort(there, kind="stable")
        needed = max(self._n_suppressed(), 0.05 * float(there.sum()))
        until = int(np.searchsorted(np.cumsum(there[order]), needed))
        weights = np.zeros(len(there))
        weights[order[: until + 1]] = there[order[: until + 1]]
        return np.asarray(weights / max(1.0, float(weights.sum())))

    def _suppressed(
        self, cells: PublishedCells, functions: Sequence[RowFunction], inside: Floats
    ) -> tuple[Floats, Floats, str]:
        """Return means over suppressed rows, the covariance of sums over them, and a note."""
        rows = self.hidden_rows
        if rows is not None and rows.is_untested and rows.n_rows > float(self.counts.sum()):
            raise Refused(
                "most rows are in combinations that are not published, and too few are published "
                "to show what these rows are like. Ask for counts, or use frame() for the "
                "published combinations only."
            )
        if rows is not None:
            everywhere = replace(cells, codes=self._all_codes)
            values = np.stack([everywhere.means(function) for function in functions])
            return rows.means(values), rows.covariance(values), SPREAD_NOTE
        small, n = self._small(), len(functions)
        anywhere = np.array([cells.everywhere(function) for function in functions])
        means = (1 - ANYWHERE) * (inside @ small) + ANYWHERE * anywhere
        squares = (1 - ANYWHERE) * (inside * small) @ inside.T
        for i in range(n):
            for j in range(i, n):
                found = ANYWHERE * cells.everywhere(functions[i] * functions[j])
                squares[i, j] += found
                squares[j, i] += found if i != j else 0.0
        return means, self._unlike() * (squares - np.outer(means, means)), LIKE_SMALL_NOTE

    @cached_property
    def _all_codes(self) -> dict[str, Integers]:
        """Codes of all cells of the domain."""
        grid = self.domain.grid()
        return {name: grid[:, i] for i, name in enumerate(self.domain.names)}

    @property
    def _places(self) -> Integers:
        """Indices of the published cells among all cells."""
        names = self.domain.names
        return np.ravel_multi_index(tuple(self.codes[n] for n in names), self.domain.shape)

    @cached_property
    def hidden_rows(self) -> HiddenRows | None:
        """Model of the positions of suppressed rows.

        None if the total is unknown, no cell is hidden, all are, or there are too many cells.
        """
        fits = self.domain.size <= MAX_SPREAD and len(self.counts) > 0
        if self.total is None or self._n_hidden == 0 or not fits:
            return None
        shape = self.domain.shape
        counts, hidden = np.zeros(self.domain.size), np.ones(self.domain.size, np.bool_)
        counts[self._places], hidden[self._places] = self.counts, False
        return hidden_rows(
            counts.reshape(shape), hidden.reshape(shape), self._n_suppressed(), self.suppressed
        )

    # --- answers ----------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        return self.answer(parse(where, self.schema))

    def answer(self, predicate: Predicate) -> Estimate:
        """Estimate how many rows satisfy a parsed condition."""
        shares = predicate.shares(self.recode, self.codes)
        hidden = self._hidden(predicate, shares)
        inside, outside = self._published(shares), self._published(1.0 - shares)
        notes = []
        if hidden.n_inside == 0:
            answer = inside
        elif self.total is not None and hidden.n_outside == 0:
            answer = self.total.complement(outside)
        else:
            sure = self._with_suppressed(inside, outside, hidden)
            answer, note = self._likely(predicate, shares, sure)
            notes.append(note)
            if self.total is None:
                is_vast = answer.high > _VAST * max(1000.0, float(self.counts.sum()))
                answer = replace(answer, high=math.inf if is_vast else answer.high)
                known = "there is no upper end" if is_vast else "the upper end is high"
                notes.append(
                    f"The number of rows is unknown, so {known}; {self.total_is_published} would "
                    "publish it."
                )
        if inside.model_std > 0:
            notes.append(CUT_NOTE)
        value = float(np.clip(answer.value, answer.low, answer.high))
        return replace(answer, value=value, notes=tuple(notes))

    def _with_suppressed(
        self, inside: Estimate, outside: Estimate, hidden: SuppressedShare
    ) -> Estimate:
        """Widen the interval for suppressed rows: from none to the maximum possible."""
        most = float(self.most_suppressed)
        value, low, high = inside.value, inside.low, inside.high + hidden.n_inside * most
        if self.total is not None:
            rest = self.total.complement(outside)
            high = min(high, max(inside.high, rest.high))
            low = max(low, min(high, rest.low - hidden.n_outside * most))
            value += hidden.share * max(0.0, rest.value - inside.value)
        # Only the range of the suppressed part is known.
        model_std = float(np.hypot(inside.model_std, (high - inside.high) / 12**0.5))
        return replace(inside, value=value, low=low, high=high, model_std=model_std)

    def _likely(self, predicate: Predicate, shares: Floats, sure: Estimate) -> tuple[Estimate, str]:
        """Narrow the certain interval to a likely one, by the model of suppressed rows."""
        rows, total = self.hidden_rows, self.total
        if rows is None or total is None or rows.is_untested:
            return sure, (
                "Unpublished combinations may contain such rows too; the interval ranges "
                "from none to the maximum possible."
            )
        everywhere = predicate.shares(self.recode, self._all_codes)
        part = float(rows.means(everywhere[None, :])[0])
        # Rows of a cell that the condition splits may all satisfy it, or none.
        each = np.stack([everywhere, everywhere > 0, everywhere == 1])
        unlike = float(rows.covariance(each).diagonal().max())
        # Suppressed rows are the total minus published ones, so noise on published counts affects
        # them.
        noise = self.noise.variance * float((shares - part) @ (shares - part))
        hidden = everywhere[rows.hidden]
        cut, cut_hidden = (shares > 0) & (shares < 1), (hidden > 0) & (hidden < 1)
        error = cut_error(
            np.concatenate([shares[cut], hidden[cut_hidden]]),
            np.concatenate([self.counts[cut], rows.expected[rows.hidden][cut_hidden]]),
        )
        value = float(shares @ self.counts)
        value += part * max(0.0, total.value - float(self.counts.sum()))
        reach = (NORMAL**2 * (noise + unlike) + (part * (total.high - total.value)) ** 2) ** 0.5
        # An analyst may know of one cell that is full, or empty, and ask about it.
        reach = max(reach, float(self.most_suppressed))
        low, high = value - reach - error.below, value + reach + error.above
        return Estimate(
            value=value,
            low=float(np.clip(low, sure.low, sure.high)),
            high=float(np.clip(high, sure.low, sure.high)),
            privacy_std=float(np.hypot(noise**0.5, part * total.privacy_std)),
            model_std=float(np.hypot(error.std, unlike**0.5)),
        ), f"{SPREAD_NOTE} Without the model: {sure.low:,.0f} to {sure.high:,.0f}."

    def _published(self, shares: Floats) -> Estimate:
        """Sum published cells, each weighted by the share that satisfies the condition."""
        whole, cut = shares == 1.0, (shares > 0.0) & (shares < 1.0)
        n_whole = int(np.count_nonzero(whole))
        value = float(self.counts[whole].sum())
        least, most = self.noise.quantiles(n_whole, CONFIDENCE)
        center = value + n_whole * self.noise.mean
        low, high = center - most, center - least
        variance = n_whole * self.noise.variance
        model_std = 0.0
        if cut.any():
            part, counts = shares[cut], self.counts[cut]
            error = cut_error(part, counts)
            model_std = error.std
            at_most = variance + float(error.most @ error.most) * self.noise.variance
            variance += float(part @ part) * self.noise.variance
            value += float(part @ counts)
            # At the lower end only whole cells count; at the upper end, split cells count in full.
            high = value + float(NORMAL * np.sqrt(at_most)) + error.above
        return Estimate(
            value=max(value, 0.0),
            low=max(low, 0.0),
            high=max(high, 0.0),
            privacy_std=float(np.sqrt(variance)),
            model_std=model_std,
        )

    def _hidden(self, predicate: Predicate, shares: Floats) -> SuppressedShare:
        """Count the unpublished cells that may, and may not, satisfy a condition."""
        n_hidden = self.domain.size - len(shares)
        if not self.suppresses or n_hidden == 0:
            return SuppressedShare(n_inside=0, n_outside=0, share=0.0)
        if self.domain.size <= MAX_ENUMERATED:
            everywhere = predicate.shares(self.recode, self._all_codes)
            return SuppressedShare(
                n_inside=int(np.count_nonzero(everywhere > 0) - np.count_nonzero(shares > 0)),
                n_outside=int(np.count_nonzero(everywhere < 1) - np.count_nonzero(shares < 1)),
                share=float(everywhere.sum() - shares.sum()) / n_hidden,
            )
        # Every cell that a condition touches has at least one combination that satisfies it. In a
        # domain this large most cells are empty, so suppressed rows are assumed to resemble
        # published ones.
        satisfying = predicate.count()
        return SuppressedShare(
            n_inside=min(n_hidden, satisfying),
            n_outside=min(n_hidden, self.schema.domain.size - satisfying),
            share=float(shares @ self.counts / max(1.0, self.counts.sum())),
        )


def noise_of_one(mechanism: CountMechanism) -> ErrorLaw:
    """Return the noise of one published count, for a count far above the threshold."""
    far = mechanism.release_count(1 - 1e-15) + mechanism.release_count(_SURELY_PUBLISHED)
    published, chances = mechanism.outcomes(far)
    return ErrorLaw(published - far, chances)


def chances_suppressed(mechanism: CountMechanism) -> Floats:
    """Return the probability that a cell of 0, 1, 2, ... rows is suppressed, where above 10^-6."""
    n = mechanism.release_count(_SURELY_PUBLISHED)
    return np.array([1.0 - mechanism.release_probability(rows) for rows in range(n)])


def row_total(public: int | None, published: Mapping[str, Any] | None) -> Estimate | None:
    """Return the number of rows: public, with discrete Laplace noise, or None if unknown."""
    if public is not None:
        return Estimate.exact(public)
    if published is None:
        return None
    value, scale = float(published["value"]), float(as_rational(published["scale"], name="scale"))
    # For the discrete Laplace distribution, P[|noise| >= t] <= exp(-(t - 1) / scale).
    half = 1 - scale * float(np.log(1 - CONFIDENCE))
    return Estimate(
        value=value,
        low=max(0.0, value - half),
        high=value + half,
        privacy_std=scale * 2**0.5,
        model_std=0.0,
    )


# Estimator of exact cells without the rare ones.


class SuppressedEstimator(CellEstimator):
    """Estimator from exact cells; errors come only from suppression and split cells."""

    total_is_published: ClassVar[str] = "a schema with the public number of rows"

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.recode = recodings(self.schema, self.parameters.get("generalize", {}))
        self.suppresses = True
        self.noise = ErrorLaw(np.array([0]), np.array([1.0]))
        self.suppressed = np.ones(whole(1, MAX_K)("k", self.parameters["k"]))
        self.total = row_total(self.schema.counted_rows, None)
