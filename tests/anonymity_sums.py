"""Sums over all pairs of records: how many fit a perturbed record as well as its owner.

The package searches for scales and never sums up exactly; tests hold what it finds against these.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from hushtable.kernels.anonymity import Points, Vector, _prepared, _upper_tail, threads_for


def gaussian_anonymity(points: Points, sigma: Vector, *, shape: Points | None = None) -> Vector:
    """Compute A for Gaussian noise: 1 + duplicates + sum of P(M >= delta / (2 sigma)).

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [3.0, 1.0], [-1.0, 2.0]])
    >>> gaussian_anonymity(square, np.ones(6))[0].round(6)
    np.float64(1.884424)
    """
    out = np.empty(len(points))
    with threads_for(len(points) ** 2 // 100):
        _gaussian_sums(*_prepared(points, shape), np.asarray(sigma, np.float64), out)
    return out


def uniform_anonymity(points: Points, side: Vector, *, shape: Points | None = None) -> Vector:
    """Compute A for uniform noise in a cube: 1 + sum of prod max(0, 1 - w / side).

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [3.0, 1.0], [-1.0, 2.0]])
    >>> uniform_anonymity(square, np.full(6, 4.0))[0]
    np.float64(3.3125)
    """
    out = np.empty(len(points))
    with threads_for(len(points) ** 2 // 100):
        _uniform_sums(*_prepared(points, shape), np.asarray(side, np.float64), out)
    return out


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _gaussian_sums(columns: Points, inverse: Points, sigma: Vector, out: Vector) -> None:
    d, n = columns.shape
    for i in prange(n):
        row = min(np.int64(i), inverse.shape[0] - 1)
        total = 0.0
        for j in range(n):
            square = 0.0
            for column in range(d):
                step = (columns[column, i] - columns[column, j]) * inverse[row, column]
                square += step * step
            if square == 0.0:
                total += 1.0
            elif sigma[i] > 0.0:
                total += _upper_tail(math.sqrt(square) / (2.0 * sigma[i]))
        out[i] = total


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def _uniform_sums(columns: Points, inverse: Points, side: Vector, out: Vector) -> None:
    d, n = columns.shape
    for i in prange(n):
        row = min(np.int64(i), inverse.shape[0] - 1)
        total = 0.0
        for j in range(n):
            product = 1.0
            for column in range(d):
                width = abs(columns[column, i] - columns[column, j]) * inverse[row, column]
                if width > 0.0:
                    product *= 1.0 - width / side[i] if width < side[i] else 0.0
            total += product
        out[i] = total
