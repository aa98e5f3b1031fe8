"""Estimated sums over the rows of the private table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushtable.arrays import Floats
from hushtable.numeric import NORMAL


@dataclass(frozen=True, eq=False)
class SumEstimates:
    """Estimated sums with the covariance of their errors.

    Parameters
    ----------
    values : array (sums,)
        The estimates; they may be infeasible, such as a negative count.
    privacy, model : array (sums, sums)
        Covariance of the errors from noise, and from what the release leaves open.
    privacy_z, model_z : float
        Half-width of the 95% interval of each error, in standard deviations.
    counted : str
        What the sums run over: rows, or distinct tuples.
    notes : tuple of str
        What the analyst must know.
    """

    values: Floats
    privacy: Floats
    model: Floats
    privacy_z: float = NORMAL
    model_z: float = NORMAL
    counted: str = "rows"
    notes: tuple[str, ...] = ()

    def combined(self, weights: Floats) -> SumEstimates:
        """Return linear combinations of the sums, one per row of weights."""
        return replace(
            self,
            values=weights @ self.values,
            privacy=weights @ self.privacy @ weights.T,
            model=weights @ self.model @ weights.T,
        )

    def divided(self, by: float) -> SumEstimates:
        """Divide all sums by the same number."""
        return replace(
            self,
            values=self.values / by,
            privacy=self.privacy / by**2,
            model=self.model / by**2,
        )

    def half_width_squared(self, sampling: Floats | float = 0.0) -> Floats:
        """Return the squared half-width of the 95% interval, as a quadratic form in weights."""
        squares: Floats = (
            self.privacy_z**2 * self.privacy + self.model_z**2 * self.model + NORMAL**2 * sampling
        )
        return squares


def joined(n: int, parts: Sequence[tuple[Sequence[int], SumEstimates]]) -> SumEstimates:
    """Combine sums from several sources at the given positions; their errors are independent."""
    values, privacy, model = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    notes: list[str] = []
    for places, part in parts:
        at = np.ix_(places, places)
        values[list(places)] = part.values
        privacy[at], model[at] = part.privacy, part.model
        notes += part.notes
    return SumEstimates(
        values,
        privacy,
        model,
        privacy_z=max((part.privacy_z for _, part in parts), default=NORMAL),
        model_z=max((part.model_z for _, part in parts), default=NORMAL),
        notes=tuple(dict.fromkeys(notes)),
    )


def no_less(covariance: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
