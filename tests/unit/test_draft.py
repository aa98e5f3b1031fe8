"""Drafts of schemas: proposals, with a mark on each part derived from the data."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.drafting import MISSING_WORDS, draft
from hushtable.drafting.schema_check import out_of_domain
from hushtable.errors import DataError, Unconfirmed
from hushtable.schema import Schema
from seeds import shifted

IDENTIFIER = {"role": "identifier", "confirm": ["role"]}
LEFT_OUT = {"role": "left out", "confirm": ["role"]}


def proposed(values: Any, **beside: Any) -> dict[str, Any]:
    """Draft one column; a second one keeps the schema publishable."""
    n_rows = len(values)
    table = pa.table({"x": values, "other": ["a"] * n_rows, **beside})
    column: dict[str, Any] = draft(table).to_dict()["columns"]["x"]
    return column


def test_whole_numbers_are_integers() -> None:
    assert proposed([3, -1, 7]) == {
        "type": "integer", "low": -1, "high": 7, "missing": "other", "outside": "clip",
        "confirm": ["role", "type", "low", "high", "missing", "outside"],
    }  # fmt: skip
    assert proposed([0, 1] * 50)["type"] == "integer"  # numeric codes stay numbers
    assert proposed(["3", "-1", " 7 "])["type"] == "integer"
    assert proposed([1.0, 2.0, None])["type"] == "integer"


def test_numbers_get_a_grid_of_a_power_of_ten() -> None:
    column = proposed([0.5, 1.25, 3.0])
    assert (column["type"], column["step"]) == ("number", 0.01)
    assert column["confirm"] == ["role", "type", "low", "high", "step", "missing", "outside"]
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
    assert out_of_domain(table, schema) == []
    assert schema.attributes["x"].n_values <= 10_001


def test_few_texts_are_listed_and_many_identify() -> None:
    column = proposed(["b", "a", "b"])
    assert column == {
        "type": "categorical", "values": ["a", "b"], "missing": "other", "outside": "other",
        "confirm": ["role", "type", "values", "missing", "outside"],
    }  # fmt: skip
    assert proposed([f"name {i}" for i in range(200)]) == IDENTIFIER
    assert proposed([f"name {i}" for i in range(30)]) == IDENTIFIER
    assert proposed(list(range(1000, 1200))) == IDENTIFIER
    assert proposed([10**12 + i for i in range(200)]) == IDENTIFIER


def test_other_types() -> None:
    truth = proposed([True, False, None])
    assert (truth["type"], truth["missing"], truth["outside"]) == ("boolean", "category", "missing")
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)] * 30
    day = proposed(days)
    assert (day["type"], day["low"], day["high"]) == ("date", "2024-01-01", "2024-01-02")
    assert proposed([[1], [2]]) == LEFT_OUT
    assert proposed(pa.nulls(3)) == LEFT_OUT


def test_missing_becomes_a_category_and_its_words_are_found() -> None:
    table = pa.table({"x": ["1", "NA", "2"], "y": ["a", "?", "a"], "z": ["u", "v", "u"]})
    schema = draft(table)
    assert schema.missing_values == ("", "?", "NA")
    assert [c.missing for c in schema.attributes.values()] == ["category", "category", "other"]
    assert [c.outside for c in schema.attributes.values()] == ["clip", "missing", "other"]
    assert {misfit.kind for misfit in out_of_domain(table, schema)} == {"missing"}


def test_infinities_and_nan() -> None:
    column = proposed([1.5, math.nan, 2.5])
    assert column["missing"] == "category"
    # An infinity cannot be a bound; it is clipped to one.
    column = proposed([1.5, math.inf, 2.5])
    assert (column["type"], column["low"], column["high"]) == ("number", 1.5, 2.5)
    assert proposed([math.inf, math.inf]) == LEFT_OUT


def test_everything_from_the_data_must_be_confirmed() -> None:
    table = pa.table({"age": [1, 2], "sex": ["F", "M"], "bmi": [20.5, 31.25]})
    schema = draft(table, name="clinic")
    assert schema.name == "clinic"
    with pytest.raises(Unconfirmed) as error:
        schema.require_confirmed()
    assert len(error.value.problems) == 4
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
        ("a\n" + "".join(f"t{i}\n" for i in range(30)), "looks like an identifier"),
    ],
)
def test_what_cannot_be_drafted(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        draft(tmp_path / "t.csv")


ROWS = "".join(f"{20 + i % 50},{'FM'[i % 2]},town {i % 3}\n" for i in range(60))


@pytest.mark.parametrize("first", ["73,F,Ayre", "73,Sark,town 1", "1984,M,M"])
def test_a_data_row_is_not_taken_for_column_names(tmp_path: Path, first: str) -> None:
    (tmp_path / "t.csv").write_text(f"{first}\n{ROWS}")
    with pytest.raises(DataError, match="looks like a data row") as told:
        draft(tmp_path / "t.csv")
    assert not any(cell in str(told.value) for cell in first.split(",")[:2] if cell != "F")
    named = draft(tmp_path / "t.csv", first_line_is_names=True)
    assert first.split(",", maxsplit=1)[0] in named.columns


@pytest.mark.parametrize("first", ["age,sex,town", "age,F,town 1", "a,b,c"])
def test_names_are_not_taken_for_a_row(tmp_path: Path, first: str) -> None:
    (tmp_path / "t.csv").write_text(f"{first}\n{ROWS}")
    assert list(draft(tmp_path / "t.csv").columns) == first.split(",")


def test_numbers_are_names_where_others_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,1984,1985\n" + "30,1,0\n41,0,1\n" * 20)
    assert "1984" in draft(tmp_path / "t.csv").columns


def test_columns_of_a_frame_have_names(tmp_path: Path) -> None:
    assert "0" in draft(pa.table({"0": [1, 2, 1], "1": [3, 3, 4]})).columns


def test_codes_with_zeros_in_front_stay_texts() -> None:
    assert proposed(["00501", "10001"] * 20)["values"] == ["00501", "10001"]
    assert proposed(["0", "10"] * 20)["type"] == "integer"


def test_whole_numbers_beyond_64_bits_are_numbers() -> None:
    column = proposed([f"1234567890123456789{last}" for last in "012"] * 20)
    assert column["type"] == "number"


def test_a_mark_is_one_line_that_can_be_deleted() -> None:
    """As stated by every message about it."""
    text = draft(pa.table({"x": [0, 5, 7], "other": ["a", "b", "a"]})).to_yaml()
    marks = [line for line in text.splitlines() if "confirm" in line]
    assert [mark.strip() for mark in marks] == [
        "confirm: [unit, missing_values, reading]",
        "confirm: [role, type, low, high, missing, outside]",
        "confirm: [role, type, values, missing, outside]",
    ]
    kept = "\n".join(line for line in text.splitlines() if line not in marks)
    Schema.parse(kept).require_confirmed()


# --- the rule: every part that one row can change has a mark ---------------------------------

CELLS = st.one_of(
    st.none(),
    st.sampled_from(
        ["F", "M", "0", "41", "x", "007", "1", "2", "2.5", "1e3", "-inf", "nan", *MISSING_WORDS]
    ),
    st.integers(-3, 10**7).map(str),
    st.floats(-10, 10).map(str),
)
N_COLUMNS = 3


def part_of(content: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return each published part of a schema, by its path."""
    parts = {("schema", key): value for key, value in content.items() if key != "columns"}
    for name, column in content["columns"].items():
        parts |= {(name, key): value for key, value in column.items()}
        parts.setdefault((name, "role"), "attribute")
    return {where: value for where, value in parts.items() if where[1] != "confirm"}


def marked(schema: Schema) -> set[tuple[str, ...]]:
    marks = {("schema", part) for part in schema.confirm}
    marks |= {(name, part) for name, column in schema.columns.items() for part in column.confirm}
    # The mark of a recognized column covers all of its parts.
    covered = [name for name, part in marks if part == "recognized"]
    parts = ("role", "type", "values", "ordered", "low", "high", "step", "missing", "outside")
    return marks | {(name, part) for name in covered for part in parts}


def drafted(rows: list[list[str | None]]) -> Schema | None:
    """Return the draft of a table of texts, or None if there is none."""
    names = ("age", "sex", "c2")  # the first two can be recognized
    columns = {
        name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)
    }
    try:
        return draft(pa.table(columns))
    except DataError:
        return None


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_differs_between_neighbors_is_marked_in_both(data: st.DataObject) -> None:
    """One row added, removed or changed: every effect on the schema has a mark."""
    # Rows are drawn from few, so that lists and bounds often do not change with one row.
    row = st.lists(CELLS, min_size=N_COLUMNS, max_size=N_COLUMNS)
    kinds = data.draw(st.lists(row, min_size=1, max_size=4))
    rows = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=25))
    place = data.draw(st.integers(0, len(rows) - 1))
    how, new = data.draw(st.sampled_from(["added", "removed", "changed"])), data.draw(row)
    other = rows[:place] + ([] if how == "removed" else [new])
    other += rows[place:] if how == "added" else rows[place + 1 :]
    one, two = drafted(rows), drafted(other)
    if one is None or two is None:
        return  # no schema, nothing to publish
    first, second = part_of(one.to_dict()), part_of(two.to_dict())
    for where in first.keys() | second.keys():
        if first.get(where) != second.get(where):
            for schema, parts in ((one, first), (two, second)):
                # A missing part depends on the column's type or role.
                assert where in marked(schema) or (
                    where not in parts and {(where[0], "type"), (where[0], "role")} & marked(schema)
                ), (how, where)
    for schema in (one, two):
        with pytest.raises(Unconfirmed):
            schema.require_confirmed()


@pytest.mark.parametrize("new", [None, "", "NA", "?", "x", "99", "2.5", "007"])
def test_a_change_of_the_schema_by_one_unusual_cell_is_marked(new: str | None) -> None:
    """The attack: publish a draft with confirmed marks, and infer who is in the table."""
    rows = [["1", "F", "u"], ["2", "M", "v"]] * 10
    one, two = drafted(rows), drafted([*rows, [new, new, "u"]])
    assert one is not None
    assert two is not None
    changed = {w for w, v in part_of(two.to_dict()).items() if part_of(one.to_dict()).get(w) != v}
    assert changed <= marked(two)
    assert {where for where in changed if where in part_of(one.to_dict())} <= marked(one)


@pytest.mark.parametrize("mark", ["schema", "id", "sex"])
def test_every_single_mark_keeps_a_schema_from_being_published(mark: str) -> None:
    content: dict[str, Any] = {
        "name": "t",
        "columns": {
            "id": {"role": "identifier"},
            "sex": {"type": "categorical", "values": ["F", "M"]},
        },
    }
    Schema.from_dict(content).require_confirmed()
    (content if mark == "schema" else content["columns"][mark])["confirm"] = ["something"]
    schema = Schema.from_dict(content)
    assert Schema.parse(schema.to_yaml()) == schema
    with pytest.raises(Unconfirmed, match="something came from the data"):
        schema.require_confirmed()
