"""German credit: a thousand rows, codes such as A11, amounts, and a class 1 or 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hushtable as ht
from hushtable.errors import Refused
from tables.end_to_end import published, taken

N_ROWS = 1000


@pytest.fixture
def german(tmp_path: Path) -> Path:
    draw = np.random.default_rng(9)
    bad = draw.random(N_ROWS) < 0.3
    columns: dict[str, list[object]] = {
        f"attribute_{i}": [f"A{i}{draw.integers(1, 5)}" for _ in range(N_ROWS)]
        for i in range(1, 14)
    }
    columns |= {
        "months": (draw.integers(1, 12, N_ROWS) * 6).tolist(),
        "credit_amount": np.round(draw.lognormal(7.8, 0.8, N_ROWS)).astype(int).tolist(),
        "age": draw.integers(19, 76, N_ROWS).tolist(),
        "foreign": draw.choice(["A201", "A202"], N_ROWS, p=[0.96, 0.04]).tolist(),
        "credit_risk": np.where(bad, 2, 1).tolist(),
    }
    file = tmp_path / "german.csv"
    rows = zip(*columns.values(), strict=True)
    file.write_text("\n".join([",".join(columns), *(",".join(map(str, r)) for r in rows)]) + "\n")
    return file


def test_the_class_is_taken_for_the_target(german: Path) -> None:
    made, schema = taken(german)
    assert schema.target == "credit_risk"
    assert schema.attributes["credit_risk"].values == ("1", "2")
    assert any("role: target" in said for said in made.remarks[""])
    assert schema.attributes["credit_amount"].type == "integer"
    assert schema.attributes["attribute_1"].values == ("A11", "A12", "A13", "A14")


def test_a_thousand_rows_are_too_few_for_counts_of_all_columns(german: Path) -> None:
    _, schema = taken(german)
    with pytest.raises(Refused, match="would be empty"):
        published(german, schema, ht.NoisyCounts(epsilon=1, delta="1e-6", k=10), rows=N_ROWS)


def test_a_thousand_rows_are_few_for_cuts_by_all_columns(german: Path) -> None:
    """The forecast states that counts will be inaccurate, and better with few columns."""
    _, schema = taken(german)
    few = ["attribute_1", "foreign", "credit_risk"]
    by_all = ht.DiffGen(epsilon=1).plan(schema).typical_width(N_ROWS)
    by_few = ht.DiffGen(epsilon=1).plan(schema.of_rows(few)).typical_width(N_ROWS)
    assert by_all > 0.8
    assert by_few < 0.3
    release = published(german, schema, ht.DiffGen(epsilon=1), rows=N_ROWS, columns=few)
    answer = release.count("credit_risk = '2' AND attribute_1 = 'A11'")
    assert answer.high - answer.low < 0.3 * N_ROWS


def test_a_thousand_rows_tell_more_of_few_columns_in_regions(german: Path) -> None:
    """Columns with few values are counted separately, so all of them are informative."""
    _, schema = taken(german)
    partition = ht.Partition(epsilon=1)
    few = ["attribute_1", "foreign", "credit_risk"]
    by_all = partition.plan(schema).typical_width(N_ROWS)
    by_few = partition.plan(schema.of_rows(few)).typical_width(N_ROWS)
    assert by_few < 0.3 < by_all < 0.85
    release = published(german, schema, partition, rows=N_ROWS, columns=few)
    answer = release.count("credit_risk = '2'")
    assert answer.high - answer.low < N_ROWS / 2


@pytest.mark.parametrize(
    "method", [ht.Quilt(epsilon=1, delta="1e-6"), ht.DiffGen(epsilon=1), ht.Partition(epsilon=1)],
    ids=lambda method: method.name,
)  # fmt: skip
def test_what_can_be_published_answers(german: Path, method: ht.Method) -> None:
    _, schema = taken(german)
    release = published(german, schema, method, rows=N_ROWS)
    answer = release.count("credit_risk = '2'")
    assert answer.low <= answer.value <= answer.high
    assert answer.high - answer.low < 2 * N_ROWS
