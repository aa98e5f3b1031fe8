"""The second stage of quilt: a spanning forest of column pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushtable.methods.quilt.believing import learn
from hushtable.methods.quilt.candidates import Offer, offers_of
from hushtable.methods.quilt.meter import Meter, as_share, sensitivity
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import Patchwork, Round, measure, settle
from hushtable.methods.quilt.schedule import Schedule


def forest(
    meter: Meter,
    quilt: Patchwork,
    stages: Schedule,
    groups: Sequence[Group],
    *,
    target: int | None,
    preferred: int | None,
) -> None:
    """Select pairs that connect columns, measure them, and fit."""
    std = edge_std(meter, stages)
    pairs = _first_pairs(quilt, groups, std, preferred)
    edges = _choose_edges(meter, pairs, stages, target)
    if not edges:
        return
    # Without rounds, the forest takes the remaining budget.
    share = stages.edge(len(edges)) * len(edges) if stages.n_rounds else 1.0
    measured = measure(meter, quilt, "tables of the forest", edges, share)
    if quilt.belief is not None:
        # These errors are those of the prior: record them to estimate errors in unmeasured pairs.
        quilt.rounds.append(
            Round(
                choice_epsilon=meter.purse.choice_epsilon(as_share(stages.choice)),
                sensitivity=sensitivity([pair.scored for pair in pairs], meter.purse.reach),
                offers=pairs,
                chosen=[at for edge in edges for at, pair in enumerate(pairs) if pair is edge],
                measured=measured,
            )
        )
    learn(quilt, std)
    quilt.field.learn_order()
    settle(quilt.field)


def edge_std(meter: Meter, stages: Schedule) -> float:
    """Return the noise of a table of the forest if all its edges are measured."""
    return meter.purse.count_noise(as_share(stages.forest / stages.n_edges)).std


def _first_pairs(
    quilt: Patchwork, groups: Sequence[Group], std: float, preferred: int | None
) -> list[Offer]:
    """Return each pair as a candidate, predicted by the prior or else by independence."""
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
    """Select pairs until all columns are connected, there are enough, or stopping is selected.

    The first pair includes the target, so that even a small budget connects it.
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
            [offer.scored for offer in offered],
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
