"""Engines: every engine gives the same answers for every kind of source."""

from __future__ import annotations

import csv
import datetime
import gc
import gzip
import math
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.engine_checks import (
    CHECKS,
    Make,
    check_broken_rules,
    check_far_bounds,
    check_large_domain,
    check_marginals,
    check_persons_are_bounded,
    check_random_tables,
    check_random_tables_with_other_values,
    check_recodings,
    check_small_tables,
    persons_schema,
    persons_table,
)
from hushtable import engine as engines
from hushtable.engine import MemoryEngine, SqlEngine, connect
from hushtable.errors import DataError, ParameterError, SchemaError, TooLarge
from hushtable.privacy.guarantee import Unit
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from seeds import shifted


def to_csv(table: pa.Table, path: Path, *, delimiter: str = ",") -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:  # type: ignore[operator]
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table), strict=True))
    return path


def to_parquet(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path, row_group_size=100)
    return path


def to_folder(table: pa.Table, path: Path) -> Path:
    path.mkdir()
    half = table.num_rows // 2
    to_parquet(table.slice(0, half), path / "part-0.parquet")
    to_parquet(table.slice(half), path / "part-1.parquet")
    return path


def to_backend(table: pa.Table, path: Path) -> ibis.Table:
    connection = ibis.duckdb.connect()
    connection.con.register("people", table)
    return connection.table("people")


SOURCES: dict[str, tuple[str, Callable[[pa.Table, Path], Any]]] = {
    "memory-arrow": ("memory", lambda table, _: table),
    "memory-pandas": ("memory", lambda table, _: table.to_pandas()),
    "duckdb-arrow": ("duckdb", lambda table, _: table),
    "memory-csv": ("auto", lambda table, path: to_csv(table, path.with_suffix(".csv"))),
    "duckdb-csv": ("duckdb", lambda table, path: to_csv(table, path.with_suffix(".csv"))),
    "duckdb-parquet": ("auto", lambda table, path: to_parquet(table, path.with_suffix(".parquet"))),
    "ibis": ("auto", to_backend),
}
OFTEN = ["memory-arrow", "memory-csv", "duckdb-csv", "duckdb-parquet"]  # texts and types, each
# Other kinds of input for the same engines; one check each suffices.
WAYS: dict[str, tuple[str, Callable[[pa.Table, Path], Any]]] = {
    "memory-csv.gz": ("memory", lambda table, path: to_csv(table, path.with_suffix(".csv.gz"))),
    "memory-ibis": ("memory", to_backend),
    "duckdb-polars": ("duckdb", lambda table, _: pl.from_arrow(table)),
    "duckdb-csv.gz": ("auto", lambda table, path: to_csv(table, path.with_suffix(".csv.gz"))),
    "duckdb-pandas": ("duckdb", lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype)),
    "duckdb-semicolon": (
        "duckdb",
        lambda table, path: to_csv(table, path.with_suffix(".csv"), delimiter=";"),
    ),
    "duckdb-tab": (
        "duckdb",
        lambda table, path: to_csv(table, path.with_suffix(".CSV"), delimiter="\t"),
    ),
    "duckdb-folder": ("auto", to_folder),
    "duckdb-pattern": (
        "auto",
        lambda table, path: to_folder(table, path.parent / "p") / "*.parquet",
    ),
}


def maker(way: tuple[str, Callable[[pa.Table, Path], Any]], folder: Path) -> Make:
    engine, convert = way
    numbers = iter(range(10_000))

    def make(table: pa.Table, schema: Schema) -> Any:
        # Square brackets and quotes: engines interpret paths as patterns, or as SQL.
        inside = folder / str(next(numbers))
        inside.mkdir()
        path = inside / "table [x]'s"
        return connect(convert(table, path), schema, engine=engine)  # type: ignore[arg-type]

    return make


# Checks of cells after reading; DuckDB reads a text file again for each query.
ONCE_READ = {
    check_broken_rules,
    check_far_bounds,
    check_large_domain,
    check_marginals,
    check_persons_are_bounded,
    check_random_tables,
    check_random_tables_with_other_values,
    check_small_tables,
}


def is_long(source: str, check: Callable[[Make], None]) -> bool:
    return source not in OFTEN or (source == "duckdb-csv" and check in ONCE_READ)


@pytest.mark.parametrize(
    ("source", "check"),
    [
        pytest.param(
            source, check, marks=[pytest.mark.long] if is_long(source, check) else [],
            id=f"{source}-{check.__name__}",
        )
        for source in SOURCES
        for check in CHECKS
    ],
)  # fmt: skip
def test_engine(source: str, check: Callable[[Make], None], tmp_path: Path) -> None:
    check(maker(SOURCES[source], tmp_path))


@pytest.mark.parametrize("way", [*WAYS, *(s for s in SOURCES if s not in OFTEN)])
def test_ways_to_the_same_engines(way: str, tmp_path: Path) -> None:
    check_recodings(maker({**WAYS, **SOURCES}[way], tmp_path))


SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "missing_values": ["", "?"],
        "columns": {
            "id": {"role": "identifier"},
            "age": {"type": "integer", "low": 0, "high": 9, "missing": "category"},
            "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
        },
    }
)


def test_auto_picks_by_kind_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": [1], "age": [2], "sex": ["F"]})
    assert isinstance(connect(table, SCHEMA), MemoryEngine)
    texts = to_csv(table, tmp_path / "t.csv")
    assert isinstance(connect(texts, SCHEMA), MemoryEngine)
    monkeypatch.setattr("hushtable.engine.sources.header.SMALL_TEXT", texts.stat().st_size)
    assert isinstance(connect(texts, SCHEMA), SqlEngine)
    one = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 1}}}
    )
    large = pa.table({"x": np.ones(1_000_000, np.int8)})
    assert isinstance(connect(large, one), MemoryEngine)
    monkeypatch.setattr("hushtable.engine.open_table.KEPT_BYTES", 999_999)
    engine = connect(large, one)
    assert isinstance(engine, SqlEngine)
    assert engine.histograms(["x"])["x"].tolist() == [0, 1_000_000]


def test_codes_of_many_rows_are_counted_in_memory_and_their_tuples_in_duckdb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = pa.table({"id": [1, 2, 3], "age": [2, 2, None], "sex": ["F", "M", "F"]})
    expected = connect(table, SCHEMA, engine="memory")
    monkeypatch.setattr("hushtable.engine.open_table.SMALL", 2)
    engine = connect(table, SCHEMA)
    assert isinstance(engine, MemoryEngine)
    assert engine.counts(["age", "sex"]).codes.tolist() == [[2, 0], [2, 1], [10, 0]]
    groups = [[0], [1]]
    for found in (engine, expected):
        tuples = found.tuples(groups, max_groups=1)
        assert (int(tuples.counts.sum()), tuples.n_records) == (3, 3)
        tuples = found.tuples(groups, max_groups=2)
        assert tuples.counts.tolist() == [2, 2, 1]
    # Persons may be too many for a Python dictionary.
    unit = {"kind": "person", "column": "id", "max_rows": 1}
    persons = Schema.from_dict({**SCHEMA.to_dict(), "unit": unit})
    assert isinstance(connect(table, persons), SqlEngine)


@pytest.mark.parametrize("kept_bytes", [0, 3, 1 << 20])
def test_duckdb_scans_or_copies_codes(monkeypatch: pytest.MonkeyPatch, kept_bytes: int) -> None:
    monkeypatch.setattr("hushtable.engine.coded_rows.KEPT_BYTES", kept_bytes)
    monkeypatch.setattr("hushtable.engine.sources.arrow_rows.BATCH_ROWS", 2)
    table = pa.table({"id": range(9), "age": [*range(8), None], "sex": ["F", "M", None] * 3})
    engine = connect(table, SCHEMA, engine="duckdb")
    assert engine.histograms(["age"])["age"].tolist() == [1] * 8 + [0, 0, 1]
    assert engine.marginals([["sex", "age"]])[0].sum(axis=1).tolist() == [3, 3, 3]
    assert len(engine.counts(["age", "sex"]).counts) == engine.n_rows() == 9
    unit = {"kind": "person", "column": "id", "max_rows": 1}
    persons = Schema.from_dict({**SCHEMA.to_dict(), "unit": unit})
    assert connect(table.slice(0, 8), persons, engine="duckdb").n_rows() == 8


def test_engine_that_does_not_fit_the_data_is_refused() -> None:
    table = pa.table({"id": [1], "age": [2], "sex": ["F"]})
    with pytest.raises(ParameterError, match="Spark session"):
        connect(table, SCHEMA, engine="spark")
    with pytest.raises(ParameterError, match="'spark' cannot count a table that is in duckdb"):
        connect(to_backend(table, Path()), SCHEMA, engine="spark")
    with pytest.raises(ParameterError, match="'abacus' is not known"):
        connect(table, SCHEMA, engine="abacus")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'a lot'"):
        connect(table, SCHEMA, memory_limit="a lot")
    with pytest.raises(ParameterError, match="data is a list"):
        connect([1, 2], SCHEMA)


# ---- the header ---------------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[str, bytes, list[str]]] = {
    "empty": ("t.csv", b"", ["is empty"]),
    "blank": ("t.csv", b"\n\n", ["is empty"]),
    "byte-order mark": ("t.csv", b"\xef\xbb\xbf", ["is empty"]),
    "latin-1": ("t.csv", "id,age,größe\n".encode("latin-1"), ["not UTF-8"]),
    "utf-16": ("t.csv", "id,age,sex\n".encode("utf-16"), ["not UTF-8"]),
    "binary": ("t.csv", b"PAR1\x00\x01\x02", ["not a CSV file"]),
    "no gzip": ("t.csv.gz", b"id,age,sex\n", ["not gzip"]),
    "cut gzip": ("t.csv.gz", gzip.compress(b"id,age,sex\n" * 99)[:20], ["truncated"]),
    "no parquet": ("t.parquet", b"id,age,sex\n1,2,F\n", ["not a Parquet file"]),
    "empty parquet": ("t.parquet", b"", ["is empty"]),
    "other suffix": ("t.docx", b"x", [".parquet", "t.docx"]),
    "duplicate": ("t.csv", b"id,age,sex,age\n1,2,F,3\n", ["'age' occurs 2 times"]),
    "unknown": ("t.csv", b"id,age,sex,zip\n", ["'zip' is in the data but not", "role: left out"]),
    "lacking": ("t.csv", b"id,sex\n", ["'age' is in the schema but not"]),
    "case": ("t.csv", b"ID,age,Sex\n", ["'ID' of the data is 'id'", "'Sex' of the data is 'sex'"]),
    "unnamed": ("t.csv", b"id,age,sex,\n", ["column number 4 of the data has no name"]),
    "many": ("t.csv", b"id,zip,zip\n", ["'zip' occurs 2", "'zip' is in", "'age' is", "'sex' is"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_is_refused_with_all_its_problems(case: str, tmp_path: Path) -> None:
    name, content, words = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    for ask in (lambda data, schema: engines.open(data).check(schema), connect):
        with pytest.raises(DataError) as error:
            ask(tmp_path / name, SCHEMA)
        assert all(word in str(error.value) for word in words)


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        connect(tmp_path / "no.csv", SCHEMA)
    with pytest.raises(DataError, match="no file matches"):
        connect(tmp_path / "*.parquet", SCHEMA)
    with pytest.raises(DataError, match=r"contains no \.parquet"):
        connect(tmp_path, SCHEMA)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission(tmp_path: Path) -> None:
    path = to_csv(pa.table({"id": [1], "age": [2], "sex": ["F"]}), tmp_path / "t.csv")
    path.chmod(0)
    with pytest.raises(DataError, match="cannot read"):
        connect(path, SCHEMA)


def test_first_row_is_not_quoted_where_the_header_is_lacking(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("7,secretword,M\n")
    with pytest.raises(DataError, match="first line must name the columns") as error:
        engines.open(path).check(SCHEMA)
    assert "secretword" not in str(error.value)


def test_parts_with_other_columns_are_refused(tmp_path: Path) -> None:
    to_parquet(pa.table({"id": [1], "age": [2], "sex": ["F"]}), tmp_path / "a.parquet")
    to_parquet(pa.table({"id": [1], "age": ["2"], "sex": ["F"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet' does not have the same columns"):
        connect(tmp_path, SCHEMA)


def test_types_that_cannot_be_read_are_refused() -> None:
    table = pa.table({"id": [1], "age": pa.array([0], pa.date32()), "sex": [["F"]]})
    with pytest.raises(DataError) as error:
        engines.open(table).check(SCHEMA)
    assert [problem[:12] for problem in error.value.problems] == ["column 'age'", "column 'sex'"]


def test_a_nested_type_is_named_without_the_names_inside_it() -> None:
    """JSON objects with data as keys have these keys as field names."""
    inside = pa.array([{"Jane Doe": 1}])
    table = pa.table({"id": inside, "age": inside, "sex": pa.array([[{"Jane Doe": 1}]])})
    for data in (table, ibis.memtable(table)):
        with pytest.raises(DataError) as error:
            engines.open(data).check(SCHEMA)
        assert "type struct in the data" in str(error.value)
        assert "Jane" not in str(error.value)


def test_the_contract_of_the_engines_loads_none_of_them() -> None:
    code = "import sys, hushtable.engine.engine; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "hushtable.engine.engine" in loaded
    assert (
        not {"ibis", "duckdb", "pandas", "numba", "pyspark", "hushtable.engine.open_table"} & loaded
    )


def test_bounds_beyond_64_bits_and_graphs_are_refused() -> None:
    far = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 10**30, "high": 10**30 + 1}}}
    )
    with pytest.raises(DataError, match="64-bit integers"):
        engines.open(pa.table({"x": [1]})).check(far)
    graph = SCHEMA.model_copy(update={"unit": Unit(kind="node")})
    with pytest.raises(SchemaError, match="graphs"):
        engines.open(pa.table({"id": [1], "age": [1], "sex": ["F"]})).check(graph)


# ---- contents of files and frames ----------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_every_type_of_column(engine: Any) -> None:
    number = {"type": "integer", "low": 0, "high": 3, "outside": "clip", "missing": "category"}
    listed = {"type": "categorical", "values": ["1", "2.5", "true", "2024-12-31"],
              "missing": "category", "outside": "missing"}  # fmt: skip
    real = {"type": "number", "low": 0, "high": 3, "step": 1, "outside": "clip",
            "missing": "category"}  # fmt: skip
    fractions = listed | {"values": ["0.0001", "1e-07", "12345678.5", "0.10"]}
    unread = number | {"outside": "missing"}
    cases: list[tuple[pa.Array, dict[str, Any], list[int]]] = [
        (pa.array([1, 2**64 - 1, None], pa.uint64()), number, [0, 1, 0, 1, 1]),
        (pa.array([1, 10**30, -(10**30)], pa.decimal128(38, 0)), number, [1, 1, 0, 1, 0]),
        (pa.array([1, 10**60, -(10**60)], pa.decimal256(76, 0)), number, [1, 1, 0, 1, 0]),
        (pa.array([Decimal("1.49"), None], pa.decimal256(50, 9)), real, [0, 1, 0, 0, 1]),
        (pa.array([1, 300, None], pa.int16()), number, [0, 1, 0, 1, 1]),
        (pa.array([True, False, None]), number, [1, 1, 0, 0, 1]),
        (pa.array([1.0, math.inf, math.nan], pa.float32()), number, [0, 1, 0, 1, 1]),
        (pa.array(["1", "x1", None]).dictionary_encode(), listed, [1, 0, 0, 0, 2]),
        (pa.array(["1", "2.5"], pa.string_view()), listed, [1, 1, 0, 0, 0]),
        (pa.array([1.0, 2.5, math.nan]), listed, [1, 1, 0, 0, 1]),
        (pa.array([1.0, 2.5, math.nan], pa.float32()), listed, [1, 1, 0, 0, 1]),
        (pa.array([1e-4, 1e-7, 12345678.5, 0.1]), fractions, [1, 1, 1, 0, 1]),
        (pa.array(["1\n", "\t1", " 1 ", "1\u2028"]), unread, [0, 1, 0, 0, 3]),
        (pa.array([1, 2]), listed, [1, 0, 0, 0, 1]),
        (pa.array([True, False]), listed, [0, 0, 1, 0, 1]),
        (pa.array([True, None]), listed | {"values": ["true", "false", "x", "y"]}, [1, 0, 0, 0, 1]),
        (pa.array([datetime.date(2024, 12, 31)]), listed, [0, 0, 0, 1, 0]),
        (pa.nulls(3), listed, [0, 0, 0, 0, 3]),
        (pa.nulls(3), number, [0, 0, 0, 0, 3]),
        (pa.nulls(3), real, [0, 0, 0, 0, 3]),
        (pa.array([Decimal("1.49"), Decimal("1.50")]), real, [0, 1, 1, 0, 0]),
        (pa.array([0.5, 2.4999, 1e300], pa.float64()), real, [0, 1, 1, 1, 0]),
    ]
    columns = {f"x{i}": column for i, (_, column, _) in enumerate(cases)}
    for name, (values, column, expected) in zip(columns, cases, strict=True):
        schema = Schema.from_dict({"name": "t", "columns": {name: column}})
        private = connect(pa.table({name: values}), schema, engine=engine)
        assert private.histograms([name])[name].tolist() == expected, values.type
        assert private.counts([name]).counts.sum() == len(values)


def test_pandas_index_and_categories() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "age": [1.0, None, 3.0], "sex": list("FMF")})
    frame["sex"] = frame["sex"].astype("category")
    engine = connect(frame[frame.id != 2], SCHEMA)  # leaves an index with a gap
    assert engine.histograms(["sex"])["sex"].tolist() == [2, 0, 0]


def test_frame_of_other_objects_is_refused_without_quoting_it() -> None:
    frame = pd.DataFrame(
        {"id": [1, 2], "age": [1, 2], "sex": pd.Series(["secretword", {5}], dtype=object)}
    )
    with pytest.raises(DataError) as error:
        connect(frame, SCHEMA)
    assert "secretword" not in str(error.value)


def test_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffid,age,sex\r\n1,2,F\r\n2,?,"M"\r\n'.encode())
    engine = connect(path, SCHEMA)
    assert engine.histograms(["age"])["age"].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert engine.histograms(["sex"])["sex"].tolist() == [1, 1, 0]


def test_empty_field_is_text_and_the_schema_says_what_it_means(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('x,y\n,1\n"",2\na,3\n')
    schema = Schema.from_dict(
        {"name": "t", "missing_values": ["?"], "columns": {
            "x": {"type": "categorical", "values": ["", "a"]},
            "y": {"type": "integer", "low": 1, "high": 3}}}
    )  # fmt: skip
    assert connect(path, schema).histograms(["x"])["x"].tolist() == [2, 1]


@pytest.mark.parametrize("rows", ["1,2\n", "1,2,F,4\n", '1,2,"F\n'])
def test_ragged_rows_are_refused_without_quoting_them(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,age,sex\n" + "secretword,2,F\n" * 5 + rows)
    for engine in ("memory", "duckdb"):
        with pytest.raises(DataError) as error:
            connect(path, SCHEMA, engine=engine).histograms(["age"])  # type: ignore[arg-type]
        assert "secretword" not in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,age,sex\n" + b"1,2,F\n" * 5000 + "1,2,größe\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8") as error:
        connect(path, SCHEMA).histograms(["age", "sex"])
    assert "1,2" not in str(error.value)


def test_file_that_is_gone_or_cut_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "age": [2], "sex": ["F"]})
    path = to_parquet(table, tmp_path / "t.parquet")
    engine = connect(path, SCHEMA)
    path.unlink()
    with pytest.raises(DataError):
        engine.histograms(["age"])


def test_a_damaged_file_with_a_readable_header_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which damage Arrow reads over depends on its version.
    def iter_batches(*_: object, **__: object) -> None:
        raise pa.ArrowInvalid("TProtocolException: secretword")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    table = pa.table({"id": [1], "age": [2], "sex": ["F"]})
    with pytest.raises(DataError) as error:
        connect(to_parquet(table, tmp_path / "t.parquet"), SCHEMA, engine="duckdb").n_rows()
    assert "secretword" not in str(error.value)


# ---- persons, memory, privacy of the machine -----------------------------------------------------


def test_seeded_choice_of_rows_is_repeatable(tmp_path: Path) -> None:
    table, schema = persons_table([9] * 20), persons_schema(3)
    texts = to_csv(table, tmp_path / "t.csv")

    def chosen(data: Any, seed: int) -> list[list[int]]:
        engine = connect(data, schema, engine="memory", noise=SeededNoise(shifted(seed)))
        codes: list[list[int]] = engine.counts(["person", "visit"]).codes.tolist()
        return codes

    assert chosen(table, 1) == chosen(table, 1) == chosen(texts, 1)
    assert chosen(table, 1) != chosen(table, 2)  # equal with probability 84**-20


def test_rows_of_a_text_file_stay_in_order(tmp_path: Path) -> None:
    """Several threads read a file of several megabytes."""
    whole = {"type": "integer", "low": 0, "high": 2_000_000}
    schema = Schema.from_dict({"name": "t", "columns": {"x": whole, "y": whole}})
    numbers = np.arange(400_000)
    texts = to_csv(pa.table({"x": numbers, "y": numbers}), tmp_path / "t.csv")
    engine = connect(texts, schema)
    assert isinstance(engine, MemoryEngine)
    assert (engine._rows["x"] == numbers).all()


def test_opening_reads_no_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,age,sex\nthis row is broken\n")
    for engine in ("memory", "duckdb"):
        connect(path, SCHEMA, engine=engine)  # type: ignore[arg-type]


def test_duckdb_is_locked_up(tmp_path: Path) -> None:
    path = to_csv(pa.table({"id": [1], "age": [2], "sex": ["F"]}), tmp_path / "t.csv")
    other = to_csv(pa.table({"x": [1]}), tmp_path / "other.csv")
    engine = connect(path, SCHEMA, engine="duckdb")
    assert isinstance(engine, SqlEngine)
    engine.n_rows()
    duck = engine._rows.table.get_backend().con
    with pytest.raises(duckdb.PermissionException):
        duck.read_csv(str(other)).fetchall()
    with pytest.raises(duckdb.Error):
        duck.execute("SET enable_external_access = true")
    with pytest.raises(duckdb.Error):
        duck.execute(f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'")


def test_overflow_goes_to_a_folder_of_ones_own_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(shifted(0))
    n_rows, names = 1_000_000, ["a", "b", "c", "d"]
    table = pa.table({name: draw.integers(0, 1_000_000, size=n_rows) for name in names})
    columns = {name: {"type": "integer", "low": 0, "high": 999_999} for name in names}
    schema = Schema.from_dict({"name": "t", "columns": columns})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    engine = connect(path, schema, memory_limit="60MB")
    assert isinstance(engine, SqlEngine)
    engine.n_rows()
    duck = engine._rows.table.get_backend().con
    ((spill,),) = duck.execute("SELECT current_setting('temp_directory')").fetchall()
    assert stat.S_IMODE(Path(spill).stat().st_mode) == 0o700
    assert not Path(spill).is_relative_to(tmp_path)
    assert Path(spill).is_relative_to(tempfile.gettempdir())
    assert engine.counts(names).counts.sum() == n_rows
    del engine, duck
    gc.collect()
    assert not Path(spill).exists()
    assert list(tmp_path.iterdir()) == [path]


def test_too_little_memory_is_reported() -> None:
    table = pa.table(
        {"x": np.random.default_rng(shifted(0)).integers(0, 2**31 - 2, size=1_000_000)}
    )
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 2**31 - 2}}}
    )
    with pytest.raises(TooLarge, match="memory limit"):
        connect(table, schema, engine="duckdb", memory_limit="4MB").counts(["x"])


def test_nothing_is_made_in_a_connection_of_the_user() -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("visits", persons_table([5] * 5))
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    there = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()"
    before = connection.con.execute(settings).fetchall(), connection.con.execute(there).fetchall()
    engine = connect(connection.table("visits"), persons_schema(2))
    assert engine.n_rows() == engine.counts(["person", "visit"]).counts.sum() == 10
    after = connection.con.execute(settings).fetchall(), connection.con.execute(there).fetchall()
    assert after == before


def test_a_table_that_changes_is_counted_as_it_was() -> None:
    """Between two queries, a person may get more rows than the first check allowed."""
    connection = ibis.duckdb.connect()
    connection.con.register("persons", persons_table([1] * 5))
    connection.con.execute("CREATE TABLE visits AS SELECT * FROM persons")
    engine = connect(connection.table("visits"), persons_schema(1))
    assert engine.n_rows() == 5
    connection.con.execute("INSERT INTO visits SELECT visits.* FROM visits, range(100)")
    assert engine.n_rows() == engine.counts(["person", "visit"]).counts.sum() == 5
    assert engine.histograms(["visit"])["visit"].sum() == 5


def test_texts_that_depend_on_where_they_are_read_are_refused() -> None:
    moments = pa.array([datetime.datetime(2024, 12, 31)], pa.timestamp("us", "UTC"))
    listed = {"type": "categorical", "values": ["2024-12-31 00:00:00+00"]}
    schema = Schema.from_dict({"name": "t", "columns": {"x": listed}})
    with pytest.raises(DataError, match="cannot be read as categorical; convert it first"):
        engines.open(pa.table({"x": moments})).check(schema)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_names_of_persons_of_every_type(engine: Any) -> None:
    ids: list[tuple[list[Any], pa.DataType, int]] = [
        ([0.0, -0.0, 1.0, 1.0], pa.float64(), 2),
        ([b"a", b"a", b"b", b"b"], pa.binary(), 2),
        ([True, True, False, False], pa.bool_(), 2),
        ([2**64 - 1, 2**64 - 1, 1, 1], pa.uint64(), 2),
        (["a", "A", "a ", "a"], pa.string(), 3),
        ([1, 2, 2, 3], pa.timestamp("us", "UTC"), 3),
    ]
    for values, kind, n_persons in ids:
        table = pa.table(
            {"who": pa.array(values, kind), "person": [1, 2, 3, 4], "visit": [1, 1, 1, 1]}
        )
        assert connect(table, persons_schema(1), engine=engine).n_rows() == n_persons, kind
    for unfit in (pa.array([[1]] * 4), pa.array([{"a": 1}] * 4)):
        table = pa.table({"who": unfit, "person": [1, 2, 3, 4], "visit": [1, 1, 1, 1]})
        with pytest.raises(DataError, match=r"'who' has type .* cannot identify persons"):
            engines.open(table).check(persons_schema(1))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_files_that_differ_in_whether_null_is_allowed(engine: Any, tmp_path: Path) -> None:
    strict = pa.schema([pa.field("x", pa.string(), nullable=False)])
    pq.write_table(pa.table({"x": ["a"]}, schema=strict), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["b"]}), tmp_path / "b.parquet")
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "categorical", "values": ["a", "b"]}}}
    )
    assert connect(tmp_path, schema, engine=engine).histograms(["x"])["x"].tolist() == [1, 1]
