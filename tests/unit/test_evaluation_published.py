"""The content of a release is read correctly before it is compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Columns, Degrees, Partition, Schema, SeededNoise, evaluate, publish
from hushtable.datasets import sample, sample_schema
from hushtable.errors import ParameterError
from hushtable.evaluation.inputs import CodedRows, align_tables, read_rows
from hushtable.evaluation.utility.marginals import Binned, coarse_bins, total_variation
from hushtable.methods import Frapp
from hushtable.publishing.publish import publish_graph
from hushtable.query.answers.published import KnownNoiseRows, draw_inside
from hushtable.schema.recoding import recode
from seeds import shifted

ROWS = sample().slice(0, 3000)
MOVIES = [f"m{number}" for number in range(6)]
RATINGS = Schema.from_dict(
    {
        "name": "ratings",
        "unit": {"kind": "person", "column": "user", "max_rows": 6},
        "columns": {
            "user": {"role": "identifier"},
            "movie": {"type": "categorical", "values": MOVIES},
            "rating": {"type": "integer", "low": 1, "high": 5},
        },
    }
)


def ratings() -> tuple[pa.Table, np.ndarray]:
    """Generate ratings as a long table and as the matrix of people and movies (0 for none)."""
    draw = np.random.default_rng(shifted(7))
    matrix = np.where(draw.random((500, 6)) < 0.5, draw.integers(1, 6, (500, 6)), 0)
    user, movie = np.nonzero(matrix)
    table = {"user": user, "movie": [MOVIES[m] for m in movie], "rating": matrix[user, movie]}
    return pa.table(table), matrix


@pytest.mark.parametrize(("name", "rule"), [("age", [18, 65]), ("region", 1), ("diagnosis", 1)])
def test_values_are_drawn_evenly_from_inside_their_cell(name: str, rule: object) -> None:
    column = sample_schema().attributes[name]
    cut = recode(name, column, rule)  # type: ignore[arg-type]
    wanted = np.repeat(np.arange(cut.size), 4000)
    drawn = draw_inside(cut, wanted, np.random.default_rng(shifted(0)))
    assert (cut.apply(drawn) == wanted).all()
    counts = np.bincount(drawn, minlength=column.size)
    expected = 4000 / cut.widths[cut.apply(np.arange(column.size))]
    # Each count is binomial: six standard deviations fail with probability below 1e-6 in total.
    assert (abs(counts - expected) <= 6 * np.sqrt(expected) + 1).all()


def test_a_missing_value_stays_missing() -> None:
    schema = Schema.parse(
        "name: t\ncolumns: {age: {type: integer, low: 0, high: 9, missing: category}}"
    )
    cut = recode("age", schema.attributes["age"], 5)
    assert draw_inside(cut, np.array([2, 2]), np.random.default_rng(shifted(0))).tolist() == [
        10,
        10,
    ]


def test_expected_noise_is_subtracted() -> None:
    rows = read_rows(ROWS, sample_schema())
    draw = np.random.default_rng(shifted(1))
    noise = {
        name: draw.integers(0, column.size, 12_000)
        for name, column in rows.schema.attributes.items()
    }
    mixed = CodedRows.of(
        rows.schema, {name: np.append(rows.codes[name], noise[name]) for name in rows.codes}
    )
    bins = {
        name: coarse_bins(column, rows.codes[name])
        for name, column in rows.schema.attributes.items()
    }
    truth, names = Binned(rows, bins).shares(["sex", "smoker"]), ["sex", "smoker"]
    as_is = total_variation(truth, Binned(mixed, bins).shares(names))
    cleaned = total_variation(truth, Binned(mixed, bins, KnownNoiseRows(12_000.0)).shares(names))
    assert cleaned < 0.06
    assert as_is > 0.25


def test_rows_of_a_release_equal_the_published_ones(tmp_path: Path) -> None:
    release = publish(
        ROWS,
        sample_schema(),
        Frapp(retention="1/2"),
        out=tmp_path / "r",
        noise=SeededNoise(shifted(1)),
    )
    compared = align_tables(release, ROWS)
    rows = CodedRows.drawn(compared.published.blocks[0], np.random.default_rng(shifted(0)))
    assert rows.table().cast(release.frame().schema).equals(release.frame())


def test_regions_are_drawn_from_the_given_generator(tmp_path: Path) -> None:
    release = publish(
        ROWS,
        sample_schema(),
        Partition(epsilon=2),
        out=tmp_path / "r",
        noise=SeededNoise(shifted(1)),
    )
    block = align_tables(release, ROWS).published.blocks[0]
    one, two, other = (
        CodedRows.drawn(block, np.random.default_rng(shifted(seed))).table() for seed in (1, 1, 2)
    )
    assert one.equals(two)
    assert not one.equals(other)


def test_people_of_a_long_table_are_counted_by_group(tmp_path: Path) -> None:
    table, matrix = ratings()
    method = Columns(
        epsilon=20, delta="1e-3", k=2, max_columns=2, item="movie", value="rating",
        columns=[MOVIES[:3], MOVIES[3:]],
    )  # fmt: skip
    release = publish(table, RATINGS, method, out=tmp_path / "r", noise=SeededNoise(shifted(1)))
    compared = align_tables(release, table)
    for number, rows in enumerate(compared.originals):
        part = matrix[:, 3 * number : 3 * number + 3]
        part = part[(part > 0).any(axis=1)]
        expected = np.where(part > 0, part - 1, 5)  # code 5 means no rating
        found = np.column_stack([rows.codes[name] for name in MOVIES[3 * number :][:3]])
        assert sorted(found.tolist()) == sorted(expected.tolist())
    content = evaluate(release, table, n_repeats=1, questions=4).to_dict()
    assert "not_assessed" in content["risk"]
    assert content["utility"]["about"] == "people"
    for question in content["utility"]["workload"]["questions"]:
        assert question["truth"] > 0
        assert "NULL" not in question["where"]
    with pytest.raises(ParameterError, match="control"):
        evaluate(release, table, control=table)


def test_groups_of_columns_are_compared_among_rows_that_have_them(tmp_path: Path) -> None:
    method = Columns(
        epsilon=4, delta="1e-4", k=3, max_columns=2, generalize={"age": 50},
        columns=[["age", "smoker"], ["smoker"]],
    )  # fmt: skip
    release = publish(
        ROWS, sample_schema(), method, out=tmp_path / "r", noise=SeededNoise(shifted(1))
    )
    compared = align_tables(release, ROWS)
    n_missing = ROWS.column("smoker").null_count
    assert [rows.n_rows for rows in compared.originals] == [3000, 3000 - n_missing]
    utility = evaluate(release, ROWS, n_repeats=1, questions=2).to_dict()["utility"]
    assert [pair["names"] for pair in utility["pairs"]["each"]] == [["age", "smoker"]]
    assert any("No model was trained" in note for note in utility["notes"])


def test_a_graph_is_compared_by_its_degrees(tmp_path: Path) -> None:
    edges = [(i, (i + step) % 300) for i in range(300) for step in (1, 2)]
    release = publish_graph(
        edges, Degrees(epsilon=5, max_degree=8), nodes=range(300), out=tmp_path / "r",
        noise=SeededNoise(shifted(1)),
    )  # fmt: skip
    content = evaluate(release, edges, nodes=range(300), questions=3).to_dict()
    totals = content["utility"]["degrees"]["totals"]
    assert totals["nodes"][0] == 300
    assert totals["edges"][0] == 600
    assert totals["mean degree"][1] == pytest.approx(4, abs=0.5)
    assert content["utility"]["pairs"] is None
    assert "degrees" in content["risk"]["not_assessed"]
