"""One-way tables: noisy counts of each column, and the estimates derived from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.binning import (
    CUT_SHARE,
    HALVES,
    CountedDomain,
    ResolutionLevels,
    resolution_levels,
)
from hushtable.methods.quilt.budget import NoisyTable, PrivateMeasurer, as_share
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior_weight import EarlierColumn, EarlierMeasurements, PriorWeight
from hushtable.methods.quilt.smoothing import BucketLine
from hushtable.numeric import bucket_shares
from hushtable.schema.recoding import recode

# Binning of wide numeric columns by a hierarchy of noisy counts.
#
# A number with a million possible values cannot be counted value by value: noise would exceed all
# but the largest counts. Equal-width bins would hide a value that half of the rows have, and would
# not resolve dense ranges. So the range is first counted in `FIRST` intervals of equal width.
# Intervals with many rows are split into `BRANCHES` parts and counted again, until parts have too
# few rows to split, or are single values. Then neighbors with few rows are merged. A frequent value
# gets its own interval; an empty tail stays in long intervals. How many rows are few follows from
# the number of rows and the noise of the final table.
#
# Privacy: every count is a table of all rows by disjoint intervals, so one row is in exactly one of
# them, and each table is paid for. Noisy counts alone determine which intervals are counted next.
# See ``quilt.md``.

FIRST = 256
"""Maximum number of intervals that are counted first, in addition to the ends and zero."""

BRANCHES = 8
"""Number of parts into which an interval is split."""

WORTH_CUTTING = 5.0
"""Minimum count of an interval to split, in standard deviations of its noise."""

MAX_CUTS = 6
"""Maximum number of tables counted for binning."""

FINENESS = 1.0
"""Number of final intervals in multiples of the root of rows / standard deviation of a count.

With m intervals, noise displaces rows in proportion to m, and spreading rows evenly inside of them
displaces rows in proportion to 1/m.
"""

MAX_WIDTH = 16
"""Maximum width of merged intervals, in first intervals, so that tails stay fine."""


def bin_wide_column(
    measurer: PrivateMeasurer, place: int, values: CountedDomain, share: Fraction
) -> tuple[CountedDomain, list[tuple[NoisyTable, Integers]], Integers]:
    """Bin a wide column by noisy counts.

    Parameters
    ----------
    measurer : PrivateMeasurer
        Source of noisy tables.
    place : int
        Index of the column; the measurer must have read it.
    values : CountedDomain
        Counting rule by which it was read.
    share : Fraction
        Budget of the column, including its binning.

    Returns
    -------
    CountedDomain
        How the column is counted from now on.
    list of (NoisyTable, int array)
        The tables measured for binning, with the interval of each value of the first result.
    int array
        The interval of each value that was read.
    """
    starts = _first_starts(values)
    story: list[tuple[NoisyTable, Integers]] = []
    n_cuts = 1 + math.ceil(max(math.log(values.n_values / FIRST, BRANCHES), 0.0))
    each = as_share(float(share) * CUT_SHARE / min(n_cuts, MAX_CUTS))
    std = measurer.budget.count_noise(as_share(float(share) * (1 - CUT_SHARE))).std
    light = 0.0
    for _ in range(min(n_cuts, MAX_CUTS)):
        table = measurer.measure("cuts of wide columns", (place,), each, _cells(starts, values))
        story.append((table, starts))
        light = light or math.sqrt(max(float(table.counts.sum()), 1.0) * std) / FINENESS
        finer = _cut_heavy(starts, table, values.n_values, light)
        if len(finer) == len(starts):
            break
        starts = finer
    starts = _merge_light(starts, *story[-1], values, light)
    found = _recoded(values, starts)
    return (
        found,
        [
            (table, _cells(before, values)[_read_at(starts, values)])
            for table, before in story
            if np.isin(before, starts).all()
        ],
        _cells(starts, values),
    )


def _first_starts(values: CountedDomain) -> Integers:
    """Return starts of equal-width intervals; the ends and zero get their own."""
    n = values.n_values
    alone = {0, n - 1, *values.zero}
    starts = {*range(0, n, -(-n // FIRST)), *alone, *(place + 1 for place in alone)}
    return np.array(sorted(starts - {n}), np.int64)


def _cut_heavy(starts: Integers, table: NoisyTable, n_values: int, light: float) -> Integers:
    """Split the intervals with more than `light` rows, beyond noise."""
    widths = np.diff(np.append(starts, n_values))
    heavy = table.counts[: len(starts)] >= max(WORTH_CUTTING * table.noise.std, light)
    parts = [starts]
    for start, width in zip(starts[heavy], widths[heavy], strict=True):
        parts.append(start + np.unique(np.arange(BRANCHES) * width // BRANCHES))
    return np.unique(np.concatenate(parts))


def _merge_light(
    starts: Integers, table: NoisyTable, counted: Integers, values: CountedDomain, light: float
) -> Integers:
    """Merge neighbors until they have `light` rows; the ends, zero and single heavy values stay.

    `table` counts the intervals that start at `counted`; those split since then have fewer rows.
    """
    n = values.n_values
    inside = np.searchsorted(counted, starts, side="right") - 1
    sums = table.counts[inside] / np.bincount(inside)[inside]
    alone, most = {0, n - 1, *values.zero}, MAX_WIDTH * -(-n // FIRST)
    kept, rows = [0], math.inf
    for start, end, count in zip(starts, np.append(starts[1:], n), sums, strict=True):
        is_full = rows + max(count, 0.0) > light or end - kept[-1] > most
        if is_full or start in alone or start - 1 in alone:
            kept.append(start)
            rows = 0.0
        rows += max(count, 0.0)
    return np.unique(kept)


def _cells(starts: Integers, values: CountedDomain) -> Integers:
    """Return the interval of each value; special values and missing come last."""
    cells = np.zeros(values.size, np.int64)
    cells[starts[1:]] = 1
    cells[values.n_values :] = 1
    return np.cumsum(cells)


def _read_at(starts: Integers, values: CountedDomain) -> Integers:
    """Return the first value of each interval, then special values and missing."""
    return np.append(starts, np.arange(values.n_values, values.size))


def _recoded(values: CountedDomain, starts: Integers) -> CountedDomain:
    """Return how the column is counted in these intervals, in codes of the schema."""
    codes = starts if values.recoding is None else values.first_codes[starts]
    lowest = [values.column.value(int(code)) for code in codes]
    rule = [value for value in lowest if value is not None]
    return replace(values, rule=rule, recoding=recode(values.name, values.column, rule))


# Values inside buckets: noisy counts of single values, shrunk toward a simple shape.
#
# A bucket contains values whose noisy counts are too small to distinguish, and its rows must be
# distributed over them. Distributed by the noisy counts alone, they would follow noise: in the tail
# of a column, rows would be far from all private rows. `shrink_within_buckets` shrinks the counts
# of a bucket toward a simple shape with the same sum:
#
# - in an unordered column: uniform;
# - inside an ordered column: a density with the slope between the neighboring buckets;
# - in its outermost buckets: a density that starts at that of the neighboring bucket and falls
#   exponentially outward, if the bucket has fewer rows than that density would give; else uniform.
#
# The amount of shrinkage follows from the evidence against the shape beyond noise: the James-Stein
# rule, with the expected squared noise increased by one standard deviation. If counts are far from
# the shape, they hardly change.
#
# All of it is post-processing of noisy counts.

_N_BISECTIONS = 60


def shrink_within_buckets(
    counts: Floats, std: float, buckets: Integers, widths: Floats, *, is_ordered: bool
) -> Floats:
    """Shrink the counts in each bucket toward a simple shape with the same sum.

    `std` is the standard deviation of the noise in each count, `widths` the number of codes of each
    value. In an ordered column, `buckets` must be nondecreasing.
    """
    found = counts.copy()
    sums = np.maximum(np.bincount(buckets, counts), 0.0)
    spans = np.bincount(buckets, widths).astype(np.float64)
    for bucket in np.flatnonzero((np.bincount(buckets) > 1) & (sums > 0)).tolist():
        among = np.flatnonzero(buckets == bucket)
        shape = widths[among] / spans[bucket]
        if is_ordered and len(sums) > 1:
            shape = _shape(bucket, sums, spans, widths[among])
        found[among] = _shrunk(counts[among], float(sums[bucket]) * shape, std)
    return found


def _shrunk(counts: Floats, shape: Floats, std: float) -> Floats:
    gaps = counts - shape
    free = len(counts) - 1
    noise = (free + math.sqrt(2 * free)) * std**2
    kept: Floats = shape + max(0.0, 1 - noise / max(float(gaps @ gaps), 1e-300)) * gaps
    return kept


def _shape(bucket: int, sums: Floats, spans: Floats, widths: Floats) -> Floats:
    """Return the shares of the values of a bucket of an ordered column, from its neighbors."""
    density = sums / spans
    place = np.cumsum(widths) - widths / 2
    if 0 < bucket < len(sums) - 1:
        rise = (density[bucket + 1] - density[bucket - 1]) / (
            (spans[bucket - 1] + spans[bucket + 1]) / 2 + spans[bucket]
        )
        inner = density[bucket] + rise * (place - spans[bucket] / 2)
        shape = widths * np.maximum(inner, 0.0)
    else:
        beside = density[1] if bucket == 0 else density[-2]
        outwards = spans[bucket] - place if bucket == 0 else place
        rate = _rate(float(sums[bucket]), float(beside), float(spans[bucket]))
        shape = widths * np.exp(-rate * outwards)
    shares: Floats = shape / max(float(shape.sum()), 1e-300)
    return shares


def _rate(mass: float, density: float, span: float) -> float:
    """Return the rate at which a density must fall to have a given mass over a span.

    Examples
    --------
    >>> round(_rate(100.0, 10.0, 1000.0), 3)
    0.1
    >>> _rate(100.0, 1.0, 50.0)
    0.0
    """
    if mass >= density * span:
        return 0.0
    low, high = 0.0, density / mass
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        if density * -math.expm1(-middle * span) / middle > mass:
            low = middle
        else:
            high = middle
    return high


# Tails of ordered columns: noise in empty ranges must not become rows.
#
# The outermost values of a numeric column are often empty, and there may be many of them. Each has
# a noisy count, and after clipping at 0 the remainders add up to rows far from all others, which
# have the largest influence on a variance or a slope. `trim_tails` returns the values at the ends
# that appear to be empty, provided that the values between them clearly have rows. They stay empty
# when counts are shrunk and made to add up.
#
# The cost: rows in a tail that are too few to stand out from noise are lost, so the variance of a
# column with a long thin tail is underestimated.
#
# All of it is post-processing of noisy counts. The noisy counts themselves are published unchanged.

FEW = 100
"""Up to this number of values, a range is empty if its sum is below half a standard deviation.

With more values, the threshold grows with the logarithm of their number.
"""

CLEAR = 6.0
"""Minimum sum of the values between the ends, in standard deviations of their noise.

With less, nothing is trimmed: rows spread thinly over many values would be taken for noise, and the
stated error would be that of the few remaining values.
"""


def trim_tails(counts: Floats, std: float) -> NDArray[np.bool_]:
    """Return which values at the ends of an ordered column appear to be empty.

    Examples
    --------
    >>> trim_tails(np.array([0.3, -1.2, 0.4, 9.0, 40.0, 50.0, 3.0, -0.1]), 1.0).tolist()
    [True, True, True, False, False, False, False, True]
    """
    empty = np.zeros(len(counts), bool)
    empty[: _n_empty(counts, std)] = True
    empty[len(counts) - _n_empty(counts[::-1], std) :] = True
    left = counts[~empty]
    is_clear = left.sum() > CLEAR * std * len(left) ** 0.5
    return empty if is_clear else np.zeros(len(counts), bool)


def _n_empty(counts: Floats, std: float) -> int:
    """Return the number of values before the first that has rows; 0 if none has.

    From the end inward, stretches are averaged until their means increase (isotonic regression).
    Those at the end that are within noise are empty.
    """
    sums: list[float] = []
    widths: list[int] = []
    for count in counts.tolist():
        total, width = count, 1
        while sums and sums[-1] * width >= total * widths[-1]:
            total += sums.pop()
            width += widths.pop()
        sums.append(total)
        widths.append(width)
    n_empty = 0
    # Among many values, noise exceeds a fixed threshold somewhere, far from all other rows.
    least = (0.5 + 0.75 * max(0.0, math.log2(len(counts) / FEW))) * std
    for total, width in zip(sums, widths, strict=True):
        if total >= least * width**0.5:
            return n_empty
        n_empty += width
    return 0  # no value has rows, so the ends cannot be identified


STANDS_OUT = 4.0
"""A value stands out if it clearly has more than this multiple of its neighbors' rows.

Rows are compared per code. The excess must be above `_SURE` standard deviations of noise.
"""

_SURE = 6.0  # standard deviations


@dataclass(frozen=True)
class MeasuredColumn:
    """A column that was measured."""

    values: CountedDomain  # the values in which it is counted
    table: NoisyTable  # the noisy count of each value
    # Coarser tables that were measured for binning, with the cell of each value.
    cuts: Sequence[tuple[NoisyTable, Integers]] = ()


@dataclass(frozen=True)
class OneWayModel:
    """Estimates of one column from its one-way tables."""

    counted: MeasuredColumn
    buckets: Integers  # the bucket of each value
    shares: Floats  # the estimated share of each value
    counts: Floats  # noisy, by bucket, without values that appear to be empty
    std: Floats  # noise standard deviation of each of `counts`
    levels: ResolutionLevels  # its resolutions
    line: BucketLine | None  # positions of its buckets, if it is ordered

    @property
    def masses(self) -> Floats:
        """The estimated share of each bucket."""
        return np.bincount(self.buckets, self.shares).astype(np.float64)

    @property
    def pair_levels(self) -> ResolutionLevels:
        """The resolutions that pairs may have: all but the last of an ordered column, in halves."""
        values = self.counted.values
        halves = HALVES + values.size - values.n_values
        has_halves = values.is_ordered and int(self.levels[-1].max()) + 1 == halves
        return self.levels[:-1] if has_halves and len(self.levels) > 1 else self.levels

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return len(self.counts)

    @property
    def code_shares(self) -> Floats:
        """The estimated share of each code of the schema; bins are spread evenly."""
        values = self.counted.values
        if values.recoding is None:
            return self.shares
        return (self.shares / values.widths)[values.recoding.apply(np.arange(values.column.size))]


def measure_columns(
    measurer: PrivateMeasurer, values: Sequence[CountedDomain], shares: Sequence[Fraction]
) -> list[MeasuredColumn]:
    """Measure each column for its share; wide numeric columns are binned first."""
    counted = []
    for place, (v, share) in enumerate(zip(values, shares, strict=True)):
        group: Group = (place,)
        if not v.is_wide:
            counted.append(
                MeasuredColumn(v, measurer.measure("tables of one column", group, share))
            )
            continue
        before = measurer.budget.left
        found, story, cells = bin_wide_column(measurer, place, v, share)
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
        kept[: v.n_values] = ~trim_tails(told[: v.n_values], std)
        told[~kept] = 0.0
    # Values that appear to be empty get no share of other values' counts.
    real = np.flatnonzero(kept[: v.n_values])
    widths = v.widths[real].astype(np.float64)
    told[real] = shrink_within_buckets(
        told[real], std, _numbered(buckets[real]), widths, is_ordered=v.is_ordered
    )
    shares = np.zeros(v.size)
    shares[kept] = bucket_shares(told[kept], _numbered(buckets[kept]), total)
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
    """Return which values have many more rows than their neighbors.

    Special values and missing are True.
    """
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
    """Estimate the number of rows and its standard error from all one-way tables.

    Measurements of earlier waves are included, if there are any.
    """
    tables = [t for c in columns for t in (c.table, *(table for table, _ in c.cuts))]
    # Each table's sum is an estimate; average them by precision.
    precision = np.array([1 / (len(t.counts) * t.noise.std**2) for t in tables])
    sums = np.array([float(t.counts.sum()) for t in tables])
    if earlier is not None:
        before, variance = earlier.total()
        precision, sums = np.append(precision, 1 / variance), np.append(sums, before)
    return float((precision * sums).sum() / precision.sum()), float(precision.sum() ** -0.5)
