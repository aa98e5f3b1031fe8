"""The ends of ordered columns: where hardly anybody is, noise must not look like people.

What it does. The outermost values of a numeric column are often empty, and there may be many of
them. Each has a noisy count, and what is left of those when none may be negative adds up: rows far
from all others, which weigh most in a variance or a slope. `cut` says which values at the ends are
empty for all that can be told, where people are clearly between them. They stay empty when counts
are drawn together and made to add up.

The other side. People who are there but too few to be told from noise are lost, so the variance of
a column with a long thin tail comes out too small.

All of it is post-processing of noisy counts. The noisy counts themselves are published as they are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushtable.methods.quilt.domains import Floats

FEW = 100
"""Of so many values, a stretch at an end is empty if its sum is below half a standard deviation."""

CLEAR = 6.0
"""Standard deviations of their noise that the values between the ends hold, all together.

With less nothing is cut: people who are spread thinly over many values would be taken for nobody,
and the error of that would be said to be that of the few values that are left.
"""


def cut(counts: Floats, std: float) -> NDArray[np.bool_]:
    """Say which values at the ends of an ordered column are taken to be empty.

    Examples
    --------
    >>> cut(np.array([0.3, -1.2, 0.4, 9.0, 40.0, 50.0, 3.0, -0.1]), 1.0).tolist()
    [True, True, True, False, False, False, False, True]
    """
    empty = np.zeros(len(counts), bool)
    empty[: _n_empty(counts, std)] = True
    empty[len(counts) - _n_empty(counts[::-1], std) :] = True
    left = counts[~empty]
    is_clear = left.sum() > CLEAR * std * len(left) ** 0.5
    return empty if is_clear else np.zeros(len(counts), bool)


def _n_empty(counts: Floats, std: float) -> int:
    """Count the values before the first people.

    From the end inwards, stretches that would make the counts fall are averaged, so that stretches
    rise. Those at the end that are like noise are empty.
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
    # Among many values noise looks like people somewhere, and they would be far from all others.
    least = (0.5 + 0.75 * max(0.0, math.log2(len(counts) / FEW))) * std
    for total, width in zip(sums, widths, strict=True):
        if total >= least * width**0.5:
            return n_empty
        n_empty += width
    return 0  # nobody anywhere: nothing to tell the ends from
