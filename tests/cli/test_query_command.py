"""``hushtable query`` means, quantiles and regressions, and files with the answers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from hushtable.web import explorer_page

from .conftest import Run


@pytest.fixture
def release(run: Run, files: Path) -> Path:
    done = run(
        "publish", "contingency-table", files / "data.csv", files / "schema.yaml",
        "--out", files / "release", "--epsilon", "2",
    )  # fmt: skip
    assert done.code == 0, done.err
    return files / "release"


def test_questions(run: Run, release: Path) -> None:
    table = run("query", release, "--by", "sex", "--by", "smoker")
    assert table.code == 0, table.err
    assert table.out.startswith("| sex | smoker ")
    assert len([line for line in table.out.splitlines() if line.startswith("|")]) == 2 + 2 * 3
    means = json.loads(run("query", release, "--mean", "age", "--by", "sex", "--json").out)
    assert [mean["sex"] for mean in means] == ["F", "M"]
    assert all(mean["low"] <= mean["value"] <= mean["high"] for mean in means)
    half = json.loads(run("query", release, "sex = 'F'", "--quantile", "age:0.5", "--json").out)
    assert half["what"] == "median of age"
    fitted = run("query", release, "--regress", "age ~ C(sex)")
    assert "C(sex)[M]" in fitted.out
    wide = json.loads(run("query", release, "age < 40", "--population", "--json").out)
    narrow = json.loads(run("query", release, "age < 40", "--json").out)
    assert wide["scope"] == "population"
    assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]


def test_more_questions(run: Run, release: Path) -> None:
    described = run("describe", release, "age", "sex")
    assert described.out.startswith("| column | type ")
    rows = json.loads(run("describe", release, "sex", "--json").out)
    assert [row["statistic"] for row in rows] == ["F", "M"]
    share = json.loads(run("query", release, "--share", "smoker = 'yes'", "--json").out)
    assert 0 <= share["low"] <= share["value"] <= share["high"] <= 1
    query = "SELECT sex, count(*) FROM release WHERE age > 20 GROUP BY sex"
    asked = run("query", release, "--sql", query)
    assert asked.out == run("query", release, "age > 20", "--by", "sex").out
    both = run("query", release, "--sql", query, "--by", "sex")
    assert both.code == 2
    assert "GROUP BY in the query" in both.err


def test_metadata_come_with_a_release(run: Run, release: Path, files: Path) -> None:
    names = {"croissant.json", "datapackage.json", "dcat.jsonld", "ddi.xml"}
    assert run("metadata", release, "--out", files / "about", "--publisher", "An agency").code == 0
    assert {path.name for path in (files / "about").iterdir()} == names
    refused = run("metadata", release, "--out", files / "data.csv")
    assert refused.code == 1
    assert "cannot write" in refused.err
    assert names < {path.name for path in release.iterdir()}


def test_an_explorer_comes_with_a_release_that_is_quickly_asked(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_written(*options: str) -> bool:
        out = files / "-".join(["out", *options])
        done = run(
            "publish", "contingency-table", files / "data.csv", files / "schema.yaml",
            "--columns", "sex,smoker", "--out", out, "--epsilon", "2", *options,
        )  # fmt: skip
        assert done.code == 0, done.err
        return (out / "explore.html").exists()

    assert is_written("--explore")
    assert not is_written()  # the fixture sets a limit of 0 cells
    monkeypatch.setattr(explorer_page, "FEW_CELLS", 10)
    assert is_written("--json")
    assert not is_written("--no-explore")


def test_files(run: Run, release: Path, files: Path) -> None:
    made = run(
        "query", release, "--mean", "age", "--by", "region",
        "--csv", files / "means.csv", "--plot", files / "means.svg",
    )  # fmt: skip
    assert made.code == 0, made.err
    with (files / "means.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == ["region", "value", "low", "high"]
    assert (files / "means.svg").read_text().count("<circle") == len(rows)


def test_invalid_questions_are_refused_at_once_and_leave_no_file(
    run: Run, release: Path, files: Path
) -> None:
    (files / "there.csv").write_text("")
    done = run(
        "query", release, "--mean", "age", "--quantile", "age", "--logistic",
        "--csv", files / "there.csv", "--plot", files / "plot.png",
    )  # fmt: skip
    assert done.code == 2
    for said in ("choose one", "COLUMN:PROBABILITY", "--logistic", "exists", ".svg"):
        assert said in done.err
    assert not (files / "plot.png").exists()
    both = run("query", release, "--mean", "sex", "--by", "nosuch")
    assert both.code == 2
    assert "is categorical" in both.err
    assert "'nosuch'" in both.err
    assert "no question is given" in run("query", release).err


def test_all_problems_of_a_question_are_reported_together(run: Run, release: Path) -> None:
    done = run("query", release, "age < 0", "--quantile", "sex:2", "--by", "nosuch")
    assert (done.code, done.out) == (2, "")
    said = " ".join(done.err.split())
    for words in ("'sex' is categorical", "'nosuch' is not a published column",
                  "the quantile is 2.0; it must be", "no row can satisfy"):  # fmt: skip
        assert words in said
    done = run("query", release, "age < 0", "--regress", "exp(age) ~ nosuch + sex")
    assert (done.code, done.out) == (2, "")
    said = " ".join(done.err.split())
    for words in ("'exp(age)' is not a valid term", "'nosuch' is not a published column",
                  "write C(sex)", "no row can satisfy"):  # fmt: skip
        assert words in said
