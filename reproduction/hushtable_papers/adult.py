"""The UCI Adult table, if the machine has a copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from hushtable.schema import Schema
from hushtable.schema.taxonomy import Taxonomy

_ADULT_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


def adult(folder: str | Path, *, complete: bool = True) -> tuple[pa.Table, Schema]:
    """Return the UCI Adult table (1994 census extract) and its schema.

    Value lists and taxonomies come from the hierarchy file of the "top-down specialization"
    experiments, not from the rows.

    Parameters
    ----------
    folder : path
        The folder that contains ``adult/adult_all.csv.gz`` and ``adult/tds_taxonomytree.json``.
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
