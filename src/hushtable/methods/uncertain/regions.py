"""Regions of near records, in which noise is even: everybody in one fits what is published alike.

*What.* Noise that must hide the loneliest record is far too wide for all others. So records are
divided into regions of at least k near ones, and what is published for a record is any value of
its region, all equally likely. The ends of the region are published too.

*How.* `divided`: the record farthest from the middle takes its nearest neighbors, as in MDAV
(Domingo-Ferrer, Mateo-Sanz 2002), until fewer than k are left, who join the nearest region. Of many
records, halves are taken first. Distances are in standard deviations of the records, so that heavy
tails make regions wide only where they are. `around`: ends are rounded outward to a coarse grid, so
that they are nobody's values.

*Why so.* How regions are formed may look at the records in any way: the promise counts only
records of the same region (``uncertain.md``). It needs two things, that a region has at least as
many records as each of them asks for, and that the draw does not depend on which of them it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.kernels.space import Points
from hushtable.privacy.noise import Noise

Integers = NDArray[np.int64]

PARTS = 8
"""Ends of a region lie on a grid with at least so many parts to its width (or on single steps)."""

_AT_ONCE = 4096  # records among which neighbors are looked for; more are halved first


@dataclass(frozen=True)
class Regions:
    """Hold the region of each record: its first and last grid point in each column.

    Parameters
    ----------
    first, last : array (n, d)
        Steps from each column's low, both included.
    """

    first: Integers
    last: Integers

    @property
    def n_values(self) -> Integers:
        """Number of grid points of each record's region, in each column."""
        return self.last - self.first + 1

    def draw(self, noise: Noise) -> Integers:
        """Draw a grid point of each record's region, all equally likely: not a look at the record.

        Examples
        --------
        >>> from hushtable.privacy.secure_noise import SecureNoise
        >>> regions = Regions(np.full((100, 1), 5), np.full((100, 1), 7))
        >>> set(regions.draw(SecureNoise()).ravel().tolist())
        {5, 6, 7}
        """
        sizes = self.n_values.ravel()
        drawn = np.empty(len(sizes), np.int64)
        order = np.argsort(sizes, kind="stable")
        values, starts = np.unique(sizes[order], return_index=True)
        for value, places in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
            drawn[places] = noise.uniform_below(value, size=len(places))
        return self.first + drawn.reshape(self.first.shape)


def divided(steps: Integers, k: Integers) -> list[Integers]:
    """Divide records into regions that have as many of them as each of their records asks for.

    Parameters
    ----------
    steps : array (n, d)
        The records, of which there are at least as many as one asks for.
    k : array (n,)
        How many each record asks for.

    Examples
    --------
    >>> rows = divided(np.array([[0], [100], [1], [101], [2], [99], [50]]), np.full(7, 3))
    >>> [sorted(members.tolist()) for members in rows]
    [[1, 3, 5], [0, 2, 4, 6]]
    """
    spread = steps.std(axis=0)
    points = (steps - steps.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    found: list[Integers] = []
    pieces = [np.arange(len(steps))]
    while pieces:
        rows = pieces.pop()
        if len(rows) > max(_AT_ONCE, 4 * int(k[rows].max())):
            widest = int(np.argmax(points[rows].std(axis=0)))
            pieces += np.array_split(rows[np.argsort(points[rows, widest], kind="stable")], 2)
        else:
            found += [rows[members] for members in _neighborhoods(points[rows], k[rows])]
    return found


def _neighborhoods(points: Points, k: Integers) -> list[Integers]:
    """Take far records with their nearest, those first who ask for most."""
    left = np.arange(len(points))
    found: list[Integers] = []
    while len(left) and len(left) >= (size := int(k[left].max())):
        here = points[left]
        # Who asks for most is served first, so a region is large enough for all who are in it,
        # and for all who may join it later.
        away = ((here - here.mean(axis=0)) ** 2).sum(axis=1)
        seed = int(np.argmax(np.where(k[left] == size, away, -1.0)))
        distances = ((here - here[seed]) ** 2).sum(axis=1)
        members = np.argpartition(distances, size - 1)[:size]
        found.append(left[members])
        left = np.delete(left, members)
    centers = np.stack([points[members].mean(axis=0) for members in found])
    for row in left:
        nearest = int(np.argmin(((centers - points[row]) ** 2).sum(axis=1)))
        found[nearest] = np.append(found[nearest], row)
    return found


def around(steps: Integers, n_values: Integers) -> tuple[Integers, Integers]:
    """Give the ends of a region around records: outward, on a grid coarser than their values.

    Parameters
    ----------
    steps : array (n, d)
        The records of the region.
    n_values : array (d,)
        Number of grid points of each column; no end lies beyond them.

    Examples
    --------
    >>> around(np.array([[33, 7], [99, 7]]), np.array([100, 100]))
    (array([32,  7]), array([99,  7]))
    """
    low, high = steps.min(axis=0), steps.max(axis=0)
    grid = np.maximum((high - low) // PARTS, 1)
    grid = 2 ** np.floor(np.log2(grid)).astype(np.int64)
    first = low // grid * grid
    last = np.minimum((high // grid + 1) * grid - 1, n_values - 1)
    return np.asarray(first, np.int64), np.asarray(last, np.int64)
