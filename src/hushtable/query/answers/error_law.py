"""Distribution of the error of sums of published counts with independent, known noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.numeric import normal_quantile

_MANY = 512
"""From this number of terms on, quantiles use the Cornish-Fisher expansion. Its error is below
10^-4 of the half-width, plus at most 1 for rounding outward to whole numbers."""


@dataclass(frozen=True)
class ErrorLaw:
    """Distribution of the noise of one count; sums of n of them have exact quantiles.

    Parameters
    ----------
    values : array of int
        Consecutive integers, ascending.
    probabilities : array of float
        Their probabilities; the sum is 1 up to a negligible rest.

    Examples
    --------
    >>> fair = ErrorLaw(np.array([0, 1]), np.array([0.5, 0.5]))
    >>> fair.quantiles(100, 0.95)
    (40.0, 60.0)
    """

    values: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @cached_property
    def mean(self) -> float:
        """Mean of one count's noise."""
        return float(self.values @ self.probabilities)

    @cached_property
    def variance(self) -> float:
        """Variance of one count's noise."""
        return float((self.values - self.mean) ** 2 @ self.probabilities)

    def quantiles(self, n: int, confidence: float) -> tuple[float, float]:
        """Return the central interval of a sum of n that has this probability."""
        if n == 0:
            return 0.0, 0.0
        tail = (1 - confidence) / 2
        points = n * (len(self.values) - 1) + 1
        if n >= _MANY:
            return self._of_many(n, tail)
        size = 1 << (points - 1).bit_length()
        mass = np.fft.irfft(np.fft.rfft(self.probabilities, size) ** n, size)[:points]
        below = np.cumsum(np.maximum(mass, 0.0))
        below /= below[-1]
        first = n * int(self.values[0])
        low = int(np.searchsorted(below, tail))
        high = int(np.searchsorted(below, 1 - tail))
        return float(first + low), float(first + high)

    def _of_many(self, n: int, tail: float) -> tuple[float, float]:
        """Return the central interval of a nearly normal sum, from its first four moments."""
        away, std = self.values - self.mean, self.variance**0.5
        if std == 0.0:
            return n * self.mean, n * self.mean
        skew, fourth = (float(away**k @ self.probabilities) / std**k for k in (3, 4))
        skew, kurtosis = skew / n**0.5, (fourth - 3) / n
        ends = []
        for z in (normal_quantile(tail), normal_quantile(1 - tail)):
            bent = (z**2 - 1) * skew / 6 + (z**3 - 3 * z) * kurtosis / 24
            bent -= (2 * z**3 - 5 * z) * skew**2 / 36
            ends.append(n * self.mean + n**0.5 * std * (z + bent))
        return float(math.floor(ends[0])), float(math.ceil(ends[1]))
