"""Candidate tables for selection, with the public parts of their scores.

There are two kinds: pairs of columns (with a target also triples with it) by buckets or coarser,
and *interactions*: tables of three and more columns with few cells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushtable.arrays import Codes16, Floats
from hushtable.methods.quilt.binning import MarginalQuery, ResolutionLevels, queries_for
from hushtable.methods.quilt.budget import ScoredTable
from hushtable.methods.quilt.particles import Group, tables_of

PENALTY = 0.5
"""Cost of a table's noise, as a share of its expected absolute error."""

MAX_CELLS = {2: 40_000, 3: 6000}
"""Maximum number of cells of a pair, and of a larger group, by buckets."""

WEIGHT, TARGET_PAIR, TARGET_TRIPLE, WORKLOAD = 10, 15, 13, 20
"""Weight of a table's error, in tenths: more for tables with the target, or of the workload."""

MAX_DISPLACED = 0.05
"""A coarser candidate is added if noise would displace more than this share of rows in a finer one.

Noise is measured by the expected sum of absolute errors (see `noise_cost`).
"""


MAX_GROUPS = 2_500
"""Maximum number of groups of columns that are counted to find interactions."""

MAX_INTERACTION_CELLS = 1_000
"""Maximum number of cells of an interaction, at the resolution at which it is counted."""

MAX_FINE_CELLS = 1 << 18
"""Maximum number of combinations of buckets of an interaction, for the factors of the model."""

N_INTERACTION_CELLS = 8
"""Maximum number of cells of a column in an interaction, if it has such a resolution."""


MAX_NOISE = 0.5
"""Maximum expected absolute error of an interaction because of noise, as a share of the rows."""


@dataclass(frozen=True)
class Candidate:
    """A marginal query that may be selected, with the model's prediction."""

    query: MarginalQuery
    expected: Floats  # the model's count of each cell
    scored: ScoredTable


@dataclass(frozen=True)
class Preferences:
    """Tables that count more in selection."""

    target: int | None = None  # column to predict
    marginals: tuple[Group, ...] = ()  # groups of columns of the workload, in the schema's order

    def weight(self, group: Group) -> int:
        """Return the weight of a table of these columns."""
        if any(set(group) <= set(wanted) for wanted in self.marginals):
            return WORKLOAD
        if self.target in group:
            return TARGET_PAIR if len(group) == 2 else TARGET_TRIPLE
        return WEIGHT


NO_PREFERENCES = Preferences()


def groups_of(sizes: Sequence[int], preferences: Preferences = NO_PREFERENCES) -> list[Group]:
    """Return all pairs, all triples with a target, and larger marginals of a workload.

    Groups with many cells are left out.
    """
    pairs: list[Group] = list(combinations(range(len(sizes)), 2))
    larger = [group for group in preferences.marginals if len(group) > 2]
    if (target := preferences.target) is not None:
        larger += [tuple(sorted((*pair, target))) for pair in pairs if target not in pair]
    return [
        group
        for group in dict.fromkeys((*pairs, *larger))
        if math.prod(sizes[column] for column in group) <= MAX_CELLS[min(len(group), 3)]
        and all(sizes[column] > 1 for column in group)
    ]


def candidates_for(
    groups: Sequence[Group],
    expected: Sequence[Floats],
    levels: Sequence[ResolutionLevels],
    std: float,
    preferences: Preferences = NO_PREFERENCES,
) -> list[Candidate]:
    """Return candidates of each group, from the finest resolution to the first with little noise.

    `expected` are the model's counts by bucket, and `std` is the noise standard deviation that a
    table would have. `MAX_DISPLACED` defines little noise.
    """
    made: list[Candidate] = []
    for group, table in zip(groups, expected, strict=True):
        for query in queries_for(group, levels):
            candidate = _candidate(query, query.added_up(table), std, preferences.weight(group))
            made.append(candidate)
            if noise_cost(candidate.expected, std) < PENALTY * MAX_DISPLACED * float(table.sum()):
                break
    return made


def _candidate(
    query: MarginalQuery, expected: Floats, std: float, weight: int, cost: float = 0.0
) -> Candidate:
    scored = ScoredTable(
        query.group,
        np.rint(expected).astype(np.int64),
        round(cost + noise_cost(expected, std)),
        weight,
        query.cells,
        query.counted is not None,
    )
    return Candidate(query, expected, scored)


class Interactions:
    """Groups of three and more columns with few cells, and the resolution at which they count.

    Parameters
    ----------
    resolutions : sequence of ResolutionLevels
        The resolutions of each column.
    connected : set of tuples
        Pairs of columns that were measured. If there are too many groups, those with most of these
        pairs are kept.

    Attributes
    ----------
    base : list of int
        The level of each column at which groups are counted.
    groups : list of tuples
        The groups.
    """

    def __init__(
        self, resolutions: Sequence[ResolutionLevels], connected: Collection[Group]
    ) -> None:
        self.resolutions = resolutions
        self.base = [
            next(
                (i for i, cells in enumerate(levels) if cells.max() < N_INTERACTION_CELLS),
                len(levels) - 1,
            )
            for levels in resolutions
        ]
        self.maps = [levels[at] for levels, at in zip(resolutions, self.base, strict=True)]
        self.sizes = tuple(int(cells.max()) + 1 for cells in self.maps)
        self.groups: list[Group] = []
        usable = [column for column, size in enumerate(self.sizes) if size > 1]
        for n_columns in range(3, len(usable) + 1):
            if n_columns > 3 and math.comb(len(usable), n_columns) > MAX_GROUPS - len(self.groups):
                break
            found = [group for group in combinations(usable, n_columns) if self._is_small(group)]
            if len(found) > MAX_GROUPS:
                found.sort(key=lambda group: -sum(p in connected for p in combinations(group, 2)))
            self.groups += found[:MAX_GROUPS]
            if not found:
                break

    def _is_small(self, group: Group) -> bool:
        fine = math.prod(len(self.maps[column]) for column in group)
        cells = math.prod(self.sizes[column] for column in group)
        return cells <= MAX_INTERACTION_CELLS and fine <= MAX_FINE_CELLS

    def candidates(
        self, rows: Codes16, weights: Floats, n_rows: float, std: float
    ) -> list[Candidate]:
        """Return the candidates of all groups whose noise is small compared with the rows.

        `rows` are the particles of the model and `weights` their weights. Besides its noise, a
        table costs what a sample of `n_rows` rows and the particles would differ by chance.
        """
        coarse = np.stack([cells[rows[:, c]] for c, cells in enumerate(self.maps)], axis=1)
        expected = tables_of(coarse.astype(np.int16), weights, self.sizes, self.groups)
        chance = 2 / math.pi * (1 + n_rows / len(rows))
        made = []
        for group, table in zip(self.groups, expected, strict=True):
            for query in queries_for(group, self.resolutions, [self.base[c] for c in group]):
                counts = query.added_up(table)
                noise = noise_cost(counts, std) / PENALTY
                if noise < MAX_NOISE * n_rows:
                    drawn = np.minimum(np.sqrt(chance * counts), 2 * counts)
                    cost = (1 - PENALTY) * noise + float(drawn.sum())
                    made.append(_candidate(query, counts, std, WEIGHT, cost))
        return made


def noise_cost(expected: Floats, std: float) -> float:
    """Return the cost of a table's noise in rows: `PENALTY` times the expected absolute error.

    In each cell, the standard deviation is limited to the expected count.
    """
    return PENALTY * math.sqrt(2 / math.pi) * float(np.minimum(std, np.maximum(expected, 0)).sum())
