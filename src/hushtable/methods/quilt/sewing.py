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
from typing import Any

import numpy as np

from hushtable.methods.prior import Prior
from hushtable.methods.quilt.candidates import Offer, groups_of, noise_cost, offers_of
from hushtable.methods.quilt.carried import Carried
from hushtable.methods.quilt.columns import (
    CountedColumn,
    KnownColumn,
    estimated_total,
    known_column,
    measure_columns,
)
from hushtable.methods.quilt.cuts import planned_size
from hushtable.methods.quilt.domains import Floats, Integers, Values
from hushtable.methods.quilt.factors import dispersion
from hushtable.methods.quilt.field import N_LAST_SWEEPS, Field
from hushtable.methods.quilt.meter import Meter, PaidTable, as_share, sensitivity
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior import Belief, PairBelief, PriorRows, column_beliefs
from hushtable.methods.quilt.resolutions import Ladder, Patch
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule
from hushtable.recoding import Recoding

AFTER_WAVES = 16
"""How finely pairs are told apart in a series: as if noise were that of so many waves' mean."""

ALONE = 0.35
"""What single columns get where every pair is measured, which tell them too; of what else."""

PATIENCE = 3
"""Times as many sweeps as usual that last fits take in a series: its noise is less than theirs."""

_FOR_DISTANCE = 2 / 3  # the power for which noise adds up to the least absolute differences
_DUST = 1e-6  # a rest of the budget that buys nothing
_N_SETTLING = 3  # times that particles are moved to where the forest is
_N_SMOOTHINGS = 3  # times that what is fitted last is smoothed


@dataclass(frozen=True)
class Round:
    """What is public about one round of choices, for bounds on what was not chosen.

    Parameters
    ----------
    choice_epsilon : Fraction
        Epsilon of one choice.
    sensitivity : int
        Of the scores.
    offers : list of Offer
        What could be chosen.
    chosen : list of int
        Which of them were.
    measured : list of PaidTable
        Their noisy tables.
    """

    choice_epsilon: Fraction
    sensitivity: int
    offers: list[Offer]
    chosen: list[int]
    measured: list[PaidTable]

    def plain(self) -> dict[str, Any]:
        """Give it as plain data."""
        offers = [self.offers[place] for place in self.chosen]
        missed = [m.counts - o.expected for m, o in zip(self.measured, offers, strict=True)]
        return {
            "choice_epsilon": float(self.choice_epsilon),
            "sensitivity": self.sensitivity,
            "n_candidates": len(self.offers),
            "chosen": [list(offer.patch.group) for offer in offers],
            "levels": [list(offer.patch.levels) for offer in offers],
            "penalties": [offer.candidate.penalty for offer in offers],
            "weights": [offer.candidate.weight for offer in offers],
            "distances": [float(np.abs(gap).sum()) for gap in missed],
            "missed_squares": [float(np.dot(gap, gap)) for gap in missed],
            "expected_squares": [float(np.dot(o.expected, o.expected)) for o in offers],
        }


@dataclass(frozen=True)
class Piece:
    """A patch that was measured."""

    patch: Patch
    table: PaidTable


@dataclass
class Patchwork:
    """What is sewn together: tables, buckets, the field and the story of the choices."""

    total: float
    total_std: float
    columns: list[KnownColumn]
    field: Field
    pieces: list[Piece] = default(default_factory=list)
    rounds: list[Round] = default(default_factory=list)
    belief: PairBelief | None = None  # what a prior says about pairs, while it is believed
    beliefs: list[Belief | None] = default(default_factory=list)  # and about columns
    doubt: float = math.inf  # the last that was learned about it
    carried: Carried | None = None  # what earlier waves measured

    @property
    def tables(self) -> list[PaidTable]:
        """All noisy tables that were paid for, those of one column first."""
        single = [column.counted.table for column in self.columns]
        cuts = [table for column in self.columns for table, _ in column.counted.cuts]
        return [*single, *cuts, *(piece.table for piece in self.pieces)]

    @property
    def ladders(self) -> list[Ladder]:
        """The resolutions of all columns."""
        return [column.ladder for column in self.columns]

    def merging(self) -> dict[str, Recoding]:
        """Give the recodings from codes of the schema to buckets, where they differ."""
        found = {}
        for column in self.columns:
            values = column.counted.values
            recoding = values.bucket_recoding(column.buckets)
            if recoding is not None:
                found[values.name] = recoding
        return found


def sew(
    meter: Meter,
    values: Sequence[Values],
    *,
    stages_for: Callable[[int], Schedule],
    public_rows: int | None,
    target: int | None,
    n_particles: int,
    seed: int,
    prior: PriorRows | None = None,
    carried: Carried | None = None,
) -> Patchwork:
    """Run all stages; with pairs of earlier waves the forest is there already.

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
    prior : PriorRows, optional
        Public rows to start from.
    carried : Carried, optional
        What earlier waves measured.
    """
    columns: list[Group] = [(column,) for column in range(len(values))]
    meter.read(columns, {v.name: v.recoding for v in values if v.recoding is not None})
    rows = public_rows if public_rows is not None else int(meter.row_count(ROWS_SHARE).counts[0])
    stages = stages_for(rows)
    every_pair = carried is not None and bool(carried.patches) and stages.every_pair
    share = min(stages.one_ways * (ALONE if every_pair else 1.0), float(meter.purse.left))
    size_of = planned_size if prior is None else prior.wanted_size
    counted = measure_columns(meter, values, divided(share, [size_of(v) for v in values]))
    if carried is not None:
        carried = carried.doubted(
            [column.table.counts.astype(np.float64) for column in counted],
            [column.table.noise.std for column in counted],
        )
    quilt = _start(counted, public_rows, target, prior, carried, n_particles=n_particles, seed=seed)
    preferred = target if stages.prefers_target else None
    groups = groups_of(quilt.field.sizes, preferred)
    meter.read(groups, quilt.merging())
    if groups and prior is not None:
        _believe(quilt, prior, groups, _edge_std(meter, stages))
    if carried is not None and carried.patches:
        _carry(quilt, carried)
    elif groups:
        _forest(meter, quilt, stages, groups, target=target, preferred=preferred)
    if every_pair and groups:
        _every_pair(meter, quilt, groups)
    elif groups and stages.n_rounds:
        _rounds(meter, quilt, stages, groups, preferred)
    quilt.field.learn_order()
    quilt.field.refresh()
    for _ in range(_N_SMOOTHINGS):
        quilt.field.smooth()
        quilt.field.fit(quilt.field.patience * N_LAST_SWEEPS // _N_SMOOTHINGS)
    return quilt


# --- columns --------------------------------------------------------------------------------------


def _start(
    columns: list[CountedColumn],
    public_rows: int | None,
    target: int | None,
    prior: PriorRows | None,
    carried: Carried | None,
    *,
    n_particles: int,
    seed: int,
) -> Patchwork:
    """Start the field from the tables of one column."""
    exact = (float(public_rows), 0.0) if public_rows is not None else None
    total, total_std = exact or estimated_total(columns, carried)
    whole = max(total, 1.0)
    beliefs: list[Belief | None] = [None] * len(columns)
    doubt = math.inf
    if prior is not None:
        beliefs, doubt = column_beliefs(
            prior,
            [column.values for column in columns],
            [column.table.counts.astype(np.float64) for column in columns],
            [column.table.noise.std for column in columns],
            whole,
        )
    kept = carried.columns if carried is not None else [None] * len(columns)
    known = [
        known_column(
            column,
            whole,
            is_target=place == target,
            belief=beliefs[place] if here is None else here.belief,
            carried=here,
        )
        for place, (column, here) in enumerate(zip(columns, kept, strict=True))
    ]
    model = Field(
        [column.masses for column in known],
        total=whole,
        n_particles=n_particles,
        seed=seed,
        lines=[column.line for column in known],
        patience=1 if carried is None else PATIENCE,
    )
    for place, column in enumerate(known):
        model.add((place,), column.counts, column.std)
    return Patchwork(total, total_std, known, model, beliefs=beliefs, doubt=doubt, carried=carried)


# --- the prior ------------------------------------------------------------------------------------


def _believe(quilt: Patchwork, prior: PriorRows, groups: Sequence[Group], std: float) -> None:
    """Fit what a prior says about pairs, before any of them was measured."""
    buckets: list[Integers | None] = []
    for column, belief in zip(quilt.columns, quilt.beliefs, strict=True):
        # Beyond that, what is believed would weigh less than what is not.
        known = belief is not None and belief.c <= std
        values = prior.values(column.counted.values) if known else None
        buckets.append(None if values is None else np.append(column.buckets, Prior.UNKNOWN)[values])
    if sum(places is not None for places in buckets) < 2:
        return
    quilt.belief = PairBelief(
        buckets,
        [column.masses for column in quilt.columns],
        quilt.field.total,
        quilt.doubt,
        groups,
    )
    _lay(quilt, std)
    _settle(quilt.field)


def _lay(quilt: Patchwork, std: float) -> None:
    """Have the field fit what is believed, as far as it is."""
    model = quilt.field
    particle = model.total / len(model.rows)
    if quilt.belief is not None:
        for group, counts in quilt.belief.tables.items():
            model.believe(group, counts, quilt.belief.stds(group, std, particle))


def _learn(quilt: Patchwork, std: float) -> None:
    """Learn from all pairs that were measured how far the prior is to be believed."""
    if quilt.belief is None:
        return
    quilt.belief.learn(
        [(p.patch, p.table.counts.astype(np.float64), p.table.noise.std) for p in quilt.pieces]
    )
    quilt.doubt = quilt.belief.c
    if quilt.belief.is_useless:
        quilt.belief = None
        quilt.field.disbelieve()
    else:
        _lay(quilt, std)


# --- earlier waves --------------------------------------------------------------------------------


def _carry(quilt: Patchwork, carried: Carried) -> None:
    """Have the field fit what earlier waves measured."""
    model = quilt.field
    shares = [column.masses / column.masses.sum() for column in quilt.columns]
    for patch in carried.patches:
        factors = model.add(patch.group, patch.counts, patch.std, patch.maps)
        independent = np.full((), model.total)
        for column, places in zip(patch.group, patch.maps, strict=True):
            independent = np.multiply.outer(independent, np.bincount(places, shares[column]))
        std = float(np.sqrt(np.mean(patch.std**2)))
        factors.strength = _strength(patch.counts, independent.ravel(), std)
    model.learn_order()
    _settle(model)


def _every_pair(meter: Meter, quilt: Patchwork, groups: Sequence[Group]) -> None:
    """Measure all pairs with what is left, where they are few: nothing is spent on choosing.

    They are told apart as finely as is worth it after some more waves.
    """
    std = meter.purse.count_noise(as_share(float(meter.purse.left) / len(groups))).std
    offers = offers_of(
        groups, quilt.field.answers(groups), quilt.ladders, std / AFTER_WAVES**0.5, None
    )
    finest = {offer.patch.group: offer for offer in offers}  # of several, the last one stays
    _measure(meter, quilt, "tables of all pairs", list(finest.values()), 1.0, power=_FOR_DISTANCE)
    quilt.field.fit()


def _settle(model: Field) -> None:
    """Move the particles to where new tables are."""
    for _ in range(_N_SETTLING):
        model.sweep()
        model.refresh()
    model.fit()


# --- measuring ------------------------------------------------------------------------------------


def _measure(
    meter: Meter,
    quilt: Patchwork,
    step: str,
    offers: Sequence[Offer],
    share: float,
    *,
    power: float = 0.5,
) -> list[PaidTable]:
    """Measure tables for a share of the budget, or what is left of it, and add them."""
    share = min(share, float(meter.purse.left))
    parts = divided(share, [offer.patch.n_cells for offer in offers], power)
    measured = [
        meter.measure(step, offer.patch.group, part, offer.patch.cells)
        for offer, part in zip(offers, parts, strict=True)
    ]
    for offer, table in zip(offers, measured, strict=True):
        patch, std = offer.patch, table.noise.std
        is_new = not any(old.is_of(patch.group, patch.maps) for old in quilt.field.tables)
        factors = quilt.field.add(patch.group, table.counts, std, patch.maps)
        if is_new:
            factors.strength = _strength(table.counts.astype(np.float64), offer.expected, std)
        quilt.pieces.append(Piece(patch, table))
    return measured


def _strength(counts: Floats, expected: Floats, std: float) -> float:
    """Hold a table back less where it says more than noise would; few cells say little."""
    few = len(counts) / (len(counts) + 20)
    return float((std / dispersion(counts, expected, std)) ** (0.5 * few))


def divided(share: float, sizes: Sequence[float], power: float = 0.5) -> list[Fraction]:
    """Divide a share over tables in proportion to the roots, or a power, of their sizes."""
    roots = np.asarray(sizes, np.float64) ** power
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
    std = _edge_std(meter, stages)
    pairs = _first_pairs(quilt, groups, std, preferred)
    edges = _choose_edges(meter, pairs, stages, target)
    if not edges:
        return
    # With no round to come, the forest takes the rest.
    share = stages.edge(len(edges)) * len(edges) if stages.n_rounds else 1.0
    measured = _measure(meter, quilt, "tables of the forest", edges, share)
    if quilt.belief is not None:
        # What was missed then was missed by the prior: errors of others are told from it.
        quilt.rounds.append(
            Round(
                choice_epsilon=meter.purse.choice_epsilon(as_share(stages.choice)),
                sensitivity=sensitivity([pair.candidate for pair in pairs], meter.purse.reach),
                offers=pairs,
                chosen=[at for edge in edges for at, pair in enumerate(pairs) if pair is edge],
                measured=measured,
            )
        )
    _learn(quilt, std)
    quilt.field.learn_order()
    _settle(quilt.field)


def _edge_std(meter: Meter, stages: Schedule) -> float:
    """Give the noise of a table of the forest, if all its edges are measured."""
    return meter.purse.count_noise(as_share(stages.forest / stages.n_edges)).std


def _first_pairs(
    quilt: Patchwork, groups: Sequence[Group], std: float, preferred: int | None
) -> list[Offer]:
    """Offer each pair by what a prior says, or by independent columns where there is none."""
    model = quilt.field
    pairs = [group for group in groups if len(group) == 2]
    if quilt.belief is not None:
        return offers_of(pairs, model.answers(pairs), quilt.ladders, std, preferred)
    single = model.answers([(column,) for column in range(len(model.sizes))])
    shares = [answer / model.total for answer in single]
    expected = [np.outer(*(shares[c] for c in pair)) * model.total for pair in pairs]
    return offers_of(pairs, expected, quilt.ladders, std, preferred)


def _choose_edges(
    meter: Meter, pairs: Sequence[Offer], stages: Schedule, target: int | None
) -> list[Offer]:
    """Choose pairs until all columns are joined, there are enough, or stopping is chosen.

    The first one is a pair with the target, so that even a small budget ties it to something.
    """
    tree_of = {column: column for pair in pairs for column in pair.patch.group}
    edges: list[Offer] = []
    while len(edges) < stages.n_edges:
        apart = [p for p in pairs if len({tree_of[column] for column in p.patch.group}) > 1]
        of_target = [] if edges else [p for p in apart if target in p.patch.group]
        offered = of_target or apart
        if not offered:
            break
        chosen = meter.choose(
            "choices",
            [offer.candidate for offer in offered],
            k=1,
            share=as_share(stages.choice),
            may_stop=not of_target,
        )
        if not chosen:
            break
        edges.append(offered[chosen[0]])
        kept, lost = (tree_of[column] for column in edges[-1].patch.group)
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
    groups, until = list(groups), _pairs_until(stages) * float(purse.left)
    while (left := float(purse.left)) > _DUST:
        offered = _pairs_first(groups) if left > until else groups
        k, each = pace.of_round(left, min(stages.n_picks, len(offered)))
        of_choice = pace.of_choice(each)
        std = purse.count_noise(as_share(each) - of_choice).std
        offers = offers_of(offered, model.answers(offered), quilt.ladders, std, target)
        candidates = [offer.candidate for offer in offers]
        chosen = meter.choose("choices", candidates, k=k, share=of_choice)
        picked = [offers[place] for place in chosen]
        share = each * k - float(of_choice) * k
        measured = _measure(meter, quilt, "tables of the rounds", picked, share)
        quilt.rounds.append(
            Round(
                choice_epsilon=purse.choice_epsilon(of_choice),
                sensitivity=sensitivity(candidates, purse.reach),
                offers=offers,
                chosen=chosen,
                measured=measured,
            )
        )
        _learn(quilt, std)
        model.fit()
        answers = model.answers([offer.patch.group for offer in picked])
        vain = [offer.patch.group for offer in _in_vain(picked, answers, std)]
        if 2 * len(vain) > k:
            pace.double()
            until = 1.0  # what pairs do not tell, triples may
        # What taught nothing is not measured again, as long as something else may be.
        others = [group for group in groups if group not in vain]
        groups = others or groups


def _pairs_until(stages: Schedule) -> float:
    """Say how much of the rounds' budget is left for triples: a third, and the last round."""
    return max(0.35, 1.05 / stages.n_rounds)  # a little more, for what rounding leaves


def _pairs_first(groups: Sequence[Group]) -> Sequence[Group]:
    """Leave triples out while there are pairs: a triple would stand in for those that it holds."""
    return [group for group in groups if len(group) == 2] or groups


def _in_vain(offers: Sequence[Offer], after: Sequence[Floats], std: float) -> list[Offer]:
    """List the tables that moved the model by no more than their noise costs."""
    found = []
    for offer, table in zip(offers, after, strict=True):
        now = offer.patch.added_up(table)
        if float(np.abs(now - offer.expected).sum()) <= noise_cost(now, std):
            found.append(offer)
    return found
