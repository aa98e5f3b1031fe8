"""Comparison of degree sequences: totals, and the distribution of degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Integers

N_POINTS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class DegreeComparison:
    """Comparison of two degree sequences."""

    degrees: Integers  # evenly spaced on a logarithmic scale
    original: NDArray[np.float64]  # share of nodes with at least that degree
    published: NDArray[np.float64]
    totals: dict[str, tuple[float, float]]  # name to values in the original and in the release

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "degrees": self.degrees.tolist(),
            "original": self.original.tolist(),
            "published": self.published.tolist(),
            "totals": {name: list(pair) for name, pair in self.totals.items()},
        }


def compare_degrees(original: Integers, published: Integers) -> DegreeComparison:
    """Compare two degree sequences.

    Examples
    --------
    >>> found = compare_degrees(np.array([1, 1, 2, 4]), np.array([1, 2, 2, 3]))
    >>> found.totals["edges"], found.original.tolist()
    ((4.0, 4.0), [1.0, 0.5, 0.25, 0.25])
    """
    top = max(int(original.max(initial=1)), int(published.max(initial=1)))
    degrees = np.unique(np.rint(np.geomspace(1, top, N_POINTS)).astype(np.int64))
    totals = {
        "nodes": (float(len(original)), float(len(published))),
        "edges": (float(original.sum() / 2), float(published.sum() / 2)),
        "mean degree": (_mean(original), _mean(published)),
        "largest degree": (float(original.max(initial=0)), float(published.max(initial=0))),
        "nodes without edges": (
            float(np.count_nonzero(original == 0)),
            float(np.count_nonzero(published == 0)),
        ),
    }
    return DegreeComparison(
        degrees=degrees,
        original=_at_least(original, degrees),
        published=_at_least(published, degrees),
        totals=totals,
    )


def _mean(values: Integers) -> float:
    return float(values.mean()) if len(values) else 0.0


def _at_least(values: Integers, degrees: Integers) -> NDArray[np.float64]:
    below = np.searchsorted(np.sort(values), degrees, side="left")
    return np.asarray((len(values) - below) / max(len(values), 1))
