"""The command `reproduce`: compares new points with saved ones, and writes to a new folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushtable_papers import data_sets
from hushtable_papers.comparison import differences
from hushtable_papers.figure import Curve, Figure, Panel, Point, kept, load


def figure(y: float, error: float, repetitions: int) -> Figure:
    points = [Point(x, y, y - error, y + error) for x in (1.0, 2.0)]
    panel = Panel("one", [Curve("a", points), Curve("paper", points, printed=True)])
    return Figure("1", "title", "x", "y", "runs", repetitions, [panel])


@pytest.mark.parametrize(("y", "explained"), [(10.0, True), (14.0, True), (40.0, False)])
def test_only_differences_beyond_six_errors_are_reported(y: float, explained: bool) -> None:
    # Ten runs with a standard error of 1 and two new runs: 6 * sqrt(10) * sqrt(1/2 + 1/10) = 14.7.
    found = differences(figure(y, 0, 2), figure(10, 1, 10))
    assert [one.is_explained for one in found] == [explained] * 2  # printed values are left out
    assert found[0].allowed == pytest.approx(14.7, abs=0.05)


def test_run_times_are_not_compared() -> None:
    assert differences(figure(10, 1, 3), figure(20, 1, 0)) == []
    assert kept("mohammed-2011")["5"].repetitions == 0


def test_an_exact_figure_is_reproduced(run, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    done = run("reproduce", "li-2009", "--figures", "1", "--out", out, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["figures"]["1"]
    assert found["compared"] > 100
    assert not found["outside"]
    assert load(out / "points.json").keys() == {"1"}
    assert "<svg" in (out / "figure-1.svg").read_text()
    assert "Columns: frequency" in (out / "report.md").read_text()
    again = run("reproduce", "li-2009", "--figures", "1", "--out", out)
    assert again.code == 2
    assert "exists" in again.err


def test_missing_data_are_named_with_their_source(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HUSHTABLE_DATA", str(tmp_path))
    done = run("reproduce", "rastogi-2007", "--out", tmp_path / "figures")
    assert done.code == 2
    assert "adult_all.csv.gz is missing" in done.err
    assert "archive.ics.uci.edu" in done.err
    assert not (tmp_path / "figures").exists()
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "tds_taxonomytree.json").write_text("{}")
    assert any("other content" in problem for problem in data_sets.problems("adult"))


def test_unknown_papers_and_figures_are_refused(run, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    assert "li-2009" in run("reproduce", "li-2010", "--out", out).err
    assert "it has 1, 2" in run("reproduce", "li-2009", "--figures", "9", "--out", out).err


def test_data_sets_are_those_that_were_measured(shared_data: Path, monkeypatch) -> None:
    monkeypatch.setenv("HUSHTABLE_DATA", str(shared_data))
    assert not any(data_sets.problems(name) for name in data_sets.DATA_SETS)
