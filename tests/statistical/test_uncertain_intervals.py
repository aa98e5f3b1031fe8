"""The 95% intervals of `uncertain` are valid for any private records, even the worst case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.engine import connect
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.methods.uncertain.grid import Model, NoiseGrid
from hushtable.methods.uncertain.uncertain import Edges, Perturbed, Uncertain, UncertainPlan
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from seeds import shifted

FALSE_ALARM = 1e-6
RUNS = 80

COLUMNS = {
    "x": {"type": "integer", "low": 0, "high": 99},
    "y": {"type": "number", "low": 0, "high": 25, "step": 0.5},
}


def schema() -> Schema:
    return Schema.from_dict({"name": "t", "columns": COLUMNS})


def few_misses(n_misses: int, runs: int) -> bool:
    """Return whether a number of misses is plausible at 5%, up to the false-alarm rate."""
    return n_misses <= int(binom.isf(FALSE_ALARM, runs, 0.05))


@pytest.mark.parametrize("edges", ["wrap", "open"])
@pytest.mark.parametrize("model", ["uniform", "gaussian"])
def test_equal_records_and_a_range_of_one_value(model: Model, edges: Edges) -> None:
    """All records are equal, which no published point shows; nearly all noise moves them away.

    Misses of the upper end, with all records in the range, and of the lower end, with none.
    """
    method = Uncertain(k=2, model=model, edges=edges)
    plan = UncertainPlan(method, schema(), ("x", "y"))
    n = 60
    ruler: NoiseGrid = plan.ruler
    widths = np.tile(ruler.widths(np.array([1.5, 2.0])), (n, 1))
    steps = np.tile(np.array([50, 20]), (n, 1))
    noise = SecureNoise()
    truths = {"x = 50 AND y = 10": n, "NOT (x = 50 AND y = 10)": 0}
    misses = dict.fromkeys(truths, 0)
    for _ in range(RUNS):
        drawn = Perturbed(ruler.place(steps + ruler.draw(widths, noise)), widths)
        released = plan.released(drawn, plan.low + steps * plan.step, np.arange(n))
        reader = UncertainEstimator(
            schema(), method.parameters(), released.settings, released.tables
        )
        for where, true in truths.items():
            answer = reader.count(where)
            misses[where] += not answer.low <= true <= answer.high
    assert all(few_misses(n_missed, RUNS) for n_missed in misses.values()), misses


def spiky(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Make records with 90% zeros in one column, like capital gains, and clusters in the other."""
    x = np.where(rng.random(n) < 0.9, 0, rng.integers(0, 100, n))
    y = np.clip(np.rint(rng.normal(rng.choice([4, 18], n), 1) * 2) / 2, 0, 25)
    return {"x": x, "y": y}


@pytest.mark.parametrize(
    "method",
    [
        Uncertain(k=5, levels="exact"),
        Uncertain(k=5, levels="exact", model="gaussian"),
        Uncertain(k=3, eta="1/4", edges="wrap"),
        Uncertain(k=3),
    ],
    ids=["exact-uniform", "exact-gaussian", "safe-uniform", "regions"],
)
def test_spikes_and_clusters(method: Uncertain) -> None:
    """One clause per release, so that misses are independent."""
    rng = np.random.default_rng(shifted(8))
    runs, missed = 40, 0
    for _ in range(runs):
        values = spiky(rng, 150)
        low, high = np.sort(rng.choice(values["y"], 2))
        true = int(((values["x"] == 0) & (values["y"] >= low) & (values["y"] <= high)).sum())
        released = method.run(connect(pa.table(values), schema()), SecureNoise())
        reader = UncertainEstimator(
            schema(), method.parameters(), released.settings, released.tables
        )
        answer = reader.count(f"x = 0 AND y BETWEEN {low} AND {high}")
        missed += not answer.low <= true <= answer.high
    assert few_misses(missed, runs), missed
