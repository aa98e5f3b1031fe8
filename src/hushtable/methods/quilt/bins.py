"""Public bins: codes of a column that are counted as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.query.answers.row_sums import RowFunction


def by_bin(bins: Integers) -> tuple[Integers | None, Integers]:
    """Return all codes ordered by bin, and the position at which each bin starts.

    The order is None if the codes are already ordered: a column may have ten million of them.

    Examples
    --------
    >>> by_bin(np.array([0, 0, 0, 1, 1]))
    (None, array([0, 3]))
    >>> [places.tolist() for places in by_bin(np.array([0, 1, 1, 0]))]
    [[0, 3, 1, 2], [0, 2]]
    """
    rises = bool((bins[1:] >= bins[:-1]).all())
    sizes = np.bincount(bins)
    return None if rises else np.argsort(bins, kind="stable"), np.cumsum(sizes) - sizes


def range_in_bins(function: RowFunction, bins: Mapping[str, Integers]) -> dict[str, Floats]:
    """Return the range (maximum minus minimum) of each factor within each bin, by column.

    All rows of a bin may share one value, because people round their answers and queries ask for
    round numbers. Columns that enter as powers of a number are left out, and so are columns without
    such a range.

    Examples
    --------
    >>> one_of_three = RowFunction({"age": np.array([0.0, 1.0, 0.0, 1.0, 1.0])})
    >>> range_in_bins(one_of_three, {"age": np.array([0, 0, 0, 1, 1])})["age"].tolist()
    [1.0, 0.0]
    """
    found = {}
    for name, factor in function.factors.items():
        if name not in function.powers and int(bins[name].max()) + 1 < len(factor):
            order, first = by_bin(bins[name])
            ordered = factor if order is None else factor[order]
            ranges = np.maximum.reduceat(ordered, first) - np.minimum.reduceat(ordered, first)
            if ranges.any():
                found[name] = np.asarray(ranges)
    return found


def heaped(
    heaps: Sequence[Mapping[str, Floats]],
    factors: Sequence[Mapping[str, Floats]],
    bins: Mapping[str, Integers],
    *,
    together: bool,
) -> Floats:
    """Return squared half-widths that allow for heaping inside public bins.

    A binned column is counted by bin, so the position of a row inside its bin is unknown. People
    round their answers: all rows of a bin may have the queried value, or none. This can change sum
    i by up to ``heaps[i][column][bin]``; squared changes add over bins and columns. Two sums that
    query the same codes of a bin change together, so their ratio may be known although neither sum
    is: their product is weighted by the correlation of their factors over the codes.

    The result has shape (sums, sums); products are 0 unless `together`. Entries are squared
    half-widths: divide by the squared critical value before adding them to a covariance.

    Examples
    --------
    >>> whole, half = np.array([8.0, 0.0]), np.array([4.0, 0.0])
    >>> first = np.array([1.0, 0.0, 0.0, 0.0])
    >>> bins = {"age": np.array([0, 0, 1, 1])}
    >>> heaped([{"age": whole}, {"age": half}], [{"age": first}] * 2, bins, together=True).tolist()
    [[64.0, 32.0], [32.0, 16.0]]
    """
    found = np.zeros((len(heaps), len(heaps)))
    for i, one in enumerate(heaps):
        for j in range(i + 1) if together else (i,):
            for name in one.keys() & heaps[j].keys():
                alike = _alike(bins[name], factors[i][name], factors[j][name]) if i != j else 1.0
                found[i, j] += float(np.sum(alike * one[name] * heaps[j][name]))
            found[j, i] = found[i, j]
    return found


def _alike(bins: Integers, one: Floats, other: Floats) -> Floats:
    """Return the correlation of two functions of codes within each bin."""
    sizes = np.bincount(bins)
    one, other = (f - (np.bincount(bins, f) / sizes)[bins] for f in (one, other))
    squares = np.bincount(bins, one**2) * np.bincount(bins, other**2)
    return np.asarray(np.bincount(bins, one * other) / np.sqrt(np.maximum(squares, 1e-300)))
