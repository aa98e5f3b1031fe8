"""The second stage of quilt: a spanning forest of column pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushtable.methods.quilt.believing import update_prior_weight
from hushtable.methods.quilt.budget import PrivateMeasurer, as_share, score_sensitivity
from hushtable.methods.quilt.candidates import Candidate, candidates_for
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import FitState, SelectionRound, measure, refit
from hushtable.methods.quilt.schedule import Schedule


def fit_tree(
    measurer: PrivateMeasurer,
    state: FitState,
    stages: Schedule,
    groups: Sequence[Group],
    *,
    target: int | None,
    preferred: int | None,
) -> None:
    """Select pairs that connect columns, measure them, and fit."""
    std = edge_std(measurer, stages)
    pairs = _first_pairs(state, groups, std, preferred)
    edges = _choose_edges(measurer, pairs, stages, target)
    if not edges:
        return
    # Without rounds, the forest takes the remaining budget.
    share = stages.edge(len(edges)) * len(edges) if stages.n_rounds else 1.0
    measured = measure(measurer, state, "tables of the forest", edges, share)
    if state.pair_prior is not None:
        # These errors are those of the prior: record them to estimate errors in unmeasured pairs.
        state.rounds.append(
            SelectionRound(
                choice_epsilon=measurer.budget.choice_epsilon(as_share(stages.choice)),
                sensitivity=score_sensitivity(
                    [pair.scored for pair in pairs], measurer.budget.rows_per_unit
                ),
                candidates=pairs,
                chosen=[at for edge in edges for at, pair in enumerate(pairs) if pair is edge],
                measured=measured,
            )
        )
    update_prior_weight(state, std)
    state.model.learn_order()
    refit(state.model)


def edge_std(measurer: PrivateMeasurer, stages: Schedule) -> float:
    """Return the noise of a table of the forest if all its edges are measured."""
    return measurer.budget.count_noise(as_share(stages.forest / stages.n_edges)).std


def _first_pairs(
    state: FitState, groups: Sequence[Group], std: float, preferred: int | None
) -> list[Candidate]:
    """Return each pair as a candidate, predicted by the prior or else by independence."""
    model = state.model
    pairs = [group for group in groups if len(group) == 2]
    if state.pair_prior is not None:
        return candidates_for(pairs, model.answers(pairs), state.levels, std, preferred)
    single = model.answers([(column,) for column in range(len(model.sizes))])
    shares = [answer / model.total for answer in single]
    expected = [np.outer(*(shares[c] for c in pair)) * model.total for pair in pairs]
    return candidates_for(pairs, expected, state.levels, std, preferred)


def _choose_edges(
    measurer: PrivateMeasurer, pairs: Sequence[Candidate], stages: Schedule, target: int | None
) -> list[Candidate]:
    """Select pairs until all columns are connected, there are enough, or stopping is selected.

    The first pair includes the target, so that even a small budget connects it.
    """
    tree_of = {column: column for pair in pairs for column in pair.query.group}
    edges: list[Candidate] = []
    while len(edges) < stages.n_edges:
        apart = [p for p in pairs if len({tree_of[column] for column in p.query.group}) > 1]
        of_target = [] if edges else [p for p in apart if target in p.query.group]
        offered = of_target or apart
        if not offered:
            break
        chosen = measurer.choose(
            "choices",
            [candidate.scored for candidate in offered],
            k=1,
            share=as_share(stages.choice),
            may_stop=not of_target,
        )
        if not chosen:
            break
        edges.append(offered[chosen[0]])
        kept, lost = (tree_of[column] for column in edges[-1].query.group)
        tree_of = {column: kept if tree == lost else tree for column, tree in tree_of.items()}
    return edges
