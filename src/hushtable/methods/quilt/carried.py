"""Measurements of earlier waves, as additional noisy tables of this run.

A series of releases of the same columns counts the same buckets at the same resolutions every time.
The series projects earlier measurements to the present
(`hushtable.methods.prior.EarlierEstimates`). Their error is known: the noise, and the possible
drift of counts since then. So each is one more noisy table, averaged by precision with those of
this run; one-way tables as well. The model fits both, and selection favors what the model fits
worst: what has changed.

Why tables and not rows: rows of an earlier release are already shrunk toward independence. A chain
of releases that each start from the previous rows would shrink repeatedly, and over ten waves
strong pairs would fade. Noisy tables are not shrunk.

All of it is public: a function of earlier releases, fixed before the private table is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.prior import EarlierEstimates, EarlierTable
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior_weight import PriorWeight

SURPRISE = 4.0
"""Deviation of a sum of squares, in standard deviations, that shows a larger change of a column."""

_MOST = 1e12
_N_BISECTIONS = 40


@dataclass(frozen=True)
class EarlierColumn:
    """A column of earlier waves: its buckets, shares that define its resolutions, and counts."""

    buckets: Integers
    shares: Floats
    prior: PriorWeight


@dataclass(frozen=True)
class EarlierMarginal:
    """A table of several columns that was measured before."""

    group: Group
    maps: tuple[Integers, ...]
    counts: Floats
    std: Floats


class EarlierMeasurements:
    """Measurements of earlier waves in terms of a schema's columns.

    Parameters
    ----------
    earlier : EarlierEstimates
        The projected measurements.
    names : sequence of str
        The published columns, in order.
    """

    def __init__(self, earlier: EarlierEstimates, names: Sequence[str]) -> None:
        self._earlier, self._names = earlier, names
        self.tables = earlier.tables
        single = {table.columns[0]: table for table in earlier.tables if len(table.columns) == 1}
        self.columns = [
            EarlierColumn(
                earlier.buckets[name],
                earlier.shares[name],
                PriorWeight(single[name].counts, single[name].variances),
            )
            for name in names
        ]
        sizes = {name: int(places.max()) + 1 for name, places in earlier.buckets.items()}
        self.marginals = [
            EarlierMarginal(
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

    def with_drift(self, noisy: Sequence[Floats], stds: Sequence[float]) -> EarlierMeasurements:
        """Increase the variances where the current one-way tables contradict the earlier ones.

        If the differences of a column exceed what noise and variances allow, by `SURPRISE` standard
        deviations of their sum of squares, multiply its variances until they do not, and those of
        every table with it: more changed than expected.
        """
        factors = {
            name: _factor(told - column.prior.counts, std**2, column.prior.variances)
            for name, column, told, std in zip(self._names, self.columns, noisy, stds, strict=True)
        }
        if max(factors.values()) <= 1:
            return self
        tables = [
            replace(t, variances=t.variances * max(factors[name] for name in t.columns))
            for t in self.tables
        ]
        return EarlierMeasurements(replace(self._earlier, tables=tables), self._names)

    def total(self) -> tuple[float, float]:
        """Return the number of rows estimated from the columns, and its variance."""
        sums = np.array([column.prior.counts.sum() for column in self.columns])
        precision = np.array([1 / column.prior.variances.sum() for column in self.columns])
        return float(sums @ precision / precision.sum()), float(1 / precision.sum())

    def stds(self) -> list[float]:
        """Return one standard deviation per table: that of the cell of a randomly drawn row.

        Cells with more rows drift more, and are queried more often.
        """
        return [_std(table) for table in self.tables]


def _factor(gaps: Floats, noise: float, variances: Floats) -> float:
    """Return the factor by which to multiply variances so that differences are as expected."""
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
