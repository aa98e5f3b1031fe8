"""Reference numbers for Aggarwal (2008): anonymity, scales, feasibility, queries, tails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from expected_fits import gaussian_anonymity, uniform_anonymity
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.methods.uncertain.estimator import interval_probability


@pytest.fixture(scope="module")
def reference(vectors: dict[str, Any]) -> dict[str, Any]:
    section: dict[str, Any] = vectors["002"]
    return section


@pytest.fixture(scope="module")
def points(reference: dict[str, Any]) -> np.ndarray:
    return np.asarray(reference["points"], np.float64)


@pytest.mark.parametrize(
    ("section", "anonymity", "scales"),
    [
        ("gaussian_self1", gaussian_anonymity, gaussian_scales),
        ("uniform_a", uniform_anonymity, uniform_scales),
    ],
)
def test_scales_reach_k_and_are_conservative(
    reference: dict[str, Any], points: np.ndarray, section: str, anonymity: Any, scales: Any
) -> None:
    for k, expected in reference[section].items():
        exact = np.asarray(expected, np.float64)
        # A is strictly increasing, so A = k holds at the reference scale only.
        np.testing.assert_allclose(anonymity(points, exact), float(k), rtol=0, atol=1e-13)
        solved = scales(points, np.full(6, float(k)))
        assert np.all(solved >= exact * (1 - 1e-12))
        assert np.all(solved <= exact * 1.005)
        assert np.all(anonymity(points, solved) >= float(k) - 1e-12)


def test_the_printed_self_term_is_one_half_short(
    reference: dict[str, Any], points: np.ndarray
) -> None:
    for k, expected in reference["gaussian_self_half"].items():
        printed = gaussian_anonymity(points, np.asarray(expected, np.float64)) - 0.5
        np.testing.assert_allclose(printed, float(k), rtol=0, atol=1e-13)


def test_anonymity_at_given_scales(reference: dict[str, Any], points: np.ndarray) -> None:
    at = {name: float(value) for name, value in reference["anonymity_at"].items()}
    assert gaussian_anonymity(points, np.ones(6))[0] == pytest.approx(at["A(point0,sigma=1)"])
    assert gaussian_anonymity(points, np.full(6, 0.5))[3] == pytest.approx(
        at["A(point3,sigma=0.5)"]
    )
    assert uniform_anonymity(points, np.full(6, 2.0))[0] == at["U(point0,a=2)"]
    assert uniform_anonymity(points, np.full(6, 4.0))[0] == at["U(point0,a=4)"]


def test_gaussian_k_has_a_supremum(points: np.ndarray) -> None:
    assert np.all(np.isinf(gaussian_scales(points, np.full(6, 3.5))))
    solved = gaussian_scales(points, np.full(6, 3.49))
    assert np.all(np.isfinite(solved))
    assert np.all(gaussian_anonymity(points, solved) >= 3.49)


def test_the_lower_bound_of_theorem_2_2_needs_the_nearest(
    reference: dict[str, Any], points: np.ndarray
) -> None:
    given = {name: float(value) for name, value in reference["theorem2.2"].items()}
    s = norm.isf(1 / 5)
    assert s == pytest.approx(given["s for k=2,N=6: P(M>s)=1/5"])
    distances = np.linalg.norm(points[1:] - points[0], axis=1)
    lower, printed = distances.min() / (2 * s), distances.max() / (2 * s)
    assert lower == pytest.approx(given["L(point0)=delta_nearest/(2s)"])
    assert printed == pytest.approx(given["printed (farthest) L(point0), WRONG"])
    sigma = float(reference["gaussian_self1"]["2"][0])
    assert lower < sigma < printed


def test_queries_19_and_21(reference: dict[str, Any]) -> None:
    z, std = np.array([[0.5, 1.5]]), np.full((1, 2), 0.5)
    low, high = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    plain, inside = (
        math.prod(
            interval_probability(
                z[:, at], std[:, at], low[at], high[at], model="gaussian", domain=domain
            )
            for at in range(2)
        )
        for domain in (None, (0.0, 4.0))
    )
    assert plain[0] == pytest.approx(float(reference["query21"]["eq19"]), abs=1e-14)
    assert inside[0] == pytest.approx(float(reference["query21"]["eq21"]), abs=1e-14)


def test_u10k_means(reference: dict[str, Any]) -> None:
    rng = np.random.default_rng(20240501)
    points = rng.random((10_000, 5)) * math.sqrt(12)
    given = reference["U10K"]
    k = np.full(len(points), 10.0)
    assert gaussian_scales(points, k).mean() == pytest.approx(float(given["mean_sigma"]), rel=0.015)
    assert uniform_scales(points, k).mean() == pytest.approx(float(given["mean_a"]), rel=0.015)
