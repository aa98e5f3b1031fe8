"""What counts of an event prove about the privacy loss: Clopper-Pearson, nothing asymptotic.

Let an event happen with probability p on one input and q on its neighbor. A mechanism that keeps
(epsilon, delta) has p <= exp(epsilon) q + delta. From independent runs, p is at least `at_least`
and q at most `at_most`, each but for its own chance of error; so the loss is at least
ln((p_low - delta) / q_high), but for the sum of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betaincinv, ndtri


@dataclass(frozen=True)
class Tally:
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


def at_least(tally: Tally, *, error: float) -> float:
    """Bound a probability from below; wrong with probability `error` at most.

    Examples
    --------
    >>> round(at_least(Tally(50, 100), error=0.005), 3)
    0.369
    """
    if tally.hits == 0:
        return 0.0
    return float(betaincinv(tally.hits, tally.runs - tally.hits + 1, error))


def at_most(tally: Tally, *, error: float) -> float:
    """Bound a probability from above; wrong with probability `error` at most.

    Examples
    --------
    >>> round(at_most(Tally(0, 100), error=0.005), 3)
    0.052
    """
    return 1.0 - at_least(Tally(tally.runs - tally.hits, tally.runs), error=error)


def loss_at_least(more: Tally, less: Tally, *, delta: float, error: float) -> float:
    """Bound epsilon from below by an event; wrong with probability `error` at most.

    Examples
    --------
    >>> round(loss_at_least(Tally(60, 100), Tally(0, 100), delta=0, error=0.01), 2)
    2.2
    >>> loss_at_least(Tally(3, 100), Tally(0, 100), delta=0.1, error=0.01)
    -inf
    """
    low = at_least(more, error=error / 2) - delta
    return math.log(low / at_most(less, error=error / 2)) if low > 0 else -math.inf


def visible_loss(less: Tally, *, limit: float, delta: float, error: float) -> float:
    """Give the least loss that would have been caught at an event as common as this one.

    Counts are taken as they are expected; infinite, if not even certainty would have been enough.

    Examples
    --------
    >>> round(visible_loss(Tally(100, 1000), limit=1.0, delta=0, error=1e-6), 2)
    1.6
    """
    rate = max(less.rate, 0.5 / less.runs)
    low, high = less.hits, less.runs + 1
    while high - low > 1:
        middle = (low + high) // 2
        caught = loss_at_least(Tally(middle, less.runs), less, delta=delta, error=error) > limit
        low, high = (low, middle) if caught else (middle, high)
    if high > less.runs:
        return math.inf
    return math.log((high / less.runs - delta) / rate)


def deviations(error: float) -> float:
    """Give how many standard deviations a normal variable exceeds with probability `error`."""
    return -float(ndtri(error))
