"""Coverage of intervals: about as stated, on real data and on the sample."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import binom

from hushtable.datasets import sample, sample_schema
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.schema import Categorical, Schema
from hushtable_papers.adult import adult

RUNS = 40
FALSE_ALARM = 1e-6


def one_way_questions(schema: Schema, columns: list[str]) -> list[tuple[str, str, str]]:
    """Return a question for every value of some categorical columns."""
    questions = []
    for name in columns:
        column = schema.attributes[name]
        assert isinstance(column, Categorical)
        questions += [(name, value, f"\"{name}\" = '{value}'") for value in column.values]
    return questions


def coverage(
    table: pa.Table, schema: Schema, method: NoisyCounts, columns: list[str], folder: Path
) -> tuple[int, int, float]:
    hits, asked, widths = 0, 0, 0.0
    questions = one_way_questions(schema, columns)
    truths = [pc.sum(pc.equal(table[name], value)).as_py() for name, value, _ in questions]
    for run in range(RUNS):
        release = publish(table, schema, method, out=folder / str(run))
        for truth, (_, _, where) in zip(truths, questions, strict=True):
            answer = release.count(where)
            hits += answer.low <= truth <= answer.high
            asked += 1
            widths += answer.high - answer.low
    return hits, asked, widths / asked


@pytest.mark.parametrize("mechanism", ["tight", "paper"])
def test_one_way_counts_of_adult(shared_data: Path, tmp_path: Path, mechanism: str) -> None:
    """Two coarse columns and the target: every cell is published, so nothing is assumed.

    Answers of one run share noise, so the run is the unit: a run's hits vary at least as much as
    RUNS independent ones. The bounds are those of a binomial with one trial per run and column.
    """
    table, schema = adult(shared_data)
    keep = ["sex", "marital-status", "income"]
    table = table.select(keep)
    schema = Schema.from_dict(
        {"name": "Adult", "columns": {n: schema.to_dict()["columns"][n] for n in keep}}
    )
    method = NoisyCounts(
        epsilon=1, delta="1e-6", k=10, mechanism=mechanism, generalize={"marital-status": 2}
    )
    hits, asked, width = coverage(table, schema, method, ["sex", "income"], tmp_path)
    trials = RUNS * 2
    rate = hits / asked
    assert rate >= binom.ppf(FALSE_ALARM, trials, 0.95) / trials
    assert rate < 1.0 or width < 40  # discrete noise covers slightly more than 95%
    assert width < 60


def test_suppressed_rows_are_allowed_for(tmp_path: Path) -> None:
    """With a fine table many cells are suppressed; intervals must still contain the truth."""
    method = NoisyCounts(
        epsilon=1, delta="1e-6", k=10, generalize={"age": 20}, row_count_share="1/20"
    )
    schema = sample_schema()
    hits, asked, _ = coverage(sample(), schema, method, ["sex", "region", "diagnosis"], tmp_path)
    assert hits / asked >= binom.ppf(FALSE_ALARM, RUNS * 3, 0.95) / (RUNS * 3)
