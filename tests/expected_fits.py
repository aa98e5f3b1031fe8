"""Expected number of records that fit a perturbed one at least as well as its owner.

Computed by definition (uncertain.md) as a sum over all pairs; the kernels avoid this sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


def _distances(points: Floats, shape: Floats | None) -> Floats:
    """Return distances between records in each column, in units of the first record's scale."""
    units = np.ones((1, points.shape[1])) if shape is None else shape
    return np.abs(points[:, None] - points[None]) / units[:, None]


def gaussian_anonymity(points: Floats, sigma: Floats, *, shape: Floats | None = None) -> Floats:
    """Return 1 + duplicates + the sum of P(M >= delta / (2 sigma))."""
    delta = np.sqrt((_distances(points, shape) ** 2).sum(axis=2))
    halves = np.divide(delta, 2 * sigma[:, None], where=sigma[:, None] > 0,
                       out=np.full(delta.shape, np.inf))  # fmt: skip
    return np.where(delta == 0, 1.0, norm.sf(halves)).sum(axis=1)


def uniform_anonymity(points: Floats, side: Floats, *, shape: Floats | None = None) -> Floats:
    """Return 1 + the sum of the products of max(0, 1 - w / side)."""
    w = _distances(points, shape)
    shares = np.divide(w, side[:, None, None], where=side[:, None, None] > 0,
                       out=np.full(w.shape, np.inf))  # fmt: skip
    return np.where(w == 0, 1.0, np.maximum(1 - shares, 0)).prod(axis=2).sum(axis=1)
