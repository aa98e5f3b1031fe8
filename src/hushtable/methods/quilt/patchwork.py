"""State of the fit: noisy tables, buckets, the model, and the record of selections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as default
from fractions import Fraction
from typing import Any

import numpy as np

from hushtable.methods.quilt.candidates import Offer
from hushtable.methods.quilt.carried import Carried
from hushtable.methods.quilt.columns import KnownColumn
from hushtable.methods.quilt.domains import Floats
from hushtable.methods.quilt.factors import dispersion
from hushtable.methods.quilt.field import Field
from hushtable.methods.quilt.meter import Meter, PaidTable, as_share
from hushtable.methods.quilt.prior import Belief, PairBelief
from hushtable.methods.quilt.resolutions import Ladder, Patch
from hushtable.recoding import Recoding

_N_SETTLING = 3  # refreshes of the particles after new tables


@dataclass(frozen=True)
class Round:
    """Public record of one selection round; it bounds errors of unselected tables."""

    choice_epsilon: Fraction  # epsilon of one selection
    sensitivity: int  # of the scores
    offers: list[Offer]  # the candidates
    chosen: list[int]  # indices of the selected ones
    measured: list[PaidTable]  # their noisy tables

    def plain(self) -> dict[str, Any]:
        """Return the record as plain data."""
        offers = [self.offers[place] for place in self.chosen]
        missed = [m.counts - o.expected for m, o in zip(self.measured, offers, strict=True)]
        return {
            "choice_epsilon": float(self.choice_epsilon),
            "sensitivity": self.sensitivity,
            "n_candidates": len(self.offers),
            "chosen": [list(offer.patch.group) for offer in offers],
            "levels": [list(offer.patch.levels) for offer in offers],
            "penalties": [offer.scored.penalty for offer in offers],
            "weights": [offer.scored.weight for offer in offers],
            "distances": [float(np.abs(gap).sum()) for gap in missed],
            "missed_squares": [float(np.dot(gap, gap)) for gap in missed],
            "expected_squares": [float(np.dot(o.expected, o.expected)) for o in offers],
        }


@dataclass(frozen=True)
class Piece:
    """A marginal query that was measured."""

    patch: Patch
    table: PaidTable


@dataclass
class Patchwork:
    """State of the fit: noisy tables, buckets, the model and the selection rounds."""

    total: float
    total_std: float
    columns: list[KnownColumn]
    field: Field
    pieces: list[Piece] = default(default_factory=list)
    rounds: list[Round] = default(default_factory=list)
    belief: PairBelief | None = None  # pair marginals of a prior, unless it was dropped
    beliefs: list[Belief | None] = default(default_factory=list)  # its one-way marginals
    doubt: float = math.inf  # latest estimate of its prior variance per row
    carried: Carried | None = None  # measurements of earlier waves

    @property
    def tables(self) -> list[PaidTable]:
        """All noisy tables that were paid for, one-way tables first."""
        single = [column.counted.table for column in self.columns]
        cuts = [table for column in self.columns for table, _ in column.counted.cuts]
        return [*single, *cuts, *(piece.table for piece in self.pieces)]

    @property
    def ladders(self) -> list[Ladder]:
        """The resolutions of all columns."""
        return [column.ladder for column in self.columns]

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
    meter: Meter,
    quilt: Patchwork,
    step: str,
    offers: Sequence[Offer],
    share: float,
    *,
    power: float = 0.5,
) -> list[PaidTable]:
    """Measure tables for a share of the budget, or what is left, and add them to the model."""
    share = min(share, float(meter.purse.left))
    parts = divided(share, [offer.patch.n_cells for offer in offers], power)
    measured = [
        meter.measure(step, offer.patch.group, part, offer.patch.cells)
        for offer, part in zip(offers, parts, strict=True)
    ]
    for offer, table in zip(offers, measured, strict=True):
        patch, std = offer.patch, table.noise.std
        is_new = not any(old.is_of(patch.group, patch.maps) for old in quilt.field.tables)
        factors = quilt.field.add(patch.group, table.counts, std, patch.maps)
        if is_new:
            factors.strength = strength(table.counts.astype(np.float64), offer.expected, std)
        quilt.pieces.append(Piece(patch, table))
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


def settle(model: Field) -> None:
    """Adapt the particles to new tables, and fit."""
    for _ in range(_N_SETTLING):
        model.sweep()
        model.refresh()
    model.fit()
