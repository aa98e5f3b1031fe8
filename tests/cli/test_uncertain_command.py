"""Every kind of option of `uncertain`: choices, numbers, lists with commas, mappings, a column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hushtable.release.release import Release
from seeds import shifted

from .conftest import Run

SCHEMA = """\
name: t
columns:
  age: {type: integer, low: 0, high: 99, missing: other}
  wait: {type: number, low: 0, high: 12, step: 0.25, missing: other}
  ward: {type: categorical, values: [a, b], missing: other}
  need: {type: integer, low: 0, high: 1, missing: other}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(shifted(3))
    rows = [
        f"{rng.integers(100)},{rng.integers(49) / 4},{'ab'[i % 2]},{rng.integers(2)}"
        for i in range(200)
    ]
    data, schema = tmp_path / "data.csv", tmp_path / "schema.yaml"
    data.write_text("\n".join(["age,wait,ward,need", *rows]))
    schema.write_text(SCHEMA)
    return data, schema


def test_plan_and_publish_and_query(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    data, schema = files
    options = [
        "--k", 3, "--eta", "1/5", "--carry", "ward", "--scales", "age=20.5", "--k-column", "need",
        "--k-by", "1=6", "--model", "uniform", "--local", "--local-floor", "0.2",
    ]  # fmt: skip
    plan = run("plan", "uncertain", schema, *options, "--rows", 200)
    assert plan.code == 0, plan.err
    assert "at least 3 records" in " ".join(plan.out.split())
    assert "has no epsilon to choose" in " ".join(plan.out.split())
    made = run("publish", "uncertain", data, schema, "--out", tmp_path / "out", *options, "--json")
    assert made.code == 0, made.err
    parameters = json.loads(made.out)["parameters"]
    assert parameters["k_by"] == {"1": 6}
    assert parameters["carry"] == ["ward"]
    assert parameters["scales"] == {"age": 20.5}
    release = Release.load(tmp_path / "out")
    assert release.frame().column_names == ["age", "wait", "ward"]
    assert release.table().column_names == ["age", "wait", "ward", "age_std", "wait_std"]
    asked = run("query", tmp_path / "out", "age >= 40 AND ward = 'a'", "--json")
    answer = json.loads(asked.out)
    assert answer["low"] <= answer["value"] <= answer["high"] <= 100


def test_wrong_options_are_all_named(run: Run, files: tuple[Path, Path]) -> None:
    result = run("plan", "uncertain", files[1], "--k", 1, "--eta", 2, "--scales", "age=0")
    assert result.code == 2
    assert "k is 1" in result.err
    assert "eta is 2" in result.err
    assert "scales['age']" in result.err
