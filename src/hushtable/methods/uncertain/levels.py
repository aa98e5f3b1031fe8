"""Which noise level each record publishes, so that everyone has cover among those at that level.

The statements that the code below relies on are proved in ``uncertain.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from hushtable.kernels.anonymity import (
    Points,
    Vector,
    gaussian_scales,
    leaf_order,
    uniform_scales,
)
from hushtable.kernels.cover import count_uncovered
from hushtable.privacy.noise import Noise

Model = Literal["uniform", "gaussian"]
Integers = NDArray[np.int64]

SIGMA_PARTS = 1024
"""A Gaussian's sigma is a whole number of such parts of the column's step."""

WIDEST_SIGMA = 4
"""On joined ends a sigma of so many lengths of the column is as good as even, and the widest."""

PER_DOUBLING = 8
"""Levels per doubling of the noise."""

LOWEST = -8 * PER_DOUBLING
HIGHEST = {"uniform": 14 * PER_DOUBLING, "gaussian": 5 * PER_DOUBLING}
"""The ladder of levels: from 2**-8 to 2**14 (cube side) or 2**5 (sigma) public scales."""

SMALLEST_CLASS = Fraction(1, 20)
"""A level of its own is worth it for this share of the records, and more than 4 k of them."""

CONFIDENCE_SHARE = Fraction(1, 50)
"""Share of eta that is kept for the chance that the check itself is wrong."""

# Draws per check, times eta: a search for levels, and the two stages of the final check.
_SEARCH, _FIRST, _SECOND = 12, 20, 100
_MAX_EVICTIONS = 8  # a set that is still crumbling then is not worth a level
_TRIALS = 16  # at so many rungs at most a level of its own is tried
_ASKED = 4000  # so many records tell about where all have cover; only then all are asked


@dataclass(frozen=True)
class Ruler:
    """Know which noise can be drawn exactly: on each column's public grid.

    Parameters
    ----------
    model : {"uniform", "gaussian"}
        The kind of noise.
    step : array (d,)
        The distance between grid points, in units of the column's public scale.
    n_values : array (d,), optional
        Number of grid points of each column, if its two ends are joined; None for open columns.
    """

    model: Model
    step: Vector
    n_values: Integers | None = None

    @property
    def period(self) -> Vector | None:
        """Length of each column in normalized units, if its ends are joined."""
        return None if self.n_values is None else self.n_values * self.step

    def widths(self, size: Vector) -> Integers:
        """Round a sigma or a cube side up to a whole number of parts, or of steps to each side.

        Examples
        --------
        >>> Ruler("uniform", np.array([1.0])).widths(np.array([2.5]))  # 3 grid points, 1 each side
        array([1])
        """
        if self.model == "uniform":
            widths = np.maximum(np.ceil((size / self.step - 1) / 2 - 1e-9), 0)
            if self.n_values is not None:  # a box that goes all the way round reaches everything
                widths = np.minimum(widths, self.n_values // 2)
            return np.asarray(widths, np.int64)
        parts = np.maximum(np.ceil(size / self.step * SIGMA_PARTS - 1e-6), 1)
        if self.n_values is not None:
            parts = np.minimum(parts, self.n_values * (WIDEST_SIGMA * SIGMA_PARTS))
        whole = np.ceil(parts / SIGMA_PARTS) * SIGMA_PARTS
        # Beyond this, parts of a step no longer matter and would not fit the sampler's integers.
        return np.where(parts > 2**21, whole, parts).astype(np.int64)

    def reach(self, widths: Integers) -> Vector:
        """Give sigma, or half the side from end to end, in normalized units."""
        parts = SIGMA_PARTS if self.model == "gaussian" else 1
        return widths * (self.step / parts)

    def draw(self, widths: Integers, noise: Noise) -> Integers:
        """Draw one error per entry of `widths` (one row per record), in steps of the grid."""
        out = np.empty(widths.shape, np.int64)
        for column in range(widths.shape[1]):
            n_values = None if self.n_values is None else int(self.n_values[column])
            order = np.argsort(widths[:, column], kind="stable")
            values, starts = np.unique(widths[order, column], return_index=True)
            for value, rows in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
                if self.model == "uniform":
                    out[rows, column] = _uniform_errors(value, n_values, len(rows), noise)
                else:
                    out[rows, column] = _gaussian_errors(value, n_values, len(rows), noise)
        return out

    def place(self, steps: Integers) -> Integers:
        """Bring noisy values back into the columns, the way round their joined ends."""
        return steps if self.n_values is None else steps % self.n_values


def _uniform_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Draw from the grid points up to `width` away; all the way round, each value once."""
    if n_values is not None and 2 * width + 1 > n_values:
        return noise.uniform_below(n_values, size=n) - (n_values - 1) // 2
    return noise.uniform_below(2 * width + 1, size=n) - width


def _gaussian_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Draw a discrete Gaussian; with joined ends, one that goes at most half way round."""
    variance = Fraction(width, SIGMA_PARTS) ** 2
    if n_values is None:
        return noise.discrete_gaussian(variance, size=n)
    kept = np.empty(0, np.int64)
    tries = max(1, 3 * width // (SIGMA_PARTS * n_values))  # about as many as one inside takes
    while len(kept) < n:
        drawn = noise.discrete_gaussian(variance, size=(n - len(kept)) * tries + 16)
        # n_values errors, one for each value round the column: none may be reached both ways.
        inside = (drawn >= -((n_values - 1) // 2)) & (drawn <= n_values // 2)
        kept = np.concatenate((kept, drawn[inside]))
    return kept[:n]


@dataclass(frozen=True)
class Level:
    """Hold the records that publish the same level: their rows, the level and its shape."""

    rows: Integers
    rung: int
    shape: Vector

    @property
    def size(self) -> float:
        """Sigma or cube side, in public scales."""
        return float(2.0 ** (self.rung / PER_DOUBLING))


class NoCover(Exception):  # noqa: N818 - an outcome that the method turns into its own words
    """Some records have no cover at any level."""

    def __init__(self, rows: Integers) -> None:
        super().__init__()
        self.rows = rows


@dataclass(frozen=True)
class LevelFinder:
    """Divide records into levels and check that every one has cover within its own.

    Parameters
    ----------
    points : array (n, d)
        All records, in units of the public scales.
    k : array (n,)
        How many records must fit, for each record.
    eta : Fraction or None
        Largest chance of fewer than k; None asks for k in expectation.
    ruler : Ruler
        What noise can be drawn.
    noise : Noise
        Where the draws for the checks come from.
    """

    points: Points
    k: Integers
    eta: Fraction | None
    ruler: Ruler
    noise: Noise

    def find(self, groups: Sequence[Integers], shapes: Points) -> list[Level]:
        """Find levels for groups of records that are told apart anyway.

        Parameters
        ----------
        groups : sequence of arrays
            Rows by what is published beside the noisy columns; cover never crosses groups.
        shapes : array (n, d)
            Factor per record and column; all ones unless noise is scaled locally.

        Raises
        ------
        NoCover
            If some records have no cover at any level.
        """
        proposed: list[Level] = []
        hopeless: list[Integers] = []
        for rows in groups:
            try:
                proposed += self._propose(rows, shapes)
            except NoCover as failure:
                hopeless.append(failure.rows)
        if hopeless:
            raise NoCover(np.concatenate(hopeless))
        return self._certify(proposed)

    # --- proposing ------------------------------------------------------------------------------

    def _propose(self, rows: Integers, shapes: Points) -> list[Level]:
        """Propose levels for one group: one set per frequent shape, the rest without shape."""
        levels: list[Level] = []
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
            return self._climb(rows, unshaped)  # too few to be left to themselves
        try:
            return levels + self._climb(rows[left], unshaped)
        except NoCover:
            if not levels:
                raise
            return self._climb(rows, unshaped)

    def _climb(self, rows: Integers, shape: Vector) -> list[Level]:
        """Give low levels to those with cover there, and the lowest possible one to the rest."""
        if not len(rows):
            return []
        top = Level(rows, HIGHEST[self.ruler.model], shape)
        rest = self._lowest(top, LOWEST - 1)
        best = [rest]
        smallest = self._smallest(rows)
        first = self._first_rung(rest)
        for rung in range(first, rest.rung, max(2, (rest.rung - first) // _TRIALS)):
            level = self._settle(replace(rest, rung=rung), at_least=smallest)
            remaining = np.setdiff1d(rest.rows, level.rows)
            if not len(level.rows) or 0 < len(remaining) < smallest:
                continue
            candidate = [*best[:-1], level]
            if len(remaining):
                try:
                    above = replace(rest, rows=remaining, rung=HIGHEST[self.ruler.model])
                    candidate.append(self._lowest(above, rung))
                except NoCover:
                    continue  # they would be left without cover: keep them together
            if _mean_size(candidate) < _mean_size(best):
                best, rest = candidate, candidate[-1]
                if not len(remaining):
                    break
        return best

    def _smallest(self, rows: Integers) -> int:
        return max(int(SMALLEST_CLASS * len(rows)), 4 * int(self.k[rows].max()) + 1)

    def _lowest(self, level: Level, below: int) -> Level:
        """Find the lowest level above `below` at which all these records have cover.

        Some of the records are asked first; at the level that suffices for them all are asked, and
        from there on only those that had no cover. What that overlooks the final check finds.
        """
        asked = self._spread(level)
        rung = self._lowest_rung(level, asked, below)
        if len(asked) < len(level.rows):
            bad = np.flatnonzero(self._uncovered(replace(level, rung=rung)))
            if len(bad):
                rung = self._lowest_rung(level, bad, rung)
        return replace(level, rung=rung)

    def _lowest_rung(self, level: Level, asked: Integers, below: int) -> int:
        """Bisect for the lowest rung above `below` at which those at some positions have cover."""
        low, high = below, level.rung
        if self._uncovered(level, asked=asked).any():
            # So few draws may be wrong, and this is the last resort: as many as in the final check.
            bad = self._uncovered(level) if self.eta is None else self._fails(level, turn=1)
            if bad.any():
                raise NoCover(level.rows[bad])
            return high
        while high - low > 1:
            middle = (low + high) // 2
            if self._uncovered(replace(level, rung=middle), asked=asked).any():
                low = middle
            else:
                high = middle
        return high

    def _first_rung(self, level: Level) -> int:
        """Bisect for the lowest level at which enough records have cover for one of their own."""
        asked = self._spread(level)
        enough = self._smallest(level.rows) / len(level.rows) * len(asked)
        low, high = LOWEST - 1, level.rung
        while high - low > 1:
            middle = (low + high) // 2
            if (~self._uncovered(replace(level, rung=middle), asked=asked)).sum() < enough:
                low = middle
            else:
                high = middle
        return high

    @staticmethod
    def _spread(level: Level) -> Integers:
        """Give positions of records spread evenly over a level, all of them if they are few."""
        n = len(level.rows)
        return np.arange(n) if n <= _ASKED else np.linspace(0, n - 1, _ASKED).astype(np.int64)

    def _settle(self, level: Level, *, at_least: int) -> Level:
        """Evict who has no cover, until all who stay have it; nobody, if that takes too long."""
        draws = self._search_draws(level)
        for _ in range(_MAX_EVICTIONS):
            if len(level.rows) < at_least:
                break
            bad = self._uncovered(level, draws)
            if not bad.any():
                return level
            level = replace(level, rows=level.rows[~bad])
        return replace(level, rows=level.rows[:0])

    # --- checking -------------------------------------------------------------------------------

    def _uncovered(
        self, level: Level, draws: Integers | None = None, asked: Integers | None = None
    ) -> NDArray[np.bool_]:
        """Tell who lacks cover, by the closed formula or by a search-sized simulation."""
        if self.eta is None:
            reach = self._reach(level)
            sizes = reach * 2 + self.ruler.step if self.ruler.model == "uniform" else reach
            solve = uniform_scales if self.ruler.model == "uniform" else gaussian_scales
            scales = solve(self.points[level.rows] / sizes, self.k[level.rows].astype(np.float64))
            return np.asarray((scales if asked is None else scales[asked]) > 1)
        draws = self._search_draws(level) if draws is None else draws
        limit = int(self._quotas(1)[1] / (_SECOND / _SEARCH))
        return self._n_uncovered(level, draws, limit, asked) > limit

    def _search_draws(self, level: Level) -> Integers:
        return self._draws(level, _SEARCH)

    def _draws(self, level: Level, times: int) -> Integers:
        if self.eta is None:
            return np.empty((0, self.points.shape[1]), np.int64)
        widths = self.ruler.widths(level.size * level.shape)
        return self.ruler.draw(np.tile(widths, (int(times / self.eta) + 1, 1)), self.noise)

    def _reach(self, level: Level) -> Vector:
        return self.ruler.reach(self.ruler.widths(level.size * level.shape))

    def _n_uncovered(
        self, level: Level, draws: Integers, limit: int, rows: Integers | None = None
    ) -> Integers:
        """Count draws without cover, for all records of the level or for some positions in it."""
        reach = self._reach(level)
        points, errors = self.points[level.rows], draws * self.ruler.step
        period = self.ruler.period
        # On the grid a quarter of a step decides nothing, and is more than any rounding error.
        half_sides: Vector | None = reach + self.ruler.step / 4
        if self.ruler.model == "gaussian":  # in these units the noise is round
            points, errors, half_sides = points / reach, errors / reach, None
            period = None if period is None else period / reach
        order = leaf_order(points)
        asked = np.arange(len(points)) if rows is None else rows
        place = np.empty(len(points), np.int64)
        place[order] = np.arange(len(points))
        return count_uncovered(
            points[order], errors, k=self.k[level.rows][asked], limit=limit,
            period=period, half_sides=half_sides, rows=place[asked],
        )  # fmt: skip

    @cached_property
    def _tolerated(self) -> float:
        return float((self.eta or 0) * (1 - CONFIDENCE_SHARE))

    def _quotas(self, turn: int) -> tuple[int, int]:
        """Give how many uncovered draws pass the two stages of the check, in the n-th turn.

        A record whose chance of fewer than k is above the tolerated one passes a stage with
        probability at most ``beta``; over both stages, all turns and all records that adds up to
        `CONFIDENCE_SHARE` of eta.
        """
        eta = self.eta or Fraction(0)
        beta = float(eta * CONFIDENCE_SHARE) / 2**turn / 2 / len(self.points)
        first, second = (
            _largest_quota(int(times / eta) + 1, self._tolerated, beta)
            for times in (_FIRST, _SECOND)
        )
        return first, second

    def _certify(self, levels: list[Level]) -> list[Level]:
        """Check every level on fresh draws; lift those that fail, and check them again."""
        if self.eta is None:
            return levels
        certain: list[Level] = []
        for turn in count(1):
            failing: list[Level] = []
            for level in levels:
                bad = self._fails(level, turn)
                if not bad.any():
                    certain.append(level)
                elif level.rung < HIGHEST[self.ruler.model]:
                    failing.append(replace(level, rung=level.rung + 1))
                else:
                    raise NoCover(level.rows[bad])
            if not failing:
                break
            levels = failing
        return certain

    def _fails(self, level: Level, turn: int) -> NDArray[np.bool_]:
        """Tell who fails the final check: a short stage for the clear cases, a long one for all."""
        first, second = self._quotas(turn)
        asked = np.arange(len(level.rows))
        if first >= 0:
            asked = asked[self._n_uncovered(level, self._draws(level, _FIRST), first) > first]
        bad = np.zeros(len(level.rows), np.bool_)
        if len(asked):
            draws = self._draws(level, _SECOND)
            bad[asked] = self._n_uncovered(level, draws, max(second, 0), asked) > second
        return bad


def _mean_size(levels: Sequence[Level]) -> float:
    counts = [len(level.rows) for level in levels]
    return float(np.average([level.size for level in levels], weights=counts))


def _largest_quota(n: int, chance: float, beta: float) -> int:
    """Find the largest c with P(Binomial(n, chance) <= c) <= beta; -1 if there is none.

    Examples
    --------
    >>> _largest_quota(2001, 0.049, 2.5e-8)
    49
    """
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, chance) <= beta:
            low = middle
        else:
            high = middle
    return low
