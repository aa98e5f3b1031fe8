"""A Parquet file with every type: reading and publishing."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import hushtable as ht
from hushtable.engine import connect
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from hushtable.schema.codes import to_codes, to_values
from seeds import shifted

SCHEMA = Schema.parse("""
name: all types
columns:
  text: {type: categorical, values: [a, b], missing: category}
  level: {type: categorical, values: [low, high], ordered: true, missing: category}
  flag: {type: boolean, missing: category}
  whole: {type: integer, low: 0, high: 9, special: {-9: refused}, missing: category}
  real: {type: number, low: 0, high: 2, step: 0.25, special: {-1: unknown}, missing: category}
  money: {type: decimal, low: 0, high: 1, step: 0.05, missing: category}
  born: {type: date, low: 1980-01-01, high: 1981-12-31, step: quarter, missing: category}
  day: {type: date, low: 2024-02-26, high: 2024-03-03, special: {9999-12-31: open},
        missing: category}
  week: {type: date, low: 2024-02-26, high: 2024-03-31, step: week, missing: category}
  seen: {type: timestamp, low: 2024-02-28 22:00:00, high: 2024-02-29 03:00:00, step: hour,
         missing: category}
  clock: {type: time, low: "08:00", high: "11:59", step: hour, missing: category}
  stay: {type: duration, low: 0, high: 5, step: day, missing: category}
""")  # fmt: skip


def every_code(column: object, n_rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(n_rows) % column.size  # type: ignore[attr-defined, no-any-return]


N = 60


def published() -> pa.Table:
    """Return rows in which each column has each of its codes."""
    return pa.table(
        {
            name: to_values(column, every_code(column, N))
            for name, column in SCHEMA.attributes.items()
        }
    )


@pytest.mark.parametrize("file", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_what_is_written_is_read_as_the_same_codes(file: str, engine: str, tmp_path: Path) -> None:
    rows, path = published(), tmp_path / f"rows.{file}"
    if file == "csv":
        pa_csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path)
    private = connect(path, SCHEMA, engine=engine)  # type: ignore[arg-type]
    counted = private.histograms(list(SCHEMA.attributes))
    for name, column in SCHEMA.attributes.items():
        codes = every_code(column, N)
        assert to_codes(column, rows[name]).tolist() == codes.tolist(), name
        assert counted[name].tolist() == np.bincount(codes, minlength=column.size).tolist(), name


def test_schema_survives_yaml_and_json() -> None:
    assert Schema.parse(SCHEMA.to_yaml()) == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA


@pytest.mark.filterwarnings("ignore:this release is not private")
def test_raw_types_are_published_and_asked(tmp_path: Path) -> None:
    first = datetime.datetime(2024, 2, 28, 22)
    raw = pa.table(
        {
            "text": ["a", "b"] * 300,
            "level": pa.array(["low", "high"] * 300).dictionary_encode(),
            "flag": pa.array([True, None] * 300),
            "whole": pa.array([3, -9] * 300, pa.int16()),
            "real": pa.array([0.5, -1.0] * 300, pa.float32()),
            "money": pa.array([Decimal("0.35"), Decimal("0.10")] * 300),
            "born": pa.array([datetime.date(1980, 5, 17), None] * 300),
            "day": pa.array([datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)] * 300),
            "week": pa.array([datetime.date(2024, 3, 3), datetime.date(2024, 3, 4)] * 300),
            "seen": pa.array([first, first + datetime.timedelta(hours=3)] * 300),
            "clock": pa.array([datetime.time(9, 30), datetime.time(11, 0)] * 300),
            "stay": pa.array([datetime.timedelta(days=2, hours=5), None] * 300),
        }
    )
    pq.write_table(raw, tmp_path / "raw.parquet")
    release = ht.publish(
        tmp_path / "raw.parquet", SCHEMA, ht.Quilt(epsilon=8, delta="1e-6", particles=5_000),
        out=tmp_path / "out", noise=SeededNoise(shifted(4)),
    )  # fmt: skip
    for where in (
        "flag", "whole = 'refused'", "real = 'unknown'", "money = 0.35", "quarter(born) = 2",
        "day = '2024-02-29'", "week = '2024-02-26'", "hour(seen) = 22", "clock >= '11:00'",
        "stay = 2", "level < 'high'", "day = 'open'",
    ):  # fmt: skip
        assert release.count(where).value == pytest.approx(300, abs=60), where
    kinds = {field.name: field.type for field in release.frame().schema}
    assert kinds["flag"] == pa.bool_()
    assert kinds["born"] == pa.date32()
    assert pa.types.is_decimal(kinds["money"])
    assert pa.types.is_timestamp(kinds["seen"])
    assert pa.types.is_time(kinds["clock"])
