"""Sensitivity to one node: enumerated over all small graphs, sampled on larger ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.engine.edges import read_graph
from hushtable.engine.graph import Graph, OrderedEdges
from hushtable.kernels.graph_edges import projected_degrees
from hushtable.methods.degrees.degrees import Degrees
from hushtable.privacy.accounting.sealed import unseal
from sealing import sealed
from seeds import shifted


def pair_orders(n_nodes: int) -> list[list[tuple[int, int]]]:
    """Return some orders of all pairs: two regular ones and three shuffled ones."""
    pairs = list(itertools.combinations(range(n_nodes), 2))
    rng = np.random.default_rng(shifted(20))
    shuffled = [[pairs[i] for i in rng.permutation(len(pairs))] for _ in range(3)]
    return [pairs, pairs[::-1], *shuffled]


def neighbors(
    n_nodes: int, bound: int, orders: list[list[tuple[int, int]]]
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield, for all graphs, bounded degrees with and without a node (0 instead), and the node."""
    for pairs in orders:
        one = np.array([a for a, _ in pairs], np.int32)
        two = np.array([b for _, b in pairs], np.int32)
        for code in range(1 << len(pairs)):
            there = (code >> np.arange(len(pairs)) & 1).astype(bool)
            source, target = one[there], two[there]
            degrees = projected_degrees(source, target, n_nodes, bound)
            for node in range(n_nodes):
                stays = (source != node) & (target != node)
                after = projected_degrees(source[stays], target[stays], n_nodes, bound)
                yield degrees, after, node


def largest_changes(
    n_nodes: int, bound: int, orders: list[list[tuple[int, int]]]
) -> dict[str, int]:
    """Return the largest L1 change of each count over all pairs of neighbors."""
    worst: dict[str, int] = dict.fromkeys(
        ("histogram", "up_to", "with_n", "from", "visible", "full", "others"), 0
    )
    levels = np.arange(bound + 1)
    for degrees, after, node in neighbors(n_nodes, bound, orders):
        rest = np.delete(after, node)
        h, h_after = (
            np.bincount(degrees, minlength=bound + 1),
            np.bincount(rest, minlength=bound + 1),
        )
        c, c_after = np.cumsum(h), np.cumsum(h_after)
        t = (degrees[:, None] >= levels[None, 1:]).sum(0)
        t_after = (rest[:, None] >= levels[None, 1:]).sum(0)
        moved = np.abs(np.delete(degrees, node) - rest).sum()
        assert moved <= degrees[node]  # lemma 1
        changes = {
            "histogram": np.abs(h - h_after).sum(),
            "up_to": np.abs(c - c_after)[:-1].sum(),
            "with_n": np.abs(c - c_after).sum(),
            "from": np.abs(t - t_after).sum(),
            "visible": np.abs(h - h_after)[1:].sum(),
            "full": abs(h[-1] - h_after[-1]),
            "others": moved,
        }
        for name, change in changes.items():
            worst[name] = max(worst[name], int(change))
    return worst


@pytest.mark.parametrize("bound", [1, 2, 3, 4])
def test_sensitivities_on_all_graphs_of_up_to_five_nodes(bound: int) -> None:
    small = [largest_changes(n, bound, pair_orders(n)) for n in (2, 3, 4)]
    five = largest_changes(5, bound, pair_orders(5)[2:3])
    worst = {name: max(found[name] for found in [*small, five]) for name in five}
    assert worst["histogram"] <= 2 * bound + 1
    assert worst["visible"] <= 2 * bound + 1
    assert worst["up_to"] == bound
    assert worst["with_n"] == bound + 1
    assert worst["from"] == 2 * bound
    assert worst["full"] <= bound + 1
    assert worst["others"] == bound
    if bound < 3:  # larger bounds need more nodes to reach it
        assert worst["histogram"] == 2 * bound + 1


@pytest.mark.long
@pytest.mark.parametrize("bound", [1, 2, 3, 4, 5])
def test_sensitivities_on_all_graphs_of_six_nodes(bound: int) -> None:
    worst = largest_changes(6, bound, pair_orders(6)[2:3])
    assert worst["histogram"] <= 2 * bound + 1
    assert worst["visible"] <= 2 * bound + 1
    assert worst["up_to"] == bound
    assert worst["from"] == 2 * bound
    assert worst["full"] <= bound + 1
    if bound <= 3:
        assert worst["histogram"] == 2 * bound + 1


def h_index(degrees: np.ndarray) -> int:
    return max(h for h in range(len(degrees) + 1) if (degrees >= h).sum() >= h)


@pytest.mark.parametrize("n_nodes", [2, 3, 4, 5])
def test_one_node_moves_the_h_index_by_at_most_one(n_nodes: int) -> None:
    """Lemma 6, on all graphs; nodes removed with their only neighbor have no degree to count."""
    worst = 0
    for degrees, after, _ in neighbors(n_nodes, n_nodes, pair_orders(n_nodes)[:1]):
        worst = max(worst, h_index(degrees) - h_index(after))
        assert h_index(after) <= h_index(degrees)
    assert worst == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_the_sealed_h_index_is_the_h_index(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 14, (rng.integers(0, 60), 2)).tolist()
    for nodes in (range(14), None):
        graph = read_graph(pairs, nodes=nodes)
        found = unseal(sealed(graph).h_index())
        assert found.tolist() == [h_index(graph.degrees())]


@pytest.mark.parametrize("bound", [3, 4])  # below, a region has a single split
def test_one_level_of_splits_loses_at_most_its_share(bound: int) -> None:
    # The exponential mechanism loses at most its factor times the range of the change of scores,
    # and the factor is epsilon / (2 bound + 1): the ranges over all regions may add up to that.
    cuts = [
        (0, *inner, bound, bound + 1)
        for size in range(bound)
        for inner in itertools.combinations(range(1, bound), size)
    ]
    worst = 0
    for n_nodes in (3, 4, 5):
        for degrees, after, node in neighbors(n_nodes, bound, pair_orders(n_nodes)[2:3]):
            h = np.bincount(degrees, minlength=bound + 1)
            h_after = np.bincount(np.delete(after, node), minlength=bound + 1)
            for cut in cuts:
                total = sum(
                    _range(h[begin:end], h_after[begin:end])
                    for begin, end in itertools.pairwise(cut)
                )
                worst = max(worst, total)
    assert 1 <= worst <= 2 * bound + 1


def _range(region: np.ndarray, after: np.ndarray) -> int:
    if len(region) < 2:
        return 0
    scores = [np.minimum(np.cumsum(h)[:-1], h.sum() - np.cumsum(h)[:-1]) for h in (region, after)]
    change = scores[1] - scores[0]
    return int(change.max() - change.min())


def test_deleting_large_nodes_instead_has_no_such_bound() -> None:
    # Errata qardaji-2012-2: deleting all nodes above the bound is not a projection.
    def histogram(graph: Graph, bound: int) -> np.ndarray:
        large = set(np.flatnonzero(graph.degrees() > bound).tolist())
        keep = [
            (int(a), int(b))
            for a, b in zip(graph.source, graph.target, strict=True)
            if not {int(a), int(b)} & large
        ]
        kept = read_graph(keep, nodes=range(graph.n_nodes)).degrees()
        return np.bincount(np.delete(kept, list(large)), minlength=bound + 1)

    for size in (10, 100):
        cycle = [(i, (i + 1) % size) for i in range(size)]
        wheel = read_graph(
            [(f"{a:03}", f"{b:03}") for a, b in cycle] + [("hub", f"{a:03}") for a, _ in cycle],
            nodes=["hub", *(f"{a:03}" for a, _ in cycle)],
        )
        without = wheel.without(wheel.ids.to_pylist().index("hub"))
        change = np.abs(histogram(wheel, 2) - histogram(without, 2)).sum()
        assert change == size  # grows with the graph
        bounded = [
            np.bincount(OrderedEdges(g, key=3).degrees(2), minlength=3) for g in (wheel, without)
        ]
        assert np.abs(bounded[0] - bounded[1]).sum() <= 5


names = st.text(st.characters(codec="utf-8", exclude_characters=" \t\r\n\x0b\x0c"), min_size=1)


@settings(max_examples=150, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=60),
    labels=st.lists(names.filter(lambda s: s.strip() == s and s), min_size=12, max_size=12,
                    unique=True),
    node=st.integers(0, 11),
    key=st.integers(0, 2**64 - 1),
    bound=st.integers(1, 6),
)  # fmt: skip
def test_one_node_changes_at_most_the_proved_sensitivity(
    edges: list[tuple[int, int]], labels: list[str], node: int, key: int, bound: int
) -> None:
    named = [(labels[a], labels[b]) for a, b in edges]
    for listed in (True, False):
        graph = read_graph(named, nodes=labels if listed else None)
        at = node % graph.n_nodes
        gone = graph.ids[at].as_py()
        rest = [pair for pair in named if gone not in pair]
        # The custodian's table without that person: the rows are gone.
        fresh = read_graph(rest, nodes=[x for x in labels if x != gone] if listed else None)
        shorter = graph.without(at)
        if listed or all(a != b for a, b in rest):
            assert fresh.ids.to_pylist() == shorter.ids.to_pylist()
        degrees = [OrderedEdges(g, key=key).degrees(bound) for g in (graph, fresh)]
        up_to = [np.cumsum(np.bincount(d, minlength=bound + 1)) for d in degrees]
        from_ = [(d[:, None] >= np.arange(1, bound + 1)).sum(0) for d in degrees]
        if listed:
            assert np.abs(up_to[0] - up_to[1])[:-1].sum() <= bound
            assert abs(up_to[0][-1] - up_to[1][-1]) == 1
        assert np.abs(from_[0] - from_[1]).sum() <= 2 * bound


def test_an_edge_list_without_its_list_of_nodes_needs_other_counts() -> None:
    # The leaves of a star have edges to the hub only: without it, they are not in the file.
    star = read_graph([("hub", f"leaf {i}") for i in range(100)])
    without = star.without(0)
    assert without.n_nodes == 0
    bound = 3
    up_to = [
        np.cumsum(np.bincount(OrderedEdges(g, key=1).degrees(bound), minlength=bound + 1))
        for g in (star, without)
    ]
    assert np.abs(up_to[0] - up_to[1]).sum() > 50 * (bound + 1)
    from_ = [
        (OrderedEdges(g, key=1).degrees(bound)[:, None] >= np.arange(1, bound + 1)).sum(0)
        for g in (star, without)
    ]
    assert np.abs(from_[0] - from_[1]).sum() == 2 * bound
    assert Degrees(epsilon=1, max_degree=bound, population="endpoints").sensitivity(bound) == 6


def test_hash_collisions_are_ordered_by_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hushtable.kernels.graph_edges.hash_pairs",
        lambda h, s, t: np.zeros(len(s), np.uint64),
    )
    graph = read_graph([("c", "d"), ("a", "b"), ("b", "d"), ("a", "d")])
    ordered = OrderedEdges(graph, key=0)
    assert ordered.source.tolist() == [0, 0, 1, 2]
    assert ordered.target.tolist() == [1, 3, 3, 3]


def test_the_order_depends_on_the_key_and_on_nothing_else() -> None:
    pairs = [(f"p{a}", f"p{b}") for a, b in itertools.combinations(range(12), 2)]
    graph, again = read_graph(pairs), read_graph([(b, a) for a, b in pairs[::-1]])
    first = OrderedEdges(graph, key=1)
    assert (first.source == OrderedEdges(again, key=1).source).all()
    assert (first.target == OrderedEdges(again, key=1).target).all()
    assert (first.source != OrderedEdges(graph, key=2).source).any()
