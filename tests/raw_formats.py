"""Ways to give an Arrow table to `hushtable.engine.open`: files, frames and databases.

A *writer* writes a table, with options drawn at random, and returns the data to open together with
the cells that these data contain, column by column, as the reference encoder reads them. They may
differ from the table's: a CSV file contains texts. `Format.kinds` lists the types that a format can
represent, for every value that `fits` accepts. No library writes the SAS format sas7bdat; SAS is
tested with transport files.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import gzip
import json
import math
import random
import re
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from hushtable.engine.reference_encoder import Temporal, plain, text_of
from hushtable.schema.file_format import DATE_ORDERS
from raw_values import KINDS, is_bytes, is_text

Cells = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class Written:
    """Data to open, and the cells that they contain."""

    data: Any
    cells: Cells
    reading: Mapping[str, str] = dataclasses.field(default_factory=dict)  # settings of the schema


Writer = Callable[[pa.Table, Path, random.Random], Written]


@dataclass(frozen=True)
class Format:
    """A way to store a table."""

    write: Writer
    families: tuple[str, ...]
    fits: Callable[[Any, pa.DataType], bool] = lambda cell, kind: True
    engines: tuple[str, ...] = ("memory", "duckdb")
    has: Callable[[pa.DataType], bool] = lambda kind: True
    has_bytes: bool = False  # which may identify persons

    def kinds(self, *, person: bool = False) -> dict[str, list[pa.DataType]]:
        """Return the types that the format supports, by family."""
        families = (*self.families, *(["bytes"] if person and self.has_bytes else []))
        return {name: [kind for kind in KINDS[name] if self.has(kind)] for name in families}


def cells_of(table: pa.Table) -> Cells:
    return {name: list(table[name]) for name in table.column_names}


def texts_of(table: pa.Table, *, missing: str | None = None) -> dict[str, list[str | None]]:
    """Write each cell as the text that the reference encoder compares."""

    def written(cell: Any) -> str | None:
        text = text_of(cell)
        return missing if text is None else text

    return {name: [written(cell) for cell in table[name]] for name in table.column_names}


def _path(folder: Path, ending: str) -> Path:
    return folder / f"{uuid.uuid4().hex}{ending}"


# --- Arrow ----------------------------------------------------------------------------------------


def arrow(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Cut the table into chunks, which begin inside larger buffers."""
    n_rows = table.num_rows
    cuts = sorted(draw.sample(range(n_rows + 1), min(n_rows, draw.randrange(3))))
    ends = zip([0, *cuts], [*cuts, n_rows], strict=True)
    parts = pa.concat_tables([table.slice(start, stop - start) for start, stop in ends])
    return Written(parts, cells_of(table))


def feather(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    path = _path(folder, draw.choice([".feather", ".arrow"]))
    options = pa.ipc.IpcWriteOptions(compression=draw.choice([None, "lz4", "zstd"]))
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=draw.randint(1, table.num_rows))
    return Written(path, cells_of(table))


def parquet(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Write Parquet files with any of the writer's options; several files are a folder."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # Parquet has no dictionaries with empty entries
            values = pa.array([plain_scalar(cell) for cell in table[place]], field.type.value_type)
            table = table.set_column(place, field.name, values)
    names = table.column_names
    times = [field.type for field in table.schema if pa.types.is_timestamp(field.type)]
    options: dict[str, Any] = {
        "row_group_size": draw.randint(1, table.num_rows),
        "use_dictionary": draw.choice([True, False]),
        "write_statistics": draw.choice([True, True, False]),
        "write_page_index": draw.choice([True, False]),
        "data_page_version": draw.choice(["1.0", "2.0"]),
        "compression": draw.choice(["none", "snappy", "gzip", "brotli", "lz4", "zstd"]),
        "store_decimal_as_integer": draw.choice([True, False]),
        "store_schema": draw.choice([True, True, False]),
        "data_page_size": draw.choice([None, 1]),
        "write_batch_size": draw.choice([None, 1]),
    }
    if times and all(kind.unit == "ns" for kind in times):
        options["use_deprecated_int96_timestamps"] = draw.choice([True, False])
    hashed = [
        name
        for name in names
        if not (pa.types.is_boolean(table.schema.field(name).type)
                or pa.types.is_null(table.schema.field(name).type))
    ]  # fmt: skip
    if draw.random() < 0.5:
        options["bloom_filter_options"] = {name: {"ndv": 8, "fpp": 0.1} for name in hashed}
    path = _path(folder, draw.choice(["", ".parquet"]))
    cut = draw.randint(0, table.num_rows)
    if path.suffix:
        pq.write_table(table, path, **options)
        files = [path]
    else:
        path.mkdir()
        files = [path / "a.parquet", path / "b.parquet"]
        for file, part in zip(files, (table.slice(0, cut), table.slice(cut)), strict=True):
            pq.write_table(part, file, **{**options, "row_group_size": max(1, part.num_rows)})
    read = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    return Written(path, cells_of(read))


def parquet_of_others(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Write a Parquet file with DuckDB or polars, whose pages and statistics differ."""
    path = _path(folder, ".parquet")
    if draw.random() < 0.5:
        pl.DataFrame(table).write_parquet(
            path,
            compression=draw.choice(["uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd"]),
            statistics=draw.choice([True, False, "full"]),
            row_group_size=draw.randint(1, table.num_rows),
        )
    else:
        with duckdb.connect() as connection:
            name = in_duckdb(connection, table)
            codec = draw.choice(["uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd"])
            version = draw.choice(["V1", "V2"])
            connection.execute(
                f"COPY {name} TO '{path}' (FORMAT parquet, COMPRESSION {codec}, "
                f"PARQUET_VERSION {version}, ROW_GROUP_SIZE {draw.randint(1, table.num_rows)})"
            )
    return Written(path, cells_of(pq.ParquetFile(path).read()))


def plain_scalar(cell: Any) -> Any:
    """Return a scalar of a dictionary or run without its encoding."""
    while cell.is_valid and hasattr(cell, "value") and isinstance(cell.value, pa.Scalar):
        cell = cell.value
    return cell if cell.is_valid else None


# --- texts ----------------------------------------------------------------------------------------


def csv_file(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    delimiter = draw.choice([",", ";", "\t"])
    ending = ".tsv" if delimiter == "\t" else ".csv"
    path = _path(folder, ending + draw.choice(["", "", ".gz"]))
    reading = {
        "decimal": draw.choice([".", ".", ","]),
        "thousands": draw.choice(["", "", ".", ",", "'", " "]),
        "dates": draw.choice(["iso", "iso", *DATE_ORDERS]),
    }
    if reading["thousands"] == reading["decimal"]:
        reading["thousands"] = ""
    mark = draw.choice("./- ")
    texts = {
        name: column
        if is_text(table.schema.field(name).type)
        else [_spelled(text or "", reading, mark) for text in column]
        for name, column in texts_of(table, missing="").items()
    }
    opener: Any = gzip.open if path.suffix == ".gz" else open
    encoding = draw.choice(["utf-8", "utf-8-sig"])
    with opener(path, "wt", encoding=encoding, newline="") as file:
        writer = csv.writer(
            file,
            delimiter=delimiter,
            quoting=draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
            lineterminator=draw.choice(["\n", "\r\n"]),
        )
        writer.writerow(texts)
        writer.writerows(zip(*texts.values(), strict=True))
    return Written(path, texts, reading)


def _spelled(text: str, reading: Mapping[str, str], mark: str) -> str:
    """Write a number with other marks, or a date with its parts in another order."""
    if found := re.fullmatch(r"([+-]?)([0-9]+)(\.[0-9]+)?", text):
        sign, whole, fraction = found[1], found[2], found[3] or ""
        grouped = re.sub(r"(?<=[0-9])(?=([0-9]{3})+$)", reading["thousands"], whole)
        return sign + grouped + fraction.replace(".", reading["decimal"])
    found = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})([T ].*)?", text)
    if found is None or reading["dates"] == "iso":
        return text
    parts = dict(zip(("year", "month", "day"), found.groups(), strict=False))
    return mark.join(parts[name] for name in reading["dates"].split("-")) + (found[4] or "")


def _in_csv(cell: Any, kind: pa.DataType) -> bool:
    # Outside quotes, a line feed or NUL ends a field, and a byte order mark is interpreted.
    return not (isinstance(cell, str) and re.search("[\0\r\n\ufeff]", cell))


def json_lines(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    path = _path(folder, draw.choice([".jsonl", ".ndjson"]))
    columns = {name: [_as_json(cell) for cell in table[name]] for name in table.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ascii_only = draw.choice([True, False])
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return Written(path, {name: [text_of(c) for c in cells] for name, cells in columns.items()})


def _as_json(cell: Any) -> Any:
    value = plain(cell)
    return text_of(value) if isinstance(value, Temporal | Decimal | bytes) else value


# --- workbooks, Stata, SPSS, SAS ------------------------------------------------------------------

_FIRST_IN_EXCEL = datetime.datetime(1900, 3, 1)


def workbook(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    path = _path(folder, ".xlsx")
    columns = {name: [_in_excel(cell) for cell in table[name]] for name in table.column_names}
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append(row)
    book.save(path)
    return Written(path, {name: [text_of(c) for c in cells] for name, cells in columns.items()})


def _in_excel(cell: Any) -> Any:
    value = plain(cell)
    if not isinstance(value, Temporal):
        return text_of(value) if isinstance(value, Decimal) else value
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.nanoseconds // 10**9)


def _fits_excel(cell: Any, kind: pa.DataType) -> bool:
    if isinstance(cell, str):
        # An empty text is an empty cell, a formula is computed, an error value is missing.
        return bool(cell) and not ILLEGAL_CHARACTERS_RE.search(cell) and cell[0] not in "=#" and (
            not re.search("[\r\n\ud800-\udfff\ufffe\uffff]|_x[0-9A-Fa-f]{4}_", cell)
        )  # fmt: skip
    if isinstance(cell, float):
        return math.isfinite(cell) and (cell != 0 or math.copysign(1, cell) > 0)
    if isinstance(cell, Temporal):
        first = (_FIRST_IN_EXCEL - datetime.datetime(1970, 1, 1)).total_seconds() * 1e9
        return cell.nanoseconds % 10**9 == 0 and first < cell.nanoseconds < 4e18
    return True


def statistical(ending: str, writer: Any) -> Writer:
    """Write a file of Stata, SPSS or SAS."""

    def write(table: pa.Table, folder: Path, draw: random.Random) -> Written:
        path = _path(folder, ending)
        columns = {name: [plain(cell) for cell in table[name]] for name in table.column_names}
        frame = pd.DataFrame(
            {name: pd.Series(cells, dtype=_pandas_type(table.schema.field(name).type, cells))
             for name, cells in columns.items()}
        )  # fmt: skip
        writer(frame, path)
        texts = [name for name in columns if is_text(table.schema.field(name).type)]
        # These programs have empty texts instead of missing ones.
        empty = {name: ["" if text is None else text for text in columns[name]] for name in texts}
        return Written(path, {**columns, **empty})

    return write


def _pandas_type(kind: pa.DataType, cells: Sequence[Any]) -> str:
    if is_text(kind):
        return "object"
    return "float64" if pa.types.is_floating(kind) or None in cells else "int32"


def _fits_statistics(cell: Any, kind: pa.DataType) -> bool:
    """Return whether Stata, SPSS and SAS can store a value: no infinity, no trailing spaces."""
    if isinstance(cell, str):
        return bool(re.fullmatch("[!-~]([ -~]*[!-~])?", cell)) and len(cell) < 200
    if isinstance(cell, float):
        return cell == 0 or 1e-30 < abs(cell) < 1e30
    return not isinstance(cell, int) or abs(cell) < 2**30


# --- databases ------------------------------------------------------------------------------------


_AFFINITIES = ("", "INTEGER", "REAL", "TEXT", "TEXT COLLATE NOCASE", "BLOB")


def sqlite(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Write a table whose columns have any declared type; SQLite stores a type for each cell."""
    path = _path(folder, ".db")
    columns = {name: [_in_sqlite(cell) for cell in table[name]] for name in table.column_names}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        declared = ", ".join(f"{name} {draw.choice(_AFFINITIES)}" for name in columns)
        connection.execute(f"CREATE TABLE t ({declared})")
        marks = ", ".join("?" * len(columns))
        rows = list(zip(*columns.values(), strict=True))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # noqa: S608
        connection.commit()
        stored = connection.execute("SELECT * FROM t ORDER BY rowid").fetchall()
    cells = {
        name: [text_of(cell) for cell in column]
        for name, column in zip(columns, zip(*stored, strict=True), strict=True)
    }
    return Written(f"sqlite:///{path}?table=t", cells)


def _in_sqlite(cell: Any) -> Any:
    value = _as_json(cell)
    if isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, float) else value


def _fits_sqlite(cell: Any, kind: pa.DataType) -> bool:
    return not isinstance(cell, int) or -(2**63) <= cell < 2**63


def in_duckdb(connection: Any, table: pa.Table) -> str:
    """Copy a table into a DuckDB database, with some integers as HUGEINT."""
    name = f"t{uuid.uuid4().hex}"
    connection.register("given", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608
    connection.unregister("given")
    return name


def _with_huge_numbers(connection: Any, name: str, table: pa.Table, draw: random.Random) -> None:
    for field in table.schema:
        if pa.types.is_integer(field.type) and draw.random() < 0.3:
            connection.execute(f"ALTER TABLE {name} ALTER {field.name} TYPE HUGEINT")


def duckdb_relation(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{draw.choice(['UTC', 'America/New_York'])}'")
    name = in_duckdb(connection, table)
    _with_huge_numbers(connection, name, table, draw)
    return Written(connection.table(name), cells_of(table))


def duckdb_table(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    connection = ibis.duckdb.connect()
    connection.raw_sql(f"SET TimeZone = '{draw.choice(['UTC', 'Asia/Kathmandu'])}'")
    name = in_duckdb(connection.con, table)
    _with_huge_numbers(connection.con, name, table, draw)
    return Written(connection.table(name), cells_of(table))


def postgres(server: Any) -> Writer:
    """Write into a PostgreSQL server, whose session may have any time zone."""

    def write(table: pa.Table, folder: Path, draw: random.Random) -> Written:
        name = f"t{uuid.uuid4().hex}"
        kinds = {field.name: _postgres_type(field.type, draw) for field in table.schema}
        columns = {c: [_in_postgres(cell, kinds[c]) for cell in table[c]] for c in kinds}
        with server.con.cursor() as cursor:
            zone = draw.choice(["UTC", "America/New_York", "Asia/Kathmandu"])
            cursor.execute(f"SET TIME ZONE '{zone}'")
            declared = ", ".join(f"{c} {kind}" for c, kind in kinds.items())
            cursor.execute(f"CREATE TABLE {name} ({declared})")
            with cursor.copy(f"COPY {name} FROM STDIN") as rows:
                for row in zip(*columns.values(), strict=True):
                    rows.write_row(row)
        server.con.commit()
        cells = {
            c: [_postgres_cell(cell, kinds[c]) for cell in table[c]] for c in table.column_names
        }
        return Written(server.table(name), cells)

    return write


def _postgres_type(kind: pa.DataType, draw: random.Random) -> str:  # noqa: PLR0911 - each type
    of = pa.types
    if of.is_decimal(kind):
        return draw.choice([f"numeric({kind.precision}, {kind.scale})", "numeric"])
    if of.is_boolean(kind):
        return "boolean"
    if of.is_integer(kind):
        bits = kind.bit_width + of.is_unsigned_integer(kind)
        return next((t for n, t in _POSTGRES_WHOLE.items() if bits <= n), "numeric(20, 0)")
    if of.is_floating(kind):
        return "float8" if kind == pa.float64() else "real"
    if of.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if of.is_date(kind) or of.is_time(kind):
        return "date" if of.is_date(kind) else "time"
    return "bytea" if kind == pa.binary() else draw.choice(["text", "text COLLATE alike"])


_POSTGRES_WHOLE = {16: "smallint", 32: "integer", 64: "bigint"}


def _in_postgres(cell: Any, kind: str) -> Any:
    value = plain(cell)
    if isinstance(value, float):
        return repr(float(value)).replace("inf", "Infinity")
    if isinstance(value, Temporal | Decimal) or kind.startswith("numeric"):
        return text_of(value)
    return value


def _postgres_cell(cell: Any, kind: str) -> Any:
    value = plain(cell)
    if value is None or not kind.startswith("numeric"):
        return value
    if kind == "numeric" or int(re.findall("[0-9]+", kind)[0]) > 38:  # fetched as text
        text = f"{Decimal(value):f}"
        return re.sub(r"\.?0+$", "", text) if "." in text else text
    return Decimal(value)


def in_postgres(server: Any) -> Format:
    """Return the format of tables in a server that has the collation ``alike``."""
    return Format(
        postgres(server), ("whole", "float", "decimal", *_TEMPORAL[:4], "text"), _fits_postgres,
        has=_is_in_postgres, has_bytes=True,
    )  # fmt: skip


def _is_in_postgres(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return kind.scale >= 0
    if is_bytes(kind):
        return kind == pa.binary()
    return kind != pa.float16() and getattr(kind, "unit", "us") != "ns"


def _fits_postgres(cell: Any, kind: pa.DataType) -> bool:
    if isinstance(cell, str):
        return "\0" not in cell
    if isinstance(cell, Temporal) and cell.kind != "time":  # Python has no years beyond these
        return abs(cell.nanoseconds) < 6 * 10**19 and cell.nanoseconds < 2.5 * 10**20
    return True


# --- frames ---------------------------------------------------------------------------------------


def pandas_frame(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Make a frame of NumPy arrays or nullable types; the expected cells are those in the frame."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # pandas has no category twice
            values = [plain(cell) for cell in table[place]]
            again = pa.array(values, field.type.value_type).dictionary_encode()
            table = table.set_column(place, field.name, again)
    frame = table.to_pandas()
    if draw.random() < 0.3:
        frame = frame.convert_dtypes()
    cells: Cells = cells_of(pa.table(frame))
    decimals = [f.name for f in table.schema if pa.types.is_decimal(f.type)]
    texts = texts_of(table.select(decimals)) if decimals else {}
    return Written(frame, {**cells, **texts})


def arrow_in_pandas(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    return Written(table.to_pandas(types_mapper=pd.ArrowDtype), cells_of(table))


def polars_frame(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    data = frame.lazy() if draw.random() < 0.3 else frame
    return Written(data, cells_of(pa.table(frame)))


_TEMPORAL = ("date", "time", "timestamp", "instant", "duration")
_ALL = ("whole", "float", "decimal", *_TEMPORAL, "text", "nothing", "encoded")


def _is_in_duckdb(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return pa.types.is_decimal128(kind) and kind.scale >= 0
    if pa.types.is_timestamp(kind) and kind.tz:
        return kind.unit != "ns"
    return kind not in (pa.float16(), pa.string_view())


def _is_in_ibis(kind: pa.DataType) -> bool:
    return _is_in_duckdb(kind) and kind != pa.time64("ns")  # which it does not know: refused


def _is_in_polars(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return pa.types.is_decimal128(kind) and kind.scale >= 0
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return kind != pa.float16()


def _is_in_both(kind: pa.DataType) -> bool:
    # Polars refuses durations and times in seconds, and offsets such as +05:30.
    return _is_in_duckdb(kind) and _is_in_polars(kind) and getattr(kind, "tz", None) != "+05:30"


def _is_in_pandas(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return kind.value_type in (pa.string(), pa.large_string(), pa.int64())
    # Times are Python objects, in microseconds.
    return kind not in (pa.string_view(), pa.time64("ns")) and getattr(kind, "scale", 0) >= 0


def _is_statistical(kind: pa.DataType) -> bool:
    return kind not in (pa.float16(), pa.float32())


def _not_negative(kind: pa.DataType) -> bool:
    return bool(getattr(kind, "scale", 0) >= 0)


FORMATS = {
    "arrow": Format(arrow, _ALL, has_bytes=True),
    "feather": Format(feather, _ALL, has_bytes=True),
    "parquet": Format(parquet, _ALL, has=_not_negative, has_bytes=True),
    "parquet of others": Format(
        parquet_of_others, ("whole", "float", "decimal", "date", "timestamp", "instant", "text"),
        has=_is_in_both,
    ),
    "csv": Format(csv_file, _ALL, _in_csv),
    "json": Format(json_lines, _ALL),
    "xlsx": Format(
        workbook, ("whole", "float", "decimal", "date", "timestamp", "text"), _fits_excel
    ),
    "stata": Format(
        statistical(".dta", pyreadstat.write_dta), ("float", "text"), _fits_statistics,
        has=_is_statistical,
    ),
    "spss": Format(
        statistical(".sav", pyreadstat.write_sav), ("float", "text"), _fits_statistics,
        has=_is_statistical,
    ),
    "sas": Format(
        statistical(".xpt", pyreadstat.write_xport), ("float", "text"), _fits_statistics,
        has=_is_statistical,
    ),
    "sqlite": Format(sqlite, _ALL, _fits_sqlite),
    "duckdb relation": Format(
        duckdb_relation, ("whole", "float", "decimal", *_TEMPORAL[:4], "text"), has=_is_in_duckdb
    ),
    "duckdb table": Format(
        duckdb_table, ("whole", "float", "decimal", *_TEMPORAL[:4], "text"), has=_is_in_ibis
    ),
    "pandas": Format(
        pandas_frame, ("whole", "float", "decimal", *_TEMPORAL, "text", "encoded"),
        has=_is_in_pandas,
    ),
    "arrow in pandas": Format(arrow_in_pandas, _ALL, has_bytes=True),
    "polars": Format(
        polars_frame, ("whole", "float", "decimal", *_TEMPORAL, "text", "nothing", "encoded"),
        has=_is_in_polars,
    ),
}  # fmt: skip
