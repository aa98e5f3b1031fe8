"""Publication of tuples with noisy counts, where a record has one tuple in several groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hushtable.arrays import Integers
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.accounting.sealed import SealedCounts, SealedValue, unseal
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.composition import optimal_delta
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.noise.noise import Noise


class CommonTuples(NamedTuple):
    """Occupied tuples (`hushtable.engine.baskets.Tuples`) that occur in enough records."""

    tuples: Any
    at_least: int  # smallest number of records


class SealedTuples(SealedValue):
    """Sealed occupied tuples; which tuples are occupied, and how many, is private."""

    __slots__ = ()

    @classmethod
    def of(
        cls, tuples: Any, sensitivity: Sensitivity, part: DataPart, *, at_least: int
    ) -> SealedTuples:
        """Seal tuples; those of fewer than `at_least` records were omitted."""
        return cls(CommonTuples(tuples, at_least), sensitivity, part)

    @property
    def n_records(self) -> SealedCounts:
        """Number of records, as one count."""
        counts = np.array([unseal(self).tuples.n_records], np.int64)
        return SealedCounts(counts, Sensitivity(rows=self.sensitivity.rows), self.part)


@dataclass(frozen=True)
class TupleCounts(Mechanism):
    """Publication of tuples through a mechanism for single counts.

    A record changes one count in each of n groups, so n mechanisms are composed. Their cost is a
    point of the optimal composition theorem (Kairouz, Oh and Viswanath 2015); see
    `hushtable.privacy.composition.shares_of`.

    Parameters
    ----------
    count : CountMechanism
        Applied to each count. It must not publish absent tuples, or tuples that were omitted as
        rare.
    spared : int
        The i of the theorem: epsilon is that of n - 2 i mechanisms, at the price of a larger delta.
    """

    count: CountMechanism
    spared: int = 0

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of n mechanisms together."""
        if sensitivity.rows != 1 or sensitivity.step != 1:
            raise SealedError("tuples are charged per record; use a promise per row.")
        n, each = sensitivity.cells, self.count.epsilon
        delta: Fraction = getattr(self.count, "delta", Fraction(0))
        used = optimal_delta(each, n, self.spared) if self.spared else Fraction(0)
        # 1 - (1 - delta)**n <= n delta
        return PrivacyCost((n - 2 * self.spared) * each, used + n * delta * (1 - used))

    def draw(self, exact: CommonTuples, noise: Noise) -> tuple[Any, Integers]:
        """Return the published tuples and their counts."""
        if self.count.release_probability(exact.at_least - 1) > 0:
            raise SealedError(
                f"tuples of fewer than {exact.at_least} records were omitted, but this mechanism "
                "would publish some of them."
            )
        noisy = self.count.noisy(exact.tuples.counts, noise)
        shown = noisy > 0
        # Exact counts are dropped; the noisy counts decide which tuples are published.
        return replace(exact.tuples.take(shown), counts=noisy[shown], n_records=0), noisy[shown]
