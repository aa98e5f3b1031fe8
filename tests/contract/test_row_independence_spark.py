"""Rows read by Spark: codes and persons of the reference encoder, in any time zone."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.test_row_independence import (
    SECONDS_RULES,
    Check,
    check_codes,
    check_linked,
    check_many,
    check_persons,
)
from hushtable.engine.spark import spark_source
from hushtable.errors import InternalError
from raw_formats import Format, Written, cells_of
from raw_values import ROW, RawTable, array_of
from spark_session import start

pytestmark = pytest.mark.xdist_group("spark")

ZONE = "spark.sql.session.timeZone"
ZONES = ("America/New_York", "Asia/Kathmandu", "UTC")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start(tmp_path_factory.mktemp("spark"))


@pytest.fixture(params=ZONES)
def zone(session: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """Set the zone of the session, of Java and of this process."""
    zones = session._jvm.java.util.TimeZone
    before, machine, ours = session.conf.get(ZONE), zones.getDefault(), os.environ.get("TZ")
    session.conf.set(ZONE, request.param)
    zones.setDefault(zones.getTimeZone(request.param))
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    session.conf.set(ZONE, before)
    zones.setDefault(machine)
    os.environ.pop("TZ")
    if ours is not None:
        os.environ["TZ"] = ours
    time.tzset()


def in_spark(session: Any) -> Format:
    """Return Parquet files that Spark reads; it has no nanoseconds and no times of day."""

    def write(table: pa.Table, folder: Path, draw: random.Random) -> Written:
        path = folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=draw.randint(1, table.num_rows),
            write_statistics=draw.choice([True, False]),
            use_dictionary=draw.choice([True, False]),
        )
        return Written(session.read.parquet(str(path)), cells_of(table))

    families = ("whole", "float", "decimal", "date", "timestamp", "instant", "text")
    return Format(write, families, engines=("auto",), has=_is_in_spark)


def _is_in_spark(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.unit in ("ms", "us")
    if pa.types.is_decimal(kind):
        return pa.types.is_decimal128(kind) and kind.scale >= 0
    return kind not in (pa.float16(), pa.date64(), pa.string_view())


INSTANTS = [-1_500_000, -1_000_001, -500_000, -1, 0, 499_999, 500_000, 999_999, 9_999_999]


def test_instants_are_read_in_utc(session: Any, zone: str, tmp_path: Path) -> None:
    for kind in (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")):
        arrays = {ROW: pa.array(range(len(INSTANTS))), "x0": array_of(INSTANTS, kind)}
        raw = RawTable(pa.table(arrays), {"x0": SECONDS_RULES})
        rng = random.Random(0)  # noqa: S311 - draws options of writers
        check_codes(raw, in_spark(session), "auto", tmp_path, rng)


def test_the_zone_of_the_session_would_change_codes(
    session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Undo the conversion to UTC: the check must detect it."""
    monkeypatch.setattr(spark_source, "_in_utc", lambda frame: frame)
    session.conf.set(ZONE, "America/New_York")
    kind = pa.timestamp("us", "UTC")
    arrays = {ROW: pa.array(range(len(INSTANTS))), "x0": array_of(INSTANTS, kind)}
    raw = RawTable(pa.table(arrays), {"x0": SECONDS_RULES})
    try:
        with pytest.raises((AssertionError, InternalError)):
            check_codes(raw, in_spark(session), "auto", tmp_path, random.Random(0))  # noqa: S311
    finally:
        session.conf.set(ZONE, "UTC")


@pytest.mark.long
def test_many_codes(session: Any, zone: str, tmp_path: Path) -> None:
    check_many(check_codes, in_spark(session), tmp_path, person=False)


@pytest.mark.long
@pytest.mark.parametrize("check", [check_persons, check_linked])
def test_many_persons(session: Any, zone: str, check: Check, tmp_path: Path) -> None:
    check_many(check, in_spark(session), tmp_path)
