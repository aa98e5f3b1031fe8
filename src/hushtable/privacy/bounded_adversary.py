"""What an observer with a bounded prior can conclude, decided exactly by Bayes' rule.

A mechanism that treats tuples independently of each other enters only through its likelihood
ratios: for one tuple and all that is published about it, P[seen | tuple in the table] over
P[seen | tuple not in the table]. `Ratios` holds bounds of it that are valid for every outcome. The
theorems behind this file are proved in ``methods/alpha_beta/alpha_beta.md``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hushtable.errors import ParameterError
from hushtable.privacy.rational import exp_bounds, log_upper

Adversary = Literal["exclusive", "independent"]

_BITS = 160  # precision of the bounds of e**x
_GRID = 64  # shares of tuples kept that are tried for several views


@dataclass(frozen=True)
class Ratios:
    """Bound the likelihood ratios of everything that may be seen of one tuple.

    Parameters
    ----------
    low, high : Fraction
        0 < low <= 1 <= high; every outcome's ratio lies between them.

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
        """Take a tuple of the table in with probability `keep`, any other with `insert`."""
        if not 0 < insert < keep < 1:
            raise ParameterError(
                f"a tuple of the table would be kept with probability {float(keep):g} and another "
                f"inserted with {float(insert):g}; it must be 0 < insert < keep < 1."
            )
        return cls(low=(1 - keep) / (1 - insert), high=keep / insert)

    @classmethod
    def of_repeated_views(cls, *, keep: Fraction, insert: Fraction, views: int) -> Ratios:
        """Publish `views` views by the paper's Algorithm 4.

        Let the tuple first be seen in view j. Before, view i has the ratio (1-s)/(1-b_i) with
        b_i = (1-s)**(i-1) b; then s/b_j; after that e**(1/v) each time it is seen and
        (1-s)/(1-s e**(-1/v)) < 1 each time it is not. For given j the extremes are "always seen
        again" and "never seen again"; j runs from 1 to v, and "never seen" is left.
        """
        once = cls.of_one_view(keep=keep, insert=insert)
        gone = (1 - keep) / (1 - keep * exp_bounds(Fraction(-1, views), _BITS)[0])
        unseen, before = Fraction(1), Fraction(1)
        lows, highs = [], []
        for view in range(views):
            # (1-s)**view cancels between the views before and s/b_j, but for the 1/(1-b_i).
            first = once.high / before
            later = views - 1 - view
            highs.append(first * exp_bounds(Fraction(later, views), _BITS)[1])
            lows.append(first * gone**later)
            inserted = (1 - keep) ** view * insert
            before *= 1 - inserted
            unseen *= (1 - keep) / (1 - inserted)
        return cls(low=min([*lows, unseen]), high=max(highs))

    def posterior(self, prior: Fraction, adversary: Adversary = "exclusive") -> Fraction:
        """Give the largest chance that an observer with this prior can come to give a tuple."""
        rest = (1 - prior) * (self.low if adversary == "exclusive" else 1)
        return prior * self.high / (prior * self.high + rest)

    def keeps(self, d: Fraction, gamma: Fraction, adversary: Adversary) -> bool:
        """Tell whether (d, gamma) holds: not above gamma, and not below d/gamma times the prior.

        For ``exclusive`` the second is decided too, though it is a promise about the independent
        observer only: what is safe against the one is then safe against the other.
        """
        return self.posterior(d, adversary) <= gamma and self.low * gamma >= d

    def per_copy(self, copies: int) -> Ratios:
        """Bound what one copy more tells, where chances rise evenly up to so many copies.

        Examples
        --------
        >>> Ratios(low=Fraction(1, 2), high=Fraction(10)).per_copy(3)
        Ratios(low=Fraction(3, 4), high=Fraction(4, 1))
        """
        return Ratios(low=1 / (1 + (1 / self.low - 1) / copies), high=1 + (self.high - 1) / copies)

    @property
    def epsilon(self) -> Fraction:
        """The differential privacy of adding or removing a tuple, rounded up."""
        return log_upper(max(self.high, 1 / self.low))

    @property
    def epsilon_of_exchange(self) -> Fraction:
        """The differential privacy of putting one tuple in the place of another, rounded up."""
        return log_upper(self.high / self.low)


def odds_limit(d: Fraction, gamma: Fraction) -> Fraction:
    """Give the likelihood ratio that takes a prior of d to a posterior of gamma.

    Examples
    --------
    >>> odds_limit(Fraction(1, 10), Fraction(1, 2))
    Fraction(9, 1)
    """
    return gamma * (1 - d) / (d * (1 - gamma))


def solve(d: Fraction, gamma: Fraction, adversary: Adversary) -> tuple[Fraction, Fraction]:
    """Find the shares kept and inserted of one view that keep (d, gamma) with the least noise.

    With c = 1/`odds_limit`, both conditions are met with equality in the positive one:
    ``exclusive`` has insert/(1 - insert) = c keep/(1 - keep) and its noise is least at
    keep = 1/2; ``independent`` has insert = c keep and its noise falls in keep. keep is as large
    as the negative condition allows.

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
    """Find shares that keep (d, gamma) over several views by Algorithm 4, or refuse.

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

        # One view alone needs c * keep.
        insert = _least(holds, above=keep / odds_limit(d, gamma), below=keep)
        if insert is not None:
            found.append((insert * (1 - insert) / (keep - insert) ** 2, keep, insert))
    if not found:
        raise ParameterError(
            f"d = {float(d):g} and gamma = {float(gamma):g} cannot be kept over {views} views of "
            "the same table: seeing a tuple in every view says too much. Raise gamma, lower d, "
            "publish fewer views, or use view_rule memoized, which needs no more noise than one."
        )
    _, keep, insert = min(found)
    return keep, insert


def _least(
    holds: Callable[[Fraction], bool], *, above: Fraction, below: Fraction
) -> Fraction | None:
    """Find, to three digits and on the safe side, the least share for which a condition holds."""
    low = high = above
    while not holds(high):
        low, high = high, 2 * high
        if high >= below:
            high = (low + below) / 2
            if not holds(high):
                return None
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
