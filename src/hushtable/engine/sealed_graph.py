"""Sealed graphs, which methods receive: sealed counts of nodes by bounded degree.

The sensitivity of each result to one node is proved in ``methods/degrees/degrees.md`` (lemmas 2 to
4) and in ``methods/degrees/hay.md``; it is counted in steps of a count.
"""

from __future__ import annotations

import numpy as np

from hushtable.arrays import Integers
from hushtable.engine.graph import Graph
from hushtable.engine.projection import OrderedEdges
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.accounting.sensitivity import Sensitivity


class SealedGraph:
    """Queries on a graph with sealed results; `account` records queries that open them."""

    def __init__(self, graph: Graph, account: RunAccount) -> None:
        self.__graph = graph
        self.account = account

    def __repr__(self) -> str:
        return "<sealed graph>"

    @property
    def listed(self) -> bool:
        """Whether the nodes come from a separate list (public)."""
        return self.__graph.listed

    def n_nodes(self) -> SealedCounts:
        """Count the nodes of a list; one node changes the count by 1."""
        if not self.listed:
            raise SealedError(
                "nodes that are in the data through their edges alone go with any of their "
                "neighbors, so no noise hides one of them in their number."
            )
        return self._sealed(np.array([self.__graph.n_nodes], np.int64), 1)

    def h_index(self) -> SealedCounts:
        """Return the largest h such that h nodes have at least h edges; one node changes it by 1.

        It needs no bound on degrees (lemma 6).
        """
        return self._sealed(np.array([_h_index(self.__graph.degrees())], np.int64), 1)

    def bounded(self, *, key: int) -> SealedDegrees:
        """Order the edges by keyed hashes, for adding them up to a bound on the degrees."""
        return SealedDegrees(OrderedEdges(self.__graph, key=key), self.listed, self.account)

    def falling_degrees(self, n: int) -> SealedCounts:
        """Return the n largest degrees, descending; one edge changes them by 2 in total."""
        return self._sealed(_falling(self.__graph.degrees(), n), 2)

    def _sealed(self, counts: Integers, steps: int) -> SealedCounts:
        return SealedCounts(counts, Sensitivity(rows=steps), self.account.root)


class SealedDegrees:
    """Queries on bounded degrees with sealed results.

    `listed` says whether the nodes come from a separate list; `account` records queries that open
    results.
    """

    def __init__(self, edges: OrderedEdges, listed: bool, account: RunAccount) -> None:
        self.__edges = edges
        self.listed, self.account = listed, account

    def _sealed(self, counts: Integers, steps: int) -> SealedCounts:
        return SealedCounts(counts, Sensitivity(rows=steps), self.account.root)

    def cumulative(self, bound: int) -> SealedCounts:
        """Count nodes of degree at most 0 to bound - 1; without a list, at least 1 to bound.

        One node changes these counts by the bound in total (lemma 2), or by twice that (lemma 3).
        """
        counts = self._histogram(bound)
        if self.listed:
            return self._sealed(np.cumsum(counts)[:-1], bound)
        return self._sealed(np.cumsum(counts[::-1])[::-1][1:].copy(), 2 * bound)

    def histogram(self, bound: int) -> SealedCounts:
        """Count the nodes of each degree up to the bound; without a list, from degree 1 on.

        One node changes these counts by 2 bound + 1 in total (lemma 4).
        """
        return self._sealed(self._histogram(bound)[0 if self.listed else 1 :], 2 * bound + 1)

    def falling_degrees(self, n: int, bound: int) -> SealedCounts:
        """Return the n largest degrees, descending; one node changes them by 2 bound in total."""
        return self._sealed(_falling(self.__edges.degrees(bound), n), 2 * bound)

    def _histogram(self, bound: int) -> Integers:
        return np.bincount(self.__edges.degrees(bound), minlength=bound + 1).astype(np.int64)


def _h_index(degrees: Integers) -> int:
    falling = np.sort(degrees)[::-1]
    return int(np.count_nonzero(falling >= np.arange(1, len(falling) + 1)))


def _falling(degrees: Integers, n: int) -> Integers:
    falling = np.zeros(n, np.int64)
    kept = np.sort(degrees)[::-1][:n]
    falling[: len(kept)] = kept
    return falling
