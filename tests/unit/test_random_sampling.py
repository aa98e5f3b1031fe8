"""Random sampling and Mondrian: publication, answers and comparison of the baselines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import hushtable as ht
from hushtable.errors import CompositionError, ParameterError
from hushtable.evaluation.compare import compare
from hushtable.methods import Mondrian, RandomSampling
from hushtable.methods.counts.random_sampling import SampleEstimator
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.answers import Estimate
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.schema import Schema
from seeds import shifted

SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {
        "x": {"type": "integer", "low": 0, "high": 9},
        "c": {"type": "categorical", "values": ["+", "-"], "role": "target"}}}
)  # fmt: skip


def sampled(n_seen: int, rate: str) -> SampleEstimator:
    """Return a release with a given number of sampled rows of one kind."""
    data = pa.table({"x": np.zeros(n_seen, np.int64), "c": ["+"] * n_seen})
    return SampleEstimator(SCHEMA, {"rate": rate}, {"kind": "sampled-rows"}, {"data": data})


@pytest.mark.parametrize("rate", ["1/10", "1/2"])
@pytest.mark.parametrize("truth", [0, 1, 7, 60])
def test_intervals_hold_for_every_count_by_adding_up_all_samples(rate: str, truth: int) -> None:
    """Exact coverage over all numbers of sampled rows: at least 95%."""
    p = {"1/10": 0.1, "1/2": 0.5}[rate]
    chance = 0.0
    for n in range(truth + 1):
        answer = sampled(n, rate).count("x = 0")
        if answer.low <= truth <= answer.high:
            chance += float(binom.pmf(n, truth, p))
    assert chance >= 0.95 - 1e-9


def test_sums_stand_for_all_rows() -> None:
    answer = sampled(50, "1/10")
    assert answer.count("x = 0").value == 500
    assert answer.count("x > 20").high == 0


@pytest.mark.parametrize(("part", "ends"), [("c = '-'", (0.0, 0.12)), ("c = '+'", (0.83, 1.0))])
def test_a_share_that_no_sampled_row_contradicts_is_not_certain(
    part: str, ends: tuple[float, float]
) -> None:
    """Of 30 rows, none with a share of 12% has a probability of 2.2%."""
    answer = ReleaseQuestions(sampled(30, "1/10")).share(part, None, (), "people")
    assert isinstance(answer, Estimate)
    assert (answer.low, answer.high) == pytest.approx(ends, abs=0.02)


def test_a_tuple_is_there_binomially_often(tmp_path: Path) -> None:
    """400 of 1,600 rows at rate 1/4: errors of 8 standard deviations do not happen."""
    table = pa.table({"x": np.arange(1600) % 4, "c": ["+"] * 1600})
    release = ht.publish(table, SCHEMA, RandomSampling(rate="1/4"), out=tmp_path / "out")
    assert release.n_rows == pytest.approx(400, abs=140)
    assert "no privacy guarantee" in (tmp_path / "out" / "STATEMENT.md").read_text()
    assert set(release.frame()["x"].to_pylist()) <= {0, 1, 2, 3}
    mean = release.mean("x")
    assert abs(mean.value - 1.5) < 8 * mean.std


def test_a_ledger_refuses_it_unless_it_takes_what_it_cannot_count(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(100) % 4, "c": ["+"] * 100})
    strict = ht.Ledger.create(tmp_path / "strict", epsilon=1)
    for method in (RandomSampling(rate="1/4"), Mondrian(k=5)):
        with pytest.raises(CompositionError, match="allow-uncounted"):
            ht.publish(table, SCHEMA, method, out=tmp_path / method.name, ledger=strict)
        assert not (tmp_path / method.name).exists()


def test_a_rate_of_everybody_is_no_sample() -> None:
    with pytest.raises(ParameterError, match="above 0 and below 1"):
        RandomSampling(rate=1)


def test_baselines_are_compared_like_any_method(tmp_path: Path) -> None:
    rng = np.random.default_rng(shifted(0))
    x = rng.integers(0, 10, 400)
    table = pa.table({"x": x, "c": np.where(x + rng.integers(0, 4, 400) > 6, "+", "-")})
    for name, method in {"m": Mondrian(k=5), "s": RandomSampling(rate="1/2")}.items():
        release = ht.publish(table, SCHEMA, method, out=tmp_path / name,
                             noise=SeededNoise(shifted(1)))  # fmt: skip
        answer, true = release.count("x >= 5 AND c = '+'"), 0
        true = sum(1 for row in table.to_pylist() if row["x"] >= 5 and row["c"] == "+")
        if name == "m":  # boxes are exact, so the error comes from split boxes only
            assert answer.low <= true <= answer.high
            assert release.n_rows == 400
    found = compare(table, [str(tmp_path / "m"), str(tmp_path / "s")], n_repeats=1, questions=2)
    assert all(len(figure.values) == 2 for figure in found.figures)


def test_a_forecast_says_for_which_columns_intervals_of_means_hold() -> None:
    """Cochran's rule: 100 rows suffice for a skewness of 2."""
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 9}}}
    )
    lines = RandomSampling(rate="1/10").forecast(schema, rows=1000).lines
    assert "skewness up to 2.0" in str(lines["intervals of means"])
