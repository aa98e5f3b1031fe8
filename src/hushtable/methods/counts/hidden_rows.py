"""Model of the rows of unpublished combinations, with a validation that estimates its error.

A release of cells omits cells of few rows. The number of missing rows follows from the total, but
their position is unknown. The only certain answer is a range: none of them satisfies a condition,
or all that are possible do. This range is wide, so answers use a model and say so. The model is
validated:

*Model.* The number of rows of a cell has a negative binomial distribution, whose mean is the
product of its columns' shares of all rows. It is weighted by the known probability that each number
is suppressed. One exponential tilt for all cells makes the expected rows add up to the missing
rows. Shares of columns and rows of hidden cells are estimated alternately until they agree.

*Validation.* The threshold is raised until about as many published rows are hidden as are missing.
The model is fitted without them, and its predictions are compared with the published counts. The
difference is the error of the same model on the same table, for every condition. Two figures of it
are used: its mean square over many conditions, and its value for the condition of the query. If the
model does not fit a table, such as one where a single group has all the rare combinations, the
validation shows it, and intervals are wide.

For a function f of cells, let e be the rows that the model assigns to hidden cells, n their total,
and m the mean of f over e. The sum over hidden rows has the mean n m and a variance of three parts:

- sum of v (f - m)^2, where v is the variance of the distribution of each cell;
- unlike n^2 (mean of f^2 over e, minus m^2), where unlike is the mean square of the validation
  errors;
- the square of n times the validation error for f, per hidden row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushtable.arrays import Bools, Floats

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
"""Conditions with a smaller share of the hidden rows, or of the rest, are not averaged."""

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
    steps = np.log(
        (rows[1:] + shape - 1) / rows[1:]
    )  # log ratios of the negative binomial distribution
    with np.errstate(divide="ignore"):
        logs = np.log(suppressed) + np.concatenate([[0.0], np.cumsum(steps)])
    logs = logs + _TILTS[:, None] * rows
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ rows
    return mean, chances @ rows**2 - mean**2


def _tilted(own: Floats, n_rows: float, mean: Floats) -> float:
    """Find the tilt at which the expected rows of the cells add up to n_rows."""
    # There may be many cells, so cells with nearly equal tilts are grouped.
    steps = np.bincount(np.clip(np.rint((own + 16) * 20), 0, 480).astype(np.int64), minlength=481)
    low, high = -24.0, 24.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = float(steps @ np.interp(_TILTS + middle, _TILTS, mean)) >= n_rows
        low, high = (low, middle) if enough else (middle, high)
    return (low + high) / 2


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
    """Raise the threshold, refit, and return the mean squared error and the error per cell."""
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
