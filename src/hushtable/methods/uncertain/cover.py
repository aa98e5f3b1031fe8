"""Who has cover at a noise level: how often fewer than k records fit what would be published.

*What.* The records of one level publish noise of the same size and shape. A record has cover in a
draw of the noise if at least k records of its level, itself included, fit the published point at
least as well as it does. The promise is a bound eta on the chance of a draw without cover.

*How.* That chance is estimated on draws of the noise itself (`count_uncovered`). Looking for levels
takes few draws and may be wrong either way (`lacking`). The final check must not be: it makes fresh
draws in two stages, a short one that lets the clear cases pass and a long one for all others, and
asks for so few uncovered draws that a record whose chance is too large hardly passes (`fails`).

*Why so.* Each check has a chance to be wrong about some record. Turn t of the check may be wrong
with half the chance of turn t - 1, so that over all turns, both stages and all records the chances
add up to `CONFIDENCE_SHARE` of eta. The rest of eta is what records may have; the proof is in
``uncertain.md``. Where k is asked for in expectation alone (eta is None), a closed formula tells
and nothing is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing
from hushtable.kernels.anonymity import gaussian_scales, uniform_scales
from hushtable.kernels.cover import count_uncovered
from hushtable.kernels.space import Points, Vector, leaf_order
from hushtable.methods.uncertain.ruler import Integers, Ruler
from hushtable.privacy.noise import Noise

with needing("science"):
    from scipy.special import bdtr

PER_DOUBLING = 8
"""Levels per doubling of the noise."""

CONFIDENCE_SHARE = Fraction(1, 50)
"""Share of eta that is kept for the chance that the check itself is wrong."""

# Draws per check, times eta: a search for levels, and the two stages of the final check.
_SEARCH, _FIRST, _SECOND = 12, 20, 100

Flags = NDArray[np.bool_]


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


@dataclass(frozen=True)
class CoverCheck:
    """Tell which records of a level have cover.

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

    # --- while levels are looked for --------------------------------------------------------------

    def lacking(
        self, level: Level, draws: Integers | None = None, asked: Integers | None = None
    ) -> Flags:
        """Tell who lacks cover, by the closed formula or by a search-sized simulation.

        Parameters
        ----------
        level : Level
            The records and their noise.
        draws : array, optional
            Draws of the noise, from `search_draws`; by default fresh ones.
        asked : array, optional
            Positions in the level of those who are asked; by default all.
        """
        if self.eta is None:
            return self._lacking_on_average(level, asked)
        draws = self.search_draws(level) if draws is None else draws
        limit = int(self.quotas(1)[1] / (_SECOND / _SEARCH))
        return self.n_uncovered(level, draws, limit, asked) > limit

    def _lacking_on_average(self, level: Level, asked: Integers | None) -> Flags:
        """Tell who would need wider noise than the level's for k records to fit on average."""
        reach, is_box = self._reach(level), self.ruler.model == "uniform"
        sizes = reach * 2 + self.ruler.step if is_box else reach
        solve = uniform_scales if is_box else gaussian_scales
        scales = solve(self.points[level.rows] / sizes, self.k[level.rows].astype(np.float64))
        return np.asarray((scales if asked is None else scales[asked]) > 1)

    def search_draws(self, level: Level) -> Integers:
        """Draw the noise of a level as often as a search needs."""
        return self._draws(level, _SEARCH)

    # --- the final check --------------------------------------------------------------------------

    def fails(self, level: Level, turn: int) -> Flags:
        """Tell who fails the final check: a short stage for the clear cases, a long one for all."""
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
        """Give how many uncovered draws pass the two stages of the check, in the n-th turn.

        A record whose chance of fewer than k is above the tolerated one passes a stage with
        probability at most ``beta``; over both stages, all turns and all records that adds up to
        `CONFIDENCE_SHARE` of eta.
        """
        eta = self.eta or Fraction(0)
        tolerated = float(eta * (1 - CONFIDENCE_SHARE))
        beta = float(eta * CONFIDENCE_SHARE) / 2**turn / 2 / len(self.points)
        first, second = (
            _largest_quota(int(times / eta) + 1, tolerated, beta) for times in (_FIRST, _SECOND)
        )
        return first, second

    # --- draws ------------------------------------------------------------------------------------

    def _draws(self, level: Level, times: int) -> Integers:
        if self.eta is None:
            return np.empty((0, self.points.shape[1]), np.int64)
        widths = self.ruler.widths(level.size * level.shape)
        return self.ruler.draw(np.tile(widths, (int(times / self.eta) + 1, 1)), self.noise)

    def _reach(self, level: Level) -> Vector:
        return self.ruler.reach(self.ruler.widths(level.size * level.shape))

    def n_uncovered(
        self, level: Level, draws: Integers, limit: int, asked: Integers | None = None
    ) -> Integers:
        """Count draws without cover, for all records of the level or for some positions in it.

        Counting stops above `limit`.
        """
        reach = self._reach(level)
        points, errors = self.points[level.rows], draws * self.ruler.step
        period = self.ruler.period
        # On the grid a quarter of a step decides nothing, and is more than any rounding error.
        half_sides: Vector | None = reach + self.ruler.step / 4
        if self.ruler.model == "gaussian":  # in these units the noise is round
            points, errors, half_sides = points / reach, errors / reach, None
            period = None if period is None else period / reach
        order = leaf_order(points)  # neighbors side by side, so that far ones are skipped together
        place = np.empty(len(points), np.int64)
        place[order] = np.arange(len(points))
        asked = np.arange(len(points)) if asked is None else asked
        return count_uncovered(
            points[order], errors, k=self.k[level.rows][asked], limit=limit,
            period=period, half_sides=half_sides, rows=place[asked],
        )  # fmt: skip


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
