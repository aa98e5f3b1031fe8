"""Simple undirected graphs, with nodes as integer codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushtable import kernels
from hushtable.arrays import Codes32, Integers
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.accounting.sensitivity import Sensitivity

EDGE_COLUMNS = ("source", "target")
"""Default names of the columns of an edge list."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Simple undirected graph.

    Parameters
    ----------
    ids : Arrow array of text
        Sorted node IDs; a node's code is its index. The order of two nodes does not depend on the
        other nodes.
    source, target : int32 arrays
        Codes of the ends of each edge, source below target; edges are sorted and distinct.
    listed : bool
        Whether the nodes come from a separate list; otherwise they are the ends of edges.
    n_self_loops, n_repeated, n_loose : int
        Numbers of rows that were dropped: self-loops, repeated edges, and edges with an end that is
        empty or not in the list of nodes.

    Examples
    --------
    >>> from hushtable.engine.edges import read_graph
    >>> graph = read_graph([("b", "a"), ("a", "b"), ("a", "c"), ("c", "c")])
    >>> graph.n_nodes, graph.n_edges, graph.n_self_loops, graph.n_repeated
    (3, 2, 1, 1)
    >>> graph.degrees().tolist()
    [2, 1, 1]
    """

    ids: pa.Array
    source: Codes32
    target: Codes32
    listed: bool
    n_self_loops: int = 0
    n_repeated: int = 0
    n_loose: int = 0

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.ids)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.source)

    def degrees(self) -> Integers:
        """Return the exact degree of each node, for the custodian only."""
        ends = np.concatenate((self.source, self.target))
        return np.bincount(ends, minlength=self.n_nodes).astype(np.int64)

    def without(self, node: int) -> Graph:
        """Return the graph without a node and its edges: a neighbor under node privacy.

        Examples
        --------
        >>> from hushtable.engine.edges import read_graph
        >>> read_graph([("a", "b"), ("b", "c")]).without(0).degrees().tolist()
        [1, 1]
        """
        keep = (self.source != node) & (self.target != node)
        source, target = self.source[keep], self.target[keep]
        stays = np.arange(self.n_nodes) != node
        if not self.listed:  # a node that has lost its only edge is no longer in the file
            stays &= np.bincount(np.concatenate((source, target)), minlength=self.n_nodes) > 0
        new = np.cumsum(stays, dtype=np.int32) - 1
        return Graph(self.ids.filter(pa.array(stays)), new[source], new[target], self.listed)


# Projection to bounded degrees: edges are added one by one, in an order given by node IDs.
#
# The effect of one node is bounded in ``methods/degrees/degrees.md``.


class OrderedEdges:
    """Edges of a graph in an order that depends only on node IDs and a key.

    Edges are sorted by keyed 32-bit hashes, ties by their IDs. So removing a node does not change
    the order of the other edges. `key` is below 2**64 and independent of the graph.

    Examples
    --------
    >>> from hushtable.engine.edges import read_graph
    >>> star = read_graph([("hub", leaf) for leaf in "abcd"])
    >>> sorted(OrderedEdges(star, key=7).degrees(max_degree=2).tolist())
    [0, 0, 1, 1, 2]
    """

    def __init__(self, graph: Graph, *, key: int) -> None:
        order = _order(graph, np.uint64(key))
        self.n_nodes = graph.n_nodes
        self.source: Codes32 = graph.source[order]
        self.target: Codes32 = graph.target[order]

    def degrees(self, max_degree: int) -> Integers:
        """Add edges in order, skip those with an end of `max_degree`, and return the degrees."""
        degrees: Integers = kernels.graph_edges.projected_degrees(
            self.source, self.target, self.n_nodes, max_degree
        )
        return degrees


def _order(graph: Graph, key: np.uint64) -> Integers:
    ids = graph.ids.cast(pa.large_string())
    _, offsets, text = ids.buffers()
    # An array that is a slice of another starts inside the other's buffers.
    places = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(text, np.uint8) if text else np.empty(0, np.uint8)
    hashes = kernels.graph_edges.hash_pairs(
        kernels.graph_edges.hash_texts(letters, places, key), graph.source, graph.target
    )
    # Each word combines the upper half of the hash with the edge's position. Positions follow the
    # order of IDs, so edges with equal hashes are sorted by their IDs.
    low_half = np.uint64(0xFFFFFFFF)
    words = hashes & ~low_half | np.arange(graph.n_edges, dtype=np.uint64)
    order: Integers = (np.sort(words) & low_half).astype(np.int64)
    return order


# Sealed graphs, which methods receive: sealed counts of nodes by bounded degree.
#
# The sensitivity of each result is proved in ``methods/degrees/degrees.md`` (lemmas 2 to 4, and 6)
# and in ``methods/degrees/hay.md``. It is the total change of all counts due to one node, or to one
# edge for `SealedGraph.falling_degrees`.


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
        """Return queries on bounded degrees; edges are added in the order of keyed hashes."""
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
        """Count the nodes of degree at most j, for j from 0 to bound - 1.

        Without a list of nodes, count those of degree at least j, for j from 1 to bound. One node
        changes these counts by the bound in total (lemma 2); without a list, by twice that (lemma
        3).
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
