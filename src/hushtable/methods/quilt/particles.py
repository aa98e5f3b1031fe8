"""Weighted rows: their marginals, samples from them, and random numbers of post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.arrays import Codes16, Floats, Integers

# Random numbers of post-processing, which depend on published numbers alone.


class PostprocessingRng:
    """Random number generator of post-processing: fast, repeatable, not cryptographic.

    Parameters
    ----------
    seed : int
        Below 2**64. A method draws it from its `Noise`, so that a release is repeatable exactly
        when its noise is.

    Examples
    --------
    >>> PostprocessingRng(1).places(np.array([3.0, 0.0, 1.0]), 4).tolist()
    [0, 0, 0, 2]
    """

    def __init__(self, seed: int) -> None:
        self.state = np.array([seed], np.uint64)

    def shuffle(self, values: Integers) -> Integers:
        """Shuffle values in place, and return them."""
        kernels.log_linear.shuffle(values, self.state)
        return values

    def places(self, weights: Floats, n: int) -> Integers:
        """Return a systematic sample of n indices by weight.

        Index i occurs n times its share of the weight, rounded down or up. If the weights do not
        have a positive sum, all indices are 0.
        """
        cumulated = np.cumsum(weights)
        if n == 0 or not len(cumulated) or not cumulated[-1] > 0:
            return np.zeros(n, np.int64)
        found = np.empty(n, np.int64)
        kernels.log_linear.take_evenly(cumulated, found, self.state)
        return found

    def systematic_sample(self, weights: Floats, n: int) -> Integers:
        """Return a systematic sample of n indices by weight, in random order."""
        return self.shuffle(self.places(weights, n))


Group = tuple[int, ...]
"""Indices of columns, increasing."""

_TRIES_PER_ROW = 8
_MAX_TRIES = 2_000_000


@dataclass(frozen=True)
class SampledParticles:
    """Sampled rows, as indices of particles, which may repeat."""

    particles: Codes16  # shape (particle, column)
    places: Integers  # index of each row's particle

    @property
    def rows(self) -> Codes16:
        """The rows themselves."""
        return self.particles[self.places]

    def column(self, column: int) -> NDArray[np.int16]:
        """Return the codes of one column."""
        return np.ascontiguousarray(self.particles[:, column])[self.places]


def strides_of(shape: Sequence[int]) -> Integers:
    """Return the distance between neighbors along each axis, in cells.

    Examples
    --------
    >>> strides_of((2, 3, 5)).tolist()
    [15, 5, 1]
    """
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)


def cells_of(
    rows: Codes16, groups: Sequence[Group], maps: Sequence[Sequence[Integers]]
) -> NDArray[np.uint16]:
    """Return the cell of each row in several tables, with shape (table, row).

    For each table, `maps` gives the cell of each code, by column.
    """
    out = np.empty((len(groups), len(rows)), np.uint16)
    if not groups:
        return out
    each = [
        places * stride
        for table in maps
        for places, stride in zip(
            table, strides_of([int(places.max()) + 1 for places in table]), strict=True
        )
    ]
    tables = np.cumsum([0, *map(len, groups)])
    columns = np.array([column for group in groups for column in group], np.int64)
    starts = np.cumsum([0, *map(len, each)])
    kernels.log_linear.index_cells(rows, tables, columns, starts, np.concatenate(each), out)
    return out


def tables_of(
    rows: Codes16, weights: Floats, sizes: Group, groups: Sequence[Group]
) -> list[Floats]:
    """Sum the weights of rows over groups of columns, one array per group."""
    shapes = [tuple(sizes[column] for column in group) for group in groups]
    offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    flat = np.zeros(int(offsets[-1]))
    if groups:
        starts = np.cumsum([0, *(len(group) for group in groups)])
        columns = np.array([column for group in groups for column in group], np.int64)
        strides = np.concatenate([strides_of(shape) for shape in shapes])
        kernels.log_linear.add_weights(rows, weights, starts, columns, strides, offsets, flat)
    bounds = zip(offsets[:-1], offsets[1:], shapes, strict=True)
    return [flat[start:stop].reshape(shape) for start, stop, shape in bounds]


def by_weight(rows: Codes16, weights: Floats, n: int, rng: PostprocessingRng) -> Integers:
    """Return a systematic sample of n row indices by weight, from rows in lexicographic order."""
    order = np.lexsort(tuple(np.ascontiguousarray(column) for column in rows.T[::-1]))
    return order[rng.places(weights[order], n)]


def balance(  # noqa: PLR0917 - the sample, what it is from, and what it is measured by
    chosen: Integers,
    rows: Codes16,
    weights: Floats,
    sizes: Group,
    pairs: Sequence[Group],
    rng: PostprocessingRng,
) -> None:
    """Replace sampled row indices so that their pair counts come close to those of all rows.

    `chosen` is changed in place.
    """
    n = len(chosen)
    wanted = np.concatenate([table.ravel() for table in tables_of(rows, weights, sizes, pairs)])
    found = tables_of(rows[chosen], np.ones(n), sizes, pairs)
    excess = wanted * (-n / max(float(weights.sum()), 1e-300))
    excess += np.concatenate([table.ravel() for table in found])
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    offsets = np.cumsum([0, *(table.size for table in found)])[:-1]
    strides = np.array(sizes, np.int64)[right]
    offered = rng.systematic_sample(weights, min(_TRIES_PER_ROW * n, _MAX_TRIES))
    kernels.log_linear.swap_rows(
        rows, chosen, left, right, strides, offsets, excess, offered, rng.state
    )
