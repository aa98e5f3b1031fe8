"""Clauses over booleans, special values, dates and times, compared with plain Python."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hushtable.errors import PredicateError
from hushtable.query.where import parse
from hushtable.schema import Schema

SCHEMA = Schema.parse("""
name: t
columns:
  pdays: {type: integer, low: 0, high: 30, special: {999: never, -1: unknown}, bins: log}
  day: {type: date, low: 2023-12-01, high: 2024-03-31, special: {9999-12-31: open}}
  month: {type: date, low: 2023-01-01, high: 2024-12-31, step: month}
  seen: {type: timestamp, step: hour, low: 2024-02-28 20:00:00, high: 2024-02-29 03:00:00}
  clock: {type: time, step: hour}
  flag: {type: boolean}
  "recid?": {type: categorical, values: ["true", "false"]}
  stay: {type: duration, low: 0, high: 9, step: day}
derived: {weekday: weekday(day), band: band(pdays)}
""")
DATE, MOMENT = datetime.date.fromisoformat, datetime.datetime.fromisoformat
SPECIAL = {999: "never", -1: "unknown", "9999-12-31": "open"}
Truth = Callable[[Any], bool | None]

# Column, clause, and its truth for a value; a special value is its name, missing is None.
CLAUSES: list[tuple[str, str, Truth]] = [
    ("pdays", "pdays = 'never'", lambda v: v == "never"),
    ("pdays", "pdays <> 'never'", lambda v: v is not None and v != "never"),
    ("pdays", "pdays >= 5", lambda v: isinstance(v, int) and v >= 5),
    ("pdays", "NOT pdays >= 5", lambda v: isinstance(v, int) and v < 5),
    ("pdays", "pdays >= 999 OR pdays < 0", lambda v: False),
    ("pdays", "pdays IS NULL", lambda v: v is None),
    ("pdays", "pdays IS NOT NULL", lambda v: v is not None),
    ("pdays", "pdays + 0 IS NULL", lambda v: not isinstance(v, int)),
    ("pdays", "pdays IN (3, 'unknown', 'never')", lambda v: v in (3, "unknown", "never")),
    ("pdays", "pdays NOT IN (3, 'unknown')", lambda v: v is not None and v not in (3, "unknown")),
    ("pdays", "(pdays IN (3, 'unknown')) IS NOT FALSE", lambda v: v in (3, "unknown", None)),
    ("pdays", "pdays NOT IN (3, 'unknown', NULL)", lambda v: False),
    ("day", "month(day) IN (2, 'open')", lambda v: v == "open" or (is_day(v) and v[5:7] == "02")),
    ("pdays", "band(pdays) = '5 to 9'", lambda v: isinstance(v, int) and 5 <= v <= 9),
    ("pdays", "band <> '0'", lambda v: isinstance(v, int) and v != 0),
    ("day", "day >= '2024-02-29'", lambda v: is_day(v) and DATE(v) >= DATE("2024-02-29")),
    ("day", "day = 'open'", lambda v: v == "open"),
    ("day", "day > '9000-01-01'", lambda v: False),
    ("day", "day BETWEEN '2024-01-31' AND '2024-02-01'",
     lambda v: v in ("2024-01-31", "2024-02-01")),
    ("day", "day IN ('2024-01-31', 'open')", lambda v: v in ("2024-01-31", "open")),
    ("day", "weekday(day) = 'Sunday'", lambda v: is_day(v) and DATE(v).weekday() == 6),
    ("day", "weekday >= 'Saturday'", lambda v: is_day(v) and DATE(v).weekday() >= 5),
    ("day", "day - 1 < '2023-12-01'", lambda v: v == "2023-12-01"),
    ("day", "year(day) = 2023 AND month(day) = 12 AND quarter(day) = 4",
     lambda v: is_day(v) and DATE(v).year == 2023),
    ("month", "month > '2024-02-15'", lambda v: v is not None and DATE(v) > DATE("2024-02-15")),
    ("month", "month(month) IN (1, 12)", lambda v: v is not None and DATE(v).month in (1, 12)),
    ("seen", "seen < '2024-02-29'", lambda v: v is not None and MOMENT(v).day == 28),
    ("seen", "hour(seen) >= 21", lambda v: v is not None and MOMENT(v).hour >= 21),
    ("clock", "clock >= '22:00' OR clock < '06:00'",
     lambda v: v is not None and not 6 <= int(v[:2]) < 22),
    ("flag", "flag", lambda v: v == "true"),
    ("flag", "NOT flag", lambda v: v == "false"),
    ("flag", "flag = FALSE", lambda v: v == "false"),
    ("flag", "flag IS NOT TRUE", lambda v: v != "true"),
    ("flag", "flag IN (TRUE)", lambda v: v == "true"),
    ("recid?", '"recid?" = true', lambda v: v == "true"),
    ("recid?", 'NOT "recid?"', lambda v: v == "false"),
    ("stay", "stay * 24 > 50", lambda v: v is not None and v > 2),
]  # fmt: skip


def is_day(value: Any) -> bool:
    return value not in (None, "open")


@pytest.mark.parametrize(("name", "clause", "truth"), CLAUSES, ids=[c[1] for c in CLAUSES])
def test_a_clause_says_what_it_says_in_python(name: str, clause: str, truth: Truth) -> None:
    column = SCHEMA.attributes[name]
    codes = np.arange(column.size)
    values = [SPECIAL.get(column.value(code), column.value(code)) for code in codes.tolist()]  # type: ignore[call-overload, arg-type]
    predicate = parse(clause, SCHEMA)
    expected = [bool(truth(value)) for value in values]
    assert predicate.mask({name: codes}).tolist() == expected
    assert predicate.count([name]) == sum(expected)
    again = parse(str(predicate), SCHEMA)
    assert again.mask({name: codes}).tolist() == expected


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("pdays < 'never'", "special value"),
        ("pdays = 'often'", "numeric"),
        ("day >= 'soon'", "not a date or time"),
        ("day >= '2024-13-01'", "'2024-13-01' is not a date or time"),
        ("clock >= '25:00'", "'25:00' is not a time"),
        ("hour(day) = 3", "hour needs a column of times"),
        ("weekday(stay) = 'Monday'", "weekday needs a column of dates"),
        ("weekday = 'Caturday'", "its values are 'Monday'"),
        ("band(stay) = '1'", "declare bins for"),
        ("band(pdays + 1) = '1'", "not allowed"),
        ("length(flag) = 3", "not allowed"),
        ("stay", "is a value, not a condition"),
    ],
)
def test_invalid_questions_are_explained(clause: str, said: str) -> None:
    with pytest.raises(PredicateError) as error:
        parse(clause, SCHEMA)
    assert said in str(error.value)
