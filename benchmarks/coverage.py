"""Coverage of the 95% intervals of one-way counts of Adult, over many releases."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc

from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.schema import Schema
from hushtable_papers.adult import adult

RULES = {"age": [30, 45, 60], "education-num": [9, 13], "hours-per-week": [40, 41]}
COLUMNS = [*RULES, "sex", "income"]


def questions(schema: Schema) -> list[tuple[str, str]]:
    """Return a WHERE clause and its column and range of values, for each released value."""
    bounds = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99)}
    asked = []
    for name, cuts in RULES.items():
        low, high = bounds[name]
        starts = [low, *cuts]
        ends = [cut - 1 for cut in cuts] + [high]
        asked += [(f'"{name}" BETWEEN {a} AND {b}', (name, a, b)) for a, b in zip(starts, ends)]  # noqa: B905
    asked += [(f"sex = '{value}'", ("sex", value, value)) for value in ("Male", "Female")]
    asked += [(f"income = '{value}'", ("income", value, value)) for value in ("<=50K", ">50K")]
    return asked


def measure(runs: int = 100, mechanism: str = "tight", share: str = "1/20") -> dict[str, float]:
    folder = Path(os.environ.get("HUSHTABLE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    table, schema = adult(folder)
    table = table.select(COLUMNS)
    columns = schema.to_dict()["columns"]
    schema = Schema.from_dict({"name": "Adult", "columns": {n: columns[n] for n in COLUMNS}})
    method = NoisyCounts(
        epsilon=1, delta="1e-6", k=10, mechanism=mechanism, generalize=RULES, row_count_share=share
    )
    asked = questions(schema)
    truths = [
        pc.sum(pc.and_(pc.greater_equal(table[n], a), pc.less_equal(table[n], b))).as_py()
        for _, (n, a, b) in asked
    ]
    hits = width = cells = 0.0
    with tempfile.TemporaryDirectory() as out:
        for run in range(runs):
            release = publish(table, schema, method, out=Path(out) / str(run))
            cells += release.table().num_rows
            for (where, _), truth in zip(asked, truths, strict=True):
                answer = release.count(where)
                hits += answer.low <= truth <= answer.high
                width += answer.high - answer.low
    n = runs * len(asked)
    return {"answers": n, "coverage": hits / n, "mean width": width / n, "cells": cells / runs}


if __name__ == "__main__":
    for mechanism in ("tight", "paper"):
        for share in ("0", "1/20"):
            result = measure(mechanism=mechanism, share=share)
            sys.stdout.write(f"{mechanism} row_count_share={share} {json.dumps(result)}\n")
