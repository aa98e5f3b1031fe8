"""Decisions in the ledger and in releases, and ledgers without decisions."""

from __future__ import annotations

import json
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hushtable import Decision, Ledger, NoisyCounts, Release, Schema, Unit, publish
from hushtable.errors import ParameterError

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
SCHEMA = Schema.parse(
    """
name: patients
columns:
  age: {type: integer, low: 0, high: 99}
"""
)
TABLE = pa.table({"age": [1, 2, 3] * 20})
METHOD = NoisyCounts(epsilon="1/2", mechanism="pure")
BOARD = Decision(
    responsible="the data board", reason="SECRETREASON of the board", review_by="2027-06-30"
)


def records_of(path: Path) -> list[dict[str, Any]]:
    connection = sqlite3.connect(path)
    found = [json.loads(body) for (body,) in connection.execute("SELECT body FROM records")]
    connection.close()
    return found


def test_a_decision_is_recorded_and_shown_but_not_released(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, schema=SCHEMA, decision=BOARD)
    publish(TABLE, SCHEMA, METHOD, out=tmp_path / "a", ledger=book, decision=BOARD)
    publish(TABLE, SCHEMA, METHOD, out=tmp_path / "b", ledger=book)
    kinds = [(record["kind"], record.get("decision")) for record in records_of(book.path)]
    said = BOARD.to_dict()
    assert kinds == [
        ("init", said), ("charge", said), ("released", None), ("charge", None), ("released", None),
    ]  # fmt: skip
    shown = Ledger.open(book.path).show()
    assert shown["decision"] == said
    assert [entry["decision"] for entry in shown["entries"]] == [said, {}]
    for written in (tmp_path / "a").rglob("*"):
        if written.is_file():
            assert b"SECRETREASON" not in written.read_bytes(), written
            assert b"data board" not in written.read_bytes(), written
    assert json.loads((tmp_path / "a" / "statement.json").read_text())["decision"] is None


def test_a_release_states_the_decision_on_request(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, schema=SCHEMA)
    publish(
        TABLE, SCHEMA, METHOD, out=tmp_path / "a", ledger=book, decision=BOARD, state_decision=True
    )
    assert Release.load(tmp_path / "a").statement.decision == BOARD
    words = (tmp_path / "a" / "STATEMENT.md").read_text()
    assert "- Responsible: the data board\n- Reason: SECRETREASON of the board\n" in words
    assert "- Review by: 2027-06-30" in words
    # Also without a ledger: then the statement is the only place.
    publish(TABLE, SCHEMA, METHOD, out=tmp_path / "b", decision=BOARD, state_decision=True)
    assert Release.load(tmp_path / "b").statement.decision == BOARD


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decision": BOARD}, "decision is given without a ledger"),
        ({"state_decision": True}, "without a decision"),
        ({"decision": Decision(), "state_decision": True}, "without a decision"),
    ],
)
def test_decisions_that_would_not_be_stored_are_refused(
    given: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=said):
        publish(TABLE, SCHEMA, METHOD, out=tmp_path / "a", **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("day", ["in June", "2027-13-01", "30.06.2027", "2027-06-30T10:00"])
def test_review_by_must_be_a_date(day: str) -> None:
    with pytest.raises(ParameterError, match="YEAR-MONTH-DAY"):
        Decision(review_by=day)


def test_long_and_untyped_decisions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="at most 1000"):
        Decision(reason="x" * 1001)
    with pytest.raises(ParameterError, match="pass a Decision"):
        Ledger.create(tmp_path / "book", epsilon=1, decision={"reason": "x"})  # type: ignore[arg-type]
    assert not (tmp_path / "book").exists()


def test_a_review_is_overdue_the_day_after() -> None:
    assert not BOARD.is_overdue(date(2027, 6, 30))
    assert BOARD.is_overdue(date(2027, 7, 1))
    assert not Decision().is_overdue(date(2999, 1, 1))


def test_a_record_whose_decision_was_edited_is_noticed(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, decision=BOARD)
    connection = sqlite3.connect(book.path)
    with connection:
        connection.execute("UPDATE records SET body = replace(body, 'data board', 'other board')")
    connection.close()
    with pytest.raises(Exception, match="record 0 was edited"):
        Ledger.open(book.path)
