"""Tails of ordered columns: noise in empty ranges must not become rows.

The outermost values of a numeric column are often empty, and there may be many of them. Each has a
noisy count, and after clipping at 0 the remainders add up to rows far from all others, which have
the largest influence on a variance or a slope. `trim_tails` returns the values at the ends that
appear to be empty, provided that the values between them clearly have rows. They stay empty when
counts are shrunk and made to add up.

The cost: rows in a tail that are too few to stand out from noise are lost, so the variance of a
column with a long thin tail is underestimated.

All of it is post-processing of noisy counts. The noisy counts themselves are published unchanged.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats

FEW = 100
"""Up to this number of values, a stretch is empty if its sum is below half a standard deviation."""

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
    """Return the number of values before the first that has rows.

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
