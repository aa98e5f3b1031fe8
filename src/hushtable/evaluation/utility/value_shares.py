"""Distributions of a column: distances between them, and bins for plots.

Ordered columns are binned into intervals, other columns into their most frequent values and the
rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.evaluation.rows import is_ordered
from hushtable.query.answers.published import KnownNoiseRows
from hushtable.schema import Categorical, Column
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups
from hushtable.simplex import project_to_simplex

MAX_BINS = 16
MAX_PLOT_BINS = 24


@dataclass(frozen=True, eq=False)
class ValueShares:
    """Shares of the codes that occur; possibly negative after noise was subtracted."""

    codes: NDArray[np.int64]
    shares: Floats
    noisy: bool = False

    def get(self, code: int) -> float:
        """Return the share of a code."""
        return float(self.shares[self.codes == code].sum())

    def aligned(self, other: ValueShares) -> tuple[Floats, Floats]:
        """Return both distributions on the union of their codes."""
        codes = np.union1d(self.codes, other.codes)
        return self._on(codes), other._on(codes)

    def _on(self, codes: NDArray[np.int64]) -> Floats:
        spread = np.zeros(len(codes))
        spread[np.searchsorted(codes, self.codes)] = self.shares
        return spread

    def projected(self) -> ValueShares:
        """Project noisy shares onto the simplex: nonnegative with sum 1."""
        return ValueShares(self.codes, project_to_simplex(self.shares)) if self.noisy else self

    def grouped(self, bins: Recoding) -> Floats:
        """Return the share of each bin."""
        return np.asarray(np.bincount(bins.apply(self.codes), self.shares, bins.size), np.float64)


def value_shares(
    column: Column, codes: NDArray[np.int32], filled: tuple[float, Floats] | None = None
) -> ValueShares:
    """Count codes; `filled` is the number of noise rows to subtract and their distribution."""
    if filled is not None:
        n_noise, shares = filled
        left = np.bincount(codes, minlength=column.size) - n_noise * shares
        return ValueShares(np.arange(column.size), left / max(left.sum(), 1.0), noisy=True)
    if column.size <= 1 << 22:
        counts = np.bincount(codes, minlength=column.size)
        present = np.flatnonzero(counts)
        return ValueShares(present, counts[present] / max(len(codes), 1))
    present, counts = np.unique(codes, return_counts=True)
    return ValueShares(present.astype(np.int64), counts / max(len(codes), 1))


def background_filled(
    column: Column, background: KnownNoiseRows | None, name: str
) -> tuple[float, Floats] | None:
    """Return the number of rows that a method added as noise, and their distribution."""
    if background is None:
        return None
    return background.n_rows, background.share(name, column.size)


def on_present(
    column: Column, truth: ValueShares, share: ValueShares
) -> tuple[NDArray[np.int64], Floats, Floats, int]:
    """Return the codes in use, both distributions among present values, and the range."""
    codes = np.union1d(truth.codes, share.codes)
    one, two = truth._on(codes), share._on(codes)
    if column.n_special:
        there = codes < column.n_values
        codes, one, two = codes[there], one[there], two[there]
    return codes, one / (one.sum() or 1.0), two / (two.sum() or 1.0), column.n_values - 1


def wasserstein(codes: NDArray[np.int64], one: Floats, two: Floats, span: int) -> float:
    """Return the area between two distribution functions, divided by the range.

    Examples
    --------
    >>> wasserstein(np.array([0, 10]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), 10)
    1.0
    """
    if not two.any() or not one.any():
        return 1.0 if one.any() != two.any() else 0.0
    gap = np.abs(np.cumsum(one - two))[:-1]
    return min(float(gap @ np.diff(codes)) / max(span, 1), 1.0)


def largest_gap(codes: NDArray[np.int64], one: Floats, two: Floats, span: int) -> float:
    """Return the largest difference between two distribution functions."""
    if not two.any() or not one.any():
        return 1.0 if one.any() != two.any() else 0.0
    return min(float(np.abs(np.cumsum(one - two)).max()), 1.0)


def total_variation(one: Floats, two: Floats) -> float:
    """Return the total variation distance; 1 if exactly one distribution is empty.

    Examples
    --------
    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
    if not two.any() or not one.any():
        return 1.0 if one.any() != two.any() else 0.0
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
    if not is_ordered(column):
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
        f"{_short(column.value(first))}"
        if first == end
        else f"{_short(column.value(first))} to {_short(column.value(end))}"
        for first, end in zip(firsts, ends, strict=True)
    ]
    has_missing = column.missing_code is not None
    special = column.special_names
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
