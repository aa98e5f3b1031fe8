"""The stages of quilt: one-way tables, a spanning forest of pairs, adaptive rounds.

A run spends its budget on noisy tables in three stages, and fits a log-linear model to them
(`hushtable.methods.quilt.model`):

1. *One-way tables.* Each column is counted and measured. Its noisy counts determine which values
are
   rare; these are merged into buckets, and all later tables count buckets. The model starts from
   independent columns.
2. *Spanning forest.* Pairs of columns are selected one after the other, each joining columns that
   are not connected yet, by their distance from independence. Then all of them are measured.
3. *Adaptive rounds.* In each round, the tables that the model fits worst are selected and measured,
   and the model is refitted. If most of them changed the model by less than their noise, later
   tables get twice the budget. The last round takes what is left.

Privacy: only the `PrivateMeasurer` sees exact counts. It releases noisy tables and private
selections, each paid first. All decisions here (buckets, candidates, penalties, shares, stopping)
are functions of earlier outputs, so they are post-processing, and the filter of the `BudgetFilter`
bounds the cost of such an adaptive sequence of queries (``quilt.md``).

Rationale: one table of all columns would be mostly noise, and there are too many pairs to measure
all. A spanning forest is the best model for its number of pairs, and it is selected without a fit,
so it comes first and makes the model good enough to show what is missing. Selection costs budget,
too: a selection gets much less than a table, and several tables are selected between two fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hushtable.methods.quilt.believing import apply_prior
from hushtable.methods.quilt.binning import CountedDomain, planned_size
from hushtable.methods.quilt.budget import PrivateMeasurer, as_share
from hushtable.methods.quilt.candidates import candidates_for, groups_of
from hushtable.methods.quilt.carried import EarlierMeasurements
from hushtable.methods.quilt.forest import edge_std, fit_tree
from hushtable.methods.quilt.model import N_LAST_SWEEPS, LogLinearModel
from hushtable.methods.quilt.one_way import (
    MeasuredColumn,
    estimated_total,
    measure_columns,
    one_way_model,
)
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import FitState, divided, measure, refit, strength
from hushtable.methods.quilt.prior_weight import PriorRows, PriorWeight, column_prior_weights
from hushtable.methods.quilt.rounds import fit_adaptive
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule

AFTER_WAVES = 16
"""Number of waves whose mean noise determines the resolution of pairs in a series."""

ALONE = 0.35
"""Share of the usual budget of one-way tables if all pairs are measured, which contain them."""

PATIENCE = 3
"""Multiple of the usual sweeps in last fits of a series, whose noise is smaller."""

_FOR_DISTANCE = 2 / 3  # power that minimizes the total absolute noise
_N_SMOOTHINGS = 3  # smoothing steps of the last fit


def fit(
    measurer: PrivateMeasurer,
    values: Sequence[CountedDomain],
    *,
    stages_for: Callable[[int], Schedule],
    public_rows: int | None,
    target: int | None,
    n_particles: int,
    seed: int,
    prior: PriorRows | None = None,
    earlier: EarlierMeasurements | None = None,
) -> FitState:
    """Run all stages; measurements of earlier waves replace the spanning forest.

    Parameters
    ----------
    measurer : PrivateMeasurer
        Source of noisy tables and selections.
    values : sequence of CountedDomain
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
    earlier : EarlierMeasurements, optional
        Measurements of earlier waves.
    """
    columns: list[Group] = [(column,) for column in range(len(values))]
    measurer.read(columns, {v.name: v.recoding for v in values if v.recoding is not None})
    rows = public_rows if public_rows is not None else int(measurer.row_count(ROWS_SHARE).counts[0])
    stages = stages_for(rows)
    every_pair = earlier is not None and bool(earlier.marginals) and stages.every_pair
    share = min(stages.one_ways * (ALONE if every_pair else 1.0), float(measurer.budget.left))
    size_of = planned_size if prior is None else prior.wanted_size
    counted = measure_columns(measurer, values, divided(share, [size_of(v) for v in values]))
    if earlier is not None:
        earlier = earlier.with_drift(
            [column.table.counts.astype(np.float64) for column in counted],
            [column.table.noise.std for column in counted],
        )
    state = _start(counted, public_rows, target, prior, earlier, n_particles=n_particles, seed=seed)
    preferred = target if stages.prefers_target else None
    groups = groups_of(state.model.sizes, preferred)
    measurer.read(groups, state.merging())
    if groups and prior is not None:
        apply_prior(state, prior, groups, edge_std(measurer, stages))
    if earlier is not None and earlier.marginals:
        _use_earlier(state, earlier)
    elif groups:
        fit_tree(measurer, state, stages, groups, target=target, preferred=preferred)
    if every_pair and groups:
        _every_pair(measurer, state, groups)
    elif groups and stages.n_rounds:
        fit_adaptive(measurer, state, stages, groups, preferred)
    state.model.learn_order()
    state.model.refresh()
    for _ in range(_N_SMOOTHINGS):
        state.model.smooth()
        state.model.fit(state.model.patience * N_LAST_SWEEPS // _N_SMOOTHINGS)
    return state


# --- columns --------------------------------------------------------------------------------------


def _start(
    columns: list[MeasuredColumn],
    public_rows: int | None,
    target: int | None,
    prior: PriorRows | None,
    earlier: EarlierMeasurements | None,
    *,
    n_particles: int,
    seed: int,
) -> FitState:
    """Start the model from the one-way tables."""
    exact = (float(public_rows), 0.0) if public_rows is not None else None
    total, total_std = exact or estimated_total(columns, earlier)
    whole = max(total, 1.0)
    beliefs: list[PriorWeight | None] = [None] * len(columns)
    doubt = math.inf
    if prior is not None:
        beliefs, doubt = column_prior_weights(
            prior,
            [column.values for column in columns],
            [column.table.counts.astype(np.float64) for column in columns],
            [column.table.noise.std for column in columns],
            whole,
        )
    kept = earlier.columns if earlier is not None else [None] * len(columns)
    known = [
        one_way_model(
            column,
            whole,
            is_target=place == target,
            prior_weight=beliefs[place] if here is None else here.prior,
            earlier=here,
        )
        for place, (column, here) in enumerate(zip(columns, kept, strict=True))
    ]
    model = LogLinearModel(
        [column.masses for column in known],
        total=whole,
        n_particles=n_particles,
        seed=seed,
        lines=[column.line for column in known],
        patience=1 if earlier is None else PATIENCE,
    )
    for place, column in enumerate(known):
        model.add((place,), column.counts, column.std)
    return FitState(
        total, total_std, known, model, column_priors=beliefs, prior_variance=doubt, earlier=earlier
    )


# --- earlier waves --------------------------------------------------------------------------------


def _use_earlier(state: FitState, earlier: EarlierMeasurements) -> None:
    """Fit the measurements of earlier waves."""
    model = state.model
    shares = [column.masses / column.masses.sum() for column in state.columns]
    for query in earlier.marginals:
        factors = model.add(query.group, query.counts, query.std, query.maps)
        independent = np.full((), model.total)
        for column, places in zip(query.group, query.maps, strict=True):
            independent = np.multiply.outer(independent, np.bincount(places, shares[column]))
        std = float(np.sqrt(np.mean(query.std**2)))
        factors.strength = strength(query.counts, independent.ravel(), std)
    model.learn_order()
    refit(model)


def _every_pair(measurer: PrivateMeasurer, state: FitState, groups: Sequence[Group]) -> None:
    """Measure all pairs with the remaining budget if they are few; nothing is spent on selection.

    Their resolution is the one that is best after some more waves.
    """
    std = measurer.budget.count_noise(as_share(float(measurer.budget.left) / len(groups))).std
    candidates = candidates_for(
        groups, state.model.answers(groups), state.levels, std / AFTER_WAVES**0.5, None
    )
    finest = {
        candidate.query.group: candidate for candidate in candidates
    }  # the last offer of each group
    measure(measurer, state, "tables of all pairs", list(finest.values()), 1.0, power=_FOR_DISTANCE)
    state.model.fit()
