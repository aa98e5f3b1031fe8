"""The method generalize-suppress: a threshold, and no stronger claim."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hushtable import GeneralizeSuppress, Ledger, Schema, publish
from hushtable.errors import ParameterError

SCHEMA = Schema.from_dict(
    {"name": "t", "rows": 60, "columns": {
        "age": {"type": "integer", "low": 0, "high": 9, "missing": "category"},
        "sex": {"type": "categorical", "values": ["F", "M"]}}}
)  # fmt: skip
AGES = [1] * 30 + [2] * 20 + [7] * 4 + [None] * 6
TABLE = pa.table({"age": pa.array(AGES, pa.int64()), "sex": ["F"] * 25 + ["M"] * 35})


def test_exact_counts_of_frequent_tuples_and_nothing_else(tmp_path: Path) -> None:
    release = publish(TABLE, SCHEMA, GeneralizeSuppress(k=5), out=tmp_path / "out")
    expected = Counter(zip(AGES, TABLE["sex"].to_pylist(), strict=True))
    shown = {(row["age"], row["sex"]): row["count"] for row in release.table().to_pylist()}
    assert shown == {held: n for held, n in expected.items() if n >= 5}


def test_generalized_first(tmp_path: Path) -> None:
    method = GeneralizeSuppress(k=5, generalize={"age": 5})
    release = publish(TABLE, SCHEMA, method, out=tmp_path / "out")
    shown = {(row["age"], row["sex"]): row["count"] for row in release.table().to_pylist()}
    assert shown == {("0 to 4", "F"): 25, ("0 to 4", "M"): 25, (None, "M"): 6}


def test_the_statement_says_what_is_not_protected(tmp_path: Path) -> None:  # li-2009-6
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, delta="1e-6", allow_uncounted=True)
    release = publish(TABLE, SCHEMA, GeneralizeSuppress(k=5), out=tmp_path / "out", ledger=ledger)
    assert [promise.family for promise in release.statement.guarantees] == ["threshold"]
    assert not any(promise.counted for promise in release.statement.guarantees)
    text = (tmp_path / "out" / "STATEMENT.md").read_text()
    for words in ("exact counts", "Sensitive values", "4 copies", "do not compose"):
        assert words in text


def test_answers_are_exact_up_to_what_is_suppressed(tmp_path: Path) -> None:
    release = publish(TABLE, SCHEMA, GeneralizeSuppress(k=5), out=tmp_path / "out")
    for where, true in (("age = 1", 30), ("age = 7", 4), ("age IS NULL", 6), ("TRUE", 60)):
        estimate = release.count(where)
        assert estimate.low <= true <= estimate.high
        assert estimate.privacy_std == 0
    exact = release.count("age = 1 AND sex = 'F'")
    assert exact.value == exact.low == exact.high == 25


@pytest.mark.parametrize("k", [0, 1, "2.5"])
def test_k_must_suppress_something(k: int) -> None:
    with pytest.raises(ParameterError, match=f"k is {k}"):
        GeneralizeSuppress(k=k)


def test_a_column_called_count_is_refused() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"count": {"type": "integer", "low": 0, "high": 9}}}
    )
    with pytest.raises(ParameterError, match="column 'count'"):
        GeneralizeSuppress(k=5).guarantee(schema)
