"""The embedded sample (generated, no real people) and readers for real data on the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from hushtable.schema import Schema
from hushtable.taxonomy import Taxonomy

_SAMPLE_ROWS = 12_000

_REGIONS = {"any": {"north": ["harbor", "old town"], "south": ["valley", "hills"], "west": ["bay"]}}
_DIAGNOSES = {
    "any": {
        "injury": ["fracture", "sprain"],
        "infection": ["influenza", "pneumonia"],
        "chronic": ["asthma", "diabetes", "hypertension"],
    }
}
_SCHEMA: dict[str, Any] = {
    "name": "clinic visits (generated sample)",
    "unit": {"kind": "row"},
    "columns": {
        "visit": {"role": "identifier"},
        "age": {"type": "integer", "low": 0, "high": 99},
        "sex": {"type": "categorical", "values": ["F", "M"]},
        "region": {
            "type": "categorical",
            "values": ["harbor", "old town", "valley", "hills", "bay"],
            "taxonomy": _REGIONS,
        },
        "smoker": {"type": "categorical", "values": ["yes", "no"], "missing": "category"},
        "diagnosis": {
            "type": "categorical",
            "values": [
                "fracture", "sprain", "influenza", "pneumonia", "asthma", "diabetes",
                "hypertension",
            ],
            "taxonomy": _DIAGNOSES,
            "role": "target",
        },
    },
}  # fmt: skip


def sample_schema() -> Schema:
    """Give the schema of the sample."""
    return Schema.from_dict(_SCHEMA)


def sample() -> pa.Table:
    """Make the sample: 12,000 visits to a clinic, the same on every call.

    Examples
    --------
    >>> table = sample()
    >>> table.num_rows, table.column_names
    (12000, ['visit', 'age', 'sex', 'region', 'smoker', 'diagnosis'])
    """
    rng = np.random.default_rng(2012)
    n = _SAMPLE_ROWS
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
    columns = _SCHEMA["columns"]
    return pa.table(
        {
            "visit": [f"v{number:05d}" for number in range(n)],
            "age": pa.array(age.astype(np.int64)),
            "sex": np.where(male, "M", "F"),
            "region": np.array(columns["region"]["values"])[region],
            "smoker": pa.array(np.where(smokes, "yes", "no"), mask=unknown),
            "diagnosis": np.array(columns["diagnosis"]["values"])[diagnosis],
        }
    )


# --- real data, where it is found on the machine ---------------------------------------------

_ADULT_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


def adult(folder: str | Path, *, complete: bool = True) -> tuple[pa.Table, Schema]:
    """Read the UCI Adult table (1994 census extract) and give it a schema.

    Value lists and taxonomies come from the hierarchy file of the "top-down specialization"
    experiments, not from the rows.

    Parameters
    ----------
    folder : path
        The folder that holds ``adult/adult_all.csv.gz`` and ``adult/tds_taxonomytree.json``.
    complete : bool
        Keep only the 45,222 rows without missing values; otherwise all 48,842.
    """
    folder = Path(folder) / "adult"
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(folder / "adult_all.csv.gz", convert_options=options).drop(["split"])
    if complete:
        table = table.drop_null()
    trees = json.loads((folder / "tds_taxonomytree.json").read_text())
    missing = "other" if complete else "category"
    columns: dict[str, Any] = {}
    for name in table.column_names:
        if name in _ADULT_NUMBERS:
            low, high = _ADULT_NUMBERS[name]
            columns[name] = {"type": "integer", "low": low, "high": high}
        elif name == "income":
            columns[name] = {"type": "categorical", "values": ["<=50K", ">50K"], "role": "target"}
        else:
            taxonomy = Taxonomy.from_nested({"Any": _nested(trees[name.replace("-", "_")])})
            columns[name] = {
                "type": "categorical",
                "values": taxonomy.values,
                "taxonomy": taxonomy,
                "missing": missing,
            }
    return table, Schema.from_dict({"name": "Adult", "columns": columns})


def _nested(tree: dict[str, Any]) -> list[Any]:
    """Turn ``{"parent": label, "leaves": [...]}`` into nested mappings."""
    return [
        {branch["parent"]: _nested(branch)} if branch["leaves"] else branch["parent"]
        for branch in tree["leaves"]
    ]
