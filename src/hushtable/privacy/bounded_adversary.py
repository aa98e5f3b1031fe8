"""Posterior of an observer with a bounded prior, decided exactly by Bayes' rule.

A mechanism that treats tuples independently enters only through its likelihood ratios: for one
tuple and everything published about it, P[outcome | tuple in the table] divided by
P[outcome | tuple not in the table]. `Ratios` bounds this for every outcome. The theorems are proved
in ``methods/alpha_beta/alpha_beta.md``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hushtable.errors import ParameterError
from hushtable.numeric import bisect
from hushtable.privacy.rational import exp_bounds, log_upper

Adversary = Literal["exclusive", "independent"]

_BITS = 160  # precision of the bounds of e**x
_GRID = 64  # number of retention probabilities that are tried for several views


@dataclass(frozen=True)
class Ratios:
    """Bounds of the likelihood ratios of all outcomes for one tuple.

    Parameters
    ----------
    low, high : Fraction
        0 < low <= 1 <= high; every outcome's ratio is between them.

    Examples
    --------
    >>> ratios = Ratios.of_one_view(keep=Fraction(1, 2), insert=Fraction(1, 20))
    >>> ratios.low, ratios.high
    (Fraction(10, 19), Fraction(10, 1))
    >>> ratios.posterior(Fraction(1, 10), "independent"), ratios.posterior(Fraction(1, 10))
    (Fraction(10, 19), Fraction(19, 28))
    >>> round(float(ratios.epsilon), 3)
    2.303
    """

    low: Fraction
    high: Fraction

    @classmethod
    def of_one_view(cls, *, keep: Fraction, insert: Fraction) -> Ratios:
        """Return the bounds for one view.

        It publishes a tuple of the table with probability `keep`, any other one with `insert`.
        """
        if not 0 < insert < keep < 1:
            raise ParameterError(
                f"a tuple of the table would be kept with probability {float(keep):g} and another "
                f"one inserted with {float(insert):g}; required is 0 < insert < keep < 1."
            )
        return cls(low=(1 - keep) / (1 - insert), high=keep / insert)

    @classmethod
    def of_repeated_views(cls, *, keep: Fraction, insert: Fraction, views: int) -> Ratios:
        """Return the bounds for `views` views by Algorithm 4 of Rastogi, Suciu and Hong (2007).

        Let s be `keep`, b be `insert` and v be `views`, and let the tuple first occur in view j.
        Each view i before has the ratio (1-s)/(1-b_i) with b_i = (1-s)**(i-1) b. View j has s/b_j.
        Each later view has e**(1/v) if it contains the tuple and (1-s)/(1-s e**(-1/v)) < 1 if not.
        For given j the extremes are "in all later views" and "in none"; j is 1 to v, and "in no
        view" remains.
        """
        once = cls.of_one_view(keep=keep, insert=insert)
        gone = (1 - keep) / (1 - keep * exp_bounds(Fraction(-1, views), _BITS)[0])
        unseen, before = Fraction(1), Fraction(1)
        lows, highs = [], []
        for view in range(views):
            # (1-s)**view cancels between the views before and s/b_j, except for the 1/(1-b_i).
            first = once.high / before
            later = views - 1 - view
            highs.append(first * exp_bounds(Fraction(later, views), _BITS)[1])
            lows.append(first * gone**later)
            inserted = (1 - keep) ** view * insert
            before *= 1 - inserted
            unseen *= (1 - keep) / (1 - inserted)
        return cls(low=min([*lows, unseen]), high=max(highs))

    def posterior(self, prior: Fraction, adversary: Adversary = "exclusive") -> Fraction:
        """Return the largest posterior probability of a tuple for an observer with this prior."""
        rest = (1 - prior) * (self.low if adversary == "exclusive" else 1)
        return prior * self.high / (prior * self.high + rest)

    def keeps(self, d: Fraction, gamma: Fraction, adversary: Adversary) -> bool:
        """Return whether each prior up to d has a posterior between d/gamma times itself and gamma.

        The lower bound is a promise about the independent observer only, but is checked for
        ``exclusive`` too. A mechanism that is safe against the latter is then safe against the
        former.
        """
        return self.posterior(d, adversary) <= gamma and self.low * gamma >= d

    def per_copy(self, copies: int) -> Ratios:
        """Bound the ratios of one more copy if probabilities increase evenly up to `copies` copies.

        Examples
        --------
        >>> Ratios(low=Fraction(1, 2), high=Fraction(10)).per_copy(3)
        Ratios(low=Fraction(3, 4), high=Fraction(4, 1))
        """
        return Ratios(low=1 / (1 + (1 / self.low - 1) / copies), high=1 + (self.high - 1) / copies)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon for adding or removing a tuple, rounded up."""
        return log_upper(max(self.high, 1 / self.low))

    @property
    def epsilon_of_exchange(self) -> Fraction:
        """Epsilon for replacing one tuple by another, rounded up."""
        return log_upper(self.high / self.low)


def odds_limit(d: Fraction, gamma: Fraction) -> Fraction:
    """Return the likelihood ratio that turns a prior of d into a posterior of gamma.

    Examples
    --------
    >>> odds_limit(Fraction(1, 10), Fraction(1, 2))
    Fraction(9, 1)
    """
    return gamma * (1 - d) / (d * (1 - gamma))


def solve(d: Fraction, gamma: Fraction, adversary: Adversary) -> tuple[Fraction, Fraction]:
    """Find the probabilities `keep` and `insert` of one view that keep (d, gamma) with least noise.

    With c = 1/`odds_limit`, the upper condition holds with equality. For ``exclusive`` this means
    insert/(1 - insert) = c keep/(1 - keep), and the noise is least at keep = 1/2. For
    ``independent`` it means insert = c keep, and the noise decreases in keep. `keep` is as large as
    the lower condition allows.

    Examples
    --------
    >>> keep, insert = solve(Fraction(1, 100), Fraction(1, 5), "exclusive")
    >>> keep, insert, Ratios.of_one_view(keep=keep, insert=insert).posterior(Fraction(1, 100))
    (Fraction(1, 2), Fraction(4, 103), Fraction(1, 5))
    """
    c, floor = 1 / odds_limit(d, gamma), d / gamma
    if adversary == "exclusive":
        keep = min(Fraction(1, 2), (1 - floor) / (1 - c))
        return keep, c * keep / (1 - keep + c * keep)
    keep = (1 - floor) / (1 - c * floor)
    return keep, c * keep


@functools.cache
def solve_repeated(
    d: Fraction, gamma: Fraction, adversary: Adversary, views: int
) -> tuple[Fraction, Fraction]:
    """Find probabilities that keep (d, gamma) over several views by Algorithm 4.

    Raise `ParameterError` if there are none.

    Examples
    --------
    >>> keep, insert = solve_repeated(Fraction(1, 1000), Fraction(1, 5), "independent", 3)
    >>> three = Ratios.of_repeated_views(keep=keep, insert=insert, views=3)
    >>> three.keeps(Fraction(1, 1000), Fraction(1, 5), "independent")
    True
    """
    found: list[tuple[Fraction, Fraction, Fraction]] = []
    for step in range(1, _GRID):
        keep = Fraction(step, _GRID)

        def holds(insert: Fraction, keep: Fraction = keep) -> bool:
            ratios = Ratios.of_repeated_views(keep=keep, insert=insert, views=views)
            return ratios.keeps(d, gamma, adversary)

        # One view alone needs insert = c * keep.
        insert = _least(holds, above=keep / odds_limit(d, gamma), below=keep)
        if insert is not None:
            found.append((insert * (1 - insert) / (keep - insert) ** 2, keep, insert))
    if not found:
        raise ParameterError(
            f"d = {float(d):g} and gamma = {float(gamma):g} cannot be kept over {views} views of "
            "the same table: a tuple in every view is too likely to be real. Raise gamma, lower "
            "d, publish fewer views, or use view_rule memoized, which needs the noise of one view."
        )
    _, keep, insert = min(found)
    return keep, insert


def _least(
    holds: Callable[[Fraction], bool], *, above: Fraction, below: Fraction
) -> Fraction | None:
    """Find the smallest probability for which a condition holds, to three digits and rounded up."""
    low = high = above
    while not holds(high):
        low, high = high, 2 * high
        if high >= below:
            high = (low + below) / 2
            if not holds(high):
                return None
    return bisect(lambda probability: not holds(probability), low, high, steps=10)[1]
