"""Private cuts near the middle of a histogram, for degree sequences of graphs.

The proof is in ``methods/degrees/degrees.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushtable.arrays import Integers
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.noise import Noise


@dataclass(frozen=True)
class HistogramCuts(Mechanism):
    """Cuts of runs of a histogram in two, near their middle.

    A cut of a run has the weight exp(rate * min(counts on its left, on its right)). Changing one
    count by 1 changes the scores of one run in one direction, by at most 1, so all cuts together
    cost at most the rate for each step (lemma 5). This does not use parallel composition.
    """

    runs: tuple[tuple[int, int], ...]  # first position and end of each; one position is not cut
    rate: Fraction  # factor of the score in the exponent

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return l1 times the rate."""
        return PrivacyCost.pure(sensitivity.l1 * self.rate)

    def draw(self, exact: Integers, noise: Noise) -> list[tuple[int, int]]:
        """Return the runs after the cuts."""
        cut: list[tuple[int, int]] = []
        for begin, end in self.runs:
            if end - begin == 1:
                cut.append((begin, end))
                continue
            left = np.cumsum(exact[begin : end - 1])
            scores = np.minimum(left, exact[begin:end].sum() - left)
            # `monotone` selects the exponent. The scores are not monotone; the proof bounds the
            # range of the loss, which holds for the exponential mechanism only.
            place = noise.choose(
                scores, epsilon=self.rate, sensitivity=Fraction(1), monotone=True,
                rule="exponential",
            )  # fmt: skip
            cut += [(begin, begin + place + 1), (begin + place + 1, end)]
        return cut
