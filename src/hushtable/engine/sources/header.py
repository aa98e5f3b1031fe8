"""Header of a table: column names and types, read without reading a row."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.engine.sources.whole_files import WHOLE_FILES, WholeFile
from hushtable.errors import DataError, ParameterError, SchemaError
from hushtable.files.rows import stored_rows
from hushtable.files.writing import spill_folder
from hushtable.schema import (
    CalendarColumn,
    Categorical,
    Column,
    Duration,
    Identifier,
    Integer,
    Schema,
    Time,
)
from hushtable.schema.file_format import ANOTHER_ENCODING, FileFormat

Data = Any  # a path, a frame, or an ibis table

DELIMITERS = (",", ";", "\t", "|")
SMALL_TEXT = 64_000_000  # bytes
_LONGEST_HEADER = 4_000_000  # characters; a file without line ends must not be read whole
_INT64_LOW, _INT64_HIGH = -(2**63), 2**63 - 1


Family = Literal[
    "text", "number", "boolean", "nothing", "date", "time", "timestamp", "instant", "duration",
    "moment", "bytes", "other",
]  # fmt: skip


@dataclass(frozen=True)
class ColumnType:
    """Stored type of a column, and the family of types that it can be read as."""

    name: str
    family: Family

    def __str__(self) -> str:
        """Return the type without its fields, whose names may come from the data."""
        return re.split(r"\W", self.name.lstrip("!"))[0] if self.family == "other" else self.name


TEXT = ColumnType("string", "text")
UNREAD = ColumnType("unread", "text")  # the type is known once the rows are read

AS_FOUND = FileFormat()
TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".data", ".data.gz")
ENDINGS = (*TEXT_ENDINGS, ".parquet", *WHOLE_FILES, ".zip")


@dataclass(frozen=True)
class Header:
    """Columns of a table in their order, including duplicate names."""

    names: tuple[str, ...]
    kinds: tuple[ColumnType, ...]  # all text in a CSV file
    files: tuple[Path, ...] = ()  # if the table is in files
    delimiter: str | None = None  # of a text file
    arrow: pa.Schema | None = None  # of an Arrow table or Parquet file
    n_rows: int | None = None  # of an Arrow table, or from the metadata of Parquet files

    @property
    def is_small_text(self) -> bool:
        """Whether the data is uncompressed text of less than 64 MB in total."""
        if self.delimiter is None or self.is_compressed:
            return False
        return sum(file.stat().st_size for file in self.files) < SMALL_TEXT

    @property
    def is_compressed(self) -> bool:
        """Whether the text file is gzip-compressed."""
        return self.files[0].suffix.lower() == ".gz"


def read_header(data: Data, layout: FileFormat = AS_FOUND) -> Header:
    """Read column names and types, but no row.

    Examples
    --------
    >>> read_header(pa.table({"age": [41], "sex": ["F"]})).names
    ('age', 'sex')
    """
    header = _header(data, layout)
    return replace(header, names=layout.names(header.names))


def _header(data: Data, layout: FileFormat) -> Header:
    if isinstance(data, WholeFile):
        return Header(data.names, (UNREAD,) * len(data.names))
    if isinstance(data, str | Path):
        return _file_header(data, layout)
    if is_ibis_table(data):
        kind_of = _stored_kind if str(data.get_backend().name) == "sqlite" else _ibis_kind
        return Header(tuple(data.columns), tuple(map(kind_of, data.schema().types)))
    if is_spark_frame(data):
        return _spark_header(data)
    if isinstance(data, pa.Table):
        return _arrow_header(data.schema, data.num_rows)
    raise ParameterError(
        f"data is a {type(data).__name__}; give the path of a file ({', '.join(ENDINGS)}), a URL, "
        "a frame (Arrow, pandas, polars, DuckDB, Spark), or an ibis table."
    )


def is_address(data: Data) -> bool:
    """Return whether data is a URL and not a path."""
    return isinstance(data, str) and "://" in data


def is_ibis_table(data: Data) -> bool:
    """Return whether data is an ibis table, without importing ibis."""
    types = sys.modules.get("ibis.expr.types")
    return types is not None and isinstance(data, types.Table)


def is_spark_frame(data: Data) -> bool:
    """Return whether data is a Spark frame, without importing pyspark."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def is_in_spark(data: Data) -> bool:
    """Return whether data is a Spark frame or an ibis table of a Spark session."""
    if is_ibis_table(data):
        return str(data.get_backend().name) == "pyspark"
    return is_spark_frame(data)


def check_header(header: Header, schema: Schema) -> None:
    """Raise one error that lists all columns that do not fit the schema."""
    if schema.unit.kind == "node":
        raise SchemaError("unit node is for graphs; a table needs unit row or person.")
    problems = _name_problems(header, schema)
    for name, kind in zip(header.names, header.kinds, strict=True):
        column = schema.columns.get(name)
        if name == schema.unit.column and kind.family == "other":
            problems.append(
                f"column {name!r} has type {kind} in the data, which cannot identify persons; "
                "convert it to text or numbers first."
            )
        if column is None or isinstance(column, Identifier):
            continue
        if not _readable(kind, column):
            problems.append(
                f"column {name!r} has type {kind} in the data, which cannot be read as "
                f"{column.type}; convert it first."
            )
        if isinstance(column, Integer) and (column.low < _INT64_LOW or column.high > _INT64_HIGH):
            problems.append(f"column {name!r}: its bounds must fit 64-bit integers.")
    DataError.raise_if_any(problems)


def _readable(kind: ColumnType, column: Column) -> bool:
    if kind.family in ("text", "nothing"):
        return True
    if isinstance(column, CalendarColumn):
        clock = ("time", "timestamp", "instant")
        return kind.family in (clock if isinstance(column, Time) else ("date", *clock[1:]))
    if isinstance(column, Duration) and kind.family == "duration":
        return True
    # The text of a timestamp with time zone depends on the reader's zone.
    texts = ("date", "time", "timestamp", "moment") if type(column) is Categorical else ()
    return kind.family in ("number", "boolean", *texts)


def _name_problems(header: Header, schema: Schema) -> list[str]:
    found = dict.fromkeys(name for name in header.names if name not in schema.derived)
    wanted = dict.fromkeys(schema.columns)
    if not any(name.lower() in {n.lower() for n in wanted} for name in found):
        # A file without a header line would have its first row of data quoted here.
        return [
            "none of the schema's columns is in the data; its first line must name the columns: "
            f"{', '.join(map(repr, wanted))}."
        ]
    problems = [
        f"column {name!r} occurs {header.names.count(name)} times in the data; names must differ. "
        "Set new names by position in the file, such as reading: {rename: {2: new_name}}."
        for name in dict.fromkeys(header.names)
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
                "with role: left out to have it dropped."
            )
    problems += [
        f"column {name!r} is in the schema but not in the data." for name in by_case.values()
    ]
    return problems


def _arrow_header(schema: pa.Schema, n_rows: int) -> Header:
    kinds = tuple(_arrow_kind(field.type) for field in schema)
    return Header(tuple(schema.names), kinds, arrow=schema, n_rows=n_rows)


def _spark_header(frame: Any) -> Header:
    from ibis.backends.pyspark.datatypes import PySparkType  # noqa: PLC0415 - imports pyspark

    fields = list(frame.schema.fields)
    kinds = tuple(
        ColumnType("timestamp", "instant")
        if field.dataType.typeName() == "timestamp"
        else _ibis_kind(PySparkType.to_ibis(field.dataType))
        for field in fields
    )
    return Header(tuple(field.name for field in fields), kinds)


# Families of types, by the names of their tests in `pyarrow.types` and in ibis.
_FAMILIES: dict[str, Family] = {
    "string": "text", "large_string": "text", "string_view": "text", "boolean": "boolean",
    "null": "nothing", "integer": "number", "floating": "number", "decimal": "number",
    "timestamp": "timestamp", "date": "date", "time": "time", "duration": "duration",
    "uuid": "moment", "binary": "bytes", "large_binary": "bytes", "fixed_size_binary": "bytes",
}  # fmt: skip


def _arrow_kind(kind: pa.DataType) -> ColumnType:
    if pa.types.is_dictionary(kind):
        return _arrow_kind(kind.value_type)
    tests = {name: getattr(pa.types, f"is_{name}", None) for name in _FAMILIES}
    found = (name for name, test in tests.items() if test is not None and test(kind))
    return _column_type(kind, found, getattr(kind, "tz", None))


def _ibis_kind(kind: Any) -> ColumnType:
    tests = {name: getattr(kind, f"is_{name}", None) for name in _FAMILIES}
    found = (name for name, test in tests.items() if test is not None and test())
    return _column_type(kind, found, getattr(kind, "timezone", None))


def _column_type(kind: Any, names: Iterator[str], zone: str | None) -> ColumnType:
    """Return a type, given the names of the tests that it passes."""
    family = _FAMILIES.get(next(names, ""), "other")
    if family == "text":
        return TEXT
    return ColumnType(str(kind), "instant" if family == "timestamp" and zone else family)


def _stored_kind(kind: Any) -> ColumnType:
    """Return the type of a SQLite column: text for SQLite's own storage types.

    SQLite stores a type per cell, so these are read as text; other declared types, such as dates,
    are kept.
    """
    stored = kind.is_integer() or kind.is_floating() or kind.is_binary() or kind.is_null()
    return TEXT if stored else _ibis_kind(kind)


def _file_header(data: str | Path, layout: FileFormat) -> Header:
    files = files_of(data)
    if files[0].suffix.lower() == ".parquet":
        return _parquet_header(files)
    headers = [_csv_header(file, layout) for file in files]
    problems = [
        f"file {str(file)!r} does not have the same columns as {str(files[0])!r}."
        for file, header in zip(files, headers, strict=True)
        if (header.names, header.delimiter) != (headers[0].names, headers[0].delimiter)
    ]
    DataError.raise_if_any(problems)
    return replace(headers[0], files=files)


def files_of(data: str | Path) -> tuple[Path, ...]:
    """Return the files of a path, folder or pattern; all must have the same type."""
    path = Path(data)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not _hidden(file, path))
        if not files:
            raise DataError(f"folder {str(path)!r} contains no .parquet file.")
        return tuple(files)
    if not path.exists() and any(mark in path.name for mark in "*?["):
        files = sorted(path.parent.glob(path.name))
        if not files:
            raise DataError(f"no file matches {str(path)!r}.")
        kinds = {_ending(file) for file in files}
        if len(kinds) > 1 or not kinds <= {*TEXT_ENDINGS, ".parquet"}:
            raise DataError(
                f"{str(path)!r} matches files of different or unsupported types; all must be one "
                f"of {', '.join(TEXT_ENDINGS)} or .parquet."
            )
        return tuple(files)
    if not path.exists():
        raise DataError(f"file {str(path)!r} does not exist.")
    if not _ending(path):
        raise DataError(f"file {str(path)!r} has an unsupported type; use {', '.join(ENDINGS)}.")
    return (path,)


def _ending(path: Path) -> str:
    lowered = path.name.lower()
    return max((e for e in ENDINGS if lowered.endswith(e)), key=len, default="")


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _parquet_header(files: Sequence[Path]) -> Header:
    headers, problems = [], []
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                headers.append(_arrow_header(opened.schema_arrow, stored_rows(opened)))
        except OSError as error:
            problems.append(f"cannot read {str(file)!r}: {error.strerror or 'it is truncated'}.")
        except (pa.ArrowException, ValueError):
            size = file.stat().st_size
            what = "is empty" if size == 0 else "is not a Parquet file"
            problems.append(f"file {str(file)!r} {what}.")
    problems += [
        f"file {str(file)!r} does not have the same columns and types as {str(files[0])!r}."
        for file, header in zip(files, headers, strict=False)
        if not problems and (header.names, header.kinds) != (headers[0].names, headers[0].kinds)
    ]
    DataError.raise_if_any(problems)
    n_rows = sum(header.n_rows or 0 for header in headers)
    return replace(headers[0], files=tuple(files), n_rows=n_rows)


@contextmanager
def plain_bytes(file: Path, label: str = "") -> Iterator[Any]:
    """Open a file and decompress it if it is a ``.gz``; error messages start with `label`."""
    try:
        with (gzip.open if file.suffix.lower() == ".gz" else open)(file, "rb") as raw:
            yield raw
    except gzip.BadGzipFile:
        raise DataError(f"{label}file {str(file)!r} is not gzip-compressed.") from None
    except (EOFError, zlib.error):
        raise DataError(f"{label}file {str(file)!r} is truncated or damaged.") from None
    except OSError as error:
        raise DataError(f"{label}cannot read {str(file)!r}: {error.strerror}.") from None


def detected_encoding(file: Path) -> str:
    """Return the likely encoding of a text file: UTF-8 if all of it is, else a common other one."""
    for encoding in ("utf-8", "utf-16", "cp1252"):
        decoder = codecs.getincrementaldecoder(encoding)()
        with plain_bytes(file) as raw, contextlib.suppress(UnicodeError):
            if encoding == "utf-16" and raw.read(2) not in (
                codecs.BOM_UTF16_LE,
                codecs.BOM_UTF16_BE,
            ):
                continue
            raw.seek(0)
            while block := raw.read(1 << 20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return encoding
    return "latin-1"


def unpacked(file: Path) -> Path:
    """Return the only table of a zip archive, in a private folder that is deleted at the end."""
    try:
        with zipfile.ZipFile(file) as archive:
            inside = [
                name
                for name in archive.namelist()
                if _ending(Path(name)) and not name.startswith("__MACOSX/")
            ]
            if len(inside) != 1:
                raise DataError(
                    f"{str(file)!r} contains {len(inside)} tables; it must contain one. Extract it "
                    "and give the path of one file."
                )
            place = Path(spill_folder()) / Path(inside[0]).name
            with archive.open(inside[0]) as packed, place.open("wb") as out:
                shutil.copyfileobj(packed, out)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError):
        raise DataError(f"{str(file)!r} is damaged, encrypted, or not a zip archive.") from None
    return place


def _csv_header(file: Path, layout: FileFormat) -> Header:
    with plain_bytes(file) as raw:
        line = _first_record(raw)
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"file {str(file)!r} is not UTF-8 text; {ANOTHER_ENCODING}") from None
    if not text.strip():
        raise DataError(f"file {str(file)!r} is empty.")
    if "\x00" in text or text.startswith("PAR1"):
        raise DataError(f"file {str(file)!r} is not a CSV file.")
    marks = DELIMITERS if layout.delimiter is None else (layout.delimiter,)
    try:
        splits = [(next(csv.reader(io.StringIO(text), delimiter=m)), m) for m in marks]
    except csv.Error:
        raise DataError(
            f"the first line of {str(file)!r} is not a list of column names: it is too long, or "
            "its quotes do not match."
        ) from None
    names, delimiter = max(splits, key=lambda split: len(split[0]))  # the comma wins ties
    return Header(tuple(names), (TEXT,) * len(names), (file,), delimiter)


def _first_record(raw: Any) -> bytes:
    """Read up to the first line end outside quotes."""
    record = bytearray()
    while len(record) < _LONGEST_HEADER:
        line = raw.readline(_LONGEST_HEADER)
        record += line
        if not line or record.count(b'"') % 2 == 0:
            break
    return bytes(record)
