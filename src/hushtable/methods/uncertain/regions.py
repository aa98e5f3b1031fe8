"""Regions of near records with uniform noise: all records of a region fit equally well.

Noise that hides the most isolated record is far too wide for the others. So records are divided
into regions of at least k near records. The published value of a record is uniformly random in its
region, and the ends of the region are published too.

`divided` forms the regions: the record farthest from the center takes its nearest neighbors, as in
MDAV (Domingo-Ferrer, Mateo-Sanz 2002), until fewer than k are left, which join the nearest region.
Large sets are halved first. Distances are in standard deviations of the records, so that heavy
tails widen only their own regions. `around` rounds the ends outward to a coarse grid, so that they
are not values of records.

Regions may be formed from the records in any way, because the guarantee counts only records of the
same region (``uncertain.md``). It requires that a region has at least the k of each of its records,
and that the sample does not depend on which of its records it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.privacy.noise.noise import Noise

PARTS = 8
"""Ends of a region are on a grid with at least this many parts per width (or on single steps)."""

_AT_ONCE = 4096  # larger sets are halved before the search for neighbors


@dataclass(frozen=True)
class RecordRegions:
    """Region of each record: first and last grid point in each column."""

    first: Integers  # (n, d), in steps from each column's low, inclusive
    last: Integers

    @property
    def n_values(self) -> Integers:
        """Number of grid points of each record's region, per column."""
        return self.last - self.first + 1

    def draw(self, noise: Noise) -> Integers:
        """Sample a grid point of each record's region uniformly, independently of the record.

        Examples
        --------
        >>> from hushtable.privacy.noise.secure_noise import SecureNoise
        >>> regions = RecordRegions(np.full((100, 1), 5), np.full((100, 1), 7))
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
    """Divide records into regions with at least the k of each of their records.

    `steps` (n, d) has at least as many records as the largest `k` (n,).

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


def _neighborhoods(points: Floats, k: Integers) -> list[Integers]:
    """Group far records with their nearest neighbors, starting with the largest k."""
    left = np.arange(len(points))
    found: list[Integers] = []
    while len(left) and len(left) >= (size := int(k[left].max())):
        here = points[left]
        # Records with the largest k come first, so a region is large enough for all its records,
        # including those that join it later.
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
    """Return the ends of a region around records, rounded outward to a coarse grid.

    `steps` (n, d) are the records of the region; `n_values` (d,) limits the ends to the columns.

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
