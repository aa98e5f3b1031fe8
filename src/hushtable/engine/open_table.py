"""Opening of private tables; all access to their rows starts here.

(Edge lists in plain text are the exception: see `hushtable.engine.edges`.)

The data is a path, a frame, or a table of a database or of Spark. `open` detects its type and reads
its header, so that a schema that does not fit is refused before anything is charged. This module
also chooses the engine: a new engine needs its own module, a name in `EngineName` and a case in
`PrivateTable`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from hushtable.arrays import Codes32
from hushtable.engine.coded_rows import KEPT_BYTES, EncodedRows, bytes_per_row, scanned
from hushtable.engine.engine import Engine
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.engine.reference_encoder import Temporal, text_of
from hushtable.engine.sources.duckdb_files import connect_duckdb, open_in_duckdb
from hushtable.engine.sources.header import (
    AS_FOUND,
    Data,
    Header,
    check_header,
    files_of,
    is_address,
    is_ibis_table,
    is_in_spark,
    read_header,
    unpacked,
)
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sources.spelling import is_rewritten, rewritten_expression
from hushtable.engine.sources.whole_files import Labels, WholeFile, deferred_all
from hushtable.errors import DataError, ParameterError
from hushtable.extras import require
from hushtable.files.memory import parse_memory_limit
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from hushtable.schema.file_format import FileFormat

# Conversion of frames of any library to Arrow tables.


def as_arrow(data: Data) -> Data:
    """Convert a frame to an Arrow table; return paths and tables of engines unchanged."""
    if isinstance(data, pa.Table):
        return data
    if is_ibis_table(data) or is_in_spark(data):
        return data
    if type(data).__name__ == "LazyFrame" and hasattr(data, "collect"):
        data = data.collect()
    if type(data).__name__ == "DuckDBPyRelation":
        _require_lossless(data)
        data = data.to_arrow_table()
    if not hasattr(data, "__arrow_c_stream__"):
        return data
    try:
        table = _pandas_table(data) if _is_pandas(data) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(_frame_problems(data)) from None  # the conversion's message quotes values
    # A pandas index without a name is not a column.
    unnamed = [name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return table.drop_columns(unnamed)


_LOSSY = {"TIME WITH TIME ZONE", "UHUGEINT"}
"""Types of DuckDB that lose the offset or the sign in Arrow, so that two persons could merge."""


def _require_lossless(relation: Any) -> None:
    """Refuse columns of a DuckDB relation that Arrow cannot represent."""
    problems = [
        f"column {name!r} has the type {kind}, which cannot be read exactly; cast it to VARCHAR."
        for name, kind in zip(relation.columns, map(str, relation.types), strict=True)
        if kind in _LOSSY
    ]
    DataError.raise_if_any(problems)


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.split(".")[0] == "pandas" and type(frame).__name__ == "DataFrame"


def _pandas_table(frame: Any) -> pa.Table:
    """Convert a pandas frame; a column of Python objects becomes a column of texts, one by one.

    Arrow would choose one type for all objects of a column, so that one row could change others:
    with a date among them, timestamps lose their time, and with a long decimal all get its scale.
    """
    frame = frame.copy(deep=False)
    texts = {}
    for place in range(frame.shape[1]):
        series = frame.iloc[:, place]
        if _has_objects(series):
            texts[place] = _texts_of_objects(series)
            frame.isetitem(place, None)
    table = pa.table(frame)
    for place, column in texts.items():
        table = table.set_column(place, table.column_names[place], column)
    return table


def _has_objects(series: Any) -> bool:
    """Return whether a pandas column has objects that are not all texts, bytes or booleans."""
    from pandas.api.types import infer_dtype  # noqa: PLC0415 - the frame has imported it

    values = series.cat.categories if series.dtype == "category" else series
    return values.dtype == "O" and infer_dtype(values, skipna=True) not in _ONE_TYPE


_ONE_TYPE = {"string", "bytes", "boolean", "empty"}
"""Kinds of objects that Arrow converts one by one."""


def _texts_of_objects(series: Any) -> pa.Array:
    missing = series.isna().to_numpy()
    return pa.array(
        [
            None if gone else text_of(_python_value(value))
            for value, gone in zip(series, missing, strict=True)
        ],
        pa.string(),
    )


def _python_value(value: Any) -> Any:
    """Return a pandas or NumPy scalar as a value with all its digits."""
    if hasattr(value, "as_unit"):  # pandas timestamps and lengths of time, in nanoseconds
        exact = value.as_unit("ns").value
        if not hasattr(value, "tzinfo"):
            return Temporal("duration", exact)
        return Temporal("timestamp" if value.tzinfo is None else "instant", exact)
    if isinstance(value, bytes | bool | np.bool_):  # their texts would have other codes
        raise TypeError
    return value.item() if isinstance(value, np.generic) else value


def _frame_problems(frame: Any) -> list[str]:
    """Return the reasons why a frame cannot be converted to an Arrow table."""
    names = list(getattr(frame, "columns", ()))
    if not names:
        return [f"data is a {type(frame).__name__}, not a table; give a frame with named columns."]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems = [f"column {name!r} occurs more than once in the data." for name in twice]
    for name in (name for name in names if name not in twice):
        try:
            as_objects = _is_pandas(frame) and _has_objects(frame[name])
            (_texts_of_objects if as_objects else pa.array)(frame[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            problems.append(
                f"column {name!r} has values that are not texts, numbers, dates or times, or mixes "
                "bytes or booleans with others; convert it to one type first."
            )
    return problems or ["the frame cannot be read as a table; convert its columns to plain types."]


EngineName = Literal["auto", "memory", "duckdb", "spark"]

SMALL = 1_000_000  # rows; a smaller frame or Parquet file is counted in memory
LARGE = 20_000_000  # rows; likewise if their codes are small and persons have no other rows


@dataclass(frozen=True, eq=False)
class PrivateTable:
    """Private table that was opened; no row was read."""

    data: Data  # path, Arrow table, Spark frame or ibis table
    header: Header
    engine: EngineName
    memory_limit: str | None  # of DuckDB
    layout: FileFormat = AS_FOUND

    def read_as(self, layout: FileFormat) -> PrivateTable:
        """Return the table with another file format; its header is read again, but no row."""
        if layout == self.layout:
            return self
        beyond = [place for place in layout.rename if place > len(self.header.names)]
        if beyond:
            raise DataError(
                f"reading: rename has a name for column {max(beyond)}, but the data has only "
                f"{len(self.header.names)} columns."
            )
        data = self.data
        if isinstance(data, pa.Table):
            data = data.rename_columns(list(layout.names(data.column_names)))
            return replace(self, data=data, header=read_header(data), layout=layout)
        data = _opened(data.file if isinstance(data, WholeFile) else data, layout)
        return replace(self, data=data, header=read_header(data, layout), layout=layout)

    @property
    def labels(self) -> Mapping[str, Labels]:
        """Value labels of columns whose values are not replaced by them."""
        if not isinstance(self.data, WholeFile):
            return {}
        return {
            name: self.data.labels[stored]
            for stored, name in zip(self.data.names, self.header.names, strict=True)
            if stored in self.data.labels and stored not in self.layout.labels
        }

    def loaded(self) -> PrivateTable:
        """Return the table with its data in memory, if its file must be read as a whole."""
        if not isinstance(self.data, WholeFile):
            return self
        table = self.data.load().rename_columns(list(self.header.names))
        return replace(self, data=table, header=read_header(table))

    def check(self, schema: Schema) -> None:
        r"""Raise one `DataError` that lists all columns that do not fit the schema.

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
        """Return an engine that counts by the schema's rules; it reads rows at the first query.

        A file that must be read as a whole is read here. If the rows are counted in memory, `noise`
        chooses the rows of a person that count; a database uses its own random numbers.
        """
        table, noise = self.loaded_as(schema), noise or SecureNoise()
        large = table._has_few_codes(schema)
        in_memory = table.is_for_memory() or large
        if is_in_spark(table.data) or is_ibis_table(table.data):
            return counting_engine(table.numbers_read(schema), schema, noise, in_memory=in_memory)
        rows = EncodedRows(
            table.data,
            table.header,
            schema,
            layout=table.layout,
            memory_limit=table.memory_limit,
        )
        if in_memory:
            in_duckdb = _in_duckdb if large else None
            return MemoryEngine(rows.in_memory, schema, noise, in_duckdb=in_duckdb)
        from hushtable.engine.sql_engine import SqlEngine  # noqa: PLC0415 - not for small tables

        return SqlEngine(rows.in_duckdb, schema)

    def loaded_as(self, schema: Schema) -> PrivateTable:
        """Return the table in the schema's file format, loaded if needed, and check its header."""
        table = self.read_as(schema.reading)
        table.check(schema)
        table._require_unchanged()
        if isinstance(table.data, WholeFile):
            table = table.loaded()
            table.check(schema)  # the types are only known now
        return table

    def numbers_read(self, schema: Schema, source: TableSource | None = None) -> TableSource:
        """Return the raw rows, with numbers and dates as the engines read them."""
        source = source or self.source()
        plain = {}
        for name, column in schema.attributes.items():
            raw = source.table[source.columns[name]]
            if is_rewritten(column, self.layout) and raw.type().is_string():
                plain[source.columns[name]] = rewritten_expression(raw, column, self.layout)
        return replace(source, table=source.table.mutate(**plain)) if plain else source

    def _require_unchanged(self) -> None:
        """Raise an error if the columns changed since the files were opened.

        Fields of a text file are read by position, so they would end up in the wrong columns.
        """
        if not self.header.files:
            return
        now = read_header(self.data, self.layout)
        if (now.names, now.kinds, now.delimiter) != (
            self.header.names, self.header.kinds, self.header.delimiter,
        ):  # fmt: skip
            raise DataError("the columns of the data have changed since it was opened; try again.")

    def source(self) -> TableSource:
        """Return the raw rows in their own engine or in a new DuckDB.

        Frames, and files that must be read as a whole, are copied into DuckDB; other rows are not
        read yet.
        """
        if isinstance(self.data, WholeFile):
            return self.loaded().source()
        if is_in_spark(self.data):
            from hushtable.engine.spark.spark_source import open_in_spark  # noqa: PLC0415 - an extra

            return open_in_spark(self.data, self.header)
        if is_ibis_table(self.data):
            from hushtable.engine.sources.database import DatabaseSource  # noqa: PLC0415 - seldom needed

            columns = dict(zip(self.header.names, self.data.columns, strict=True))
            return DatabaseSource(
                self.data, columns, header=self.header, memory_limit=self.memory_limit
            )
        return open_in_duckdb(self.data, self.header, memory_limit=self.memory_limit)

    def is_for_memory(self) -> bool:
        """Return whether the rows are counted in memory."""
        if self.engine != "auto":
            return self.engine == "memory"
        if is_in_spark(self.data) or is_ibis_table(self.data):
            return False
        # A memory limit means that files must not be read as a whole.
        limited = bool(self.header.files) and self.memory_limit is not None
        few = self.header.n_rows is not None and self.header.n_rows < SMALL
        return (few or self.header.is_small_text) and not limited

    def _has_few_codes(self, schema: Schema) -> bool:
        """Return whether there are many rows, but their codes fit into memory."""
        n_rows = self.header.n_rows
        if self.engine != "auto" or n_rows is None or schema.unit.column is not None:
            return False
        few = SMALL <= n_rows <= LARGE and n_rows * bytes_per_row(schema) <= KEPT_BYTES
        return few and not (self.header.files and self.memory_limit is not None)


def _in_duckdb(codes: Mapping[str, Codes32], schema: Schema) -> Engine:
    """Return an engine whose DuckDB scans codes in memory."""
    from hushtable.engine.sql_engine import SqlEngine  # noqa: PLC0415 - not for small tables

    return SqlEngine(partial(scanned, connect_duckdb(Header((), ()), None), codes), schema)


def counting_engine(rows: TableSource, schema: Schema, noise: Noise, *, in_memory: bool) -> Engine:
    """Return an engine that encodes rows where they are, and counts there or in memory."""
    from hushtable.engine.sql_counting import encoded_rows  # noqa: PLC0415 - not for small tables
    from hushtable.engine.sql_engine import SqlEngine  # noqa: PLC0415

    if in_memory:
        return MemoryEngine(partial(encoded_rows, rows, schema), schema, noise)
    return SqlEngine(partial(rows.coded, schema), schema)


def open(
    data: Data,
    *,
    reading: FileFormat = AS_FOUND,
    engine: EngineName = "auto",
    memory_limit: str | None = None,
) -> PrivateTable:
    """Open a private table and read its header. No row of a file or database is read.

    A frame is converted to an Arrow table, which is in memory as the frame is.

    Parameters
    ----------
    data : path, frame or ibis table
        Path of a text file (``.csv``, ``.tsv``, also with ``.gz``) or Parquet file, or of several
        (a pattern with ``*``, or a folder of Parquet files). Path of an Excel, JSON lines, Feather,
        Stata, SPSS or SAS file, which is read as a whole. URL of such a file or of a database table
        (``sqlite:///people.db?table=visits``). Arrow, pandas, polars or Spark table, DuckDB
        relation, any object with ``__arrow_c_stream__``, or ibis table.
    reading : FileFormat
        File format options that cannot be detected, such as the encoding.
    engine : {"auto", "memory", "duckdb", "spark"}
        Engine that counts. ``auto`` uses memory for frames and Parquet files of less than a million
        rows (of up to 20 million if their codes take at most 256 MB and the unit is not a person)
        and for uncompressed text files of less than 64 MB (files only without a `memory_limit`),
        Spark for Spark tables, and DuckDB otherwise; the columns of ibis tables
        are fetched from their database. With ``spark``, Spark reads a path.
    memory_limit : str, optional
        Memory limit of DuckDB, such as ``"1GB"``; beyond it, DuckDB works on disk. For ``spark``,
        the memory of a session that is started here.

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
        parse_memory_limit(memory_limit)  # raises before anything is charged
    as_named = reading.model_copy(update={"rename": {}})  # renaming is by position in the header
    if engine == "spark" or is_in_spark(data):
        from hushtable.engine.spark.session import read_in_spark  # noqa: PLC0415 - an extra

        data = read_in_spark(data, memory_limit=memory_limit)
    else:
        if is_address(data):
            from hushtable.engine.sources.urls import at_address  # noqa: PLC0415 - seldom needed

            data = at_address(data)
        data = as_arrow(_opened(data, as_named))
    header = read_header(data, as_named)
    in_spark = is_in_spark(data)
    if (in_spark or is_ibis_table(data)) and engine == ("duckdb" if in_spark else "spark"):
        backend = "pyspark" if in_spark else data.get_backend().name
        raise ParameterError(
            f"engine {engine!r} cannot count a table that is in {backend}; use engine auto."
        )
    return PrivateTable(data, header, engine, memory_limit, as_named).read_as(reading)


def _opened(data: Data, layout: FileFormat) -> Data:
    """Open a file that must be read as a whole; return other data unchanged."""
    if not isinstance(data, str | Path) or Path(data).is_dir():
        return data
    files = files_of(data)
    if files[0].suffix.lower() == ".zip":
        return _opened(unpacked(files[0]), layout)
    return deferred_all(data, files, layout) or data


def connect(
    data: Data,
    schema: Schema,
    *,
    engine: EngineName = "auto",
    noise: Noise | None = None,
    memory_limit: str | None = None,
) -> Engine:
    r"""Open a private table and return an engine that counts by the schema's rules.

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
