"""Cover at a noise level: how often fewer than k records fit the published point.

The records of one level publish noise of the same size and shape. A record has cover in a sample of
the noise if at least k records of its level, itself included, fit the published point at least as
well as it does. The guarantee is a bound eta on the probability of a sample without cover.

This probability is estimated by sampling the noise (`count_uncovered`). The search for levels uses
few samples and may be wrong in both directions (`lacking`). The final check (`fails`) must not be:
it uses fresh samples in two stages, a short one that passes clear cases and a long one for the
others. It allows so few uncovered samples that a record with too large a probability hardly passes.

Each check has a probability of error for some record. Turn t of the check may err with half the
probability of turn t - 1, so that over all turns, both stages and all records the error
probabilities sum to `CONFIDENCE_SHARE` of eta. The rest of eta is available to the records; the
proof is in ``uncertain.md``. If k is required only in expectation (eta is None), a closed formula
decides without sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.arrays import Floats as Vector
from hushtable.extras import needing
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.kernels.cover import count_uncovered
from hushtable.kernels.space import leaf_order
from hushtable.methods.uncertain.grid import NoiseGrid
from hushtable.privacy.noise.noise import Noise

with needing("science"):
    from scipy.special import bdtr

PER_DOUBLING = 8
"""Levels per doubling of the noise."""

CONFIDENCE_SHARE = Fraction(1, 50)
"""Share of eta reserved for errors of the check itself."""

# Number of samples per check, times eta: the search for levels, and the two stages of the final
# check.
_SEARCH, _FIRST, _SECOND = 12, 20, 100


@dataclass(frozen=True)
class NoiseLevel:
    """Records that publish the same level: rows, level and shape."""

    rows: Integers
    rung: int
    shape: Vector

    @property
    def size(self) -> float:
        """Sigma or cube side, in public scales."""
        return float(2.0 ** (self.rung / PER_DOUBLING))


@dataclass(frozen=True)
class CoverCheck:
    """Check of the cover of the records of a level."""

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

        A record whose probability of fewer than k exceeds the tolerated one passes a stage with
        probability at most ``beta``; over both stages, all turns and all records this sums to
        `CONFIDENCE_SHARE` of eta.
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

    def _noise_range(self, level: NoiseLevel) -> Vector:
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
        half_sides: Vector | None = noise_range + self.ruler.step / 4
        if self.ruler.model == "gaussian":  # in these units the noise is isotropic
            points, errors, half_sides = points / noise_range, errors / noise_range, None
            period = None if period is None else period / noise_range
        order = leaf_order(
            points
        )  # sorts neighbors together, so that far ones are skipped as blocks
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
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, chance) <= beta:
            low = middle
        else:
            high = middle
    return low
