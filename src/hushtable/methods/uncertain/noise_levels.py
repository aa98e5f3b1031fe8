"""Choice of the noise level of each record, so that everyone has cover within their level.

Records that carry different values, or publish noise of different size or shape, can be
distinguished, so each set of them must provide its own cover. The aim is few sets with little
noise: records are divided into levels, and each level is checked separately (`CoverCheck`).

Levels are on a logarithmic scale of sizes, with `PER_DOUBLING` steps (rungs) per doubling. For each
group of records that can be distinguished anyway:

1. `_by_shape`: if noise is shaped like neighborhoods, frequent shapes get their own levels. Records
   of rare shapes, and of shapes without cover, share unshaped noise.
2. `_climb`: all records first share one level, the lowest rung at which all have cover. From low
   rungs upward, a separate level is tried for records that have cover with less noise. `_settled`
   removes records without cover, which may leave others without, until all have it. The separate
   level is kept if the remaining records still have cover together and the mean noise is smaller.
3. `_certified`: every level is checked on fresh samples. Levels that fail rise by one rung and are
   checked again, more strictly.

Steps 1 and 2 only propose levels, so they may be wrong or inefficient: they use few samples, and
only a subset of the records if there are many. Only step 3 matters for the guarantee, and it checks
every record.

``uncertain.md`` proves the statements that this code relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.extras import needing
from hushtable.kernels.anonymity_sets import (
    count_uncovered,
    gaussian_scales,
    leaf_order,
    uniform_scales,
)
from hushtable.methods.uncertain.grid import NoiseGrid
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import bisect_exact

with needing("science"):
    from scipy.special import bdtr


# Cover at a noise level: how often fewer than k records fit the published point.
#
# The records of one level publish noise of the same size and shape. A record has cover in a sample
# of the noise if at least k records of its level, itself included, fit the published point at least
# as well as it does. The guarantee is a bound eta on the probability of a sample without cover.
#
# This probability is estimated by sampling the noise (`count_uncovered`). The search for levels
# uses few samples and may be wrong in both directions (`lacking`). The final check (`fails`) must
# not be: it uses fresh samples in two stages, a short one that passes clear cases and a long one
# for the others. It allows so few uncovered samples that a record whose probability is too large is
# very unlikely to pass.
#
# Each check has a probability of error for some record. Turn t of the check may err with half the
# probability of turn t - 1, so that over all turns, both stages and all records the error
# probabilities sum to `CONFIDENCE_SHARE` of eta. The rest of eta is available to the records; the
# proof is in ``uncertain.md``. If k is required only in expectation (eta is None), a closed formula
# decides without sampling.

PER_DOUBLING = 8
"""Levels per doubling of the noise."""

CONFIDENCE_SHARE = Fraction(1, 50)
"""Share of eta reserved for errors of the check itself."""

# Number of samples per check, times eta: the search for levels, and the two stages of the final
# check.
_SEARCH, _FIRST, _SECOND = 12, 20, 100


@dataclass(frozen=True)
class NoiseLevel:
    """Noise level: records whose noise has the same size and shape."""

    rows: Integers
    rung: int
    shape: Floats

    @property
    def size(self) -> float:
        """Sigma or cube side, in public scales."""
        return float(2.0 ** (self.rung / PER_DOUBLING))


@dataclass(frozen=True)
class CoverCheck:
    """Check that the records of a noise level have cover: that enough of them fit each other."""

    points: Floats  # all records (n, d), in units of the public scales
    k: Integers  # number of records that must fit, for each record
    eta: Fraction | None  # largest probability of fewer than k; None requires k in expectation
    ruler: NoiseGrid  # noise that can be sampled
    noise: Noise  # source of the samples for the checks

    # --- search for levels ------------------------------------------------------------------------

    def lacking(
        self, level: NoiseLevel, draws: Integers | None = None, asked: Integers | None = None
    ) -> Bools:
        """Return which records lack cover, by the closed formula or a short simulation.

        `draws` are samples of the noise from `search_draws` (by default fresh ones); `asked` are
        positions in the level (by default all).
        """
        if self.eta is None:
            return self._lacking_on_average(level, asked)
        draws = self.search_draws(level) if draws is None else draws
        limit = int(self.quotas(1)[1] / (_SECOND / _SEARCH))
        return self.n_uncovered(level, draws, limit, asked) > limit

    def _lacking_on_average(self, level: NoiseLevel, asked: Integers | None) -> Bools:
        """Return which records need wider noise for k records to fit on average."""
        noise_range, is_box = self._noise_range(level), self.ruler.model == "uniform"
        sizes = noise_range * 2 + self.ruler.step if is_box else noise_range
        solve = uniform_scales if is_box else gaussian_scales
        scales = solve(self.points[level.rows] / sizes, self.k[level.rows].astype(np.float64))
        return np.asarray((scales if asked is None else scales[asked]) > 1)

    def search_draws(self, level: NoiseLevel) -> Integers:
        """Sample the noise of a level as often as a search needs."""
        return self._draws(level, _SEARCH)

    # --- the final check --------------------------------------------------------------------------

    def fails(self, level: NoiseLevel, turn: int) -> Bools:
        """Return which records fail the final check: a short stage first, then a long one."""
        first, second = self.quotas(turn)
        asked = np.arange(len(level.rows))
        if first >= 0:
            asked = asked[self.n_uncovered(level, self._draws(level, _FIRST), first) > first]
        bad = np.zeros(len(level.rows), np.bool_)
        if len(asked):
            draws = self._draws(level, _SECOND)
            bad[asked] = self.n_uncovered(level, draws, max(second, 0), asked) > second
        return bad

    def quotas(self, turn: int) -> tuple[int, int]:
        """Return the allowed numbers of uncovered samples in the two stages of a turn of the check.

        A record that lacks cover with more than the tolerated probability passes a stage with
        probability at most ``beta``. Over both stages, all turns and all records, these
        probabilities sum to `CONFIDENCE_SHARE` of eta.
        """
        eta = self.eta or Fraction(0)
        tolerated = float(eta * (1 - CONFIDENCE_SHARE))
        beta = float(eta * CONFIDENCE_SHARE) / 2**turn / 2 / len(self.points)
        first, second = (
            _largest_quota(int(times / eta) + 1, tolerated, beta) for times in (_FIRST, _SECOND)
        )
        return first, second

    # --- samples ----------------------------------------------------------------------------------

    def _draws(self, level: NoiseLevel, times: int) -> Integers:
        if self.eta is None:
            return np.empty((0, self.points.shape[1]), np.int64)
        widths = self.ruler.widths(level.size * level.shape)
        return self.ruler.draw(np.tile(widths, (int(times / self.eta) + 1, 1)), self.noise)

    def _noise_range(self, level: NoiseLevel) -> Floats:
        return self.ruler.noise_range(self.ruler.widths(level.size * level.shape))

    def n_uncovered(
        self, level: NoiseLevel, draws: Integers, limit: int, asked: Integers | None = None
    ) -> Integers:
        """Count samples without cover, for all records of the level or for some positions in it.

        Counting stops above `limit`.
        """
        noise_range = self._noise_range(level)
        points, errors = self.points[level.rows], draws * self.ruler.step
        period = self.ruler.period
        # A quarter of a step does not change grid comparisons and exceeds any rounding error.
        half_sides: Floats | None = noise_range + self.ruler.step / 4
        if self.ruler.model == "gaussian":  # in these units the noise is isotropic
            points, errors, half_sides = points / noise_range, errors / noise_range, None
            period = None if period is None else period / noise_range
        # Sort neighbors together, so that far ones are skipped as blocks.
        order = leaf_order(points)
        place = np.empty(len(points), np.int64)
        place[order] = np.arange(len(points))
        asked = np.arange(len(points)) if asked is None else asked
        return count_uncovered(
            points[order], errors, k=self.k[level.rows][asked], limit=limit,
            period=period, half_sides=half_sides, rows=place[asked],
        )  # fmt: skip


def _largest_quota(n: int, chance: float, beta: float) -> int:
    """Return the largest c with P(Binomial(n, chance) <= c) <= beta; -1 if there is none.

    Examples
    --------
    >>> _largest_quota(2001, 0.049, 2.5e-8)
    49
    """
    return bisect_exact(lambda quota: bool(bdtr(quota, n, chance) <= beta), -1, n)


LOWEST = -8 * PER_DOUBLING
HIGHEST = {"uniform": 14 * PER_DOUBLING, "gaussian": 5 * PER_DOUBLING}
"""Range of levels: from 2**-8 to 2**14 (cube side) or 2**5 (sigma) public scales."""

SMALLEST_CLASS = Fraction(1, 20)
"""A separate level needs this share of the records, and more than 4 k of them."""

_MAX_EVICTIONS = 8  # limit of removal rounds for a separate level
_TRIALS = 16  # maximum number of rungs at which a separate level is tried
_ASKED = 4000  # number of records in a first search; then all are checked


class NoCover(Exception):  # noqa: N818 - an outcome that the method converts to a message
    """Some records have no cover at any level."""

    def __init__(self, rows: Integers) -> None:
        super().__init__()
        self.rows = rows


@dataclass(frozen=True)
class LevelFinder:
    """Search for levels such that each record has cover within its own level."""

    check: CoverCheck

    @property
    def _top(self) -> int:
        return HIGHEST[self.check.ruler.model]

    def find(self, groups: Sequence[Integers], shapes: Floats) -> list[NoiseLevel]:
        """Find levels for groups of records that can be distinguished anyway.

        Parameters
        ----------
        groups : sequence of arrays
            Rows by what is published beside the noisy columns; cover never crosses groups.
        shapes : array (n, d)
            Factor per record and column; 1 unless noise is scaled locally.

        Raises
        ------
        NoCover
            If some records have no cover at any level.
        """
        proposed: list[NoiseLevel] = []
        hopeless: list[Integers] = []
        for rows in groups:
            try:
                proposed += self._by_shape(rows, shapes)
            except NoCover as failure:
                hopeless.append(failure.rows)
        if hopeless:
            raise NoCover(np.concatenate(hopeless))
        return self._certified(proposed)

    # --- 1: shapes --------------------------------------------------------------------------------

    def _by_shape(self, rows: Integers, shapes: Floats) -> list[NoiseLevel]:
        """Propose levels for one group: one set per frequent shape, the rest unshaped."""
        levels: list[NoiseLevel] = []
        kinds, kind_of = np.unique(shapes[rows], axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        left = np.zeros(len(rows), np.bool_)
        for number, shape in enumerate(kinds):
            members = kind_of == number
            if np.all(shape == 1) or members.sum() < self._smallest(rows):
                left |= members
                continue
            try:
                levels += self._climb(rows[members], shape)
            except NoCover:
                left |= members
        unshaped = np.ones(shapes.shape[1])
        if levels and 0 < left.sum() < self._smallest(rows):
            return self._climb(rows, unshaped)  # the rest is too small to be separate
        try:
            return levels + self._climb(rows[left], unshaped)
        except NoCover:
            if not levels:
                raise
            return self._climb(rows, unshaped)

    def _smallest(self, rows: Integers) -> int:
        """Return the minimum number of records for a separate level."""
        return max(int(SMALLEST_CLASS * len(rows)), 4 * int(self.check.k[rows].max()) + 1)

    # --- 2: separate levels -----------------------------------------------------------------------

    def _climb(self, rows: Integers, shape: Floats) -> list[NoiseLevel]:
        """Assign low levels to records with cover there, and the lowest possible to the rest."""
        if not len(rows):
            return []
        rest = self._lowest(NoiseLevel(rows, self._top, shape), LOWEST - 1)
        best = [rest]
        smallest, first = self._smallest(rows), self._first_rung(rest)
        for rung in range(first, rest.rung, max(2, (rest.rung - first) // _TRIALS)):
            divided = self._divided(rest, rung, smallest)
            if not divided:
                continue
            candidate = [*best[:-1], *divided]
            if _mean_size(candidate) < _mean_size(best):
                best, rest = candidate, candidate[-1]
                if len(divided) == 1:
                    break
        return best

    def _divided(self, rest: NoiseLevel, rung: int, smallest: int) -> list[NoiseLevel]:
        """Divide records into those with cover at a rung and the rest; [] if impossible."""
        low = self._settled(replace(rest, rung=rung), at_least=smallest)
        remaining = np.setdiff1d(rest.rows, low.rows)
        if not len(low.rows) or 0 < len(remaining) < smallest:
            return []
        if not len(remaining):
            return [low]
        try:
            return [low, self._lowest(replace(rest, rows=remaining, rung=self._top), rung)]
        except NoCover:
            return []  # the rest would have no cover: keep all together

    def _settled(self, level: NoiseLevel, *, at_least: int) -> NoiseLevel:
        """Remove records without cover until all have it; empty if that takes too long."""
        draws = self.check.search_draws(level)
        for _ in range(_MAX_EVICTIONS):
            if len(level.rows) < at_least:
                break
            bad = self.check.lacking(level, draws)
            if not bad.any():
                return level
            level = replace(level, rows=level.rows[~bad])
        return replace(level, rows=level.rows[:0])

    def _lowest(self, level: NoiseLevel, below: int) -> NoiseLevel:
        """Find the lowest level above `below` at which all these records have cover.

        A subset of the records is checked first. At the level that suffices for it, all are
        checked, and from there on only those without cover. The final check finds what this
        overlooks.
        """
        asked = _spread(level)
        rung = self._lowest_rung(level, asked, below)
        if len(asked) < len(level.rows):
            bad = np.flatnonzero(self.check.lacking(replace(level, rung=rung)))
            if len(bad):
                rung = self._lowest_rung(level, bad, rung)
        return replace(level, rung=rung)

    def _lowest_rung(self, level: NoiseLevel, asked: Integers, below: int) -> int:
        """Find the lowest rung above `below` at which the records at some positions have cover."""
        check = self.check
        if check.lacking(level, asked=asked).any():
            # Few samples may be wrong, and this is the last resort, so use as many as the final
            # check.
            bad = check.lacking(level) if check.eta is None else check.fails(level, turn=1)
            if bad.any():
                raise NoCover(level.rows[bad])
            return level.rung
        return _bisect(
            below,
            level.rung,
            lambda rung: not check.lacking(replace(level, rung=rung), asked=asked).any(),
        )

    def _first_rung(self, level: NoiseLevel) -> int:
        """Find the lowest rung at which enough records have cover for a separate level."""
        asked = _spread(level)
        enough = self._smallest(level.rows) / len(level.rows) * len(asked)
        return _bisect(
            LOWEST - 1,
            level.rung,
            lambda rung: bool(
                (~self.check.lacking(replace(level, rung=rung), asked=asked)).sum() >= enough
            ),
        )

    # --- 3: the guarantee -------------------------------------------------------------------------

    def _certified(self, levels: list[NoiseLevel]) -> list[NoiseLevel]:
        """Check every level on fresh samples; raise those that fail, and check them again."""
        if self.check.eta is None:
            return levels
        certain: list[NoiseLevel] = []
        for turn in count(1):
            failing: list[NoiseLevel] = []
            for level in levels:
                bad = self.check.fails(level, turn)
                if not bad.any():
                    certain.append(level)
                elif level.rung < self._top:
                    failing.append(replace(level, rung=level.rung + 1))
                else:
                    raise NoCover(level.rows[bad])
            if not failing:
                break
            levels = failing
        return certain


def _bisect(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """Return the lowest rung above `low` that suffices, given that `high` does.

    Examples
    --------
    >>> _bisect(-1, 100, lambda rung: rung >= 37)
    37
    """
    return min(bisect_exact(lambda rung: not suffices(rung), low, high) + 1, high)


def _spread(level: NoiseLevel) -> Integers:
    """Return evenly spaced positions of records of a level, or all if there are few."""
    n = len(level.rows)
    return np.arange(n) if n <= _ASKED else np.linspace(0, n - 1, _ASKED).astype(np.int64)


def _mean_size(levels: Sequence[NoiseLevel]) -> float:
    counts = [len(level.rows) for level in levels]
    return float(np.average([level.size for level in levels], weights=counts))
