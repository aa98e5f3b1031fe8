"""Counts behind coins: what is said of a count when each item was seen by one of two coins.

Of n items, q are of the kind that is counted. Those are seen with probability `high`, the others
with `low`. So the number seen has expectation q high + (n - q) low, its law is known for every q,
and it rises with q. Estimates and intervals follow from that alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.base import CONFIDENCE, Estimate
from hushtable.estimate.quantiles import NORMAL
from hushtable.extras import needing

with needing("science"):
    from scipy import special

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGE = 1000.0  # variance from which the normal distribution is good to a fifth of a percent
_COUNTABLE = 2**53  # whole numbers below are exact as floats


@dataclass(frozen=True, kw_only=True)
class CoinEstimate(Estimate):
    """Answer a count behind coins, with what is exact about it.

    Parameters
    ----------
    unbiased : float
        The estimate whose expectation is the true count, negative or not: for adding up estimates.
    bernstein_low, bernstein_high : float
        A 95 % interval by Bernstein's inequality alone, without any approximation.
    """

    unbiased: float
    bernstein_low: float
    bernstein_high: float


class CoinAnswer(ABC):
    """What a release says about the number of things that satisfy a condition.

    ``most`` is the largest count there can be.
    """

    most: int

    @property
    @abstractmethod
    def unbiased(self) -> float:
        """The estimate whose expectation is the true count; it may be negative."""

    @property
    @abstractmethod
    def step(self) -> float:
        """By how much one coin can move the estimate, at most."""

    @abstractmethod
    def std(self, q: float) -> float:
        """Give the standard deviation of the estimate if the true count is q."""

    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Give the 95 % interval."""

    def bernstein(self, failure: float) -> tuple[float, float]:
        """Give an interval that fails with at most this probability, without approximation.

        It holds all q with |estimate - q| <= r + sqrt(r**2 + 2 L variance(q)), r = L step / 3 and
        L = ln(2 / failure): Bernstein's inequality for independent, bounded, centered terms.
        """
        log = math.log(2 / failure)

        def fits(q: float) -> bool:
            third = log * self.step / 3
            reach = third + math.sqrt(third**2 + 2 * log * self.std(q) ** 2)
            return abs(self.unbiased - q) <= reach

        return ends(fits, self.unbiased, self.most)

    def estimate(self, *notes: str) -> CoinEstimate:
        """Say it as an estimate within what a count can be, and as it is."""
        if self.most == 0:
            return CoinEstimate(
                value=0.0, low=0.0, high=0.0, privacy_std=0.0, model_std=0.0, notes=notes,
                unbiased=0.0, bernstein_low=0.0, bernstein_high=0.0,
            )  # fmt: skip
        low, high = self.interval()
        value = min(max(self.unbiased, low), high)
        least, largest = self.bernstein(1 - CONFIDENCE)
        return CoinEstimate(
            value=value,
            low=low,
            high=high,
            privacy_std=self.std(value),
            model_std=0.0,
            notes=notes,
            unbiased=self.unbiased,
            bernstein_low=least,
            bernstein_high=largest,
        )


@dataclass(frozen=True)
class TwoCoins(CoinAnswer):
    """Know how many of n items were seen, each by one of two coins.

    Parameters
    ----------
    n_seen : int
        How many were seen.
    n_items : int
        How many there are, of both kinds.
    low, high : Fraction or float
        The chance to be seen for an item of the other kind, and of the kind that is counted.
    most : int
        The largest count there can be.

    Examples
    --------
    >>> coins = TwoCoins(n_seen=6, n_items=549, low=Fraction(1, 150), high=Fraction(101, 150),
    ...                  most=549)
    >>> coins.unbiased
    3.51
    >>> coins.interval()
    (0.0, 11.0)
    """

    n_seen: int
    n_items: int
    low: Fraction | float
    high: Fraction | float
    most: int

    @property
    def unbiased(self) -> float:
        """The estimate whose expectation is the true count."""
        return float((self.n_seen - self.n_items * self.low) / (self.high - self.low))

    @property
    def step(self) -> float:
        """By how much one coin can move the estimate."""
        return 1 / float(self.high - self.low)

    def std(self, q: float) -> float:
        """Give the standard deviation of the estimate if the true count is q."""
        return math.sqrt(self._variance(q)) * self.step

    @cached_property
    def _expected(self) -> float:
        """How many would be seen if the count were 0; exact where items are too many for floats."""
        return float(self.n_items * self.low)

    def _variance(self, q: float) -> float:
        low, high = float(self.low), float(self.high)
        return q * high * (1 - high) + max(self._expected - q * low, 0.0) * (1 - low)

    def interval(self) -> tuple[float, float]:
        """Give the counts for which neither as many nor as few as were seen is a surprise."""
        low = _turn(lambda q: self._likely(q, above=True), self.unbiased, self.most)
        high = self.most
        if not self._likely(high, above=False):
            turn = _turn(lambda q: not self._likely(q, above=False), self.unbiased, self.most)
            high = max(turn - 1, 0)
        return float(min(low, high)), float(max(low, high))

    def _likely(self, q: int, *, above: bool) -> bool:
        """Tell whether as many as were seen or more (or as few or fewer) is likely enough."""
        variance = self._variance(q)
        if variance >= _LARGE:
            gap = self.n_seen - self._expected - q / self.step
            return (gap if above else -gap) - 0.5 <= NORMAL * math.sqrt(variance)
        return self._tail(q, above=above) >= (1 - CONFIDENCE) / 2

    def _tail(self, q: int, *, above: bool) -> float:
        """Give the chance of as many as were seen or more (or as few or fewer)."""
        low = float(self.low)
        seen = np.arange(q + 1)
        others = self.n_seen - seen - (1 if above else 0)  # more than these, or at most
        tails = _tails(others, self.n_items - q, low, self._expected - q * low, above=above)
        return float(_binomial_chances(q, float(self.high)) @ tails)


@dataclass(frozen=True)
class CopyCoins(TwoCoins):
    """Know how many of n items were seen, each by a coin that rises with how often it is there.

    Of an item that is there c times it is low + c (high - low). How the q copies are spread over
    the items is not known. The number seen is most spread where they are spread evenly (Hoeffding
    1956): then all coins are alike, and it is binomial.

    Examples
    --------
    >>> coins = CopyCoins(n_seen=6, n_items=549, low=Fraction(1, 150), high=Fraction(21, 150),
    ...                   most=5 * 549)
    >>> coins.unbiased, coins.interval()
    (17.55, (0.0, 69.0))
    """

    def _variance(self, q: float) -> float:
        mean = self._mean(q)
        return max(mean * (1 - mean / self.n_items), 0.0)

    def _mean(self, q: float) -> float:
        return self._expected + q * float(self.high - self.low)

    def _tail(self, q: int, *, above: bool) -> float:
        """Give the chance for coins that are all alike."""
        others, mean = np.array([self.n_seen - (1 if above else 0)]), self._mean(q)
        return float(_tails(others, self.n_items, mean / self.n_items, mean, above=above)[0])


def _binomial_chances(n: int, p: float) -> Floats:
    """Give the probability of each number of heads among n coins."""
    heads = np.arange(n + 1)
    ways = special.gammaln(n + 1) - special.gammaln(heads + 1) - special.gammaln(n - heads + 1)
    chances = np.exp(ways + special.xlogy(heads, p) + special.xlog1py(n - heads, -p))
    return np.asarray(chances)


def _tails(heads: Integers, n: int, p: float, mean: float, *, above: bool) -> Floats:
    """Give the probability of more heads among n coins than each number, or of at most as many."""
    if n < _COUNTABLE:
        return _binomial_tails(heads, n, p, above=above)
    # Coins too many for floats are so rare that the number of heads is Poisson.
    return _poisson_tails(heads, mean, above=above)


def _binomial_tails(heads: Integers, n: int, p: float, *, above: bool) -> Floats:
    """Give the probability of more heads among n coins than each number, or of at most as many."""
    inside = heads.clip(0, max(n - 1, 0))
    tail = special.betainc if above else special.betaincc
    tails = tail(inside + 1, np.maximum(n - inside, 1), p)
    return np.where(heads < 0, above, np.where(heads >= n, not above, tails))


def _poisson_tails(heads: Integers, mean: float, *, above: bool) -> Floats:
    """Give the same for a number of heads that is Poisson."""
    tail = special.pdtrc if above else special.pdtr
    return np.where(heads < 0, above, tail(heads.clip(0), mean))


def _turn(holds: Callable[[int], bool], near: float, most: int) -> int:
    """Find where a condition on whole numbers turns from false to true, looking near a place."""
    if holds(0):
        return 0
    low = high = min(max(math.floor(near), 0), most)
    reach = 1
    while low > 0 and holds(low):
        low, reach = max(low - reach, 0), 2 * reach
    reach = 1
    while high < most and not holds(high):
        high, reach = min(high + reach, most), 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def ends(fits: Callable[[float], bool], center: float, most: int) -> tuple[float, float]:
    """Find the ends of the counts that fit around an estimate, within what counts can be."""
    start = min(max(center, 0.0), float(most))
    found = []
    for limit in (0.0, float(most)):
        inside, outside, step = start, limit, 1.0
        # Walk out in growing steps first: a domain may be far larger than any count.
        while inside != limit:
            trial = inside + math.copysign(min(step, abs(limit - inside)), limit - inside)
            if not fits(trial):
                outside = trial
                break
            inside, step = trial, 2 * step
        while abs(outside - inside) > 1e-6 * max(1.0, abs(inside)):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if fits(middle) else (inside, middle)
        found.append(inside)
    return found[0], found[1]
