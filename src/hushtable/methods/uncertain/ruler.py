"""Noise that can be drawn exactly: whole steps on each column's public grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hushtable.kernels.space import Vector
from hushtable.privacy.noise import Noise

Model = Literal["uniform", "gaussian"]
Integers = NDArray[np.int64]

SIGMA_PARTS = 1024
"""A Gaussian's sigma is a whole number of such parts of the column's step."""

WIDEST_SIGMA = 4
"""On joined ends a sigma of so many lengths of the column is as good as even, and the widest."""


@dataclass(frozen=True)
class Ruler:
    """Know which noise can be drawn exactly: on each column's public grid.

    Parameters
    ----------
    model : {"uniform", "gaussian"}
        The kind of noise.
    step : array (d,)
        The distance between grid points, in units of the column's public scale.
    n_values : array (d,), optional
        Number of grid points of each column, if its two ends are joined; None for open columns.
    """

    model: Model
    step: Vector
    n_values: Integers | None = None

    @property
    def period(self) -> Vector | None:
        """Length of each column in normalized units, if its ends are joined."""
        return None if self.n_values is None else self.n_values * self.step

    def widths(self, size: Vector) -> Integers:
        """Round a sigma or a cube side up to a whole number of parts, or of steps to each side.

        Examples
        --------
        >>> Ruler("uniform", np.array([1.0])).widths(np.array([2.5]))  # 3 grid points, 1 each side
        array([1])
        """
        if self.model == "uniform":
            widths = np.maximum(np.ceil((size / self.step - 1) / 2 - 1e-9), 0)
            if self.n_values is not None:  # a box that goes all the way round reaches everything
                widths = np.minimum(widths, self.n_values // 2)
            return np.asarray(widths, np.int64)
        parts = np.maximum(np.ceil(size / self.step * SIGMA_PARTS - 1e-6), 1)
        if self.n_values is not None:
            parts = np.minimum(parts, self.n_values * (WIDEST_SIGMA * SIGMA_PARTS))
        whole = np.ceil(parts / SIGMA_PARTS) * SIGMA_PARTS
        # Beyond this, parts of a step no longer matter and would not fit the sampler's integers.
        return np.where(parts > 2**21, whole, parts).astype(np.int64)

    def reach(self, widths: Integers) -> Vector:
        """Give sigma, or half the side from end to end, in normalized units."""
        parts = SIGMA_PARTS if self.model == "gaussian" else 1
        return widths * (self.step / parts)

    def draw(self, widths: Integers, noise: Noise) -> Integers:
        """Draw one error per entry of `widths` (one row per record), in steps of the grid."""
        out = np.empty(widths.shape, np.int64)
        for column in range(widths.shape[1]):
            n_values = None if self.n_values is None else int(self.n_values[column])
            order = np.argsort(widths[:, column], kind="stable")
            values, starts = np.unique(widths[order, column], return_index=True)
            for value, rows in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
                if self.model == "uniform":
                    out[rows, column] = _uniform_errors(value, n_values, len(rows), noise)
                else:
                    out[rows, column] = _gaussian_errors(value, n_values, len(rows), noise)
        return out

    def place(self, steps: Integers) -> Integers:
        """Bring noisy values back into the columns, the way round their joined ends."""
        return steps if self.n_values is None else steps % self.n_values


def _uniform_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Draw from the grid points up to `width` away; all the way round, each value once."""
    if n_values is not None and 2 * width + 1 > n_values:
        return noise.uniform_below(n_values, size=n) - (n_values - 1) // 2
    return noise.uniform_below(2 * width + 1, size=n) - width


def _gaussian_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Draw a discrete Gaussian; with joined ends, one that goes at most half way round."""
    variance = Fraction(width, SIGMA_PARTS) ** 2
    if n_values is None:
        return noise.discrete_gaussian(variance, size=n)
    kept = np.empty(0, np.int64)
    tries = max(1, 3 * width // (SIGMA_PARTS * n_values))  # about as many as one inside takes
    while len(kept) < n:
        drawn = noise.discrete_gaussian(variance, size=(n - len(kept)) * tries + 16)
        # n_values errors, one for each value round the column: none may be reached both ways.
        inside = (drawn >= -((n_values - 1) // 2)) & (drawn <= n_values // 2)
        kept = np.concatenate((kept, drawn[inside]))
    return kept[:n]
