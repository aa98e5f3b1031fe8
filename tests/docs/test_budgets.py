"""The table of releases within a cap: it is the output of its script."""

from __future__ import annotations

from pathlib import Path

from benchmarks.budgets import table

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_is_current() -> None:
    page = (ROOT / "docs/how-to/plan-a-budget.md").read_text(encoding="utf-8")
    assert table() in page, "run python -m benchmarks.budgets and put its table into the page"
