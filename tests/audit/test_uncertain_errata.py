"""The errata of Aggarwal (2008), as attacks that succeed on the paper and fail on this version."""

from __future__ import annotations

import math

import numpy as np
import pytest

from expected_fits import gaussian_anonymity
from hushtable.errors import Refused
from hushtable.evaluation.risk.likelihood_linkage import likelihood_linkage
from hushtable.kernels.anonymity_sets import gaussian_scales
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.guarantee import NoGuarantee, UncertainAnonymity
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.schema import Schema
from seeds import shifted


def schema(n_columns: int) -> Schema:
    column = {"type": "number", "low": 0.0, "high": 1.0, "step": 0.0001}
    return Schema.from_dict({"name": "t", "columns": {f"x{i}": column for i in range(n_columns)}})


def even(n: int, n_columns: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(shifted(seed)).integers(0, 10_001, (n, n_columns)) / 10_000


@pytest.mark.parametrize("model", ["gaussian", "uniform"])
def test_aggarwal_2008_1_the_papers_sigma_names_nearly_everybody(model: str) -> None:
    method = Uncertain(k=10, model=model, levels="exact")
    assert isinstance(method.guarantee(schema(5))[0], NoGuarantee)
    found = likelihood_linkage(method, even(1000, 5), schema(5), SeededNoise(shifted(1)))
    assert found.top1_rate > 0.95
    # Without using sigma, the same release seems harmless.
    alone = likelihood_linkage(
        method, even(1000, 5), schema(5), SeededNoise(shifted(1)), uses_levels=False
    )
    assert alone.top1_rate < 0.35


def test_aggarwal_2008_1_safe_levels_stay_near_the_promise() -> None:
    method = Uncertain(k=10, edges="wrap")
    assert method.guarantee(schema(5)) == (UncertainAnonymity(k=10, eta="1/20"),)
    found = likelihood_linkage(method, even(1000, 5), schema(5), SecureNoise())
    # 1,000 independent records, each with probability at most 0.05: more than 95 of them have
    # fewer than 10 fits with probability below 1e-8. One in ten at most is right by chance, and
    # the share of records that may be named outright is at most eta.
    assert found.fewer_than_k <= 0.095
    assert found.top1_rate < 0.1 + 0.05
    assert found.mean_posterior < 0.1 + 0.05


def test_aggarwal_2008_2_expectation_leaves_many_without_cover() -> None:
    for model in ("gaussian", "uniform"):
        method = Uncertain(k=10, model=model, levels="safe", eta="expectation")
        promised = method.guarantee(schema(5))[0]
        assert isinstance(promised, NoGuarantee)
        assert "on average" in promised.explain()
    paper = Uncertain(k=10, model="gaussian", levels="exact")
    found = likelihood_linkage(
        paper, even(2000, 5), schema(5), SeededNoise(shifted(3)), uses_levels=False
    )
    assert found.fewer_than_k > 0.5
    assert found.rank_quantiles["0.05"] == 1


def test_aggarwal_2008_3_local_noise_never_vanishes() -> None:
    rng = np.random.default_rng(shifted(5))
    values = np.column_stack((even(400, 1), rng.integers(0, 2, 400)))
    for levels in ("exact", "safe"):
        method = Uncertain(k=5, model="gaussian", levels=levels, local=True, eta=0.2)
        widths = method.plan(schema(2)).perturb(values, SeededNoise(shifted(2))).widths
        stds = method.plan(schema(2)).stds(widths)
        assert stds.min() > 0.01 / math.sqrt(12)


def test_aggarwal_2008_4_ten_times_the_diameter_is_no_bracket() -> None:
    points = even(1000, 5) * math.sqrt(12)
    farthest = np.linalg.norm(points[:, None] - points[None, :50], axis=2).max(axis=0)[:50]
    at_ten = gaussian_anonymity(points, np.full(1000, 10 * farthest.max()))
    assert at_ten.max() < 495  # "almost N" in the paper
    assert np.all(np.isfinite(gaussian_scales(points, np.full(1000, 500.0))))
    assert np.all(np.isinf(gaussian_scales(points, np.full(1000, 500.5))))


def test_aggarwal_2008_5_duplicates_fit_with_certainty() -> None:
    points = np.repeat(even(20, 2), 5, axis=0)
    assert np.all(gaussian_anonymity(points, np.full(100, 1e-9)) == 5)
    assert np.all(gaussian_scales(points, np.full(100, 5.0)) == 0)


def test_open_gaussian_noise_cannot_cover_an_edge() -> None:
    values = even(200, 1)
    with pytest.raises(Refused, match="edges=wrap"):
        Uncertain(k=3, model="gaussian", edges="open", eta=0.2).plan(schema(1)).perturb(
            values, SeededNoise(shifted(1))
        )
    Uncertain(k=3, model="gaussian", eta=0.2).plan(schema(1)).perturb(
        values, SeededNoise(shifted(1))
    )


def test_joined_ends_need_less_noise_than_open_ones() -> None:
    values, widths = even(300, 3), {}
    for edges in ("wrap", "open"):
        method = Uncertain(k=5, edges=edges, eta=0.2)
        widths[edges] = (
            method.plan(schema(3)).perturb(values, SeededNoise(shifted(1))).widths.mean()
        )
    assert widths["wrap"] < widths["open"] / 2
