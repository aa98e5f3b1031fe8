"""Result of an attack: success rates on members, on a control group and of a naive attacker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hushtable.evaluation.metric import MetricValue
from hushtable.evaluation.repeats import wilson

VERDICT = 0.999
"""Confidence level at which an attack is reported as successful."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A success rate with a 95% Wilson interval; `n` is the number of guesses.

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
        """Return the rate of hits among `n` guesses; with no guess, the interval is 0 to 1."""
        if n == 0:
            return cls(value=0.0, low=0.0, high=1.0, n=0)
        low, high = wilson(hits, n, confidence=confidence)
        return cls(value=hits / n, low=low, high=high, n=n)

    def at(self, confidence: float) -> Rate:
        """Return the same rate with another confidence level."""
        return Rate.of(self.value * self.n, self.n, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return the rate as plain data."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one attack."""

    name: str  # such as "singling out" or "attribute inference"
    of: str  # specific target: a column or a kind of predicate; may be empty
    attacker: str  # description in a sentence
    attack: Rate  # success on people in the original
    control: Rate | None  # success of the same guesses on people who are not in the original
    naive: Rate | None  # success without the release; None if not defined
    n: int
    note: str = ""  # samples used, comparisons that were not possible
    details: tuple[MetricValue, ...] = ()

    @property
    def reference(self) -> Rate | None:
        """The baseline rate: that on the control group, else that of the naive attacker."""
        return self.control if self.control is not None else self.naive

    @property
    def excess(self) -> Rate | None:
        """Attack rate minus reference rate, with Newcombe's 95% interval."""
        other = self.reference
        return None if other is None else difference(self.attack, other)

    @property
    def succeeds(self) -> bool:
        """Whether the attack is significantly above its reference (99.9% confidence).

        A report contains dozens of attacks, so 95% intervals would cause false alarms in most
        reports.
        """
        other = self.reference
        if other is None:
            return False
        sure = difference(self.attack.at(VERDICT), other.at(VERDICT))
        return sure.low > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
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
    """Return the difference of two rates, with Newcombe's interval from the Wilson intervals.

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
    """Return the outcome of one attack that exceeds its reference most."""
    tried = [x for x in attacks if x["name"] == name and x["excess"] and x["attack"]["n"]]
    return max(tried, key=lambda x: float(x["excess"]["value"]), default=None)
