"""Benchmarks that search the texts of refusals, forecasts and notes search for current texts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from benchmarks import every_method, oracle_width

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hushtable"


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [
        node.value
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize(
    "text",
    [*every_method.WARNINGS, *every_method.INTERVAL_WARNINGS, *oracle_width.CUT_NOTES],
)
def test_a_text_that_a_benchmark_searches_for_occurs_in_the_source(
    text: str, texts: list[str]
) -> None:
    assert any(text in own for own in texts)
