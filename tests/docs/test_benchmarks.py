"""Benchmarks that search the texts of refusals, forecasts and notes search for current texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import every_method, oracle_width

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hushtable"


@pytest.fixture(scope="module")
def source() -> str:
    """Return the source, with texts that go on in the next line joined."""
    files = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))]
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("texts.yaml"))]
    return re.sub(r'"\s*\n\s*[a-z]?"', "", "\n".join(files)) + re.sub(r"\s+", " ", " ".join(texts))


@pytest.mark.parametrize(
    "text",
    [*every_method.WARNINGS, *every_method.INTERVAL_WARNINGS, *oracle_width.CUT_NOTES],
)
def test_a_text_that_a_benchmark_searches_for_occurs_in_the_source(text: str, source: str) -> None:
    assert text in source
