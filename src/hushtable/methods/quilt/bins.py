"""Public bins: codes of a column that were counted as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hushtable.estimate.row_functions import RowFunction
from hushtable.methods.quilt.domains import Floats, Integers


def by_bin(bins: Integers) -> tuple[Integers | None, Integers]:
    """Give all codes, those of one bin after the other, and where each bin begins.

    No order is given where codes have it already: a column may have ten million of them.

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


def reaches(function: RowFunction, bins: Mapping[str, Integers]) -> dict[str, Floats]:
    """Give, for columns that a condition asks for, how far it reaches in each of their bins.

    From its least to its most: all people of a bin may be in one place of it. They round what they
    say, and who asks for a number asks for a round one. Powers of a number are not asked for.

    Examples
    --------
    >>> one_of_three = RowFunction({"age": np.array([0.0, 1.0, 0.0, 1.0, 1.0])})
    >>> reaches(one_of_three, {"age": np.array([0, 0, 0, 1, 1])})["age"].tolist()
    [1.0, 0.0]
    """
    found = {}
    for name, factor in function.factors.items():
        if name not in function.powers and int(bins[name].max()) + 1 < len(factor):
            order, first = by_bin(bins[name])
            ordered = factor if order is None else factor[order]
            reach = np.maximum.reduceat(ordered, first) - np.minimum.reduceat(ordered, first)
            if reach.any():
                found[name] = np.asarray(reach)
    return found


def heaped(
    heaps: Sequence[Mapping[str, Floats]],
    factors: Sequence[Mapping[str, Floats]],
    bins: Mapping[str, Integers],
    *,
    together: bool,
) -> Floats:
    """Give squares and products of what people of bins add to sums if they are all in one place.

    Two sums that ask for the same places of a bin err together: a share among people whose number
    is not known may well be.

    Parameters
    ----------
    heaps : sequence of mappings of str to array
        For each sum, and columns with bins, what the people of each bin would add.
    factors : sequence of mappings of str to array
        What the sum counts of these columns, by code.
    bins : mapping of str to int array
        For each code of a column the value that it was counted as.
    together : bool
        Whether products are wanted, too.

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
    """Say how alike two functions of codes are in each bin, from -1 to 1."""
    sizes = np.bincount(bins)
    one, other = (f - (np.bincount(bins, f) / sizes)[bins] for f in (one, other))
    squares = np.bincount(bins, one**2) * np.bincount(bins, other**2)
    return np.asarray(np.bincount(bins, one * other) / np.sqrt(np.maximum(squares, 1e-300)))
