"""People of two waves, joined in any engine: one more person is one more joined row."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine.two_waves import open_waves
from hushtable.errors import ParameterError
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from seeds import shifted

SCHEMA = Schema.from_dict(
    {
        "name": "people",
        "unit": {"kind": "person", "column": "id", "max_rows": 1},
        "columns": {
            "id": {"role": "identifier"},
            "job": {"type": "categorical", "values": ["none", "day"], "missing": "category"},
            "age": {"type": "integer", "low": 0, "high": 3, "missing": "category"},
        },
    }
)

# Pairs that a collation, a Unicode normalization or a number parser would treat as one person.
IDS = ["b24", "B24", " b24", "b24 ", "é", "e\u0301", "ß", "ss", "1", "1.0", "01", "x\0y", "x"]

Keep = Callable[[pa.Table, Path], Any]


def people(ids: list[str | None], *, times: int = 1) -> pa.Table:
    """Make a wave in which every person has the given number of identical rows."""
    place = np.array([IDS.index(one) if one else 0 for one in ids for _ in range(times)])
    return pa.table({
        "id": pa.array([one for one in ids for _ in range(times)], pa.string()),
        "job": np.where(place % 2, "day", "none"),
        "age": place % 4,
    })  # fmt: skip


def in_sqlite(table: pa.Table, folder: Path) -> Any:
    path = Path(tempfile.mkdtemp(dir=folder), "t.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE t (id TEXT COLLATE NOCASE, job TEXT COLLATE NOCASE, age INTEGER)"
        )
        database.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", [tuple(row.values()) for row in table.to_pylist()]
        )
    return ibis.sqlite.connect(path).table("t")


def in_duckdb(table: pa.Table, folder: Path) -> Any:
    database = ibis.duckdb.connect(Path(tempfile.mkdtemp(dir=folder), "t.duckdb"))
    database.raw_sql(
        "CREATE TABLE t (id VARCHAR COLLATE NOCASE, job VARCHAR COLLATE NOCASE, age INTEGER)"
    )
    database.con.executemany(
        "INSERT INTO t VALUES (?, ?, ?)", [list(row.values()) for row in table.to_pylist()]
    )
    return database.table("t")


PLACES: dict[str, tuple[Keep, str]] = {
    "memory": (lambda table, _: table, "memory"),
    "DuckDB": (lambda table, _: table, "duckdb"),
    "a database of DuckDB that minds no case": (in_duckdb, "auto"),
    "a database of SQLite that minds no case": (in_sqlite, "auto"),
}


def moves(now: Any, before: Any, engine: Any) -> list[np.ndarray]:
    opened = open_waves(now, before, engine=engine).connect(SCHEMA, noise=SeededNoise(shifted(1)))
    assert opened.followed is not None
    return opened.followed.marginals([["previous.job", "job"], ["previous.age", "age"]])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("somebody", ["b24", "e\u0301", "1"])
def test_one_person_more_is_one_joined_row_more(tmp_path: Path, place: str, somebody: str) -> None:
    """A person with a name similar to another's, and three rows in each wave, is one row."""
    keep, engine = PLACES[place]
    ids: list[str | None] = [one for one in IDS if one != somebody]
    others = people([*ids, None])
    both = pa.concat_tables([others, people([somebody], times=3)])
    without = moves(keep(others, tmp_path), keep(both, tmp_path), engine)
    there = moves(keep(both, tmp_path), keep(both, tmp_path), engine)
    for one, two in zip(there, without, strict=True):
        assert one.sum() == len(IDS)
        assert np.abs(one - two).sum() == 1


def test_a_panel_is_not_counted_by_spark(tmp_path: Path) -> None:
    """It is refused before Spark is started, and before anything is charged."""
    plan = SeriesPlan(epsilon=8, delta="1e-6", waves=3, panel=True)  # type: ignore[arg-type]
    series = Series.create(tmp_path / "series", SCHEMA, plan)
    ids = [f"person {number}" for number in range(200)]
    wave = pa.table({"id": ids, "job": ["none", "day"] * 100, "age": [0, 1, 2, 3] * 50})
    series.publish(wave)
    spent = series.ledger.spent()
    with pytest.raises(ParameterError, match="cannot read tables of Spark"):
        series.publish(wave, before=wave, engine="spark")
    assert series.ledger.spent() == spent
    assert [*series.releases()] == [(1, 0)]
