"""A DuckDB of our own, in memory, that can read the table's files and nothing else."""

from __future__ import annotations

import glob
import os
import shutil
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushtable.engine.encode import Expression
from hushtable.engine.header import Data, Header
from hushtable.engine.source import POSITION, Source, explained
from hushtable.files.scratch import spill_folder

ibis = lazy_loader.load("ibis")  # a small table is counted without it


def _coarser(kind: pa.DataType) -> tuple[pa.DataType, str] | None:
    """Give a type for Arrow and ibis to types of DuckDB that ibis does not know."""
    if kind == pa.time64("ns"):
        return pa.time64("us"), "time"
    if pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz:
        return pa.timestamp("us", kind.tz), "timestamp('UTC')"
    return None


def open_in_duckdb(data: Data, header: Header, *, memory_limit: str | None = None) -> Source:
    """Open files or an Arrow table; reads no row."""
    return open_together([(data, header)], memory_limit=memory_limit)[0]


def open_together(
    tables: Sequence[tuple[Data, Header]], *, memory_limit: str | None = None
) -> list[Source]:
    """Open several tables in one DuckDB, so that they can be joined; reads no row."""
    headers = [header for _, header in tables]
    connection = connect_duckdb(headers[0], memory_limit, beside=headers[1:])
    sources = [_opened(connection, data, header) for data, header in tables]
    connection.raw_sql("SET lock_configuration = true")
    return sources


def _opened(connection: Any, data: Data, header: Header) -> Source:
    places = {name: f"raw{position}" for position, name in enumerate(header.names)}
    if not header.files:
        renamed = data.rename_columns(list(places.values()))
        numbers = pa.array(np.arange(data.num_rows))
        table = _registered(connection, renamed.append_column(POSITION, numbers))
    elif header.delimiter is None:
        # Not renamed: in front of a plain scan, DuckDB knows the ranges of the columns. It gives
        # names of its own where two differ in case only.
        table = _parquet(connection, header)
        places = dict(zip(header.names, table.columns, strict=True))
        table = _with_plain_times(table, header, places)
    else:
        table = _csv(connection, header, list(places.values()))
    copied, numbered = header.delimiter is not None, not header.files
    return Source(table, places, copied=copied, numbered=numbered)


def _parquet(connection: Any, header: Header) -> Expression:
    paths = [_literal_path(file) for file in header.files]
    try:
        return connection.read_parquet(paths, hive_partitioning=False)
    except Exception as error:  # a file that is damaged beyond its header
        raise explained(error) from None


def _with_plain_times(table: Expression, header: Header, places: Mapping[str, str]) -> Expression:
    """Write lengths of time with their unit, and moments without billionths of a second.

    Parquet has whole numbers for lengths, and no unit.
    """
    assert header.arrow is not None  # noqa: S101 - a Parquet file has one
    plain = {}
    for name, field in zip(header.names, header.arrow, strict=True):  # some were renamed
        column = table[places[name]]
        if pa.types.is_duration(field.type):
            plain[places[name]] = column.cast("string") + f" {field.type.unit}"
        elif known := _coarser(field.type):
            plain[places[name]] = column.cast(known[1])
    return table.mutate(**plain) if plain else table


def _csv(connection: Any, header: Header, places: list[str]) -> Expression:
    return connection.read_csv(
        [_literal_path(file) for file in header.files],
        columns=dict.fromkeys(places, "VARCHAR"),
        header=True,
        delim=header.delimiter,
        quote='"',
        escape='"',
        # An empty field is the empty text; whether that means missing is the schema's to say.
        force_not_null=places,
        compression="gzip" if header.is_compressed else "none",
    )


def _registered(connection: Any, table: pa.Table) -> Expression:
    for place, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            ticks = table[place].cast(pa.int64()).cast(pa.string())
            texts = pc.binary_join_element_wise(ticks, pa.scalar(field.type.unit), " ")
            table = table.set_column(place, field.name, texts)
        elif known := _coarser(field.type):
            cut = table[place].cast(known[0], safe=False)
            table = table.set_column(place, field.name, cut)
        elif pa.types.is_dictionary(field.type) and field.type.value_type == pa.string_view():
            texts = pa.chunked_array(
                [_decoded(chunk) for chunk in table[place].chunks], pa.string()
            )
            table = table.set_column(place, field.name, texts)
    plain = [field.with_type(plain_type(field.type)) for field in table.schema]
    name = f"private_rows_{uuid.uuid4().hex}"
    connection.con.register(name, table.cast(pa.schema(plain)))
    return connection.table(name)


def _decoded(chunk: pa.DictionaryArray) -> pa.Array:
    """Write out a dictionary of views of texts, which Arrow cannot look up in."""
    return chunk.dictionary.cast(pa.string()).take(chunk.indices)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Give the type as which DuckDB is to see an Arrow column."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.large_string()
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def _literal_path(file: Path) -> str:
    # DuckDB takes every path for a pattern: data[1].csv would be data1.csv.
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
        # A seeded run in memory is repeatable; otherwise order is not worth what it costs.
        "preserve_insertion_order": str(all(one.is_small_text for one in headers)).lower(),
    }
    connection = ibis.duckdb.connect(**settings)
    weakref.finalize(connection, _remove_spill, connection.con, spill, os.getpid())
    connection.raw_sql("SET enable_progress_bar = false")
    if memory_limit is not None:
        connection.raw_sql(f"SET memory_limit = {_quoted(memory_limit)}")
    # DuckDB asks for the pattern and then for the file it stands for.
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
        return  # a forked child: both are its parent's
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
