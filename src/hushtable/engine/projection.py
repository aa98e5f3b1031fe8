"""Projection to bounded degrees: edges are added one by one, in an order given by node IDs.

The effect of one node is bounded in ``methods/degrees/degrees.md``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable import kernels
from hushtable.arrays import Codes32, Integers
from hushtable.engine.graph import Graph


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
        """Return each node's degree after adding edges up to the bound."""
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
    # Half of the hash and the edge's own place in one word; places are in the order of the ids, and
    # sorting by the hash leaves them so.
    low_half = np.uint64(0xFFFFFFFF)
    words = hashes & ~low_half | np.arange(graph.n_edges, dtype=np.uint64)
    order: Integers = (kernels.graph_edges.sort_words(words, 32, 32) & low_half).astype(np.int64)
    return order
