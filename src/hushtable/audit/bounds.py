"""What counts of an event prove about the privacy loss: Clopper-Pearson, nothing asymptotic.

Let an event happen with probability p on one input and q on its neighbor. A mechanism that keeps
(epsilon, delta) has p <= exp(epsilon) q + delta. From independent runs, p is at least `at_least`
and q at most `at_most`, each but for its own chance of error; so the loss is at least
ln((p_low - delta) / q_high), but for the sum of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hushtable.estimate.quantiles import normal_quantile
from hushtable.extras import needing

with needing("science"):
    from scipy.special import betaincinv


@dataclass(frozen=True)
class EventTally:
    """Hold how often an event happened on one input.

    Parameters
    ----------
    hits : int
        Runs in which it happened.
    runs : int
        All runs.
    """

    hits: int
    runs: int

    @property
    def rate(self) -> float:
        """Share of the runs in which it happened."""
        return self.hits / self.runs


def at_least(tally: EventTally, *, error: float) -> float:
    """Bound a probability from below; wrong with probability `error` at most.

    Examples
    --------
    >>> round(at_least(EventTally(50, 100), error=0.005), 3)
    0.369
    """
    if tally.hits == 0:
        return 0.0
    return float(betaincinv(tally.hits, tally.runs - tally.hits + 1, error))


def at_most(tally: EventTally, *, error: float) -> float:
    """Bound a probability from above; wrong with probability `error` at most.

    Examples
    --------
    >>> round(at_most(EventTally(0, 100), error=0.005), 3)
    0.052
    """
    return 1.0 - at_least(EventTally(tally.runs - tally.hits, tally.runs), error=error)


def loss_at_least(more: EventTally, less: EventTally, *, delta: float, error: float) -> float:
    """Bound epsilon from below by an event; wrong with probability `error` at most.

    Examples
    --------
    >>> round(loss_at_least(EventTally(60, 100), EventTally(0, 100), delta=0, error=0.01), 2)
    2.2
    >>> loss_at_least(EventTally(3, 100), EventTally(0, 100), delta=0.1, error=0.01)
    -inf
    """
    low = at_least(more, error=error / 2) - delta
    return math.log(low / at_most(less, error=error / 2)) if low > 0 else -math.inf


POWER = 0.95
"""Chance with which a violation is seen that is said to be visible."""


def visible_rate(n_runs: int, caught: Callable[[EventTally], bool]) -> float:
    """Give the least probability at which so many runs lead to a catch with the chance `POWER`.

    Infinite, if not even certainty would have been enough. `caught` must hold for all larger
    tallies where it holds for one.

    Examples
    --------
    >>> round(visible_rate(100, lambda tally: tally.hits >= 1), 4)
    0.0295
    """
    low, high = -1, n_runs + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if caught(EventTally(middle, n_runs)) else (middle, high)
    if high > n_runs:
        return math.inf
    return float(betaincinv(high, n_runs - high + 1, POWER)) if high else 0.0


def visible_loss(less: EventTally, *, limit: float, delta: float, error: float) -> float:
    """Give the least loss that would have been caught at an event as common as this one.

    The event happens on the neighbor as often as it was seen to; infinite, if no probability would
    have been enough.

    Examples
    --------
    >>> round(visible_loss(EventTally(100, 1000), limit=1.0, delta=0, error=1e-6), 2)
    1.65
    >>> visible_loss(EventTally(900, 1000), limit=1.0, delta=0, error=1e-6)
    inf
    """
    rate = _rate_caught(less, limit=limit, delta=delta, error=error)
    return math.log((rate - delta) / max(less.rate, 0.5 / less.runs)) if rate < 2 else math.inf


def visible_delta(less: EventTally, *, limit: float, delta: float, error: float) -> float:
    """Give the least delta, beside an epsilon of `limit`, that would have been caught.

    Examples
    --------
    >>> round(visible_delta(EventTally(0, 10_000), limit=1.0, delta=1e-6, error=1e-6), 4)
    0.009
    """
    rate = _rate_caught(less, limit=limit, delta=delta, error=error)
    return rate - math.exp(limit) * less.rate if rate < 2 else math.inf


def _rate_caught(less: EventTally, *, limit: float, delta: float, error: float) -> float:
    return visible_rate(
        less.runs, lambda more: loss_at_least(more, less, delta=delta, error=error) > limit
    )


def deviations(error: float) -> float:
    """Give how many standard deviations a normal variable exceeds with probability `error`."""
    return -normal_quantile(error)
