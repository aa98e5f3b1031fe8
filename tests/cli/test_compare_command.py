"""``hushtable compare`` on two releases."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pa_csv

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


def test_wrong_usage_is_said_before_any_work(run: Run, files: Path) -> None:
    assert run("compare", files / "data.csv").code == 2
    wrong = run("compare", files / "data.csv", files / "absent", "--out", files / "page.pdf")
    assert wrong.code == 2
    absent = run("compare", files / "data.csv", files / "absent")
    assert absent.code == 1
    assert "not a release" in absent.err
