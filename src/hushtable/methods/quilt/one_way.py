"""One-way tables: noisy counts of each column, and the estimates derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt import binning, cuts, tails
from hushtable.methods.quilt.binning import CountedDomain, shares_of
from hushtable.methods.quilt.budget import NoisyTable, PrivateMeasurer, as_share
from hushtable.methods.quilt.carried import EarlierColumn, EarlierMeasurements
from hushtable.methods.quilt.inside import shrink_within_buckets
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior_weight import PriorWeight
from hushtable.methods.quilt.resolutions import ResolutionLevels, resolution_levels
from hushtable.methods.quilt.smoothing import BucketLine

STANDS_OUT = 4.0
"""A value stands out if it has this multiple of its neighbors' rows, beyond noise."""

_SURE = 6.0  # standard deviations


@dataclass(frozen=True)
class MeasuredColumn:
    """A column that was measured."""

    values: CountedDomain  # how it is counted
    table: NoisyTable  # the noisy count of each value
    cuts: Sequence[tuple[NoisyTable, Integers]] = ()  # earlier, coarser tables, with their cells


@dataclass(frozen=True)
class OneWayModel:
    """Estimates of one column from its one-way tables."""

    counted: MeasuredColumn
    buckets: Integers  # the bucket of each value
    shares: Floats  # the estimated share of each value
    counts: Floats  # noisy, by bucket, without values that appear to be empty
    std: Floats  # noise of `counts`
    levels: ResolutionLevels  # its resolutions
    line: BucketLine | None  # positions of its buckets, if it is ordered

    @property
    def masses(self) -> Floats:
        """The estimated share of each bucket."""
        return np.bincount(self.buckets, self.shares).astype(np.float64)

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return len(self.counts)


def measure_columns(
    measurer: PrivateMeasurer, values: Sequence[CountedDomain], shares: Sequence[Fraction]
) -> list[MeasuredColumn]:
    """Measure each column for its share; wide numeric columns are binned first."""
    counted = []
    for place, (v, share) in enumerate(zip(values, shares, strict=True)):
        group: Group = (place,)
        if not binning.is_wide(v):
            counted.append(
                MeasuredColumn(v, measurer.measure("tables of one column", group, share))
            )
            continue
        before = measurer.budget.left
        found, story, cells = cuts.bin_wide_column(measurer, place, v, share)
        rest = as_share(float(share - (before - measurer.budget.left)))
        table = measurer.measure("tables of one column", group, rest, cells)
        counted.append(MeasuredColumn(found, table, story))
    return counted


def one_way_model(
    counted: MeasuredColumn,
    total: float,
    *,
    is_target: bool,
    prior_weight: PriorWeight | None = None,
    earlier: EarlierColumn | None = None,
) -> OneWayModel:
    """Merge rare values and estimate shares, from noisy counts and prior counts if there are any.

    A column of earlier waves keeps its buckets and resolutions.
    """
    v, noisy, std = counted.values, counted.table.counts.astype(np.float64), counted.table.noise.std
    if prior_weight is not None:
        noisy, variances = prior_weight.averaged(noisy, std)
        std = float(np.sqrt(variances.mean()))
    buckets = v.buckets(noisy, std, is_target=is_target) if earlier is None else earlier.buckets
    told, kept = noisy.copy(), np.ones(v.size, bool)
    if v.is_ordered:
        kept[: v.n_values] = ~tails.trim_tails(told[: v.n_values], std)
        told[~kept] = 0.0
    # Values that appear to be empty get no share of other values' counts.
    real = np.flatnonzero(kept[: v.n_values])
    widths = v.widths[real].astype(np.float64)
    told[real] = shrink_within_buckets(
        told[real], std, _numbered(buckets[real]), widths, is_ordered=v.is_ordered
    )
    shares = np.zeros(v.size)
    shares[kept] = shares_of(told[kept], _numbered(buckets[kept]), total)
    by = shares if earlier is None else earlier.shares
    return OneWayModel(
        counted=counted,
        buckets=buckets,
        shares=shares,
        counts=np.bincount(buckets, told).astype(np.float64),
        std=std * np.sqrt(np.maximum(np.bincount(buckets, kept), 1.0)),
        levels=resolution_levels(
            np.bincount(buckets, by).astype(np.float64),
            is_ordered=v.is_ordered,
            n_special=v.size - v.n_values,
            branches=v.branches(buckets),
        ),
        line=_line(v, buckets, shares, _standing_out(v, noisy, std)) if v.is_ordered else None,
    )


def _numbered(buckets: Integers) -> Integers:
    """Renumber buckets without gaps, where some have no values left."""
    return np.unique(buckets, return_inverse=True)[1].ravel()


def _standing_out(values: CountedDomain, noisy: Floats, std: float) -> NDArray[np.bool_]:
    """Return which values have many more rows than their neighbors; True for missing."""
    n = values.n_values
    counts, widths = noisy[:n], values.widths[:n].astype(np.float64)
    sums, spans = (np.convolve(part, [1.0, 0.0, 1.0])[1:-1] for part in (counts, widths))
    expected = np.maximum(sums, 0.0) / np.maximum(spans, 1.0) * widths
    found = np.ones(values.size, bool)
    found[:n] = counts - STANDS_OUT * expected > _SURE * std
    return found


def _line(
    values: CountedDomain, buckets: Integers, shares: Floats, out: NDArray[np.bool_]
) -> BucketLine:
    """Return the positions of the buckets of an ordered column."""
    weights = shares + 1e-9
    at = np.bincount(buckets, weights * values.places) / np.bincount(buckets, weights)
    return BucketLine(at, np.bincount(buckets, out) == np.bincount(buckets))


def estimated_total(
    columns: Sequence[MeasuredColumn], earlier: EarlierMeasurements | None = None
) -> tuple[float, float]:
    """Estimate the number of rows, and its standard error, from all one-way tables."""
    tables = [t for c in columns for t in (c.table, *(table for table, _ in c.cuts))]
    # Each table's sum is an estimate; average them by precision.
    precision = np.array([1 / (len(t.counts) * t.noise.std**2) for t in tables])
    sums = np.array([float(t.counts.sum()) for t in tables])
    if earlier is not None:
        before, variance = earlier.total()
        precision, sums = np.append(precision, 1 / variance), np.append(sums, before)
    return float((precision * sums).sum() / precision.sum()), float(precision.sum() ** -0.5)
