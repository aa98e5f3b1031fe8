"""Private selection among sealed scores; the draws are those of `Noise.choose`.

The privacy of a selection depends on the proven sensitivity of its scores. Methods therefore do not
compute scores: they use those defined here, in ``scored_splits.py`` or ``sealed_regions.py``.
A selection costs its epsilon; the exponent follows from epsilon and the sensitivity.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

import numpy as np

from hushtable.arrays import Integers
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.accounting.sealed import SealedCounts, SealedValue, unseal
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import Rule

_MOST_EXPECTED = 2.0**61
"""Sums of expected counts below this keep distances below 2**62, for any number of rows."""


class Scores(NamedTuple):
    """Scores of public candidates, their largest change by one unit, and monotonicity."""

    values: Integers | list[int]
    most: int
    monotone: bool
    each: Integers | None = None  # largest change of each score, for `SealedScores.only`


class SealedScores(SealedValue):
    """Sealed scores of public candidates."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        values: Integers | list[int],
        sensitivity: Sensitivity,
        part: DataPart,
        *,
        monotone: bool,
        each: Integers | None = None,
    ) -> SealedScores:
        """Seal scores; one unit changes each by at most ``sensitivity.most``."""
        return cls(Scores(values, sensitivity.most, monotone, each), sensitivity, part)

    def only(self, places: Sequence[int] | Integers, beside: Sequence[int] = ()) -> SealedScores:
        """Return the scores at public places, with the largest sensitivity among them.

        `beside` are scores of further candidates that are entirely public, such as stopping.
        """
        exact: Scores = unseal(self)
        if exact.each is None:
            raise SealedError("these scores have one sensitivity for all; they cannot be selected.")
        each = exact.each[list(places)]
        # Each step changes a score by its part of the largest change, rounded up.
        moved = replace(self.sensitivity, step=-(-int(each.max()) // self.sensitivity.rows))
        values = np.append(np.asarray(exact.values)[list(places)], np.array(beside, np.int64))
        each = np.append(each, np.zeros(len(beside), np.int64))
        return SealedScores.of(values, moved, self.part, monotone=exact.monotone, each=each)


def distance_scores(
    tables: Sequence[SealedCounts],
    expected: Sequence[Integers],
    *,
    weights: Sequence[int],
    penalties: Sequence[int],
) -> SealedScores:
    """Score tables by their L1 distance from expected counts.

    A score is weight * (sum over cells of abs(count - expected) - penalty). By the triangle
    inequality, a distance changes by at most the sum of changes of all counts, and a fraction of
    the steps changes it by at most that fraction.

    Parameters
    ----------
    tables : sequence of SealedCounts
        The counts.
    expected : sequence of int arrays
        Expected counts; public.
    weights, penalties : sequence of int
        Weight and penalty of each table, as in the formula above; public.
    """
    for table, model in zip(tables, expected, strict=True):
        _require_same_shape(table, model)
    scores = [
        weight * (int(np.abs(unseal(table) - model).sum()) - penalty)
        for table, model, weight, penalty in zip(tables, expected, weights, penalties, strict=True)
    ]
    each = [t.sensitivity.merged().times(w) for t, w in zip(tables, weights, strict=True)]
    moved = max(each, key=lambda sensitivity: sensitivity.most)
    part = reduce(DataPart.common, (table.part for table in tables))
    return SealedScores.of(
        np.array(scores, np.int64), moved, part, monotone=False,
        each=np.array([sensitivity.most for sensitivity in each]),
    )  # fmt: skip


def _require_same_shape(table: SealedCounts, model: Integers) -> None:
    """Raise `SealedError` if NumPy would broadcast, round or overflow."""
    if model.shape != table.shape or model.dtype != np.int64:
        raise SealedError(
            f"expected counts are {model.dtype} of shape {model.shape}, but the counts are "
            f"int64 of shape {table.shape}; both must agree."
        )
    if float(np.abs(model.astype(np.float64)).sum()) >= _MOST_EXPECTED:
        raise SealedError("the expected counts sum to more rows than any table has.")


@dataclass(frozen=True)
class TopChoices(Mechanism):
    """Selection of k candidates with high scores, one after the other, each for `epsilon`.

    The privacy loss of the exponential mechanism has a range of at most epsilon, so it is
    (epsilon**2 / 8)-zCDP (Cesar and Rogers 2021), and mu-GDP with mu**2 = pi/8 epsilon**2
    (``gaussian_dp.md``). Permute-and-flip has a wider range; its rho is epsilon**2 / 2.

    Parameters
    ----------
    epsilon : Fraction
        Cost of one selection.
    k : int
        Number of selections.
    rule : {"exponential", "permute-and-flip"}
        See `Noise.choose`.
    exclusive_groups : sequence
        Public group of each candidate. Selecting a candidate removes its whole group from later
        selections; this reveals nothing more, since earlier selections are public. Selecting a
        candidate beyond its end stops. The cost is that of k selections even then.
    """

    epsilon: Fraction
    k: int = 1
    rule: Rule = "exponential"
    exclusive_groups: Sequence[Hashable] | None = None

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return k times the cost of one selection."""
        epsilon, square = self.k * self.epsilon, self.k * self.epsilon**2
        if self.rule == "permute-and-flip":
            return PrivacyCost(epsilon, rho=square / 2)
        return PrivacyCost(epsilon, rho=square / 8, mu_squared=CHOICE_FACTOR * square)

    def draw(self, exact: Scores, noise: Noise) -> list[int]:
        """Return the positions of the selected candidates."""
        if not isinstance(exact, Scores):
            raise SealedError("selection needs scores with proven sensitivity, such as distances.")
        values = np.asarray(exact.values, np.int64)
        alike = range(len(values)) if self.exclusive_groups is None else self.exclusive_groups
        left, chosen = np.arange(len(values)), list[int]()
        while len(chosen) < self.k and len(left):
            at = noise.choose(
                values[left],
                epsilon=self.epsilon,
                sensitivity=Fraction(exact.most),
                monotone=exact.monotone,
                rule=self.rule,
            )
            place = int(left[at])
            if place >= len(alike):
                break
            chosen.append(place)
            if len(chosen) < self.k:
                left = left[[i >= len(alike) or alike[i] != alike[place] for i in left.tolist()]]
        return chosen


# Private cuts of a histogram near its middle, for degree sequences of graphs.
#
# The proof is in ``methods/degrees/degrees.md``.


@dataclass(frozen=True)
class HistogramCuts(Mechanism):
    """Cuts of runs of a histogram in two, near their middle.

    A cut of a run has the weight exp(rate * min(counts on its left, on its right)). Changing one
    count by 1 changes the scores of one run in one direction, by at most 1, so all cuts together
    cost at most the rate for each step (lemma 5). This does not use parallel composition.
    """

    runs: tuple[tuple[int, int], ...]  # first position and end of each run; a run of one is not cut
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
