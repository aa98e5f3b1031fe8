"""The stages of quilt: one-way tables, a spanning forest of pairs, adaptive rounds.

A run spends its budget on noisy tables in three stages, and fits a log-linear model to them
(`hushtable.methods.quilt.field`):

1. *One-way tables.* Each column is counted and measured. Its noisy counts determine which values
are
   rare; these are merged into buckets, and all later tables count buckets. The model starts from
   independent columns.
2. *Spanning forest.* Pairs of columns are selected one after the other, each joining columns that
   are not connected yet, by their distance from independence. Then all of them are measured.
3. *Adaptive rounds.* In each round, the tables that the model fits worst are selected and measured,
   and the model is refitted. If most of them changed the model by less than their noise, later
   tables get twice the budget. The last round takes what is left.

Privacy: only the `Meter` sees exact counts. It releases noisy tables and private selections, each
paid first. All decisions here (buckets, candidates, penalties, shares, stopping) are functions of
earlier outputs, so they are post-processing, and the filter of the `Purse` bounds the cost of such
an adaptive sequence of queries (``quilt.md``).

Rationale: one table of all columns would be mostly noise, and there are too many pairs to measure
all. A spanning forest is the best model for its number of pairs, and it is selected without a fit,
so it comes first and makes the model good enough to show what is missing. Selection costs budget,
too: a selection gets much less than a table, and several tables are selected between two fits.
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
"""Number of waves whose mean noise determines the resolution of pairs in a series."""

ALONE = 0.35
"""Share of the usual budget of one-way tables if all pairs are measured, which contain them."""

PATIENCE = 3
"""Multiple of the usual sweeps in last fits of a series, whose noise is smaller."""

_FOR_DISTANCE = 2 / 3  # power that minimizes the total absolute noise
_N_SMOOTHINGS = 3  # smoothing steps of the last fit


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
    """Run all stages; measurements of earlier waves replace the spanning forest.

    Parameters
    ----------
    meter : Meter
        Source of noisy tables and selections.
    values : sequence of Values
        How each column is counted.
    stages_for : callable
        Returns the schedule for a public or noisy number of rows.
    public_rows : int or None
        The number of rows, if it is public.
    target : int or None
        Index of the column to predict.
    n_particles, seed : int
        Parameters of the model.
    prior : PriorRows, optional
        Public rows to start from.
    carried : Carried, optional
        Measurements of earlier waves.
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
    """Start the model from the one-way tables."""
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
    """Fit the measurements of earlier waves."""
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
    """Measure all pairs with the remaining budget if they are few; nothing is spent on selection.

    Their resolution is the one that is best after some more waves.
    """
    std = meter.purse.count_noise(as_share(float(meter.purse.left) / len(groups))).std
    offers = offers_of(
        groups, quilt.field.answers(groups), quilt.ladders, std / AFTER_WAVES**0.5, None
    )
    finest = {offer.patch.group: offer for offer in offers}  # the last offer of each group
    measure(meter, quilt, "tables of all pairs", list(finest.values()), 1.0, power=_FOR_DISTANCE)
    quilt.field.fit()
