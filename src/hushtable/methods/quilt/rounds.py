"""The third stage of quilt: adaptive rounds that measure the tables the model fits worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushtable.arrays import Floats
from hushtable.methods.quilt.believing import update_prior_weight
from hushtable.methods.quilt.budget import PrivateMeasurer, as_share, score_sensitivity
from hushtable.methods.quilt.candidates import Candidate, candidates_for, noise_cost
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.patchwork import FitState, SelectionRound, measure
from hushtable.methods.quilt.schedule import Schedule

_DUST = 1e-6  # share of the budget that is too small to use


@dataclass
class _RoundBudget:
    """Budget of one table of the rounds, as shares."""

    choice: float  # for its selection
    table: float  # for its measurement

    @classmethod
    def planned(cls, stages: Schedule, left: float) -> _RoundBudget:
        """Divide what is left over all planned tables."""
        n_planned = stages.n_rounds * stages.n_picks
        return cls(stages.choice, max(left - stages.choice * n_planned, 0.0) / n_planned)

    def of_round(self, left: float, n_picks: int) -> tuple[int, float]:
        """Return the number of tables of a round and the share of each; the last takes the rest."""
        each = self.table + self.choice
        if left >= 1.5 * n_picks * each:
            return n_picks, each
        n_picks = min(max(1, round(left / each)), n_picks)
        return n_picks, left / n_picks

    def of_choice(self, each: float) -> Fraction:
        """Return the part of a table's share that pays for its selection."""
        return as_share(each * self.choice / (self.table + self.choice))

    def double(self) -> None:
        """Double the shares: fewer tables with less noise from now on."""
        self.choice, self.table = 2 * self.choice, 2 * self.table


def fit_adaptive(
    measurer: PrivateMeasurer,
    state: FitState,
    stages: Schedule,
    groups: Sequence[Group],
    target: int | None,
) -> None:
    """Select and measure the tables that the model fits worst, until the budget is spent."""
    model, budget = state.model, measurer.budget
    pace = _RoundBudget.planned(stages, float(budget.left))
    groups, until = list(groups), _pairs_until(stages) * float(budget.left)
    while (left := float(budget.left)) > _DUST:
        offered = _pairs_first(groups) if left > until else groups
        k, each = pace.of_round(left, min(stages.n_picks, len(offered)))
        of_choice = pace.of_choice(each)
        std = budget.count_noise(as_share(each) - of_choice).std
        candidates = candidates_for(offered, model.answers(offered), state.levels, std, target)
        scored = [candidate.scored for candidate in candidates]
        chosen = measurer.choose("choices", scored, k=k, share=of_choice)
        picked = [candidates[place] for place in chosen]
        share = each * k - float(of_choice) * k
        measured = measure(measurer, state, "tables of the rounds", picked, share)
        state.rounds.append(
            SelectionRound(
                choice_epsilon=budget.choice_epsilon(of_choice),
                sensitivity=score_sensitivity(scored, budget.rows_per_unit),
                candidates=candidates,
                chosen=chosen,
                measured=measured,
            )
        )
        update_prior_weight(state, std)
        model.fit()
        answers = model.answers([candidate.query.group for candidate in picked])
        vain = [candidate.query.group for candidate in _in_vain(picked, answers, std)]
        if 2 * len(vain) > k:
            pace.double()
            until = 1.0  # pairs show little more; admit triples
        # Do not measure such tables again, unless nothing else remains.
        others = [group for group in groups if group not in vain]
        groups = others or groups


def _pairs_until(stages: Schedule) -> float:
    """Return the share of the rounds' budget reserved for triples: a third, or the last round."""
    return max(0.35, 1.05 / stages.n_rounds)  # slightly more, for remainders of rounding


def _pairs_first(groups: Sequence[Group]) -> Sequence[Group]:
    """Leave out triples while there are pairs: a triple would displace the pairs in it."""
    return [group for group in groups if len(group) == 2] or groups


def _in_vain(
    candidates: Sequence[Candidate], after: Sequence[Floats], std: float
) -> list[Candidate]:
    """Return the tables that moved the model by no more than the cost of their noise."""
    found = []
    for candidate, table in zip(candidates, after, strict=True):
        now = candidate.query.added_up(table)
        if float(np.abs(now - candidate.expected).sum()) <= noise_cost(now, std):
            found.append(candidate)
    return found
