"""Tables in a custodian's database: rows are fetched, and texts are not compared there.

A database may treat different texts as equal: ``b24`` and ``B24`` under a case-insensitive
collation, ``a`` and ``a `` under one that pads, é as one or two code points. A join with a column's
list of values could then count one row in several cells, and grouping could merge two persons; the
noise accounts for neither. So the columns are fetched unchanged in one query, which is a consistent
snapshot, and all comparisons run in our own DuckDB, which compares texts by bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.encode import Expression
from hushtable.engine.sources.arrow_rows import plain_column
from hushtable.engine.sources.duckdb_files import connect_duckdb, store
from hushtable.engine.sources.header import ColumnType, Header
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sources.whole_files import texts_of

ibis = lazy_loader.load("ibis")

BATCH = 122_880  # rows; one row group of DuckDB

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
        kinds = dict(zip(self.header.names, self.header.kinds, strict=True))
        travel = {place: _travelling(raw[place], kinds[name]) for place, name in places.items()}
        connection = connect_duckdb(self.header, self.memory_limit)
        copy = store(connection, _plain_batches(self.table.get_backend(), raw.select(**travel)))
        connection.raw_sql("SET lock_configuration = true")
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
    if header.family == "other" or (kind.is_timestamp() and kind.scale == 9):
        return copy  # a text, if it has nanoseconds: DuckDB would round them
    if _is_long_decimal(kind):
        # 1.0 and 1.00 are the same number, so they must become the same text.
        return copy.contains(".").ifelse(copy.re_replace(r"\.?0+$", ""), copy)
    if kind.is_timestamp():
        kind = kind.copy(timezone=None)  # instants arrive as timestamps in UTC
    if kind.is_boolean() or kind.is_decimal() or kind.is_temporal():
        # SQLite does not enforce declared types; a value of another type becomes NULL.
        return copy if copy.type() == kind else copy.try_cast(kind)
    return copy


def _is_long_decimal(kind: Any) -> bool:
    return bool(kind.is_decimal()) and (kind.precision is None or kind.precision > _MAX_DIGITS)


def _plain_batches(backend: Any, rows: Expression) -> Iterator[pa.Table]:
    """Run a query and yield its rows in batches, at least one.

    It runs in this thread, since some drivers cannot be used in another.
    """
    fields = rows.schema().to_pyarrow()
    if backend.name == "sqlite":
        fields = pa.schema([(name, pa.string()) for name in rows.columns])
    for batch in chain([fields.empty_table()], _batches(backend, rows)):
        columns = [plain_column(column) for column in batch.cast(fields).columns]
        yield pa.Table.from_arrays(columns, fields.names)


def _batches(backend: Any, rows: Expression) -> Iterator[pa.Table]:
    """Run a query and yield its rows in batches, if the database supports them."""
    found: Iterable[pa.RecordBatch]
    if backend.name == "sqlite":
        # Each cell has its own type, whatever the declared type of its column. Without a declared
        # type, as in computed columns, ibis would use the type of the first row for all rows.
        backend._run_pre_execute_hooks(rows)
        cursor = backend.con.execute(backend.compile(rows))
        while cells := cursor.fetchmany(BATCH):
            columns = [texts_of(column) for column in zip(*cells, strict=True)]
            yield pa.Table.from_arrays(columns, list(rows.columns))
        return
    if backend.name == "duckdb":
        backend._run_pre_execute_hooks(rows)  # registers in-memory tables that the query uses
        found = backend.con.sql(backend.compile(rows)).to_arrow_reader(BATCH)
    else:
        found = rows.to_pyarrow_batches(chunk_size=BATCH)
    for batch in found:
        yield pa.Table.from_batches([batch])
