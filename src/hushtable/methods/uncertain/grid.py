"""Noise that can be sampled exactly: whole steps on each column's public grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.engine.engine import Engine
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Column, Integer, Numeric
from hushtable.schema.codes import to_labels

Model = Literal["uniform", "gaussian"]

SIGMA_PARTS = 1024
"""A Gaussian's sigma is a multiple of the column's step divided by this number."""

WIDEST_SIGMA = 4
"""Largest sigma for wrapped ends, in lengths of the column; it is practically uniform."""


@dataclass(frozen=True)
class NoiseGrid:
    """Noise that can be sampled exactly on each column's public grid."""

    model: Model  # kind of noise
    step: Floats  # distance between grid points (d,), in units of the column's public scale
    n_values: Integers | None = None  # grid points of each column if it wraps; None if open

    @property
    def period(self) -> Floats | None:
        """Length of each column in normalized units, if it wraps around."""
        return None if self.n_values is None else self.n_values * self.step

    def widths(self, size: Floats) -> Integers:
        """Round sizes up: sigma to parts of a step (`SIGMA_PARTS`), a cube to steps to each side.

        Examples
        --------
        >>> # 3 grid points, 1 each side
        >>> NoiseGrid("uniform", np.array([1.0])).widths(np.array([2.5]))
        array([1])
        """
        if self.model == "uniform":
            widths = np.maximum(np.ceil((size / self.step - 1) / 2 - 1e-9), 0)
            if self.n_values is not None:  # a box of the full period contains all values
                widths = np.minimum(widths, self.n_values // 2)
            return np.asarray(widths, np.int64)
        parts = np.maximum(np.ceil(size / self.step * SIGMA_PARTS - 1e-6), 1)
        if self.n_values is not None:
            parts = np.minimum(parts, self.n_values * (WIDEST_SIGMA * SIGMA_PARTS))
        whole = np.ceil(parts / SIGMA_PARTS) * SIGMA_PARTS
        # Beyond this, fractions of a step are negligible and would overflow the sampler's integers.
        return np.where(parts > 2**21, whole, parts).astype(np.int64)

    def noise_range(self, widths: Integers) -> Floats:
        """Return sigma, or half of the full side, in normalized units."""
        parts = SIGMA_PARTS if self.model == "gaussian" else 1
        return widths * (self.step / parts)

    def draw(self, widths: Integers, noise: Noise) -> Integers:
        """Sample one error per entry of `widths` (one row per record), in steps of the grid."""
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
        """Wrap noisy values into the range of their columns."""
        return steps if self.n_values is None else steps % self.n_values


def _uniform_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Sample errors of up to `width` steps, or of one full period if that is shorter."""
    if n_values is not None and 2 * width + 1 > n_values:
        return noise.uniform_below(n_values, size=n) - (n_values - 1) // 2
    return noise.uniform_below(2 * width + 1, size=n) - width


def _gaussian_errors(width: int, n_values: int | None, n: int, noise: Noise) -> Integers:
    """Sample a discrete Gaussian; for wrapped ends, limited to half of the period."""
    variance = Fraction(width, SIGMA_PARTS) ** 2
    if n_values is None:
        return noise.discrete_gaussian(variance, size=n)
    kept = np.empty(0, np.int64)
    # Expected number of samples per accepted one.
    tries = max(1, 3 * width // (SIGMA_PARTS * n_values))
    while len(kept) < n:
        drawn = noise.discrete_gaussian(variance, size=(n - len(kept)) * tries + 16)
        # There are n_values errors, one for each value of the column, so that no value is reached
        # from both sides.
        inside = (drawn >= -((n_values - 1) // 2)) & (drawn <= n_values // 2)
        kept = np.concatenate((kept, drawn[inside]))
    return kept[:n]


# Records as arrays of numbers: read from an engine's counts, and written to a table.


def record_values(engine: Engine, columns: Sequence[str]) -> Floats:
    """Return the private records as numbers, one row each: values, or codes of categories.

    Records are the occupied cells of the full table, repeated by their counts. Every engine
    provides them, in an order that does not depend on the order of the private rows.
    """
    cells = engine.counts(columns)
    values = np.empty(cells.codes.shape)
    for place, name in enumerate(columns):
        column, codes = engine.schema.attributes[name], cells.codes[:, place]
        if not isinstance(column, Numeric):
            values[:, place] = codes
        else:
            values[:, place] = float(column.exact_low) + codes * float(column.exact_step)
            for code in range(column.n_values, column.size):  # special codes, and missing
                value = column.value(code)
                values[codes == code, place] = np.nan if value is None else float(value)
    return np.repeat(values, cells.counts, axis=0)


def records_by(carried: Floats) -> list[Integers]:
    """Group rows by their carried values: one array of rows for each combination."""
    if carried.shape[1] == 0:
        return [np.arange(len(carried))]
    # Column by column first, because NaN equals NaN within a column but not within rows.
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in carried.T]
    _, group_of = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    starts = np.flatnonzero(np.diff(group_of[order], prepend=-1))
    return np.split(order, starts[1:])


def carried_values(column: Column, values: Floats) -> pa.Array:
    """Return carried values, which are codes unless the column is numeric, as an Arrow array."""
    if not isinstance(column, Numeric):
        return to_labels(column, values.astype(np.int64))
    missing = np.isnan(values)
    if isinstance(column, Integer):
        whole = np.where(missing, 0, values).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=missing)
    return pa.array(values, pa.float64(), mask=missing)
