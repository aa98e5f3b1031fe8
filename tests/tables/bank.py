"""Table modeled on bank marketing: 999 for never, -1 for unknown, a spike in a wide range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.schema import Schema

SCHEMA = Schema.parse("""
name: calls
columns:
  age: {type: integer, low: 17, high: 98, bins: [17, 25, 35, 45, 55, 65], missing: forbid}
  pdays: {type: integer, low: 0, high: 30, special: {999: never, -1: unknown}, missing: category}
  balance: {type: number, low: -1000, high: 20000, step: 10, bins: log, missing: other}
  education:
    type: categorical
    values: [none, primary, secondary, tertiary]
    ordered: true
    missing: category
  default: {type: boolean, missing: category}
  called: {type: date, low: 2008-05-01, high: 2010-11-30, bins: quarter, missing: category}
  y: {type: categorical, values: ["no", "yes"], role: target, missing: other}
derived:
  day: weekday(called)
  age_group: band(age)
rules:
  - "pdays <> 'never' OR y = 'no' OR age >= 25"
""")


def table(n_rows: int = 4000) -> pa.Table:
    """Make calls, the same ones each time: the tests are about their processing."""
    rng = np.random.default_rng(7)
    age = np.clip(rng.normal(40, 12, n_rows), 17, 98).astype(np.int64)
    never = rng.random(n_rows) < 0.9
    pdays = np.where(
        never, 999, np.where(rng.random(n_rows) < 0.1, -1, rng.integers(0, 28, n_rows))
    )
    balance = np.where(rng.random(n_rows) < 0.3, 0.0, rng.lognormal(6, 1.2, n_rows).round(2))
    y = (rng.random(n_rows) < np.where(never, 0.08, 0.6)) & ~(never & (age < 25))
    called = np.datetime64("2008-05-01") + rng.integers(0, 900, n_rows)
    levels = np.array(["none", "primary", "secondary", "tertiary", None], object)
    return pa.table(
        {
            "age": age,
            "pdays": pdays,
            "balance": np.clip(balance, -1000, 20000),
            "education": pa.array(levels[rng.choice(5, n_rows, p=[0.05, 0.2, 0.45, 0.25, 0.05])]),
            "default": pa.array([[True, False, None][k] for k in rng.integers(0, 3, n_rows)]),
            "called": pa.array(called.astype("M8[D]")),
            "y": pa.array(np.where(y, "yes", "no")),
        }
    )
