"""Tables in a custodian's database: rows are fetched, and texts are not compared there.

A database may treat different texts as equal: ``b24`` and ``B24`` under a case-insensitive
collation, ``a`` and ``a `` under one that pads, é as one or two code points. A join with a column's
list of values could then count one row in several cells, and grouping could merge two persons; the
noise accounts for neither. So the columns are fetched unchanged in one query, which is a consistent
snapshot, and all comparisons run in our own DuckDB, which compares texts by bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.encode import Expression
from hushtable.engine.sources.arrow_rows import plain_column
from hushtable.engine.sources.duckdb_files import connect_duckdb
from hushtable.engine.sources.header import ColumnType, Header
from hushtable.engine.sources.source import TableSource, explained
from hushtable.engine.sources.whole_files import texts_of

ibis = lazy_loader.load("ibis")

BATCH = 122_880  # rows that travel together: one row group of DuckDB

_ROWS = "private_rows"
_MAX_DIGITS = 38  # of a decimal of DuckDB


@dataclass(frozen=True, eq=False)
class DatabaseSource(TableSource):
    """Table in a database, on which only `here` may be called.

    The copy goes to disk beyond `memory_limit`, such as ``"1GB"``.
    """

    header: Header | None = None
    memory_limit: str | None = None

    def here(self, names: Sequence[str]) -> TableSource:
        """Copy some columns into our own DuckDB."""
        assert self.header is not None  # noqa: S101 - see `hushtable.engine.open_table`
        places = {f"c{position}": name for position, name in enumerate(dict.fromkeys(names))}
        raw = self.select(places)
        backend = self.table.get_backend()
        kinds = dict(zip(self.header.names, self.header.kinds, strict=True))
        travel = {place: _travelling(raw[place], kinds[name]) for place, name in places.items()}
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
        return TableSource(copy.select(**arrived), {name: place for place, name in places.items()})


def _travelling(raw: Expression, header: ColumnType) -> Expression:
    """Return a column in a type that database drivers do not change."""
    if header.family == "other":
        return ibis.null("string")  # can neither be published nor name a person
    return raw.cast("string") if _is_long_decimal(raw.type()) else raw


def _arrived(copy: Expression, kind: Any, header: ColumnType) -> Expression:
    """Restore the type of a column that was fetched as another type."""
    if header.family == "other":
        return copy
    if _is_long_decimal(kind):
        # 1.0 and 1.00 are the same number, so they must become the same text.
        return copy.contains(".").ifelse(copy.re_replace(r"\.?0+$", ""), copy)
    if kind.is_timestamp():
        kind = kind.copy(timezone=None)  # instants arrive as timestamps in UTC
    if kind.is_boolean() or kind.is_decimal() or kind.is_temporal():
        # What SQLite only calls so may be anything else, and is then no value.
        return copy if copy.type() == kind else copy.try_cast(kind)
    return copy


def _is_long_decimal(kind: Any) -> bool:
    return bool(kind.is_decimal()) and (kind.precision is None or kind.precision > _MAX_DIGITS)


def _copy(duck: Any, backend: Any, rows: Expression) -> None:
    """Copy rows in batches, in this thread, since some drivers cannot be used in another."""
    names = ", ".join(f'"{name}"' for name in rows.columns)
    fields = rows.schema().to_pyarrow()
    if backend.name == "sqlite":
        fields = pa.schema([(name, pa.string()) for name in rows.columns])
    there = False
    for batch in _batches(backend, rows):
        duck.register("batch", _plain(pa.Table.from_batches([batch]).cast(fields)))
        made = f"INSERT INTO {_ROWS}" if there else f"CREATE TABLE {_ROWS} AS"
        duck.execute(f"{made} SELECT {names} FROM batch")  # noqa: S608 - our own names
        duck.unregister("batch")
        there = True
    if not there:
        duck.register("batch", _plain(fields.empty_table()))
        duck.execute(f"CREATE TABLE {_ROWS} AS SELECT {names} FROM batch")  # noqa: S608
        duck.unregister("batch")


def _plain(table: pa.Table) -> pa.Table:
    columns = [plain_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, table.column_names)


def _batches(backend: Any, rows: Expression) -> Iterator[pa.RecordBatch]:
    """Run a query and yield its rows in batches, if the database supports them."""
    if backend.name == "duckdb":
        backend._run_pre_execute_hooks(rows)  # tables of the session that it may ask for
        yield from backend.con.sql(backend.compile(rows)).to_arrow_reader(BATCH)
    elif backend.name == "sqlite":
        # Whatever a column is called, each of its cells has a type of its own; where it is called
        # nothing, as in queries that compute, ibis would take that of the first row for all.
        backend._run_pre_execute_hooks(rows)
        found = backend.con.execute(backend.compile(rows))
        while cells := found.fetchmany(BATCH):
            columns = [texts_of(column) for column in zip(*cells, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, list(rows.columns))
    else:
        yield from rows.to_pyarrow_batches(chunk_size=BATCH)
