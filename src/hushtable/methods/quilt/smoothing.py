"""Smoothness along ordered columns: interpolated factors, and shrinkage of noise across cells.

Neighboring values of an ordered column are usually similar. The model uses this twice:

- the log-factors of a coarse table do not jump from cell to cell: they are interpolated linearly
  between the centers of cells (`interpolation_matrix`);
- shrinkage is smooth: neighboring cells are shrunk toward each other, and all toward zero
  (`smoothed`).

Some orders mean little (occupation codes, numbers used as names), so the similarity of neighbors is
estimated for each column (`estimate_similarity`): noise in different cells is independent, so it
does not change the mean product of the deviations of two neighbors from independence. If the
similarity is zero, log-factors are constant in each cell and cells are shrunk independently.
Missing values, and values that stand out from their neighbors, are not on the line.

Shrinkage cell by cell would remove a little from each of a thousand cells, and with it most of the
association of two columns, which is distributed over all cells. Smooth shrinkage keeps it, because
it extends over large parts of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.kernels.log_linear import THETA_LIMIT

LENGTH = 3.0
"""Number of buckets over which similarity falls to 1/e."""

MAX_SIMILARITY = 0.9
"""Maximum similarity: part of each cell stays independent of its neighbors."""

MIN_SIMILARITY = 0.05
"""Similarity below which none is assumed."""

STRAIGHT = 0.5
"""Minimum similarity for full interpolation of factors."""

TREND = 2.0
"""Variance of a linear trend along a column, relative to that of a cell, times the similarity.

It is so large that a trend is hardly shrunk.
"""

BEYOND = 1.0
"""Maximum extrapolation beyond the outermost centers, in distances between two centers."""

_N_NEWTON, _N_CONJUGATE = 4, 30


@dataclass(frozen=True)
class BucketLine:
    """Positions of the buckets of an ordered column."""

    at: Floats  # the mean position of the values of each bucket
    off_line: Bools  # buckets not on the line: missing, and values that stand out


def interpolation_matrix(
    line: BucketLine, cells: Integers, masses: Floats, similarity: float
) -> Floats:
    """Return the interpolation matrix (bucket, cell) from log-factors of cells to buckets.

    `cells` gives the cell of each bucket, `masses` the share of each bucket.

    Examples
    --------
    >>> line = BucketLine(np.arange(4.0), np.zeros(4, bool))
    >>> interpolation_matrix(line, np.array([0, 0, 1, 1]), np.ones(4), 1.0)
    array([[ 1.25, -0.25],
           [ 0.75,  0.25],
           [ 0.25,  0.75],
           [-0.25,  1.25]])
    """
    steps = np.zeros((len(cells), int(cells.max()) + 1))
    steps[np.arange(len(cells)), cells] = 1.0
    on_line = ~line.off_line
    knots = np.unique(cells[on_line])
    weight = min(1.0, similarity / STRAIGHT)
    if len(knots) < 2 or len(cells) == steps.shape[1] or weight < MIN_SIMILARITY:
        return steps
    mass = np.bincount(cells[on_line], masses[on_line], steps.shape[1])[knots]
    centers = np.bincount(cells[on_line], (masses * line.at)[on_line], steps.shape[1])[knots] / mass
    x = line.at[on_line]
    left = np.clip(np.searchsorted(centers, x, side="right") - 1, 0, len(knots) - 2)
    part = (x - centers[left]) / (centers[left + 1] - centers[left])
    part = np.clip(part, -BEYOND, 1 + BEYOND)
    lines = steps.copy()
    lines[on_line] = 0.0
    places = np.flatnonzero(on_line)
    lines[places, knots[left]] = 1 - part
    lines[places, knots[left + 1]] = part
    # Shift the lines so that the mean over a cell is the cell's own factor; otherwise the fit would
    # not converge.
    share = steps * masses[:, None]
    lines += steps @ (np.eye(len(share.T)) - (share / share.sum(axis=0)).T @ lines)
    mixed: Floats = weight * lines + (1 - weight) * steps
    return mixed


def estimate_similarity(parts: Sequence[tuple[Floats, Floats, float, float]]) -> float:
    """Estimate the similarity of neighbors along the first axis of tables.

    Each part is a table's noisy deviations from independence, its expected counts, the standard
    deviation of the noise, and the number of buckets per cell along the axis.
    """
    neighbors = itself = 0.0
    for gaps, expected, std, width in parts:
        size = len(gaps)
        if size < 3:
            continue
        weights = 1 / np.sqrt(np.maximum(expected, 0.0) + std)
        scaled = gaps * weights
        neighbors += float((scaled[:-1] * scaled[1:]).sum()) * size / (size - 1)
        signal = float((scaled**2 - (std * weights) ** 2).sum())
        itself += signal * math.exp(-width / LENGTH)
    found = neighbors / itself if itself > 0 else 0.0
    return min(found, MAX_SIMILARITY) if found > MIN_SIMILARITY else 0.0


@dataclass(frozen=True)
class Stiffness:
    """Regularizer of log-factors along one axis."""

    centered: Floats  # projection that removes the mean
    bent: Floats  # inverse of the expected similarity of cells, centered
    is_plain: bool  # whether cells are independent

    @classmethod
    def of(
        cls, cells: Integers, line: BucketLine | None, similarity: float, trend: float
    ) -> Stiffness:
        """Return the regularizer for a column's cells; without a line, cells are independent."""
        size = int(cells.max()) + 1
        centered = np.eye(size) - 1 / size
        if line is None or similarity < MIN_SIMILARITY or size < 3:
            return cls(centered, centered, is_plain=True)
        like = _similarity(cells, line, similarity, trend)
        return cls(centered, centered @ np.linalg.inv(like) @ centered, is_plain=False)


def _similarity(cells: Integers, line: BucketLine, similarity: float, trended: float) -> Floats:
    """Return the expected similarity of the cells of an ordered column."""
    at = np.bincount(cells, np.arange(len(cells))) / np.bincount(cells)
    alone = np.bincount(cells, line.off_line) == np.bincount(cells)
    trend = at - at[~alone].mean() if not alone.all() else at
    trend = trend / max(float(np.sqrt(np.mean(trend**2))), 1e-12)
    like: Floats = similarity * np.exp(-np.abs(at[:, None] - at) / LENGTH)
    np.fill_diagonal(like, 1.0 + 1e-3)
    like += trended * similarity * np.outer(trend, trend)
    own = np.diag(np.diag(like))
    like[alone], like[:, alone] = own[alone], own[:, alone]
    return like


def smoothed(
    counts: Floats, expected: Floats, theta: Floats, pull: float, axes: Sequence[Stiffness]
) -> Floats:
    """Return the log-factors x that solve expected * e^x + pull * P x = counts.

    P is the regularizer of the axes for their interaction, and the identity for the rest. The
    equation is solved by Newton's method from `theta`, with conjugate gradients for each step.
    """
    shape = tuple(len(axis.bent) for axis in axes)
    centered, bent = [axis.centered for axis in axes], [axis.bent for axis in axes]

    def held(x: Floats) -> Floats:
        table = x.reshape(shape)
        both: Floats = (table - _along(table, centered) + _along(table, bent)).ravel()
        return both

    firm = np.ones(1)
    for axis in axes:
        firm = np.multiply.outer(firm, np.diag(axis.bent))
    x = theta.copy()
    for _ in range(_N_NEWTON):
        scaled = expected * np.exp(x)
        right = counts - scaled - pull * held(x)
        scale = scaled + pull * firm.ravel()
        step, residual = np.zeros_like(x), right.copy()
        direction = residual / scale
        product = float(residual @ direction)
        enough = 1e-6 * max(product, 1e-300)
        for _ in range(_N_CONJUGATE):
            if product <= enough:
                break
            image = scaled * direction + pull * held(direction)
            length = product / float(direction @ image)
            step += length * direction
            residual -= length * image
            turned = residual / scale
            product, before = float(residual @ turned), product
            direction = turned + product / before * direction
        step = np.clip(step, -1.5, 1.5)
        x = np.clip(x + step, -THETA_LIMIT, THETA_LIMIT)
        if np.abs(step).max() < 1e-2:
            break
    return x


def _along(table: Floats, matrices: Sequence[Floats]) -> Floats:
    """Multiply each axis of a table by a symmetric matrix."""
    if len(matrices) == 2:  # most tables; faster than the general case
        first, second = matrices
        both: Floats = (second @ (first @ table).T).T
        return both
    for axis, matrix in enumerate(matrices):
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return table
