"""The published waves of a series: their noisy tables, and projections to another wave."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import groupby
from typing import Any

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.methods.prior import EarlierEstimates, EarlierTable, Kind, Prior, PriorRelease
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.release.release import STATEMENT, Release
from hushtable.release.statement import sha256_of
from hushtable.release.stored_prior import release_of
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy
from hushtable.series.drift import (
    ABOVE,
    DECLARED_BREAK,
    Breaks,
    CountPath,
    DriftRate,
    WaveCounts,
    estimate_drift_rate,
    find_breaks,
    gains_at,
    known_at,
    shares_of,
    total_step,
)

# Merging of noisy tables of the same columns: coarser tables update the finest.
#
# Waves measure the same pair at different resolutions. If such tables were fitted side by side and
# noise made them contradict each other, the model would increase one factor and decrease the other
# without limit, and particles would be lost. So a coarse count updates the fine cells that it
# contains, by precision: each takes its part of the difference between the coarse count and their
# sum. Variances are those of a Kalman update; the resulting correlation of the errors of these
# cells is ignored.


def folded(tables: Iterable[EarlierTable], sizes: Mapping[str, int]) -> list[EarlierTable]:
    """Merge tables into finer ones of the same columns, if their cells are unions of those.

    `sizes` is the number of buckets of each column.
    """
    made: list[EarlierTable] = []
    by_columns = sorted(tables, key=lambda table: (len(table.columns), table.columns))
    for _, same in groupby(by_columns, key=lambda table: table.columns):
        kept: list[EarlierTable] = []
        for coarse in sorted(same, key=lambda table: -table.counts.size):
            for place, fine in enumerate(kept):
                parts = _parts(fine, coarse, sizes)
                if parts is not None:
                    kept[place] = _told(fine, coarse, parts)
                    break
            else:
                kept.append(coarse)
        made += kept
    return made


def _parts(fine: EarlierTable, coarse: EarlierTable, sizes: Mapping[str, int]) -> Integers | None:
    """Return the coarse cell of each fine one; None if the tables are not nested."""
    if len(fine.columns) == 1:
        return None  # each column has only one one-way table: nothing to merge
    cells = np.zeros((), np.int64)
    for axis, name in enumerate(fine.columns):
        buckets = np.arange(sizes[name])
        ours, theirs = (
            buckets if table.cells[axis] is None else np.asarray(table.cells[axis], np.int64)
            for table in (fine, coarse)
        )
        first = np.zeros(fine.shape[axis], np.int64)
        first[ours] = theirs
        if not np.array_equal(first[ours], theirs):
            return None
        cells = cells[..., None] * coarse.shape[axis] + first
    return cells.ravel()


def _told(fine: EarlierTable, coarse: EarlierTable, parts: Integers) -> EarlierTable:
    n = coarse.counts.size
    sums, spread = (np.bincount(parts, of, n) for of in (fine.counts, fine.variances))
    both = spread + coarse.variances
    counts = fine.counts + fine.variances * ((coarse.counts - sums) / both)[parts]
    variances = fine.variances - fine.variances**2 / both[parts]
    return replace(fine, counts=counts, variances=variances)


_SPANS = 2.5  # number of independent counts to which cumulative counts are equivalent


@dataclass(frozen=True)
class TableLayout:
    """Layout of a noisy table: columns, and the cell of each bucket along each axis."""

    columns: tuple[str, ...]
    places: tuple[tuple[int, ...] | None, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, settings: dict[str, Any]) -> TableLayout:
        """Read a layout from the settings of a release."""
        places = tuple(None if cells is None else tuple(cells) for cells in settings["cells"])
        return cls(tuple(settings["columns"]), places, tuple(settings["shape"]))


@dataclass(frozen=True, eq=False)
class Wave:
    """A published wave."""

    number: int  # in the series
    release: Release

    @cached_property
    def digest(self) -> str:
        """Digest of the wave's statement, which contains the digests of all its files."""
        return sha256_of(self.release.folder / STATEMENT)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the estimator."""
        return self.release.statement.estimator

    @cached_property
    def own_tables(self) -> dict[TableLayout, WaveCounts]:
        """The tables measured in this wave, by layout; those of equal layout are averaged."""
        counts = as_numpy(self.release.table("measured").column("count")).astype(np.float64)
        found: dict[TableLayout, WaveCounts] = {}
        start = 0
        for told in self.settings["tables"]:
            part = counts[start : start + math.prod(told["shape"])]
            start += len(part)
            if "earlier" in told:
                continue
            cells = TableLayout.of(told)
            one = WaveCounts(self.number, part, np.full(len(part), told["std"] ** 2))
            found[cells] = found[cells].averaged(one) if cells in found else one
        return found

    @cached_property
    def margins(self) -> dict[str, WaveCounts]:
        """The bucket counts of each column, from the tables of this wave with all its buckets."""
        found: dict[str, WaveCounts] = {}
        for cells, measured in self.own_tables.items():
            for axis, (name, places) in enumerate(zip(cells.columns, cells.places, strict=True)):
                if places is None:
                    one = self._margin(cells, measured, axis, name)
                    found[name] = found[name].averaged(one) if name in found else one
        return found

    @cached_property
    def own_total(self) -> WaveCounts:
        """The number of rows according to this wave's own tables."""
        sums = [
            WaveCounts(self.number, m.counts.sum(keepdims=True), m.variances.sum(keepdims=True))
            for m in self.own_tables.values()
        ]
        return reduce(WaveCounts.averaged, sums)

    def _margin(self, cells: TableLayout, measured: WaveCounts, axis: int, name: str) -> WaveCounts:
        """Sum a table to the buckets of one of its columns."""
        others = tuple(other for other in range(len(cells.shape)) if other != axis)
        counts, variances = (
            part.reshape(cells.shape).sum(axis=others)
            for part in (measured.counts, measured.variances)
        )
        if len(cells.columns) == 1:  # by values
            buckets = self.columns[name][0]
            counts, variances = (np.bincount(buckets, part) for part in (counts, variances))
        return WaveCounts(self.number, counts, variances)

    @cached_property
    def columns(self) -> dict[str, tuple[Integers, Floats]]:
        """For each column the bucket and the share of each counted value."""
        table = self.release.table("buckets")
        ends = np.flatnonzero(np.diff(as_numpy(table.column("column")))) + 1
        buckets = np.split(as_numpy(table.column("bucket")).astype(np.int64), ends)
        shares = np.split(as_numpy(table.column("share")).astype(np.float64), ends)
        names = self.release.schema.attributes
        return dict(zip(names, zip(buckets, shares, strict=True), strict=True))


@dataclass(frozen=True, eq=False)
class Waves:
    """All valid waves, in order, and the release that defines the counted cells."""

    waves: Sequence[Wave]  # at least one, with distinct numbers
    first: Wave  # defines the counted cells: the last release without a prior
    supposed: float  # prior drift rate, until two waves allow an estimate
    declared: Mapping[str, frozenset[int]] = field(default_factory=dict)  # breaks, by column

    @cached_property
    def totals(self) -> CountPath:
        """Estimates of the number of rows at each wave from all waves, with estimated drift."""
        own = [wave.own_total for wave in self.waves]
        return CountPath.of(
            [one.wave for one in own],
            np.array([one.counts[0] for one in own]),
            np.array([one.variances[0] for one in own]),
            self._total_step,
        )

    @cached_property
    def _total_step(self) -> float:
        """Variance of a step of the number of rows.

        With only one wave it is unknown: assume that as many rows come or go as are assumed to
        change.
        """
        totals = [wave.own_total for wave in self.waves]
        if len(totals) == 1:
            return self.supposed * max(1.0, float(totals[0].counts[0]))
        return total_step(totals)

    @cached_property
    def total(self) -> float:
        """Average number of rows of a wave."""
        return max(1.0, float(np.mean(self.totals.values)))

    @cached_property
    def sizes(self) -> Floats:
        """Number of rows of each wave, divided by the average."""
        found: Floats = np.maximum(self.totals.values, 1.0) / self.total
        return found

    @cached_property
    def tables(self) -> dict[TableLayout, list[WaveCounts]]:
        """The measurements of each table layout in all waves, scaled to the average size."""
        found: dict[TableLayout, list[WaveCounts]] = {}
        for wave, size in zip(self.waves, self.sizes, strict=True):
            for cells, measured in wave.own_tables.items():
                found.setdefault(cells, []).append(measured.divided(size))
        return found

    @cached_property
    def breaks(self) -> dict[str, Breaks]:
        """Breaks of each column: declared, or found in its buckets."""
        return {
            name: find_breaks(
                self._seen(name, spans=False),
                self.total,
                supposed=self.supposed,
                declared=dict.fromkeys(self.declared.get(name, ()), DECLARED_BREAK),
            )
            for name in self.first.columns
        }

    def breaks_of(self, columns: Iterable[str]) -> Breaks:
        """Return the breaks of a count by some columns: those of any of them."""
        found: dict[int, float] = {}
        for name in columns:
            for wave, factor in self.breaks[name].items():
                found[wave] = max(factor, found.get(wave, 1.0))
        return found

    @cached_property
    def drift_rates(self) -> dict[str, DriftRate]:
        """Drift rate of counts by each column, estimated from its buckets.

        Each column is estimated alone first. The prior of its rate is then the median of these, so
        that one column that changes fast says little about the others.
        """
        return {name: self._drift_rate(name, self._median_change) for name in self.first.columns}

    @cached_property
    def _median_change(self) -> float:
        rates = [self._drift_rate(name, self.supposed).difference for name in self.first.columns]
        return float(np.exp(np.median(np.log(rates)))) / ABOVE if len(self.waves) > 1 else rates[0]

    def _drift_rate(self, name: str, supposed: float, *, may_rise: bool = False) -> DriftRate:
        return estimate_drift_rate(
            self._seen(name, spans=False),
            self.total,
            supposed=supposed,
            may_rise=may_rise,
            breaks=self.breaks[name],
        )

    @cached_property
    def drift_rates_of_ranges(self) -> dict[str, DriftRate]:
        """Drift rate of counts of sets of values of each column.

        Neighbors of an ordered column move together, so a range moves more than each of its values.
        Counts may also rise or fall steadily, which projected tables treat as ordinary steps.
        """
        found = {}
        for name, column in self.first.release.schema.attributes.items():
            found[name] = self._drift_rate(name, self._median_change, may_rise=True)
            seen = self._seen(name, spans=True) if column.is_line else []
            if seen and len(seen[0].counts):
                rate = estimate_drift_rate(
                    seen,
                    self.total,
                    supposed=found[name].difference / ABOVE,
                    weight=min(1.0, _SPANS / len(seen[0].counts)),
                    may_rise=True,
                    breaks=self.breaks[name],
                )
                found[name] = DriftRate.most([found[name], rate])
        return found

    def _seen(self, name: str, *, spans: bool) -> list[WaveCounts]:
        """Return the measurements of a column at each wave, scaled to the average size.

        They are bucket counts or, with `spans`, cumulative counts.
        """
        measured = [
            wave.margins[name].spans(wave.own_total) if spans else wave.margins[name]
            for wave in self.waves
        ]
        return [one.divided(size) for one, size in zip(measured, self.sizes, strict=True)]

    def drift_rate(self, columns: Iterable[str]) -> DriftRate:
        """Return the drift rate of a count by some columns: the largest of theirs."""
        return _most(self.drift_rates_of_ranges, columns)

    def moves(self, rate: DriftRate, shares: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the variances of lasting, passing and rising changes at a wave of average size.

        They are for counts of these shares of the rows, whose number is assumed to be constant.
        """
        unit = self.total * shares * (1 - shares) + 1.0
        return rate.lasting * unit, rate.passing * unit, rate.rising * unit

    def brought_to(self, number: int) -> EarlierEstimates:
        """Project all measurements to another wave, with the size of the wave nearest to it."""
        made, movement, sizes = [], {}, []
        gaps = [abs(wave.number - number) for wave in self.waves]
        nearest = int(np.argmin(gaps))
        size = float(self.sizes[nearest])
        resized = gaps[nearest] * self._total_step / self.total**2
        for cells, measured in self.tables.items():
            shares = shares_of(measured, self.total)
            lasting, passing, _ = self.moves(_most(self.drift_rates, cells.columns), shares)
            walk = (number, measured, lasting, passing, self.breaks_of(cells.columns))
            state, gains = known_at(*walk).moved(passing / size), gains_at(*walk)
            unsure = self._of_sizes(measured, gains, nearest, shares * self.total)
            variances = size**2 * (state.variances + unsure) + resized * (shares * self.total) ** 2
            noise = sum(gain**2 * one.variances for gain, one in zip(gains, measured, strict=True))
            weights = np.maximum(state.counts, 0.0) + 1.0
            if len(cells.columns) == 1:
                (name,) = cells.columns
                unit = self.total * shares * (1 - shares) + 1.0
                moved = np.average((state.variances - noise) / unit, weights=weights)
                ranges = self.drift_rates_of_ranges[name].difference
                movement[name] = float(moved * max(1.0, ranges / self.drift_rates[name].difference))
                relative = unsure / np.maximum(shares * self.total, 1.0) ** 2
                sizes.append(float(np.average(relative, weights=weights)) + resized / size**2)
            part = float(weights @ (size**2 * noise) / (weights @ variances))
            places = tuple(None if p is None else np.asarray(p, np.int64) for p in cells.places)
            made.append(
                EarlierTable(
                    cells.columns, places, cells.shape, size * state.counts, variances, part
                )
            )
        buckets = {name: places for name, (places, _) in self.first.columns.items()}
        n_buckets = {name: int(places.max()) + 1 for name, places in buckets.items()}
        return EarlierEstimates(
            buckets,
            {name: shares for name, (_, shares) in self.first.columns.items()},
            folded(made, n_buckets),
            movement,
            max(sizes),
        )

    def _of_sizes(
        self, measured: Sequence[WaveCounts], gains: Floats, nearest: int, counts: Floats
    ) -> Floats:
        """Return the variance that errors of wave sizes add to projected counts.

        Counts are divided by the size of their wave and multiplied by that of another, so errors of
        sizes matter as far as they differ between the two. Those errors come from the noise of all
        tables, including that of the counts themselves (`CountPath.grown` does the same for
        answers).
        """
        places = [self.totals.waves.index(one.wave) for one in measured]
        rows = self.sizes * self.total
        off = np.zeros((len(rows), gains.shape[1]))
        off[places] = -gains
        off[nearest] += 1.0
        unsure = self.totals.covariance / np.outer(rows, rows)
        found: Floats = counts**2 * (off * (unsure @ off)).sum(axis=0)
        for one, place, gain in zip(measured, places, gains, strict=True):
            # The total of a wave contains a table's noise in proportion to the table's precision.
            own = one.variances * self.waves[place].own_total.variances[0] / one.variances.sum()
            both = (self.totals.gains[:, place] / rows) @ off * own / one.size
            found += 2 * gain * counts * both
        return np.maximum(found, 0.0)


@dataclass(frozen=True)
class EarlierWaves(Prior):
    """The published waves of a series, as the prior of its next wave."""

    number: int  # the wave to publish
    waves: Waves = field(compare=False, repr=False)  # the waves that are already published
    kind: Kind = "release"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The numbers of the waves."""
        return f"waves {in_words(wave.number for wave in self.waves.waves)}"

    @property
    def sha256(self) -> str:  # type: ignore[override]
        """Digest of the statements of all waves together."""
        digests = "\n".join(wave.digest for wave in self.waves.waves)
        return hashlib.sha256(digests.encode()).hexdigest()

    @property
    def releases(self) -> tuple[PriorRelease, ...]:  # type: ignore[override]
        """The releases of the waves, each with the cost of its own promise."""
        return tuple(
            release_of(wave.release.folder.name, wave.release.statement)
            for wave in self.waves.waves
        )

    @property
    def added(self) -> str:
        """The promise of the series covers all waves; their own promises are not added up."""
        return "They are waves of the same series, whose promise covers them (see below)."

    def is_file_of(self, data: Any) -> bool:
        """Return False: the prior consists of releases."""
        return False

    def codes(self, schema: Schema) -> dict[str, Integers]:
        """Return no rows: the prior consists of noisy tables."""
        return {}

    def earlier(self, schema: Schema) -> EarlierEstimates:
        """Return the noisy tables of all waves, projected to the wave to publish."""
        return self.waves.brought_to(self.number)


def _most(rates: Mapping[str, DriftRate], columns: Iterable[str]) -> DriftRate:
    return DriftRate.most([rates[name] for name in columns] or rates.values())


def quilt_of(release: Release) -> QuiltEstimator:
    """Return the estimator of a wave; all waves are quilts."""
    found = release.estimator
    assert isinstance(found, QuiltEstimator)  # noqa: S101 - a series has only this method
    return found


def in_words(numbers: Iterable[int]) -> str:
    """Format numbers, with runs as ranges.

    Examples
    --------
    >>> in_words([1, 2, 3, 5])
    '1-3, 5'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
