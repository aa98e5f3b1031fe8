"""``hushtable compare`` on two releases."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pytest
from rich.console import Console

from hushtable.cli.compare import _show
from hushtable.datasets import sample

from .conftest import Run


def test_table_page_and_numbers(run: Run, files: Path) -> None:
    pa_csv.write_csv(sample().slice(0, 1000), files / "data.csv")
    for name, k in (("one", 5), ("two", 10)):
        made = run(
            "publish", "generalize-suppress", files / "data.csv", files / "schema.yaml", "--out",
            files / name, "--k", k, "--generalize", "age=20", "--generalize", "region=1",
        )  # fmt: skip
        assert made.code == 0
    few = ("--repeats", 1, "--questions", 1)
    both = ("compare", files / "data.csv", files / "one", files / "two", *few)
    page = files / "compare.html"
    result = run(*both, "--out", page, "--json", files / "compare.json")
    assert result.code == 0
    assert "Internal" in result.out
    assert page.read_text().startswith("<!doctype html>")
    content = json.loads((files / "compare.json").read_text())
    assert [release["name"] for release in content["releases"]] == ["one", "two"]
    again = run(*both, "--out", page)
    assert again.code == 2
    assert "exists" in again.err


def test_wrong_usage_is_reported_before_any_work(run: Run, files: Path) -> None:
    assert run("compare", files / "data.csv").code == 2
    wrong = run("compare", files / "data.csv", files / "absent", "--out", files / "page.pdf")
    assert wrong.code == 2
    absent = run("compare", files / "data.csv", files / "absent")
    assert absent.code == 1
    assert "not a release" in absent.err


def test_every_folder_that_is_not_a_release_is_named(run: Run, files: Path) -> None:
    (files / "empty").mkdir()
    done = run("compare", files / "data.csv", files / "absent", files / "empty")
    assert (done.code, done.out) == (1, "")
    assert "absent' is not a release" in done.err
    assert "empty' is not a release" in done.err


def content(n_releases: int) -> dict[str, Any]:
    """Make a comparison whose numbers are wide."""

    def figure(name: str, kind: str, value: Any) -> dict[str, Any]:
        values = [{"value": value}] * (n_releases - 1) + [None]
        return {"group": "size", "name": name, "better": "lower", "kind": kind, "values": values}

    return {
        "releases": [
            {"name": f"a-release-with-a-long-name-{n}", "verdict": "good for single columns"}
            for n in range(n_releases)
        ],
        "figures": [
            figure("method", "text", "top-down-specialization"),
            figure("epsilon", "number", 0.125),
            figure("published rows", "number", 1_212_056_789),
            figure("count queries, median relative error", "share", 0.123),
            figure("triples of columns, mean total variation", "distance", 0.0712),
        ],
        "notes": ["A note."],
    }


@pytest.mark.parametrize("width", [10, 40, 80, 120, 200])
@pytest.mark.parametrize("n_releases", [2, 3, 7])
def test_numbers_are_whole_on_every_screen(width: int, n_releases: int) -> None:
    screen = Console(width=width, file=io.StringIO())
    _show(content(n_releases), screen)
    told = screen.file.getvalue()  # type: ignore[attr-defined]
    assert told.count("good for single columns") == n_releases
    assert "…" not in told
    for number in ("0.125", "1,212,056,789", "12.3%", "0.071"):
        assert told.count(number) == n_releases - 1
    for letters in ("top-down-specialization", "A note."):
        assert letters in told
    n_tables = told.count("published rows")
    if width == 80:
        assert n_tables == n_releases
        tables = [line for line in told.splitlines() if "good for" not in line]
        assert max(map(len, tables)) <= 80
    if width == 200 and n_releases == 3:
        assert n_tables == 1
