"""State of the fit: noisy tables, buckets, the model, and the record of selections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as default
from fractions import Fraction
from typing import Any

import numpy as np

from hushtable.arrays import Floats
from hushtable.methods.quilt.budget import NoisyTable, PrivateMeasurer, as_share
from hushtable.methods.quilt.candidates import Candidate
from hushtable.methods.quilt.carried import EarlierMeasurements
from hushtable.methods.quilt.factors import dispersion
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.one_way import OneWayModel
from hushtable.methods.quilt.prior_weight import PairPriorWeight, PriorWeight
from hushtable.methods.quilt.resolutions import MarginalQuery, ResolutionLevels
from hushtable.schema.recoding import Recoding

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
            "choice_epsilon": float(self.choice_epsilon),
            "sensitivity": self.sensitivity,
            "n_candidates": len(self.candidates),
            "chosen": [list(candidate.query.group) for candidate in candidates],
            "levels": [list(candidate.query.levels) for candidate in candidates],
            "penalties": [candidate.scored.penalty for candidate in candidates],
            "weights": [candidate.scored.weight for candidate in candidates],
            "distances": [float(np.abs(gap).sum()) for gap in missed],
            "missed_squares": [float(np.dot(gap, gap)) for gap in missed],
            "expected_squares": [float(np.dot(o.expected, o.expected)) for o in candidates],
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
    column_priors: list[PriorWeight | None] = default(default_factory=list)  # its one-way marginals
    prior_variance: float = math.inf  # latest estimate of its prior variance per row
    earlier: EarlierMeasurements | None = None  # measurements of earlier waves

    @property
    def tables(self) -> list[NoisyTable]:
        """All noisy tables that were paid for, one-way tables first."""
        single = [column.counted.table for column in self.columns]
        cuts = [table for column in self.columns for table, _ in column.counted.cuts]
        return [*single, *cuts, *(measurement.table for measurement in self.measurements)]

    @property
    def levels(self) -> list[ResolutionLevels]:
        """The resolutions of all columns."""
        return [column.levels for column in self.columns]

    def merging(self) -> dict[str, Recoding]:
        """Return the recodings from codes of the schema to buckets, where they differ."""
        found = {}
        for column in self.columns:
            values = column.counted.values
            recoding = values.bucket_recoding(column.buckets)
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
    """Measure tables for a share of the budget, or what is left, and add them to the model."""
    share = min(share, float(measurer.budget.left))
    parts = divided(share, [candidate.query.n_cells for candidate in candidates], power)
    measured = [
        measurer.measure(step, candidate.query.group, part, candidate.query.cells)
        for candidate, part in zip(candidates, parts, strict=True)
    ]
    for candidate, table in zip(candidates, measured, strict=True):
        query, std = candidate.query, table.noise.std
        is_new = not any(old.is_of(query.group, query.maps) for old in state.model.tables)
        factors = state.model.add(query.group, table.counts, std, query.maps)
        if is_new:
            factors.strength = strength(table.counts.astype(np.float64), candidate.expected, std)
        state.measurements.append(Measurement(query, table))
    return measured


def strength(counts: Floats, expected: Floats, std: float) -> float:
    """Return the relative strength of a table's regularizer: less if it shows more than noise.

    Tables with few cells stay close to 1.
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
