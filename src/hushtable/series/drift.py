"""Drift of counts from wave to wave, estimated from noisy tables: lasting, passing, steady parts.

Let u = m (1 - m/n) + 1 for a count of m among n rows; the 1 is for empty cells. A count has three
kinds of changes:

- *lasting*: from one wave to the next, a random step of variance c u. If a small share s of the
  rows is replaced by similar ones, c is 2 s.
- *passing*: at each wave, a deviation of variance w u that does not carry over to the next wave. If
  all rows are redrawn, w is 1.
- *rising*: the count may rise or fall by the same amount at each wave; the variance of this amount
  is g u.

If the number of rows changes, too, a count changes in proportion: counts of different waves are
compared after scaling each wave to the average number of rows. Steps and deviations are assumed to
be independent. Every measurement of a count at any wave then carries information about it at any
other, and the best weights are by precision (Kalman 1960; Rauch, Tung and Striebel 1965).

All of this is post-processing of noisy tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from hushtable.arrays import Floats

LEAST_RATE, MOST_RATE = 1e-5, 256.0
"""Range of the search for the drift rate: from five replaced rows in a million to far above chance.

If all rows are replaced by similar ones it is 2; real change gives more."""

UNSURE = 3.0
"""Factor by which an assumed drift rate may be wrong (one standard deviation)."""

ABOVE = float(np.exp(np.log(UNSURE) ** 2 / 2))
"""Ratio of the prior mean of the drift rate to the assumed one."""

_ANY = 30.0  # prior standard deviation of the row-count step variance, as a factor
_N_RATES = 240
_PASSING = np.linspace(0.0, 1.0, 9)  # candidate shares of a change that do not last
_UNSURE_PART = 0.25  # prior standard deviation of that share
_RISING = np.array([0.0, 0.25, 0.5, 0.75, 0.9])  # candidate shares of lasting change that repeat
Breaks = Mapping[int, float]
"""Waves at which a column breaks, with the factor for the variance of the step into the wave."""
NO_BREAK: Breaks = MappingProxyType({})
DECLARED_BREAK = 1e12
"""Factor of a declared break: earlier measurements say nothing about later counts."""
_BREAKS = 16.0 ** np.arange(1, 6)  # candidate factors of a break that is not declared
_BREAK_EVIDENCE = float(np.log(200))  # minimum log-likelihood gain: a break is rare
_STEPS_PER_BREAK = 3  # one break is searched for in so many steps
_MOST_BREAKS = 2  # that are searched for in a column
MULTIPLES = 3.0 ** np.arange(-2, 6)  # candidate rates of a question, relative to its columns'
_NO_RISE = float(np.log(len(_RISING) - 1))  # prior: 0 is as likely as all other shares together


@dataclass(frozen=True)
class DriftRate:
    """Drift rate of counts, in units of m (1 - m/n) + 1; see the module docstring."""

    lasting: float  # variance of a random-walk step from one wave to the next
    passing: float = 0.0  # variance of each wave's own deviation from the walk
    rising: float = 0.0  # variance of a step that is the same at each wave

    @property
    def difference(self) -> float:
        """Variance of the difference between a wave and the next."""
        return self.lasting + self.rising + 2 * self.passing

    @classmethod
    def most(cls, rates: Iterable[DriftRate]) -> DriftRate:
        """Return the maximum of each component."""
        several = list(rates)
        return cls(
            max(one.lasting for one in several),
            max(one.passing for one in several),
            max(one.rising for one in several),
        )


@dataclass(frozen=True, eq=False)
class WaveCounts:
    """Noisy counts of the same cells at one wave."""

    wave: int
    counts: Floats
    variances: Floats  # of the noise
    size: float = 1.0  # relative size of the wave, by which counts and noise were divided

    @property
    def state(self) -> CountEstimate:
        """Estimate of the counts in the wave of the measurement."""
        return CountEstimate(self.counts, self.variances)

    def state_of_walk(self, passing: Floats | float) -> CountEstimate:
        """Return the estimate of the random walk, given the variance of passing deviations."""
        return CountEstimate(self.counts, self.variances + passing / self.size)

    def divided(self, size: float) -> WaveCounts:
        """Divide all counts, and the standard deviations of their noise, by a relative size."""
        return WaveCounts(self.wave, self.counts / size, self.variances / size**2, size)

    def spans(self, total: WaveCounts) -> WaveCounts:
        """Return cumulative counts of all cells but the last, given the total.

        They are adjusted to the total, which is treated as exact.

        Examples
        --------
        >>> cells = WaveCounts(1, np.array([30.0, 50.0, 40.0]), np.full(3, 9.0))
        >>> cells.spans(WaveCounts(1, np.array([117.0]), np.array([1.0]))).counts
        array([29., 78.])
        """
        counts, variances = self.counts.cumsum(), self.variances.cumsum()
        parts = variances[:-1] / variances[-1]
        return WaveCounts(
            self.wave,
            counts[:-1] - parts * (counts[-1] - total.counts[0]),
            variances[:-1] * (1 - parts),
        )

    def averaged(self, other: WaveCounts) -> WaveCounts:
        """Average with another measurement at the same wave."""
        both = self.state.averaged(other.state)
        return WaveCounts(self.wave, both.counts, both.variances)


@dataclass(frozen=True, eq=False)
class CountEstimate:
    """Estimates of counts at one wave, with the variances of their errors."""

    counts: Floats
    variances: Floats

    def averaged(self, other: CountEstimate) -> CountEstimate:
        """Average with an independent estimate by precision."""
        mine, theirs = 1 / self.variances, 1 / other.variances
        both = mine + theirs
        return CountEstimate((mine * self.counts + theirs * other.counts) / both, 1 / both)

    def moved(self, variances: Floats) -> CountEstimate:
        """Add the variance of a change."""
        return CountEstimate(self.counts, self.variances + variances)


def steps(measured: Sequence[WaveCounts], total: float) -> Floats:
    """Return the variance of each count's change from a wave to the next, for a drift rate of 1."""
    shares = shares_of(measured, total)
    moved: Floats = max(total, 1.0) * shares * (1 - shares) + 1.0
    return moved


def shares_of(measured: Sequence[WaveCounts], total: float) -> Floats:
    """Return the approximate share of rows in each cell, over all waves."""
    both = measured[0].state
    for one in measured[1:]:
        both = both.averaged(one.state)
    shares: Floats = np.clip(both.counts / max(total, 1.0), 0.0, 1.0)
    return shares


def total_step(totals: Sequence[WaveCounts]) -> float:
    """Estimate the variance of a step of the number of rows, from at least two waves.

    It is the posterior mean over a grid: the likelihood of a random walk times a log-normal prior
    around the number of rows, with a factor of thirty as one standard deviation, because hardly
    anything is known beforehand. If steps are smaller than the noise, or few, nothing shows that
    the number is constant, and the mean exceeds the mode.

    Examples
    --------
    >>> def seen(wave, rows):
    ...     return WaveCounts(wave, np.array([rows]), np.array([50.0]))
    >>> 80 < total_step([seen(wave, 1000.0 + 100 * (wave % 2)) for wave in range(9)]) ** 0.5 < 120
    True
    >>> total_step([seen(wave, 1000.0) for wave in range(9)]) < 50
    True
    """
    ordered = sorted(totals, key=lambda one: one.wave)
    rows = max(1.0, float(np.mean([one.counts[0] for one in ordered])))
    found = rows * np.geomspace(1e-6, 1e6, _N_RATES)
    likely = -0.5 * (np.log(found / rows) / np.log(_ANY)) ** 2
    none = np.zeros(len(found))
    likely += _log_likelihoods(ordered, (found, none, none), np.ones(1))
    weights = np.exp(likely - likely.max())
    return float(found @ weights / weights.sum())


def known_at(
    wave: int,
    measured: Sequence[WaveCounts],
    step: Floats,
    passing: Floats | float = 0.0,
    breaks: Breaks = NO_BREAK,
) -> CountEstimate:
    """Estimate the random walk at a wave from measurements at earlier or later waves.

    `measured` has at least one entry and at most one per wave. `step` is the variance of a step
    from one wave to the next, `passing` the variance of the deviation of a wave of average size.
    """
    before = sorted((one for one in measured if one.wave <= wave), key=lambda one: one.wave)
    after = sorted((one for one in measured if one.wave > wave), key=lambda one: -one.wave)
    found = [_walked(part, wave, step, passing, breaks) for part in (before, after) if part]
    return found[0] if len(found) == 1 else found[0].averaged(found[1])


def gains_at(
    wave: int,
    measured: Sequence[WaveCounts],
    step: Floats,
    passing: Floats | float = 0.0,
    breaks: Breaks = NO_BREAK,
) -> Floats:
    """Return the weight of each measurement (first axis) in the estimates of `known_at`."""
    ones = np.eye(len(measured))[:, :, None]
    each = [replace(one, counts=ones[place]) for place, one in enumerate(measured)]
    return known_at(wave, each, step, passing, breaks).counts


def _walked(
    measured: Sequence[WaveCounts], wave: int, step: Floats, passing: Floats | float, breaks: Breaks
) -> CountEstimate:
    """Filter measurements in the order given, and predict a wave."""
    at, state = measured[0].wave, measured[0].state_of_walk(passing)
    for one in measured[1:]:
        moved = state.moved(step * n_steps(at, one.wave, breaks))
        at, state = one.wave, moved.averaged(one.state_of_walk(passing))
    return state.moved(step * n_steps(at, wave, breaks))


def n_steps(one: int, other: int, breaks: Breaks) -> float:
    """Return the number of steps between two waves; a step into a break counts several times.

    Examples
    --------
    >>> n_steps(5, 9, {7: 16.0}), n_steps(9, 7, {7: 16.0})
    (19.0, 2)
    """
    first, last = sorted((one, other))
    added = sum(factor - 1.0 for wave, factor in breaks.items() if first < wave <= last)
    return last - first + added


def find_breaks(
    measured: Sequence[WaveCounts], total: float, *, supposed: float, declared: Breaks
) -> Breaks:
    """Return the breaks of a column: those that are declared, and at most two that its counts show.

    A break is a step that is explained much better (the likelihood is 200 times as large) by a
    larger variance than that of the other steps. Without this, one break would be taken for fast
    movement at all waves.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> walk = np.array([9000.0, 1000.0]) + np.cumsum(rng.normal(0, 5, (12, 2)), axis=0)
    >>> walk[6:] += [-800, 800]
    >>> seen = [WaveCounts(w, row, np.full(2, 900.0)) for w, row in enumerate(walk, 1)]
    >>> list(find_breaks(seen, 10_000.0, supposed=0.06, declared={}))
    [7]
    """
    ordered = sorted(measured, key=lambda one: one.wave)
    rates = np.geomspace(LEAST_RATE, MOST_RATE, _N_RATES)
    prior = -0.5 * (np.log(rates / supposed) / np.log(UNSURE)) ** 2
    none, unit = np.zeros(len(rates)), steps(ordered, total)

    def evidence(breaks: Breaks) -> float:
        found = _log_likelihoods(ordered, (rates, none, none), unit, breaks)
        return float(logsumexp(prior + found))

    breaks = dict(declared)
    for _ in range(min(_MOST_BREAKS, (len(ordered) - 1) // _STEPS_PER_BREAK)):
        tried = [
            {**breaks, one.wave: float(factor)}
            for one in ordered[1:]
            if one.wave not in breaks
            for factor in _BREAKS
        ]
        best = max(tried, key=evidence, default=breaks)
        if evidence(best) < evidence(breaks) + _BREAK_EVIDENCE:
            break
        breaks = best
    return breaks


def estimate_drift_rate(
    measured: Sequence[WaveCounts],
    total: float,
    *,
    supposed: float,
    weight: float = 1.0,
    may_rise: bool = False,
    breaks: Breaks = NO_BREAK,
) -> DriftRate:
    """Estimate the drift rate from a table that was measured several times.

    It is the posterior mean over a grid. The prior of the difference between a wave and the next is
    log-normal around `supposed`, with a factor of three as one standard deviation. The prior of the
    passing share is that of an exchange of rows. If counts may rise, any share of the lasting
    change may repeat at each wave. The mean exceeds the mode, the more so the less is known. If the
    table was measured once, the result is `supposed`, as lasting change.

    Parameters
    ----------
    measured : sequence of WaveCounts
        The table at several waves.
    total : float
        Approximate number of rows of a wave.
    supposed : float
        Assumed variance of the difference between a wave and the next.
    weight : float
        Weight of the likelihood, below 1 for correlated counts.
    may_rise : bool
        Whether counts may rise or fall by the same amount at each wave.
    breaks : mapping of int to float
        Waves at which the column breaks, with the factor for the variance of the step.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> walk = 5000 + np.cumsum(rng.normal(0, 20, (40, 30)), axis=0)
    >>> noisy = walk + rng.normal(0, 10, (40, 30))
    >>> seen = [WaveCounts(wave, row, np.full(30, 100.0)) for wave, row in enumerate(noisy)]
    >>> # 400/(5000 (1 - 1/30))
    >>> 0.07 < estimate_drift_rate(seen, 150_000.0, supposed=1.0).lasting < 0.1
    True
    >>> estimate_drift_rate([], 150_000.0, supposed=0.1)
    DriftRate(lasting=0.1, passing=0.0, rising=0.0)
    """
    ordered = sorted(measured, key=lambda one: one.wave)
    if len(ordered) < 2:
        return DriftRate(supposed)
    change, part, keeps = (
        one.ravel()
        for one in np.meshgrid(
            np.geomspace(LEAST_RATE, MOST_RATE, _N_RATES),
            _PASSING,
            _RISING if may_rise else _RISING[:1],
        )
    )
    lasting, passing = np.maximum((1 - part) * (1 - keeps) * change, LEAST_RATE), part * change / 2
    rising = (1 - part) * keeps * change
    found = -0.5 * (np.log(change / supposed) / np.log(UNSURE)) ** 2
    # Redrawing all rows gives a passing part of 1; change beyond that is assumed to last.
    found -= 0.5 * ((part - np.minimum(change / 2, 2 / change)) / _UNSURE_PART) ** 2
    found += _NO_RISE * (keeps == 0)
    unit = steps(ordered, total)
    found += weight * _log_likelihoods(ordered, (lasting, passing, rising), unit, breaks)
    likely = np.exp(found - found.max())
    likely /= likely.sum()
    return DriftRate(float(lasting @ likely), float(passing @ likely), float(rising @ likely))


def _log_likelihoods(
    measured: Sequence[WaveCounts],
    rates: tuple[Floats, Floats, Floats],
    unit: Floats,
    breaks: Breaks = NO_BREAK,
) -> Floats:
    """Return the log-likelihood of each drift rate (lasting, passing, rising), up to a constant.

    The step into a declared break does not count.

    A steady step is one unknown per count and is integrated out: the filter is applied to time as
    well, and its innovations are regressed on those of time.
    """
    lasting, passing, rising = (np.outer(rate, unit) for rate in rates)
    first = measured[0].state_of_walk(passing)
    counts, variances = np.broadcast_to(first.counts, lasting.shape), first.variances
    times, both, squares = (np.zeros(lasting.shape) for _ in range(3))
    found = np.zeros(len(lasting))
    at = measured[0].wave
    for one in measured[1:]:
        variances = variances + lasting * n_steps(at, one.wave, breaks)
        told = one.state_of_walk(passing)
        gap, spread = told.counts - counts, variances + told.variances
        late = one.wave - measured[0].wave - times
        if n_steps(at, one.wave, breaks) < DECLARED_BREAK / 2:
            found -= (gap**2 / spread + np.log(spread)).sum(axis=1) / 2
        both, squares = both + late * gap / spread, squares + late**2 / spread
        weight = variances / spread
        counts, times = counts + weight * gap, times + weight * late
        variances, at = variances * (1 - weight), one.wave
    known = rising * squares
    found += (rising * both**2 / (1 + known) - np.log1p(known)).sum(axis=1) / 2
    return found


@dataclass(frozen=True, eq=False)
class CountPath:
    """Estimates of one count at every wave, with the covariance of their errors."""

    waves: tuple[int, ...]  # in order
    values: Floats  # the estimates
    covariance: Floats  # of their errors
    gains: Floats  # weight of each wave's measurement (second axis) in each estimate (first)

    @classmethod
    def of(
        cls,
        waves: Sequence[int],
        values: Floats,
        variances: Floats,
        step: float,
        *,
        passing: Floats | float = 0.0,
        rising: float = 0.0,
        off: tuple[NDArray[np.bool_], float] | None = None,
        breaks: Breaks = NO_BREAK,
    ) -> CountPath:
        """Estimate a count at each wave from noisy values; missing ones have infinite variance.

        The count is a random walk, plus a deviation at each wave and a steady rise or fall.

        Parameters
        ----------
        waves : sequence of int
            In order.
        values, variances : float array
            Independent measurement at each wave.
        step : float
            Variance of the walk's step from one wave to the next.
        passing : float array or float
            Variance of each wave's deviation from the walk.
        rising : float
            Variance of a step that is the same at each wave.
        off : (bool array, float), optional
            The values that share one unknown error, and its variance.
        breaks : mapping of int to float
            Waves at which the count breaks, with the factor for the variance of the step.
        """
        told = 1 / (variances + passing)
        # The unknowns are the walk at each wave, the steady rise per wave, and the shared error of
        # some values, the latter two with their prior variances.
        columns, prior = [np.eye(len(waves))], [0.0] * len(waves)
        if rising > 0:
            columns.append(np.subtract(waves, waves[0])[:, None].astype(np.float64))
            prior.append(1 / rising)
        n_true = len(prior)
        if off is not None and off[0].any():
            columns.append(off[0][:, None].astype(np.float64))
            prior.append(1 / off[1])
        design = np.hstack(columns)
        weights = design.T * told
        precision = weights @ design + np.diag(prior)
        for place, ends in enumerate(pairwise(waves)):
            tie = 1 / (step * n_steps(*ends, breaks))
            precision[place : place + 2, place : place + 2] += tie * np.array([[1, -1], [-1, 1]])
        # The passing deviation of a wave is its residual from the walk, minus noise.
        kept = passing * told
        rest = np.hstack(
            [(1 - kept)[:, None] * design[:, :n_true], -kept[:, None] * design[:, n_true:]]
        )
        covariance = np.linalg.inv(precision)
        gains = rest @ covariance @ weights + np.diag(kept)
        covariance = rest @ covariance @ rest.T + np.diag(passing * (1 - kept))
        return cls(tuple(waves), gains @ values, covariance, gains)

    @classmethod
    def of_uncertain_rate(
        cls,
        measured: Sequence[WaveCounts],
        rate: tuple[float, float, float],
        off: tuple[NDArray[np.bool_], float],
        breaks: Breaks,
    ) -> CountPath:
        """Estimate a count at each wave if its rate of change may differ from that of its columns.

        The result is the mean over several multiples of the rate, with a log-normal prior around 1
        (a factor of three is one standard deviation) and the likelihood of the values. Its
        covariance includes the differences between these estimates.

        Parameters
        ----------
        measured : sequence of WaveCounts
            The count (one cell) at each wave, in order.
        rate : tuple of float
            Variances of lasting, passing and rising changes of this count.
        off : (bool array, float)
            The values that share one unknown error, and its variance.
        breaks : mapping of int to float
            Waves at which the count breaks, with the factor for the variance of the step.
        """
        unit = np.ones(1)
        rates = tuple(np.maximum(part * MULTIPLES / ABOVE**0.5, 1e-9) for part in rate)
        found = -0.5 * (np.log(MULTIPLES) / np.log(UNSURE)) ** 2
        found += _log_likelihoods(measured, (rates[0], rates[1], rates[2]), unit, breaks)
        weights = np.exp(found - logsumexp(found))
        sizes = np.array([one.size for one in measured])
        values = np.array([one.counts[0] for one in measured])
        variances = np.array([one.variances[0] for one in measured])
        paths = [
            cls.of([one.wave for one in measured], values, variances, lasting,
                   passing=passing / sizes, rising=rising, off=off, breaks=breaks)
            for lasting, passing, rising in zip(*rates, strict=True)
        ]  # fmt: skip
        mean = sum(w * path.values for w, path in zip(weights, paths, strict=True))
        covariance = sum(
            w * (path.covariance + np.outer(path.values - mean, path.values - mean))
            for w, path in zip(weights, paths, strict=True)
        )
        gains = sum(w * path.gains for w, path in zip(weights, paths, strict=True))
        return cls(paths[0].waves, np.asarray(mean), np.asarray(covariance), np.asarray(gains))

    def grown(self, sizes: Floats, unsure: Floats, shared: Floats) -> CountPath:
        """Multiply estimates by the sizes of their waves, by which values were divided before.

        If a size has a relative error, an estimate has this error minus what it took from values
        divided by the same size. The error of a size shares noise with the value.

        Parameters
        ----------
        sizes : float array
            The relative sizes.
        unsure : float array
            Covariance of their relative errors.
        shared : float array
            Covariance of the noise in each value (first axis) with those errors (second).
        """
        rest = (np.eye(len(sizes)) - self.gains) * self.values[:, None]
        both = self.gains @ shared @ rest.T
        covariance = self.covariance + rest @ unsure @ rest.T + both + both.T
        return replace(
            self, values=self.values * sizes, covariance=covariance * np.outer(sizes, sizes)
        )

    def weighed(self, weights: Floats) -> tuple[float, float]:
        """Return a weighted sum of the values, and the variance of its error."""
        return float(weights @ self.values), float(weights @ self.covariance @ weights)
