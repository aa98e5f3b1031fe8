"""Lower bounds on the privacy loss from counts of an event (Clopper-Pearson, not asymptotic).

Let an event have probability p on one input and q on its neighbor. A mechanism that satisfies
(epsilon, delta) has p <= exp(epsilon) q + delta. From independent runs, p is at least `at_least`
and q at most `at_most`, each except with its own error probability. So the loss is at least
ln((p_low - delta) / q_high), except with the sum of the two probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hushtable.extras import needing
from hushtable.numeric import normal_quantile

with needing("science"):
    from scipy.special import betaincinv


@dataclass(frozen=True)
class EventTally:
    """Number of runs in which an event occurred, out of all runs on one input."""

    hits: int
    runs: int

    @property
    def rate(self) -> float:
        """Share of the runs in which the event occurred."""
        return self.hits / self.runs


def at_least(tally: EventTally, *, error: float) -> float:
    """Return a lower bound on a probability; wrong with probability at most `error`.

    Examples
    --------
    >>> round(at_least(EventTally(50, 100), error=0.005), 3)
    0.369
    """
    if tally.hits == 0:
        return 0.0
    return float(betaincinv(tally.hits, tally.runs - tally.hits + 1, error))


def at_most(tally: EventTally, *, error: float) -> float:
    """Return an upper bound on a probability; wrong with probability at most `error`.

    Examples
    --------
    >>> round(at_most(EventTally(0, 100), error=0.005), 3)
    0.052
    """
    return 1.0 - at_least(EventTally(tally.runs - tally.hits, tally.runs), error=error)


def fits(tally: EventTally, chance: float, *, error: float) -> bool:
    """Return whether a tally is plausible for an event of this probability.

    Each of the two bounds is wrong with probability at most `error`.

    Examples
    --------
    >>> fits(EventTally(50, 100), 0.5, error=1e-6), fits(EventTally(99, 100), 0.5, error=1e-6)
    (True, False)
    """
    low, high = at_least(tally, error=error), at_most(tally, error=error)
    return low - 1e-9 <= chance <= high + 1e-9


def loss_at_least(more: EventTally, less: EventTally, *, delta: float, error: float) -> float:
    """Return a lower bound on epsilon from an event; wrong with probability at most `error`.

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
"""Probability of detecting a violation that is reported as detectable."""


def visible_rate(n_runs: int, caught: Callable[[EventTally], bool]) -> float:
    """Return the smallest probability at which `n_runs` runs detect an event with power `POWER`.

    Return infinity if even a certain event would not be detected. If `caught` holds for a tally,
    it must hold for all tallies with more hits.

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
    """Return the smallest loss that would be detected at an event as frequent as this one.

    `less` is the tally on the neighbor. The event's probability there is taken to be the observed
    rate, or 0.5 / runs if it never occurred. Return infinity if no probability on the other input
    would be sufficient.

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
    """Return the smallest delta, for an epsilon of `limit`, that would be detected.

    `less` is the tally on the neighbor. Return infinity if no delta would be detected.

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
    """Return the standard normal quantile that is exceeded with probability `error`."""
    return -normal_quantile(error)
