"""Private selection: the exponential mechanism and permute-and-flip, sampled exactly."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import ParameterError, TooLarge
from hushtable.privacy.noise.bit_reader import KERNEL_LIMIT, BitReader
from hushtable.privacy.noise.random_words import as_integers, as_weights, not_fraction, refuse_if
from hushtable.privacy.noise.samplers import BernoulliSampler
from hushtable.privacy.rational import exp_bounds

# Exact sampling from weights that are integers times powers of e.


class ExponentialWeights:
    """Sampler of a level's index with probability proportional to mass * exp(-level), exactly.

    The weights are irrational, so they are bounded from both sides; a uniform number and the bounds
    are refined together until only one level is possible. The first round decides all except about
    one draw in 2**56. Levels too small to matter at the current precision are bounded together.
    """

    def __init__(self, levels: list[int], masses: list[int]) -> None:
        self.levels = levels  # ascending, the first is 0
        self._masses = masses
        self._tail_masses = list(itertools.accumulate(reversed(masses)))[::-1]
        self._bounds = functools.cache(self._compute_bounds)

    def _compute_bounds(self, bits: int) -> tuple[list[int], list[int], int]:
        """Return cumulative lower and upper bounds, and the upper bound of the total."""
        precision = bits + self._tail_masses[0].bit_length()
        lows, highs = [0], [0]
        for level, mass in zip(self.levels, self._masses, strict=True):
            if level > precision:  # exp(-level) < 2**-precision
                break
            low, high = _exp_minus(level, precision)
            lows.append(lows[-1] + mass * low)
            highs.append(highs[-1] + mass * high)
        n_near = len(lows) - 1
        # In units of 2**-precision, each weight beyond is below its mass.
        far = self._tail_masses[n_near] if n_near < len(self.levels) else 0
        return lows[1:], highs[1:], highs[-1] + far

    def draw(self, reader: BitReader) -> int:
        """Return the index of a level."""
        n_bits = 64
        uniform = reader.take(n_bits)  # the number is in [uniform, uniform + 1) / 2**n_bits
        while True:
            lows, highs, total_high = self._bounds(n_bits)
            total_low = lows[-1]
            # The first level not certainly passed is drawn if the number is certainly in it.
            at = bisect.bisect_right(highs, uniform * total_low >> n_bits)
            if at < len(lows) and (uniform + 1) * total_high <= lows[at] << n_bits:
                return at
            uniform = uniform << 64 | reader.take(64)
            n_bits += 64


@functools.lru_cache(maxsize=4096)
def _exp_minus(level: int, precision: int) -> tuple[int, int]:
    """Bound exp(-level) by integers over 2**precision."""
    low, high = exp_bounds(Fraction(-level), precision)
    return math.floor(low * (1 << precision)), math.ceil(high * (1 << precision))


Rule = Literal["exponential", "permute-and-flip"]

MAX_COPIES = 10**7
"""Limit of copies: permute-and-flip makes one draw per copy of a candidate in the base measure."""


def candidates_of(
    scores: NDArray[np.int64] | Sequence[int], base: Sequence[int] | None
) -> tuple[NDArray[np.int64], NDArray[Any], list[int] | None]:
    """Return the candidates with positive base measure, their gaps to the best, and weights."""
    values = as_integers("scores", scores)
    if not len(values):
        raise ParameterError("scores is empty; at least one candidate is needed.")
    candidates, weights = np.arange(len(values)), None
    if base is not None:
        all_weights = as_weights("base", base)
        if len(all_weights) != len(values):
            raise ParameterError(f"base: {len(all_weights)} weights for {len(values)} scores.")
        candidates = np.array([i for i, w in enumerate(all_weights) if w])
        weights = [w for w in all_weights if w]
        values = values[candidates]
    best = int(values.max())
    if best - int(values.min()) >= KERNEL_LIMIT:
        values = values.astype(object)
    return candidates, best - values, weights


def exponent_per_score(epsilon: Fraction, sensitivity: Fraction, monotone: bool) -> Fraction:
    """Return the increase of the exponent per unit of score."""
    refuse_if(
        not_fraction("epsilon", epsilon, positive=True),
        not_fraction("sensitivity", sensitivity, positive=True),
        None if isinstance(monotone, bool) else f"monotone: {monotone!r} is not True or False.",
    )
    return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)


def times(gaps: NDArray[Any], factor: int) -> NDArray[Any]:
    """Multiply; use Python integers if the product might exceed int64."""
    if gaps.dtype != object and int(gaps.max()) * factor >= KERNEL_LIMIT:
        gaps = gaps.astype(object)
    return gaps * factor


class SelectionSampler(BernoulliSampler):
    """Samplers that select candidates with high scores."""

    def choose(
        self,
        scores: NDArray[np.int64] | Sequence[int],
        *,
        epsilon: Fraction,
        sensitivity: Fraction,
        monotone: bool,
        base: Sequence[int] | None = None,
        rule: Rule = "exponential",
    ) -> int:
        """Select an index with a high score, epsilon-differentially private.

        Parameters
        ----------
        scores
            Integer scores of the candidates.
        epsilon, sensitivity
            Privacy cost of the selection, and the most by which one person changes any score.
        monotone
            Whether adding a person changes all scores in the same direction (or not at all). The
            exponent is then epsilon/sensitivity per unit of score, otherwise half of that.
        base
            Non-negative integer weights that do not depend on the private data: candidate i counts
            as base[i] candidates with the same score.
        rule
            ``"exponential"``: P[i] proportional to base[i] * exp(factor * scores[i]).
            ``"permute-and-flip"``: visit the candidates (each base[i] times) in random order and
            stop at the first success of a draw with probability exp(factor * (score - best)). It is
            better on average, and epsilon-differentially private with the same factors. But its
            privacy loss has a range of up to 2 epsilon, compared with epsilon for the exponential
            mechanism, so the bounded-range cost of epsilon**2/8 does not apply.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().choose(
        ...     [0, 1000], epsilon=Fraction(1), sensitivity=Fraction(1), monotone=True
        ... )
        1
        """
        candidates, gaps, weights = candidates_of(scores, base)
        factor = exponent_per_score(epsilon, sensitivity, monotone)
        if rule == "exponential":
            return int(candidates[self._exponential(gaps, factor, weights)])
        if rule == "permute-and-flip":
            return int(candidates[self._permute_and_flip(gaps, factor, weights)])
        raise ParameterError(f"rule: {rule!r} is unknown. Use 'exponential' or 'permute-and-flip'.")

    def _exponential(self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None) -> int:
        """Draw i with probability proportional to base[i] * exp(-factor * gaps[i]).

        Candidates are grouped by level = floor(factor * gap). A level is drawn with probability
        proportional to (its base measure) * exp(-level), then a candidate on it by base measure,
        which is accepted with probability exp(-(factor * gap - level)). The product of the three is
        the required weight. The last factor is above 1/e, so fewer than e rounds are expected,
        whatever the scores and the base measure.
        """
        scaled = times(gaps, factor.numerator)
        level_of = scaled // factor.denominator
        order = np.argsort(level_of, kind="stable")
        sorted_levels = level_of[order]
        starts = np.flatnonzero(np.r_[True, sorted_levels[1:] != sorted_levels[:-1]])
        ends = np.append(starts[1:], len(order))
        if base is None:
            masses = (ends - starts).tolist()
        else:
            totals = [0, *itertools.accumulate(base[i] for i in order)]
            masses = [totals[e] - totals[s] for s, e in zip(starts, ends, strict=True)]
        levels = ExponentialWeights([int(level) for level in sorted_levels[starts]], masses)
        reader = self._reader()
        while True:
            drawn = levels.draw(reader)
            pick = reader.below(masses[drawn])
            start = int(starts[drawn])
            if base is None:
                at = start + pick
            else:
                at = bisect.bisect_right(totals, totals[start] + pick) - 1
            candidate = int(order[at])
            above = int(scaled[candidate]) - levels.levels[drawn] * factor.denominator
            if reader.bernoulli_exp(above, factor.denominator):
                return candidate

    def _permute_and_flip(
        self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None
    ) -> int:
        """Draw the first success in a random order of candidates.

        If the order is independent of the draws, each success is equally likely to be the first:
        make all draws at once and select one of the successes uniformly. The best candidate has gap
        0 and always succeeds. With a base measure, each copy has its own draw.
        """
        copies = np.arange(len(gaps))
        if base is not None:
            if sum(base) > MAX_COPIES:
                raise TooLarge(
                    f"base has {sum(base)} copies in total; permute-and-flip makes a draw for each "
                    f"and allows at most {MAX_COPIES}. Use rule='exponential'."
                )
            copies = np.repeat(copies, base)
        coins = self.bernoulli_exp_each(
            times(gaps, factor.numerator)[copies], denominator=factor.denominator
        )
        heads = copies[coins]
        return int(heads[self._reader().below(len(heads))])
