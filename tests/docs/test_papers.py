"""The pages of the papers show what was measured, and one point of each figure comes out again.

A point is the mean of so many runs. The mean of a few more must lie within 6 standard errors of the
difference, by the largest standard deviation among several points, or within 12 by that of ten runs
of one point (Student's t): normal errors fail that less than once in a million. These tests find a
wrong mechanism or another protocol, not a shift of a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.papers import alpha_beta_figures as alpha_beta
from benchmarks.papers import diffgen_figures as diffgen
from benchmarks.papers.__main__ import PAPERS
from benchmarks.papers.drawing import drawn
from benchmarks.papers.figure import PAGES, Point, kept
from benchmarks.papers.page import filled

from hushtable import DiffGen, publish

Release = tuple[np.ndarray, np.ndarray]
WRITTEN = [paper for paper in PAPERS if (PAGES / f"{paper}.md").exists()]


def allowed(points: Sequence[Point], runs: int, again: int = 1) -> float:
    """Say how far the mean of some runs may lie from a mean of so many."""
    errors = 6 if len(points) > 1 else 12
    largest = max((point.high - point.low) / 2 for point in points) * np.sqrt(runs)
    return float(errors * largest * np.sqrt(1 / runs + 1 / again))


@pytest.mark.parametrize("paper", WRITTEN)
def test_tables_and_drawings_are_those_of_the_points(paper: str) -> None:
    figures, page = kept(paper), (PAGES / f"{paper}.md").read_text()
    assert filled(page, figures) == page, f"run python -m benchmarks.papers {paper} --draw"
    for number, figure in figures.items():
        image = f"images/{paper}-{number}.svg"
        assert (PAGES / image).read_text() == drawn(figure)
        assert image in page, f"{image} is not shown"
        assert f"<!-- points of {number} -->" in page


@pytest.mark.parametrize("paper", WRITTEN)
def test_every_figure_of_a_paper_was_measured(paper: str) -> None:
    listed: set[str] = set()
    for module in PAPERS[paper]:
        listed |= set(import_module(f"benchmarks.papers.{module}").FIGURES)
    assert listed == set(kept(paper))


@pytest.mark.parametrize("paper", WRITTEN)
def test_every_page_gives_a_verdict_for_each_claim(paper: str) -> None:
    page = (PAGES / f"{paper}.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", page.split("## Verdicts")[1], re.M)
    verdicts = {"holds", "holds with repairs", "does not hold here", "not checked"}
    assert len(rows) > 3
    assert set(rows) - {"verdict"} <= verdicts


@pytest.fixture(scope="module")
def one_release(shared_data: Path) -> Release:
    """Give paper 004's true counts and estimates of one release with the smallest beta."""
    table, schema = alpha_beta.adult_of_the_paper(shared_data)
    method = alpha_beta.methods(table.num_rows)["minimal beta"]
    return alpha_beta.one_release(method, table, schema, alpha_beta.codes_of(table, schema))


def test_004_figure_2(one_release: Release) -> None:
    # Quantiles of 300,000 estimates of tuples that do not occur: one release tells them well.
    true, estimate = one_release
    point = kept("004")["2"]["minimal beta"]["estimate"].at(0)
    low, high = np.quantile(estimate[true == 0], (0.05, 0.95))
    assert abs((high - low) / (point.high - point.low) - 1) < 0.1


def test_004_figure_3(one_release: Release) -> None:
    curve = kept("004")["3"]["average error"]["minimal beta"]
    tolerance = allowed([point for point in curve.points if point.x <= 100], 10)
    assert abs(alpha_beta.average_error(*one_release, 30) - curve.at(30).y) <= tolerance
    other = kept("004")["3"]["average error"]["printed beta"].at(30).y
    assert abs(other - curve.at(30).y) > tolerance  # another beta would be noticed


@pytest.mark.long
def test_004_figure_3_ratio(shared_data: Path, one_release: Release) -> None:
    table, schema = alpha_beta.adult_of_the_paper(shared_data)
    frapp = alpha_beta.methods(table.num_rows)["FRAPP"]
    other = alpha_beta.one_release(frapp, table, schema, alpha_beta.codes_of(table, schema))
    curve = kept("004")["3-ratio"]["FRAPP over it"]["minimal beta"]
    errors = [alpha_beta.average_error(*run, 30) for run in (other, one_release)]
    points = [point for point in curve.points if point.x <= 100]
    assert abs(errors[0] / errors[1] - curve.at(30).y) <= allowed(points, 10)


@pytest.mark.parametrize(("number", "score"), [("3a", "max"), ("3b", "information-gain")])
def test_003_figure_3(
    shared_data: Path, number: str, score: Literal["max", "information-gain"]
) -> None:
    assert shared_data
    panel = kept("003")[number][f"{score}, tight"]
    point = panel["epsilon 1"].at(16)
    method = DiffGen(epsilon=1, specializations=16, score=score)
    again = [100 * diffgen.accuracy(method, division) for division in diffgen.divisions(5)]
    tolerance = allowed([point], 10, len(again))
    assert abs(np.mean(again) - point.y) <= tolerance
    assert point.y - panel.levels["LA"] > tolerance  # a release that tells nothing is noticed


def test_003_figure_4(shared_data: Path) -> None:
    assert shared_data
    curve = kept("003")["4"]["ten folds"]["DiffGen as it is by default"]
    folds = diffgen.divisions(**diffgen.FOLDS)[:3]
    again = [100 * diffgen.accuracy(DiffGen(epsilon=1), fold) for fold in folds]
    assert abs(np.mean(again) - curve.at(1).y) <= allowed(curve.points, 10, len(again))


def test_003_figure_5(shared_data: Path, tmp_path: Path) -> None:
    # Seconds are those of one machine and not compared: the rows that were timed are.
    assert shared_data
    diffgen.blown_up(20_000, tmp_path / "rows.parquet")
    table, schema = diffgen.table_and_schema()
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows.schema.names == table.schema.names
    method = DiffGen(epsilon=1, specializations=15, score="max")
    release = publish(tmp_path / "rows.parquet", schema, method, out=tmp_path / "out")
    total = release.count("age >= 0")  # its noise is known: ten standard deviations of it
    assert abs(total.value - 20_000) <= 10 * total.std + 1
