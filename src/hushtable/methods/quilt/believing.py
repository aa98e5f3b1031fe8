"""Weight of a prior during the fit, set before pairs are measured and updated after each stage.

All of this is post-processing of public rows and noisy tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushtable.methods.prior import Prior
from hushtable.methods.quilt.domains import Integers
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import Patchwork, settle
from hushtable.methods.quilt.prior import PairBelief, PriorRows


def believe(quilt: Patchwork, prior: PriorRows, groups: Sequence[Group], std: float) -> None:
    """Fit the pair marginals of a prior, before any pair is measured.

    `std` is the noise of a pair's table if all edges of the spanning forest are measured.
    """
    buckets: list[Integers | None] = []
    for column, belief in zip(quilt.columns, quilt.beliefs, strict=True):
        # The regularizer allows a variance of `std` per row; a prior with more would weigh less.
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
    settle(quilt.field)


def _lay(quilt: Patchwork, std: float) -> None:
    """Add the prior's pair marginals to the model, or update their weights."""
    model = quilt.field
    particle = model.total / len(model.rows)
    if quilt.belief is not None:
        for group, counts in quilt.belief.tables.items():
            model.believe(group, counts, quilt.belief.stds(group, std, particle))


def learn(quilt: Patchwork, std: float) -> None:
    """Re-estimate the prior variance from all measured pairs; drop a prior that explains little."""
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
