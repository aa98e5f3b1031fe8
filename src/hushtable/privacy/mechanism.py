"""What opens counts: noise that knows its price."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtable.privacy.added_noise import add_noise
from hushtable.privacy.distributions import laplace_variance
from hushtable.privacy.noise import Noise
from hushtable.privacy.random_words import Integers
from hushtable.privacy.spending import Price, Sensitivity


class Mechanism(ABC):
    """Let something out of what is sealed, at a price that follows from its sensitivity.

    Mechanisms live in `hushtable.privacy`, each with a proof of its price; methods choose among
    them and say how much noise they add, and the price follows.
    """

    @abstractmethod
    def price(self, sensitivity: Sensitivity) -> Price:
        """Say what one unit loses at most."""

    @abstractmethod
    def draw(self, exact: Any, noise: Noise) -> Any:
        """Draw what may be seen from what is there; called once it is paid for."""


@dataclass(frozen=True)
class InTurn(Mechanism):
    """Open counts row by row, all by the same noise: what moves in all rows is paid together."""

    each: Mechanism

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the price of all rows as one."""
        return self.each.price(sensitivity)

    def draw(self, exact: Any, noise: Noise) -> list[Any]:
        """Give what each row lets out."""
        return [self.each.draw(row, noise) for row in exact]


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Add discrete Laplace noise to every count.

    P[z] falls by e**(-1/scale) per step, so counts that move by l1 in all lose at most l1 / scale.

    Examples
    --------
    >>> Laplace(Fraction(10)).price(Sensitivity(rows=2)).epsilon
    Fraction(1, 5)
    """

    scale: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of one count."""
        return math.sqrt(laplace_variance(float(self.scale)))

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give l1 over scale."""
        return Price.pure(sensitivity.l1 / self.scale)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Give noisy counts."""
        drawn = noise.discrete_laplace(self.scale, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Add discrete Gaussian noise to every count.

    Counts whose changes have squares that sum to l2**2 lose l2**2 / (2 variance) of zCDP (Canonne,
    Kamath and Steinke 2020, theorem 4: the noise of each count is drawn by itself).

    Examples
    --------
    >>> Gaussian(Fraction(50)).price(Sensitivity(rows=1)).rho
    Fraction(1, 100)
    """

    variance: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of one count, as good as exact for variances of one and more."""
        return math.sqrt(self.variance)

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give l2 squared over twice the variance."""
        return Price(rho=sensitivity.l2_squared / (2 * self.variance))

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Give noisy counts."""
        drawn = noise.discrete_gaussian(self.variance, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))


@dataclass(frozen=True)
class RoundedGaussian(Mechanism):
    """Add normal noise to every count, and round.

    Counts whose changes have squares that sum to l2**2 lose mu-GDP with mu = l2 / sigma (Dong, Roth
    and Su 2022, Theorem 1), and rounding loses nothing more; mu-GDP is mu**2/2-zCDP.

    Examples
    --------
    >>> RoundedGaussian(Fraction(50)).price(Sensitivity(rows=1)).mu_squared
    Fraction(1, 50)
    """

    variance: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of one count, with what rounding adds."""
        return math.sqrt(self.variance + Fraction(1, 12))

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give l2 squared over the variance."""
        mu_squared = sensitivity.l2_squared / self.variance
        return Price(rho=mu_squared / 2, mu_squared=mu_squared)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Give noisy counts."""
        drawn = noise.rounded_gaussian(self.variance, size=exact.size)
        return add_noise(exact, drawn.reshape(exact.shape))
