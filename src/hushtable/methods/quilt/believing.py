"""How far a prior is believed while a quilt is sewn: at first, and as tables bear it out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushtable.methods.prior import Prior
from hushtable.methods.quilt.domains import Integers
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import Patchwork, settle
from hushtable.methods.quilt.prior import PairBelief, PriorRows


def believe(quilt: Patchwork, prior: PriorRows, groups: Sequence[Group], std: float) -> None:
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
    settle(quilt.field)


def _lay(quilt: Patchwork, std: float) -> None:
    """Have the field fit what is believed, as far as it is."""
    model = quilt.field
    particle = model.total / len(model.rows)
    if quilt.belief is not None:
        for group, counts in quilt.belief.tables.items():
            model.believe(group, counts, quilt.belief.stds(group, std, particle))


def learn(quilt: Patchwork, std: float) -> None:
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
