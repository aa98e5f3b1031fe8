"""Reports of one release of every method on real data, in a browser.

Set ``HUSHTABLE_SCREENSHOTS`` to a folder to keep the pages, screenshots and prints.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from browser import CHROMIUM, Browser
from hushtable import Degrees, Release, Schema, evaluate, publish
from hushtable.datasets import sample, sample_schema
from hushtable.evaluation.compare import compare
from hushtable.methods import METHODS
from hushtable.publishing.publish import publish_graph
from hushtable_papers.adult import adult

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

FINE = ["age", "workclass", "education", "marital-status", "sex", "hours-per-week", "income"]
SMALL = ["education", "marital-status", "sex", "income"]
NUMBERS = ["age", "hours-per-week", "education-num", "sex"]
COARSE = {"age": 25, "education": 1, "hours-per-week": 33}

PARAMETERS: dict[str, dict[str, Any]] = {
    "alpha-beta": {"prior_factor": 1, "n_public": 20_000, "gamma": "1/2"},
    "columns": {
        "epsilon": 2, "delta": "1e-6", "k": 10, "max_columns": 2, "generalize": COARSE,
        "columns": [["age", "sex", "income"], ["workclass", "education", "income"]],
    },
    "condensation": {"k": 10, "carry": ["sex"]},
    "contingency-table": {"epsilon": 1},
    "diffgen": {"epsilon": 1, "specializations": 8},
    "frapp": {"retention": "1/5"},
    "generalize-suppress": {"k": 5, "generalize": COARSE},
    "noisy-counts": {"epsilon": 1, "delta": "1e-6", "k": 10, "generalize": COARSE},
    "partition": {"epsilon": 1},
    "quilt": {"epsilon": 1},
    "top-down-specialization": {"k": 10},
    "uncertain": {"k": 5, "carry": ["sex"]},
}  # fmt: skip

NAMES = [*METHODS, "degrees", "ratings"]


@cache
def some_of_adult(folder: Path, names: tuple[str, ...]) -> tuple[pa.Table, Schema]:
    table, schema = adult(folder)
    columns = {name: schema.to_dict()["columns"][name] for name in names}
    return table.select(names), Schema.from_dict({"name": "Adult", "columns": columns})


def one_release(name: str, shared: Path, out: Path) -> tuple[Release, Any, Any]:
    """Publish, and return the release with its original and a control table."""
    if name == "degrees":
        edges = shared / "graphs" / "snap_ego-Facebook.edges.txt.gz"
        method = Degrees(epsilon=1, population="endpoints")
        return publish_graph(edges, method, out=out), edges, None
    if name == "ratings":
        return publish_ratings(shared, out)
    columns = {"contingency-table": SMALL, "uncertain": NUMBERS, "condensation": NUMBERS}
    table, schema = some_of_adult(shared, tuple(columns.get(name, FINE)))
    n = 2_500 if columns.get(name) is NUMBERS else 15_000
    private, control = table.slice(0, n), table.slice(n, 5_000)
    return publish(private, schema, METHODS[name](**PARAMETERS[name]), out=out), private, control


def publish_ratings(shared: Path, out: Path) -> tuple[Release, Any, Any]:
    with gzip.open(shared / "ratings" / "ml-100k_u.data.gz") as file:
        rows = pa_csv.read_csv(
            file,
            read_options=pa_csv.ReadOptions(column_names=["user", "item", "rating", "time"]),
            parse_options=pa_csv.ParseOptions(delimiter="\t"),
            convert_options=pa_csv.ConvertOptions(column_types={"item": pa.string()}),
        ).drop(["time"])
    items = [str(number) for number in range(1, 1683)]
    schema = Schema.from_dict(
        {
            "name": "MovieLens 100k",
            "unit": {"kind": "person", "column": "user", "max_rows": 800},
            "columns": {
                "user": {"role": "identifier"},
                "item": {"type": "categorical", "values": items},
                "rating": {"type": "integer", "low": 1, "high": 5},
            },
        }
    )
    method = METHODS["columns"](
        epsilon=60, delta="1e-4", k=5, max_columns=20, max_values=100, count_share="1/20",
        item="item", value="rating", columns=[items[i : i + 5] for i in range(0, 300, 5)],
    )  # fmt: skip
    return publish(rows, schema, method, out=out), rows, None


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def test_every_method_has_a_report() -> None:
    assert set(PARAMETERS) == set(METHODS)


@pytest.mark.parametrize("name", NAMES)
def test_the_report_opens_without_console_messages(
    name: str, browser: Browser, shared_data: Path, tmp_path: Path
) -> None:
    release, private, control = one_release(name, shared_data, tmp_path / "release")
    found = evaluate(release, private, control=control, n_repeats=2)
    folder = Path(os.environ.get("HUSHTABLE_SCREENSHOTS", tmp_path))
    page = folder / f"{name}.html"
    page.unlink(missing_ok=True)
    found.write_html(page)
    assert page.stat().st_size < 1_000_000

    for look, width, dark in (("light", 1000, False), ("dark", 1000, True), ("phone", 380, False)):
        browser.open(page, width=width, dark=dark)
        assert browser.requests == [page.as_uri()]
        assert browser.complaints == []
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert browser.value("document.querySelectorAll('h2').length") == 6
        background = browser.value("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(18, 22, 27)" if dark else "rgb(255, 255, 255)")
        # Nothing is drawn outside of its plot.
        assert browser.value(OUTSIDE) == 0
        browser.screenshot(folder / f"{name}-{look}.png")
    browser.print(folder / f"{name}.pdf")
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_labels_of_a_comparison_do_not_overlap(browser: Browser, tmp_path: Path) -> None:
    rows, schema = sample().slice(0, 1_000), sample_schema()
    releases = [tmp_path / f"release-number-{k}" for k in (2, 3, 5, 8)]
    for k, out in zip((2, 3, 5, 8), releases, strict=True):
        publish(rows, schema, METHODS["generalize-suppress"](k=k, generalize={"age": 20}), out=out)
    found = compare(rows, releases, n_repeats=1, questions=1)
    folder = Path(os.environ.get("HUSHTABLE_SCREENSHOTS", tmp_path))
    page = folder / "compare.html"
    page.unlink(missing_ok=True)
    found.write_html(page)
    for look, width in (("light", 1000), ("phone", 380)):
        browser.open(page, width=width)
        assert browser.complaints == []
        assert browser.value("document.querySelectorAll('svg').length") >= 8
        assert browser.value(OUTSIDE) == 0
        assert browser.value(OVERLAPPING) == 0
        browser.screenshot(folder / f"compare-{look}.png")


OVERLAPPING = """
[...document.querySelectorAll('svg')].filter(svg => {
  const boxes = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  return boxes.some((a, i) => boxes.slice(i + 1).some(b =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1));
}).length
"""


OUTSIDE = """
[...document.querySelectorAll('svg')].filter(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.children].some(part => {
    const box = part.getBoundingClientRect();
    const beside = Math.max(box.right - frame.right, frame.left - box.left);
    return beside > 14 || box.bottom > frame.bottom + 4;
  });
}).length
"""
