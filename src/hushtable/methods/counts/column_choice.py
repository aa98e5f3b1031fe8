"""Private choice of columns from noisy counts of pairs; proofs are in ``columns.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from hushtable import kernels
from hushtable.arrays import Floats, Integers
from hushtable.engine.baskets import ItemColumns
from hushtable.engine.sealed_table import SealedTable
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RowwiseMechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.recoding import Recoding

FLOOR = 4.0
"""Denominators are at least this many standard deviations of the noise."""

CLEAR = 2.0
"""Items with a noisy support of at least this many standard deviations are compared."""

COMPARED_PER_CLUSTER = 2
"""Minimum number of compared items per cluster, however rare, if there are that many."""

MOST_COMPARED = 1000
"""Maximum number of compared items, unless the number of clusters requires more."""


@dataclass(frozen=True)
class PairMechanism:
    """Noise for pair counts; one record changes up to `n_touched` of them by 1 each.

    Gaussian noise of variance n_touched / (2 rho) is rho-zCDP (Canonne, Kamath and Steinke 2020),
    and Laplace noise of scale n_touched / epsilon is epsilon-differentially private. The one with
    the smaller standard deviation is used; both are sampled exactly.
    """

    n_touched: int
    epsilon: Fraction
    delta: Fraction

    @cached_property
    def _variance(self) -> Fraction:
        """Variance of the Gaussian, rounded up to an integer: fast to sample, and more private."""
        rho = concentrated_share(self.epsilon, self.delta)
        return Fraction(math.ceil(self.n_touched / (2 * rho)))

    @property
    def _scale(self) -> Fraction:
        return self.n_touched / self.epsilon

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian; Laplace noise leaves the delta unspent."""
        return self._variance < 2 * self._scale**2

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one count."""
        variance = self._variance if self.is_gaussian else 2 * self._scale**2
        return math.sqrt(variance)

    @property
    def law(self) -> Laplace | Gaussian:
        """The noise distribution."""
        return Gaussian(self._variance) if self.is_gaussian else Laplace(self._scale)


def item_groups(
    source: SealedTable,
    noise: Noise,
    *,
    item_columns: ItemColumns,
    max_values: int,
    recode: Mapping[str, Recoding],
    similarity: str,
    sizes: Sequence[int],
    pair_noise: PairMechanism,
) -> list[list[int]]:
    """Cluster the items of a long table by noisy counts, using pairs of frequent items only."""
    counted = source.item_support(item_columns, max_values=max_values, recode=recode)
    support = noise.open(counted, pair_noise.law, "items")
    compared = worth_comparing(support, pair_noise.std, sizes)
    pairs = source.item_pairs(
        item_columns, items=compared.tolist(), max_values=max_values, recode=recode
    )
    agree, differ = noise.open(pairs, RowwiseMechanism(pair_noise.law), "pairs of items")
    similar = similarities(similarity, support[compared], agree, differ, FLOOR * pair_noise.std)
    others = np.setdiff1d(np.arange(len(support)), compared)
    groups = iter(cluster(1.0 - similar, sizes))
    # Items that are too rare to compare are distributed evenly over the clusters of each partition.
    return [
        np.sort(np.concatenate((compared[next(groups)], others[number::size]))).tolist()
        for size in sizes
        for number in range(size)
    ]


def most_compared(n_items: int, sizes: Sequence[int]) -> int:
    """Return the maximum number of compared items. Public."""
    return min(n_items, max(MOST_COMPARED, COMPARED_PER_CLUSTER * max(sizes)))


def worth_comparing(support: Integers, noise_std: float, sizes: Sequence[int]) -> Integers:
    """Return the items with the highest noisy supports, in the order of their numbers.

    These are the items whose support clearly exceeds the noise (`CLEAR`), but at least
    `COMPARED_PER_CLUSTER` per cluster, and at most `most_compared`.

    Examples
    --------
    >>> worth_comparing(np.array([900, 0, 30, 500, 60]), 10.0, [1]).tolist()
    [0, 2, 3, 4]
    """
    clear = int(np.count_nonzero(support >= CLEAR * noise_std))
    least = min(len(support), COMPARED_PER_CLUSTER * max(sizes))
    n_compared = min(max(clear, least), most_compared(len(support), sizes))
    return np.sort(np.argsort(-support, kind="stable")[:n_compared])


def similarities(
    kind: str, support: Integers, agree: Integers, differ: Integers, floor: float
) -> Floats:
    """Return the similarity of all pairs of items; 1 on the diagonal.

    ``union`` is the measure of section 7.2 of Li and Li: agreements divided by people who have
    either item.
    ``cosine`` divides by the root of the product of the supports. Denominators are at least
    `floor`.

    Examples
    --------
    >>> support = np.array([4, 9])
    >>> similarities("cosine", support, np.array([3]), np.array([0]), 1.0).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    >>> similarities("union", support, np.array([3]), np.array([0]), 1.0).tolist()
    [[1.0, 0.3], [0.3, 1.0]]
    """
    n, least = len(support), max(floor, 1.0)
    positive = np.maximum(support, least)
    similar = np.eye(n)
    start = 0
    for i in range(n - 1):  # row by row, because an index of all pairs would exceed the matrix
        mine = slice(start, start + n - 1 - i)
        start = mine.stop
        if kind == "union":
            either = support[i] + support[i + 1 :] - agree[mine] - differ[mine]
            below = np.maximum(either, least)
        else:
            below = np.sqrt(positive[i] * positive[i + 1 :])
        similar[i, i + 1 :] = similar[i + 1 :, i] = np.clip(agree[mine] / below, 0.0, 1.0)
    return similar


def attribute_distances(
    source: SealedTable, noise: Noise, *, recode: Mapping[str, Recoding], pair_noise: PairMechanism
) -> Floats:
    """Return 1 - phi squared of all pairs of attributes of a wide table, from noisy counts.

    Every cell of every table of two attributes gets noise, including empty ones.
    """
    names = list(source.schema.attributes)
    distances = 1.0 - np.eye(len(names))
    for a, b in combinations(range(len(names)), 2):
        pair = [names[a], names[b]]
        table = source.counts(pair, recode=recode).dense()
        noisy = noise.open(table, pair_noise.law, "pairs of columns")
        distances[a, b] = distances[b, a] = 1.0 - phi_squared(noisy, pair_noise.std)
    return distances


def phi_squared(table: Integers, noise_std: float = 0.0) -> float:
    """Return the mean-square contingency coefficient of two attributes, 0 to 1 (Cramér).

    The expected contribution of the noise to the squares is subtracted.

    Examples
    --------
    >>> phi_squared(np.array([[50, 0], [0, 50]])), phi_squared(np.array([[25, 25], [25, 25]]))
    (1.0, 0.0)
    """
    n_rows, n_columns = table.shape
    if min(n_rows, n_columns) < 2:
        return 0.0
    total = max(float(table.sum()), 1.0)
    by_row = np.maximum(table.sum(axis=1), FLOOR * noise_std * math.sqrt(n_columns))
    by_column = np.maximum(table.sum(axis=0), FLOOR * noise_std * math.sqrt(n_rows))
    expected = np.outer(by_row, by_column) / total
    there = expected > 0
    excess = ((table - expected)[there] ** 2 - noise_std**2) / expected[there]
    return float(np.clip(excess.sum() / total / (min(n_rows, n_columns) - 1), 0.0, 1.0))


def cluster(distances: Floats, sizes: Sequence[int]) -> list[list[int]]:
    """Partition the items once for each number of clusters; return all clusters in order.

    A cluster that several partitions share occurs several times.
    """
    groups = []
    for n_clusters in sizes:
        of_item = kernels.medoids.pam(distances, n_clusters)
        groups += [np.flatnonzero(of_item == number).tolist() for number in range(n_clusters)]
    return groups
