"""Sums over rows from published cells, each a set of combinations of values with a count.

Inside a cell nothing is known about where its rows are. A function is replaced by its mean over the
cell's combinations. For the error, all rows of a cell are taken to be at one place of it, which may
be any: their mean then has the function's variance over the cell. For a number, 1.96 times its
standard deviation is more than half of its range, so that the interval of a mean holds wherever
rows are; and in a wide cell they do pile up at an end, as incomes do. Cells err in the same
direction, so standard deviations add up; a quadratic form that is never less is used instead, the
sum of the variances times the number of rows in such cells (by Cauchy and Schwarz).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.drawing import draw_inside
from hushtable.estimate.row_functions import Codes, Floats, RowFunction
from hushtable.predicate.covering import Covering
from hushtable.recoding import Recoding
from hushtable.schema import Schema

Coarser = Recoding | Covering

N_DRAWS = 32
"""Places inside cells that are tried where a function ties generalized columns together."""


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """Published cells.

    Parameters
    ----------
    schema : Schema
        The columns.
    recode : mapping of str to Recoding or Covering
        How columns were generalized; others have their own codes.
    codes : mapping of str to int array
        The generalized code of each cell.
    """

    schema: Schema
    recode: Mapping[str, Coarser]
    codes: Codes

    @property
    def n_cells(self) -> int:
        """How many there are."""
        return len(next(iter(self.codes.values())))

    def means(self, function: RowFunction) -> Floats:
        """Give the mean of a function over the combinations of each cell."""
        if self._is_tied(function):
            return np.asarray(self._drawn(function).mean(axis=0))
        result: Floats = np.ones(self.n_cells)
        for name, factor in function.factors.items():
            result *= self._axis(name, factor)[self.codes[name]]
        return result if function.over_rows is None else result * function.over_rows(self.codes)

    def everywhere(self, function: RowFunction) -> float:
        """Give the mean of a function over all possible cells; ties are taken as in those there."""
        result = 1.0 if function.over_rows is None else float(self.means(function).mean())
        for name, factor in function.factors.items():
            if function.over_rows is None:
                result *= float(self._axis(name, factor).mean())
        return result

    def covariances(self, one: RowFunction, other: RowFunction) -> Floats | None:
        """Give the covariance of two functions inside each cell; None where it is zero."""
        names = set(one.columns) | set(other.columns)
        if not names & set(self.recode):
            return None
        if self._is_tied(one) or self._is_tied(other):
            left, right = self._drawn(one), self._drawn(other)
            spread: Floats = (left * right).mean(axis=0) - left.mean(axis=0) * right.mean(axis=0)
            return spread
        return np.asarray(self.means(one * other) - self.means(one) * self.means(other))

    def inside(self, functions: Sequence[RowFunction], counts: Floats, *, together: bool) -> Floats:
        """Give the covariance of sums that comes from not knowing where in a cell rows are."""
        n = len(functions)
        there = np.maximum(counts, 0.0)
        result, cut = np.zeros((n, n)), np.zeros(len(there), np.bool_)
        for i in range(n):
            for j in range(i, n) if together else (i,):
                found = self.covariances(functions[i], functions[j])
                if found is None:
                    continue
                result[i, j] = result[j, i] = float(there @ found)
                if i == j:
                    own = found > 1e-12
                    cut |= own
                    if not together:
                        result[i, i] *= float(there[own].sum())
        return result * float(there[cut].sum()) if together else result

    def _axis(self, name: str, factor: Floats) -> Floats:
        """Average a factor over the codes behind each generalized one."""
        if name not in self.recode:
            return factor
        coarser = self.recode[name]
        if isinstance(coarser, Covering):
            before = np.concatenate([[0.0], np.cumsum(factor)])
            sums = before[coarser.last + 1] - before[coarser.first]
            widths = coarser.last + 1 - coarser.first
            return np.asarray(
                np.bincount(coarser.owner, sums, coarser.size)
                / np.bincount(coarser.owner, widths, coarser.size)
            )
        new = coarser.apply(np.arange(len(factor)))
        return np.asarray(np.bincount(new, factor, coarser.size) / coarser.widths)

    # --- functions that tie columns together ------------------------------------------------------

    def _is_tied(self, function: RowFunction) -> bool:
        return any(name in self.recode for name in function.tied)

    def _drawn(self, function: RowFunction) -> Floats:
        """Give a function's values at some places inside each cell; the same for all functions."""
        rng = np.random.default_rng(0)  # of a public release, so that answers repeat
        drawn = []
        for _ in range(N_DRAWS):
            codes = {}
            for name in self.codes:  # all of them, so that functions meet the same places
                if name in self.recode:
                    codes[name] = _draw(self.recode[name], self.codes[name], rng)
                else:
                    codes[name] = self.codes[name]
            drawn.append(function.values(codes))
        return np.stack(drawn)


def _draw(
    coarser: Coarser, codes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    if not isinstance(coarser, Covering):
        return draw_inside(coarser, codes, rng)
    order = np.argsort(coarser.owner, kind="stable")
    widths = (coarser.last + 1 - coarser.first)[order]
    ends = np.cumsum(widths)
    sizes = np.bincount(coarser.owner, coarser.last + 1 - coarser.first, coarser.size)
    starts = np.concatenate([[0.0], np.cumsum(sizes)])
    picks = starts[codes] + np.floor(rng.random(len(codes)) * sizes[codes])
    run = np.searchsorted(ends, picks, side="right")
    return np.asarray(coarser.last[order][run] - (ends[run] - 1 - picks).astype(np.int64))
