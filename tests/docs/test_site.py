"""The documentation site: whole, and nothing on it leads nowhere or comes from elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import hushtable

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
