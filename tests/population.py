"""A population with correlated columns of every kind, for tests of attacks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.schema import Schema
from seeds import shifted

CITIES = [f"city {number}" for number in range(20)]

SCHEMA = Schema.from_dict(
    {
        "name": "population",
        "columns": {
            "age": {"type": "integer", "low": 0, "high": 99},
            "weight": {"type": "number", "low": 0, "high": 200, "step": 0.5},
            "city": {"type": "categorical", "values": CITIES},
            "sex": {"type": "categorical", "values": ["F", "M"]},
            "grade": {"type": "categorical", "values": list("abcde"), "ordered": True},
            "job": {
                "type": "categorical",
                "values": ["none", "clerk", "nurse", "farmer", "teacher"],
                "missing": "category",
                "role": "target",
            },
        },
    }
)


def people(n: int, seed: int) -> pa.Table:
    """Draw people."""
    rng = np.random.default_rng(shifted(seed))
    age = rng.integers(0, 100, n)
    sex = rng.integers(0, 2, n)
    weight = np.clip(np.round((50 + age / 3 + 15 * sex + rng.normal(0, 12, n)) * 2) / 2, 0, 200)
    city = np.minimum(rng.geometric(0.12, n) - 1, 19)
    grade = np.clip((age // 20 + rng.integers(-1, 2, n)), 0, 4)
    job = np.where(rng.random(n) < 0.7, (city + sex) % 5, rng.integers(0, 5, n))
    jobs = np.array(["none", "clerk", "nurse", "farmer", "teacher"])[job]
    return pa.table(
        {
            "age": age,
            "weight": weight,
            "city": np.array(CITIES)[city],
            "sex": np.array(["F", "M"])[sex],
            "grade": np.array(list("abcde"))[grade],
            "job": pa.array(jobs, mask=rng.random(n) < 0.05),
        }
    )


def noise(n: int, seed: int) -> pa.Table:
    """Draw uninformative rows: every value of the domain is equally likely."""
    rng = np.random.default_rng(shifted(seed))
    columns = {}
    for name, column in SCHEMA.attributes.items():
        values = [column.value(code) for code in range(column.size)]
        columns[name] = pa.array(values).take(pa.array(rng.integers(0, column.size, n)))
    return pa.table(columns)


def independent(table: pa.Table, seed: int) -> pa.Table:
    """Shuffle each column separately, which keeps one-way marginals only."""
    rng = np.random.default_rng(shifted(seed))
    return pa.table(
        {
            name: table.column(name).take(pa.array(rng.permutation(table.num_rows)))
            for name in table.column_names
        }
    )
