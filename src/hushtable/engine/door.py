"""The one door to the private table: opened once, its header read once, and no row.

What comes in is a path, a frame, or a table of a database or of Spark. `open` finds out what it is
and reads its header, so that whoever holds the `PrivateTable` can refuse a schema that does not fit
before anything is charged, and then count. Who counts is decided here and nowhere else: another
engine is another module, a name in `EngineName` and a case in `PrivateTable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from hushtable.engine.addresses import at_address, is_address
from hushtable.engine.base import Engine
from hushtable.engine.coded_rows import CodedRows
from hushtable.engine.deferred import Deferred, deferred_all
from hushtable.engine.frames import as_arrow
from hushtable.engine.header import (
    AS_FOUND,
    Data,
    Header,
    check_header,
    files_of,
    is_ibis_table,
    is_in_spark,
    read_header,
)
from hushtable.engine.memory import MemoryEngine
from hushtable.engine.own_duckdb import open_in_duckdb
from hushtable.engine.source import Source
from hushtable.engine.sql.engine import SqlEngine
from hushtable.engine.sql.rows import encoded_rows
from hushtable.engine.value_labels import Labels
from hushtable.errors import DataError, ParameterError
from hushtable.extras import require
from hushtable.file_format import FileFormat
from hushtable.files.memory import parse_memory_limit
from hushtable.privacy.noise import Noise
from hushtable.privacy.secure_noise import SecureNoise
from hushtable.schema import Schema

EngineName = Literal["auto", "memory", "duckdb", "spark"]

SMALL = 1_000_000  # rows; a smaller frame or Parquet file is counted in memory


@dataclass(frozen=True, eq=False)
class PrivateTable:
    """Hold a private table that was opened, and of which no row was read.

    Parameters
    ----------
    data : path, Arrow table, frame of Spark or ibis table
        Where the rows are.
    header : Header
        Its columns.
    engine : {"auto", "memory", "duckdb", "spark"}
        Who counts.
    memory_limit : str, optional
        How much memory DuckDB may take.
    layout : FileFormat
        How its file is read.
    """

    data: Data
    header: Header
    engine: EngineName
    memory_limit: str | None
    layout: FileFormat = AS_FOUND

    def read_as(self, layout: FileFormat) -> PrivateTable:
        """Read the file as a schema says; its header is read again, and no row."""
        if layout == self.layout:
            return self
        beyond = [place for place in layout.rename if place > len(self.header.names)]
        if beyond:
            raise DataError(
                f"reading: rename names column {max(beyond)}, and the data has "
                f"{len(self.header.names)} columns."
            )
        data = self.data
        if isinstance(data, pa.Table):
            data = data.rename_columns(list(layout.names(data.column_names)))
            layout_of_header = AS_FOUND
        else:
            data = _opened(data.file if isinstance(data, Deferred) else data, layout)
            layout_of_header = layout
        return replace(self, data=data, header=read_header(data, layout_of_header), layout=layout)

    @property
    def labels(self) -> Mapping[str, Labels]:
        """The labels of values, of columns that have any and are not read by them."""
        if not isinstance(self.data, Deferred):
            return {}
        return {
            name: self.data.labels[stored]
            for stored, name in zip(self.data.names, self.header.names, strict=True)
            if stored in self.data.labels and stored not in self.layout.labels
        }

    def loaded(self) -> PrivateTable:
        """Read a file that is read as a whole."""
        if not isinstance(self.data, Deferred):
            return self
        table = self.data.load().rename_columns(list(self.header.names))
        return replace(self, data=table, header=read_header(table))

    def check(self, schema: Schema) -> None:
        r"""Refuse a schema that the columns do not fit, naming every problem in one `DataError`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 0, high: 99}\n")
        >>> open(pa.table({"Age": [41]})).check(schema)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        hushtable.errors.DataError: column 'Age' of the data is 'age' in the schema; names must ...
        """
        check_header(self.read_as(schema.reading).header, schema)

    def connect(self, schema: Schema, *, noise: Noise | None = None) -> Engine:
        """Give what counts by the rules of a schema; reads no row before the first question.

        Parameters
        ----------
        schema : Schema
            What is public about the table.
        noise : Noise, optional
            With unit ``person``, the coins that choose the rows of a person in memory.
        """
        table = self.read_as(schema.reading)
        table.check(schema)
        table._require_unchanged()
        table = table.loaded()
        table.check(schema)  # of some files, types are known only now
        if is_in_spark(table.data) or is_ibis_table(table.data):
            source = table.numbers_read(schema)
            if not table.is_for_memory():
                return SqlEngine(partial(source.coded, schema), schema)
            return MemoryEngine(
                partial(encoded_rows, source, schema), schema, noise or SecureNoise()
            )
        table.require_different_names()
        rows = CodedRows(
            table.data,
            table.header,
            schema,
            decimal_comma=table.layout.decimal != ".",
            memory_limit=table.memory_limit,
        )
        if not table.is_for_memory():
            return SqlEngine(rows.in_duckdb, schema)
        return MemoryEngine(rows.in_memory, schema, noise or SecureNoise())

    def numbers_read(self, schema: Schema, source: Source | None = None) -> Source:
        """Give the raw rows, opened already or not, with points for decimal commas of numbers."""
        source = source or self.source()
        numeric = [
            name
            for name, column in schema.attributes.items()
            if hasattr(column, "exact_step")
            and source.table[source.columns[name]].type().is_string()
        ]
        if self.layout.decimal == "." or not numeric:
            return source
        points = {
            source.columns[name]: source.table[source.columns[name]].replace(",", ".")
            for name in numeric
        }
        return replace(source, table=source.table.mutate(**points))

    def _require_unchanged(self) -> None:
        """Refuse files whose columns are others than when they were opened: a charge came between.

        Rows of a text file go by their place, so they would end up in the wrong columns.
        """
        if not self.header.files:
            return
        now = read_header(self.data, self.layout)
        if (now.names, now.kinds, now.delimiter) != (
            self.header.names, self.header.kinds, self.header.delimiter,
        ):  # fmt: skip
            raise DataError("the columns of the data have changed since it was opened; try again.")

    def source(self) -> Source:
        """Give the raw rows to ask about where they are, or in a DuckDB of our own; reads none."""
        if isinstance(self.data, Deferred):
            return self.loaded().source()
        self.require_different_names()
        names = self.header.names
        if is_in_spark(self.data):
            from hushtable.engine.spark.source import open_in_spark  # noqa: PLC0415 - an extra

            return open_in_spark(self.data, self.header)
        if is_ibis_table(self.data):
            from hushtable.engine.database import DatabaseSource  # noqa: PLC0415 - seldom needed

            return DatabaseSource(
                self.data,
                dict(zip(names, self.data.columns, strict=True)),
                header=self.header,
                memory_limit=self.memory_limit,
            )
        return open_in_duckdb(self.data, self.header, memory_limit=self.memory_limit)

    def require_different_names(self) -> None:
        """Refuse a table in which two columns have the same name."""
        names = self.header.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(
                [
                    f"column {name!r} stands more than once in the data; give new names by their "
                    "place, such as reading: {rename: {2: new_name}}."
                    for name in twice
                ]
            )

    def is_for_memory(self) -> bool:
        """Say whether its rows are counted in memory."""
        if self.engine != "auto":
            return self.engine == "memory"
        if is_in_spark(self.data) or is_ibis_table(self.data):
            return False
        # Who limits the memory has a file in mind that is not to be read as a whole.
        limited = bool(self.header.files) and self.memory_limit is not None
        few = self.header.n_rows is not None and self.header.n_rows < SMALL
        return (few or self.header.is_small_text) and not limited


def open(
    data: Data,
    *,
    reading: FileFormat = AS_FOUND,
    engine: EngineName = "auto",
    memory_limit: str | None = None,
) -> PrivateTable:
    """Open a private table: find out what it is, and read its header and no row.

    Parameters
    ----------
    data : path, frame or ibis table
        The path of a text file (``.csv``, ``.tsv``, or these with ``.gz``) or Parquet file, or of
        several (a pattern with ``*``, or a folder of Parquet files); of a workbook, JSON lines,
        Feather, Stata, SPSS or SAS file, which is read as a whole; a URL of such a file, or of a
        table in a database (``sqlite:///people.db?table=visits``); an Arrow, pandas, polars or
        Spark table, a DuckDB relation, whatever has ``__arrow_c_stream__``; an ibis table.
    reading : FileFormat
        What its file does not say of itself, such as an encoding.
    engine : {"auto", "memory", "duckdb", "spark"}
        Who counts. ``auto``: memory for frames and Parquet files of less than a million rows and
        for text files of less than 64 MB, DuckDB for larger and for compressed ones, and for ibis
        tables, whose columns are fetched from their database; a Spark table is counted in Spark.
        With ``spark``, Spark itself reads a path.
    memory_limit : str, optional
        How much memory DuckDB may take, such as ``"1GB"``; beyond it, it works on disk. For
        ``spark``, the memory of a session that is started here.

    Examples
    --------
    >>> import pyarrow as pa
    >>> open(pa.table({"age": [41], "sex": ["F"]})).header.names
    ('age', 'sex')
    """
    require("publish", "reading a private table")
    names = get_args(EngineName)
    if engine not in names:
        allowed = f"{', '.join(names[:-1])} or {names[-1]}"
        raise ParameterError(f"engine {engine!r} is not known; choose {allowed}.")
    if memory_limit is not None:
        parse_memory_limit(memory_limit)  # now, and not when something was charged
    as_named = reading.model_copy(update={"rename": {}})  # new names go by places in the header
    if engine == "spark" or is_in_spark(data):
        from hushtable.engine.spark.session import read_in_spark  # noqa: PLC0415 - an extra

        data = read_in_spark(data, memory_limit=memory_limit)
    else:
        data = as_arrow(_opened(at_address(data) if is_address(data) else data, as_named))
    header = read_header(data, as_named)
    in_spark = is_in_spark(data)
    if (in_spark or is_ibis_table(data)) and engine == ("duckdb" if in_spark else "spark"):
        backend = "pyspark" if in_spark else data.get_backend().name
        raise ParameterError(
            f"engine {engine!r} cannot count a table that is in {backend}; leave it at auto."
        )
    return PrivateTable(data, header, engine, memory_limit, as_named).read_as(reading)


def _opened(data: Data, layout: FileFormat) -> Data:
    """Open what is read as a whole, and leave everything else alone."""
    if not isinstance(data, str | Path) or Path(data).is_dir():
        return data
    return deferred_all(data, files_of(data), layout) or data


def connect(
    data: Data,
    schema: Schema,
    *,
    engine: EngineName = "auto",
    noise: Noise | None = None,
    memory_limit: str | None = None,
) -> Engine:
    r"""Open a private table and count by the rules of a schema: `open` and its `connect` in one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 40, high: 43}\n")
    >>> private = connect(pa.table({"age": [41, 43, 41]}), schema)
    >>> private.histograms(["age"])["age"].tolist()
    [0, 2, 0, 1, 0]
    """
    table = open(data, reading=schema.reading, engine=engine, memory_limit=memory_limit)
    return table.connect(schema, noise=noise)
