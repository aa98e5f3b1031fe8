"""The stages of quilt: tables of one column, a forest of pairs, rounds of chosen tables.

What it does. It spends the budget of a run on noisy tables, in three stages, and fits a field to
them (`hushtable.methods.quilt.field`):

1. *Columns.* Each column is counted and measured. Its noisy counts decide which values are rare;
   they are merged into buckets, and all that follows counts buckets. The field starts from columns
   that are independent.
2. *The forest.* Pairs of columns are chosen one after the other, each joining columns that none has
   joined yet, by how far they are from independent. Then all of them are measured.
3. *Rounds.* In each, a few tables are chosen that the field gets most wrong; they are measured, and
   the field is fitted again. If most of them taught less than their noise, the next ones get twice
   as much. The last round takes what is left.

How it is private. Exact counts are seen by the `Meter` alone, which lets out noisy tables and
private choices and has each paid first. All that is decided here (buckets, candidates, penalties,
shares, when to stop) follows from what the meter let out before, so it is post-processing, and the
filter of the `Purse` bounds what an adaptive sequence of such questions can cost (``quilt.md``).

Why so. One table of all columns would be lost in noise, and tables of two columns are too many to
measure all. A forest is the best model that pairs alone can give for their number, and it needs no
fit to choose it: so it comes first and makes the field good enough to say what is still missing.
Choosing costs budget too, which is why a choice gets much less than a table, and why several tables
are chosen between two fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from hushtable.methods.quilt.domains import Floats, Integers, Values, shares_of
from hushtable.methods.quilt.field import N_LAST_SWEEPS, Field
from hushtable.methods.quilt.meter import Candidate, Meter, PaidTable, as_share, sensitivity
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule

PENALTY = 0.5
"""What the noise of a table costs, in parts of its expected absolute error."""

MAX_CELLS = 6000
"""Larger tables are no candidates."""

WEIGHT, TARGET_PAIR, TARGET_TRIPLE = 10, 15, 13
"""How much the error of a table matters, in tenths: the target's tables more."""

_DUST = 1e-6  # a rest of the budget that buys nothing
_N_SETTLING = 3  # times that particles are moved to where the forest is


@dataclass(frozen=True)
class Round:
    """What is public about one round of choices, for bounds on what was not chosen.

    Parameters
    ----------
    choice_epsilon : Fraction
        Epsilon of one choice.
    sensitivity : int
        Of the scores.
    candidates : list of Candidate
        What could be chosen.
    chosen : list of int
        Which of them were.
    answers : list of arrays
        What the model expected of the chosen ones before they were measured.
    measured : list of PaidTable
        Their noisy tables.
    """

    choice_epsilon: Fraction
    sensitivity: int
    candidates: list[Candidate]
    chosen: list[int]
    answers: list[Floats]
    measured: list[PaidTable]

    def plain(self) -> dict[str, Any]:
        """Give it as plain data."""
        missed = [m.counts - answer for m, answer in zip(self.measured, self.answers, strict=True)]
        return {
            "choice_epsilon": float(self.choice_epsilon),
            "sensitivity": self.sensitivity,
            "n_candidates": len(self.candidates),
            "chosen": [list(self.candidates[place].group) for place in self.chosen],
            "penalties": [self.candidates[place].penalty for place in self.chosen],
            "weights": [self.candidates[place].weight for place in self.chosen],
            "distances": [float(np.abs(gap).sum()) for gap in missed],
            "missed_squares": [float(np.dot(gap, gap)) for gap in missed],
            "expected_squares": [float(np.dot(answer, answer)) for answer in self.answers],
        }


@dataclass
class Patchwork:
    """What is sewn together: tables, buckets, the field and the story of the choices."""

    total: float
    total_std: float
    one_ways: list[PaidTable]
    shares: list[Floats]  # of each counted value, from the noisy tables of one column
    buckets: list[Integers]
    field: Field
    groups: list[PaidTable] = default(default_factory=list)
    rounds: list[Round] = default(default_factory=list)


def sew(
    meter: Meter,
    values: Sequence[Values],
    *,
    stages_for: Callable[[int], Schedule],
    public_rows: int | None,
    target: int | None,
    n_particles: int,
    seed: int,
) -> Patchwork:
    """Run all stages.

    Parameters
    ----------
    meter : Meter
        What lets out noisy tables and choices.
    values : sequence of Values
        How each column is counted.
    stages_for : callable
        How the budget is divided, given a number of rows that is public by then.
    public_rows : int or None
        The number of rows, where it is public.
    target : int or None
        The place of the column to be predicted.
    n_particles, seed : int
        For the field.
    """
    columns: list[Group] = [(column,) for column in range(len(values))]
    meter.read(columns, {v.name: v.recoding for v in values if v.recoding is not None})
    rows = public_rows if public_rows is not None else int(meter.row_count(ROWS_SHARE).counts[0])
    stages = stages_for(rows)
    one_ways, buckets = _one_ways(meter, values, stages, target)
    quilt = _start(one_ways, buckets, public_rows, n_particles=n_particles, seed=seed)
    preferred = target if stages.prefers_target else None
    groups = _groups(quilt.field.sizes, preferred)
    merging = {v.name: v.bucket_recoding(bucket) for v, bucket in zip(values, buckets, strict=True)}
    meter.read(groups, {name: rule for name, rule in merging.items() if rule is not None})
    if groups:
        _forest(meter, quilt, stages, groups, target=target, preferred=preferred)
    if groups and stages.n_rounds:
        _rounds(meter, quilt, stages, groups, preferred)
    quilt.field.refresh()
    quilt.field.fit(N_LAST_SWEEPS)
    return quilt


# --- columns --------------------------------------------------------------------------------------


def _one_ways(
    meter: Meter, values: Sequence[Values], stages: Schedule, target: int | None
) -> tuple[list[PaidTable], list[Integers]]:
    """Measure each column and merge its rare values."""
    share = min(stages.one_ways, float(meter.purse.left))
    measured = [
        meter.measure("tables of one column", (column,), part)
        for column, part in enumerate(divided(share, [v.size for v in values]))
    ]
    buckets = [
        v.buckets(m.counts, m.noise.std, is_target=column == target)
        for column, (v, m) in enumerate(zip(values, measured, strict=True))
    ]
    return measured, buckets


def _start(
    measured: list[PaidTable],
    buckets: list[Integers],
    public_rows: int | None,
    *,
    n_particles: int,
    seed: int,
) -> Patchwork:
    """Start the field from the tables of one column."""
    total, total_std = _total(measured) if public_rows is None else (float(public_rows), 0.0)
    whole = max(total, 1.0)
    shares = [
        shares_of(m.counts, bucket, whole) for m, bucket in zip(measured, buckets, strict=True)
    ]
    marginals = [
        np.bincount(bucket, share).astype(np.float64)
        for bucket, share in zip(buckets, shares, strict=True)
    ]
    model = Field(marginals, total=whole, n_particles=n_particles, seed=seed)
    for m, bucket in zip(measured, buckets, strict=True):
        noise_std = m.noise.std * np.sqrt(np.bincount(bucket))
        model.add(m.group, np.bincount(bucket, m.counts), noise_std)
    return Patchwork(total, total_std, measured, shares, buckets, model)


def _total(measured: Sequence[PaidTable]) -> tuple[float, float]:
    """Estimate the number of rows, and the error of that, from tables that all count them."""
    # Each table's sum estimates it; the best mean weighs by precision.
    precision = np.array([1 / (len(m.counts) * m.noise.std**2) for m in measured])
    sums = np.array([float(m.counts.sum()) for m in measured])
    return float((precision * sums).sum() / precision.sum()), float(precision.sum() ** -0.5)


# --- what may be measured -------------------------------------------------------------------------


def _groups(sizes: Sequence[int], target: int | None) -> list[Group]:
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


def _candidate(group: Group, expected: Floats, std: float, target: int | None) -> Candidate:
    weight = WEIGHT
    if target in group:
        weight = TARGET_PAIR if len(group) == 2 else TARGET_TRIPLE
    return Candidate(
        group, np.rint(expected).astype(np.int64), round(_noise_cost(expected, std)), weight
    )


def _noise_cost(expected: Floats, std: float) -> float:
    """Say what noise costs a table: nothing where the model expects nobody."""
    return PENALTY * math.sqrt(2 / math.pi) * float(np.minimum(std, np.maximum(expected, 0)).sum())


def _measure(
    meter: Meter, quilt: Patchwork, step: str, groups: Sequence[Group], share: float
) -> list[PaidTable]:
    """Measure tables for a share of the budget, or what is left of it, and add them."""
    share = min(share, float(meter.purse.left))
    sizes = [math.prod(quilt.field.sizes[column] for column in group) for group in groups]
    measured = [
        meter.measure(step, group, part)
        for group, part in zip(groups, divided(share, sizes), strict=True)
    ]
    for table in measured:
        quilt.field.add(table.group, table.counts, table.noise.std)
    quilt.groups += measured
    return measured


def divided(share: float, sizes: Sequence[int]) -> list[Fraction]:
    """Divide a share over tables in proportion to the roots of their sizes."""
    roots = np.sqrt(np.asarray(sizes, np.float64))
    # A little less than all: sums of floats must not exceed what is left.
    return [as_share(part) for part in share * (1 - 1e-9) * roots / roots.sum()]


# --- the forest -----------------------------------------------------------------------------------


def _forest(
    meter: Meter,
    quilt: Patchwork,
    stages: Schedule,
    groups: Sequence[Group],
    *,
    target: int | None,
    preferred: int | None,
) -> None:
    """Choose pairs that join columns not joined yet, measure them, fit."""
    std = meter.purse.count_noise(as_share(stages.forest / stages.n_edges)).std
    pairs = _independent_pairs(quilt.field, groups, std, preferred)
    edges = _choose_edges(meter, pairs, stages, target)
    if not edges:
        return
    # With no round to come, the forest takes the rest.
    share = stages.edge(len(edges)) * len(edges) if stages.n_rounds else 1.0
    _measure(meter, quilt, "tables of the forest", edges, share)
    for _ in range(_N_SETTLING):
        quilt.field.sweep()
        quilt.field.refresh()
    quilt.field.fit()


def _independent_pairs(
    model: Field, groups: Sequence[Group], std: float, preferred: int | None
) -> list[Candidate]:
    """Offer each pair by what it would be if its columns were independent."""
    single = model.answers([(column,) for column in range(len(model.sizes))])
    shares = [answer / model.total for answer in single]
    return [
        _candidate(
            group, np.outer(*(shares[c] for c in group)).ravel() * model.total, std, preferred
        )
        for group in groups
        if len(group) == 2
    ]


def _choose_edges(
    meter: Meter, pairs: Sequence[Candidate], stages: Schedule, target: int | None
) -> list[Group]:
    """Choose pairs until all columns are joined, there are enough, or stopping is chosen.

    The first one is a pair with the target, so that even a small budget ties it to something.
    """
    tree_of = {column: column for pair in pairs for column in pair.group}
    edges: list[Group] = []
    while len(edges) < stages.n_edges:
        apart = [p for p in pairs if tree_of[p.group[0]] != tree_of[p.group[1]]]
        of_target = [] if edges else [p for p in apart if target in p.group]
        offered = of_target or apart
        if not offered:
            break
        chosen = meter.choose(
            "choices", offered, k=1, share=as_share(stages.choice), may_stop=not of_target
        )
        if not chosen:
            break
        first, second = offered[chosen[0]].group
        edges.append((first, second))
        kept, lost = tree_of[first], tree_of[second]
        tree_of = {column: kept if tree == lost else tree for column, tree in tree_of.items()}
    return edges


# --- rounds ---------------------------------------------------------------------------------------


@dataclass
class _Pace:
    """Say what one table of the rounds gets, as shares of the budget."""

    choice: float  # for being chosen
    table: float  # for being measured

    @classmethod
    def planned(cls, stages: Schedule, left: float) -> _Pace:
        """Divide what is left over all tables that are planned."""
        n_planned = stages.n_rounds * stages.n_picks
        return cls(stages.choice, max(left - stages.choice * n_planned, 0.0) / n_planned)

    def of_round(self, left: float, n_picks: int) -> tuple[int, float]:
        """Give how many tables a round chooses and what each gets; the last takes what is left."""
        each = self.table + self.choice
        if left >= 1.5 * n_picks * each:
            return n_picks, each
        n_picks = min(max(1, round(left / each)), n_picks)
        return n_picks, left / n_picks

    def of_choice(self, each: float) -> Fraction:
        """Give the part of a table's share that its choice costs."""
        return as_share(each * self.choice / (self.table + self.choice))

    def double(self) -> None:
        """Take fewer, sharper tables from now on."""
        self.choice, self.table = 2 * self.choice, 2 * self.table


def _rounds(
    meter: Meter, quilt: Patchwork, stages: Schedule, groups: Sequence[Group], target: int | None
) -> None:
    """Choose what the model gets most wrong, a few tables at a time, until all is spent."""
    model, purse = quilt.field, meter.purse
    pace = _Pace.planned(stages, float(purse.left))
    while (left := float(purse.left)) > _DUST:
        k, each = pace.of_round(left, min(stages.n_picks, len(groups)))
        of_choice = pace.of_choice(each)
        std = purse.count_noise(as_share(each) - of_choice).std
        answers = model.answers(groups)
        candidates = [
            _candidate(group, answer.ravel(), std, target)
            for group, answer in zip(groups, answers, strict=True)
        ]
        chosen = meter.choose("choices", candidates, k=k, share=of_choice)
        picked, before = [groups[place] for place in chosen], [answers[place] for place in chosen]
        share = each * k - float(of_choice) * k
        measured = _measure(meter, quilt, "tables of the rounds", picked, share)
        quilt.rounds.append(
            Round(
                choice_epsilon=purse.choice_epsilon(of_choice),
                sensitivity=sensitivity(candidates, purse.reach),
                candidates=candidates,
                chosen=chosen,
                answers=[answer.ravel() for answer in before],
                measured=measured,
            )
        )
        model.fit()
        if 2 * _n_in_vain(before, model.answers(picked), std) > k:
            pace.double()


def _n_in_vain(before: Sequence[Floats], after: Sequence[Floats], std: float) -> int:
    """Count the tables that moved the model by no more than their noise costs."""
    return sum(
        float(np.abs(now - then).sum()) <= _noise_cost(now.ravel(), std)
        for then, now in zip(before, after, strict=True)
    )
