"""What may be measured next, and what it would be worth: all of it from public numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushtable.methods.quilt.domains import Floats
from hushtable.methods.quilt.meter import Candidate
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.resolutions import Ladder, Patch, patches_of

PENALTY = 0.5
"""What the noise of a table costs, in parts of its expected absolute error."""

MAX_CELLS = 6000
"""Tables with more cells of buckets are not counted."""

WEIGHT, TARGET_PAIR, TARGET_TRIPLE = 10, 15, 13
"""How much the error of a table matters, in tenths: the target's tables more."""

SPOILED = 0.05
"""A coarser table is offered where noise would cost the finer one more than this share of rows."""


@dataclass(frozen=True)
class Offer:
    """A patch that may be chosen, with what the model expects of it."""

    patch: Patch
    expected: Floats
    candidate: Candidate


def groups_of(sizes: Sequence[int], target: int | None) -> list[Group]:
    """List all pairs, and with a target all pairs with it, as far as they have few cells."""
    pairs: list[Group] = list(combinations(range(len(sizes)), 2))
    triples: list[Group] = []
    if target is not None:
        triples = [tuple(sorted((*pair, target))) for pair in pairs if target not in pair]
    return [
        group
        for group in (*pairs, *triples)
        if math.prod(sizes[column] for column in group) <= MAX_CELLS
        and all(sizes[column] > 1 for column in group)
    ]


def offers_of(
    groups: Sequence[Group],
    expected: Sequence[Floats],
    ladders: Sequence[Ladder],
    std: float,
    target: int | None,
) -> list[Offer]:
    """Offer each group at the resolutions that may be worth it, finest first.

    Parameters
    ----------
    groups : sequence of tuples
        The groups of columns.
    expected : sequence of arrays
        What the model expects of each, by buckets.
    ladders : sequence of Ladder
        The resolutions of all columns.
    std : float
        The noise that a table would have.
    target : int or None
        The column whose tables count more.
    """
    made: list[Offer] = []
    for group, table in zip(groups, expected, strict=True):
        for patch in patches_of(group, ladders):
            offer = _offer(patch, patch.added_up(table), std, target)
            made.append(offer)
            if noise_cost(offer.expected, std) < PENALTY * SPOILED * float(table.sum()):
                break
    return made


def _offer(patch: Patch, expected: Floats, std: float, target: int | None) -> Offer:
    weight = WEIGHT
    if target in patch.group:
        weight = TARGET_PAIR if len(patch.group) == 2 else TARGET_TRIPLE
    candidate = Candidate(
        patch.group,
        np.rint(expected).astype(np.int64),
        round(noise_cost(expected, std)),
        weight,
        patch.cells,
    )
    return Offer(patch, expected, candidate)


def noise_cost(expected: Floats, std: float) -> float:
    """Say what noise costs a table: nothing where the model expects nobody."""
    return PENALTY * math.sqrt(2 / math.pi) * float(np.minimum(std, np.maximum(expected, 0)).sum())
