"""Pages of a ledger and of a dossier in a browser; they load and log nothing.

Set ``HUSHTABLE_SCREENSHOTS`` to a folder to keep screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from hushtable import Decision, Ledger, NoisyCounts, publish, sample, sample_schema
from hushtable.dossier import make_dossier
from hushtable.dossier.seal import write_dossier
from hushtable.evaluation.report.pages import write_ledger

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    schema = sample_schema()
    decision = Decision(responsible="the data board", reason="r" * 200, review_by="2020-01-01")
    book = Ledger.create(folder / "book", epsilon=3, delta="1e-5", schema=schema, decision=decision)
    method = NoisyCounts(epsilon="1/2", mechanism="pure", generalize={"age": 20})
    publish(sample(), schema, method, out=folder / "release", ledger=book, decision=decision)
    book.void(
        book.charge(method.guarantee(schema), purpose="wrong", schema=schema).id, "nobody saw"
    )
    book.reserve(method.guarantee(schema), purpose="next year")
    write_ledger(folder / "ledger.html", book.show(), protects="one row")
    dossier = make_dossier([folder / "release"], ledger=folder / "book", beside=folder)
    write_dossier(folder / "dossier.html", dossier)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.mark.parametrize("name", ["ledger", "dossier"])
@pytest.mark.parametrize(("width", "dark"), [(1000, False), (390, False), (1000, True)])
def test_a_page(name: str, width: int, dark: bool, pages: Path, browser: Browser) -> None:
    page = pages / f"{name}.html"
    browser.open(page, width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.querySelectorAll('h2').length") >= 3
    lost = "[...document.querySelectorAll('a[href^=\"#\"]')].filter("
    assert browser.value(f"{lost}a => !document.querySelector(a.hash)).length") == 0
    if shots := os.environ.get("HUSHTABLE_SCREENSHOTS"):
        browser.screenshot(Path(shots) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
