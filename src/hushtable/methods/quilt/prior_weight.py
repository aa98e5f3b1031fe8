"""Prior information from public rows, weighted by how well noisy tables confirm it.

A prior is a table of public rows: an earlier release, or a public table. It gives a marginal for
every column and pair of columns, which is fitted together with the noisy tables. The variance of a
cell's true count around the prior's count is assumed to be ``c`` times that count; this prior
variance ``c`` is estimated.

- *Columns.* Each column is measured, so c is estimated from the differences between noisy and prior
  counts by maximum likelihood. Columns share one c, to which its standard error is added. Columns
  that deviate much more than the median column have their own, if it is larger. A value that the
  noisy count contradicts gets little weight. Noisy and prior counts are then averaged by precision.
- *Pairs.* The prior's rows are weighted so that each one-way marginal is the current one; columns
  whose own prior variance is too large are left out. Only the dependence between columns remains.
  Once some pairs were measured, c is estimated from them in the same way. Pairs in which the prior
  is wrong are selected first, so c tends to be too large rather than too small. A prior that
  explains hardly more of them than independence is dropped.

All of it is post-processing of noisy tables and public rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.prior import EarlierEstimates, EarlierTable, Prior
from hushtable.methods.quilt.binning import CountedDomain, MarginalQuery
from hushtable.methods.quilt.particles import Group

CONTRADICTED = 3.0
"""Difference of counts, in standard deviations, beyond which a value's prior gets little weight."""

OUTLYING = 4.0
"""Excess of a column's squared differences from which it has its own prior variance.

In standard deviations of their sum, relative to what the median prior variance of all columns
allows.
"""

MAX_PAIRS = 200
"""Maximum number of prior pairs that are fitted: those with the strongest dependence."""

USELESS = 0.8
"""A prior that misses this share of the squared dependence in measured pairs is dropped."""

FIRMEST = 20.0
"""Minimum standard deviation of a prior's cell, in weights of a particle.

With less, particles cannot follow a hundred tables of thousands of small cells.
"""

FIRM_PART = 0.01
"""Budget of a column with a firm prior, as a share of that of a column without one."""

_N_RAKINGS = 8
_N_BISECTIONS = 50


@dataclass(frozen=True, eq=False)
class PriorRows:
    """Public rows, as codes of the schema."""

    codes: Mapping[str, Integers]  # by column; `Prior.UNKNOWN` for unknown values
    firm: bool = False  # whether its columns are already determined, so that they get little budget

    def wanted_size(self, values: CountedDomain) -> float:
        """Return the number of values for which a column gets budget; less if the prior is firm."""
        told = self.firm and values.name in self.codes
        return min(1.0, values.planned_size * FIRM_PART) if told else values.planned_size

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.codes.values())))

    def values(self, values: CountedDomain) -> Integers | None:
        """Return the counted value of each row, or None if the prior does not have the column."""
        if values.name not in self.codes:
            return None
        codes = self.codes[values.name]
        if values.recoding is None:
            return codes
        return np.where(codes < 0, Prior.UNKNOWN, values.recoding.apply(np.maximum(codes, 0)))


@dataclass(frozen=True)
class PriorWeight:
    """Prior counts with their variances."""

    counts: Floats  # the prior's counts
    variances: Floats  # of the true counts around them
    c: float = 0.0  # prior variance per row that determines them

    def averaged(self, noisy: Floats, std: float) -> tuple[Floats, Floats]:
        """Average with noisy counts by precision; return counts and their variances."""
        mine, other = 1 / self.variances, std**-2.0
        both = mine + other
        return (mine * self.counts + other * noisy) / both, 1 / both


def prior_variance(gaps: Floats, noise: Floats, units: Floats) -> tuple[float, float]:
    """Estimate c such that differences (`gaps`) have variance noise + c * units.

    Return the maximum-likelihood estimate and its standard error.

    Examples
    --------
    >>> found, error = prior_variance(
    ...     np.array([30.0, -30.0] * 50),
    ...     np.full(100, 100.0),
    ...     np.full(100, 10.0),
    ... )
    >>> round(found), round(error)
    (80, 13)
    """

    def score(c: float) -> float:
        spread = noise + c * units
        return float(np.sum(units * (gaps**2 - spread) / spread**2))

    high = 1.0
    while score(high) > 0 and high < 1e12:
        high *= 2
    low = 0.0
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) > 0 else (low, middle)
    spread = noise + low * units
    return low, float((np.sum((units / spread) ** 2) / 2) ** -0.5)


def column_prior_weights(
    rows: PriorRows,
    values: Sequence[CountedDomain],
    noisy: Sequence[Floats],
    stds: Sequence[float],
    total: float,
) -> tuple[list[PriorWeight | None], float]:
    """Return the prior counts and variances of each column, and their shared prior variance.

    A column that the prior does not have is None. If it has none of them, the shared prior variance
    is infinite.

    Parameters
    ----------
    rows : PriorRows
        The prior.
    values : sequence of CountedDomain
        How each column is counted.
    noisy : sequence of arrays
        The noisy count of each counted value, by column.
    stds : sequence of float
        The standard deviation of their noise, by column.
    total : float
        The number of rows.
    """
    seen: dict[int, _Seen] = {}
    expected: dict[int, Floats] = {}
    for place, v in enumerate(values):
        counts = _expected(rows.values(v), v.size, total)
        if counts is not None:
            expected[place] = counts
            noise = np.full(v.size, stds[place] ** 2)
            seen[place] = _Seen(noisy[place] - counts, noise, counts + total / rows.n_rows)
    found: list[PriorWeight | None] = [None] * len(values)
    if not seen:
        return found, math.inf
    own = {place: prior_variance(*gaps) for place, gaps in seen.items()}
    middle = float(np.median([c + error for c, error in own.values()]))
    agree = {place for place, gaps in seen.items() if gaps.fit(middle)}
    together = sum(prior_variance(*_joined([seen[place] for place in agree])))
    for place, (gaps, noise, units) in seen.items():
        c = together if place in agree else max(together, own[place][0])
        variances = c * units
        contradicted = np.abs(gaps) > CONTRADICTED * np.sqrt(noise + variances)
        variances = np.where(contradicted, np.maximum(gaps**2, variances), variances)
        found[place] = PriorWeight(expected[place], variances, c)
    return found, together


class _Seen(NamedTuple):
    """Differences between noisy and prior counts, noise variances, and the factors of c."""

    gaps: Floats
    noise: Floats
    units: Floats

    def fit(self, c: float) -> bool:
        """Return whether the differences are consistent with a prior variance of c."""
        n = len(self.gaps)
        squares = float(np.sum(self.gaps**2 / (self.noise + c * self.units)))
        return squares <= n + OUTLYING * math.sqrt(2 * n)


def _joined(seen: Sequence[_Seen]) -> _Seen:
    return _Seen(*map(np.concatenate, zip(*seen, strict=True)))


def _expected(values: Integers | None, size: int, total: float) -> Floats | None:
    if values is None:
        return None
    counts = np.bincount(values[values >= 0], minlength=size).astype(np.float64)
    if not counts.sum():
        return None
    expected: Floats = total * counts / counts.sum()
    return expected


class PairPriorWeight:
    """Pair marginals of a prior.

    Parameters
    ----------
    buckets : sequence of int array or None
        For each column the bucket of each row of the prior, or `Prior.UNKNOWN`; None if the prior
        does not have the column.
    masses : sequence of arrays
        The estimated share of each bucket of each column.
    total : float
        The number of rows.
    c : float
        Initial prior variance per row.
    groups : sequence of tuples
        The pairs that may be fitted.

    Attributes
    ----------
    tables : dict of tuple to array
        Prior counts of each pair, flat.
    is_useless : bool
        Whether measured pairs show that the prior should be dropped.
    """

    def __init__(
        self,
        buckets: Sequence[Integers | None],
        masses: Sequence[Floats],
        total: float,
        c: float,
        groups: Sequence[Group],
    ) -> None:
        known = {place: codes for place, codes in enumerate(buckets) if codes is not None}
        n_rows = len(next(iter(known.values())))
        weights = _raked(known, masses, n_rows)
        self.total, self.c = total, c
        # The effective number of rows (Kish) determines how many original rows one of them
        # represents.
        self.unit = total * float(np.einsum("i,i->", weights, weights)) / float(weights.sum()) ** 2
        self.alone = [total * mass for mass in masses]
        self.is_useless = False
        tables: dict[Group, Floats] = {}
        for group in groups:
            if len(group) == 2 and set(group) <= known.keys():
                tables[group] = self._table(group, known, masses, weights)
        far = {group: np.abs(t - self._independent(group)).sum() for group, t in tables.items()}
        kept = sorted(tables, key=lambda group: -far[group])[:MAX_PAIRS]
        self.tables = {group: tables[group] for group in sorted(kept)}

    def _table(
        self,
        group: Group,
        known: Mapping[int, Integers],
        masses: Sequence[Floats],
        weights: Floats,
    ) -> Floats:
        i, j = group
        shape = len(masses[i]), len(masses[j])
        both = (known[i] >= 0) & (known[j] >= 0)
        cells = known[i][both] * shape[1] + known[j][both]
        sums = np.bincount(cells, weights[both], math.prod(shape)).astype(np.float64)
        scaled: Floats = sums * (self.total / max(float(sums.sum()), 1e-300))
        return scaled

    def _independent(self, group: Group) -> Floats:
        i, j = group
        return (np.outer(self.alone[i], self.alone[j]) / self.total).ravel()

    def stds(self, group: Group, std: float, particle: float) -> Floats:
        """Return the standard deviations of a pair, on the scale of tables with noise `std`.

        The regularizer treats a noisy table of standard deviation s as if true cells had a variance
        of s per row around the model; a variance v then corresponds to v / s. `particle` is the
        weight of one particle.
        """
        like = self.c * (self.tables[group] + self.unit) / std
        return np.maximum(like, FIRMEST * particle)

    def update(self, measured: Sequence[tuple[MarginalQuery, Floats, float]]) -> None:
        """Re-estimate `c` and `is_useless` from measured pairs.

        Each is a query with its noisy counts and the standard deviation of their noise.
        """
        told = [part for part in measured if part[0].group in self.tables]
        if not told:
            return
        seen: list[_Seen] = []
        missed = dependent = 0.0
        for query, counts, std in told:
            expected = query.added_up(self.tables[query.group])
            independent = query.added_up(self._independent(query.group))
            widths = query.added_up(np.ones(self.tables[query.group].size))
            noise = np.full(len(counts), std**2)
            seen.append(_Seen(counts - expected, noise, expected + self.unit * widths))
            # In units of the noise, so that cells have equal weight; the noise itself is
            # subtracted.
            missed += float(np.sum((counts - expected) ** 2 / std**2 - 1))
            dependent += float(np.sum((counts - independent) ** 2 / std**2 - 1))
        both = _joined(seen)
        self.c = sum(prior_variance(*both))
        unsure = math.sqrt(2 * len(both.gaps))
        self.is_useless = missed > USELESS * max(dependent, 0.0) + unsure


def _raked(known: Mapping[int, Integers], masses: Sequence[Floats], n_rows: int) -> Floats:
    """Weight rows so that every column has its current shares (Deming and Stephan 1940)."""
    weights = np.full(n_rows, 1.0 / n_rows)
    for _ in range(_N_RAKINGS):
        for place, codes in known.items():
            size = len(masses[place])
            there = np.bincount(codes + 1, weights, size + 1)[1:]
            goal = masses[place] * (float(there.sum()) / float(masses[place].sum()))
            ratio = np.where(there > 0, goal / np.maximum(there, 1e-300), 1.0)
            weights *= np.append(1.0, ratio)[codes + 1]
    return weights


# Measurements of earlier waves, as additional noisy tables of this run.
#
# A series of releases of the same columns counts the same buckets at the same resolutions every
# time. The series projects earlier measurements to the present
# (`hushtable.methods.prior.EarlierEstimates`). Their error is known: the noise, and the possible
# drift of counts since then. So each is one more noisy table, averaged by precision with those of
# this run; one-way tables as well. The model fits both, and selection favors what the model fits
# worst: what has changed.
#
# Why tables and not rows: rows of an earlier release are already shrunk toward independence. A
# chain of releases that each start from the previous rows would shrink repeatedly, and over ten
# waves strong pairs would fade. Noisy tables are not shrunk.
#
# All of it is public: a function of earlier releases, fixed before the private table is read.

SURPRISE = 4.0
"""Excess of a column's sum of squared differences that shows more change than expected.

In standard deviations of this sum.
"""

_MOST = 1e12
_N_EARLIER_BISECTIONS = 40


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
        tables = []
        for t in self.tables:
            factor = max(factors[name] for name in t.columns)
            share = t.noise_share / factor
            tables.append(replace(t, variances=t.variances * factor, noise_share=share))
        movement = {name: factors[name] * rate for name, rate in self._earlier.movement.items()}
        return EarlierMeasurements(
            replace(self._earlier, tables=tables, movement=movement), self._names
        )

    @property
    def movement(self) -> dict[str, Any]:
        """Variance of changes since the earlier measurements, for the estimator."""
        return {"columns": dict(self._earlier.movement), "size": self._earlier.size}

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
    """Return the factor for `variances` that makes the sum of squared differences as expected.

    It is 1 if the sum does not exceed what they allow by `SURPRISE` standard deviations.
    """
    n = len(gaps)

    def squares(factor: float) -> float:
        return float(np.sum(gaps**2 / (noise + factor * variances)))

    if squares(1.0) <= n + SURPRISE * math.sqrt(2 * n):
        return 1.0
    low, high = 1.0, 2.0
    while squares(high) > n and high < _MOST:
        low, high = high, 2 * high
    for _ in range(_N_EARLIER_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if squares(middle) > n else (low, middle)
    return high


def _std(table: EarlierTable) -> float:
    weights = np.maximum(table.counts, 0.0) + 1.0
    return math.sqrt(float(weights @ table.variances / weights.sum()))
