"""The report: complete, self-contained, escaped, and written atomically."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Evaluation, NoisyCounts, SeededNoise, evaluate, publish
from hushtable.datasets import sample, sample_schema
from hushtable.errors import ParameterError, ReleaseError
from hushtable.evaluation.report.pages import render
from hushtable.evaluation.report.plots import column_plot
from hushtable.files.writing import write_whole
from hushtable.schema import Schema
from seeds import shifted

FEW: dict[str, Any] = {"n_draws": 2, "n_repeats": 1, "questions": 2}
SECTIONS = ["promise", "spent", "utility", "risk", "parameters", "reproduce"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    rows = sample().slice(0, 1500)
    release = publish(
        rows,
        sample_schema(),
        NoisyCounts(epsilon=2, delta="1e-4", k=3, generalize={"age": 25, "diagnosis": 1}),
        out=tmp_path_factory.mktemp("report") / "release",
        noise=SeededNoise(shifted(1)),
    )
    return evaluate(release, rows, control=sample().slice(6000, 800), seed=shifted(5), **FEW)


@pytest.fixture(scope="module")
def page(found: Evaluation) -> str:
    return render(found.to_dict())


class Outline(HTMLParser):
    """Parser that collects the contents of a page and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [str(values[k]) for k in ("src", "href", "data", "action") if k in values]
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_the_page_has_all_sections_in_order(page: str) -> None:
    assert outline(page).ids == SECTIONS


def test_the_page_loads_nothing(page: str) -> None:
    parts = outline(page)
    assert "script" not in parts.tags
    assert all(link.startswith("#") or link == "data:," for link in parts.links)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(page.encode()) < 1_000_000


def test_the_page_is_marked_internal(page: str) -> None:
    assert "INTERNAL" in page.split("<body>")[1]
    assert re.search(r"@page \{[^}]*INTERNAL", page)
    assert "position: fixed" in page  # for browsers without margin boxes


def test_the_page_adapts(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page
    assert "@media print" in page
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(svgs) >= 9
    # Colors come from the page, for light and dark mode.
    assert not any(re.search(r'(fill|stroke)="|#[0-9a-f]{3,6}', svg) for svg in svgs)


def test_the_page_shows_the_numbers_of_its_json(found: Evaluation, page: str) -> None:
    content = found.to_dict()
    pairs = content["utility"]["pairs"]
    assert f"{pairs['mean']['value']:.3f}" in page
    assert all(sentence.split("'")[0] in page for sentence in content["promise"]["sentences"])
    assert "not private" in page  # seeded
    for column in content["utility"]["columns"]:
        assert all(f"{m['value']:.3f}" in page for m in column["measured"])
    for line in content["utility"]["learning"]["lines"]:
        assert f"{100 * line['accuracy']['value']:.1f}".rstrip("0").rstrip(".") in page
    assert all(attack["attacker"] for attack in content["risk"]["attacks"])
    assert "control table" in content["utility"]["learning"]["test"]


def test_every_metric_has_a_definition(found: Evaluation) -> None:
    utility = found.to_dict()["utility"]
    named = {metric["name"] for metric in utility["metrics"]}
    used = set(re.findall(r'"metric": "([^"]+)"', json.dumps(utility)))
    assert used <= named
    for metric in utility["metrics"]:
        assert metric["better"] in {"lower", "higher", "neither"}
        assert metric["meaning"].endswith(".")
        assert metric["low"] == (None if metric["better"] == "neither" else 0)


def test_values_lie_in_their_intervals_and_ranges(found: Evaluation) -> None:
    utility = found.to_dict()["utility"]
    ranges = {m["name"]: (m["low"], m["high"] or np.inf) for m in utility["metrics"]}

    def check(part: Any) -> None:
        if isinstance(part, dict) and "metric" in part:
            low, high = ranges[part["metric"]]
            assert low <= part["value"] <= high
            if part["low"] is not None:
                assert low <= part["low"] <= part["value"] <= part["high"] <= high
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                check(inner)

    check(utility)


def test_each_bar_has_its_own_number() -> None:
    """The original's share is next to its bar, and so is the release's."""
    shares = {"labels": ["a", "b"], "original": [0.2, 0.8], "published": [0.65, 0.35]}
    svg = column_plot({"name": "x", "ordered": False, "shares": shares})
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    bars = {
        (bar.attrib["class"], float(bar.attrib["y"])): float(bar.attrib["x"])
        + float(bar.attrib["width"])
        for bar in root.iter("rect")
    }
    labels = [text for text in root.iter("text") if "of-" in text.get("class", "")]
    assert [text.text for text in labels] == ["80.0%", "35.0%", "20.0%", "65.0%"]
    for text, ((kind, top), end) in zip(labels, bars.items(), strict=True):
        assert text.attrib["class"] == f"of-{kind}"
        assert 0 < float(text.attrib["x"]) - end < 6
        assert 6 <= float(text.attrib["y"]) - top <= 9


def test_names_from_the_data_are_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    schema = Schema.from_dict(
        {
            "name": evil,
            "columns": {
                evil: {"type": "categorical", "values": ["</title><script>", "b&b", "'"]},
                "n": {"type": "integer", "low": 0, "high": 40},
                "y": {"type": "categorical", "values": ["<b>", "no"], "role": "target"},
            },
        }
    )
    draw = np.random.default_rng(shifted(0))
    table = pa.table(
        {
            evil: draw.choice(["</title><script>", "b&b", "'"], 300),
            "n": draw.integers(0, 41, 300),
            "y": draw.choice(["<b>", "no"], 300),
        }
    )
    page = render(evaluate(table, table, schema=schema, command=evil, **FEW).to_dict())
    parts = outline(page)
    assert not {"img", "script"} & set(parts.tags)
    assert "<img" not in page
    assert "onerror=alert(1)>" not in page


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_a_handful_of_rows_is_reported(n_rows: int) -> None:
    rows = sample().slice(0, n_rows)
    content = evaluate(rows, rows, schema=sample_schema(), **FEW).to_dict()
    assert content["utility"]["learning"] is None
    assert outline(render(content)).ids == SECTIONS


def test_the_same_seed_gives_the_same_numbers() -> None:
    rows = sample().slice(0, 200)
    one, two, other = (
        evaluate(rows, rows, schema=sample_schema(), seed=shifted(seed), **FEW).to_dict()["utility"]
        for seed in (3, 3, 4)
    )
    assert one == two
    assert one["workload"] != other["workload"]


def test_files_are_new_and_complete(
    found: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found.write_json(tmp_path / "report.json")
    found.write_html(tmp_path / "report.html")
    assert json.loads((tmp_path / "report.json").read_text()) == found.to_dict()
    with pytest.raises(ParameterError, match="exists"):
        found.write_html(tmp_path / "report.html")
    with pytest.raises(ParameterError, match="does not exist"):
        found.write_json(tmp_path / "nowhere" / "report.json")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "other.html", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_reports_are_for_their_owner_only(tmp_path: Path) -> None:
    write_whole(tmp_path / "report.html", "text")
    assert (tmp_path / "report.html").stat().st_mode & 0o077 == 0


def test_wrong_use_is_refused(found: Evaluation, tmp_path: Path) -> None:
    rows = sample().slice(0, 50)
    with pytest.raises(ParameterError, match="pass its schema"):
        evaluate(rows, rows)
    with pytest.raises(ParameterError, match="target 'nobody'"):
        evaluate(rows, rows, schema=sample_schema(), target="nobody")
    with pytest.raises(ParameterError, match="n_repeats is 0"):
        evaluate(rows, rows, schema=sample_schema(), n_repeats=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReleaseError, match="not a release"):
        evaluate(tmp_path / "empty", rows)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ParameterError, match=r"pip install 'hushtable\[eval\]'"):
        evaluate(sample(), sample(), schema=sample_schema())


def test_importing_hushtable_does_not_import_the_extra() -> None:
    code = (
        "import sys, hushtable, hushtable.cli.app; hushtable.evaluate; "
        "print({'sklearn', 'matplotlib', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_pages_are_in_the_package() -> None:
    from importlib.resources import files

    folder = files("hushtable.evaluation.report") / "templates"
    assert {"report.html", "report.css"} <= {path.name for path in folder.iterdir()}
