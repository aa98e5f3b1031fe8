"""How counts move from wave to wave, learned from noisy tables: what lasts, passes and goes on.

From one wave to the next a count of m among n rows is taken to move by a random step of variance
c m (1 - m/n), plus c for what is empty, which lasts: if a small share s of the rows is exchanged
for others like them, c is 2 s. Beside this, at each wave it is off by a deviation of variance
w m (1 - m/n), plus w, which is gone in the next: if all rows are drawn anew, w is 1. And it may
rise or fall by an amount that is the same each time, of variance g m (1 - m/n), plus g. Where the
number of rows moves, too, a count moves with it in proportion: counts of different waves are
compared as if each had as many rows as all have on average. Steps and deviations are taken as
independent. Everything measured about a count, at whatever wave, then says something about it at
any other, and the best weights are those of precision (Kalman 1960; Rauch, Tung and Striebel 1965).

All of this is post-processing of noisy tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_PACE, MOST_PACE = 1e-5, 256.0
"""Between these the pace is looked for: five rows in a million exchanged, or far more than chance.

Where all rows are exchanged for others like them it is 2; what really changes moves by more."""

UNSURE = 3.0
"""The factor by which a supposed pace may well be off."""

ABOVE = float(np.exp(np.log(UNSURE) ** 2 / 2))
"""The mean of all paces, where nothing is known but the one supposed, is so many times as large."""

_ANY = 30.0  # the factor by which the variance of a step of the number of rows may well be off
_N_PACES = 240
_PASSING = np.linspace(0.0, 1.0, 9)  # parts of what moves in a wave that may be gone in the next
_UNSURE_PART = 0.25  # by how much that part may well be off what an exchange of rows makes of it
_RISING = np.array([0.0, 0.25, 0.5, 0.75, 0.9])  # parts of what lasts that may go on and on
_NO_RISE = float(np.log(len(_RISING) - 1))  # none is as likely as all other parts together


@dataclass(frozen=True)
class Pace:
    """How fast counts move, in parts of the variance m (1 - m/n) of a draw.

    Parameters
    ----------
    lasting : float
        The variance of a step of the walk from one wave to the next.
    passing : float
        The variance by which each wave is off the walk, by itself.
    rising : float
        The variance of a step that is the same from each wave to the next.
    """

    lasting: float
    passing: float = 0.0
    rising: float = 0.0

    @property
    def apart(self) -> float:
        """The variance of the difference between a wave and the next."""
        return self.lasting + self.rising + 2 * self.passing

    @classmethod
    def most(cls, paces: Iterable[Pace]) -> Pace:
        """Move as the one that moves most, in either way."""
        several = list(paces)
        return cls(
            max(one.lasting for one in several),
            max(one.passing for one in several),
            max(one.rising for one in several),
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of the same cells at one wave.

    Parameters
    ----------
    wave : int
        When.
    counts : float array
        The noisy counts.
    variances : float array
        Of the noise in each.
    size : float
        The size of the wave, of an average one, that counts were divided by: in a small one they
        are off by more.
    """

    wave: int
    counts: Floats
    variances: Floats
    size: float = 1.0

    @property
    def state(self) -> State:
        """What it says about its own wave."""
        return State(self.counts, self.variances)

    def state_of_walk(self, passing: Floats | float) -> State:
        """Say what it tells about what lasts, with the variance of what passes in a wave."""
        return State(self.counts, self.variances + passing / self.size)

    def divided(self, size: float) -> Measured:
        """Divide all counts by the size of the wave."""
        return Measured(self.wave, self.counts / size, self.variances / size**2, size)

    def spans(self, total: Measured) -> Measured:
        """Count the rows up to the end of each cell but the last, given how many there are in all.

        Examples
        --------
        >>> cells = Measured(1, np.array([30.0, 50.0, 40.0]), np.full(3, 9.0))
        >>> cells.spans(Measured(1, np.array([117.0]), np.array([1.0]))).counts
        array([29., 78.])
        """
        counts, variances = self.counts.cumsum(), self.variances.cumsum()
        parts = variances[:-1] / variances[-1]
        return Measured(
            self.wave,
            counts[:-1] - parts * (counts[-1] - total.counts[0]),
            variances[:-1] * (1 - parts),
        )

    def averaged(self, other: Measured) -> Measured:
        """Average with another measurement at the same wave."""
        both = self.state.averaged(other.state)
        return Measured(self.wave, both.counts, both.variances)


@dataclass(frozen=True, eq=False)
class State:
    """What is known about counts at one wave: estimates, and the variances of their errors."""

    counts: Floats
    variances: Floats

    def averaged(self, other: State) -> State:
        """Average with what is known independently, by precision."""
        mine, theirs = 1 / self.variances, 1 / other.variances
        both = mine + theirs
        return State((mine * self.counts + theirs * other.counts) / both, 1 / both)

    def moved(self, variances: Floats) -> State:
        """Let the counts move."""
        return State(self.counts, self.variances + variances)


def steps(measured: Sequence[Measured], total: float) -> Floats:
    """Give what the pace multiplies: how much each count moves in a wave, for a pace of one."""
    shares = shares_of(measured, total)
    moved: Floats = max(total, 1.0) * shares * (1 - shares) + 1.0
    return moved


def shares_of(measured: Sequence[Measured], total: float) -> Floats:
    """Give about what share of the rows is in each cell, in all waves together."""
    both = measured[0].state
    for one in measured[1:]:
        both = both.averaged(one.state)
    shares: Floats = np.clip(both.counts / max(total, 1.0), 0.0, 1.0)
    return shares


def total_step(totals: Sequence[Measured]) -> float:
    """Learn the variance of a step of the number of rows from at least two waves.

    It is the mean of all variances by their likelihood, of steps of a walk, times how far they are
    from the number of rows itself, as if all were drawn anew. Hardly anything is known of it
    beforehand: a factor of thirty counts as one standard deviation. Where steps are smaller than
    noise, or few, nothing says that the number stands still, and the mean is above the best one.

    Examples
    --------
    >>> def seen(wave, rows):
    ...     return Measured(wave, np.array([rows]), np.array([50.0]))
    >>> 80 < total_step([seen(wave, 1000.0 + 100 * (wave % 2)) for wave in range(9)]) ** 0.5 < 120
    True
    >>> total_step([seen(wave, 1000.0) for wave in range(9)]) < 50
    True
    """
    ordered = sorted(totals, key=lambda one: one.wave)
    rows = max(1.0, float(np.mean([one.counts[0] for one in ordered])))
    found = rows * np.geomspace(1e-6, 1e6, _N_PACES)
    likely = -0.5 * (np.log(found / rows) / np.log(_ANY)) ** 2
    none = np.zeros(len(found))
    likely += _log_likelihoods(ordered, (found, none, none), np.ones(1))
    weights = np.exp(likely - likely.max())
    return float(found @ weights / weights.sum())


def known_at(
    wave: int, measured: Sequence[Measured], step: Floats, passing: Floats | float = 0.0
) -> State:
    """Say what measurements at other waves, earlier or later, tell about the walk at one.

    Parameters
    ----------
    wave : int
        The wave that is asked about.
    measured : sequence of Measured
        What was measured, at most once at each wave; at least one.
    step : float array
        The variance of a step of each count from one wave to the next.
    passing : float array
        The variance by which a wave of average size is off the walk.
    """
    before = sorted((one for one in measured if one.wave <= wave), key=lambda one: one.wave)
    after = sorted((one for one in measured if one.wave > wave), key=lambda one: -one.wave)
    found = [_walked(part, wave, step, passing) for part in (before, after) if part]
    return found[0] if len(found) == 1 else found[0].averaged(found[1])


def gains_at(
    wave: int, measured: Sequence[Measured], step: Floats, passing: Floats | float = 0.0
) -> Floats:
    """Say what each measurement (first axis) weighs in what `known_at` says of each count."""
    ones = np.eye(len(measured))[:, :, None]
    each = [replace(one, counts=ones[place]) for place, one in enumerate(measured)]
    return known_at(wave, each, step, passing).counts


def _walked(
    measured: Sequence[Measured], wave: int, step: Floats, passing: Floats | float
) -> State:
    """Filter measurements in the order given, and go on to a wave."""
    at, state = measured[0].wave, measured[0].state_of_walk(passing)
    for one in measured[1:]:
        state = state.moved(step * abs(one.wave - at)).averaged(one.state_of_walk(passing))
        at = one.wave
    return state.moved(step * abs(wave - at))


def learned_pace(
    series: Sequence[Sequence[Measured]],
    total: float,
    *,
    supposed: float,
    weight: float = 1.0,
    may_rise: bool = False,
) -> Pace:
    """Learn the pace from tables that were measured several times.

    It is the mean of all paces by their likelihood, of what each wave brought that was not
    expected, times how far they are from what was supposed: a factor of three of the difference
    between a wave and the next counts as one standard deviation. The part of it that passes is
    supposed to be that of an exchange of rows, and any part of what lasts may go on at each wave,
    if counts may rise. The mean is above the best one, the more so the less
    is known.

    Parameters
    ----------
    series : sequence of sequences of Measured
        Tables, each as it was measured at several waves.
    total : float
        About how many rows a wave has.
    supposed : float
        What the variance of the difference between a wave and the next is supposed to be.
    weight : float
        What counts of a table are worth that hang together, of independent ones.
    may_rise : bool
        Whether counts may rise or fall by the same amount from each wave to the next.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> walk = 5000 + np.cumsum(rng.normal(0, 20, (40, 30)), axis=0)
    >>> noisy = walk + rng.normal(0, 10, (40, 30))
    >>> seen = [Measured(wave, row, np.full(30, 100.0)) for wave, row in enumerate(noisy)]
    >>> 0.07 < learned_pace([seen], 150_000.0, supposed=1.0).lasting < 0.1  # 400/(5000 (1 - 1/30))
    True
    >>> learned_pace([], 150_000.0, supposed=0.1)
    Pace(lasting=0.1, passing=0.0, rising=0.0)
    """
    several = [sorted(table, key=lambda one: one.wave) for table in series if len(table) > 1]
    if not several:
        return Pace(supposed)
    apart, part, keeps = (
        one.ravel()
        for one in np.meshgrid(
            np.geomspace(LEAST_PACE, MOST_PACE, _N_PACES),
            _PASSING,
            _RISING if may_rise else _RISING[:1],
        )
    )
    lasting, passing = np.maximum((1 - part) * (1 - keeps) * apart, LEAST_PACE), part * apart / 2
    rising = (1 - part) * keeps * apart
    found = -0.5 * (np.log(apart / supposed) / np.log(UNSURE)) ** 2
    # A draw of all rows anew is 1 of what passes, and whatever moves beyond is supposed to last.
    found -= 0.5 * ((part - np.minimum(apart / 2, 2 / apart)) / _UNSURE_PART) ** 2
    found += _NO_RISE * (keeps == 0)
    for table in several:
        found += weight * _log_likelihoods(table, (lasting, passing, rising), steps(table, total))
    likely = np.exp(found - found.max())
    likely /= likely.sum()
    return Pace(float(lasting @ likely), float(passing @ likely), float(rising @ likely))


def _log_likelihoods(
    measured: Sequence[Measured], paces: tuple[Floats, Floats, Floats], unit: Floats
) -> Floats:
    """Give the log-likelihood of each pace, lasting, passing and rising, but for a constant.

    Steps that are always the same are one unknown for each count, which is integrated out: the
    filter is run on the time as well, and what is left of both is regressed on each other.
    """
    lasting, passing, rising = (np.outer(pace, unit) for pace in paces)
    first = measured[0].state_of_walk(passing)
    counts, variances = np.broadcast_to(first.counts, lasting.shape), first.variances
    times, both, squares = (np.zeros(lasting.shape) for _ in range(3))
    found = np.zeros(len(lasting))
    at = measured[0].wave
    for one in measured[1:]:
        variances = variances + lasting * (one.wave - at)
        told = one.state_of_walk(passing)
        gap, spread = told.counts - counts, variances + told.variances
        late = one.wave - measured[0].wave - times
        found -= (gap**2 / spread + np.log(spread)).sum(axis=1) / 2
        both, squares = both + late * gap / spread, squares + late**2 / spread
        weight = variances / spread
        counts, times = counts + weight * gap, times + weight * late
        variances, at = variances * (1 - weight), one.wave
    known = rising * squares
    found += (rising * both**2 / (1 + known) - np.log1p(known)).sum(axis=1) / 2
    return found


@dataclass(frozen=True, eq=False)
class Path:
    """What is known about one count at every wave, with the covariance of the errors.

    Parameters
    ----------
    waves : tuple of int
        The waves, in order.
    values : float array
        The estimates.
    covariance : float array
        Of their errors.
    gains : float array
        What the value measured at each wave (second axis) weighs in each estimate (first).
    """

    waves: tuple[int, ...]
    values: Floats
    covariance: Floats
    gains: Floats

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
    ) -> Path:
        """Weigh noisy values of a walk; a variance is infinite where there is none.

        Parameters
        ----------
        waves : sequence of int
            In order.
        values, variances : float array
            What was measured at each, independently.
        step : float
            The variance of the walk's step from one wave to the next.
        passing : float array or float
            The variance by which each wave is off the walk.
        rising : float
            The variance of a step that is the same from each wave to the next.
        off : (bool array, float), optional
            Which of the values are off by the same unknown amount, and the variance of that.
        """
        told = 1 / (variances + passing)
        # Unknowns are the walk at each wave, and one for each of these with its variance: by how
        # much the count rises from wave to wave, and by how much some of the values are off.
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
        for place, gap in enumerate(np.diff(waves)):
            tie = 1 / (step * gap)
            precision[place : place + 2, place : place + 2] += tie * np.array([[1, -1], [-1, 1]])
        # What passes at a wave is what it brought beside the walk, less noise.
        kept = passing * told
        rest = np.hstack(
            [(1 - kept)[:, None] * design[:, :n_true], -kept[:, None] * design[:, n_true:]]
        )
        covariance = np.linalg.inv(precision)
        gains = rest @ covariance @ weights + np.diag(kept)
        covariance = rest @ covariance @ rest.T + np.diag(passing * (1 - kept))
        return cls(tuple(waves), gains @ values, covariance, gains)

    def grown(self, sizes: Floats, unsure: Floats, shared: Floats) -> Path:
        """Multiply values that were divided by the sizes of their waves before they were weighed.

        Where a size is wrong by a part, an estimate is by that part less what it took from values
        that were divided by it. What makes a size too large is noise that is in part in the value
        as well.

        Parameters
        ----------
        sizes : float array
            The sizes.
        unsure : float array
            The covariance of their errors, as parts of them.
        shared : float array
            The covariance of the noise in each value (first axis) with those errors (second).
        """
        rest = (np.eye(len(sizes)) - self.gains) * self.values[:, None]
        both = self.gains @ shared @ rest.T
        covariance = self.covariance + rest @ unsure @ rest.T + both + both.T
        return replace(
            self, values=self.values * sizes, covariance=covariance * np.outer(sizes, sizes)
        )

    def weighed(self, weights: Floats) -> tuple[float, float]:
        """Give a weighted sum of the values, and the variance of its error."""
        return float(weights @ self.values), float(weights @ self.covariance @ weights)
