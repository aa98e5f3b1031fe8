"""What earlier waves measured, carried on: more noisy tables beside those of this run.

What it does. A series of releases of the same columns counts the same buckets at the same
resolutions every time. What was measured before, brought to the present by whoever keeps the series
(`hushtable.methods.prior.Earlier`), has an error that is known: its noise, and how far counts may
have moved since. So it is one more noisy table, averaged with this run's by precision; columns in
the same way. The field then fits both, and what is chosen to be measured is what it gets most
wrong: what changed.

Why tables and not rows. Rows of an earlier release are shrunk towards independent columns already,
and a chain of releases that each start from the rows of the last shrinks again and again: over ten
waves strong pairs fade. Noisy tables are not shrunk.

All of it is public: a function of earlier releases, fixed before the private table is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushtable.methods.prior import Earlier, EarlierTable
from hushtable.methods.quilt.domains import Floats, Integers
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior import Belief

SURPRISE = 4.0
"""Standard deviations of a sum of squares beyond which a column is taken to have changed more."""

_MOST = 1e12
_N_BISECTIONS = 40


@dataclass(frozen=True)
class CarriedColumn:
    """What is kept of a column: its buckets, what its resolutions are made by, and its counts."""

    buckets: Integers
    shares: Floats
    belief: Belief


@dataclass(frozen=True)
class CarriedPatch:
    """A table of several columns that was measured before."""

    group: Group
    maps: tuple[Integers, ...]
    counts: Floats
    std: Floats


class Carried:
    """Read what earlier waves measured in terms of a schema's columns.

    Parameters
    ----------
    earlier : Earlier
        What is carried on.
    names : sequence of str
        The published columns, in order.
    """

    def __init__(self, earlier: Earlier, names: Sequence[str]) -> None:
        self._earlier, self._names = earlier, names
        self.tables = earlier.tables
        single = {table.columns[0]: table for table in earlier.tables if len(table.columns) == 1}
        self.columns = [
            CarriedColumn(
                earlier.buckets[name],
                earlier.shares[name],
                Belief(single[name].counts, single[name].variances),
            )
            for name in names
        ]
        sizes = {name: int(places.max()) + 1 for name, places in earlier.buckets.items()}
        self.patches = [
            CarriedPatch(
                tuple(names.index(name) for name in table.columns),
                tuple(
                    np.arange(sizes[name]) if places is None else places
                    for name, places in zip(table.columns, table.cells, strict=True)
                ),
                table.counts,
                np.sqrt(table.variances),
            )
            for table in earlier.tables
            if len(table.columns) > 1
        ]

    def doubted(self, noisy: Sequence[Floats], stds: Sequence[float]) -> Carried:
        """Believe it less where the columns, as they are measured now, contradict it.

        A column whose gaps are larger than noise and the variances allow, by `SURPRISE` standard
        deviations of their sum of squares, has its variances multiplied until they are not, and so
        has every table with it: more changed than was expected.
        """
        factors = {
            name: _factor(told - column.belief.counts, std**2, column.belief.variances)
            for name, column, told, std in zip(self._names, self.columns, noisy, stds, strict=True)
        }
        if max(factors.values()) <= 1:
            return self
        tables = [
            replace(t, variances=t.variances * max(factors[name] for name in t.columns))
            for t in self.tables
        ]
        return Carried(replace(self._earlier, tables=tables), self._names)

    def total(self) -> tuple[float, float]:
        """Estimate the number of rows from the columns, and the variance of that."""
        sums = np.array([column.belief.counts.sum() for column in self.columns])
        precision = np.array([1 / column.belief.variances.sum() for column in self.columns])
        return float(sums @ precision / precision.sum()), float(1 / precision.sum())

    def stds(self) -> list[float]:
        """Give one standard deviation for each table: that of the cell of a row drawn at random.

        Cells that hold more rows move more, and are asked about more often.
        """
        return [_std(table) for table in self.tables]


def _factor(gaps: Floats, noise: float, variances: Floats) -> float:
    """Give what variances are to be multiplied by so that gaps are as large as expected."""
    n = len(gaps)

    def squares(factor: float) -> float:
        return float(np.sum(gaps**2 / (noise + factor * variances)))

    if squares(1.0) <= n + SURPRISE * math.sqrt(2 * n):
        return 1.0
    low, high = 1.0, 2.0
    while squares(high) > n and high < _MOST:
        low, high = high, 2 * high
    for _ in range(_N_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if squares(middle) > n else (low, middle)
    return high


def _std(table: EarlierTable) -> float:
    weights = np.maximum(table.counts, 0.0) + 1.0
    return math.sqrt(float(weights @ table.variances / weights.sum()))
