"""A table in a custodian's database: its rows are fetched, and nothing is compared there.

To a database, texts may be equal that are not the same: ``b24`` and ``B24`` under a collation that
ignores case, ``a`` and ``a `` under one that pads, é in one sign and in two. Joined to the list of
a column's values there, one row would be counted in several cells, and grouped by person, two
persons would be one; the noise is for neither. So the database is asked for the columns as they
stand, in one query, hence of one moment, and every comparison is made in a DuckDB of our own, where
texts are equal if their bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.encode import Expression
from hushtable.engine.header import Header, Kind
from hushtable.engine.own_duckdb import connect_duckdb, plain_type
from hushtable.engine.source import Source, explained

ibis = lazy_loader.load("ibis")

BATCH = 122_880  # rows that travel together: one row group of DuckDB

_ROWS = "private_rows"
_MAX_DIGITS = 38  # of a decimal of DuckDB


@dataclass(frozen=True, eq=False)
class DatabaseSource(Source):
    """Hold a table in a database, of which nothing but `here` may be asked.

    Parameters
    ----------
    header : Header
        Its columns.
    memory_limit : str, optional
        How much memory the copy may take, such as ``"1GB"``; beyond it, it is on disk.
    """

    header: Header | None = None
    memory_limit: str | None = None

    def here(self, names: Sequence[str]) -> Source:
        """Copy some columns into a DuckDB of our own."""
        assert self.header is not None  # noqa: S101 - see `hushtable.engine.door`
        places = {f"c{position}": name for position, name in enumerate(dict.fromkeys(names))}
        raw = self.select(places)
        backend = self.table.get_backend()
        kinds = dict(zip(self.header.names, self.header.kinds, strict=True))
        travel = {
            place: _travelling(raw[place], kinds[name], backend.name)
            for place, name in places.items()
        }
        connection = connect_duckdb(self.header, self.memory_limit)
        try:
            _copy(connection.con, backend, raw.select(**travel))
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        connection.raw_sql("SET lock_configuration = true")
        copy = connection.table(_ROWS)
        arrived = {
            place: _arrived(copy[place], raw[place].type(), kinds[name])
            for place, name in places.items()
        }
        return Source(copy.select(**arrived), {name: place for place, name in places.items()})


def _travelling(raw: Expression, header: Kind, database: str) -> Expression:
    """Give a column as it leaves the database: a type that no driver changes on the way."""
    kind = raw.type()
    if header.family == "other":
        return ibis.null("string")  # can neither be published nor name a person
    if _is_long_decimal(kind):
        return raw.cast("string")
    return _stored(raw) if database == "sqlite" else raw


def _stored(raw: Expression) -> Expression:
    """Give a column of SQLite, where a cell may hold anything, whatever its column is called.

    What is not of the column's kind is no value: one such cell must not end the run.
    """
    kind, stored = raw.type(), raw.typeof()
    if kind.is_decimal() or kind.is_temporal():
        return (stored == "blob").ifelse(ibis.null("string"), raw.cast("string"))
    if kind.is_integer() or kind.is_boolean():
        real, edge = raw.cast("float64"), float(2**63)
        return ibis.cases(
            (stored == "integer", raw.cast("int64")),
            (stored != "real", ibis.null("int64")),
            (real >= edge, ibis.literal(2**63 - 1, "int64")),
            (real < -edge, ibis.literal(-(2**63), "int64")),
            (real.floor() == real, real.floor().cast("int64")),
            else_=ibis.null("int64"),
        )
    if kind.is_floating():
        return stored.isin(["integer", "real"]).ifelse(raw, ibis.null(kind))
    return (stored == "blob").ifelse(ibis.null(kind), raw) if kind.is_string() else raw


def _arrived(copy: Expression, kind: Any, header: Kind) -> Expression:
    """Give a column the type that it had, after it has travelled as another."""
    if header.family == "other":
        return copy
    if _is_long_decimal(kind):
        # 1.0 and 1.00 are one number, hence one text.
        return copy.contains(".").ifelse(copy.re_replace(r"\.?0+$", ""), copy)
    if kind.is_boolean() or kind.is_decimal() or kind.is_temporal():
        return copy if copy.type() == kind else copy.try_cast(kind)
    return copy


def _is_long_decimal(kind: Any) -> bool:
    return bool(kind.is_decimal()) and (kind.precision is None or kind.precision > _MAX_DIGITS)


def _copy(duck: Any, backend: Any, rows: Expression) -> None:
    """Copy rows batch by batch, in this thread: not every driver may be used in another."""
    names = ", ".join(f'"{name}"' for name in rows.columns)
    fields = rows.schema().to_pyarrow()
    fields = pa.schema([field.with_type(plain_type(field.type)) for field in fields])
    there = False
    for batch in _batches(backend, rows):
        duck.register("batch", pa.Table.from_batches([batch]).cast(fields))
        made = f"INSERT INTO {_ROWS}" if there else f"CREATE TABLE {_ROWS} AS"
        duck.execute(f"{made} SELECT {names} FROM batch")  # noqa: S608 - our own names
        duck.unregister("batch")
        there = True
    if not there:
        duck.register("batch", fields.empty_table())
        duck.execute(f"CREATE TABLE {_ROWS} AS SELECT {names} FROM batch")  # noqa: S608
        duck.unregister("batch")


def _batches(backend: Any, rows: Expression) -> Iterator[pa.RecordBatch]:
    """Run a query and give its rows, a part at a time where the database can."""
    if backend.name == "duckdb":
        backend._run_pre_execute_hooks(rows)  # tables of the session that it may ask for
        yield from backend.con.sql(backend.compile(rows)).to_arrow_reader(BATCH)
    elif backend.name == "sqlite":
        # Not by way of pandas, where one row without a number makes doubles of all the others.
        from ibis.backends.sql import SQLBackend  # noqa: PLC0415 - ibis is imported lazily

        yield from SQLBackend.to_pyarrow_batches(backend, rows, chunk_size=BATCH)
    else:
        yield from rows.to_pyarrow_batches(chunk_size=BATCH)
