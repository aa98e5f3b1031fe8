"""Weight of a prior during the fit, set before pairs are measured and updated after each stage.

All of this is post-processing of public rows and noisy tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushtable.arrays import Integers
from hushtable.methods.prior import Prior
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import FitState, refit
from hushtable.methods.quilt.prior_weight import PairPriorWeight, PriorRows


def apply_prior(state: FitState, prior: PriorRows, groups: Sequence[Group], std: float) -> None:
    """Fit the pair marginals of a prior, before any pair is measured.

    `std` is the noise of a pair's table if all edges of the spanning forest are measured.
    """
    buckets: list[Integers | None] = []
    for column, prior_weight in zip(state.columns, state.column_priors, strict=True):
        # The regularizer allows a variance of `std` per row; a prior with more would weigh less.
        known = prior_weight is not None and prior_weight.c <= std
        values = prior.values(column.counted.values) if known else None
        buckets.append(None if values is None else np.append(column.buckets, Prior.UNKNOWN)[values])
    if sum(places is not None for places in buckets) < 2:
        return
    state.pair_prior = PairPriorWeight(
        buckets,
        [column.masses for column in state.columns],
        state.model.total,
        state.prior_variance,
        groups,
    )
    _fit_prior(state, std)
    refit(state.model)


def _fit_prior(state: FitState, std: float) -> None:
    """Add the prior's pair marginals to the model, or update their weights."""
    model = state.model
    particle = model.total / len(model.rows)
    if state.pair_prior is not None:
        for group, counts in state.pair_prior.tables.items():
            model.add_prior(group, counts, state.pair_prior.stds(group, std, particle))


def update_prior_weight(state: FitState, std: float) -> None:
    """Re-estimate the prior variance from all measured pairs; drop a prior that explains little."""
    if state.pair_prior is None:
        return
    state.pair_prior.update(
        [
            (p.query, p.table.counts.astype(np.float64), p.table.noise.std)
            for p in state.measurements
        ]
    )
    state.prior_variance = state.pair_prior.c
    if state.pair_prior.is_useless:
        state.pair_prior = None
        state.model.drop_prior()
    else:
        _fit_prior(state, std)
