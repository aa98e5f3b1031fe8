"""Section 001 of the reference numbers, the part on graphs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushtable.engine.edges import read_graph
from hushtable.kernels.graph_edges import projected_degrees
from hushtable.methods.degrees.degrees import Degrees
from hushtable.privacy.noise.sources import SecureNoise


def test_edge_addition_example(vectors: dict[str, Any]) -> None:
    example = vectors["001"]["edge_addition_example"]
    ends = np.array(example["edges_in_order"], np.int32)
    found = projected_degrees(ends[:, 0], ends[:, 1], example["n"], example["theta"])
    assert found.tolist() == example["projected_degrees"]


def test_sensitivities_are_those_of_the_table(vectors: dict[str, Any]) -> None:
    table = vectors["001"]["node_dp"]
    assert table["hist_L1_edge_addition_projection"].startswith("2*theta+1 ")
    assert table["cumulative_hist_L1"].startswith("theta+1 ")
    for theta in (1, 2, 7, 256):
        tree = Degrees(epsilon=1, max_degree=theta, mechanism="partition")
        assert tree.sensitivity(theta) == 2 * theta + 1
        # C_theta is the number of nodes, which is measured separately: theta + 1 counts in total.
        counts = Degrees(epsilon=1, max_degree=theta)
        assert counts.sensitivity(theta) + 1 == theta + 1
        plain = Degrees(epsilon=1, max_degree=theta, n_nodes_share=f"1/{theta + 1}")
        assert plain.counts_scale(theta) == theta + 1
        assert 1 / plain.forecast().split["number of nodes"] == theta + 1


def test_isolating_a_node_changes_the_plain_histogram_by_twice_its_degree_and_two(
    vectors: dict[str, Any],
) -> None:
    assert vectors["001"]["node_dp"]["hist_L1_isolate_node"].startswith("2*Lambda+2 ")
    worst = {1: 0, 2: 0, 3: 0, 4: 0}
    for n_nodes in (2, 3, 4, 5):
        pairs = np.array(list(itertools.combinations(range(n_nodes), 2)))
        for code in range(1 << len(pairs)):
            there = pairs[(code >> np.arange(len(pairs)) & 1).astype(bool)]
            degrees = np.bincount(there.ravel(), minlength=n_nodes)
            largest = int(degrees.max())
            for node in range(n_nodes):
                rest = there[(there != node).all(axis=1)]
                after = np.bincount(rest.ravel(), minlength=n_nodes)
                change = np.abs(np.bincount(degrees, minlength=6) - np.bincount(after, minlength=6))
                for bound in range(max(largest, 1), 5):
                    worst[bound] = max(worst[bound], int(change.sum()))
    assert all(found <= 2 * bound + 2 for bound, found in worst.items())
    assert worst[1] == 4
    assert worst[2] == 6


def test_quality_4_is_nearly_flat(vectors: dict[str, Any]) -> None:
    # (r1 + r2 - |r1 - r2|) / (4n + 2) = min / (2n + 1), and min is at most n/2.
    assert "q=min/(2n+1) < 1/4" in vectors["001"]["node_dp"]["eq4_range"]
    for n in (2, 10, 769, 36692):
        smaller = np.arange(n // 2 + 1)
        printed = (n - np.abs(n - 2 * smaller)) / (4 * n + 2)
        assert printed == pytest.approx(smaller / (2 * n + 1))
        assert printed.max() < 1 / 4


# A spike of the cumulative counts had a mean distance of 0.175, 0.042 and 0.085 at epsilon 1. Ours
# are 0.093, 0.016 and 0.082 over 200 to 600 runs; Enron's runs scatter around its own mean.
LIMITS = {
    "fb100_Caltech36": (128, 0.175),
    "fb100_UNC28": (256, 0.042),
    "snap_email-Enron": (256, 0.1),
}


@pytest.mark.parametrize("name", LIMITS)
def test_real_graphs_come_out_as_close_as_was_reached(shared_data: Path, name: str) -> None:
    bound, limit = LIMITS[name]
    path = shared_data / "graphs" / f"{name}.edges.txt.gz"
    nodes = read_graph(path).ids.to_pylist()
    graph = read_graph(path, nodes=nodes)
    truth = np.cumsum(np.bincount(graph.degrees())) / graph.n_nodes
    distances = []
    for _ in range(25):
        released = Degrees(epsilon=1, max_degree=bound).run(graph, SecureNoise())
        found = released.tables["data"].column("nodes_up_to_degree").to_numpy()
        size = max(len(found), len(truth))
        one = np.append(found / found[-1], np.ones(size - len(found)))
        distances.append(np.abs(one - np.append(truth, np.ones(size - len(truth)))).max())
    # One run exceeds its limit with probability below 1/10, as seen over those runs; 13 or more of
    # 25 do with probability below 5e-7.
    assert np.median(distances) <= limit
