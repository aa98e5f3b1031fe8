"""``hushtable series``: from a plan to a trend, in commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from .conftest import Run

SCHEMA = """
name: people
unit: {kind: person, column: id, max_rows: 1}
columns:
  id: {role: identifier}
  age: {type: integer, low: 0, high: 9}
  sex: {type: categorical, values: [f, m]}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    for wave in (1, 2, 3):
        age, row = np.arange(2000) % 10, np.arange(2000)
        sex = np.where(row < 900 + 50 * wave, "f", "m")
        table = pa.table({"id": row, "age": age, "sex": sex})
        pa_csv.write_csv(table, tmp_path / f"{wave}.csv")
    return tmp_path


def test_a_series_from_plan_to_trend(run: Run, files: Path) -> None:
    folder = files / "series"
    made = run("series", "init", folder, files / "schema.yaml", "--epsilon", "6", "--delta",
               "1e-6", "--waves", "3", "--rows", "2000")  # fmt: skip
    assert made.code == 0, made.err
    said = " ".join(made.out.split())
    assert "no data was read" in said
    for word in ("level, from one wave", "change since the previous wave", "trend over all"):
        assert word in said
    for wave in (1, 2, 3):
        done = run("series", "publish", folder, files / f"{wave}.csv")
        assert done.code == 0, done.err
        assert f"waves/{wave:03}" in "".join(done.out.split())
    shown = json.loads(run("series", "show", folder, "--json").out)
    assert [release["wave"] for release in shown["releases"]] == [1, 2, 3]
    assert shown["left"] == 1
    told = run("series", "show", folder).out
    assert "epsilon 6 and delta 0.000001" in told
    assert "Releases left: 1" in told
    level = json.loads(run("series", "count", folder, "sex = 'f'", "--json").out)
    assert abs(level["value"] - 1050) < 100
    rise = json.loads(run("series", "change", folder, "sex = 'f'", "--from", "1", "--json").out)
    assert rise["what"] == "change from wave 1 to wave 3"
    assert abs(rise["value"] - 100) < 100
    drawn = run("series", "trend", folder, "sex = 'f'", "--plot", files / "t.svg")
    assert "rise per wave, waves 1-3" in drawn.out
    assert "by wave" in (files / "t.svg").read_text()
    again = run("series", "publish", folder, files / "3.csv", "--wave", "3")
    assert again.code == 2
    assert "nothing was charged" in again.err
    fixed = run("series", "publish", folder, files / "3.csv", "--wave", "3", "--correct", "typing")
    assert fixed.code == 0, fixed.err
    assert "003-correction-1" in "".join(fixed.out.split())


def test_what_cannot_be_planned_makes_no_folder(run: Run, files: Path) -> None:
    folder = files / "series"
    for options in (["--waves", "0"], [], ["--waves", "2", "--horizon", "3"]):
        told = run("series", "init", folder, files / "schema.yaml", "--epsilon", "1", "--delta",
                   "1e-6", *options)  # fmt: skip
        assert told.code == 2
        assert not folder.exists()
    told = run("series", "init", folder, files / "schema.yaml", "--epsilon", "1", "--delta", "1e-6",
               "--horizon", "12", "--json")  # fmt: skip
    assert json.loads(told.out)["expected"]["waves"] == 24
    assert run("series", "count", folder, "age > 3").code == 1  # nothing is published
    assert run("series", "trend", folder, "age > 3", "--plot", files / "x.png").code == 2


def test_a_panel_from_plan_to_people(run: Run, files: Path) -> None:
    folder = files / "panel"
    made = run("series", "init", folder, files / "schema.yaml", "--epsilon", "6", "--delta",
               "1e-6", "--waves", "3", "--rows", "2000", "--panel")  # fmt: skip
    assert made.code == 0, made.err
    assert "transitions between two values" in made.out
    assert run("series", "publish", folder, files / "1.csv").code == 0
    alone = run("series", "publish", folder, files / "2.csv")
    assert alone.code == 2
    assert "--before" in alone.err
    done = run("series", "publish", folder, files / "2.csv", "--before", files / "1.csv")
    assert done.code == 0, done.err
    assert "A panel of 3 waves" in run("series", "show", folder).out
    found = json.loads(run("series", "transitions", folder, "sex", "--from", "1", "--json").out)
    assert found["until"] == 2
    went = {(row["before"], row["now"]): row["people"] for row in found["transitions"]}
    assert abs(went["f", "f"] - 950) < 100
    assert abs(went["m", "f"] - 50) < 100
    told = run("series", "transitions", folder, "sex", "--from", "1")
    assert "share of origin" in told.out
    some = run("series", "moved", folder, "--from", "1", "--before", "sex = 'm'", "--json")
    assert abs(json.loads(some.out)["value"] - 1050) < 150
    wrote = run("series", "panel", folder, "--out", files / "people.csv")
    assert wrote.code == 0, wrote.err
    assert pa_csv.read_csv(files / "people.csv").column_names == ["wave", "person", "age", "sex"]
    late = run("series", "transitions", folder, "sex", "--from", "2")
    assert late.code == 2
    assert "people were not followed from wave 2" in " ".join(late.err.split())
