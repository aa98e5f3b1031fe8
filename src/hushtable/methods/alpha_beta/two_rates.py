"""Estimates and intervals of counts of items that are observed at two known rates.

Of n items, q are of the counted kind. Those are observed with probability `high`, the others with
probability `low`. So the number observed has expectation q high + (n - q) low; its distribution is
known for every q and increases stochastically with q. Estimates and intervals follow from this.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.extras import needing
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.query.answers.estimator import Estimate

with needing("science"):
    from scipy import special


_LARGE = 1000.0  # from this variance on, the normal approximation errs by less than 0.2%
_COUNTABLE = 2**53  # integers below are exact as floats


@dataclass(frozen=True, kw_only=True)
class RandomizedEstimate(Estimate):
    """Estimate of a randomized count, with exact quantities.

    Parameters
    ----------
    unbiased : float
        Unbiased estimate, which may be negative; use it to add estimates.
    bernstein_low, bernstein_high : float
        95% interval by Bernstein's inequality, without approximation.
    """

    unbiased: float
    bernstein_low: float
    bernstein_high: float


class RandomizedCount(ABC):
    """Base class of randomized counts: what a release shows about a condition.

    ``most`` is the largest possible count.
    """

    most: int

    @property
    @abstractmethod
    def unbiased(self) -> float:
        """Unbiased estimate; it may be negative."""

    @property
    @abstractmethod
    def step(self) -> float:
        """Largest change of the estimate by one observation."""

    @abstractmethod
    def std(self, q: float) -> float:
        """Return the standard deviation of the estimate if the true count is q."""

    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval."""

    def bernstein(self, failure: float) -> tuple[float, float]:
        """Return an interval with at most this error probability, without approximation.

        It contains all q with |estimate - q| <= r + sqrt(r**2 + 2 L variance(q)), where r = L step
        / 3 and L = ln(2 / failure): Bernstein's inequality for independent, bounded, centered
        terms.
        """
        log = math.log(2 / failure)

        def fits(q: float) -> bool:
            third = log * self.step / 3
            reach = third + math.sqrt(third**2 + 2 * log * self.std(q) ** 2)
            return abs(self.unbiased - q) <= reach

        return ends(fits, self.unbiased, self.most)

    def estimate(self, *notes: str) -> RandomizedEstimate:
        """Return the estimate, limited to the range of possible counts."""
        if self.most == 0:
            return RandomizedEstimate(
                value=0.0, low=0.0, high=0.0, privacy_std=0.0, model_std=0.0, notes=notes,
                unbiased=0.0, bernstein_low=0.0, bernstein_high=0.0,
            )  # fmt: skip
        low, high = self.interval()
        value = min(max(self.unbiased, low), high)
        least, largest = self.bernstein(1 - CONFIDENCE)
        return RandomizedEstimate(
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
class TwoRateCount(RandomizedCount):
    """Number of observed items out of n, with one of two rates each.

    Examples
    --------
    >>> count = TwoRateCount(n_seen=6, n_items=549, low=Fraction(1, 150), high=Fraction(101, 150),
    ...                  most=549)
    >>> count.unbiased
    3.51
    >>> count.interval()
    (0.0, 11.0)
    """

    n_seen: int  # number of observed items
    n_items: int  # number of items of both kinds
    low: Fraction | float  # probability of observing an item of the other kind
    high: Fraction | float  # probability of observing an item of the counted kind
    most: int  # largest possible count

    @property
    def unbiased(self) -> float:
        """Unbiased estimate of the count."""
        return float((self.n_seen - self.n_items * self.low) / (self.high - self.low))

    @property
    def step(self) -> float:
        """Largest change of the estimate by one observation."""
        return 1 / float(self.high - self.low)

    def std(self, q: float) -> float:
        """Return the standard deviation of the estimate if the true count is q."""
        return math.sqrt(self._variance(q)) * self.step

    @cached_property
    def _expected(self) -> float:
        """Expected number observed if the count is 0; exact even for very many items."""
        return float(self.n_items * self.low)

    def _variance(self, q: float) -> float:
        low, high = float(self.low), float(self.high)
        return q * high * (1 - high) + max(self._expected - q * low, 0.0) * (1 - low)

    def interval(self) -> tuple[float, float]:
        """Return the range of counts for which no tail of the observed number is below 2.5%."""
        low = _turn(lambda q: self._likely(q, above=True), self.unbiased, self.most)
        high = self.most
        if not self._likely(high, above=False):
            turn = _turn(lambda q: not self._likely(q, above=False), self.unbiased, self.most)
            high = max(turn - 1, 0)
        return float(min(low, high)), float(max(low, high))

    def _likely(self, q: int, *, above: bool) -> bool:
        """Return whether the upper (or lower) tail at the observed number is at least 2.5%."""
        variance = self._variance(q)
        if variance >= _LARGE:
            gap = self.n_seen - self._expected - q / self.step
            return (gap if above else -gap) - 0.5 <= NORMAL * math.sqrt(variance)
        return self._tail(q, above=above) >= (1 - CONFIDENCE) / 2

    def _tail(self, q: int, *, above: bool) -> float:
        """Return the probability of at least (or at most) the observed number."""
        low = float(self.low)
        seen = np.arange(q + 1)
        # The tails are those of more than these numbers (above), or of at most these.
        others = self.n_seen - seen - (1 if above else 0)
        tails = _tails(others, self.n_items - q, low, self._expected - q * low, above=above)
        return float(_binomial_chances(q, float(self.high)) @ tails)


@dataclass(frozen=True)
class CopyRateCount(TwoRateCount):
    """Number of observed items out of n, with rates that increase with their multiplicity.

    An item with c copies has rate low + c (high - low). The distribution of the q copies over the
    items is unknown. The number observed has the largest spread if copies are distributed evenly
    (Hoeffding 1956): then all rates are equal and the number is binomial.

    Examples
    --------
    >>> count = CopyRateCount(n_seen=6, n_items=549, low=Fraction(1, 150), high=Fraction(21, 150),
    ...                   most=5 * 549)
    >>> count.unbiased, count.interval()
    (17.55, (0.0, 69.0))
    """

    def _variance(self, q: float) -> float:
        mean = self._mean(q)
        return max(mean * (1 - mean / self.n_items), 0.0)

    def _mean(self, q: float) -> float:
        return self._expected + q * float(self.high - self.low)

    def _tail(self, q: int, *, above: bool) -> float:
        """Return the tail probability for equal rates."""
        others, mean = np.array([self.n_seen - (1 if above else 0)]), self._mean(q)
        return float(_tails(others, self.n_items, mean / self.n_items, mean, above=above)[0])


def _binomial_chances(n: int, p: float) -> Floats:
    """Return the binomial probability of each number of successes."""
    heads = np.arange(n + 1)
    ways = special.gammaln(n + 1) - special.gammaln(heads + 1) - special.gammaln(n - heads + 1)
    chances = np.exp(ways + special.xlogy(heads, p) + special.xlog1py(n - heads, -p))
    return np.asarray(chances)


def _tails(heads: Integers, n: int, p: float, mean: float, *, above: bool) -> Floats:
    """Return binomial tail probabilities: more successes than each number, or at most that many."""
    if n >= _COUNTABLE:  # beyond float precision; the rate is so small that the number is Poisson
        poisson = special.pdtrc if above else special.pdtr
        return np.where(heads < 0, above, poisson(heads.clip(0), mean))
    inside = heads.clip(0, max(n - 1, 0))
    tail = special.betainc if above else special.betaincc
    tails = tail(inside + 1, np.maximum(n - inside, 1), p)
    return np.where(heads < 0, above, np.where(heads >= n, not above, tails))


def _turn(holds: Callable[[int], bool], near: float, most: int) -> int:
    """Return the first integer up to `most` at which a condition holds, searching from `near`."""
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
    """Return the smallest and largest count from 0 to `most` that fit, around an estimate."""
    start = min(max(center, 0.0), float(most))
    found = []
    for limit in (0.0, float(most)):
        inside, outside, step = start, limit, 1.0
        # Growing steps first, because a domain may be far larger than any count.
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
