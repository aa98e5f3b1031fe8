"""Drafts recognize common patterns, state them, and leave all of them to be confirmed."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushtable as ht
from hushtable.drafting import drafted, profile
from hushtable.drafting.schema_check import out_of_domain
from hushtable.engine import connect, open_table
from hushtable.engine.sources.source import TableSource
from hushtable.errors import Unconfirmed
from hushtable.methods.partition import region_table
from hushtable.query.answers.cell_sums import COUNT, NOISY_COUNT
from hushtable.schema import Schema
from hushtable.schema.file_format import METHODS_OWN
from seeds import shifted

N = 400
DRAW = np.random.default_rng(shifted(3))
FILLER = DRAW.choice(["a", "b", "c"], N).tolist()


def seen(values, *, name="x", **beside):
    made = drafted(pa.table({name: values, "filler": FILLER[: len(values)], **beside}))
    return made.schema.columns[name], " ".join(made.remarks.get(name, ())), made


def test_repeated_ids_are_asked_about_and_a_unit_is_proposed():
    ids = np.repeat(np.arange(125), 4)[:N]
    column, why, made = seen(ids.tolist(), name="id")
    assert column.role == "identifier"
    assert "identifies persons" in why
    unit = made.schema.unit
    assert (unit.kind, unit.column, unit.max_rows) == ("person", "id", 4)
    assert "unit" in made.schema.confirm
    assert "Values of 'id' occur 4 times on average. Does it identify" in made.remarks[""][0]
    with pytest.raises(Unconfirmed, match="unit"):
        made.schema.require_confirmed()


def test_ids_that_differ_are_row_numbers():
    column, why, made = seen(list(range(N)), name="id")
    assert column.role == "identifier"
    assert "all differ" in why
    assert made.schema.unit.kind == "row"


def test_unused_rows_of_persons_are_reported():
    who = [*"aaaabbc", None]
    schema = Schema.from_dict({
        "name": "t", "unit": {"kind": "person", "column": "who", "max_rows": 2},
        "columns": {"who": {"role": "identifier"}, "x": {"type": "integer", "low": 0, "high": 9}},
    })  # fmt: skip
    found = out_of_domain(pa.table({"who": who, "x": range(8)}), schema)
    assert [(one.kind, one.n_rows) for one in found] == [("nobody", 1), ("surplus", 2)]
    assert "column 'who': 2 rows exceed the maximum of 2 per person" in str(found[1])


def test_very_few_people_with_very_many_rows_do_not_set_the_bound():
    ids = [*np.repeat(np.arange(100), 3).tolist(), *[1000] * 100]
    *_, made = seen(ids, name="patient_id")
    assert made.schema.unit.max_rows == 3


MOMENT = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(("values", "content"), [
    ([f"2020-01-01 10:{i % 60:02}:{i % 59:02}" for i in range(N)],
     {"type": "timestamp", "low": "2020-01-01 10:00:00", "high": "2020-01-01 10:59:00",
      "step": "minute"}),
    ([MOMENT + datetime.timedelta(hours=7 * i) for i in range(N)],
     {"type": "date", "low": "2024-03-01"}),
    ([f"{i % 24:02}:{i % 60:02}" for i in range(N)], {"type": "time", "step": "hour"}),
    ([datetime.time(i % 24, i % 60) for i in range(N)], {"type": "time", "step": "hour"}),
    ([datetime.timedelta(minutes=i % 90) for i in range(N)],
     {"type": "duration", "low": 0, "high": 89, "step": "minute"}),
    ([f"{i % 40} days" for i in range(N)],
     {"type": "duration", "low": 0, "high": 39, "step": "day"}),
    ([i % 3 == 0 for i in range(N)], {"type": "boolean"}),
    ([str(i % 3 == 0) for i in range(N)], {"type": "boolean"}),
])  # fmt: skip
def test_times_durations_and_booleans_are_recognized(values, content):
    column, _, made = seen(values)
    shown = column.model_dump(mode="json")
    assert {part: shown[part] for part in content} == content
    assert "type" in column.confirm
    assert out_of_domain(pa.table({"x": values, "filler": FILLER}), made.schema) == []


@pytest.mark.parametrize(("values", "words"), [
    ([f"{i % 50} %" for i in range(N)], "remove the sign to publish numbers"),
    ([f"{1 + i % 28:02}.05.24" for i in range(N)], "distinct texts"),
])  # fmt: skip
def test_columns_that_are_nearly_numbers_or_dates_are_reported(values, words):
    column, why, made = seen(values)
    assert column.role == "left out" or column.type == "categorical"
    assert words in why or column.type == "categorical"
    assert made.schema.reading.decimal == "."


@pytest.mark.parametrize(("name", "values", "words"), [
    ("contact", [f"p{i % 300}@mail.org" for i in range(N)], "e-mail addresses"),
    ("last_name", [f"Name{i % 60}" for i in range(N)], "suggests that it identifies persons"),
    ("note", [f"came in with a cough and fever {i % 90}" for i in range(N)], "free text"),
    ("city", [f"town {i % 150}" for i in range(N)], "distinct texts"),
    ("code", [f"A{i}" for i in range(N)], "all differ"),
    ("nothing", [None] * N, "no values"),
])  # fmt: skip
def test_what_becomes_an_identifier_says_why(name, values, words):
    column, why, _ = seen(values, name=name)
    assert column.role == ("left out" if name in {"note", "city", "nothing"} else "identifier")
    assert column.confirm == ("role",)
    assert why.startswith("not published: ")
    assert words in why


@pytest.mark.parametrize(("name", "values", "kind"), [
    ("months_since_last_visit", [str(i % 97) for i in range(N)], "integer"),
    ("account_percent", [str(i % 30 / 4) for i in range(N)], "number"),
    ("license_issue_date", [f"2024-0{1 + i % 9}-{1 + i % 28:02}" for i in range(N)], "date"),
    ("clinic_name", [f"ward {i % 40}" for i in range(N)], "categorical"),
])  # fmt: skip
def test_a_word_in_a_name_makes_no_identifier_of_numbers_days_and_places(name, values, kind):
    assert seen(values, name=name)[0].type == kind


def test_numbers_of_phones_are_identifiers():
    column, why, _ = seen([str(5550000 + 7 * i - i % 2) for i in range(N)], name="phone")
    assert column.role == "identifier"
    assert "persons" in why or "all differ" in why


def test_blanks_are_no_values():
    column, _, made = seen(["   " if i % 9 == 0 else f"{i % 61}.5 " for i in range(N)])
    assert (column.type, column.missing) == ("number", "category")
    assert made.schema.missing_values == ("", "   ")


def test_numbers_with_a_few_words_are_reported():
    _, why, _ = seen(["n.d." if i == 5 else f"{i}.5" for i in range(N)])
    assert "numbers except 'n.d.'" in why


def test_what_is_not_published_explains_nothing():
    names = [f"name{i % 50}" for i in range(N)]
    made = seen(names, name="first_name", sex=["FM"[i % 50 % 2] for i in range(N)])[2]
    assert "determined by" not in " ".join(made.remarks["sex"])


def test_codes_among_numbers():
    column, why, _ = seen([999] * 300 + list(range(30)) * 3 + [0] * 10)
    assert "Possible codes: 999." in why
    assert (column.low, column.high) == (0, 29)
    assert set(column.special) == {999}
    assert "special" in column.confirm
    column, why, _ = seen([-1] * 30 + [-8] * 20 + [40 + i % 40 for i in range(350)])
    assert "Possible codes: -8, -1." in why


def test_spikes_in_wide_ranges():
    _, why, _ = seen([1] * 250 + [7 * i for i in range(150)])
    assert "1: up to 62% of the rows have one value in a range of" in why


def test_constants_and_leading_zeros():
    assert "constant in all rows" in seen(["x"] * N)[1]
    column, why, made = seen(["00501", "10001"] * (N // 2))
    assert column.values == ("00501", "10001")
    assert "leading zeros" in why
    assert "'00501'" in made.to_yaml()


def test_columns_that_follow_from_others():
    age = DRAW.integers(18, 80, N)
    born = [datetime.date(2016 - int(a), 6, 1) for a in age]
    group = ["young" if a < 40 else "old" for a in age]
    made = drafted(pa.table({
        "age": age, "group": group, "born": [str(d) for d in born], "again": group,
        "other": DRAW.choice(["u", "v"], N).tolist(),
    }))  # fmt: skip
    assert "determined by 'age'" in made.remarks["group"][0]
    assert any("equivalent to 'group'" in said for said in made.remarks["again"])
    assert any("determined by the date 'born'" in said for said in made.remarks["age"])
    assert "other" not in made.remarks


def test_decimal_commas_are_read(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n" + "1,5;a\n2;b\n0,25;a\n" * 10)
    made = drafted(tmp_path / "t.csv")
    assert made.schema.reading.decimal == ","
    assert "reading" in made.schema.confirm
    x = made.schema.columns["x"]
    assert (x.type, x.low, x.high) == ("number", 0.25, 2.0)
    for engine in ("memory", "duckdb"):
        counts = connect(tmp_path / "t.csv", made.schema, engine=engine).histograms(["x"])["x"]
        assert counts.sum() == 30
        assert counts[round((1.5 - x.low) / x.step)] == 10


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_that_stand_twice_are_renamed(tmp_path, ending):
    file = tmp_path / f"t.{ending}"
    if ending == "csv":
        file.write_text("count,COUNT,,sex\n" + "1,2,3,F\n5,6,7,M\n" * 20)
    else:
        columns = [pa.array([1, 5] * 20), pa.array([2, 6] * 20), pa.array([3, 7] * 20),
                   pa.array(["F", "M"] * 20)]  # fmt: skip
        pq.write_table(pa.Table.from_arrays(columns, ["count", "COUNT", "", "sex"]), file)
    made = drafted(file)
    assert list(made.schema.columns) == ["count_1", "COUNT_2", "column_3", "sex"]
    assert made.schema.reading.rename == {1: "count_1", 2: "COUNT_2", 3: "column_3"}
    assert "were replaced" in made.remarks[""][0]
    assert Schema.parse(made.schema.to_yaml()) == made.schema
    for engine in ("memory", "duckdb"):
        counts = connect(file, made.schema, engine=engine).histograms(["COUNT_2", "column_3"])
        assert counts["COUNT_2"][[0, -1]].tolist() == [20, 20]
        assert counts["column_3"][[0, -1]].tolist() == [20, 20]


def test_durations_are_not_proposed_as_what_is_then_refused():
    table = pa.table({"x": pa.array([60, 120] * 50, pa.duration("s")), "y": ["a", "b"] * 50})
    schema = drafted(table).schema
    open_table.open(table).check(schema)


def test_a_likely_target_is_a_list_of_classes():
    *_, made = seen([0, 1] * (N // 2), name="two_year_recid")
    assert made.schema.target == "two_year_recid"
    assert made.schema.attributes["two_year_recid"].values == ("0", "1")
    assert "role" in made.schema.columns["two_year_recid"].confirm


def test_remarks_stand_above_their_columns():
    *_, made = seen(["x"] * N, name="odd: name")
    lines = made.to_yaml().splitlines()
    place = next(i for i, line in enumerate(lines) if "odd: name" in line)
    assert lines[place - 1].startswith("  # constant in all rows")
    assert Schema.parse(made.to_yaml()) == made.schema


def test_a_large_table_drafted_by_column_has_the_same_schema(tmp_path, monkeypatch):
    text = "id,age,sex,score\n" + "".join(
        f"{i // 4},{20 + i % 50},{'FM'[i % 2]},{i % 7 / 2}\n" for i in range(N)
    )
    (tmp_path / "t.csv").write_text(text)
    at_once = drafted(tmp_path / "t.csv").schema
    monkeypatch.setattr(profile, "MOST_CELLS", 10)
    assert drafted(tmp_path / "t.csv").schema == at_once


def test_many_columns_are_drafted_in_two_passes(monkeypatch):
    """As many columns as COMPAS; 171 queries took half a minute."""
    rows = 7000
    columns = {f"c{i}": DRAW.integers(0, 5 + i * 7, rows).astype(str).tolist() for i in range(53)}
    fetch, passes = TableSource.fetch, []
    monkeypatch.setattr(TableSource, "fetch", lambda *a, **k: passes.append(1) or fetch(*a, **k))
    drafted(pa.table(columns))
    assert 1 <= len(passes) <= 2


def test_nothing_is_dropped_silently():
    """Every column of the table is in the draft, and every identifier has its reason."""
    table = pa.table({
        "id": list(range(N)), "mail": [f"a{i}@b.cd" for i in range(N)], "nested": [[1]] * N,
        "sex": ["F", "M"] * (N // 2),
    })  # fmt: skip
    made = drafted(table)
    assert list(made.schema.columns) == table.column_names
    for name, column in made.schema.columns.items():
        assert (column.role in {"identifier", "left out"}) == any(
            said.startswith("not published") for said in made.remarks.get(name, ())
        )
    assert ht.draft(table) == made.schema


def test_columns_that_methods_add_are_known_to_drafts():
    """The list is in a layer below the constants that methods use, and must match them."""
    own = {COUNT, NOISY_COUNT, region_table.COUNT, region_table.NOISY_COUNT}
    assert set(METHODS_OWN) == own


def test_a_table_may_have_a_column_that_its_schema_derives() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {"x": {"type": "integer", "low": 0, "high": 3, "bins": [2]}},
            "derived": {"group": "band(x)"},
        }
    )
    table = pa.table({"x": [1, 5, 2], "group": ["a", "b", "c"]})
    assert [(found.kind, found.n_rows) for found in out_of_domain(table, schema)] == [
        ("outside", 1)
    ]
