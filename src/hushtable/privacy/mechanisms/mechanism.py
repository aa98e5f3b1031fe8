"""Mechanisms: noise that opens sealed counts at a cost computed from their sensitivity."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hushtable.arrays import Integers
from hushtable.errors import ParameterError
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.noise.distributions import laplace_variance
from hushtable.privacy.noise.noise import Noise

# Addition of noise to counts, saturated at the limits of int64.


def add_noise(counts: Integers, noise: Integers) -> Integers:
    """Add noise to counts; saturate at the limits of int64 instead of wrapping around.

    Saturation is a function of the exact sum alone, so it is post-processing and costs no privacy.
    An error would reveal something about the counts.

    Examples
    --------
    >>> add_noise(np.array([5, 2**63 - 1]), np.array([-7, 1]))
    array([                 -2, 9223372036854775807])
    """
    problems = [
        f"{name}: the dtype is {array.dtype}; it must be int64."
        for name, array in (("counts", counts), ("noise", noise))
        if array.dtype != np.int64
    ]
    if counts.shape != noise.shape:
        problems.append(f"counts have shape {counts.shape} but noise has shape {noise.shape}.")
    ParameterError.raise_if_any(problems)
    total = counts + noise
    wrapped = ((counts ^ total) & (noise ^ total)) < 0  # the sum's sign differs from both terms
    ends = np.iinfo(np.int64)
    total[wrapped] = np.where(noise[wrapped] < 0, ends.min, ends.max)
    return total


class Mechanism(ABC):
    """Way to open sealed values at a cost that follows from their sensitivity.

    All mechanisms are in `hushtable.privacy`, each with a proof of its cost. Methods choose one and
    its amount of noise; the cost follows.
    """

    @abstractmethod
    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the privacy cost of a query of values with this sensitivity."""

    @abstractmethod
    def draw(self, exact: Any, noise: Noise) -> Any:
        """Draw the noisy result from exact counts; called after the cost is recorded."""


@dataclass(frozen=True)
class RowwiseMechanism(Mechanism):
    """Same mechanism for each row of an array; the sensitivity covers all rows together."""

    each: Mechanism

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of all rows together."""
        return self.each.cost(sensitivity)

    def draw(self, exact: Any, noise: Noise) -> list[Any]:
        """Draw the result of each row."""
        return [self.each.draw(row, noise) for row in exact]


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Discrete Laplace noise on every count.

    P[z] decreases by e**(-1/scale) per step, so counts with sensitivity l1 cost l1 / scale.

    Examples
    --------
    >>> Laplace(Fraction(10)).cost(Sensitivity(rows=2)).epsilon
    Fraction(1, 5)
    """

    scale: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count."""
        return math.sqrt(laplace_variance(float(self.scale)))

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return l1 / scale."""
        return PrivacyCost.pure(sensitivity.l1 / self.scale)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Draw noisy counts."""
        drawn = noise.discrete_laplace(self.scale, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Discrete Gaussian noise on every count.

    Counts with sensitivity l2 cost l2**2 / (2 variance) in zCDP (Canonne, Kamath and Steinke 2020,
    theorem 4: the noise of each count is independent).

    Examples
    --------
    >>> Gaussian(Fraction(50)).cost(Sensitivity(rows=1)).rho
    Fraction(1, 100)
    """

    variance: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count; too large if the variance is below 1."""
        return math.sqrt(self.variance)

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return l2**2 / (2 variance) as rho."""
        return PrivacyCost(rho=sensitivity.l2_squared / (2 * self.variance))

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Draw noisy counts."""
        drawn = noise.discrete_gaussian(self.variance, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))


@dataclass(frozen=True)
class RoundedGaussian(Mechanism):
    """Rounded normal noise on every count.

    Counts with sensitivity l2 are mu-GDP with mu = l2 / sigma (Dong, Roth and Su 2022, Theorem 1);
    rounding is post-processing. mu-GDP implies mu**2/2-zCDP.

    Examples
    --------
    >>> RoundedGaussian(Fraction(50)).cost(Sensitivity(rows=1)).mu_squared
    Fraction(1, 50)
    """

    variance: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count, rounding included."""
        return math.sqrt(self.variance + Fraction(1, 12))

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return l2**2 / variance as mu**2, and half of it as rho."""
        mu_squared = sensitivity.l2_squared / self.variance
        return PrivacyCost(rho=mu_squared / 2, mu_squared=mu_squared)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Draw noisy counts."""
        drawn = noise.rounded_gaussian(self.variance, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))
