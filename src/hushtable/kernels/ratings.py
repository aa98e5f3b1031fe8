"""Least-squares solver for one side of a rating model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("publish"):
    from numba import njit


@njit(cache=True)  # type: ignore[untyped-decorator]
def solve_sides(  # noqa: PLR0917 - kernels take arrays by position
    starts: NDArray[np.int64],
    others: NDArray[np.float64],
    other: NDArray[np.int64],
    errors: NDArray[np.float64],
    weights: NDArray[np.float64],
    prior: float,
    regularization: float,
) -> NDArray[np.float64]:
    """Solve for the bias and the factors of each user (or item) with the other side fixed.

    Ratings ``starts[i]`` to ``starts[i + 1]`` are those of number i. The model of an error is
    bias + (bias of the other) + factors times factors of the other. Squares of the unknowns are
    penalized by `prior`, plus `regularization` times the sum of weights.
    """
    n, width = len(starts) - 1, others.shape[1]
    solved = np.zeros((n, width))
    features = np.empty(width)
    for i in range(n):
        if starts[i] == starts[i + 1]:
            continue
        left = np.zeros((width, width))
        right = np.zeros(width)
        mass = 0.0
        for place in range(starts[i], starts[i + 1]):
            row = others[other[place]]
            features[0] = 1.0
            features[1:] = row[1:]
            target, weight = errors[place] - row[0], weights[place]
            mass += weight
            for a in range(width):
                right[a] += weight * features[a] * target
                for b in range(width):
                    left[a, b] += weight * features[a] * features[b]
        for a in range(width):
            left[a, a] += prior + regularization * mass + 1e-9
        solved[i] = np.linalg.solve(left, right)
    return solved
