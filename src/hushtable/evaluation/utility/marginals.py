"""Comparison of distributions: single columns, all pairs, and a random sample of triples.

Single columns are compared value by value. Pairs and triples are compared after binning: ordered
columns into at most 16 bins of about equal weight in the original, other columns into their 15 most
frequent values and the rest. Missing is a separate category throughout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.evaluation.findings import MetricValue, Plain, metric_named, over_repeats
from hushtable.evaluation.inputs import CodedRows
from hushtable.files.progress import Progress, silent
from hushtable.numeric import project_to_simplex
from hushtable.query.answers.published import Block, KnownNoiseRows
from hushtable.schema import Categorical, Column
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups

# Distributions of a column: distances between them, and bins for plots.
#
# Ordered columns are binned into intervals, other columns into their most frequent values and the
# rest.

MAX_BINS = 16
MAX_PLOT_BINS = 24


@dataclass(frozen=True, eq=False)
class ValueShares:
    """Shares of the codes that occur; possibly negative after noise was subtracted."""

    codes: Integers
    shares: Floats
    noisy: bool = False

    def get(self, code: int) -> float:
        """Return the share of a code."""
        return float(self.shares[self.codes == code].sum())

    def aligned(self, other: ValueShares) -> tuple[Floats, Floats]:
        """Return both distributions on the union of their codes."""
        codes = np.union1d(self.codes, other.codes)
        return self._on(codes), other._on(codes)

    def _on(self, codes: Integers) -> Floats:
        shares = np.zeros(len(codes))
        shares[np.searchsorted(codes, self.codes)] = self.shares
        return shares

    def projected(self) -> ValueShares:
        """Project noisy shares onto the simplex: nonnegative with sum 1."""
        return ValueShares(self.codes, project_to_simplex(self.shares)) if self.noisy else self

    def grouped(self, bins: Recoding) -> Floats:
        """Return the share of each bin."""
        return np.asarray(np.bincount(bins.apply(self.codes), self.shares, bins.size), np.float64)


def value_shares(
    column: Column, codes: NDArray[np.int32], noise: tuple[float, Floats] | None = None
) -> ValueShares:
    """Count codes; `noise` is the number of noise rows to subtract and their distribution."""
    if noise is not None:
        n_noise, shares = noise
        left = np.bincount(codes, minlength=column.size) - n_noise * shares
        return ValueShares(np.arange(column.size), left / max(left.sum(), 1.0), noisy=True)
    if column.size <= 1 << 22:
        counts = np.bincount(codes, minlength=column.size)
        present = np.flatnonzero(counts)
        return ValueShares(present, counts[present] / max(len(codes), 1))
    present, counts = np.unique(codes, return_counts=True)
    return ValueShares(present.astype(np.int64), counts / max(len(codes), 1))


def on_present(
    column: Column, truth: ValueShares, share: ValueShares
) -> tuple[Integers, Floats, Floats, int]:
    """Return the codes in use, both distributions among present values, and the largest code."""
    codes = np.union1d(truth.codes, share.codes)
    present = codes < column.n_values
    codes, one, two = codes[present], truth._on(codes)[present], share._on(codes)[present]
    return codes, one / (one.sum() or 1.0), two / (two.sum() or 1.0), column.n_values - 1


def wasserstein(codes: Integers, one: Floats, two: Floats, span: int) -> float:
    """Return the area between two distribution functions, divided by the range.

    Examples
    --------
    >>> wasserstein(np.array([0, 10]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), 10)
    1.0
    """
    if not two.any() or not one.any():
        return float(one.any() != two.any())
    gap = np.abs(np.cumsum(one - two))[:-1]
    return min(float(gap @ np.diff(codes)) / max(span, 1), 1.0)


def largest_gap(codes: Integers, one: Floats, two: Floats, span: int) -> float:
    """Return the largest difference between two distribution functions."""
    if not two.any() or not one.any():
        return float(one.any() != two.any())
    return min(float(np.abs(np.cumsum(one - two)).max()), 1.0)


def total_variation(one: Floats, two: Floats) -> float:
    """Return the total variation distance; 1 if exactly one distribution is empty.

    Examples
    --------
    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
    if not two.any() or not one.any():
        return float(one.any() != two.any())
    return float(np.abs(one - two).sum() / 2)


# --- bins -----------------------------------------------------------------------------------------


def plot_bins(column: Column, shares: Sequence[ValueShares]) -> Recoding:
    """Return bins for a plot: equal widths over the values in use, or the most frequent values."""
    if isinstance(column, Categorical) and (column.n_values <= MAX_PLOT_BINS or not column.ordered):
        return _most_frequent(column, shares[0], MAX_PLOT_BINS)
    in_use = np.concatenate([share.codes for share in shares])
    in_use = in_use[in_use < column.n_values]
    low, high = (int(in_use.min()), int(in_use.max())) if len(in_use) else (0, 0)
    width = math.ceil((high - low + 1) / MAX_PLOT_BINS)
    return _intervals(column, range(low, high + 1, width), last=high)


def coarse_bins(column: Column, codes: NDArray[np.int32]) -> Recoding:
    """Return at most 16 bins of about equal weight, or the most frequent values if unordered."""
    if not column.is_line:
        return _most_frequent(column, value_shares(column, codes), MAX_BINS)
    if column.n_values <= MAX_BINS:
        return _intervals(column, range(column.n_values))
    present = np.sort(codes[codes < column.n_values])
    if not len(present):
        return _intervals(column, [0])
    edges = present[(np.arange(1, MAX_BINS) * len(present)) // MAX_BINS].tolist()
    return _intervals(column, sorted({0, *edges}))


def _intervals(column: Column, starts: Iterable[int], last: int | None = None) -> Intervals:
    firsts = list(starts)
    last = column.n_values - 1 if last is None else last
    ends = [*[start - 1 for start in firsts[1:]], last]
    labels = [
        " to ".join(_short(column.value(code)) for code in dict.fromkeys(interval))
        for interval in zip(firsts, ends, strict=True)
    ]
    has_missing, special = column.missing_code is not None, column.special_names
    return Intervals(tuple(labels), column.n_values, has_missing, (0, *firsts[1:]), special=special)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _most_frequent(column: Column, shares: ValueShares, most: int) -> ValueGroups:
    has_missing = column.missing_code is not None
    if column.n_values <= most:
        values = tuple(str(column.value(code)) for code in range(column.n_values))
        return ValueGroups(values, column.n_values, has_missing, tuple(range(column.n_values)))
    frequency = np.zeros(column.size)
    frequency[shares.codes] = shares.shares
    kept = np.sort(np.argsort(-frequency[: column.n_values], kind="stable")[: most - 1])
    groups = np.full(column.n_values, most - 1, np.int64)
    groups[kept] = np.arange(most - 1)
    labels = (*(str(column.value(int(code))) for code in kept), "other values")
    return ValueGroups(labels, column.n_values, has_missing, tuple(groups.tolist()))


def bin_labels(bins: Recoding) -> tuple[str, ...]:
    """Return the labels of the bins, with one for missing values."""
    return (*map(str, bins.names), *(("missing",) if bins.has_missing else ()))


N_TRIPLES = 100
_MAX_LISTED = 100_000  # with more triples in a block, a random sample replaces the full list

TOTAL_VARIATION = metric_named("total variation")
KOLMOGOROV_SMIRNOV = metric_named("Kolmogorov-Smirnov")
WASSERSTEIN = metric_named("earth mover's distance")
MISSING_SHARE = metric_named("missing share")
ASSOCIATION = metric_named("association")


@dataclass(frozen=True, eq=False)
class PlottedShares(Plain):
    """Shares of the bins or values of a column in a plot."""

    labels: tuple[str, ...]
    original: Floats
    published: Floats


@dataclass(frozen=True)
class OriginalAndPublished(Plain):
    """A number in the original and in the release."""

    original: float
    published: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnComparison(Plain):
    """Distances between two distributions of a column, and shares for a plot."""

    name: str
    ordered: bool  # whether the order of values is meaningful
    measured: tuple[MetricValue, ...]
    shares: PlottedShares


@dataclass(frozen=True, kw_only=True, eq=False)
class SetComparison(Plain):
    """Comparison of the joint distribution of two or three columns."""

    names: tuple[str, ...]
    total_variation: MetricValue  # over all draws
    independent: float  # distance of a release with exact one-way marginals and independent columns
    sampling: float  # expected distance of an independent sample with the same number of rows
    values: tuple[float, ...]  # distance of each draw
    association: OriginalAndPublished | None = None  # Cramér's V, for pairs


# --- single columns -------------------------------------------------------------------------------


def compare_column(
    name: str, original: CodedRows, draws: Sequence[CodedRows], background: KnownNoiseRows | None
) -> ColumnComparison:
    """Compare the distribution of one column, value by value."""
    column = original.schema.attributes[name]
    truth = value_shares(column, original.codes[name])
    noise = None
    if background is not None:
        noise = background.n_rows, background.share(name, column.size)
    shares = [value_shares(column, rows.codes[name], noise) for rows in draws]
    ordered = column.is_line
    measured = []
    if ordered:
        pairs = [on_present(column, truth, share) for share in shares]
        measured.append(over_repeats(WASSERSTEIN, name, [wasserstein(*pair) for pair in pairs]))
        measured.append(over_repeats(KOLMOGOROV_SMIRNOV, name, [largest_gap(*p) for p in pairs]))
        if column.missing_code is not None:
            code = column.missing_code
            gaps = [abs(truth.get(code) - share.get(code)) for share in shares]
            measured.append(over_repeats(MISSING_SHARE, name, gaps))
    else:
        distances = [total_variation(*truth.aligned(share.projected())) for share in shares]
        measured.append(over_repeats(TOTAL_VARIATION, name, distances))
    bins = plot_bins(column, [truth, *shares])
    return ColumnComparison(
        name=name,
        ordered=ordered,
        measured=tuple(measured),
        shares=PlottedShares(
            bin_labels(bins),
            truth.grouped(bins),
            np.mean([share.projected().grouped(bins) for share in shares], axis=0),
        ),
    )


# --- pairs and triples ----------------------------------------------------------------------------


class Binned:
    """Rows in bins, for joint distributions of a few columns.

    The expected counts of background noise rows are subtracted.
    """

    def __init__(
        self,
        rows: CodedRows,
        bins: Mapping[str, Recoding],
        background: KnownNoiseRows | None = None,
    ) -> None:
        self.n_rows, self._bins = rows.n_rows, bins
        self._codes = {
            name: bins[name].apply(rows.codes[name].astype(np.int64)).astype(np.int32)
            for name in rows.codes
        }
        self._noise: dict[str, Floats] = {}
        self._n_noise = 0.0
        if background is not None:
            self._n_noise = background.n_rows
            for name, column in rows.schema.attributes.items():
                places = bins[name].apply(np.arange(column.size))
                share = background.share(name, column.size)
                self._noise[name] = np.asarray(np.bincount(places, share, bins[name].size), float)

    def shares(self, names: Sequence[str]) -> Floats:
        """Return the joint distribution, one axis per column."""
        shape = tuple(self._bins[name].size for name in names)
        place = self._codes[names[0]]
        for name in names[1:]:
            place = place * self._bins[name].size + self._codes[name]
        counts = np.bincount(place, minlength=math.prod(shape)).astype(np.float64)
        if not self._n_noise:
            return (counts / max(self.n_rows, 1)).reshape(shape)
        noise = self._noise[names[0]]
        for name in names[1:]:
            noise = np.multiply.outer(noise, self._noise[name])
        left = counts - self._n_noise * noise.ravel()
        return project_to_simplex(left / max(left.sum(), 1.0)).reshape(shape)


def compare_sets(
    sets: Sequence[tuple[str, ...]],
    original: Binned,
    draws: Sequence[Binned],
    *,
    progress: Progress,
) -> list[SetComparison]:
    """Compare joint distributions of pairs or triples of columns."""
    found = []
    for number, names in enumerate(sets):
        truth = original.shares(names)
        published = [rows.shares(names) for rows in draws]
        association = None
        if len(names) == 2:
            strengths = [
                cramers_v(shares, rows.n_rows)
                for shares, rows in zip(published, draws, strict=True)
            ]
            association = OriginalAndPublished(
                cramers_v(truth, original.n_rows), float(np.mean(strengths))
            )
        values = tuple(total_variation(truth, shares) for shares in published)
        found.append(
            SetComparison(
                names=names,
                total_variation=over_repeats(TOTAL_VARIATION, " × ".join(names), values),
                values=values,
                independent=total_variation(truth, _independent(truth)),
                sampling=_sampling_error(truth, original.n_rows),
                association=association,
            )
        )
        progress(f"{['', '', 'pairs', 'triples'][len(names)]} of columns", (number + 1) / len(sets))
    return found


def _independent(joint: Floats) -> Floats:
    """Return the product of the one-way marginals."""
    product = np.ones(())
    for axis in range(joint.ndim):
        others = tuple(other for other in range(joint.ndim) if other != axis)
        product = np.multiply.outer(product, joint.sum(axis=others))
    return product


def _sampling_error(shares: Floats, n_rows: int) -> float:
    """Approximate the expected TV distance of an independent sample by normal errors."""
    std = np.sqrt(shares * (1 - shares) / max(n_rows, 1))
    return float(min(np.sqrt(2 / np.pi) * std.sum() / 2, 1.0))


def cramers_v(joint: Floats, n_rows: int) -> float:
    """Return Cramér's V of a table of shares, with Bergsma's bias correction (2013).

    Examples
    --------
    >>> round(cramers_v(np.array([[0.5, 0.0], [0.0, 0.5]]), 10_000), 3)
    1.0
    >>> cramers_v(np.full((2, 2), 0.25), 10_000)
    0.0
    """
    joint = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    n_one, n_two = joint.shape
    if min(n_one, n_two) < 2 or n_rows < 2:
        return 0.0
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    phi2 = float(((joint - expected) ** 2 / expected).sum())
    phi2 = max(0.0, phi2 - (n_one - 1) * (n_two - 1) / (n_rows - 1))
    one = n_one - (n_one - 1) ** 2 / (n_rows - 1)
    two = n_two - (n_two - 1) ** 2 / (n_rows - 1)
    return float(min(math.sqrt(phi2 / max(min(one, two) - 1, 1e-12)), 1.0))


# --- all comparisons ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Marginals:
    """All comparisons of distributions."""

    columns: list[ColumnComparison]
    pairs: list[SetComparison]  # columns that are published together
    triples: list[SetComparison]
    n_pairs: int  # number of pairs in the table, published together or not
    n_triples: int


def compare_marginals(
    blocks: Sequence[Block],
    originals: Sequence[CodedRows],
    draws: Sequence[Sequence[CodedRows]],
    rng: np.random.Generator,
    *,
    names: Sequence[str],
    progress: Progress = silent,
) -> Marginals:
    """Compare single columns, and pairs and triples of columns that are published together.

    `originals` and `draws` contain, for each block, the original rows that it describes and its
    published rows, sampled one or more times. `names` is the order of columns in the report.
    """
    columns = []
    for number, name in enumerate(names):
        place = next(at for at, block in enumerate(blocks) if name in block.names)
        columns.append(
            compare_column(name, originals[place], draws[place], blocks[place].background)
        )
        progress("single columns", (number + 1) / len(names))
    at = _places(blocks, rng)
    compared: dict[int, list[SetComparison]] = {2: [], 3: []}
    for position, block in enumerate(blocks):
        if len(block.names) < 2:
            continue
        bins = {
            name: coarse_bins(column, originals[position].codes[name])
            for name, column in block.schema.attributes.items()
        }
        truth = Binned(originals[position], bins)
        published = [Binned(rows, bins, block.background) for rows in draws[position]]
        for size in (2, 3):
            mine = [
                names for names, place in at.items() if place == position and len(names) == size
            ]
            compared[size] += compare_sets(mine, truth, published, progress=progress)
    return Marginals(
        columns=columns,
        pairs=compared[2],
        triples=compared[3],
        n_pairs=math.comb(len(names), 2),
        n_triples=math.comb(len(names), 3),
    )


def _places(blocks: Sequence[Block], rng: np.random.Generator) -> dict[tuple[str, ...], int]:
    """Choose all pairs and some triples; map each to the first block that contains it."""
    pairs, triples = dict[tuple[str, ...], int](), dict[tuple[str, ...], int]()
    for place, block in enumerate(blocks):
        for chosen in itertools.combinations(block.names, 2):
            pairs.setdefault(chosen, place)
        n = len(block.names)
        candidates: Iterable[tuple[str, ...]] = itertools.combinations(block.names, 3)
        if math.comb(n, 3) > _MAX_LISTED:
            picks = [np.sort(rng.choice(n, 3, replace=False)) for _ in range(N_TRIPLES)]
            candidates = [(block.names[i], block.names[j], block.names[k]) for i, j, k in picks]
        for three in candidates:
            triples.setdefault(three, place)
    listed = list(triples)
    if len(listed) > N_TRIPLES:
        picked = np.sort(rng.choice(len(listed), N_TRIPLES, replace=False))
        listed = [listed[pick] for pick in picked]
    return pairs | {chosen: triples[chosen] for chosen in listed}
