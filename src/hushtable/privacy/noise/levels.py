"""Exact sampling from weights that are integers times powers of e."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from fractions import Fraction

from hushtable.privacy.noise.bit_reader import BitReader
from hushtable.privacy.rational import exp_bounds


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
