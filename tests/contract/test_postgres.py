"""PostgreSQL through ibis: the same counts as other engines; the tests start a server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

import hushtable as ht
from contract import engine_checks
from contract.engine_checks import ALIKE_CHECKS, STORED_CHECKS, Make, often
from hushtable import DiffGen, NoisyCounts, publish
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from postgres_server import ALIKE, add_collation, running_server
from seeds import shifted

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    yield from running_server()


TYPES = {pa.int64(): "bigint", pa.int32(): "integer", pa.float64(): "float8", pa.string(): "text"}


def to_postgres(server: Any, table: pa.Table, *, text: str = "text") -> ibis.Table:
    """Copy a table into the server, with texts of a type."""
    name = f"t{uuid.uuid4().hex}"
    columns = [
        '"{}" {}'.format(field.name.replace('"', '""'), {**TYPES, pa.string(): text}[field.type])
        for field in table.schema
    ]
    with server.con.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        with cursor.copy(f"COPY {name} FROM STDIN") as rows:
            for row in zip(*(column.to_pylist() for column in table), strict=True):
                rows.write_row(row)
    server.con.commit()
    return server.table(name)


@pytest.fixture(scope="session")
def hostile(server: Any) -> Any:
    """Return a server with types that take different texts for equal."""
    add_collation(server)
    return server


def maker(server: Any, *, text: str = "text") -> Make:
    def make(table: pa.Table, schema: Schema) -> Any:
        return connect(to_postgres(server, table, text=text), schema)

    return make


@pytest.mark.parametrize("check", often(STORED_CHECKS), ids=lambda check: check.__name__)
def test_engine(hostile: Any, check: Callable[[Make], None]) -> None:
    check(maker(hostile, text=ALIKE))


def test_texts_without_a_collation(server: Any) -> None:
    engine_checks.check_random_tables(maker(server))


@pytest.mark.parametrize("check", ALIKE_CHECKS, ids=lambda check: check.__name__)
def test_texts_that_know_no_case(server: Any, check: Callable[[Make], None]) -> None:
    with server.con.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'")
        if cursor.fetchall() == [(0,)]:
            pytest.skip("no citext: apt install postgresql-contrib")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS citext")
    server.con.commit()
    check(maker(server, text="citext"))


@pytest.mark.parametrize("n_rows", [0, 7, 30])
def test_one_row_is_one_row(hostile: Any, n_rows: int) -> None:
    make = maker(hostile, text=ALIKE)
    engine_checks.assert_added_row_is_one_more(make, shifted(n_rows), n_rows)


def test_padded_texts_are_texts_with_spaces(server: Any) -> None:
    listed = {"type": "categorical", "values": ["a", "a  "]}
    schema = Schema.from_dict({"name": "t", "columns": {"x": listed}})
    engine = connect(to_postgres(server, pa.table({"x": ["a", "a "]}), text="char(3)"), schema)
    assert engine.histograms(["x"])["x"].tolist() == [0, 2]


def test_long_decimals_are_one_number_however_they_are_written(server: Any) -> None:
    listed = {"type": "categorical", "values": ["1", "1.5", "100"], "outside": "missing",
              "missing": "category"}  # fmt: skip
    number = {"type": "number", "low": 0, "high": 100, "step": 0.5}
    schema = Schema.from_dict(
        {"name": "t", "unit": {"kind": "person", "column": "who", "max_rows": 1},
         "columns": {"who": {"role": "identifier"}, "x": listed, "y": number}}
    )  # fmt: skip
    values = ["1", "1.0", "1.00", "1.5", "1.50", "100", "0.12345678901234567890123456789"]
    table = to_postgres(server, pa.table({"who": values, "x": values, "y": values}), text="numeric")
    engine = connect(table, schema)
    assert engine.n_rows() == 4
    assert engine.histograms(["x"])["x"].tolist() == [1, 1, 1, 1]
    assert engine.histograms(["y"])["y"][[0, 2, 3, 200]].tolist() == [1, 1, 1, 1]


def test_a_reader_needs_no_right_to_write(server: Any) -> None:
    table = to_postgres(server, sample())
    server.raw_sql("SET default_transaction_read_only = on").close()
    server.con.commit()
    try:
        assert connect(table, sample_schema()).n_rows() == sample().num_rows
    finally:
        server.con.rollback()
        server.raw_sql("SET default_transaction_read_only = off").close()
        server.con.commit()


@pytest.mark.filterwarnings("ignore:this release is not private")
def test_release_is_the_same(server: Any, tmp_path: Path) -> None:
    table = to_postgres(server, sample())
    releases = [
        publish(
            data, sample_schema(), DiffGen(epsilon=1, specializations=4), out=tmp_path / name,
            noise=SeededNoise(shifted(5)),
        )
        for name, data in (("postgres", table), ("memory", sample()))
    ]  # fmt: skip
    assert releases[0].table().equals(releases[1].table())


@pytest.mark.parametrize(
    "what", ["table=visits", "query=SELECT sex, age FROM visits WHERE age < 4"]
)
def test_a_table_and_a_query_by_address(server: Any, what: str, tmp_path: Path) -> None:
    """As from the command line: draft, connect and publish by the same address."""
    server.con.execute("DROP TABLE IF EXISTS visits")
    server.con.execute("CREATE TABLE visits (age integer, sex text)")
    rows = "SELECT n % 8, CASE WHEN n % 3 = 0 THEN 'F' ELSE 'M' END FROM generate_series(1, 240) n"
    server.con.execute(f"INSERT INTO visits {rows}")
    server.con.commit()
    host = server.con.info.host
    address = f"postgresql://test@/postgres?host={host}&{what}"
    drafted = ht.draft(address)
    assert set(drafted.columns) == {"age", "sex"}
    schema = Schema.from_dict({"name": "visits", "columns": {
        "age": {"type": "integer", "low": 0, "high": 7},
        "sex": {"type": "categorical", "values": ["F", "M"]},
    }})  # fmt: skip
    n_ages = 8 if what.startswith("table") else 4
    expected = [30] * n_ages + [0] * (8 - n_ages)
    counted = connect(address, schema).histograms(["age", "sex"])
    assert counted["age"].tolist() == expected
    assert counted["sex"].tolist() == [10 * n_ages, 20 * n_ages]
    method = NoisyCounts(epsilon=30, mechanism="pure")
    release = publish(address, schema, method, out=tmp_path / "r")
    assert release.count("sex = 'F'").value == pytest.approx(10 * n_ages, abs=3)
