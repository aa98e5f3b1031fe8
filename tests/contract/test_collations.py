"""Databases whose collations equate different texts: counts are those of every other engine.

DuckDB and SQLite here; see `test_postgres` for PostgreSQL and `test_spark` for Spark.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

import hushtable as ht
from contract import engine_checks
from contract.engine_checks import (
    ALIKE_CHECKS,
    STORED_CHECKS,
    Make,
    alike_rows,
    alike_schema,
    alike_table,
    often,
)
from hushtable.drafting import draft
from hushtable.engine import MemoryEngine, OccupiedCells, SqlEngine, connect
from hushtable.engine.sources.database import DatabaseSource
from hushtable.errors import DataError
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.schema import Schema
from seeds import shifted

To = Callable[[pa.Table, Path], ibis.Table]
DUCKDB = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.float64(): "DOUBLE"}
SQLITE = {pa.int64(): "INTEGER", pa.int32(): "INTEGER", pa.float64(): "REAL"}


def definition(table: pa.Table, types: dict[pa.DataType, str], text: str) -> str:
    """Return the column definitions of a table, with texts of a given type."""
    columns = (
        '"{}" {}'.format(field.name.replace('"', '""'), {**types, pa.string(): text}[field.type])
        for field in table.schema
    )
    return f"people ({', '.join(columns)})"


def to_duckdb(text: str, default: str = "") -> To:
    def to(table: pa.Table, _: Path) -> ibis.Table:
        connection = ibis.duckdb.connect()
        connection.raw_sql(f"SET default_collation = '{default}'")
        connection.raw_sql("CREATE TABLE " + definition(table, DUCKDB, text))
        connection.con.register("sent", table)
        connection.raw_sql("INSERT INTO people SELECT * FROM sent")
        return connection.table("people")

    return to


def to_view(table: pa.Table, folder: Path) -> ibis.Table:
    """Make a view over a file's table, in a session with its own default collation."""
    path = folder / f"{uuid.uuid4().hex}.duckdb"
    stored = ibis.duckdb.connect(path)
    stored.raw_sql("CREATE TABLE " + definition(table, DUCKDB, "VARCHAR COLLATE NOACCENT"))
    stored.con.register("sent", table)
    stored.raw_sql("INSERT INTO people SELECT * FROM sent")
    stored.disconnect()
    connection = ibis.duckdb.connect(path)
    connection.raw_sql("SET default_collation = 'NOCASE'")
    connection.raw_sql("CREATE VIEW seen AS SELECT * FROM people")
    return connection.table("seen")


def to_sqlite(text: str) -> To:
    def to(table: pa.Table, folder: Path) -> ibis.Table:
        path = folder / f"{uuid.uuid4().hex}.db"
        rows = list(zip(*(column.to_pylist() for column in table), strict=True))
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE " + definition(table, SQLITE, text))
            marks = ", ".join("?" * table.num_columns)
            connection.executemany(f"INSERT INTO people VALUES ({marks})", rows)  # noqa: S608
        return ibis.sqlite.connect(path).table("people")

    return to


HOSTILE = {
    "duckdb": to_duckdb("VARCHAR COLLATE NOCASE", "NOCASE.NOACCENT"),
    "sqlite": to_sqlite("TEXT COLLATE NOCASE"),
}
# Other difficult collations: only the checks of texts.
MORE = {
    "duckdb-default": to_duckdb("VARCHAR", "NOCASE.NOACCENT"),
    "duckdb-noaccent": to_duckdb("VARCHAR COLLATE NOACCENT"),
    "duckdb-nfc": to_duckdb("VARCHAR COLLATE NFC"),
    "duckdb-view": to_view,
    "sqlite-rtrim": to_sqlite("TEXT COLLATE RTRIM"),
}


def maker(to: To, folder: Path, engine: str = "auto") -> Make:
    def make(table: pa.Table, schema: Schema) -> Any:
        return connect(to(table, folder), schema, engine=engine)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("check", often(STORED_CHECKS), ids=lambda check: check.__name__)
@pytest.mark.parametrize("database", HOSTILE)
def test_engine(database: str, check: Callable[[Make], None], tmp_path: Path) -> None:
    check(maker(HOSTILE[database], tmp_path))


@pytest.mark.parametrize("check", ALIKE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("database", MORE)
def test_texts(database: str, check: Callable[[Make], None], tmp_path: Path) -> None:
    check(maker(MORE[database], tmp_path))


@pytest.mark.parametrize("check", ALIKE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("database", HOSTILE)
def test_texts_counted_in_memory(
    database: str, check: Callable[[Make], None], tmp_path: Path
) -> None:
    check(maker(HOSTILE[database], tmp_path, "memory"))


@pytest.mark.parametrize("database", HOSTILE)
@pytest.mark.parametrize("n_rows", [0, 7, 30])
def test_one_row_is_one_row(database: str, n_rows: int, tmp_path: Path) -> None:
    seed = shifted(n_rows)
    engine_checks.assert_added_row_is_one_more(maker(HOSTILE[database], tmp_path), seed, n_rows)


# ---- releases from such databases ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:this release is not private")
@pytest.mark.parametrize("database", HOSTILE)
def test_release_is_the_same(database: str, tmp_path: Path) -> None:
    """With six columns, the collation would put one row into 64 cells."""
    listed = {"type": "categorical", "values": ["b24", "B24"]}
    schema = Schema.from_dict({"name": "t", "columns": dict.fromkeys("abcdef", listed)})
    table = pa.table({name: ["b24"] * 20 + ["B24"] for name in schema.columns})
    releases = [
        ht.publish(
            data,
            schema,
            ht.NoisyCounts(epsilon=1, mechanism="pure"),
            out=tmp_path / name,
            noise=SeededNoise(5),
        ).table()
        for name, data in (("there", HOSTILE[database](table, tmp_path)), ("here", table))
    ]
    assert releases[0].equals(releases[1])


@pytest.mark.parametrize("database", [*HOSTILE, *MORE])
def test_draft_lists_each_text(database: str, tmp_path: Path) -> None:
    table = alike_table(alike_rows(3, 400)).select(["x"])
    column = draft({**HOSTILE, **MORE}[database](table, tmp_path)).attributes["x"]
    expected = draft(table).attributes["x"]
    assert column.values == expected.values  # type: ignore[union-attr]
    assert {"b24", "B24", "b24 "} <= set(column.values)  # type: ignore[union-attr]


def test_numbers_of_sqlite_do_not_depend_on_other_rows(tmp_path: Path) -> None:
    """Integers above 2**53 stay exact in a column with an empty cell."""
    low = 2**62 + 1
    column = {"type": "integer", "low": low, "high": low + 2, "missing": "category"}
    schema = Schema.from_dict({"name": "t", "columns": {"x": column}})
    table = pa.table({"x": pa.array([low, low + 1, low + 2, None], pa.int64())})
    engine = connect(to_sqlite("TEXT")(table, tmp_path), schema)
    assert engine.histograms(["x"])["x"].tolist() == [1, 1, 1, 1]


def test_types_that_sqlite_only_names(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE t (day DATE, yes BOOLEAN, price DECIMAL(6, 2), rest NUMERIC)"
        )
        rows = [("2024-12-31", 1, "1.50", "1.50"), ("2025-01-01", 0, 2, 2), (None,) * 4]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    listed = {"type": "categorical", "missing": "category"}
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "day": {**listed, "values": ["2024-12-31", "2025-01-01"]},
            "yes": {**listed, "values": ["true", "false"]},
            "price": {**listed, "values": ["1.50", "2.00"]},
            "rest": {**listed, "values": ["1.5", "2"]}}}
    )  # fmt: skip
    for engine in ("auto", "memory"):
        found = connect(ibis.sqlite.connect(path).table("t"), schema, engine=engine)  # type: ignore[arg-type]
        histograms = found.histograms(list(schema.columns))
        assert [h.tolist() for h in histograms.values()] == [[1, 1, 1]] * 4
    drafted = draft(ibis.sqlite.connect(path).table("t")).columns
    assert [column.type for column in drafted.values()] == ["date", "boolean", "number", "number"]


def test_a_cell_of_sqlite_with_another_type_is_missing(tmp_path: Path) -> None:
    """SQLite stores any type in any column; one such cell neither ends a run nor changes others."""
    path = tmp_path / "t.db"
    kinds = {"x": "INTEGER", "y": "REAL", "z": "TEXT", "day": "DATE", "price": "DECIMAL(6, 2)"}
    rows = [(1, 1.0, "1", "2024-01-31", 1.5)] * 3
    odd = ["word", b"\xff", 2.5, 1e19, -1e300, None, 7]
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(map(' '.join, kinds.items()))})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [[cell] * 5 for cell in odd])
    numbers = {"low": 0, "high": 9, "missing": "category"}
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "integer", **numbers},
            "y": {"type": "number", "step": 1, **numbers},
            "z": {"type": "categorical", "values": ["1", "word"], "missing": "category"},
            "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31", "step": "year",
                    "missing": "category"},
            "price": {"type": "number", "step": 0.5, **numbers}}}
    )  # fmt: skip
    found = connect(ibis.sqlite.connect(path).table("t"), schema).histograms(list(schema.columns))
    assert [(found["x"][code], found["y"][code]) for code in (0, 1, 9)] == [(1, 1), (3, 3), (1, 1)]
    assert (found["x"][7], found["x"][10]) == (1, 4)  # the word, the bytes, 2.5 and the empty cell
    assert (found["y"][7], found["y"][3], found["y"][10]) == (1, 1, 3)
    assert found["z"].tolist() == [3, 1, 6]
    assert found["day"].tolist() == [3, 7]
    assert found["price"][3] == 3
    assert sum(found["price"]) == 10


@pytest.mark.parametrize("asked", ["SELECT * FROM t", "SELECT x + 0 AS x, y || '' AS y FROM t"])
def test_the_first_row_of_sqlite_does_not_say_how_others_are_read(
    asked: str, tmp_path: Path
) -> None:
    """SQLite columns may have no type: each cell then keeps its own."""
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "integer", "low": 0, "high": 9, "missing": "category"},
            "y": {"type": "categorical", "values": ["1", "2.5", "x"], "missing": "category"}}}
    )  # fmt: skip
    path = tmp_path / "t.db"
    for number, first in enumerate([None, 1, 2.5, "x", b"x"]):
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE t{number} (x, y)")
            connection.executemany(
                f"INSERT INTO t{number} VALUES (?, ?)",  # noqa: S608 - our own table
                [(first, first), (3, "1"), (4.0, 2.5), (6.5, "x")],
            )
        table = ibis.sqlite.connect(path).sql(asked.replace(" t", f" t{number}"))
        found = connect(table, schema).histograms(["x", "y"])
        assert (found["x"][3], found["x"][4]) == (1, 1)
        assert (found["y"][:3] >= 1).all()
        assert sum(found["x"]) == sum(found["y"]) == 4


# ---- the guard -----------------------------------------------------------------------------------


class Silent(SecureNoise):
    """Noise source that fails if anything is drawn."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("discrete_laplace", "discrete_gaussian", "geometric", "binomial"):
            raise AssertionError("noise was drawn")
        return super().__getattribute__(name)


def in_the_database(source: DatabaseSource, names: Any) -> Any:
    """Leave the rows in the database, so that it compares the texts."""
    return source


@pytest.mark.parametrize("question", ["histograms", "by", "counts", "marginals", "tuples"])
def test_rows_compared_by_a_database_are_refused(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the guard, such a database would count one row in several cells."""
    monkeypatch.setattr(DatabaseSource, "here", in_the_database)
    engine = connect(HOSTILE["duckdb"](alike_table(alike_rows(5, 50)), tmp_path), alike_schema())
    ask: dict[str, Callable[[], Any]] = {
        "histograms": lambda: engine.histograms(["x"]),
        "by": lambda: engine.histograms(["n"], by="x"),
        "counts": lambda: engine.counts(["x", "n"]),
        "marginals": lambda: engine.marginals([["n"], ["x", "z"]]),
        "tuples": lambda: engine.tuples([[0], [1]], max_groups=2),
    }
    with pytest.raises(DataError, match="do not add up") as error:
        ask[question]()
    assert not re.search(r"\d", str(error.value))  # no count, exact or not


def test_a_run_ends_before_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseSource, "here", in_the_database)
    table = HOSTILE["duckdb"](alike_table(alike_rows(5, 50)), tmp_path)
    with pytest.raises(DataError, match="do not add up"):
        ht.publish(
            table,
            alike_schema(),
            ht.NoisyCounts(epsilon=1, mechanism="pure"),
            out=tmp_path / "out",
            noise=Silent(),
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [MemoryEngine, SqlEngine])
def test_every_engine_is_guarded(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    table, schema = alike_table(alike_rows(5, 50)), alike_schema()
    engine = connect(table, schema, engine="memory" if kind is MemoryEngine else "duckdb")
    assert isinstance(engine, kind)
    real = {name: getattr(kind, name) for name in ("_counts", "_marginals")}

    def twice(name: str) -> Callable[..., Any]:
        def answer(*question: Any) -> Any:
            found = real[name](*question)
            if isinstance(found, OccupiedCells):
                found.counts[-1] += 1
            else:
                found[-1].flat[-1] += 1
            return found

        return answer

    for name in real:
        monkeypatch.setattr(kind, name, twice(name))
    for ask in (
        lambda: engine.histograms(["x", "y"]),
        lambda: engine.histograms(["y"], by="z"),
        lambda: engine.counts(["y"]),
        lambda: engine.marginals([["x"], ["y"]]),
        lambda: engine.tuples([[0], [1]], max_groups=2),
        lambda: engine.publish_cells(["y"], lambda *_: pa.table({}), SecureNoise()),
    ):
        with pytest.raises(DataError, match="do not add up"):
            ask()


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("bounds", [{"max_groups": 5}, {"max_groups": 1}])
def test_people_with_more_than_they_can_have_are_refused(
    engine: Any, bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    people = engine_checks.ratings_by_hand()
    table, schema = engine_checks.ratings_table(people), engine_checks.ratings_schema()
    listing, groups = engine_checks.RATINGS, engine_checks.GROUPS
    private = connect(table, schema, engine=engine)
    fine = private.tuples(groups, item_columns=listing, **bounds)
    doubled = ht.engine.baskets.Tuples(
        fine.groups, fine.starts, fine.items, fine.values, fine.counts * 9, fine.n_records
    )
    monkeypatch.setattr(type(private), "_tuples", lambda *_, **__: doubled)
    with pytest.raises(DataError, match="columns 'movie', 'rating': the counts do not add up"):
        private.tuples(groups, item_columns=listing, **bounds)
    pairs = private.pairs(listing)
    many = ht.engine.baskets.ItemPairs(pairs.support * 9, pairs.agree, pairs.differ)
    monkeypatch.setattr(type(private), "_pairs", lambda *_: many)
    with pytest.raises(DataError, match="columns 'movie', 'rating': the counts do not add up"):
        private.pairs(listing)
    for wrong in ([0, 10**6], [1, 2], [0] * 13 + [1]):  # too many values, people without any
        monkeypatch.setattr(type(private), "_sizes", lambda *_, wrong=wrong: np.array(wrong))
        with pytest.raises(DataError, match="columns 'movie', 'rating': the counts do not add up"):
            private.sizes(listing)
