"""Intervals of releases with random insertions have the stated coverage."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.datasets import sample, sample_schema
from hushtable.methods import AlphaBeta, Frapp, Method
from hushtable.methods.alpha_beta.two_rates import TwoRateCount
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.publishing.publish import publish
from hushtable.schema import Schema

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("q", "n_items", "low", "high"),
    [
        (0, 10**6, "1/100000", "1/2"),
        (3, 549, "1/150", "101/150"),
        (20, 10**6, "1/50000", "1/2"),
        (200, 40_000, "1/500", "1/2"),
        (500, 20_000, "1/10", "1/2"),
        (4000, 10**6, "1/500", "1/2"),
        (30_000, 10**8, "1/500", "499/1000"),
        (50, 60, "1/20", "19/20"),
    ],
)
def test_interval_of_a_count_at_two_rates(q: int, n_items: int, low: str, high: str) -> None:
    """600 draws each: at least 95% are covered, up to a false alarm of 1e-6."""
    noise, runs = SecureNoise(), 600
    p_low, p_high = Fraction(low), Fraction(high)
    intervals: dict[int, tuple[float, float]] = {}
    hits = misses_of_bernstein = 0
    for _ in range(runs):
        rng = np.random.default_rng(noise.integer_below(2**60))
        n_seen = len(noise.subset(q, p=p_high)) + int(rng.binomial(n_items - q, float(p_low)))
        answer = TwoRateCount(n_seen=n_seen, n_items=n_items, low=p_low, high=p_high, most=n_items)
        if n_seen not in intervals:
            intervals[n_seen] = answer.interval()
        least, most = intervals[n_seen]
        hits += least <= q <= most
        bernstein = answer.bernstein(0.05)
        misses_of_bernstein += not bernstein[0] - 1e-3 <= q <= bernstein[1] + 1e-3
    assert hits >= binom.ppf(FALSE_ALARM, runs, 0.95)
    assert misses_of_bernstein <= binom.isf(FALSE_ALARM, runs, 0.05)


@pytest.mark.parametrize(
    "method",
    [
        AlphaBeta(d="3/10", n_public=6000, gamma="1/2"),
        AlphaBeta(d="3/10", n_public=6000, gamma="1/2", adversary="independent"),
        AlphaBeta(prior_factor=1, n_public=6000, gamma="4/5", source={"region": [4, 2, 2, 1, 1]}),
        Frapp(retention="1/5"),
    ],
    ids=["exclusive", "independent", "source", "frapp"],
)
def test_coverage_of_releases(method: Method, tmp_path: Path) -> None:
    """Disjoint questions have independent noise in alpha-beta; false alarm 1e-6."""
    schema = sample_schema()
    rows = sample().select(list(schema.attributes)).to_pylist()
    if isinstance(method, AlphaBeta):
        rows = [dict(row) for row in {tuple(row.items()) for row in rows}]
    questions = [(f"age BETWEEN {10 * i} AND {10 * i + 9}", i) for i in range(10)]
    truths = [sum(row["age"] // 10 == i for row in rows) for _, i in questions]
    hits, runs = 0, 12
    for run in range(runs):
        release = publish(sample(), schema, method, out=tmp_path / str(run))
        for truth, (where, _) in zip(truths, questions, strict=True):
            estimate = release.count(where)
            hits += estimate.low <= truth <= estimate.high
    assert hits >= binom.ppf(FALSE_ALARM, runs * len(questions), 0.95)


@pytest.mark.parametrize("rule", ["memoized", "algorithm-4"])
def test_coverage_of_later_views(rule: str, tmp_path: Path) -> None:
    """The third view of a table; false alarm 1e-6."""
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "x": {"type": "integer", "low": 0, "high": 9},
                "y": {"type": "integer", "low": 0, "high": 4999},
            },
        }
    )
    table = pa.table({"x": [i % 10 for i in range(3000)], "y": list(range(3000))})
    hits, runs = 0, 12
    for run in range(runs):
        method = AlphaBeta(
            d="1/100",
            n_public=1,
            gamma="1/2",
            views=3,
            view_rule=rule,  # type: ignore[arg-type]
            view_history=tmp_path / f"view_history{run}",
        )
        for view in range(3):
            release = publish(table, schema, method, out=tmp_path / f"{run}-{view}")
        for x in range(10):
            estimate = release.count(f"x = {x}")
            hits += estimate.low <= 300 <= estimate.high
    assert hits >= binom.ppf(FALSE_ALARM, runs * 10, 0.95)
