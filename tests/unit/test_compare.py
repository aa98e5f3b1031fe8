"""Comparisons of releases: the figures, the page and the errors."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.errors import DataError, ParameterError, ReleaseError
from hushtable.evaluation.compare import Comparison, _names, compare
from hushtable.evaluation.report.pages import render_comparison
from hushtable.methods import AlphaBeta, GeneralizeSuppress, NoisyCounts
from hushtable.publishing.publish import publish

COARSE = {"age": 20, "region": 1}
FEW = {"n_repeats": 1, "questions": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("releases")
    for name, method in {
        "noisy": NoisyCounts(epsilon=1, delta="1e-6", k=5, generalize=COARSE),
        "a<b>&c": GeneralizeSuppress(k=5, generalize=COARSE),
        "tuples": AlphaBeta(d="3/10", n_public=6000, gamma="3/5"),
    }.items():
        publish(sample().slice(0, 1500), sample_schema(), method, out=place / name)
    return place


@pytest.fixture(scope="module")
def found(folder: Path) -> Comparison:
    releases = [folder / name for name in ("noisy", "a<b>&c", "tuples")]
    return compare(sample().slice(0, 1500), releases, control=sample().slice(10_500), **FEW)


def test_every_figure_has_a_value_or_none_for_each_release(found: Comparison) -> None:
    assert {figure.group for figure in found.figures} == {
        "promise", "error", "accuracy", "risk", "size", "time",
    }  # fmt: skip
    for figure in found.figures:
        assert len(figure.values) == 3
        assert any(figure.values), figure.name
    by_name = {figure.name: figure.values for figure in found.figures}
    assert by_name["epsilon"][0] == {"value": 1.0}
    assert by_name["epsilon"][1] is None  # k-anonymity promises none
    assert by_name["method"][2] == {"value": "alpha-beta"}
    assert by_name["smallest group (k)"][1]["value"] >= 5  # type: ignore[index]
    assert {"membership, largest excess", "linkability, largest excess"} <= set(by_name)
    assert any("gradient boosting" in name for name in by_name)
    assert any("coverage of 95% intervals" in name for name in by_name)


def test_limits_of_the_comparison_are_stated(found: Comparison) -> None:
    said = " ".join(found.notes)
    assert "distinct tuples" in said
    assert "Publishing times depend on the private data" in said
    assert "Without a control" not in said


def test_publishing_times_are_those_of_the_ledger(folder: Path, tmp_path: Path) -> None:
    """Only for releases charged to it; a release of another ledger has none."""
    from hushtable.privacy.ledger.ledger import Ledger

    book = Ledger.create(tmp_path / "book", epsilon=3)
    other = Ledger.create(tmp_path / "other", epsilon=3)
    rows, method = (
        sample().slice(0, 200),
        NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE),
    )
    for name, ledger in (("mine", book), ("other's", other)):
        publish(rows, sample_schema(), method, out=tmp_path / name, ledger=ledger)
    releases = [tmp_path / "mine", tmp_path / "other's", folder / "noisy"]
    found = compare(rows, releases, ledger=tmp_path / "book", **FEW)
    by_name = {figure.name: figure for figure in found.figures}
    mine, others, uncharged = by_name["seconds to publish (from the ledger)"].values
    assert mine is not None
    assert mine["value"] == book.entries()[0].seconds
    assert 0 < mine["value"] < 60
    assert others is None
    assert uncharged is None
    assert all(value["value"] > 0 for value in by_name["seconds to evaluate"].values)  # type: ignore[index]
    assert any("not in the given ledger" in note for note in found.notes)
    assert any("do not publish them" in note for note in found.notes)
    for statement in tmp_path.rglob("statement.json"):  # public files do not contain it
        assert "seconds" not in statement.read_text()


def test_the_numbers_are_plain_data_and_marked_internal(found: Comparison, tmp_path: Path) -> None:
    found.write_json(tmp_path / "compare.json")
    content = json.loads((tmp_path / "compare.json").read_text())
    assert content["internal"].startswith("Internal")
    assert [release["name"] for release in content["releases"]] == ["noisy", "a<b>&c", "tuples"]


def test_the_page_is_self_contained_small_and_escaped(found: Comparison, tmp_path: Path) -> None:
    found.write_html(tmp_path / "compare.html")
    page = (tmp_path / "compare.html").read_text()
    assert len(page) < 1_000_000
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in page
    assert "a<b>" not in page
    assert "a&lt;b&gt;&amp;c" in page
    assert page.count("<svg") >= 8
    assert "Internal." in page
    with pytest.raises(ParameterError, match="exists"):
        found.write_html(tmp_path / "compare.html")


def drawing(page: str, title: str) -> ET.Element:
    """Return the plot with a title."""
    (svg,) = re.findall(rf'<svg [^>]*aria-label="{title}">.*?</svg>', page)
    return ET.fromstring(svg)  # noqa: S314 - our own text


def test_a_plot_has_the_unit_of_the_table(found: Comparison) -> None:
    page = render_comparison(found.to_dict(), found.evaluations)
    distances = drawing(page, "single columns, mean distance")
    ticks = [text.text or "" for text in distances.iter("text") if text.get("class") == "soft"]
    assert ticks
    assert all(re.fullmatch(r"[01]\.\d\d", tick) for tick in ticks)
    by_name = {figure.name: figure.values for figure in found.figures}
    values = [
        f"{value['value']:.3f}" for value in by_name["single columns, mean distance"] if value
    ]
    tips = [tip.text or "" for tip in distances.iter("title")]
    assert [re.findall(r"[\d.]+", tip)[0] for tip in tips] == values
    shares = drawing(page, "count queries, median relative error")
    assert any("%" in (text.text or "") for text in shares.iter("text"))


def test_names_in_plots_do_not_overlap(found: Comparison) -> None:
    """Letters are 11 high; rows with one mark used to be closer than that."""
    for svg in re.findall(r"<svg .*?</svg>", render_comparison(found.to_dict(), found.evaluations)):
        places = [
            float(text.attrib["y"])
            for text in ET.fromstring(svg).iter("text")  # noqa: S314 - our own text
            if text.get("text-anchor") == "end"
        ]
        assert all(below - above >= 14 for above, below in pairwise(places))


def test_every_release_that_cannot_be_opened_is_named(folder: Path) -> None:
    with pytest.raises(ReleaseError, match=r"(?s)'one' is not a release.*'two' is not a release"):
        compare(sample(), ["one", folder / "noisy", "two"])


def test_a_release_that_cannot_be_compared_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="release 'noisy'"):
        compare(sample().drop(["age"]), [folder / "noisy"], **FEW)


def test_names_of_releases_are_unique() -> None:
    assert _names([Path("a/x"), Path("b/x")]) == ["a/x", "b/x"]
    assert _names([Path("a/x"), Path("b/y")]) == ["x", "y"]
    with pytest.raises(ParameterError, match="twice"):
        _names([Path("a/x"), Path("a/x")])
    with pytest.raises(ParameterError, match="at least one"):
        compare(sample(), [])
