"""What an attack reports: how often it succeeded, against people who are not in the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hushtable.evaluation.metric import Measured
from hushtable.evaluation.repeats import wilson

VERDICT = 0.999
"""How sure one must be that an attack beats its reference before saying so."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Hold a share of guesses that were right, with a 95 % Wilson interval.

    Parameters
    ----------
    value : float
        The share.
    low, high : float
        The interval.
    n : int
        Guesses made.

    Examples
    --------
    >>> rate = Rate.of(30, 100)
    >>> f"{rate.low:.3f} {rate.value} {rate.high:.3f}"
    '0.219 0.3 0.396'
    """

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, hits: float, n: int, *, confidence: float = 0.95) -> Rate:
        """Count hits among guesses; without a guess nothing is known."""
        if n == 0:
            return cls(value=0.0, low=0.0, high=1.0, n=0)
        low, high = wilson(hits, n, confidence=confidence)
        return cls(value=hits / n, low=low, high=high, n=n)

    def at(self, confidence: float) -> Rate:
        """Give the same rate with another confidence."""
        return Rate.of(self.value * self.n, self.n, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Report one attack.

    Parameters
    ----------
    name : str
        The attack: ``singling out``, ``linkability``, ``attribute inference``, ``membership``,
        ``likelihood linkage``.
    of : str
        What was attacked in particular: a column, a kind of predicate; empty where there is one.
    attacker : str
        Who this is and what they do, in a sentence.
    attack : Rate
        Success against people of the original.
    control : Rate or None
        Success of the same guesses against people who are not in it; None without a control table.
    naive : Rate or None
        Success of an attacker who does not see the release; None where there is no such thing.
    n : int
        Guesses made against the original.
    note : str
        What a reader must know: samples taken, comparisons that could not be made.
    details : tuple of Measured
        Other figures of this attack.
    """

    name: str
    of: str
    attacker: str
    attack: Rate
    control: Rate | None
    naive: Rate | None
    n: int
    note: str = ""
    details: tuple[Measured, ...] = ()

    @property
    def reference(self) -> Rate | None:
        """What success means nothing about the release: that on the control, else the naive."""
        return self.control if self.control is not None else self.naive

    @property
    def excess(self) -> Rate | None:
        """Attack minus reference, with Newcombe's 95 % interval for a difference of rates."""
        other = self.reference
        return None if other is None else difference(self.attack, other)

    @property
    def succeeds(self) -> bool:
        """Whether the attack is above its reference, beyond chance (99.9 %).

        With dozens of attacks in a report, a 95 % interval would cry wolf in most of them.
        """
        other = self.reference
        if other is None:
            return False
        sure = difference(self.attack.at(VERDICT), other.at(VERDICT))
        return sure.low > 0

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "name": self.name,
            "of": self.of,
            "attacker": self.attacker,
            "attack": self.attack.to_dict(),
            "control": self.control and self.control.to_dict(),
            "naive": self.naive and self.naive.to_dict(),
            "excess": self.excess and self.excess.to_dict(),
            "compared_with": (
                "control" if self.control else "naive" if self.naive is not None else None
            ),
            "succeeds": self.succeeds,
            "n": self.n,
            "note": self.note,
            "details": [figure.to_dict() for figure in self.details],
        }


def difference(first: Rate, second: Rate) -> Rate:
    """Subtract two rates; the interval is Newcombe's, from the two Wilson intervals.

    Examples
    --------
    >>> gap = difference(Rate.of(56, 70), Rate.of(48, 80))
    >>> f"{gap.low:.4f} {gap.value:.4f} {gap.high:.4f}"
    '0.0524 0.2000 0.3339'
    """
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    gap = first.value - second.value
    return Rate(value=gap, low=gap - below, high=gap + above, n=min(first.n, second.n))


def worst_of(attacks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Choose, among the outcomes of one attack, the one that exceeds its reference most."""
    tried = [x for x in attacks if x["name"] == name and x["excess"] and x["attack"]["n"]]
    return max(tried, key=lambda x: float(x["excess"]["value"]), default=None)
