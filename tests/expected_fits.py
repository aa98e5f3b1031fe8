"""How many records fit a perturbed one at least as well as its owner, by definition (uncertain.md).

A sum over all pairs of records, for the scales that the kernels find without it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


def _apart(points: Floats, shape: Floats | None) -> Floats:
    """Give how far records are from each other in each column, in units of the first one's."""
    units = np.ones((1, points.shape[1])) if shape is None else shape
    return np.abs(points[:, None] - points[None]) / units[:, None]


def gaussian_anonymity(points: Floats, sigma: Floats, *, shape: Floats | None = None) -> Floats:
    """Give 1 + duplicates + the sum of P(M >= delta / (2 sigma))."""
    delta = np.sqrt((_apart(points, shape) ** 2).sum(axis=2))
    halves = np.divide(delta, 2 * sigma[:, None], where=sigma[:, None] > 0,
                       out=np.full(delta.shape, np.inf))  # fmt: skip
    return np.where(delta == 0, 1.0, norm.sf(halves)).sum(axis=1)


def uniform_anonymity(points: Floats, side: Floats, *, shape: Floats | None = None) -> Floats:
    """Give 1 + the sum of the products of max(0, 1 - w / side)."""
    w = _apart(points, shape)
    shares = np.divide(w, side[:, None, None], where=side[:, None, None] > 0,
                       out=np.full(w.shape, np.inf))  # fmt: skip
    return np.where(w == 0, 1.0, np.maximum(1 - shares, 0)).prod(axis=2).sum(axis=1)
