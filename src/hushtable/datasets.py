"""Sample table of random rows, which describe no real people."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import pyarrow as pa

from hushtable.schema import Schema


@cache
def sample_schema() -> Schema:
    """Return the schema of the sample."""
    return Schema.parse((files("hushtable") / "sample_schema.yaml").read_text(encoding="utf-8"))


@cache
def sample() -> pa.Table:
    """Return the sample: 12,000 visits to a clinic, the same on every call.

    Examples
    --------
    >>> table = sample()
    >>> table.num_rows, table.column_names
    (12000, ['visit', 'age', 'sex', 'region', 'smoker', 'diagnosis'])
    """
    rng = np.random.default_rng(2012)
    n = 12_000
    age = np.clip(np.where(rng.random(n) < 0.3, rng.normal(12, 8, n), rng.normal(52, 18, n)), 0, 99)
    male = rng.random(n) < 0.48
    region = rng.choice(5, n, p=[0.34, 0.22, 0.2, 0.14, 0.1])
    smokes = rng.random(n) < np.where(age > 16, 0.18 + 0.08 * male, 0.0)
    unknown = rng.random(n) < 0.06
    weight = np.stack(
        [
            0.6 + 1.2 * male * (age < 40),
            1.0 + (age < 30),
            np.full(n, 1.5),
            0.3 + 0.02 * age,
            0.5 + (age < 20) + smokes,
            0.1 + 0.03 * age,
            0.05 * age * (age > 30) + 0.05,
        ],
        axis=1,
    )
    chance = np.cumsum(weight / weight.sum(1, keepdims=True), axis=1)
    diagnosis = np.minimum((rng.random((n, 1)) > chance).sum(1), 6)
    columns = sample_schema().attributes

    def values(name: str) -> list[str]:
        return [columns[name].name(code) for code in range(columns[name].n_values)]

    return pa.table(
        {
            "visit": [f"v{number:05d}" for number in range(n)],
            "age": pa.array(age.astype(np.int64)),
            "sex": np.where(male, "M", "F"),
            "region": np.take(values("region"), region),
            "smoker": pa.array(np.where(smokes, "yes", "no"), mask=unknown),
            "diagnosis": np.take(values("diagnosis"), diagnosis),
        }
    )
