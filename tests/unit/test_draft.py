"""The draft proposes, and marks what it took from the data."""

from __future__ import annotations

import datetime
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushtable.drafting import draft
from hushtable.engine import connect
from hushtable.errors import DataError, Unconfirmed
from hushtable.schema import Schema
from seeds import shifted


def proposed(values: Any, **beside: Any) -> dict[str, Any]:
    """Draft one column; a second one keeps the schema publishable."""
    n_rows = len(values)
    table = pa.table({"x": values, "other": ["a"] * n_rows, **beside})
    column: dict[str, Any] = draft(table).to_dict()["columns"]["x"]
    return column


def test_whole_numbers_are_integers() -> None:
    assert proposed([3, -1, 7]) == {
        "type": "integer", "low": -1, "high": 7, "confirm": ["low", "high"],
    }  # fmt: skip
    assert proposed([0, 1] * 50)["type"] == "integer"  # codes stay numbers
    assert proposed(["3", "-1", " 7 "])["type"] == "integer"
    assert proposed([1.0, 2.0, None])["type"] == "integer"


def test_numbers_get_a_grid_of_a_power_of_ten() -> None:
    column = proposed([0.5, 1.25, 3.0])
    assert (column["type"], column["step"]) == ("number", 0.01)
    assert column["confirm"] == ["low", "high", "step"]
    fine = proposed(np.random.default_rng(shifted(0)).normal(70_000, 9_000, size=1000))
    assert fine["step"] == 100.0
    assert proposed(["1.5", "2.5", "?"])["type"] == "number"
    assert proposed([0.1, 0.1, 0.1])["step"] == 0.1


@pytest.mark.parametrize("seed", range(5))
def test_grid_covers_the_data(seed: int) -> None:
    draw = np.random.default_rng(shifted(seed))
    values = draw.normal(10.0 ** draw.integers(-3, 6), 10.0 ** draw.integers(-3, 6), size=200)
    table = pa.table({"x": values})
    schema = draft(table)
    assert connect(table, schema).rule_breaks() == []
    assert schema.attributes["x"].n_values <= 10_001


def test_few_texts_are_listed_and_many_identify() -> None:
    column = proposed(["b", "a", "b"])
    assert column == {"type": "categorical", "values": ["a", "b"], "confirm": ["values"]}
    assert proposed([f"name {i}" for i in range(200)]) == {"role": "identifier"}
    assert proposed([f"name {i}" for i in range(30)]) == {"role": "identifier"}
    assert proposed(list(range(1000, 1200))) == {"role": "identifier"}
    assert proposed([10**12 + i for i in range(200)]) == {"role": "identifier"}


def test_other_types() -> None:
    assert proposed([True, False, None])["values"] == ["false", "true"]
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)] * 30
    assert proposed(days)["values"] == ["2024-01-01", "2024-01-02"]
    assert proposed([[1], [2]]) == {"role": "identifier"}
    assert proposed(pa.nulls(3)) == {"role": "identifier"}


def test_missing_becomes_a_category_and_its_words_are_found() -> None:
    table = pa.table({"x": ["1", "NA", "2"], "y": ["a", "?", "a"], "z": ["u", "v", "u"]})
    schema = draft(table)
    assert schema.missing_values == ("", "?", "NA")
    assert [c.missing for c in schema.attributes.values()] == ["category", "category", "forbid"]
    assert connect(table, schema).rule_breaks() == []


def test_infinities_and_nan() -> None:
    column = proposed([1.5, math.nan, 2.5])
    assert column["missing"] == "category"
    # An infinity cannot be a bound; whether to clip it is for the custodian to say.
    column = proposed([1.5, math.inf, 2.5])
    assert (column["type"], column["low"], column["high"]) == ("number", 1.5, 2.5)
    assert proposed([math.inf, math.inf]) == {"role": "identifier"}


def test_everything_from_the_data_must_be_confirmed() -> None:
    table = pa.table({"age": [1, 2], "sex": ["F", "M"], "bmi": [20.5, 31.25]})
    schema = draft(table, name="clinic")
    assert schema.name == "clinic"
    with pytest.raises(Unconfirmed) as error:
        schema.require_confirmed()
    assert len(error.value.problems) == 3
    assert Schema.parse(schema.to_yaml()) == schema


def test_files(tmp_path: Path) -> None:
    text = "age,sex\n41,F\n,M\n7,F\n"
    (tmp_path / "clinic.csv").write_text(text)
    (tmp_path / "clinic.csv.gz").write_bytes(gzip.compress(text.encode()))
    table = pa.table({"age": ["41", "", "7"], "sex": ["F", "M", "F"]})
    pq.write_table(table, tmp_path / "clinic.parquet")
    drafts = [draft(tmp_path / f"clinic.{end}") for end in ("csv", "csv.gz", "parquet")]
    assert drafts[0] == drafts[1] == drafts[2]
    assert drafts[0].name == "clinic"
    assert drafts[0].attributes["age"].missing == "category"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n", "no rows"),
        ("", "is empty"),
        ("a,\n1,2\n", "column number 2 of the data has no name"),
        ("a,a\n1,2\n", "'a' stands more than once"),
        ("a\n" + "".join(f"t{i}\n" for i in range(30)), "looks like an identifier"),
    ],
)
def test_what_cannot_be_drafted(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        draft(tmp_path / "t.csv")


def test_codes_with_zeros_in_front_stay_texts() -> None:
    assert proposed(["00501", "10001"] * 20)["values"] == ["00501", "10001"]
    assert proposed(["0", "10"] * 20)["type"] == "integer"


def test_whole_numbers_beyond_64_bits_are_numbers() -> None:
    column = proposed([f"1234567890123456789{last}" for last in "012"] * 20)
    assert column["type"] == "number"


def test_a_mark_is_one_line_that_can_be_deleted() -> None:
    """As every message about it says."""
    text = draft(pa.table({"x": [0, 5, 7], "other": ["a", "b", "a"]})).to_yaml()
    marks = [line for line in text.splitlines() if "confirm" in line]
    assert [mark.strip() for mark in marks] == ["confirm: [low, high]", "confirm: [values]"]
    kept = "\n".join(line for line in text.splitlines() if line not in marks)
    Schema.parse(kept).require_confirmed()
