"""P(r >= k) by a simulation that shares no code with the method's own check."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.stats import binom

from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from seeds import shifted

ALPHA = 1e-6  # false alarms per test, over all its records


def _schema() -> Schema:
    column = {"type": "number", "low": 0.0, "high": 0.999, "step": 0.001}
    return Schema.from_dict({"name": "u", "columns": {f"x{i}": column for i in range(5)}})


def _fits(
    points: np.ndarray, noisy: np.ndarray, size: np.ndarray, model: str, k: int
) -> np.ndarray:
    """Count the fitting records, with scipy's tree on a torus of integer steps."""
    tree = cKDTree(points, boxsize=1000)
    if model == "uniform":
        return tree.query_ball_point(noisy, size[0] + 0.25, p=np.inf, return_length=True)
    return tree.query(noisy, k=k)[0][:, k - 1]


def _share_uncovered(model: str, n: int, n_draws: int) -> None:
    rng = np.random.default_rng(shifted(11))
    steps = rng.integers(0, 1000, (n, 5))
    method, k, eta = Uncertain(k=10, model=model, edges="wrap"), 10, 0.05
    widths = method.plan(_schema()).perturb(steps / 1000, SecureNoise()).widths
    levels, level_of = np.unique(widths, axis=0, return_inverse=True)
    uncovered = np.zeros(n, np.int64)
    for level, width in enumerate(levels):
        members = np.flatnonzero(level_of.reshape(-1) == level)
        points = steps[members].astype(np.float64)
        for _ in range(n_draws):
            if model == "uniform":
                error = rng.integers(-width, width + 1, (len(members), 5))
                noisy = (points + error) % 1000
                uncovered[members] += _fits(points, noisy, width, model, k) < k
            else:
                error = np.rint(rng.normal(0, width / 1024, (len(members), 5)))
                noisy = (points + error) % 1000
                short = np.minimum(np.abs(error) % 1000, 1000 - np.abs(error) % 1000)
                own = np.sqrt((short**2).sum(axis=1))
                uncovered[members] += _fits(points, noisy, width, model, k) > own + 1e-9
    # A record whose true probability is at most eta exceeds this with probability ALPHA / n.
    assert uncovered.max() <= binom.isf(ALPHA / n, n_draws, eta)


def test_every_record_has_cover_uniform() -> None:
    _share_uncovered("uniform", 400, 300)


@pytest.mark.long
@pytest.mark.parametrize("model", ["uniform", "gaussian"])
def test_every_record_has_cover_on_u10k(model: str) -> None:
    _share_uncovered(model, 10_000, 300)
