"""Two mechanisms that graphs need: the first of many queries that is low, and cuts in the middle.

The proofs are in ``methods/degrees/degrees.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Integers, Noise
from hushtable.privacy.sealed import Seal
from hushtable.privacy.spending import Part, Price, Sensitivity

Query = Callable[[], Fraction]


class SealedQueries(Seal):
    """Hold numbers that are worked out one by one when they are asked for, sealed."""

    __slots__ = ()

    @classmethod
    def of(cls, queries: Sequence[Query], sensitivity: Sensitivity, part: Part) -> SealedQueries:
        """Seal queries of which one unit moves each by at most ``sensitivity.most``."""
        return cls(list(queries), sensitivity, part)


@dataclass(frozen=True)
class FirstLow(Mechanism):
    """Find the first query that is not above a limit: the sparse vector technique, stopped once.

    The limit has noise of half the scale, drawn once, each query noise of the scale: for queries
    that one unit moves by at most s, the limit costs 2 s / scale and the answer as much.

    Parameters
    ----------
    scale : Fraction
        The scale of the noise of a query.
    limit : Fraction
        The limit; public.
    """

    scale: Fraction
    limit: Fraction

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give four times the sensitivity of a query over the scale."""
        return Price.pure(4 * sensitivity.most / self.scale)

    def draw(self, exact: Sequence[Query], noise: Noise) -> int | None:
        """Give the place of the query, or None if there is none."""
        limit = self.limit + int(noise.discrete_laplace(self.scale / 2, size=1)[0])
        for place, query in enumerate(exact):
            asked = query()
            if asked + int(noise.discrete_laplace(self.scale, size=1)[0]) <= limit:
                return place
        return None


@dataclass(frozen=True)
class MiddleCuts(Mechanism):
    """Cut runs of a histogram in two, near their middle as far as that can be seen privately.

    A cut of a run has the weight exp(rate * min(counts on its left, on its right)). A step of one
    count moves scores of one run in one direction, by at most one, so all cuts together lose at
    most the rate for each step (lemma 5). There is no parallel composition in this.

    Parameters
    ----------
    runs : tuple of pairs of int
        First place and end of each run; those of one place are not cut.
    rate : Fraction
        See above.
    """

    runs: tuple[tuple[int, int], ...]
    rate: Fraction

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give l1 times the rate."""
        return Price.pure(sensitivity.l1 * self.rate)

    def draw(self, exact: Integers, noise: Noise) -> list[tuple[int, int]]:
        """Give the runs after the cuts."""
        cut: list[tuple[int, int]] = []
        for begin, end in self.runs:
            if end - begin == 1:
                cut.append((begin, end))
                continue
            left = np.cumsum(exact[begin : end - 1])
            scores = np.minimum(left, exact[begin:end].sum() - left)
            # Not that scores are monotone: the loss is bounded through their range, which the
            # exponential mechanism (and only it) allows; see the proof.
            place = noise.choose(
                scores, epsilon=self.rate, sensitivity=Fraction(1), monotone=True,
                rule="exponential",
            )  # fmt: skip
            cut += [(begin, begin + place + 1), (begin + place + 1, end)]
        return cut
