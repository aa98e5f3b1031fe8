"""Intervals of slopes and means: they have about the stated coverage, although rows are biased.

Each test counts releases whose interval contains the truth. It fails if a binomial with 95% has so
few with probability below one in a million; intervals with 70% coverage nearly always fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.engine import connect
from hushtable.methods import Quilt
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.query.answers.combine import combine, drawn_frame
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.query.answers.table import EstimateTable
from hushtable.schema import Schema
from seeds import shifted

FALSE_ALARM = 1e-6
RUNS = 40


def toy(seed: int, n: int = 20_000) -> tuple[pa.Table, Schema]:
    rng = np.random.default_rng(shifted(seed))
    x, z = rng.normal(25, 8, n), rng.normal(25, 6, n)
    y = x / 2 + z - 12 + rng.normal(0, 5, n)
    columns = {
        name: np.clip(np.round(values), 0, 49).astype(np.int64)
        for name, values in {"x": x, "z": z, "y": y}.items()
    }
    described = {name: {"type": "integer", "low": 0, "high": 49} for name in columns}
    return pa.table(columns), Schema.from_dict({"name": "toy", "columns": described})


def slopes(frame: pa.Table) -> dict[str, tuple[float, float]]:
    x, z, y = (frame.column(name).to_numpy().astype(float) for name in "xzy")
    design = np.stack([np.ones(len(x)), x, z], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ y
    spread = float(np.mean((y - design @ found) ** 2))
    return {name: (found[i], spread * inverse[i, i]) for i, name in ((1, "x"), (2, "z"))}


def released(table: pa.Table, schema: Schema) -> Estimator:
    method = Quilt(epsilon=1, delta="1e-9", particles=5000)
    found = method.run(connect(table, schema, engine="memory"), SecureNoise())
    settings = {"kind": method.estimator_kind, **found.settings}
    return estimator_for(settings, schema, method.parameters(), found.tables)


@pytest.fixture(scope="module")
def releases() -> list[tuple[pa.Table, Estimator]]:
    def made() -> Iterator[tuple[pa.Table, Estimator]]:
        for run in range(RUNS):
            table, schema = toy(run)
            yield table, released(table, schema)

    return list(made())


def enough(hits: int, n: int) -> bool:
    return hits >= int(binom.ppf(FALSE_ALARM, n, 0.95))


def test_slopes_come_from_tables_and_hold(releases: list[tuple[pa.Table, Estimator]]) -> None:
    held = {"x": 0, "z": 0}
    off: dict[str, list[float]] = {"x": [], "z": []}
    for table, estimator in releases:
        answers = ReleaseQuestions(estimator).regression(
            "y ~ x + z", None, logistic=False, scope="people"
        )
        true = slopes(table)
        for name in held:
            held[name] += answers[name].low <= true[name][0] <= answers[name].high
            off[name].append(answers[name].value / true[name][0] - 1)
    for name, hits in held.items():
        assert enough(hits, RUNS)
        # A mean of 40 values with standard deviation at most 5% is off by 4% once in a million.
        assert abs(np.mean(off[name])) < 0.04


def test_means_and_medians_hold(releases: list[tuple[pa.Table, Estimator]]) -> None:
    means = medians = groups = 0
    for table, estimator in releases:
        answers = ReleaseQuestions(estimator)
        y, x = (table.column(name).to_numpy() for name in "yx")
        for found, truth in (
            (answers.statistic("mean", "y", None, (), "people"), y.mean()),
            (answers.quantile("y", 0.5, None, (), "people"), np.sort(y)[(len(y) - 1) // 2]),
            (answers.statistic("mean", "y", "x >= 30", (), "people"), y[x >= 30].mean()),
        ):
            assert isinstance(found, Estimate)
            hit = found.low <= truth <= found.high
            means += hit and found.what.startswith("mean")
            medians += hit and found.what.startswith("median")
    assert enough(medians, RUNS)
    assert means + groups >= 2 * int(binom.ppf(FALSE_ALARM, RUNS, 0.95))


@pytest.mark.long
def test_frames_of_one_release_combine(releases: list[tuple[pa.Table, Estimator]]) -> None:
    n = 20
    held = {"x": 0, "z": 0}
    for table, estimator in releases[:n]:
        rng = np.random.default_rng(shifted(9))
        frames = [drawn_frame(estimator, rng) for _ in range(8)]
        found = combine(frames, slopes, scope="people")
        assert isinstance(found, EstimateTable)
        true = slopes(table)
        for name in held:
            held[name] += found[name].low <= true[name][0] <= found[name].high
    for hits in held.values():
        assert enough(hits, n)
