"""Opening the private table: whatever it is becomes one ibis table."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import uuid
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.engine.header import (
    Data,
    Header,
    check_header,
    is_ibis_table,
    is_in_spark,
    read_header,
)
from hushtable.engine.sql.encode import Expression
from hushtable.errors import DataError, HushtableError, ParameterError, TooLarge
from hushtable.files.scratch import spill_folder
from hushtable.schema import Schema

duckdb = lazy_loader.load("duckdb")  # a small table is counted without them
ibis = lazy_loader.load("ibis")

POSITION = "position"  # names in the data are replaced by others, so none can be in its way


def inspect_source(data: Data, schema: Schema) -> None:
    r"""Check that a table can be opened and its columns fit the schema; reads no row.

    Everything wrong is named in one `DataError`, so that it is known before anything is charged.

    Examples
    --------
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 0, high: 99}\n")
    >>> inspect_source(pa.table({"Age": [41]}), schema)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hushtable.errors.DataError: column 'Age' of the data is 'age' in the schema; names must ...
    """
    check_header(read_header(as_arrow(data)), schema)


def as_arrow(data: Data) -> Data:
    """Turn a frame into an Arrow table, and leave paths and what is in an engine alone."""
    if isinstance(data, pa.Table) or not hasattr(data, "__arrow_c_stream__"):
        return data
    if is_ibis_table(data) or is_in_spark(data):
        return data
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError):
        raise DataError(_frame_problems(data)) from None  # the conversion's message quotes values
    # A pandas index without a name is not a column.
    unnamed = [name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return table.drop_columns(unnamed)


def _frame_problems(frame: Any) -> list[str]:
    """Say why a frame does not become an Arrow table."""
    names = list(getattr(frame, "columns", ()))
    if not names:
        return [f"data is a {type(frame).__name__} and no table; give a frame with named columns."]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems = [f"column {name!r} stands more than once in the data." for name in twice]
    for name in (name for name in names if name not in twice):
        try:
            pa.array(frame[name])
        except (pa.ArrowException, TypeError, ValueError):
            problems.append(f"column {name!r} mixes types; convert it to one type first.")
    return problems or ["the frame cannot be read as a table; convert its columns to plain types."]


@dataclass(frozen=True, eq=False)
class Source:
    """Hold an opened table.

    Parameters
    ----------
    table : ibis table
        The rows, raw.
    columns : mapping of str to str
        Name of each column of the data to its name in `table`.
    copied : bool
        Whether the rows have to be copied before anything is counted: a text file would be read and
        parsed for each question, and what Spark computes may come out differently the next time,
        while the promise is for one table.
    numbered : bool
        Whether `table` has a column `POSITION` that tells the order of the rows of a frame: an
        engine that joins does not keep it.
    """

    table: Expression
    columns: Mapping[str, str]
    copied: bool = False
    numbered: bool = False

    def select(self, places: Mapping[str, str], *, in_order: bool = False) -> Expression:
        """Take raw columns under plain new names: new name to name in the data.

        With `in_order`, the column that tells the order comes along, where there is one.
        """
        taken = {place: self.table[self.columns[name]] for place, name in places.items()}
        if in_order and self.numbered:
            taken[POSITION] = self.table[POSITION]
        return self.table.select(**taken)

    def here(self, names: Sequence[str]) -> Source:
        """Give some columns where texts are equal if their bytes are; reads rows if it has to."""
        return self

    def fetch(self, expression: Expression, *, most: int | None = None) -> pa.Table:
        """Run a query; whatever goes wrong is said without quoting the engine, or a value.

        An answer of more than `most` rows is refused and does not travel.
        """
        try:
            if most is None:
                return expression.to_pyarrow()
            answer = expression.limit(most + 1).to_pyarrow()
        except HushtableError:
            raise
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        if len(answer) > most:
            raise too_many_cells(most)
        return answer

    def keep(self, rows: Expression, columns: Mapping[str, str], *, drawn: bool = False) -> Source:
        """Run a query once and keep its rows in the engine, as long as the new source is in use.

        Parameters
        ----------
        rows : ibis table
            The rows to keep.
        columns : mapping of str to str
            Name of each column of the data to its name in `rows`.
        drawn : bool
            Whether coins were tossed for the rows, so that they must never be computed again.
        """
        backend = self.table.get_backend()
        name = f"hushtable_{uuid.uuid4().hex}"
        try:
            kept = Source(backend.create_table(name, rows, temp=True), columns)
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        weakref.finalize(kept, _drop, backend, name)
        return kept

    def draw(self, rows: Expression) -> Source:
        """Give rows for which coins are tossed, to be asked about once.

        A query is one run here, so that all of an answer sees the same coins.
        """
        return Source(rows, {})

    def keep_numbered(self, rows: Expression, number: str) -> Source:
        """Keep rows with a number each, in a column of that name; all numbers differ."""
        return self.keep(rows.mutate(**{number: ibis.row_number()}), {}, drawn=True)


def _drop(backend: Any, name: str) -> None:
    # The connection may be the user's own, and rows of people must not stay in it.
    with contextlib.suppress(Exception):
        backend.raw_sql(f'DROP TABLE IF EXISTS "{name}"')


def open_source(data: Data, *, memory_limit: str | None = None) -> tuple[Source, Header]:
    """Open a table; reads no row.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`; what is in Spark stays there.
    memory_limit : str, optional
        How much memory DuckDB may take, such as ``"1GB"``; beyond it, it works on disk.
    """
    data = as_arrow(data)
    header = read_header(data)
    twice = sorted({name for name in header.names if header.names.count(name) > 1})
    if twice:
        raise DataError([f"column {name!r} stands more than once in the data." for name in twice])
    if is_in_spark(data):
        from hushtable.engine.spark.session import open_in_spark  # noqa: PLC0415 - pyspark is an extra

        return open_in_spark(data, header), header
    if is_ibis_table(data):
        from hushtable.engine.database import DatabaseSource  # noqa: PLC0415 - it needs this file

        names = {name: name for name in header.names}
        return DatabaseSource(data, names, header=header, memory_limit=memory_limit), header

    places = {name: f"raw{position}" for position, name in enumerate(header.names)}
    connection = connect_duckdb(header, memory_limit)
    if not header.files:
        renamed = data.rename_columns(list(places.values()))
        numbers = pa.array(np.arange(data.num_rows))
        table = _registered(connection, renamed.append_column(POSITION, numbers))
    elif header.delimiter is None:
        paths = [_literal_path(file) for file in header.files]
        # Not renamed: in front of a plain scan, DuckDB knows the ranges of the columns.
        places = {name: name for name in header.names}
        try:
            table = connection.read_parquet(paths, hive_partitioning=False)
        except Exception as error:  # a file that is damaged beyond its header
            raise explained(error) from None
    else:
        table = connection.read_csv(
            _literal_path(header.files[0]),
            columns=dict.fromkeys(places.values(), "VARCHAR"),
            header=True,
            delim=header.delimiter,
            quote='"',
            escape='"',
            # An empty field is the empty text; whether that means missing is the schema's to say.
            force_not_null=list(places.values()),
            compression="gzip" if header.files[0].suffix.lower() == ".gz" else "none",
        )
    connection.raw_sql("SET lock_configuration = true")
    copied, numbered = header.delimiter is not None, not header.files
    return Source(table, places, copied=copied, numbered=numbered), header


def _registered(connection: Any, table: pa.Table) -> Expression:
    plain = [field.with_type(plain_type(field.type)) for field in table.schema]
    connection.con.register("private_rows", table.cast(pa.schema(plain)))
    return connection.table("private_rows")


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


def connect_duckdb(header: Header, memory_limit: str | None) -> Any:
    """Open an in-memory DuckDB that can read the given files and nothing else."""
    spill = spill_folder()
    settings = {
        "temp_directory": spill,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # A seeded run in memory is repeatable; otherwise order is not worth what it costs.
        "preserve_insertion_order": str(header.is_small_text).lower(),
    }
    connection = ibis.duckdb.connect(**settings)
    weakref.finalize(connection, _remove_spill, connection.con, spill, os.getpid())
    connection.raw_sql("SET enable_progress_bar = false")
    try:
        if memory_limit is not None:
            connection.raw_sql(f"SET memory_limit = {_quoted(memory_limit)}")
    except duckdb.Error:
        raise ParameterError(
            f"memory_limit {memory_limit!r} is not understood; write it as '500MB' or '4GB'."
        ) from None
    # DuckDB asks for the pattern and then for the file it stands for.
    paths = {
        path for file in header.files for path in (os.fspath(file.resolve()), _literal_path(file))
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


def too_many_cells(most: int) -> TooLarge:
    """Say that an answer is over its limit, and not by how much."""
    return TooLarge(
        f"more than {most:,} cells are occupied, which is the most that travels in one answer; "
        "generalize, publish fewer columns, or take a method that needs fewer of them together."
    )


def explained(error: Exception) -> HushtableError:
    """Say what went wrong in words of our own: an engine's message may quote the data."""
    message = str(error).lower()
    if "no space left" in message or "disk quota" in message:
        return TooLarge(
            "the disk for overflow is full; make room, or set TMPDIR to a folder on a larger disk."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return TooLarge("the memory limit and the disk for overflow do not suffice; raise them.")
    if "unicode" in message or "utf-8" in message or "utf8" in message:
        return DataError("the data holds text that is not UTF-8; convert it first.")
    if isinstance(error, duckdb.InvalidInputException) and "csv" in message:
        found = re.search(r"line: (\d+)", message)
        where = f"line {found[1]}" if found else "a line"
        return DataError(
            f"{where} of the CSV file cannot be split into the header's columns: check its "
            "quotes and its number of fields."
        )
    if isinstance(error, duckdb.IOException | OSError):
        return DataError("the data cannot be read to the end: it is cut short, gone or in use.")
    return DataError(f"the engine could not read the data ({type(error).__name__}).")
