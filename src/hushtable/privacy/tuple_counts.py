"""Publish tuples of groups with noisy counts, where a record has one in several groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hushtable.errors import SealedError
from hushtable.privacy.composition import optimal_delta
from hushtable.privacy.count_mechanisms import CountMechanism
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.random_words import Integers
from hushtable.privacy.sealed import Seal, Sealed, inside
from hushtable.privacy.spending import Part, Price, Sensitivity


class CommonTuples(NamedTuple):
    """Hold occupied tuples (`hushtable.engine.baskets.Tuples`) of so many records at least."""

    tuples: Any
    at_least: int


class SealedTuples(Seal):
    """Hold occupied tuples, sealed: which they are is private, and how many."""

    __slots__ = ()

    @classmethod
    def of(
        cls, tuples: Any, sensitivity: Sensitivity, part: Part, *, at_least: int
    ) -> SealedTuples:
        """Seal tuples, of which those of fewer than `at_least` records were left out."""
        return cls(CommonTuples(tuples, at_least), sensitivity, part)

    @property
    def n_records(self) -> Sealed:
        """Count the records: one count."""
        counts = np.array([inside(self).tuples.n_records], np.int64)
        return Sealed(counts, Sensitivity(rows=self.sensitivity.rows), self.part)


@dataclass(frozen=True)
class TupleCounts(Mechanism):
    """Publish the tuples that a mechanism for single counts gives a count.

    A record moves one count in each of n groups, so n mechanisms are composed: their price is a
    point of the optimal composition theorem (Kairouz, Oh and Viswanath 2015), see
    `hushtable.privacy.composition.shares_of`.

    Parameters
    ----------
    count : CountMechanism
        What each count goes through. It publishes no tuple that nobody has, nor one that was left
        out for being rare.
    spared : int
        The i of the theorem: epsilon is that of n - 2 i mechanisms, and delta larger for it.
    """

    count: CountMechanism
    spared: int = 0

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the price of n mechanisms together."""
        if sensitivity.rows != 1 or sensitivity.step != 1:
            raise SealedError("tuples are paid record by record; count the promise by rows.")
        n, each = sensitivity.cells, self.count.epsilon
        delta: Fraction = getattr(self.count, "delta", Fraction(0))
        used = optimal_delta(each, n, self.spared) if self.spared else Fraction(0)
        # 1 - (1 - delta)**n <= n delta
        return Price((n - 2 * self.spared) * each, used + n * delta * (1 - used))

    def draw(self, exact: CommonTuples, noise: Noise) -> tuple[Any, Integers]:
        """Give the published tuples and their counts."""
        if self.count.release_probability(exact.at_least - 1) > 0:
            raise SealedError(
                f"tuples of fewer than {exact.at_least} records were left out, and this noise "
                "would publish some of them."
            )
        noisy = self.count.noisy(exact.tuples.counts, noise)
        shown = noisy > 0
        # Nothing exact goes along: which tuples are there is seen by their noisy counts.
        return replace(exact.tuples.take(shown), counts=noisy[shown], n_records=0), noisy[shown]
