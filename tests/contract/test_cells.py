"""Missing and out-of-domain cells of every type, in every engine, under every rule.

A table has one column for each raw type and pairs of rules: all of them for some types, and for the
others enough to cover every rule (`-m long`: all pairs for all types). Each column contains valid
values and all markers of missing values: NULL, NaN, NaT, infinities, empty texts, words such as
"none". The codes that an engine counts are compared with `code_by_hand`, which uses no engine.
"""

from __future__ import annotations

import csv
import datetime
import math
import re
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import ibis
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_session
from hushtable.engine import connect
from hushtable.schema import Schema

NAN, INF = math.nan, math.inf
DAY = datetime.timedelta(days=1)
MISSING_VALUES = ("", "NA")
WORDS = ["", " ", "NA", "nan", "NaN", "null", "None", "NaT", "inf", "-inf", "Infinity", "x"]
LISTED = {"type": "categorical", "values": ["a", "true", "1", "1.5", "2024-02-29", "12:30:00"]}
WHOLE = {"type": "integer", "low": -1, "high": 5, "special": {999: "never", -9: "unknown"}}
REAL = {"type": "number", "low": -1, "high": 5, "step": 0.5, "special": {999: "never"}}
MONEY = {"type": "decimal", "low": 0, "high": 3, "step": 0.25}
FLAG = {"type": "boolean"}
MONTHS = {"type": "date", "low": "2023-11-15", "high": "2024-03-01", "step": "month",
          "special": {"9999-12-31": "open"}}  # fmt: skip
DAYS = {"type": "date", "low": "2024-02-27", "high": "2024-03-02"}
WEEKS = {"type": "date", "low": "2024-02-20", "high": "2024-03-12", "step": "week"}
HOURS = {"type": "timestamp", "low": "2024-02-28 20:00", "high": "2024-03-01 02:00", "step": "hour"}
YEARS = {"type": "timestamp", "low": "1968-01-01", "high": "2024-12-31", "step": "year"}
CLOCK = {"type": "time", "low": "08:00", "high": "18:30", "step": "hour"}
STAY = {"type": "duration", "low": 0, "high": 4, "step": "day", "special": {99: "unknown"}}


def moments() -> list[Any]:
    first = datetime.datetime(2024, 2, 28, 19, 59, 59)
    found: list[Any] = [first + datetime.timedelta(hours=7 * i, seconds=i) for i in range(12)]
    return [*found, datetime.datetime(1969, 12, 31, 23, 59, 59), None, None]


def dates() -> list[Any]:
    first = datetime.date(2023, 10, 30)
    return [*(first + 11 * i * DAY for i in range(16)), datetime.date(9999, 12, 31), None,
            datetime.date(2024, 2, 29), datetime.date(1900, 3, 1)]  # fmt: skip


def texts_of(values: list[Any]) -> list[Any]:
    return [None if value is None else str(value) for value in values]


CLOCKS = [datetime.time(hour, 30) for hour in range(24)] + [None]
LENGTHS = [datetime.timedelta(hours=17 * i) for i in range(-2, 9)] + [None, 99 * DAY]
NUMBERS: list[Any] = [-2, -1, 0, 1, 2, 5, 6, 999, -9, None]
FLOATS: list[Any] = [-1.0, -0.0, 0.5, 1.24, 1.25, 5.0, 5.25, 999.0, -9.0, NAN, INF, -INF, None]
IN_WORDS = [*WORDS, "-1", "0.5", " 2 ", "999", "never", "1e0", "-9", None]

SOON = [moment for moment in moments() if moment is None or 1900 < moment.year < 2200]

RAW: dict[str, tuple[pa.Array, list[dict[str, Any]]]] = {
    "text": (pa.array([*WORDS, "a", "A", "a ", "true", "1", None]), [LISTED, FLAG]),
    "number_text": (pa.array(IN_WORDS), [WHOLE, REAL, MONEY]),
    "flag_text": (pa.array([*WORDS, "true", "False", "YES", "no", "0", "1", "t", None]), [FLAG]),
    "dictionary": (pa.array(["a", None, "", "true"]).dictionary_encode(), [LISTED, FLAG]),
    "boolean": (pa.array([True, False, None, True, None]), [LISTED, FLAG, WHOLE, REAL]),
    "int8": (pa.array([-2, -1, 0, 1, 5, None], pa.int8()), [LISTED, WHOLE, REAL, FLAG, STAY]),
    "int64": (pa.array(NUMBERS, pa.int64()), [LISTED, WHOLE, REAL, FLAG, STAY]),
    "uint64": (pa.array([0, 1, 999, 2**64 - 1, None], pa.uint64()), [LISTED, WHOLE, REAL]),
    "float32": (pa.array(FLOATS, pa.float32()), [LISTED, WHOLE, REAL, FLAG]),
    "float64": (pa.array(FLOATS, pa.float64()), [LISTED, WHOLE, REAL, MONEY, FLAG]),
    "decimal": (
        pa.array([Decimal("-1.00"), Decimal("1.25"), Decimal("999.00"), None]),
        [WHOLE, REAL, MONEY],
    ),
    "null": (pa.nulls(3), [LISTED, WHOLE, REAL, FLAG, MONTHS, HOURS, CLOCK, STAY]),
    "date": (pa.array(dates(), pa.date32()), [MONTHS, DAYS, WEEKS, YEARS]),
    "date_text": (
        pa.array([*texts_of(dates()), *WORDS, "2023-02-29", "2024-2-1", "open", "2024-13-01",
                  "2024-02-29T10:00:00Z", "2024-02-29 24:00", "10000-01-01"]),
        [MONTHS, DAYS, WEEKS, YEARS],
    ),
    "timestamp": (pa.array(moments(), pa.timestamp("us")), [MONTHS, DAYS, HOURS, YEARS, CLOCK]),
    "instant": (pa.array(moments(), pa.timestamp("ms", "Asia/Tokyo")), [DAYS, HOURS, YEARS]),
    "timestamp_text": (pa.array([*texts_of(moments()), *WORDS]), [DAYS, HOURS, YEARS]),
    "instant in billionths": (pa.array(SOON, pa.timestamp("ns", "UTC")), [DAYS, HOURS]),
    "time": (pa.array(CLOCKS, pa.time64("us")), [CLOCK]),
    "time in billionths": (pa.array(CLOCKS, pa.time64("ns")), [CLOCK]),
    "time_text": (pa.array([*texts_of(CLOCKS), *WORDS, "24:00:00", "9:00", "09:00"]), [CLOCK]),
    "duration": (pa.array(LENGTHS, pa.duration("us")), [STAY]),
    "duration_text": (
        pa.array([*WORDS, "1", "36 hours", "5 days", "1 day", "-1 s", "99", "1 week", "1 moon"]),
        [STAY],
    ),
}  # fmt: skip


WITH_ALL_RULES = ("text", "int64", "float64", "date")
SOME_RULES = [
    *(("other", "clip"), ("category", "missing"), ("category", "clip")),
    *(("other", "other"), ("other", "refuse"), ("forbid", "other")),
]


def rules_of(kind: dict[str, Any], every: bool) -> Iterator[dict[str, str]]:
    numeric = kind["type"] not in ("categorical", "boolean")
    for missing, outside in product(
        ("other", "category", "forbid"), ("clip", "other", "missing", "refuse")
    ):
        if (outside == "clip" and not numeric) or (outside == "missing" != missing == "category"):
            continue
        if outside == "missing" and missing != "category":
            continue
        if not every and (missing, outside) not in SOME_RULES:
            continue
        yield {"missing": missing, "outside": outside}


def to_parquet(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def to_csv(table: pa.Table, path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table), strict=True))
    return path


MISSING, UNREADABLE, OUTSIDE = "missing", "unreadable", "outside"


def found(value: Any, kind: dict[str, Any]) -> Any:  # noqa: PLR0911, PLR0912 - case by case
    """Return the content of a cell: a grid position (maybe outside), a name, or its problem."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    type_ = kind["type"]
    if type_ in ("categorical", "boolean"):
        text = value
        if not isinstance(value, str):
            whole = isinstance(value, float | int) and math.isfinite(value) and value == int(value)
            text = str(value).lower() if isinstance(value, bool) else (
                str(int(value)) if whole else str(value))  # fmt: skip
        if type_ == "boolean":
            spelled = {w: i for i, ws in enumerate((["false", "f", "no", "n", "0"],
                       ["true", "t", "yes", "y", "1"])) for w in ws}  # fmt: skip
            same_case = text in (text.lower(), text.upper(), text.capitalize())
            if text.lower() in spelled and same_case:
                return spelled[text.lower()]
        elif text in kind["values"]:
            return kind["values"].index(text)
        return MISSING if text in MISSING_VALUES else OUTSIDE
    special = {str(key): name for key, name in kind.get("special", {}).items()}
    if isinstance(value, str):
        if value in special.values():
            return value
        if value in MISSING_VALUES:
            return MISSING
    if type_ in ("date", "timestamp", "time"):
        return _moment(value, kind, special)
    number = _number(value, kind)
    if number is None or number in (MISSING,):
        return number or UNREADABLE
    for key, name in special.items():
        if number == float(key):
            return name
    if type_ in ("integer", "duration"):
        if isinstance(number, float) and math.isfinite(number) and number != int(number):
            return UNREADABLE
        return number - kind["low"]
    place = (number - kind["low"]) / kind["step"] + 0.5
    return math.floor(place) if math.isfinite(place) else place


def _number(value: Any, kind: dict[str, Any]) -> Any:
    if isinstance(value, datetime.timedelta):
        return value // DAY
    if not isinstance(value, str):
        return float(value) if isinstance(value, Decimal) else value
    text = value.strip(" ").lower()
    if re.fullmatch(r"[+-]?nan", text):
        return MISSING
    if kind["type"] == "duration" and (
        written := re.fullmatch(r"(-?\d+) (s|hours?|days?|week)", text)
    ):
        unit = {"s": DAY / 86400, "h": DAY / 24, "d": DAY, "w": 7 * DAY}[written[2][0]]
        return int(written[1]) * unit // DAY
    if re.fullmatch(r"[+-]?(inf|infinity|\d+\.?\d*(e\d+)?)", text):
        return float(text)
    return None


def _moment(value: Any, kind: dict[str, Any], special: dict[str, str]) -> Any:
    if kind["type"] == "time":
        clock = value.time() if isinstance(value, datetime.datetime) else value
        if isinstance(value, str):
            if not re.fullmatch(r"\d\d:\d\d(:\d\d)?", value) or value.startswith("24"):
                return UNREADABLE
            clock = datetime.time.fromisoformat(value)
        return clock.hour - 8
    if isinstance(value, str):
        # From 3.14 on, Python reads 24:00 as the next midnight.
        if not re.fullmatch(r"\d{4}-\d\d-\d\d([T ](?!24)\d\d:\d\d(:\d\d)?Z?)?", value):
            return UNREADABLE
        try:
            value = datetime.datetime.fromisoformat(value.removesuffix("Z"))
        except ValueError:
            return UNREADABLE
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if kind["type"] == "date" and str(value.date()) in special:
        return special[str(value.date())]

    def number(moment: datetime.datetime) -> int:
        days = moment.toordinal()
        return {"month": moment.year * 12 + moment.month, "year": moment.year, "day": days,
                "week": (days - 1) // 7, "hour": days * 24 + moment.hour,
                }[kind.get("step", "day")]  # fmt: skip

    return number(value) - number(datetime.datetime.fromisoformat(kind["low"]))


def code_by_hand(value: Any, kind: dict[str, Any], column: Any, rule: dict[str, str]) -> int | str:
    """Return the code of a cell, or the rule that it breaks."""
    what = found(value, kind)
    names = list(kind.get("special", {}).values())
    n = column.n_values
    if what in names:
        return n + names.index(what)
    no_value: int | str = {"other": 0, "category": n + len(names), "forbid": MISSING}[
        rule["missing"]
    ]
    if what == MISSING:
        return no_value
    if what not in (UNREADABLE, OUTSIDE) and 0 <= what < n:
        return int(what)
    way = rule["outside"]
    if way == "clip":
        if what == UNREADABLE:
            return UNREADABLE if rule["missing"] == "forbid" else no_value
        return 0 if what < 0 else n - 1
    broken = UNREADABLE if what == UNREADABLE else OUTSIDE
    return {"other": 0, "missing": no_value, "refuse": broken}[way]


@cache
def scene(
    name: str, every: bool
) -> tuple[pa.Table, dict[str, tuple[dict[str, Any], dict[str, str]]]]:
    """Return a table of one raw type, with a column for each kind of column and pair of rules."""
    values, kinds = RAW[name]
    columns = {
        f"c{i}_{j}": (kind | {"missing": rule["missing"], "outside": rule["outside"]}, rule)
        for i, kind in enumerate(kinds)
        for j, rule in enumerate(rules_of(kind, every))
    }
    return pa.table(dict.fromkeys(columns, values)), columns


def check(
    name: str, make: Callable[[pa.Table], Any], engine: Any = "auto", *, every: bool = False
) -> None:
    table, columns = scene(name, every or name in WITH_ALL_RULES)
    data = make(table)
    for refused in (False, True):
        wanted = {
            at: kind
            for at, (kind, rule) in columns.items()
            if ("forbid" in rule.values() or "refuse" in rule.values()) == refused
        }
        others = {at: {"role": "identifier"} for at in columns if at not in wanted}
        schema = Schema.from_dict(
            {"name": "t", "missing_values": list(MISSING_VALUES), "columns": wanted | others}
        )
        private = connect(data, schema, engine=engine)
        expected = {
            at: Counter(code_by_hand(v, kind, schema.attributes[at], columns[at][1])
                        for v in table[at].to_pylist())
            for at, kind in wanted.items()
        }  # fmt: skip
        breaks = {(b.column, b.kind): b.n_rows for b in private.rule_breaks() if b.refused}
        assert breaks == {
            (at, code): n for at, codes in expected.items() for code, n in codes.items()
            if isinstance(code, str)
        }  # fmt: skip
        fine = [at for at in wanted if not any(isinstance(c, str) for c in expected[at])]
        if not fine:
            continue
        counted = private.histograms(fine)
        for at in fine:
            size = schema.attributes[at].size
            by_hand = [expected[at][code] for code in range(size)]
            assert counted[at].tolist() == by_hand, (wanted[at], table[at].type)
            if columns[at][1] != {"missing": "category", "outside": "missing"}:
                continue  # one column of each kind is also counted as cells
            cells = private.counts([at])
            assert dict(zip(cells.codes[:, 0].tolist(), cells.counts.tolist(), strict=True)) == {
                code: n for code, n in enumerate(by_hand) if n
            }, (wanted[at], table[at].type)


@pytest.mark.parametrize("name", RAW)
def test_cells_of_an_arrow_table(name: str) -> None:
    check(name, lambda table: table, "memory")


@pytest.mark.long
@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_every_pair_of_rules(name: str, engine: str) -> None:
    check(name, lambda table: table, engine, every=True)


TEXTS = [name for name in RAW if name == "text" or name.endswith("_text")]
IN_PARQUET = [pytest.param(n, marks=pytest.mark.long) if n in TEXTS else n for n in RAW]


@pytest.mark.parametrize("name", IN_PARQUET)  # texts: below
@pytest.mark.parametrize("engine", [pytest.param("auto", marks=pytest.mark.long), "duckdb"])
def test_cells_of_a_parquet_file(name: str, engine: str, tmp_path: Path) -> None:
    check(name, lambda table: to_parquet(table, tmp_path / "t.parquet"), engine)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("engine", [pytest.param("auto", marks=pytest.mark.long), "duckdb"])
def test_cells_of_a_text_file(name: str, engine: str, tmp_path: Path) -> None:
    """An empty field is the empty text, which is missing here; so is NULL."""
    check(name, lambda table: to_csv(table, tmp_path / "t.csv"), engine)


PANDAS = ["text", "number_text", "boolean", "float32", "float64", "timestamp", "date_text"]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n in TEXTS[1:] else n for n in PANDAS]
)
def test_cells_of_a_pandas_frame(name: str) -> None:
    """NaN represents NULL, NaT a missing time, and None turns booleans into objects."""
    check(name, lambda table: table.to_pandas())


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in RAW if n != "null"])
def test_cells_of_a_polars_frame(name: str) -> None:
    check(name, pl.from_arrow, "duckdb")


SQLITE = {"text": "TEXT", "number_text": "TEXT", "boolean": "BOOLEAN", "int8": "INTEGER",
          "int64": "INTEGER", "float64": "REAL", "date_text": "TEXT"}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if "int" in n else n for n in SQLITE]
)
@pytest.mark.parametrize("engine", ["auto", pytest.param("memory", marks=pytest.mark.long)])
def test_cells_of_a_table_of_sqlite(name: str, engine: str, tmp_path: Path) -> None:
    """Here NaN is NULL."""

    def make(table: pa.Table) -> ibis.Table:
        path = tmp_path / f"{uuid.uuid4().hex}.db"
        with sqlite3.connect(path) as connection:
            columns = ", ".join(f'"{at}" {SQLITE[name]}' for at in table.column_names)
            connection.execute(f"CREATE TABLE t ({columns})")
            marks = ", ".join("?" * table.num_columns)
            rows = zip(*(column.to_pylist() for column in table), strict=True)
            connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # noqa: S608
        return ibis.sqlite.connect(path).table("t")

    check(name, make, engine)


ON_SPARK = [name for name in RAW if name not in ("duration", "time", "uint64", "null")]


@pytest.mark.long  # `test_spark.py` reads every type with Spark, too
@pytest.mark.parametrize("name", ON_SPARK)
@pytest.mark.xdist_group("spark")
def test_cells_of_a_table_of_spark(name: str, spark: Any, tmp_path: Path) -> None:
    """Spark reads the file itself; its session has its own time zone."""
    check(name, lambda table: to_parquet(table, tmp_path / "t.parquet"), "spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return spark_session.start(tmp_path_factory.mktemp("spark"))


def test_a_null_truth_value_is_not_false() -> None:
    """3,000 true, 3,000 false and 3,000 NULL are three groups of 3,000."""
    values = pa.array([True, False, None] * 3000)
    columns = {"flag": {"type": "boolean", "missing": "category"},
               "listed": {"type": "categorical", "values": ["false", "true"],
                          "missing": "category"}}  # fmt: skip
    schema = Schema.from_dict({"name": "t", "columns": columns})
    for engine in ("memory", "duckdb"):
        private = connect(pa.table({"flag": values, "listed": values}), schema, engine=engine)
        for counts in private.histograms(["flag", "listed"]).values():
            assert counts.tolist() == [3000, 3000, 3000]
    strict = Schema.from_dict(
        {"name": "t", "columns": {"flag": {"type": "boolean", "missing": "forbid"}}}
    )
    (broken,) = connect(pa.table({"flag": values}), strict).rule_breaks()
    assert (broken.kind, broken.n_rows) == ("missing", 3000)
