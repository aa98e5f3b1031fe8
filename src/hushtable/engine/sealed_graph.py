"""What methods for graphs are given: degrees after they were bounded, counted and sealed.

How far one node moves each answer is proved in ``methods/degrees/degrees.md`` (lemmas 2 to 4) and
in ``methods/degrees/hay.md``; every unit of it is one step of a count.
"""

from __future__ import annotations

import numpy as np

from hushtable.engine.graph import Graph, Integers
from hushtable.engine.projection import OrderedEdges
from hushtable.errors import SealedError
from hushtable.privacy.sealed import Sealed
from hushtable.privacy.spending import Account, Sensitivity


class SealedGraph:
    """Answer questions about a graph, sealed.

    Parameters
    ----------
    graph : Graph
        The graph.
    account : Account
        Where looks at the answers are booked.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.__graph = graph
        self.account = account

    def __repr__(self) -> str:
        return "<sealed graph>"

    @property
    def listed(self) -> bool:
        """Whether the nodes come from a list of their own: public."""
        return self.__graph.listed

    def n_nodes(self) -> Sealed:
        """Count the nodes of a list: one count, which one node moves by one."""
        if not self.listed:
            raise SealedError(
                "nodes that are in the data through their edges alone go with any of their "
                "neighbors, so no noise hides one of them in their number."
            )
        return self._sealed(np.array([self.__graph.n_nodes], np.int64), 1)

    def h_index(self) -> Sealed:
        """Give the largest h for which h nodes have h edges or more: one node moves it by one.

        It needs no bound on degrees (lemma 6).
        """
        return self._sealed(np.array([_h_index(self.__graph.degrees())], np.int64), 1)

    def bounded(self, *, key: int) -> SealedDegrees:
        """Put the edges in an order, in which they are added up to a bound of the degrees."""
        return SealedDegrees(OrderedEdges(self.__graph, key=key), self.listed, self.account)

    def falling_degrees(self, n: int) -> Sealed:
        """Give the n largest degrees, falling: one edge moves them by two in all."""
        return self._sealed(_falling(self.__graph.degrees(), n), 2)

    def _sealed(self, counts: Integers, steps: int) -> Sealed:
        return Sealed(counts, Sensitivity(rows=steps), self.account.root)


class SealedDegrees:
    """Answer questions about bounded degrees, sealed.

    Parameters
    ----------
    edges : OrderedEdges
        The edges in their order.
    listed : bool
        Whether the nodes come from a list of their own.
    account : Account
        Where looks at the answers are booked.
    """

    def __init__(self, edges: OrderedEdges, listed: bool, account: Account) -> None:
        self.__edges = edges
        self.listed, self.account = listed, account

    def _sealed(self, counts: Integers, steps: int) -> Sealed:
        return Sealed(counts, Sensitivity(rows=steps), self.account.root)

    def cumulative(self, bound: int) -> Sealed:
        """Count the nodes up to degree 0 to bound - 1; without a list, from degree 1 to bound on.

        One node moves these counts by the bound in all (lemma 2), or by twice that (lemma 3).
        """
        counts = self._histogram(bound)
        if self.listed:
            return self._sealed(np.cumsum(counts)[:-1], bound)
        return self._sealed(np.cumsum(counts[::-1])[::-1][1:].copy(), 2 * bound)

    def histogram(self, bound: int) -> Sealed:
        """Count the nodes of each degree up to the bound; without a list, from degree 1 on.

        One node moves these counts by 2 bound + 1 in all (lemma 4).
        """
        return self._sealed(self._histogram(bound)[0 if self.listed else 1 :], 2 * bound + 1)

    def falling_degrees(self, n: int, bound: int) -> Sealed:
        """Give the n largest degrees, falling: one node moves them by twice the bound in all."""
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
