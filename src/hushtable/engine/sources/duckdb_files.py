"""In-memory DuckDB databases that can read the table's files and nothing else."""

from __future__ import annotations

import glob
import os
import shutil
import uuid
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.encode import Expression
from hushtable.engine.sources.arrow_rows import (
    is_long_decimal,
    plain_column,
    read_batches,
    without_nanoseconds,
)
from hushtable.engine.sources.header import Data, Header
from hushtable.engine.sources.source import TableSource, explained
from hushtable.files.writing import spill_folder
from hushtable.schema import CalendarColumn, Schema

ibis = lazy_loader.load("ibis")  # a small table is counted without it


# With these optimizers, DuckDB derives answers from statistics of Parquet files, which ignore NaN.
_USES_STATISTICS = (
    "aggregate_function_rewriter", "filter_pushdown", "join_filter_pushdown",
    "late_materialization", "partial_aggregate_pushdown", "row_group_pruner",
    "scalar_fn_pushdown", "statistics_propagation", "top_n", "type_pushdown",
)  # fmt: skip


def open_in_duckdb(data: Data, header: Header, *, memory_limit: str | None = None) -> TableSource:
    """Open files without reading rows, or copy an Arrow table into a new DuckDB."""
    connection = connect_duckdb(header, memory_limit)
    if not header.files:
        return _imported(connection, data, header, header.names)
    if header.delimiter is None:
        _disable_optimizers(connection)
        table = _parquet(connection, header)
        # DuckDB renames columns whose names differ only in case.
        source = TableSource(table, dict(zip(header.names, table.columns, strict=True)))
    else:
        source = _csv(connection, header)
    connection.raw_sql("SET lock_configuration = true")
    return source


def _disable_optimizers(connection: Any) -> None:
    known = {name for (name,) in connection.con.execute("FROM duckdb_optimizers()").fetchall()}
    disabled = ",".join(name for name in _USES_STATISTICS if name in known)
    connection.raw_sql(f"SET disabled_optimizers = '{disabled}'")


def import_together(
    tables: Sequence[tuple[Data, Header, Schema]], *, memory_limit: str | None = None
) -> list[TableSource]:
    """Open text files, and copy other tables, in one DuckDB, so that they can be joined."""
    headers = [header for _, header, _ in tables]
    connection = connect_duckdb(headers[0], memory_limit, beside=headers[1:])
    sources = [
        _csv(connection, header)
        if header.delimiter is not None
        else _imported(
            connection,
            data,
            header,
            [*schema.columns],
            keys=schema.columns.keys() - schema.attributes,
            calendar={
                name
                for name, column in schema.attributes.items()
                if isinstance(column, CalendarColumn)
            },
        )
        for data, header, schema in tables
    ]
    connection.raw_sql("SET lock_configuration = true")
    return sources


def _parquet(connection: Any, header: Header) -> Expression:
    paths = [_literal_path(file) for file in header.files]
    try:
        return connection.read_parquet(paths, hive_partitioning=False)
    except Exception as error:  # the file is damaged after its header
        raise explained(error) from None


def _csv(connection: Any, header: Header) -> TableSource:
    places = {name: f"raw{position}" for position, name in enumerate(header.names)}
    table = connection.read_csv(
        [_literal_path(file) for file in header.files],
        columns=dict.fromkeys(places.values(), "VARCHAR"),
        header=True,
        delim=header.delimiter,
        quote='"',
        escape='"',
        # An empty field is the empty text; the schema says whether it means missing.
        force_not_null=list(places.values()),
        compression="gzip" if header.is_compressed else "none",
    )
    return TableSource(table, places, copied=True)


def _imported(
    connection: Any,
    data: Data,
    header: Header,
    names: Sequence[str],
    *,
    keys: Collection[str] = (),
    calendar: Collection[str] = (),
) -> TableSource:
    """Copy rows of a frame or of Parquet files, read by Arrow, into a table of DuckDB.

    `keys` identify rows, so every digit counts; `calendar` are columns of dates and times.
    """
    places = {name: f"raw{position}" for position, name in enumerate(names)}

    def batches() -> Iterator[pa.Table]:
        for batch in read_batches(data, header, list(names)):
            plain = {
                place: plain_column(
                    without_nanoseconds(batch[name]) if name in calendar else batch[name]
                )
                for name, place in places.items()
            }
            for name in keys:
                if is_long_decimal(batch[name].type):  # bytes: a number is never a missing text
                    plain[places[name]] = plain[places[name]].cast(pa.binary())
            yield pa.table(plain)

    return TableSource(store(connection, batches()), places)


def store(connection: Any, batches: Iterable[pa.Table]) -> Expression:
    """Copy batches, at least one, into a new table of DuckDB."""
    name = f"private_rows_{uuid.uuid4().hex}"
    made = f"CREATE TABLE {name} AS"
    try:
        for batch in batches:
            connection.con.register("batch", batch)
            connection.con.execute(f"{made} SELECT * FROM batch")  # noqa: S608 - our own names
            connection.con.unregister("batch")
            made = f"INSERT INTO {name}"
    except Exception as error:  # engines raise any type
        raise explained(error) from None
    return connection.table(name)


def _literal_path(file: Path) -> str:
    # DuckDB treats every path as a pattern: data[1].csv would match data1.csv.
    return glob.escape(str(file.resolve()))


def connect_duckdb(
    header: Header, memory_limit: str | None, *, beside: Sequence[Header] = ()
) -> Any:
    """Open an in-memory DuckDB that can read the given files and nothing else."""
    headers = (header, *beside)
    spill = spill_folder()
    settings = {
        "temp_directory": spill,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # Only seeded runs in memory must be reproducible; keeping the order is slow.
        "preserve_insertion_order": str(all(one.is_small_text for one in headers)).lower(),
    }
    connection = ibis.duckdb.connect(**settings)
    weakref.finalize(connection, _remove_spill, connection.con, spill, os.getpid())
    connection.raw_sql("SET enable_progress_bar = false")
    if memory_limit is not None:
        connection.raw_sql(f"SET memory_limit = {_quoted(memory_limit)}")
    # DuckDB checks the pattern and then the file that it matches.
    paths = {
        path
        for one in headers
        for file in one.files
        for path in (os.fspath(file.resolve()), _literal_path(file))
    }
    connection.raw_sql(f"SET allowed_paths = [{', '.join(map(_quoted, sorted(paths)))}]")
    connection.raw_sql("SET enable_external_access = false")
    return connection


def _remove_spill(connection: Any, spill: str, process: int) -> None:
    if os.getpid() != process:
        return  # in a forked child, both belong to the parent
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
