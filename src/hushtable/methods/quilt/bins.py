"""Public bins: codes of a column that were counted as one value."""

from __future__ import annotations

from collections.abc import Mapping

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


def heaps(function: RowFunction, bins: Mapping[str, Integers]) -> dict[str, Floats]:
    """Give, for columns that a condition asks for, how far it reaches in each of their bins.

    From its least to its most: all people of a bin may be in one place of it. They round what they
    say, and who asks for a number asks for a round one. Powers of a number are not asked for.

    Examples
    --------
    >>> one_of_three = RowFunction({"age": np.array([0.0, 1.0, 0.0, 1.0, 1.0])})
    >>> heaps(one_of_three, {"age": np.array([0, 0, 0, 1, 1])})["age"].tolist()
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
