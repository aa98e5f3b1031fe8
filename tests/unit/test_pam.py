"""k-medoids against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from hushtable.errors import ParameterError
from hushtable.kernels.medoids import find_medoids, pam
from seeds import shifted


def cost(distances: NDArray[np.float64], medoids: NDArray[np.int64] | tuple[int, ...]) -> float:
    return float(distances[:, list(medoids)].min(axis=1).sum())


def draw(seed: int) -> tuple[NDArray[np.float64], int]:
    """Draw distances that need not be a metric, and a number of clusters."""
    rng = np.random.default_rng(shifted(seed))
    n = int(rng.integers(3, 10))
    distances = rng.random((n, n)) if seed % 2 else rng.integers(0, 4, (n, n)).astype(float)
    distances = np.triu(distances, 1)
    return distances + distances.T, int(rng.integers(1, n + 1))


@pytest.mark.parametrize("seed", range(60))
def test_no_single_exchange_lowers_the_cost(seed: int) -> None:
    distances, k = draw(seed)
    medoids = find_medoids(distances, k)
    assert len(set(medoids.tolist())) == k
    best = cost(distances, medoids)
    for place in range(k):
        for other in set(range(len(distances))) - set(medoids.tolist()):
            exchanged = medoids.copy()
            exchanged[place] = other
            assert cost(distances, exchanged) >= best * (1 - 1e-8) - 1e-12


def test_the_cost_is_nearly_always_the_least_possible() -> None:
    ratios = []
    for seed in range(60):
        distances, k = draw(seed)
        least = min(cost(distances, m) for m in combinations(range(len(distances)), k))
        ratios.append((cost(distances, find_medoids(distances, k)) + 1e-9) / (least + 1e-9))
    assert min(ratios) >= 1 - 1e-9
    assert np.mean(np.array(ratios) < 1 + 1e-6) > 0.85


def test_one_cluster_has_the_best_medoid() -> None:
    for seed in range(10):
        distances, _ = draw(seed)
        (medoid,) = find_medoids(distances, 1)
        assert cost(distances, (medoid,)) == pytest.approx(distances.sum(axis=0).min())


def test_every_cluster_has_a_member_also_where_points_coincide() -> None:
    for k in range(1, 6):
        assert sorted(set(pam(np.zeros((5, 5)), k).tolist())) == list(range(k))


def test_clear_clusters_are_found_whatever_the_order() -> None:
    points = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2, 9.0, 9.1, 9.2])
    order = np.random.default_rng(shifted(1)).permutation(9)
    clusters = pam(np.abs(points[order][:, None] - points[order]), 3)
    groups = {tuple(sorted(order[clusters == c].tolist())) for c in range(3)}
    assert groups == {(0, 1, 2), (3, 4, 5), (6, 7, 8)}


def test_equal_distances_give_equal_clusters() -> None:
    distances, k = draw(7)
    assert pam(distances, k).tolist() == pam(distances.copy(), k).tolist()


@pytest.mark.parametrize("k", [0, 4])
def test_impossible_numbers_of_clusters_are_refused(k: int) -> None:
    with pytest.raises(ParameterError, match=f"n_clusters is {k}"):
        pam(np.zeros((3, 3)), k)
