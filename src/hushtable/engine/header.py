"""The header of a table: column names and types, read without reading a row."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.engine.encode import INT64_HIGH, INT64_LOW
from hushtable.errors import DataError, ParameterError, SchemaError
from hushtable.schema import Categorical, Identifier, Integer, Schema

Data = Any  # a path, a frame, or an ibis table

DELIMITERS = (",", ";", "\t")
_LONGEST_HEADER = 4_000_000  # characters; a file without line ends must not be read whole


@dataclass(frozen=True)
class Header:
    """Hold the columns of a table as they stand, duplicates included.

    Parameters
    ----------
    names : tuple of str
        Column names in order.
    types : tuple of ibis data types
        Their types; all text in a CSV file.
    files : tuple of Path
        The files, if the table is in files.
    delimiter : str, optional
        What separates the fields, if it is a CSV file.
    """

    names: tuple[str, ...]
    types: tuple[dt.DataType, ...]
    files: tuple[Path, ...] = ()
    delimiter: str | None = None


def read_header(data: Data) -> Header:
    """Read column names and types, and no row.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`.

    Examples
    --------
    >>> read_header(pa.table({"age": [41], "sex": ["F"]})).names
    ('age', 'sex')
    """
    if isinstance(data, str | Path):
        return _file_header(data)
    if isinstance(data, ibis.Table):
        return Header(tuple(data.columns), tuple(data.schema().types))
    if is_spark_frame(data):
        return _spark_header(data)
    if isinstance(data, pa.Table):
        return _arrow_header(data.schema)
    raise ParameterError(
        f"data is a {type(data).__name__}; give the path of a .csv, .csv.gz or .parquet file, an "
        "Arrow, pandas, polars or Spark table, or an ibis table."
    )


def is_spark_frame(data: Data) -> bool:
    """Say whether data is a frame of Spark, without importing pyspark."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def is_in_spark(data: Data) -> bool:
    """Say whether data is a frame of Spark or an ibis table of a Spark session."""
    if isinstance(data, ibis.Table):
        return str(data.get_backend().name) == "pyspark"
    return is_spark_frame(data)


def check_header(header: Header, schema: Schema) -> None:
    """Refuse a table whose columns do not fit the schema, naming every problem at once."""
    if schema.unit.kind == "node":
        raise SchemaError("unit node is for graphs; a table needs unit row or person.")
    problems = _name_problems(header, schema)
    for name, kind in zip(header.names, header.types, strict=True):
        column = schema.columns.get(name)
        if column is None or isinstance(column, Identifier):
            continue
        if not _readable(kind, text_only=isinstance(column, Categorical)):
            problems.append(
                f"column {name!r} has type {kind} in the data, which cannot be read as "
                f"{column.type}; convert it first."
            )
        if isinstance(column, Integer) and (column.low < INT64_LOW or column.high > INT64_HIGH):
            problems.append(f"column {name!r}: bounds beyond 64 bits cannot be counted.")
    if problems:
        raise DataError(problems)


def _readable(kind: dt.DataType, *, text_only: bool) -> bool:
    numeric = kind.is_string() or kind.is_numeric() or kind.is_boolean() or kind.is_null()
    return numeric or (
        text_only and (kind.is_date() or kind.is_timestamp() or kind.is_time() or kind.is_uuid())
    )


def _name_problems(header: Header, schema: Schema) -> list[str]:
    found, wanted = dict.fromkeys(header.names), dict.fromkeys(schema.columns)
    if not any(name.lower() in {n.lower() for n in wanted} for name in found):
        # A file without a header line would have its first row of data quoted here.
        return [
            "none of the schema's columns is in the data; its first line must name the columns: "
            f"{', '.join(map(repr, wanted))}."
        ]
    problems = [
        f"column {name!r} stands {header.names.count(name)} times in the data; names must differ."
        for name in found
        if header.names.count(name) > 1
    ]
    by_case = {name.lower(): name for name in wanted if name not in found}
    for position, name in enumerate(found, 1):
        if name in wanted:
            continue
        if name.lower() in by_case:
            problems.append(
                f"column {name!r} of the data is {by_case.pop(name.lower())!r} in the schema; "
                "names must agree in upper and lower case."
            )
        elif not name:
            problems.append(f"column number {position} of the data has no name.")
        else:
            problems.append(
                f"column {name!r} is in the data but not in the schema; describe it, or list it "
                "with role: identifier to have it dropped."
            )
    problems += [
        f"column {name!r} is in the schema but not in the data." for name in by_case.values()
    ]
    return problems


def _arrow_header(schema: pa.Schema) -> Header:
    return Header(tuple(schema.names), tuple(_ibis_type(field.type) for field in schema))


def _spark_header(frame: Any) -> Header:
    from ibis.backends.pyspark.datatypes import PySparkType  # noqa: PLC0415 - imports pyspark

    fields = list(frame.schema.fields)
    types = tuple(PySparkType.to_ibis(field.dataType) for field in fields)
    return Header(tuple(field.name for field in fields), types)


def _ibis_type(kind: pa.DataType) -> dt.DataType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind == pa.string_view():
        kind = pa.string()
    try:
        return dt.DataType.from_pyarrow(kind)
    except (KeyError, TypeError, ValueError, NotImplementedError):
        return dt.unknown  # refused later, by name, if the column is to be published


def _file_header(data: str | Path) -> Header:
    files = _files(data)
    if files[0].suffix.lower() == ".parquet":
        return _parquet_header(files)
    return _csv_header(files[0])


def _files(data: str | Path) -> tuple[Path, ...]:
    path = Path(data)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not _hidden(file, path))
        if not files:
            raise DataError(f"folder {str(path)!r} holds no .parquet file.")
        return tuple(files)
    if not path.exists() and any(mark in path.name for mark in "*?["):
        files = sorted(path.parent.glob(path.name))
        if not files:
            raise DataError(f"no file matches {str(path)!r}.")
        if any(file.suffix.lower() != ".parquet" for file in files):
            raise DataError(f"{str(path)!r} matches files that are not .parquet; name one file.")
        return tuple(files)
    if not path.exists():
        raise DataError(f"file {str(path)!r} does not exist.")
    if not path.name.lower().endswith((".csv", ".csv.gz", ".parquet")):
        raise DataError(f"file {str(path)!r} is none of .csv, .csv.gz and .parquet.")
    return (path,)


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _parquet_header(files: Sequence[Path]) -> Header:
    headers, problems = [], []
    for file in files:
        try:
            headers.append(_arrow_header(pq.read_schema(file, memory_map=False)))
        except OSError as error:
            problems.append(f"cannot read {str(file)!r}: {error.strerror or 'it is cut short'}.")
        except (pa.ArrowException, ValueError):
            size = file.stat().st_size
            what = "is empty" if size == 0 else "is not a Parquet file"
            problems.append(f"file {str(file)!r} {what}.")
    problems += [
        f"file {str(file)!r} has other columns or types than {str(files[0])!r}."
        for file, header in zip(files, headers, strict=False)
        if not problems and header != headers[0]
    ]
    if problems:
        raise DataError(problems)
    return Header(headers[0].names, headers[0].types, tuple(files))


def _csv_header(file: Path) -> Header:
    opener = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opener(file, "rb") as raw:
            line = _first_record(raw)
    except gzip.BadGzipFile:
        raise DataError(f"file {str(file)!r} is not gzip-compressed.") from None
    except (EOFError, zlib.error):
        raise DataError(f"file {str(file)!r} is cut short or damaged.") from None
    except OSError as error:
        raise DataError(f"cannot read {str(file)!r}: {error.strerror}.") from None
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(
            f"file {str(file)!r} is not UTF-8 text; convert it first (for example with iconv)."
        ) from None
    if not text.strip():
        raise DataError(f"file {str(file)!r} is empty.")
    if "\x00" in text or text.startswith("PAR1"):
        raise DataError(f"file {str(file)!r} is not a CSV file.")
    try:
        splits = [(next(csv.reader(io.StringIO(text), delimiter=m)), m) for m in DELIMITERS]
    except csv.Error:
        raise DataError(
            f"the first line of {str(file)!r} is not a list of column names: it is too long, or "
            "its quotes do not match."
        ) from None
    names, delimiter = max(splits, key=lambda split: len(split[0]))  # a tie goes to the comma
    return Header(tuple(names), (dt.string,) * len(names), (file,), delimiter)


def _first_record(raw: Any) -> bytes:
    """Read up to the line end that is not inside quotes."""
    record = bytearray()
    while len(record) < _LONGEST_HEADER:
        line = raw.readline(_LONGEST_HEADER)
        record += line
        if not line or record.count(b'"') % 2 == 0:
            break
    return bytes(record)
