"""``hushtable evaluate`` writes both a report and its JSON file, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.schema import Schema

from .conftest import Run

FEW = ("--draws", 1, "--repeats", 1, "--questions", 1)


@pytest.fixture
def tables(files: Path) -> Path:
    """Create a small private table, a plain table and a control table."""
    for name, start in (("private", 0), ("control", 800)):
        pa_csv.write_csv(sample().slice(start, 800), files / f"{name}.csv")
    return files


def test_a_release_is_compared_with_its_table(run: Run, tables: Path) -> None:
    done = run(
        "publish", "diffgen", tables / "private.csv", tables / "schema.yaml",
        "--out", tables / "release", "--epsilon", "2",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = run(
        "evaluate", tables / "release", tables / "private.csv", "--control", tables / "control.csv",
        "--out", tables / "report.html", "--json", tables / "report.json", *FEW,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "Count queries" in done.out
    assert "do not publish" in done.out
    content = json.loads((tables / "report.json").read_text())
    assert content["reproduce"]["control"]
    assert content["reproduce"]["command"].startswith("hushtable evaluate ")
    assert content["release"]["method"] == "diffgen"
    assert "INTERNAL" in (tables / "report.html").read_text()
    assert done.err == ""  # the progress bar is only shown in terminals


def test_a_plain_table_needs_a_schema(run: Run, tables: Path) -> None:
    private = tables / "private.csv"
    assert run("evaluate", private, private, *FEW).code == 2
    done = run(
        "evaluate", private, private, "--schema", tables / "schema.yaml", "--json", "-", *FEW
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["utility"]["pairs"]["largest"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "report.pdf"), "must end in .html"),
        (("--out", "schema.yaml"), "exists"),
        (("--json", "nowhere/report.json"), "does not exist"),
        (("--target", "nobody"), "'nobody' is not a published column"),
    ],
)
def test_impossible_requests_are_refused_before_the_work(
    run: Run,
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, str],
    message: str,
) -> None:
    monkeypatch.chdir(tables)
    before = sorted(tables.iterdir())
    done = run("evaluate", "private.csv", "private.csv", "--schema", "schema.yaml", *options)
    assert done.code == 2
    assert message in done.err
    assert sorted(tables.iterdir()) == before


def test_an_interrupt_leaves_nothing(
    run: Run, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hushtable.evaluation.utility import closeness

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(closeness, "run_workload", interrupted)
    before = sorted(tables.iterdir())
    private = tables / "private.csv"
    done = run(
        "evaluate", private, private, "--schema", tables / "schema.yaml",
        "--out", tables / "report.html", *FEW,
    )  # fmt: skip
    assert done.code == 130
    assert sorted(tables.iterdir()) == before


def test_a_broken_table_is_named_by_column_and_rule(run: Run, tables: Path) -> None:
    private = tables / "private.csv"
    broken = tables / "broken.csv"
    broken.write_text(private.read_text().replace("harbor", "Atlantis"))
    strict = tables / "strict.yaml"
    public = sample_schema().to_dict()
    public["columns"]["region"]["outside"] = "refuse"
    strict.write_text(Schema.from_dict(public).to_yaml())
    done = run("evaluate", private, broken, "--schema", strict, *FEW)
    assert done.code == 1
    assert "column 'region'" in done.err
    assert "Atlantis" not in done.err
