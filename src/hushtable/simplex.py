"""Projection on a simplex: the nearest non-negative counts with a given sum.

The solution is max(0, count - shift * width) for one shift. Squares are weighted by 1/width; widths
are the variances of the counts up to a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats


def project_to_simplex(
    counts: Sequence[float] | NDArray[Any], total: float = 1.0, widths: Floats | None = None
) -> Floats:
    """Return the nearest non-negative counts with a given sum, by least squares.

    Examples
    --------
    >>> project_to_simplex([5.0, -3.0, 9.0], 10.0).tolist()
    [3.0, 0.0, 7.0]
    >>> project_to_simplex([50.0, 10.0], 50.0, np.array([1.0, 4.0])).tolist()
    [48.0, 2.0]
    """
    given = np.asarray(counts, np.float64)
    if total <= 0 or not len(given):
        return np.zeros(len(given))
    widths = np.ones(len(given)) if widths is None else widths
    order = np.argsort(-given / widths, kind="stable")
    over = (np.cumsum(given[order]) - total) / np.cumsum(widths[order])
    last = int(np.flatnonzero(given[order] / widths[order] > over)[-1])
    return np.asarray(np.maximum(given - over[last] * widths, 0.0))


def project_integers_to_simplex(
    counts: NDArray[Any], total: int, widths: Floats | None = None
) -> NDArray[np.int64]:
    """Return whole, non-negative counts with a given sum; the largest remainders are rounded up.

    Examples
    --------
    >>> project_integers_to_simplex(np.array([10, 3, -2, 1]), 11).tolist()
    [9, 2, 0, 0]
    """
    exact = project_to_simplex(counts, total, widths)
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = max(0, total - int(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
