"""Bound degrees so that one node changes little: add edges one by one, in an order of the ids.

The proof of what this gives is in ``methods/degrees/degrees.md``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable import kernels
from hushtable.engine.graph import Codes, Graph, Integers


class OrderedEdges:
    """Hold a graph's edges in an order that depends on node ids and a key alone.

    The order of two edges is that of their keyed hashes (32 bits), and where these agree, that of
    their ids.
    Taking a node away therefore leaves the order of the other edges as it was.

    Parameters
    ----------
    graph : Graph
        The graph.
    key : int
        Any number below 2**64, chosen independently of the graph.

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
        self.source: Codes = graph.source[order]
        self.target: Codes = graph.target[order]

    def degrees(self, max_degree: int) -> Integers:
        """Give each node's degree after edges were added up to the bound."""
        degrees: Integers = kernels.projection.projected_degrees(
            self.source, self.target, self.n_nodes, max_degree
        )
        return degrees


def _order(graph: Graph, key: np.uint64) -> Integers:
    ids = graph.ids.cast(pa.large_string())
    _, offsets, text = ids.buffers()
    # An array that is a slice of another starts inside the other's buffers.
    places = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(text, np.uint8) if text else np.empty(0, np.uint8)
    hashes = kernels.projection.hash_pairs(
        kernels.projection.hash_texts(letters, places, key), graph.source, graph.target
    )
    # Half of the hash and the edge's own place in one word; places are in the order of the ids, and
    # sorting by the hash leaves them so.
    low_half = np.uint64(0xFFFFFFFF)
    words = hashes & ~low_half | np.arange(graph.n_edges, dtype=np.uint64)
    order: Integers = (kernels.projection.sort_words(words, 32, 32) & low_half).astype(np.int64)
    return order
