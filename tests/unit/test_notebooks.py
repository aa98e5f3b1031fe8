"""Notebook output of schemas, plans, ledgers, releases and evaluations: complete and escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.evaluation.evaluate import evaluate
from hushtable.methods import ContingencyTable
from hushtable.schema import Schema

HOSTILE = "<script>alert(1)</script>"
SCHEMA = Schema.from_dict(
    {
        "name": HOSTILE,
        "columns": {
            "<b>sex": {"type": "categorical", "values": ["F", "<i>M"], "missing": "category"},
            "age": {"type": "integer", "low": 0, "high": 99, "missing": "other"},
        },
    }
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("shown")
    method = ContingencyTable(epsilon=1)
    ledger = ht.Ledger.create(folder / "book", epsilon=2)
    table = pa.table({"<b>sex": ["F", "<i>M", None] * 100, "age": list(range(50, 80)) * 10})
    release = ht.publish(table, SCHEMA, method, out=folder / "r", ledger=ledger, purpose=HOSTILE)
    found = evaluate(release, table, n_repeats=1, n_draws=1, hold_back=False)
    plan = method.plan(SCHEMA)
    return {"schema": SCHEMA, "plan": plan, "ledger": ledger, "release": release, "found": found}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("schema", ("0 to 99 (100 values)", "F, &lt;i&gt;M", "category")),
        ("plan", ("Plan of contingency-table", "epsilon = 1", "expected")),
        ("ledger", ("Left: ", "released")),
        ("release", ("Published with contingency-table", "data")),
        ("found", ("Internal.", "Count queries")),
    ],
)
def test_it_is_shown_as_html(shown: dict[str, Any], what: str, words: tuple[str, ...]) -> None:
    text = shown[what]._repr_html_()
    for word in words:
        assert word in text
    assert "<script" not in text
    assert "<b>sex" not in text
