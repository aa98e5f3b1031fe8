"""Private choices among sealed scores; the draws are those of `Noise.choose`.

A score is worth what is proved of it, so methods do not make scores: they ask for one of those
here (or in ``class_scores.py``, ``regions.py``, ``cuts.py``), which know how far one unit moves
them. What a choice pays is its epsilon, and how sharp it is follows from that and from the scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import SealedError
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Seal, Sealed, inside
from hushtable.privacy.selection import Rule
from hushtable.privacy.spending import Part, Price, Sensitivity

_MOST_EXPECTED = 2.0**61
"""Distances from less than this stay below 2**62, with as many rows as there can be."""


class Scores(NamedTuple):
    """Hold the scores of public candidates, how far one unit moves any, and whether one way."""

    values: NDArray[np.int64] | list[int]
    most: int
    monotone: bool


class SealedScores(Seal):
    """Hold scores of candidates, sealed; which candidates there are is public."""

    __slots__ = ("n_candidates",)

    def __init__(self, inside: Scores, sensitivity: Sensitivity, part: Part) -> None:
        super().__init__(inside, sensitivity, part)
        self.n_candidates = len(inside.values)

    @classmethod
    def of(
        cls,
        values: NDArray[np.int64] | list[int],
        sensitivity: Sensitivity,
        part: Part,
        *,
        monotone: bool,
    ) -> SealedScores:
        """Seal scores of which one unit moves each by at most ``sensitivity.most``."""
        return cls(Scores(values, sensitivity.most, monotone), sensitivity, part)


def distance_scores(
    tables: Sequence[Sealed],
    expected: Sequence[NDArray[np.int64]],
    *,
    weights: Sequence[int],
    penalties: Sequence[int],
    beside: Sequence[int] = (),
) -> SealedScores:
    """Score tables by how far they are from what is expected of them.

    A score is weight * (sum over cells of abs(count - expected) - penalty). Whatever is expected, a
    distance moves by at most as much as all counts together, and part of the steps by that part.

    Parameters
    ----------
    tables : sequence of Sealed
        The counts.
    expected : sequence of int arrays
        What is expected of them; public.
    weights, penalties : sequence of int
        Public.
    beside : sequence of int
        Scores of further candidates that are public altogether, such as stopping.
    """
    for table, model in zip(tables, expected, strict=True):
        _require_alike(table, model)
    scores = [
        weight * (int(np.abs(inside(table) - model).sum()) - penalty)
        for table, model, weight, penalty in zip(tables, expected, weights, penalties, strict=True)
    ]
    reach = max(
        (t.sensitivity.merged().times(w) for t, w in zip(tables, weights, strict=True)),
        key=lambda sensitivity: sensitivity.most,
    )
    part = tables[0].part
    for table in tables[1:]:
        part = part.common(table.part)
    return SealedScores.of([*scores, *beside], reach, part, monotone=False)


def _require_alike(table: Sealed, model: NDArray[np.int64]) -> None:
    """Refuse what NumPy would spread over several, round, or take beyond what an int64 holds."""
    if model.shape != table.shape or model.dtype != np.int64:
        raise SealedError(
            f"what is expected is {model.dtype} of shape {model.shape}, and the counts are int64 "
            f"of shape {table.shape}; each count is compared with one number."
        )
    if float(np.abs(model.astype(np.float64)).sum()) >= _MOST_EXPECTED:
        raise SealedError("more rows are expected than anybody has.")


@dataclass(frozen=True)
class TopChoices(Mechanism):
    """Choose k candidates of high score, one after the other, each for `epsilon`.

    The exponential mechanism has a privacy loss that spans at most epsilon, so it is epsilon**2 /
    8-zCDP (Cesar and Rogers 2021), and mu-GDP with pi/8 epsilon**2 for mu**2 (``gaussian_dp.md``).
    Permute-and-flip spans more and has what epsilon alone gives.

    Parameters
    ----------
    epsilon : Fraction
        What one choice costs.
    k : int
        How many are chosen.
    rule : {"exponential", "permute-and-flip"}
        See `Noise.choose`.
    alike : tuple
        Something public for each candidate: one that is chosen leaves with all that have the same.
        Candidates beyond them stand for stopping. Every choice is made among what earlier ones,
        which are public by then, have left; where they end early, all k are paid for all the same.
    """

    epsilon: Fraction
    k: int = 1
    rule: Rule = "exponential"
    alike: tuple[Hashable, ...] | None = None

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give k times the price of one choice."""
        epsilon, square = self.k * self.epsilon, self.k * self.epsilon**2
        if self.rule == "permute-and-flip":
            return Price(epsilon, rho=square / 2)
        return Price(epsilon, rho=square / 8, mu_squared=CHOICE_FACTOR * square)

    def draw(self, exact: Scores, noise: Noise) -> list[int]:
        """Give the places of the candidates that are chosen."""
        if not isinstance(exact, Scores):
            raise SealedError("only scores are chosen by; ask for those that are proved.")
        values = np.asarray(exact.values, np.int64)
        alike = range(len(values)) if self.alike is None else self.alike
        left, chosen = list(range(len(values))), list[int]()
        while len(chosen) < self.k and left:
            at = noise.choose(
                values[left],
                epsilon=self.epsilon,
                sensitivity=Fraction(exact.most),
                monotone=exact.monotone,
                rule=self.rule,
            )
            place = left[at]
            if place >= len(alike):
                break
            chosen.append(place)
            left = [i for i in left if i >= len(alike) or alike[i] != alike[place]]
        return chosen
