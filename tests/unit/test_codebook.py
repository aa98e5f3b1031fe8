"""Domains from a codebook: they need no confirmation, and everything else does."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.drafting import drafted
from hushtable.drafting.codebooks import read_codebook
from hushtable.engine import connect
from hushtable.errors import ParameterError

TABLE = pa.table({"sex": ["1", "2"] * 50, "age": [30, 41] * 50, "points": [20.5, 31.0] * 50})

DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
 <var name="sex"><catgry><catValu>1</catValu><labl>male</labl></catgry>
  <catgry><catValu>2</catValu><labl>female</labl></catgry>
  <catgry missing="Y"><catValu>9</catValu></catgry></var>
 <var name="age"><valrng><range min="0" max="110"/></valrng></var>
 <var name="points2"><valrng><range min="10" max="60"/></valrng>
  <catgry missing="Y"><catValu>999</catValu><labl>refused</labl></catgry></var>
 <var name="comment"/>
</dataDscr></codeBook>"""
FRICTIONLESS = {"resources": [{"schema": {"fields": [
    {"name": "sex", "type": "string", "constraints": {"enum": ["1", "2"]}},
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}},
], "missingValues": [""]}}]}  # fmt: skip
CSVW = {"tableSchema": {"columns": [
    {"name": "sex", "datatype": {"base": "string", "format": "1|2"}},
    {"titles": ["age"], "datatype": {"base": "integer", "minimum": 0, "maximum": 110}},
]}}  # fmt: skip
DICTIONARY = "Variable;Label;Codes;Min;Max\nsex;sex;1=male,2=female;;\nage;age;;0;110\n"
SCHEMA = """
name: other
columns:
  sex: {type: categorical, values: ['1', '2']}
  age: {type: integer, low: 0, high: 110}
  points: {type: number, low: 10, high: 60, step: 0.5, confirm: [low, high]}
"""


@pytest.fixture
def book(tmp_path):
    def write(kind):
        name, text = {
            "ddi": ("c.xml", DDI), "frictionless": ("c.json", json.dumps(FRICTIONLESS)),
            "csvw": ("c.json", json.dumps(CSVW)), "dictionary": ("c.csv", DICTIONARY),
            "schema": ("c.yaml", SCHEMA),
        }[kind]  # fmt: skip
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize("kind", ["ddi", "frictionless", "csvw", "dictionary", "schema"])
def test_domains_come_from_the_codebook_and_are_not_marked(book, kind):
    made = drafted(TABLE, codebook=[book(kind)])
    sex, age, points = made.schema.columns.values()
    assert (sex.values, sex.confirm) == (("1", "2"), ())
    assert (age.type, age.low, age.high, age.confirm) == ("integer", 0, 110, ())
    assert (points.low, points.high) == (20.5, 31.0)  # unconfirmed parts of it are not used
    assert {"low", "high", "role"} <= set(points.confirm)
    if kind != "schema":  # it declares missing values itself
        assert (sex.missing, sex.outside, age.missing) == ("category", "missing", "category")
    assert "from c." in made.remarks["age"][0]


def test_rows_do_not_matter_to_what_a_codebook_says(book):
    """The same columns for any other rows: they do not depend on the data."""
    codebook = read_codebook(book("ddi"))
    other = pa.table({"sex": ["7", ""], "age": [500, -3], "points": [1.0, 2.0]})
    one, two = (drafted(table, codebook=codebook).schema for table in (TABLE, other))
    for name in ("sex", "age"):
        assert one.columns[name] == two.columns[name]


def test_a_hierarchy_and_a_release(tmp_path):
    (tmp_path / "sex.csv").write_text("1;person;*\n2;person;*\n")
    column = ht.draft(TABLE, codebook=[f"sex={tmp_path / 'sex.csv'}"]).columns["sex"]
    assert column.values == ("1", "2")
    assert column.taxonomy is not None
    assert column.confirm == ()
    schema = ht.Schema.parse(SCHEMA).of_rows(["sex", "age"])
    pure = ht.NoisyCounts(epsilon=1, mechanism="pure")
    ht.publish(TABLE.select(["sex", "age"]), schema, pure, out=tmp_path / "r")
    assert ht.draft(TABLE, codebook=[tmp_path / "r"]).columns["age"].high == 110


@pytest.mark.parametrize(("name", "text", "words"), [
    ("c.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><codeBook/>", "DOCTYPE"),
    ("c.xml", "<codeBook>", "cannot be read"),
    ("c.json", "[1]", "cannot be read"),
    ("c.csv", "a,b\n1,2\n", "is not a codebook"),
    ("c.json", "{}", "has no values or range"),
    ("absent.json", None, "cannot read"),
])  # fmt: skip
def test_files_that_are_not_codebooks_are_refused(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ParameterError, match=words):
        drafted(TABLE, codebook=[tmp_path / name])


def test_two_sources_for_one_column_are_refused_and_absent_columns_named(book, tmp_path):
    (tmp_path / "d.csv").write_text("name,values\nsex,1|2\nheight,1|2\n")
    with pytest.raises(ParameterError, match=r"column 'sex' is in c\.xml and in"):
        drafted(TABLE, codebook=[book("ddi"), tmp_path / "d.csv"])
    made = drafted(TABLE, codebook=[tmp_path / "d.csv"])
    assert "In the codebook but not in the data: height." in made.remarks[""]


def test_cells_that_a_codebook_does_not_list_never_count_as_its_first_value(book):
    table = pa.table({"sex": ["1", "2", None, "9", "x"] * 20, "age": [30, 41, None, 7, 8] * 20})
    schema = drafted(table, codebook=[book("dictionary")]).schema
    counted = connect(table, schema).histograms(["sex", "age"])
    assert counted["sex"].tolist() == [20, 20, 60]
    assert counted["age"][[0, 111]].tolist() == [0, 20]


def test_special_codes_are_separate_from_a_range(book):
    assert read_codebook(book("ddi")).columns["points2"]["special"] == {999: "refused"}
