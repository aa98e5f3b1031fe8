"""The documentation site: complete, without broken links or external resources."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest

import hushtable
from browser import CHROMIUM, PATIENCE, Browser

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("zensical", reason="no zensical: pip install 'hushtable[dev]'")


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    builder.build(folder)
    return folder


def test_every_document_is_a_page(builder: ModuleType, site: Path) -> None:
    settings = (ROOT / "docs" / "site.toml").read_text()
    for page in builder.pages():
        name = page.relative_to(ROOT).as_posix()
        name = "index.md" if name == "README.md" else name
        assert (site / name).with_suffix(".html").exists()
        assert f'"{name}"' in settings, f"{name} is not in the navigation (docs/site.toml)"


def test_nothing_leads_nowhere(builder: ModuleType, site: Path) -> None:
    assert builder.dead_links(site) == []


def test_a_dead_link_is_found(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html">x</a><a href="#y">y</a><script src="https://example.org/s.js"></script>'
    )
    assert builder.dead_links(tmp_path) == [
        "a.html: b.html",
        "a.html: #y",
        "a.html: https://example.org/s.js is from elsewhere",
    ]


def test_the_reference_has_what_is_public(site: Path) -> None:
    python = (site / "reference" / "python.html").read_text()
    for name in hushtable.__all__:
        if isinstance(getattr(hushtable, name), type):
            assert f'id="{name.lower()}"' in python
    assert "hushtable ledger init" in (site / "reference" / "command-line.html").read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_pages_are_searched_where_they_are_opened_from_files(site: Path) -> None:
    """All requests succeed. Search results are in a shadow root of the page."""
    shadow = "[...document.querySelectorAll('div')].find((box) => box.shadowRoot)?.shadowRoot"
    with Browser() as browser:
        browser.open(site / "docs" / "how-to" / "plan-a-budget.html")
        browser.value("document.querySelector('.md-search__button').click()")
        _until(browser, f"Boolean({shadow}?.activeElement)")
        browser.call("Input.insertText", text="ledger")
        _until(browser, f"{shadow}.querySelectorAll('a').length > 0")
        found = browser.value(f"[...{shadow}.querySelectorAll('a')].map((link) => link.href)")
        asked = [url for url in browser.requests if not url.startswith("data:")]
        assert not browser.complaints
    assert (site / "search.js").as_uri() in asked
    assert all(url.startswith(f"{site.as_uri()}/") for url in [*asked, *found])
    assert any("#ledger" in url for url in found)


def _until(browser: Browser, expression: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not browser.value(expression):
        assert time.monotonic() < deadline, expression
        time.sleep(0.05)
