"""The stages of quilt: tables of one column, a forest of pairs, rounds of chosen tables.

Exact counts are seen by the `Meter` alone. All that happens here follows from what it let out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as default
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from hushtable.methods.quilt.domains import Floats, Integers, Values, shares_of
from hushtable.methods.quilt.field import N_LAST_SWEEPS, Field
from hushtable.methods.quilt.meter import (
    Candidate,
    Group,
    Measured,
    Meter,
    as_share,
    sensitivity,
)
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule, schedule

PENALTY = 0.5
"""What the noise of a table costs, in parts of its expected absolute error."""

MAX_CELLS = 6000
"""Larger tables are no candidates."""

WEIGHT, TARGET_PAIR, TARGET_TRIPLE = 10, 15, 13
"""How much the error of a table matters, in tenths: the target's tables more."""

_DUST = 1e-6  # a rest of the budget that buys nothing


@dataclass
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
    measured : list of Measured
        Their noisy tables.
    """

    choice_epsilon: Fraction
    sensitivity: int
    candidates: list[Candidate]
    chosen: list[int]
    answers: list[Floats]
    measured: list[Measured]

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
class Quilt:
    """What came out: tables, buckets, the field and the story of the choices."""

    total: float
    total_std: float
    one_ways: list[Measured]
    shares: list[Floats]  # of each counted value, from the noisy tables of one column
    buckets: list[Integers]
    field: Field
    groups: list[Measured] = default(default_factory=list)
    rounds: list[Round] = default(default_factory=list)


def sew(
    meter: Meter,
    values: Sequence[Values],
    *,
    public_rows: int | None,
    target: int | None,
    n_particles: int,
    seed: int,
) -> Quilt:
    """Run all stages."""
    columns = range(len(values))
    meter.read(
        [(column,) for column in columns],
        {v.name: v.recoding for v in values if v.recoding is not None},
    )
    rows = public_rows if public_rows is not None else meter.row_count(ROWS_SHARE).counts[0]
    plan = schedule(
        n_rows=float(rows), sizes=[v.size for v in values], total=float(meter.budget.total),
        pure=meter.budget.pure, reach=meter.budget.reach,
    )  # fmt: skip
    measured, buckets = _one_ways(meter, values, plan, target)
    quilt = _start(measured, buckets, public_rows, n_particles=n_particles, seed=seed)
    recode = {
        v.name: recoding
        for v, buckets in zip(values, quilt.buckets, strict=True)
        if (recoding := v.bucket_recoding(buckets)) is not None
    }
    preferred = target if plan.prefers_target else None
    candidates = _candidates(quilt.field.sizes, preferred)
    meter.read(candidates, recode)
    if candidates:
        _forest(meter, quilt, plan, candidates, target=target, preferred=preferred)
        _rounds(meter, quilt, plan, candidates, preferred)
    quilt.field.refresh()
    quilt.field.fit(N_LAST_SWEEPS)
    return quilt


def _candidates(sizes: Sequence[int], target: int | None) -> list[Group]:
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


def _one_ways(
    meter: Meter, values: Sequence[Values], plan: Schedule, target: int | None
) -> tuple[list[Measured], list[Integers]]:
    """Measure each column and merge its rare values."""
    share = min(plan.one_ways, float(meter.budget.left))
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
    measured: list[Measured],
    buckets: list[Integers],
    public_rows: int | None,
    *,
    n_particles: int,
    seed: int,
) -> Quilt:
    """Start the field from the tables of one column."""
    if public_rows is None:
        # Each table's sum estimates the number of rows; the best mean weighs by precision.
        precision = np.array([1 / (len(m.counts) * m.noise.std**2) for m in measured])
        sums = np.array([float(m.counts.sum()) for m in measured])
        total = float((precision * sums).sum() / precision.sum())
        total_std = float(precision.sum() ** -0.5)
    else:
        total, total_std = float(public_rows), 0.0
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
    return Quilt(total, total_std, measured, shares, buckets, model)


def _forest(
    meter: Meter,
    quilt: Quilt,
    plan: Schedule,
    groups: Sequence[Group],
    *,
    target: int | None,
    preferred: int | None,
) -> None:
    """Choose pairs that join columns not joined yet, measure them, fit.

    The first one is a pair with the target, so that even a small budget ties it to something.
    """
    model, budget = quilt.field, meter.budget
    share = as_share(plan.choice)
    typical = budget.count_noise(as_share(plan.forest / plan.n_edges)).std
    marginals = [
        answer / model.total for answer in model.answers([(c,) for c in range(len(model.sizes))])
    ]
    independent = [
        _candidate(group, np.outer(marginals[group[0]], marginals[group[1]]).ravel() * model.total,
                   typical, preferred)
        for group in groups
        if len(group) == 2
    ]  # fmt: skip
    of_column = list(range(len(model.sizes)))
    edges: list[Group] = []
    while len(edges) < plan.n_edges:
        open_pairs = [c for c in independent if of_column[c.group[0]] != of_column[c.group[1]]]
        of_target = [] if edges else [c for c in open_pairs if target in c.group]
        offered = of_target or open_pairs
        if not offered:
            break
        chosen = meter.choose("choices", offered, k=1, share=share, may_stop=not of_target)
        if not chosen:
            break
        edge = offered[chosen[0]].group
        edges.append(edge)
        kept, lost = of_column[edge[0]], of_column[edge[1]]
        of_column = [kept if part == lost else part for part in of_column]
    if not edges:
        return
    share_of_all = plan.edge(len(edges)) * len(edges)
    if not plan.n_rounds:  # nothing comes after: spend the rest
        share_of_all = 1.0
    _measure(meter, quilt, "tables of the forest", edges, share_of_all)
    for _ in range(3):
        model.sweep()
        model.refresh()
    model.fit()


def _rounds(
    meter: Meter, quilt: Quilt, plan: Schedule, groups: Sequence[Group], target: int | None
) -> None:
    """Choose what the model gets most wrong, a few tables at a time, until all is spent."""
    if not plan.n_rounds:
        return
    model, budget = quilt.field, meter.budget
    choice = plan.choice
    n_planned = plan.n_rounds * plan.n_picks
    share = max(float(budget.left) - choice * n_planned, 0.0) / n_planned
    while (left := float(budget.left)) > _DUST:
        k, each = min(plan.n_picks, len(groups)), share + choice
        if left < 1.5 * k * each:  # the last round takes what is left
            k = min(max(1, round(left / each)), k)
            each = left / k
        of_choice = as_share(each * choice / (share + choice))
        typical = budget.count_noise(as_share(each) - of_choice).std
        answers = model.answers(groups)
        candidates = [
            _candidate(group, answer.ravel(), typical, target)
            for group, answer in zip(groups, answers, strict=True)
        ]
        chosen = meter.choose("choices", candidates, k=k, share=of_choice)
        picked = [groups[place] for place in chosen]
        measured = _measure(
            meter, quilt, "tables of the rounds", picked, each * k - float(of_choice) * k
        )
        quilt.rounds.append(
            Round(
                budget.choice_epsilon(of_choice),
                sensitivity(candidates, budget.reach),
                candidates,
                chosen,
                [answers[place].ravel() for place in chosen],
                measured,
            )
        )
        model.fit()
        now = model.answers(picked)
        n_small = 0
        for place, answer in zip(chosen, now, strict=True):
            moved = float(np.abs(answer - answers[place]).sum())
            n_small += moved <= _noise_cost(answer.ravel(), typical)
        if 2 * n_small > k:  # most tables taught less than their noise: fewer, sharper ones
            share, choice = 2 * share, 2 * choice


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
    meter: Meter, quilt: Quilt, step: str, groups: Sequence[Group], share: float
) -> list[Measured]:
    """Measure tables for a share of the budget, or what is left of it, and add them."""
    share = min(share, float(meter.budget.left))
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
