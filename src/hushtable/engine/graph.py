"""Simple undirected graphs, with nodes as integer codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushtable.arrays import Codes32, Integers


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
