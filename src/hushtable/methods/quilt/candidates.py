"""Candidate tables for selection, with the public parts of their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushtable.arrays import Floats
from hushtable.methods.quilt.binning import MarginalQuery, ResolutionLevels, queries_for
from hushtable.methods.quilt.budget import ScoredTable
from hushtable.methods.quilt.particles import Group

PENALTY = 0.5
"""Cost of a table's noise, as a share of its expected absolute error."""

MAX_CELLS = 6000
"""Maximum number of cells of a group of columns, by buckets."""

WEIGHT, TARGET_PAIR, TARGET_TRIPLE = 10, 15, 13
"""Weight of a table's error, in tenths: more for tables with the target."""

SPOILED = 0.05
"""A coarser candidate is added if noise would displace more than this share of rows in a finer one.

Noise is measured by the expected sum of absolute errors (see `noise_cost`).
"""


@dataclass(frozen=True)
class Candidate:
    """A marginal query that may be selected, with the model's prediction."""

    query: MarginalQuery
    expected: Floats  # the model's count of each cell
    scored: ScoredTable


def groups_of(sizes: Sequence[int], target: int | None) -> list[Group]:
    """Return all pairs and, with a target, all triples with it, if they have few cells."""
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


def candidates_for(
    groups: Sequence[Group],
    expected: Sequence[Floats],
    levels: Sequence[ResolutionLevels],
    std: float,
    target: int | None,
) -> list[Candidate]:
    """Return candidates of each group, from the finest resolution to the first with little noise.

    `expected` are the model's counts by bucket, `std` is the noise standard deviation that a table
    would have, and tables with the `target` get more weight. `SPOILED` defines little noise.
    """
    made: list[Candidate] = []
    for group, table in zip(groups, expected, strict=True):
        for query in queries_for(group, levels):
            candidate = _candidate(query, query.added_up(table), std, target)
            made.append(candidate)
            if noise_cost(candidate.expected, std) < PENALTY * SPOILED * float(table.sum()):
                break
    return made


def _candidate(query: MarginalQuery, expected: Floats, std: float, target: int | None) -> Candidate:
    weight = WEIGHT
    if target in query.group:
        weight = TARGET_PAIR if len(query.group) == 2 else TARGET_TRIPLE
    scored = ScoredTable(
        query.group,
        np.rint(expected).astype(np.int64),
        round(noise_cost(expected, std)),
        weight,
        query.cells,
    )
    return Candidate(query, expected, scored)


def noise_cost(expected: Floats, std: float) -> float:
    """Return the cost of a table's noise in rows: `PENALTY` times the expected absolute error.

    In each cell, the standard deviation is limited to the expected count.
    """
    return PENALTY * math.sqrt(2 / math.pi) * float(np.minimum(std, np.maximum(expected, 0)).sum())
