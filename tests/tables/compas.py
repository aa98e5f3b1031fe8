"""Table modeled on COMPAS: dates, NULL booleans, and a spike in a wide range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.schema import Schema

SCHEMA = Schema.parse("""
name: arrests
missing_values: ["", "NA"]
columns:
  id: {role: identifier}
  sex: {type: categorical, values: [Male, Female], missing: category}
  age: {type: integer, low: 18, high: 96, bins: [18, 25, 46], missing: category}
  days_from_compas:
    type: integer
    low: 0
    high: 9485
    bins: [0, 1, 2, 10, 100, 1000]
    missing: category
  jail_in: {type: date, low: 2013-01-01, high: 2014-12-31, step: month, missing: category}
  jail_out: {type: date, low: 2013-01-01, high: 2016-12-31, step: month, missing: category}
  score: {type: categorical, values: [Low, Medium, High], ordered: true, missing: category}
  "recid?": {type: boolean, missing: category}
derived:
  age_cat: band(age)
rules: ["jail_out >= jail_in"]
""")


def table(n_rows: int = 3000) -> pa.Table:
    """Make arrests, the same ones each time: the tests are about their processing."""
    rng = np.random.default_rng(11)
    jail_in = np.datetime64("2013-01-01") + rng.integers(0, 700, n_rows)
    jail_out = jail_in + rng.geometric(0.02, n_rows)
    absent = rng.random(n_rows) < 0.05
    spike = rng.random(n_rows) < 0.6
    days = np.where(spike, 1, np.minimum(rng.lognormal(3, 2, n_rows), 9485)).astype(np.int64)
    return pa.table(
        {
            "id": np.arange(n_rows),
            "sex": pa.array(np.where(rng.random(n_rows) < 0.8, "Male", "Female")),
            "age": rng.integers(18, 70, n_rows),
            "days_from_compas": pa.array(days, mask=rng.random(n_rows) < 0.01),
            "jail_in": pa.array(np.datetime_as_string(jail_in), mask=absent),
            "jail_out": pa.array(np.datetime_as_string(jail_out), mask=absent),
            "score": pa.array(np.array(["Low", "Medium", "High"])[rng.integers(0, 3, n_rows)]),
            "recid?": pa.array(rng.random(n_rows) < 0.45, mask=rng.random(n_rows) < 1 / 3),
        }
    )
