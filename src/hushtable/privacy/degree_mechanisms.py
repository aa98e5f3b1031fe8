"""What graphs need beside noise on counts: cuts near the middle of a histogram.

The proof is in ``methods/degrees/degrees.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.random_words import Integers
from hushtable.privacy.spending import Price, Sensitivity


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
