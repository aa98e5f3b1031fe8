"""How far a sum of published counts may be from the truth: sums of known, independent noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.quantiles import normal_quantile

_MAX_POINTS = 1 << 22  # beyond this the normal approximation is as good as exact


@dataclass(frozen=True)
class ErrorLaw:
    """Describe the noise of one count; sums of n of them have exact quantiles.

    Parameters
    ----------
    values : array of int
        Neighboring whole numbers, rising.
    probabilities : array of float
        Their probabilities, adding up to 1 but for what is negligible.

    Examples
    --------
    >>> coin = ErrorLaw(np.array([0, 1]), np.array([0.5, 0.5]))
    >>> coin.quantiles(100, 0.95)
    (40.0, 60.0)
    """

    values: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @cached_property
    def mean(self) -> float:
        """Mean of one."""
        return float(self.values @ self.probabilities)

    @cached_property
    def variance(self) -> float:
        """Variance of one."""
        return float((self.values - self.mean) ** 2 @ self.probabilities)

    def quantiles(self, n: int, confidence: float) -> tuple[float, float]:
        """Give the central interval that the sum of n falls into with this probability."""
        if n == 0:
            return 0.0, 0.0
        tail = (1 - confidence) / 2
        points = n * (len(self.values) - 1) + 1
        if points > _MAX_POINTS:
            half = normal_quantile(1 - tail) * (n * self.variance) ** 0.5
            return n * self.mean - half, n * self.mean + half
        size = 1 << (points - 1).bit_length()
        mass = np.fft.irfft(np.fft.rfft(self.probabilities, size) ** n, size)[:points]
        below = np.cumsum(np.maximum(mass, 0.0))
        below /= below[-1]
        first = n * int(self.values[0])
        low = int(np.searchsorted(below, tail))
        high = int(np.searchsorted(below, 1 - tail))
        return float(first + low), float(first + high)
