"""Ways to give an Arrow table to `hushtable.engine.open`: files, frames and databases.

A *writer* writes a table, with options drawn at random, and returns the data to open together with
the cells that these data contain, column by column, as the reference encoder reads them. They may
differ from the table's: a CSV file contains texts. `Format.accepts` lists the types of which a
format can represent every value that `fits` leaves.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import math
import random
import re
import sqlite3
import uuid
from collections.abc import Callable, Sequence
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
from raw_values import KINDS, is_text

Cells = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class Written:
    """Data to open, and the cells that they contain."""

    data: Any
    cells: Cells


Writer = Callable[[pa.Table, Path, random.Random], Written]


@dataclass(frozen=True)
class Format:
    """A way to store a table."""

    write: Writer
    families: tuple[str, ...]
    fits: Callable[[Any, pa.DataType], bool] = lambda cell, kind: True
    engines: tuple[str, ...] = ("memory", "duckdb")
    excluded: tuple[pa.DataType, ...] = ()

    def kinds(self, families: Sequence[str] | None = None) -> list[pa.DataType]:
        """List the types that the format has."""
        chosen = [name for name in self.families if families is None or name in families]
        return [kind for name in chosen for kind in KINDS[name] if kind not in self.excluded]


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
    options = pa.ipc.IpcWriteOptions(
        compression=draw.choice([None, "lz4", "zstd"]), unify_dictionaries=True
    )
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
    texts = texts_of(table, missing="")
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
    return Written(path, texts)


def _in_csv(cell: Any, kind: pa.DataType) -> bool:
    # A line feed or NUL outside quotes ends a field, and a mark of byte order is read as such.
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
        # An empty text is an empty cell, a formula is computed, an error value is none.
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
        # These programs have no missing texts, but empty ones.
        empty = {name: ["" if text is None else text for text in columns[name]] for name in texts}
        return Written(path, {**columns, **empty})

    return write


def _pandas_type(kind: pa.DataType, cells: Sequence[Any]) -> str:
    if is_text(kind):
        return "object"
    return "float64" if pa.types.is_floating(kind) or None in cells else "int32"


def _fits_statistics(cell: Any, kind: pa.DataType) -> bool:
    """Return whether Stata, SPSS and SAS have the value: no infinity, no spaces at the end."""
    if isinstance(cell, str):
        return bool(re.fullmatch("[!-~]([ -~]*[!-~])?", cell)) and len(cell) < 200
    if isinstance(cell, float):
        return cell == 0 or 1e-30 < abs(cell) < 1e30
    return not isinstance(cell, int) or abs(cell) < 2**30


# --- databases ------------------------------------------------------------------------------------


def sqlite(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Write a table whose columns have no types, or the types of what they contain."""
    path = _path(folder, ".db")
    columns = {name: [_in_sqlite(cell) for cell in table[name]] for name in table.column_names}
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        rows = list(zip(*columns.values(), strict=True))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # noqa: S608
    connection.close()
    return Written(
        f"sqlite:///{path}?table=t",
        {name: [text_of(c) for c in cells] for name, cells in columns.items()},
    )


def _in_sqlite(cell: Any) -> Any:
    value = _as_json(cell)
    if isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, float) else value


def _fits_sqlite(cell: Any, kind: pa.DataType) -> bool:
    return not isinstance(cell, int) or -(2**63) <= cell < 2**63


def in_duckdb(connection: Any, table: pa.Table) -> str:
    """Copy a table into a DuckDB; whole numbers as HUGEINT, too."""
    name = f"t{uuid.uuid4().hex}"
    connection.register("given", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608
    connection.unregister("given")
    return name


def duckdb_relation(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{draw.choice(['UTC', 'America/New_York'])}'")
    return Written(connection.table(in_duckdb(connection, table)), cells_of(table))


def duckdb_table(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    connection = ibis.duckdb.connect()
    connection.raw_sql(f"SET TimeZone = '{draw.choice(['UTC', 'Asia/Kathmandu'])}'")
    name = in_duckdb(connection.con, table)
    for column, field in zip(table.column_names, table.schema, strict=True):
        if pa.types.is_integer(field.type) and draw.random() < 0.3:
            connection.raw_sql(f"ALTER TABLE {name} ALTER {column} TYPE HUGEINT")
    return Written(connection.table(name), cells_of(table))


# --- frames ---------------------------------------------------------------------------------------


def pandas_frame(table: pa.Table, folder: Path, draw: random.Random) -> Written:
    """Make a frame of NumPy arrays, whose cells are those that pandas then has."""
    frame = table.to_pandas()
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
_NEGATIVE = pa.decimal128(5, -2)
_SMALL_DECIMALS = (pa.decimal32(5, 2), pa.decimal64(18, 4))
_LONG_DECIMALS = tuple(kind for kind in KINDS["decimal"] if pa.types.is_decimal256(kind))
_NANO_ZONES = tuple(kind for kind in KINDS["instant"] if kind.unit == "ns")

FORMATS = {
    "arrow": Format(arrow, _ALL),
    "feather": Format(feather, _ALL),
    "parquet": Format(parquet, _ALL, excluded=(_NEGATIVE,)),
    "csv": Format(csv_file, _ALL, _in_csv),
    "json": Format(json_lines, _ALL),
    "xlsx": Format(
        workbook, ("whole", "float", "decimal", "date", "timestamp", "text"), _fits_excel
    ),
    "stata": Format(
        statistical(".dta", pyreadstat.write_dta), ("float", "text"), _fits_statistics,
        excluded=(pa.float16(), pa.float32()),
    ),
    "spss": Format(
        statistical(".sav", pyreadstat.write_sav), ("float", "text"), _fits_statistics,
        excluded=(pa.float16(), pa.float32()),
    ),
    "sas": Format(
        statistical(".xpt", pyreadstat.write_xport), ("float", "text"), _fits_statistics,
        excluded=(pa.float16(), pa.float32()),
    ),
    "sqlite": Format(sqlite, _ALL, _fits_sqlite),
    "duckdb relation": Format(
        duckdb_relation, ("whole", "float", "decimal", *_TEMPORAL[:4], "text"),
        excluded=(
            pa.float16(), pa.string_view(), _NEGATIVE, *_SMALL_DECIMALS, *_LONG_DECIMALS,
            *_NANO_ZONES,
        ),
    ),
    "duckdb table": Format(
        duckdb_table, ("whole", "float", "decimal", *_TEMPORAL[:4], "text"),
        excluded=(
            pa.float16(), pa.string_view(), _NEGATIVE, *_SMALL_DECIMALS, *_LONG_DECIMALS,
            *_NANO_ZONES,
        ),
    ),
    "pandas": Format(
        pandas_frame, ("whole", "float", "decimal", "timestamp", "instant", "text"),
        excluded=(pa.string_view(), _NEGATIVE, *_LONG_DECIMALS),
    ),
    "arrow in pandas": Format(arrow_in_pandas, _ALL),
    "polars": Format(
        polars_frame, ("whole", "float", *_TEMPORAL, "text"), excluded=(pa.float16(),)
    ),
}  # fmt: skip
