"""Where the rows of unpublished combinations are: a model, and a rehearsal that says how far off.

A release of cells leaves out those of few rows. How many rows are missing is known from the number
of rows; where they are is not, and all that is certain is a range: none of them satisfies a
condition, or all that may be there do. It is wide, so answers take a model for what is likely, and
say so. The model is not believed, it is tried:

*The model.* A cell's number of rows has a negative binomial law, whose mean is the product of its
columns' shares of all rows. That it was suppressed has a known chance for every number, which the
law is weighed by; and one tilt for all cells makes their rows add up to those that are missing.
Shares of columns and rows of hidden cells are told from each other in turns, until they agree.

*The rehearsal.* The threshold is raised until about as many published rows are hidden as there were
before. The model is made again without them, and what it says is laid beside what is published. The
difference is an error of the very model on the very table, for every condition. Two things of it
are used: its mean square over many conditions, and that of the condition which is asked. A table
that the model does not fit, such as one where one group has all the rare combinations, shows it
here, and its intervals are wide.

For a function f of cells, with e the rows that the model puts into hidden cells, n all of them, and
m the mean of f over e, the sum over hidden rows has the mean n m and a variance of three parts:

- sum of v (f - m)^2, where v is the variance of the law of each cell;
- unlike n^2 (mean of f^2 over e, minus m^2), where unlike is the mean square of the rehearsal;
- the square of n times the rehearsal's error for f, for each row that was hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SHAPES = (1.0, 3.0, 10.0)
"""How rows of cells are spread about their means: negative binomial with such a shape.

1 is the geometric law, which goes from nothing to several times the mean. The one that the
rehearsal bears out best is taken; none is as narrow as Poisson's, which leaves nothing for columns
that hang together.
"""

LEAST = 3
"""Published cells that a rehearsal must hide; with fewer nothing is learned."""

MOST_HIDDEN = 0.4
"""The part of published rows that a rehearsal hides at most."""

LEAST_HIDDEN = 0.03
"""The part that it hides at least: a few rows say little."""

EDGE = 0.005
"""Conditions that fewer, or all but fewer, of the hidden rows satisfy do not count in the mean."""

_TILTS = np.linspace(-16.0, 8.0, 481)
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Rows of unpublished cells, as far as they can be told.

    Parameters
    ----------
    hidden : array of bool (cells,)
        Which cells of the domain are not published.
    expected, variance : array (cells,)
        Mean and variance of the rows of each; 0 for those that are published.
    unlike : float
        Mean square of the rehearsal's errors, for a share with variance 1.
    missed : array (cells,)
        The rehearsal's error in each cell, for each row that was hidden.
    """

    hidden: Flags
    expected: Floats
    variance: Floats
    unlike: float
    missed: Floats

    @property
    def n_rows(self) -> float:
        """How many rows there are."""
        return float(self.expected.sum())

    def means(self, functions: Floats) -> Floats:
        """Give the means of functions of cells, a row for each, over hidden rows."""
        return np.asarray(functions @ self.expected / self.n_rows)

    def covariance(self, functions: Floats) -> Floats:
        """Give the covariance of sums over hidden rows."""
        n = self.n_rows
        rest = functions - self.means(functions)[:, None]
        alike = (rest * (self.variance * self.hidden + self.unlike * n * self.expected)) @ rest.T
        own = n * (functions @ self.missed)
        return np.asarray(alike + np.outer(own, own))


def hidden_rows(counts: Floats, hidden: Flags, n_rows: float, suppressed: Floats) -> HiddenRows:
    """Spread missing rows over the cells that are not published, and rehearse it.

    Parameters
    ----------
    counts : array, an axis for each column
        Rows of published cells.
    hidden : array of bool, of the same shape
        Which cells are not published.
    n_rows : float
        How many rows they have together.
    suppressed : array
        The chance that a cell is not published, for 0, 1, 2, ... rows; 0 beyond.

    Examples
    --------
    >>> counts = np.outer([700.0, 250.0, 10.0], [0.9, 0.09, 0.01])
    >>> rows = hidden_rows(counts, counts < 10, 20, np.ones(10))
    >>> rows.expected.reshape(3, 3).round()
    array([[0., 0., 7.],
           [0., 0., 5.],
           [6., 2., 0.]])
    """
    tried = [_tried(counts, hidden, n_rows, suppressed, shape) for shape in SHAPES]
    return min(tried, key=lambda rows: rows.unlike)


def _tried(
    counts: Floats, hidden: Flags, n_rows: float, suppressed: Floats, shape: float
) -> HiddenRows:
    """Take the numbers of rows to be spread so about their means, and rehearse it."""
    expected, variance = _spread(counts, hidden, n_rows, suppressed, shape)
    unlike, missed = _rehearsed(counts, hidden, expected, suppressed, shape)
    return HiddenRows(hidden.ravel(), expected.ravel(), variance.ravel(), unlike, missed.ravel())


def _spread(
    counts: Floats, hidden: Flags, n_rows: float, suppressed: Floats, shape: float
) -> tuple[Floats, Floats]:
    """Give mean and variance of the rows of every cell, 0 for published ones."""
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
    """Give mean and variance of a suppressed cell's rows for each tilt."""
    rows = np.arange(len(suppressed))
    steps = np.log((rows[1:] + shape - 1) / rows[1:])  # of the negative binomial law
    with np.errstate(divide="ignore"):
        logs = np.log(suppressed) + np.concatenate([[0.0], np.cumsum(steps)])
    logs = logs + _TILTS[:, None] * rows
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ rows
    return mean, chances @ rows**2 - mean**2


def _tilted(own: Floats, n_rows: float, mean: Floats) -> float:
    """Find the tilt by which cells have so many rows together."""
    # Cells whose own tilts are alike are taken together: there may be many.
    steps = np.bincount(np.clip(np.rint((own + 16) * 20), 0, 480).astype(np.int64), minlength=481)
    low, high = -24.0, 24.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = float(steps @ np.interp(_TILTS + middle, _TILTS, mean)) >= n_rows
        low, high = (low, middle) if enough else (middle, high)
    return (low + high) / 2


def _product(there: Floats) -> Floats:
    """Give every cell the product of its columns' shares."""
    total = float(there.sum())
    result = np.array(total)
    for axis in range(there.ndim):
        others = tuple(a for a in range(there.ndim) if a != axis)
        result = np.multiply.outer(result, there.sum(axis=others) / total)
    return result


def _rehearsed(
    counts: Floats, hidden: Flags, expected: Floats, suppressed: Floats, shape: float
) -> tuple[float, Floats]:
    """Raise the threshold and see how far the model is off."""
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
    """Add up over many conditions: values, and values up to some, of one or two columns."""
    n = cells.ndim
    found = []
    for axes in combinations(range(n), min(2, n)):
        sums = cells.sum(axis=tuple(a for a in range(n) if a not in axes))
        found.append(sums.ravel())
        for axis in range(sums.ndim):
            sums = sums.cumsum(axis)
        found.append(sums.ravel())
    return np.concatenate(found)
