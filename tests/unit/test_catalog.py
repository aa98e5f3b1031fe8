"""Public domains of the catalog: what they include, what they recognize, and what is confirmed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.drafting import draft, drafted
from hushtable.drafting.catalog import entries
from hushtable.drafting.schema_check import out_of_domain
from hushtable.errors import Unconfirmed
from hushtable.schema import Schema

THIS_YEAR = datetime.datetime.now(datetime.UTC).year

LEGAL = {
    "age in completed years": [0, 17, 122],
    "date of birth": ["1900-01-01", "1903-03-14", f"{THIS_YEAR}-12-31"],
    "calendar year from 1900 to 2100": [1900, 2100],
    "month, 1 to 12": [1, 12],
    "day of the month, 1 to 31": [1, 31],
    "day of the week as a number": [0, 7],
    "week of the year, 0 to 53": [0, 53],
    "quarter, 1 to 4": [1, 4],
    "hour of the day, 0 to 24": [0, 24],
    "hours per week": [0, 168],
    "weeks per year": [0, 53],
    "percentage from 0 to 100": [0, 100],
    "share from 0 to 1": [0, 1],
    "latitude in degrees": [-90, 90],
    "longitude in degrees": [-180, 180],
    "years of education, 0 to 30": [0, 25],
    "body weight in kg": [0.2, 635],
    "body weight in pounds": [0.5, 1400],
    "birth weight in grams": [212, 10_900],
    "body mass index in kg/m²": [7.5, 204],
    "blood pressure in mmHg": [20, 370],
    "heart rate per minute": [20, 600],
    "blood glucose in mg/dl": [10, 2656],
    "number of children": [0, 69],
    "length of gestation in weeks": [20, 54],
    "yes or no as 1 or 0": [0, 1],
}
"""Extreme legal values of what each column is, from the sources that the catalog names."""


def columns_of(entry: Any) -> list[Any]:
    content = {
        f"c{place}": {**domain, "missing": "category"}
        for place, domain in enumerate(entry["domains"])
    }
    return list(Schema.from_dict({"name": "t", "columns": content}).attributes.values())


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["is"])
def test_every_domain_is_valid_and_has_its_source(entry: Any) -> None:
    """Every list is a list of texts without repetition, and every range includes its legal ends."""
    assert len(entry["source"]) >= 8
    assert entry.keys() <= {
        "is", "source", "name", "reach", "domains", "texts", "digits", "ordered",
    }  # fmt: skip
    for domain, column in zip(entry["domains"], columns_of(entry), strict=True):
        if "values" in domain:
            assert list(column.values) == domain["values"]
            continue
        for value in LEGAL.get(entry["is"], ()):
            if column.type == "integer" and not float(value).is_integer():
                continue
            code = column.code_of(value)
            assert 0 <= code < column.n_values, value


def test_lists_are_complete() -> None:
    """Lengths of the standards: 249 countries, 50 states and DC, 12 months, 7 days."""
    by_name: dict[str, list[set[str]]] = {}
    for entry in entries():
        lists = [set(domain["values"]) for domain in entry["domains"] if "values" in domain]
        by_name.setdefault(entry["is"], []).extend(lists)
    assert {len(codes) for codes in by_name["country by its code of two or three letters"]} == {249}
    codes, names = by_name["state or territory of the United States"]
    assert {"AK", "AL", "DC", "PR", "WY", "AE"} <= codes
    assert {"Alaska", "District of Columbia", "Puerto Rico", "Wyoming"} <= names
    assert {len(months) for months in by_name["month"]} == {12}
    assert {len(days) for days in by_name["day of the week"]} == {7}
    assert {frozenset({"F", "M", "X"}), frozenset({"0", "1", "2", "9"})} <= {
        frozenset(values) for values in by_name["sex or gender"]
    }


def test_names_that_are_tried_have_a_legal_range() -> None:
    """A numeric entry that is added to the catalog needs its legal values here."""
    fixed = {"rating on a public scale", "body height", "body temperature"}
    numeric = {e["is"] for e in entries() if any("low" in domain for domain in e["domains"])}
    assert numeric - fixed == LEGAL.keys()


N = 300


@pytest.mark.parametrize(("name", "values", "content"), [
    ("Age", [17 + i % 60 for i in range(N)], {"type": "integer", "low": 0, "high": 130}),
    ("age", [0.42 if i % 9 == 0 else 20 + i % 60 for i in range(N)], {"type": "number", "step": 1}),
    ("birthDate", [f"19{19 + i % 80}-10-14" for i in range(N)],
     {"type": "date", "low": "1900-01-01", "high": f"{THIS_YEAR}-12-31"}),
    ("SEX", [1 + i % 2 for i in range(N)], {"values": ["0", "1", "2", "9"]}),
    ("gender", ["Male" if i % 3 else "Female" for i in range(N)],
     {"values": ["Female", "Male", "Other", "Unknown"]}),
    ("hours.per.week", [1 + i % 80 for i in range(N)], {"low": 0, "high": 168}),
    ("won", [i % 2 for i in range(N)], {"type": "integer", "low": 0, "high": 1}),
    ("raucht", ["ja" if i % 3 else "nein" for i in range(N)], {"values": ["nein", "ja"]}),
    ("q7", ["agree", "disagree", "neutral"] * (N // 3), {"ordered": True}),
    ("country", ["DE", "FR"] * (N // 2), {"type": "categorical"}),
    ("plz", [f"{i % 90:02}" for i in range(N)], {"type": "categorical"}),
])  # fmt: skip
def test_a_column_is_recognized(name: str, values: list[Any], content: dict[str, Any]) -> None:
    table = pa.table({name: values, "other": ["a", "b", "b"] * (N // 3)})
    made = drafted(table)
    column = made.schema.to_dict()["columns"][name]
    assert {key: column[key] for key in content} == content
    assert column["confirm"] == ["recognized"]
    assert "public source: " in made.remarks[name][0]
    assert not [found for found in out_of_domain(table, made.schema) if found.column == name]
    with pytest.raises(Unconfirmed, match=f"'{name}': its public domain was chosen by its name"):
        made.schema.require_confirmed()


@pytest.mark.parametrize(("name", "values"), [
    ("age", [f"{20 + 10 * (i % 5)}-{29 + 10 * (i % 5)}" for i in range(N)]),
    ("age", [200 + i % 60 for i in range(N)]),
    ("page", [1 + i % 60 for i in range(N)]),
    ("sex", ["a", "b"] * (N // 2)),
    ("x", ["M", "S"] * (N // 2)),
    ("age", [1 + i % 3 for i in range(N)]),
])  # fmt: skip
def test_other_columns_are_not_recognized(name: str, values: list[Any]) -> None:
    column = draft(pa.table({name: values})).columns[name]
    assert "role" in column.confirm


def test_neighbors_with_recognized_columns_differ_only_where_a_mark_is() -> None:
    """The mark covers the whole column, so one row cannot change a part without a mark."""
    ages = [20 + i % 60 for i in range(99)]
    one, two = (draft(pa.table({"age": [*ages, new]})).columns["age"] for new in (50, 500))
    assert one.confirm == ("recognized",)
    assert two.confirm == ("recognized",)  # 1% of the rows may be outside
    three = draft(pa.table({"age": [*ages, 500, 500]})).columns["age"]
    assert {"role", "type", "low", "high", "missing", "outside"} == set(three.confirm)


def test_special_values_of_a_recognized_column_are_marked() -> None:
    codes = [-9 if i % 7 == 0 else 20 + i % 60 for i in range(N)]
    column: Any = draft(pa.table({"age": codes})).columns["age"]
    assert (column.high, column.special) == (130, {-9: "code -9"})
    assert column.confirm == ("recognized", "special")


def test_words_next_to_numbers_become_special_values() -> None:
    income = np.where(np.arange(N) % 5 == 0, "N", (np.arange(N) * 100).astype(str)).tolist()
    table = pa.table({"income": income})
    schema = draft(table)
    column: Any = schema.columns["income"]
    assert (column.type, column.low, column.special) == ("integer", 100, {-1: "N"})
    assert "special" in column.confirm
    assert out_of_domain(table, schema) == []
