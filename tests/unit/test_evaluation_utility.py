"""Utility metrics are perfect for the table itself, and get worse if it is modified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.datasets import sample, sample_schema
from hushtable.evaluation.inputs import align_tables, read_rows
from hushtable.evaluation.utility.closeness import measure_utility
from hushtable.evaluation.utility.marginals import (
    cramers_v,
    largest_gap,
    total_variation,
    wasserstein,
)
from hushtable.evaluation.utility.workload import draw_questions
from hushtable.numeric import project_to_simplex
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted

ROWS = sample().slice(0, 4000)
CONTROL = sample().slice(4000, 4000)


def utility(
    table: pa.Table, *, schema: Schema | None = None, data: pa.Table = ROWS, learns: bool = True
) -> dict[str, Any]:
    """Compare a table with the original."""
    schema = schema or sample_schema()
    compared = align_tables(table, data, schema=schema)
    control = read_rows(CONTROL, compared.published.schema) if data is ROWS else None
    target = schema.target if learns else None
    rng = np.random.default_rng(shifted(1))
    return measure_utility(
        compared, control, target, rng, n_draws=1, n_repeats=1, per_cell=4
    ).to_dict()


def distances(found: dict[str, Any]) -> dict[str, float]:
    return {
        f"{column['name']} {m['metric']}": m["value"]
        for column in found["columns"]
        for m in column["measured"]
    }


def accuracies(found: dict[str, Any], model: str) -> dict[str, float]:
    return {
        line["trained_on"]: line["accuracy"]["value"]
        for line in found["learning"]["lines"]
        if line["model"] in (model, "majority")
    }


def shuffled(table: pa.Table) -> pa.Table:
    draw = np.random.default_rng(shifted(2))
    return pa.table(
        {
            name: table.column(name).take(pa.array(draw.permutation(table.num_rows)))
            for name in table.column_names
        }
    )


def noise() -> pa.Table:
    draw, schema = np.random.default_rng(shifted(3)), sample_schema()
    return pa.table(
        {
            name: pa.array([column.value(int(c)) for c in draw.integers(0, column.size, 4000)])
            for name, column in schema.attributes.items()
        }
    )


def test_the_table_itself_is_perfect() -> None:
    found = utility(ROWS)
    assert all(value == 0 for value in distances(found).values())
    assert found["pairs"]["largest"] == found["triples"]["largest"] == 0
    assert found["association"]["largest"] == 0
    assert all(one["truth"] == one["value"] for one in found["workload"]["questions"])
    for model in ("decision tree", "naive Bayes", "gradient boosting"):
        scores = accuracies(found, model)
        assert scores["release"] == pytest.approx(scores["original"], abs=0.02)
        assert scores["release"] > scores["nothing"]


def test_the_order_of_rows_does_not_matter() -> None:
    turned = ROWS.take(pa.array(np.random.default_rng(shifted(8)).permutation(ROWS.num_rows)))
    assert utility(turned, learns=False) == utility(ROWS, learns=False)


def test_independent_columns_keep_single_columns_and_lose_the_rest() -> None:
    found = utility(shuffled(ROWS))
    assert all(value == pytest.approx(0, abs=1e-12) for value in distances(found).values())
    pairs = found["pairs"]
    # The error of independence, up to the randomness of one shuffle.
    assert pairs["mean"]["value"] == pytest.approx(pairs["independent"], abs=pairs["sampling"])
    assert pairs["mean"]["value"] > pairs["sampling"]
    assert found["triples"]["mean"]["value"] > pairs["mean"]["value"]
    assert found["association"]["largest"] > 0.1
    lines = {line["arity"]: line for line in found["workload"]["lines"] if not line["selectivity"]}
    assert lines[1]["mean_relative_error"]["value"] == 0
    assert lines[3]["mean_relative_error"]["value"] > 0.02
    scores = accuracies(found, "gradient boosting")
    assert scores["release"] < scores["nothing"] + 0.03 < scores["original"]


def test_random_noise_is_bad() -> None:
    found, mixed = utility(noise()), utility(shuffled(ROWS), learns=False)
    values = distances(found)
    assert values["smoker total variation"] > 0.3
    assert values["age Kolmogorov-Smirnov"] > 0.1
    assert found["pairs"]["mean"]["value"] > 2 * mixed["pairs"]["mean"]["value"]
    first, second = (one["workload"]["lines"][0]["median_relative_error"] for one in (found, mixed))
    assert first["low"] > second["high"]
    scores = accuracies(found, "naive Bayes")
    assert scores["release"] < scores["nothing"] + 0.03


def test_missing_values_and_odd_types_are_compared() -> None:
    schema = Schema.from_dict(
        {
            "name": "odd",
            "missing_values": ["", "?"],
            "columns": {
                "year": {
                    "type": "integer", "low": 1900, "high": 2000, "missing": "category",
                    "outside": "missing",
                },
                "price": {"type": "number", "low": -1, "high": 1, "step": 0.25, "outside": "clip"},
                "it's \"<b>\"": {"type": "categorical", "values": ["a'b", "<i>", "; --"],
                                 "missing": "category"},
                "grade": {"type": "categorical", "values": ["low", "mid", "high"], "ordered": True,
                          "role": "target"},
            },
        }
    )  # fmt: skip
    draw = np.random.default_rng(shifted(4))
    table = pa.table(
        {
            "year": draw.choice(["1950", "1977.0", "?", "", "1800", "x"], 300),
            "price": pa.array(draw.choice([-9.0, -0.3, 0.1, 0.95], 300)),
            'it\'s "<b>"': pa.array(draw.choice(["a'b", "<i>", "; --", "?"], 300)),
            "grade": pa.array(draw.choice(["low", "mid", "high"], 300)),
            "unknown": pa.array([b"\xff"] * 300),
        }
    )
    found = utility(table, schema=schema, data=table)
    assert all(value == 0 for value in distances(found).values())
    assert {m["metric"] for m in found["columns"][0]["measured"]} >= {"missing share"}
    holes = table.set_column(0, "year", pa.array(["?"] * 300))
    assert distances(utility(holes, schema=schema, data=table))["year missing share"] > 0.2
    assert found["workload"]["n"] > 0


def test_an_empty_release_has_the_largest_distance() -> None:
    found = utility(ROWS.slice(0, 0), learns=False)
    assert all(value == 1 or "missing" in name for name, value in distances(found).items())
    assert found["pairs"]["mean"]["value"] == 1
    assert all(one["value"] == 0 for one in found["workload"]["questions"])


def test_questions_mean_the_same_as_their_sql() -> None:
    rows = read_rows(ROWS, sample_schema())
    questions = draw_questions(rows, np.random.default_rng(shifted(5)), per_cell=6)
    assert {len(question.conditions) for question, _ in questions} == {1, 2, 3}
    assert any("IS NULL" in question.sql for question, _ in questions)
    for question, truth in questions:
        mask = parse(question.sql, rows.schema).mask(dict(rows.codes))
        assert np.count_nonzero(mask) == truth == question.count(rows)


def test_questions_fill_the_ranges_of_selectivity() -> None:
    rows, draw = read_rows(sample(), sample_schema()), np.random.default_rng(shifted(6))
    truths = np.array([n for _ in range(2) for _, n in draw_questions(rows, draw)])
    # A range includes its upper end.
    bins = np.diff([np.sum(truths <= rows.n_rows * share) for share in (0, 0.001, 0.01, 0.1, 1)])
    assert bins[2:].tolist() == [120, 120]
    # Few columns of the sample are fine enough for the lower ranges: over 40 seeds, 24 with a
    # standard deviation of 5.6, and 92 with 2.8, so neither fails by chance (below 1e-6).
    assert bins[0] > 0
    assert bins[1] >= 70


floats = st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda x: sum(x) > 0.01)


@given(floats, floats)
@settings(max_examples=60, deadline=None)
def test_distances_of_distributions(one: list[float], two: list[float]) -> None:
    n = min(len(one), len(two))
    p, q = (np.array(x[:n]) for x in (one, two))
    if not p.any() or not q.any():
        return
    p, q = p / p.sum(), q / q.sum()
    codes = np.arange(n)
    variation, gap = total_variation(p, q), largest_gap(codes, p, q, n - 1)
    moved = wasserstein(codes, p, q, max(n - 1, 1))
    assert 0 <= gap <= variation + 1e-12 <= 1 + 1e-9
    assert 0 <= moved <= variation + 1e-12  # nothing moves farther than the whole range
    assert total_variation(p, p) == wasserstein(codes, p, p, n - 1) == 0


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_projection_is_a_distribution(values: list[float]) -> None:
    shares = np.array(values)
    found = project_to_simplex(shares)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(shifted(0)).dirichlet(np.ones(len(shares)), 50)
    nearest = ((others - shares) ** 2).sum(axis=1).min()
    assert ((found - shares) ** 2).sum() <= nearest + 1e-9


def test_wasserstein_agrees_with_scipy() -> None:
    from scipy.stats import wasserstein_distance

    draw = np.random.default_rng(shifted(7))
    p, q = draw.dirichlet(np.ones(9), 2)
    codes = np.sort(draw.choice(100, 9, replace=False))
    assert wasserstein(codes, p, q, 99) == pytest.approx(
        wasserstein_distance(codes, codes, p, q) / 99
    )


def test_association_without_dependence_is_not_inflated() -> None:
    draw = np.random.default_rng(shifted(8))
    values = []
    for _ in range(50):
        counts = np.histogram2d(draw.integers(0, 8, 400), draw.integers(0, 8, 400), 8)[0]
        values.append(cramers_v(counts / 400, 400))
    assert np.mean(values) < 0.05  # the plain V would be about 0.13


@pytest.mark.parametrize("target", ["age", "word"])
def test_a_target_with_many_values_is_split_in_two(target: str) -> None:
    words = [f"w{number}" for number in range(60)]
    schema = Schema.from_dict(
        {
            "name": "many",
            "columns": {
                "age": {"type": "integer", "low": 0, "high": 99, "missing": "category"},
                "word": {"type": "categorical", "values": words},
            },
        }
    )
    draw = np.random.default_rng(shifted(9))
    age = draw.integers(0, 100, 800)
    word = np.where(age > 60, "w7", np.array(words)[draw.integers(0, 60, 800)])
    table = pa.table({"age": pa.array(age, mask=draw.random(800) < 0.1), "word": word})
    compared = align_tables(table, table, schema=schema)
    found = measure_utility(
        compared,
        None,
        target,
        np.random.default_rng(shifted(1)),
        n_draws=1,
        n_repeats=1,
        per_cell=1,
    ).learning
    assert found is not None
    assert len(found.classes) == 2
    scores = {line.trained_on: line.accuracy.value for line in found.lines}
    assert scores["release"] > scores["nothing"] + 0.1
