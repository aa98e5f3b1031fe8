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

import numpy as np

from hushtable.methods.quilt.believing import believe
from hushtable.methods.quilt.candidates import groups_of, offers_of
from hushtable.methods.quilt.carried import Carried
from hushtable.methods.quilt.columns import (
    CountedColumn,
    estimated_total,
    known_column,
    measure_columns,
)
from hushtable.methods.quilt.cuts import planned_size
from hushtable.methods.quilt.domains import Values
from hushtable.methods.quilt.field import N_LAST_SWEEPS, Field
from hushtable.methods.quilt.forest import edge_std, forest
from hushtable.methods.quilt.meter import Meter, as_share
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import Patchwork, divided, measure, settle, strength
from hushtable.methods.quilt.prior import Belief, PriorRows, column_beliefs
from hushtable.methods.quilt.rounds import make_rounds
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule

AFTER_WAVES = 16
"""How finely pairs are told apart in a series: as if noise were that of so many waves' mean."""

ALONE = 0.35
"""What single columns get where every pair is measured, which tell them too; of what else."""

PATIENCE = 3
"""Times as many sweeps as usual that last fits take in a series: its noise is less than theirs."""

_FOR_DISTANCE = 2 / 3  # the power for which noise adds up to the least absolute differences
_N_SMOOTHINGS = 3  # times that what is fitted last is smoothed


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
        believe(quilt, prior, groups, edge_std(meter, stages))
    if carried is not None and carried.patches:
        _carry(quilt, carried)
    elif groups:
        forest(meter, quilt, stages, groups, target=target, preferred=preferred)
    if every_pair and groups:
        _every_pair(meter, quilt, groups)
    elif groups and stages.n_rounds:
        make_rounds(meter, quilt, stages, groups, preferred)
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
        factors.strength = strength(patch.counts, independent.ravel(), std)
    model.learn_order()
    settle(model)


def _every_pair(meter: Meter, quilt: Patchwork, groups: Sequence[Group]) -> None:
    """Measure all pairs with what is left, where they are few: nothing is spent on choosing.

    They are told apart as finely as is worth it after some more waves.
    """
    std = meter.purse.count_noise(as_share(float(meter.purse.left) / len(groups))).std
    offers = offers_of(
        groups, quilt.field.answers(groups), quilt.ladders, std / AFTER_WAVES**0.5, None
    )
    finest = {offer.patch.group: offer for offer in offers}  # of several, the last one stays
    measure(meter, quilt, "tables of all pairs", list(finest.values()), 1.0, power=_FOR_DISTANCE)
    quilt.field.fit()
