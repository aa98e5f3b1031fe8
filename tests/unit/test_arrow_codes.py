"""Small tables: NumPy encodes them with the same codes as the database."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable import engine as engines
from hushtable.engine import MemoryEngine, SqlEngine, connect
from hushtable.engine.coded_rows import Encoded, EncodedRows
from hushtable.engine.encode_arrow import encode_here
from hushtable.engine.sources.arrow_rows import plain_column
from hushtable.engine.sources.header import read_header
from hushtable.engine.sql_counting import encoded_rows
from hushtable.errors import DataError, SchemaError
from hushtable.schema import Schema
from seeds import shifted

EDGES = [-(2**63), -(2**53) - 1, -1, 0, 1, 2, 7, 2**53 + 1, 2**63 - 1]
REALS = [
    *map(float, EDGES), -0.0, 0.25, 0.75, 2.5, -0.25, 1e300, -1e300,
    float("nan"), float("inf"), float("-inf"), 5e-324,
]  # fmt: skip
TEXTS = ["a", "b", "7", "-1", "?", "", "A", " a", "\x00", "é", "e\u0301"]
WIDTHS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32()}

whole_columns = st.one_of(
    st.sampled_from([*WIDTHS]).flatmap(
        lambda bits: _columns(
            st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            | st.sampled_from([e for e in EDGES if -(2 ** (bits - 1)) <= e < 2 ** (bits - 1)]),
            WIDTHS[bits],
        )
    ),
    st.sampled_from([*UNSIGNED]).flatmap(
        lambda bits: _columns(st.integers(0, 9) | st.just(2**bits - 1), UNSIGNED[bits])
    ),
)
real_columns = st.sampled_from([pa.float64(), pa.float32()]).flatmap(
    lambda kind: _columns(st.floats(width=32) | st.sampled_from(REALS), kind)
)
text_columns = st.sampled_from(
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
).flatmap(lambda kind: _columns(st.sampled_from(TEXTS) | st.text(max_size=2), kind))


def _columns(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw a column in two chunks, each possibly with its own dictionary."""
    pieces = st.lists(st.none() | values, max_size=6)
    return st.tuples(pieces, pieces).map(
        lambda two: pa.chunked_array([pa.array(piece, kind) for piece in two], kind)
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, Schema]:
    """Draw one column of a simple type, its rules and, sometimes, the persons of its rows."""
    kind = draw(st.sampled_from(["categorical", "integer", "number"]))
    raw = draw(
        text_columns | whole_columns if kind == "categorical" else whole_columns | real_columns
    )
    rules: dict[str, Any] = {
        "categorical": {"values": ["a", "b", "7", "-1", "é"]},
        "integer": draw(
            st.sampled_from([{"low": -1, "high": 7}, {"low": EDGES[0], "high": EDGES[0] + 9}])
        ),
        "number": draw(
            st.sampled_from(
                [
                    {"low": 0, "high": 2, "step": 0.5},
                    {"low": -0.1, "high": 0.5, "step": 0.1},
                ]
            )
        ),
    }[kind]
    rules |= {
        "type": kind,
        "missing": draw(st.sampled_from(["forbid", "category"])),
        "outside": draw(st.sampled_from(["refuse", "clip", "missing"])),
    }
    if kind == "categorical" and rules["outside"] == "clip":
        rules["outside"] = "refuse"
    if rules["outside"] == "missing":
        rules["missing"] = "category"
    made: dict[str, Any] = {"name": "t", "missing_values": ["?", ""], "columns": {"x": rules}}
    table = pa.table({"x": raw})
    if draw(st.booleans()):
        person = draw(st.sampled_from([pa.string(), pa.int32()]))
        names = ["p", "q", "?", None] if person == pa.string() else [1, 2, None]
        owners = draw(st.lists(st.sampled_from(names), min_size=len(table), max_size=len(table)))
        table = table.append_column("who", pa.array(owners, person))
        made["columns"]["who"] = {"role": "identifier"}
        made["unit"] = {"kind": "person", "column": "who", "max_rows": 2}
    return table, Schema.from_dict(made)


def _grouped(rows: Encoded) -> tuple[list[int], list[list[int]]]:
    """Return the codes of rows without a person, and those of each person."""
    codes, persons = rows.codes["x"], rows.persons
    if persons is None:
        return sorted(codes.tolist()), []
    there = sorted(set(persons.tolist()) - {-1})
    return sorted(codes[persons == -1].tolist()), sorted(
        sorted(codes[persons == who].tolist()) for who in there
    )


def _same(one: Encoded, two: Encoded) -> None:
    """Compare rows in any order: which codes each person has."""
    assert _grouped(one) == _grouped(two)


@settings(max_examples=40, deadline=None)  # and every type in contract/test_cells.py
@given(tables(), st.integers(0, 9))
def test_the_codes_are_those_of_the_database(case: tuple[pa.Table, Schema], start: int) -> None:
    whole, schema = case
    table = whole.slice(start)  # the same memory, from another offset
    plain = EncodedRows(table, read_header(table), schema)
    codes = encode_here(table["x"], schema.attributes["x"], schema.missing_values, texts=False)
    assert codes is not None
    assert codes.dtype == np.int32
    found = plain._encoded_in_duckdb({"x": plain_column(table["x"])})
    np.testing.assert_array_equal(codes, found["x"])
    _same(plain.in_memory(), encoded_rows(engines.open(table).source(), schema))


def test_a_person_listed_twice_in_a_dictionary_is_one_person() -> None:
    """Otherwise the bound on a person's rows, and with it every promise, would fail."""
    names = pa.array(["p", "p", "q", "?", None])
    who = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1, 0], pa.int8()), names)
    made = {
        "name": "t",
        "missing_values": ["?"],
        "unit": {"kind": "person", "column": "who", "max_rows": 1},
        "columns": {"who": {"role": "identifier"}, "x": {"type": "integer", "low": 0, "high": 9}},
    }
    table, schema = pa.table({"who": who, "x": range(5)}), Schema.from_dict(made)
    engine = connect(table, schema)
    assert isinstance(engine, MemoryEngine)
    assert engine.n_rows() == connect(table, schema, engine="duckdb").n_rows() == 2
    for nobody in (3, 4):
        unnamed = pa.DictionaryArray.from_arrays(pa.array([nobody] * 5, pa.int8()), names)
        of_nobody = connect(table.set_column(0, "who", unnamed), schema)
        assert of_nobody.n_rows() == 0
        assert [(found.kind, found.n_rows) for found in of_nobody.rule_breaks()] == [("nobody", 5)]


def test_nothing_is_read_before_the_first_question(tmp_path: Path) -> None:
    schema = Schema.parse("name: t\ncolumns:\n  x: {type: integer, low: 0, high: 3}\n")
    pq.write_table(pa.table({"x": [1, 3, 3]}), tmp_path / "t.parquet")
    engine = connect(tmp_path / "t.parquet", schema)
    assert isinstance(engine, MemoryEngine)
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(DataError, match="cannot be read to the end"):
        engine.n_rows()


def test_what_needs_reading_is_left_to_the_database() -> None:
    schema = Schema.parse("name: t\ncolumns:\n  x: {type: integer, low: 0, high: 3}\n")
    for column in (["1", "3"], pa.array([1, 3], pa.uint64()), pa.array([1, 3], pa.decimal128(5))):
        table = pa.table({"x": column})
        assert encode_here(table["x"], schema.attributes["x"], (), texts=False) is None
        assert connect(table, schema).histograms(["x"])["x"].tolist() == [0, 1, 0, 1, 0]


def test_a_limit_of_memory_and_compressed_texts_are_for_the_database(tmp_path: Path) -> None:
    schema = Schema.parse("name: t\ncolumns:\n  x: {type: integer, low: 0, high: 3}\n")
    pq.write_table(pa.table({"x": [1, 3, 3]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x\n1\n"))
    assert isinstance(connect(tmp_path / "t.csv.gz", schema), SqlEngine)
    assert isinstance(connect(tmp_path / "t.parquet", schema, memory_limit="1GB"), SqlEngine)


def test_a_small_table_is_published_without_the_database(tmp_path: Path) -> None:
    """Importing the database would take longer than the work."""
    program = """
import sys
import pyarrow as pa
from hushtable import NoisyCounts, Schema, publish
schema = Schema.parse("name: t\\ncolumns:\\n  x: {type: integer, low: 0, high: 3}\\n")
method = NoisyCounts(epsilon=1, delta="1e-6", k=10)
publish(pa.table({"x": [1, 3, 3]}), schema, method, out=sys.argv[1])
print([name for name in ("ibis.expr", "_duckdb") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "release")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_each_part_may_have_a_dictionary_of_its_own_with_null_in_it() -> None:
    first = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, None, 1], pa.int8()), ["1", None, "1"]
    )
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["2", "zz"])
    listed = {"type": "categorical", "values": ["1", "2"], "outside": "missing",
              "missing": "category"}  # fmt: skip
    schema = Schema.from_dict({"name": "t", "columns": {"x": listed}})
    table = pa.table({"x": pa.chunked_array([first, second])})
    for engine in ("memory", "duckdb"):
        assert connect(table, schema, engine=engine).histograms(["x"])["x"].tolist() == [2, 1, 4]


def test_the_largest_column_has_a_code_for_missing() -> None:
    def schema(high: int) -> Schema:
        column = {"type": "integer", "low": 0, "high": high, "missing": "category"}
        return Schema.from_dict({"name": "t", "columns": {"x": column}})

    with pytest.raises(SchemaError, match="values are too many"):
        schema(2**31 - 1)
    table = pa.table({"x": [0, 2**31 - 2, None]})
    for engine in ("memory", "duckdb"):
        cells = connect(table, schema(2**31 - 2), engine=engine).counts(["x"])
        assert cells.codes.ravel().tolist() == [0, 2**31 - 2, 2**31 - 1]


NUMBER_TEXTS = [
    "", "?", "nan", "-NaN", "inf", "-Infinity", "+inf", "3", "+3", "-3", " 3 ", "3.", ".5", "3.0",
    "3e0", "2.5", "3e-400", "1e400", "-1e400", "1e19", "9" * 400, "-" + "9" * 400, "9" * 5000,
    "0x1F", "1_0", "1d", "3\n", "\t3", "\u0663", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "9007199254740993", "9007199254740993.0", "+-3", "e5", ".", "0.25",
    "-0.5", "-0", "1e5", "100000.0",
]  # fmt: skip


@pytest.mark.parametrize("outside", ["clip", "missing"])
def test_texts_are_read_as_numbers_like_the_database_does(outside: str, tmp_path: Path) -> None:
    """One file, read by the NumPy path and by the database."""
    rules = {"outside": outside, "missing": "category"}
    wholes = [(0, 5), (-(2**63), -(2**63) + 9), (2**53, 2**53 + 3), (2**63 - 3, 2**63 - 1)]
    grids = [(0, 5, 1), (-1, 1, 0.25), (0, 1e9, 1), (-1e300, 1e300, 1e299)]
    columns: dict[str, Any] = {
        f"i{i}": {"type": "integer", "low": low, "high": high, **rules}
        for i, (low, high) in enumerate(wholes)
    } | {
        f"n{i}": {"type": "number", "low": low, "high": high, "step": step, **rules}
        for i, (low, high, step) in enumerate(grids)
    }
    draw = np.random.default_rng(shifted(7))
    made = [f"{'-' * int(draw.integers(2))}{draw.random() * 10.0 ** draw.integers(-3, 21):.{k}g}"
            for k in range(1, 18) for _ in range(20)]  # fmt: skip
    texts = pa.array([*NUMBER_TEXTS, *made])
    schema = Schema.from_dict({"name": "t", "missing_values": ["", "?"], "columns": columns})
    file = tmp_path / "texts.csv"
    pa_csv.write_csv(pa.table(dict.fromkeys(columns, texts)), file)
    source = engines.open(file).source()
    expected = encoded_rows(source, schema)
    found = EncodedRows(file, read_header(file), schema).in_memory()
    for name in columns:
        assert found.codes[name].tolist() == expected.codes[name].tolist(), name


def test_a_small_text_file_is_counted_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("who,x,sex\na,1,F\na,2.0,M\nb,x,\n")
    schema = Schema.from_dict(
        {
            "name": "t",
            "unit": {"kind": "person", "column": "who", "max_rows": 1},
            "columns": {
                "who": {"role": "identifier"},
                "x": {"type": "integer", "low": 0, "high": 3, "missing": "category",
                      "outside": "missing"},
                "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
            },
        }
    )  # fmt: skip
    engine = connect(file, schema)
    assert isinstance(engine, MemoryEngine)
    assert engine.n_rows() == 2
    assert engine.histograms(["x"])["x"][4] == 1
    assert isinstance(connect(file, schema, memory_limit="1GB"), SqlEngine)
