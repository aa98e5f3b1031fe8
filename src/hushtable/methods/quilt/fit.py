"""The stages of quilt: one-way tables, a spanning forest of pairs, adaptive rounds.

`fit` spends the budget of a run on noisy tables in three stages, and fits a log-linear model to
them (`hushtable.methods.quilt.model`). The result is a `FitState`: the noisy tables and the model.

1. *One-way tables* (`measure_columns`, `_start`). Each column is counted and measured. Its noisy
   counts determine which values are rare; these are merged into buckets, and all later tables
   count buckets. The model starts from independent columns.
2. *Spanning forest* (`fit_tree`). Pairs of columns are selected one after the other, each joining
   columns that are not connected yet, by their distance from independence. Then all of them are
   measured.
3. *Adaptive rounds* (`fit_adaptive`). In each round, the tables that the model fits worst are
   selected and measured, and the model is refitted. If most of them changed the model by less than
   their noise, later tables get twice the budget. The last round takes what is left. Before the
   last rounds, tables of three and more columns are searched for what pairs do not show
   (`find_interactions`).

Privacy: only the `PrivateMeasurer` sees exact counts. It releases noisy tables and private
selections, and the account of the run records the cost of each before it is drawn. All decisions
here (buckets, candidates, penalties, shares, stopping) are functions of earlier outputs, so they
are post-processing, and the account bounds the cost of such an adaptive sequence of queries
(``quilt.md``).

Rationale: one table of all columns would be mostly noise, and there are too many pairs to measure
all. A spanning forest is the best model for its number of pairs, and it is selected without a fit,
so it comes first and makes the model good enough to show what is missing. Selection costs budget,
too: a selection gets much less than a table, and several tables are selected between two fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.methods.prior import Prior
from hushtable.methods.quilt.binning import CountedDomain, MarginalQuery, ResolutionLevels
from hushtable.methods.quilt.budget import (
    ROWS_SHARE,
    BudgetShares,
    NoisyTable,
    PrivateMeasurer,
    Schedule,
    as_share,
    score_sensitivity,
)
from hushtable.methods.quilt.candidates import (
    Candidate,
    Interactions,
    Preferences,
    candidates_for,
    groups_of,
    noise_cost,
)
from hushtable.methods.quilt.model import N_LAST_SWEEPS, LogLinearModel, dispersion
from hushtable.methods.quilt.one_way import (
    MeasuredColumn,
    OneWayModel,
    estimated_total,
    measure_columns,
    one_way_model,
)
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior_weight import (
    EarlierMeasurements,
    PairPriorWeight,
    PriorRows,
    PriorWeight,
    column_prior_weights,
)
from hushtable.schema.recoding import Recoding

if TYPE_CHECKING:
    from hushtable.methods.quilt.workload import MeasuredSums

# State of the fit: noisy tables, buckets, the model, and the record of selections.

_N_REFITS = 3  # refreshes of the particles after new tables


@dataclass(frozen=True)
class SelectionRound:
    """Public record of one selection round; it bounds errors of unselected tables."""

    choice_epsilon: Fraction  # epsilon of one selection
    sensitivity: int  # of the scores
    candidates: list[Candidate]  # the candidates
    chosen: list[int]  # indices of the selected ones
    measured: list[NoisyTable]  # their noisy tables

    def plain(self) -> dict[str, Any]:
        """Return the record as plain data."""
        candidates = [self.candidates[place] for place in self.chosen]
        missed = [m.counts - o.expected for m, o in zip(self.measured, candidates, strict=True)]
        return {
            "selection_epsilon": float(self.choice_epsilon),
            "sensitivity": self.sensitivity,
            "n_candidates": len(self.candidates),
            "selected": [list(candidate.query.group) for candidate in candidates],
            "levels": [list(candidate.query.levels) for candidate in candidates],
            "penalties": [candidate.scored.penalty for candidate in candidates],
            "weights": [candidate.scored.weight for candidate in candidates],
            "absolute_errors": [float(np.abs(gap).sum()) for gap in missed],
            "squared_errors": [float(np.dot(gap, gap)) for gap in missed],
            "squared_predictions": [float(np.dot(o.expected, o.expected)) for o in candidates],
        }


@dataclass(frozen=True)
class Measurement:
    """A marginal query that was measured."""

    query: MarginalQuery
    table: NoisyTable


@dataclass
class FitState:
    """State of the fit: noisy tables, buckets, the model and the selection rounds."""

    total: float
    total_std: float
    columns: list[OneWayModel]
    model: LogLinearModel
    measurements: list[Measurement] = default(default_factory=list)
    rounds: list[SelectionRound] = default(default_factory=list)
    pair_prior: PairPriorWeight | None = None  # pair marginals of a prior, unless it was dropped
    column_priors: list[PriorWeight | None] = default(default_factory=list)  # of one-way marginals
    prior_variance: float = math.inf  # latest estimate of its prior variance per row
    earlier: EarlierMeasurements | None = None  # measurements of earlier waves
    sums: list[MeasuredSums] = default(default_factory=list)  # of the workload

    @property
    def tables(self) -> list[NoisyTable]:
        """All noisy tables of columns that were measured in this run, one-way tables first."""
        single = [column.counted.table for column in self.columns]
        cuts = [table for column in self.columns for table, _ in column.counted.cuts]
        return [*single, *cuts, *(measurement.table for measurement in self.measurements)]

    @property
    def levels(self) -> list[ResolutionLevels]:
        """The resolutions of all columns in pairs, and in triples with a target."""
        return [column.pair_levels for column in self.columns]

    def record(
        self,
        budget: BudgetShares,
        share: Fraction,
        candidates: list[Candidate],
        chosen: list[int],
        measured: list[NoisyTable],
    ) -> None:
        """Record a selection round; `share` paid for each selection."""
        scored = [candidate.scored for candidate in candidates]
        sensitivity = score_sensitivity(scored, budget.rows_per_unit)
        epsilon = budget.choice_epsilon(share)
        self.rounds.append(SelectionRound(epsilon, sensitivity, candidates, chosen, measured))

    def merging(self, maps: Sequence[Integers] | None = None) -> dict[str, Recoding]:
        """Return the recodings from codes of the schema to buckets, where they differ.

        With `maps`, return those to coarser cells; it gives the cell of each bucket, by column.
        """
        found = {}
        for place, column in enumerate(self.columns):
            values = column.counted.values
            cells = column.buckets if maps is None else maps[place][column.buckets]
            recoding = values.bucket_recoding(cells)
            if recoding is not None:
                found[values.name] = recoding
        return found


def measure(
    measurer: PrivateMeasurer,
    state: FitState,
    step: str,
    candidates: Sequence[Candidate],
    share: float,
    *,
    power: float = 0.5,
) -> list[NoisyTable]:
    """Measure tables for a share of the budget, at most what is left; add them to the model.

    Each table gets a part in proportion to its number of cells to the `power`.
    """
    share = min(share, float(measurer.budget.left))
    parts = divided(share, [candidate.query.n_cells for candidate in candidates], power)
    measured = []
    for candidate, part in zip(candidates, parts, strict=True):
        query, coarse = candidate.query, candidate.scored.coarse
        table = measurer.measure(step, query.group, part, query.cells, coarse=coarse)
        measured.append(table)
        std = table.noise.std
        is_new = not any(old.is_of(query.group, query.maps) for old in state.model.tables)
        factors = state.model.add(query.group, table.counts, std, query.maps)
        if is_new:
            factors.strength = strength(table.counts.astype(np.float64), candidate.expected, std)
        state.measurements.append(Measurement(query, table))
    return measured


def strength(counts: Floats, expected: Floats, std: float) -> float:
    """Return the relative strength of a table's regularizer.

    The larger the differences between `counts` and `expected`, the smaller it is (`dispersion`).
    For tables with few cells, it is close to 1.
    """
    few = len(counts) / (len(counts) + 20)
    return float((std / dispersion(counts, expected, std)) ** (0.5 * few))


def divided(share: float, sizes: Sequence[float], power: float = 0.5) -> list[Fraction]:
    """Divide a share over tables in proportion to a power of their sizes."""
    roots = np.asarray(sizes, np.float64) ** power
    # Slightly less than the share: rounding in sums must not exceed what is left.
    return [as_share(part) for part in share * (1 - 1e-9) * roots / roots.sum()]


def refit(model: LogLinearModel) -> None:
    """Adapt the particles to new tables, and fit."""
    for _ in range(_N_REFITS):
        model.sweep()
        model.refresh()
    model.fit()


# Weight of a prior during the fit, set before pairs are measured and updated after each stage.
#
# All of this is post-processing of public rows and noisy tables.


def apply_prior(state: FitState, prior: PriorRows, groups: Sequence[Group], std: float) -> None:
    """Fit the pair marginals of a prior, before any pair is measured.

    `std` is the noise standard deviation of a pair's table if all edges of the spanning forest are
    measured. Columns whose prior variance is too large are left out.
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


# The second stage of quilt: a spanning forest of column pairs.


def fit_tree(
    measurer: PrivateMeasurer,
    state: FitState,
    stages: Schedule,
    groups: Sequence[Group],
    *,
    target: int | None,
    preferred: Preferences,
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
        chosen = [at for edge in edges for at, pair in enumerate(pairs) if pair is edge]
        state.record(measurer.budget, as_share(stages.choice), pairs, chosen, measured)
    update_prior_weight(state, std)
    state.model.learn_order()
    refit(state.model)


def edge_std(measurer: PrivateMeasurer, stages: Schedule) -> float:
    """Return the noise standard deviation of a forest's table if all its edges are measured."""
    return measurer.budget.count_noise(as_share(stages.forest / stages.n_edges)).std


def _first_pairs(
    state: FitState, groups: Sequence[Group], std: float, preferred: Preferences
) -> list[Candidate]:
    """Return each pair as a candidate, predicted by the prior and the rules, or by independence."""
    model = state.model
    pairs = [group for group in groups if len(group) == 2]
    if state.pair_prior is not None or model.possible:
        return candidates_for(pairs, model.answers(pairs), state.levels, std, preferred)
    single = model.answers([(column,) for column in range(len(model.sizes))])
    shares = [answer / model.total for answer in single]
    expected = [np.outer(*(shares[c] for c in pair)) * model.total for pair in pairs]
    return candidates_for(pairs, expected, state.levels, std, preferred)


def _choose_edges(
    measurer: PrivateMeasurer, pairs: Sequence[Candidate], stages: Schedule, target: int | None
) -> list[Candidate]:
    """Select pairs until all columns are connected, `n_edges` are selected, or stopping is.

    If there is a target, the first pair includes it, so that even a small budget connects it.
    """
    scored = [pair.scored for pair in pairs]
    ends = np.array([pair.query.group for pair in pairs])
    tree_of = np.arange(ends.max(initial=0) + 1)
    edges: list[Candidate] = []
    while len(edges) < stages.n_edges:
        left, right = tree_of[ends].T
        apart = np.flatnonzero(left != right)
        of_target = apart[(ends[apart] == target).any(axis=1)] if not edges else apart[:0]
        offered = of_target if len(of_target) else apart
        if not len(offered):
            break
        chosen = measurer.choose(
            "choices",
            scored,
            k=1,
            share=as_share(stages.choice),
            offered=offered,
            stop=None if len(of_target) else 0,
        )
        if not chosen:
            break
        edges.append(pairs[chosen[0]])
        tree_of[tree_of == left[chosen[0]]] = right[chosen[0]]
    return edges


# The third stage of quilt: adaptive rounds that measure the tables the model fits worst.

_LEAST_SHARE = 1e-6  # share of the budget that is too small to use


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
        """Return a round's number of tables and the share of each; the last round takes all."""
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
    preferred: Preferences,
) -> None:
    """Select and measure the tables that the model fits worst, until the budget is spent."""
    model, budget = state.model, measurer.budget
    pace = _RoundBudget.planned(stages, float(budget.left))
    groups = list(groups)
    # About a third of the budget is reserved for triples, or that of the last round if it is more.
    until = max(0.35, 1.05 / stages.n_rounds) * float(budget.left)  # .05 for remainders of rounding
    searched = False
    while (left := float(budget.left)) > _LEAST_SHARE:
        if left <= until and not searched:
            searched = True
            find_interactions(measurer, state, pace)
            continue
        # While there are pairs, leave out triples: a triple would displace the pairs in it.
        pairs = [group for group in groups if len(group) == 2 and left > until]
        offered = pairs or groups
        k, each = pace.of_round(left, min(stages.n_picks, len(offered)))
        of_choice = pace.of_choice(each)
        std = budget.count_noise(as_share(each) - of_choice).std
        candidates = candidates_for(offered, model.answers(offered), state.levels, std, preferred)
        scored = [candidate.scored for candidate in candidates]
        chosen = measurer.choose("choices", scored, k=k, share=of_choice)
        picked = [candidates[place] for place in chosen]
        share = each * k - float(of_choice) * k
        measured = measure(measurer, state, "tables of the rounds", picked, share)
        state.record(budget, of_choice, candidates, chosen, measured)
        update_prior_weight(state, std)
        model.fit()
        answers = model.answers([candidate.query.group for candidate in picked])
        vain = [candidate.query.group for candidate in _in_vain(picked, answers, std)]
        if 2 * len(vain) > k:
            pace.double()
            until = 1.0  # pairs show little more; admit triples and interactions
        # Do not measure such tables again, unless nothing else remains.
        others = [group for group in groups if group not in vain]
        groups = others or groups


# Interactions: tables of three and more columns with few cells, where the model misses something.

_INTERACTION_PART = 0.6
"""Maximum share of the budget left that is spent on interactions."""

_INTERACTION_TABLES = 2.0
"""Budget of an interaction, in that of a table of the rounds."""

_N_AT_ONCE = 3  # interactions selected between two fits
_MAX_COUNTED = 10_000  # groups counted in all searches together, which bounds their time


def find_interactions(measurer: PrivateMeasurer, state: FitState, pace: _RoundBudget) -> None:
    """Select and measure interactions that the model misses, until none stands out.

    Stopping is an option of every selection. Its score is that at which candidates that miss
    nothing are selected with probability at most one half, all together.
    """
    model, budget = state.model, measurer.budget
    levels = [column.levels for column in state.columns]
    found = Interactions(levels, {m.query.group for m in state.measurements})
    if not found.groups:
        return
    measurer.read(found.groups, state.merging(found.maps), coarse=True)
    least = (1 - _INTERACTION_PART) * float(budget.left)
    each = min(_INTERACTION_TABLES * pace.table + pace.choice, (float(budget.left) - least) / 2)
    of_choice = pace.of_choice(each)
    table = each - float(of_choice)
    std = budget.count_noise(as_share(table)).std
    for _ in range(max(_MAX_COUNTED // len(found.groups), 1)):
        n_left = int((float(budget.left) - least) / each * (1 + 1e-6))
        candidates = found.candidates(model.rows, model.weights, model.total, std)
        if not candidates or not n_left:
            return
        n_at_once = min(_N_AT_ONCE, n_left)
        scored = [candidate.scored for candidate in candidates]
        sensitivity = score_sensitivity(scored, budget.rows_per_unit)
        factor = float(budget.choice_epsilon(of_choice)) / (2 * sensitivity)
        stop = math.ceil(math.log(len(scored)) / factor)
        chosen: list[int] = []
        offered = list(range(len(scored)))
        while offered and len(chosen) < n_at_once:
            pick = measurer.choose(
                "choices", scored, k=1, share=of_choice, offered=offered, stop=stop
            )
            if not pick:
                break
            chosen += pick
            group = set(scored[pick[0]].group)
            # What is missing in a group is also missing in every larger one.
            others = ((place, set(scored[place].group)) for place in offered)
            offered = [at for at, other in others if not (group <= other or group >= other)]
        if not chosen:
            return
        picked = [candidates[place] for place in chosen]
        measured = measure(measurer, state, "tables of interactions", picked, table * len(picked))
        state.record(budget, of_choice, candidates, chosen, measured)
        model.fit()
        if len(chosen) < n_at_once:
            return


def _in_vain(
    candidates: Sequence[Candidate], after: Sequence[Floats], std: float
) -> list[Candidate]:
    """Return the tables that moved the model by no more than the cost of their noise."""
    now = [
        candidate.query.added_up(table) for candidate, table in zip(candidates, after, strict=True)
    ]
    return [
        candidate
        for candidate, counts in zip(candidates, now, strict=True)
        if float(np.abs(counts - candidate.expected).sum()) <= noise_cost(counts, std)
    ]


AFTER_WAVES = 16
"""Number of waves over which noise is averaged when a series chooses the resolution of pairs."""

ALL_PAIRS_FACTOR = 0.35
"""Factor on the budget of one-way tables if all pairs are measured.

Pairs are also informative about single columns.
"""

SERIES_SWEEP_FACTOR = 3
"""Multiple of the usual number of sweeps in the last fits of a series, whose noise is smaller."""

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
    possible_in: Callable[[FitState], list[tuple[Group, NDArray[np.bool_]]]] = lambda _: [],
    marginals: tuple[Group, ...] = (),
    measure_workload: Callable[[FitState], list[MeasuredSums]] = lambda _: [],
) -> FitState:
    """Run all stages.

    Measurements of earlier waves replace the spanning forest. If the budget suffices to measure all
    pairs as well, this replaces the adaptive rounds.

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
    possible_in : callable
        Returns which combinations of buckets public rules allow; see `LogLinearModel.exclude`.
    marginals : tuple of groups
        Marginals that count more in selection.
    measure_workload : callable
        Measures the sums of a workload, after the one-way tables.
    """
    columns: list[Group] = [(column,) for column in range(len(values))]
    measurer.read(columns, {v.name: v.recoding for v in values if v.recoding is not None})
    rows = public_rows if public_rows is not None else int(measurer.row_count(ROWS_SHARE).counts[0])
    stages = stages_for(rows)
    every_pair = earlier is not None and bool(earlier.marginals) and stages.every_pair
    share = min(
        stages.one_ways * (ALL_PAIRS_FACTOR if every_pair else 1.0), float(measurer.budget.left)
    )
    sizes = [v.planned_size if prior is None else prior.wanted_size(v) for v in values]
    counted = measure_columns(measurer, values, divided(share, sizes))
    if earlier is not None:
        earlier = earlier.with_drift(
            [column.table.counts.astype(np.float64) for column in counted],
            [column.table.noise.std for column in counted],
        )
    state = _start(counted, public_rows, target, prior, earlier, n_particles=n_particles, seed=seed)
    state.model.exclude(possible_in(state))
    state.sums = measure_workload(state)
    preferred = Preferences(target if stages.prefers_target else None, marginals)
    groups = groups_of(state.model.sizes, preferred)
    measurer.read(groups, state.merging())
    if groups and prior is not None:
        apply_prior(state, prior, groups, edge_std(measurer, stages))
        if prior.firm:  # what it determines is not measured again
            known = {place for place, v in enumerate(values) if v.name in prior.codes}
            groups = [group for group in groups if not known.issuperset(group)]
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
        state.model.fit(state.model.sweep_factor * N_LAST_SWEEPS // _N_SMOOTHINGS)
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
        sweep_factor=1 if earlier is None else SERIES_SWEEP_FACTOR,
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
    """Measure all pairs with the remaining budget; nothing is spent on selection.

    Their resolution suits the noise that remains after averaging over `AFTER_WAVES` waves.
    """
    std = measurer.budget.count_noise(as_share(float(measurer.budget.left) / len(groups))).std
    candidates = candidates_for(
        groups, state.model.answers(groups), state.levels, std / AFTER_WAVES**0.5
    )
    finest = {
        candidate.query.group: candidate for candidate in candidates
    }  # the last candidate of each group is the finest with tolerable noise
    measure(measurer, state, "tables of all pairs", list(finest.values()), 1.0, power=_FOR_DISTANCE)
    state.model.fit()
