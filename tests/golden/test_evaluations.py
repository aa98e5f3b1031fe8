"""Evaluations of one release of every method: the numbers match the stored ones.

Custodians read these numbers. If they change, check the change and store the new ones:
``PYTHONPATH=tests python tests/golden/test_evaluations.py [METHOD ...]``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contract.examples import EXAMPLES, is_numeric, schema, table
from hushtable import Columns, Degrees, Release, Schema, SeededNoise, evaluate, publish
from hushtable.publishing.publish import publish_graph

RECORD = Path(__file__).with_name("evaluations.json")
FEW = {"n_draws": 2, "n_repeats": 1, "questions": 2}
FIRST = {method.name: method for method in reversed(EXAMPLES)}
N_ROWS = 1500

EXACT, CLOSE = 1e-6, 0.03  # results of models and attacks may differ between library versions


def one_release(name: str, folder: Path) -> tuple[Release, Any]:
    """Publish some rows of the sample, ratings or a graph with seeded noise."""
    noise = SeededNoise(8)
    if name == "degrees":
        draw = np.random.default_rng(1)
        edges = [(int(a), int(b)) for a, b in draw.integers(0, 400, (900, 2)) if a != b]
        method = Degrees(epsilon=2, max_degree=30)
        release = publish_graph(edges, method, nodes=range(400), out=folder, noise=noise)
        return release, edges
    if name == "columns of items":
        rows, public = ratings()
        method_ = Columns(
            epsilon=20, delta="1e-4", k=5, max_columns=3, item="movie", value="rating",
            max_values=9, count_share="1/20",
            columns=[["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6", "m7", "m8"]],
        )  # fmt: skip
        return publish(rows, public, method_, out=folder, noise=noise), rows
    chosen = FIRST[name]
    rows = table(chosen).slice(0, N_ROWS)
    return publish(rows, schema(chosen), chosen, out=folder, noise=noise), rows


def ratings() -> tuple[pa.Table, Schema]:
    draw = np.random.default_rng(7)
    user, movie = np.nonzero(draw.random((1500, 9)) < 0.4)
    rating = np.clip(draw.integers(1, 5, 1500)[user] + draw.integers(0, 2, len(user)), 1, 5)
    movies = [f"m{number}" for number in range(9)]
    public = {
        "name": "ratings (generated)",
        "unit": {"kind": "person", "column": "user", "max_rows": 9},
        "columns": {
            "user": {"role": "identifier"},
            "movie": {"type": "categorical", "values": movies},
            "rating": {"type": "integer", "low": 1, "high": 5},
        },
    }
    rows = {"user": user, "movie": [movies[m] for m in movie], "rating": rating}
    return pa.table(rows), Schema.from_dict(public)


def numbers(name: str) -> dict[str, dict[str, float]]:
    """Evaluate one release and return the numbers to store."""
    with tempfile.TemporaryDirectory() as folder:
        release, data = one_release(name, Path(folder) / "release")
        nodes = range(400) if name == "degrees" else None
        content = evaluate(release, data, nodes=nodes, hold_back=False, **FEW).to_dict()
    utility, risk = content["utility"], content["risk"]
    exact = {
        f"{column['name']}: {m['metric']}": m["value"]
        for column in utility["columns"]
        for m in column["measured"]
    }
    for sets in ("pairs", "triples"):
        if utility[sets]:
            exact[f"{sets}: mean"] = utility[sets]["mean"]["value"]
            exact[f"{sets}: independent"] = utility[sets]["independent"]
    overall = utility["workload"]["lines"][0]
    exact["workload: mean relative error"] = overall["mean_relative_error"]["value"]
    exact["workload: coverage"] = overall["coverage"]["value"]
    close = {
        f"{line['model']} on {line['trained_on']}": line["accuracy"]["value"]
        for line in (utility["learning"] or {"lines": []})["lines"]
    }
    for attack in risk.get("attacks", []):
        close[f"{attack['name']}: {attack['of']}"] = attack["attack"]["value"]
    return {"exact": exact, "close": close}


NAMES = [*FIRST, "degrees", "columns of items"]


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_on_record(name: str) -> None:
    known, found = json.loads(RECORD.read_text())[name], numbers(name)
    assert found["exact"] == pytest.approx(known["exact"], rel=EXACT, abs=EXACT)
    assert found["close"] == pytest.approx(known["close"], abs=CLOSE)


def test_every_method_is_on_record() -> None:
    from hushtable.methods import METHODS

    assert set(json.loads(RECORD.read_text())) == {*METHODS, "degrees", "columns of items"}
    assert all(is_numeric(method) or schema(method).target for method in FIRST.values())


if __name__ == "__main__":
    recorded = json.loads(RECORD.read_text())
    recorded |= {name: numbers(name) for name in sys.argv[1:] or NAMES}
    RECORD.write_text(json.dumps({name: recorded[name] for name in NAMES}, indent=1) + "\n")
