"""Decisions in the ledger and in releases, and ledgers without decisions."""

from __future__ import annotations

import json
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hushtable import Decision, Ledger, NoisyCounts, PureDP, Release, Schema, Unit, publish
from hushtable.errors import ParameterError
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.records import digest_of

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


# --- ledgers from before --------------------------------------------------------------------------

# As written by the first version of format 4, without decisions.
BEFORE = [
    '{"allow_uncounted":false,"delta":"1/100000","epsilon":"3","format":4,"kind":"init","name":'
    '"patients","neighbors":"add-remove","salt":"162ca2f403e22e003dcb119ea38c988c","seq":0,"table":'
    'null,"time":"2026-11-16T12:25:09.655195+00:00","unit":{"column":null,"kind":"row","max_rows":'
    "null}}",
    '{"allocation":{"alpha":"1095685/131072","approximation_delta":"1/400000","basic_delta":"1/200000",'
    '"rho":"7168267416206713/36028797018963968"},"guarantees":[{"epsilon":"1","family":"pure-dp",'
    '"neighbors":"add-remove","unit":{"column":null,"kind":"row","max_rows":null}}],"kind":"charge",'
    '"purpose":"wrong file","reservation":null,"salt":"58e772823b63d0910b1971af0f2aa5ab",'
    '"same_people":null,"seq":1,"table":null,"time":"2026-11-16T12:25:09.701105+00:00"}',
    '{"entry":1,"kind":"void","reason":"nothing came out","salt":'
    '"0a9c973c2e5c014ab1bdd7d5d4fd7208","seq":2,"time":"2026-11-16T12:25:09.767090+00:00"}',
    '{"allocation":{"alpha":"1095685/131072","approximation_delta":"1/400000","basic_delta":"1/200000",'
    '"rho":"7168267416206713/36028797018963968"},"guarantees":[{"epsilon":"1/2","family":'
    '"pure-dp","neighbors":"add-remove","unit":{"column":'
    'null,"kind":"row","max_rows":null}}],"kind":"charge","purpose":"yearly table","reservation":'
    'null,"salt":"f072de200712858522341141d8694835","same_people":null,"seq":3,"table":null,"time":'
    '"2026-11-16T12:25:09.819238+00:00"}',
    '{"digest":"abab","entry":3,"kind":"released","salt":"fc6708d57ed7888118397af954ce013e","seq":4,'
    '"time":"2026-11-16T12:25:09.857943+00:00"}',
]
HEAD = "14bf364f0a69d8fbf153e812554471f5d071a4d8119d2a4ee4f970d4fb0ecf79"


def test_no_byte_of_older_records_changes(tmp_path: Path) -> None:
    path = tmp_path / "old.ledger"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"PRAGMA application_id = {file.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 4")
        for statement in file._TABLES:
            connection.execute(statement)
        digest = "0" * 64
        for seq, body in enumerate(BEFORE):
            digest = digest_of(digest, body)
            connection.execute("INSERT INTO records VALUES (?, ?, ?)", (seq, body, digest))
        connection.execute("INSERT INTO head VALUES (1, ?, ?)", (len(BEFORE) - 1, digest))
        before = connection.execute("SELECT * FROM records").fetchall()
    connection.close()
    book = Ledger.open(path)
    assert book.verify() == HEAD
    assert book.show()["decision"] == {}
    book.charge([PureDP(epsilon="1/2", **ROW)], purpose="this year", decision=BOARD)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT * FROM records").fetchall()[: len(before)] == before
    connection.close()
    assert Ledger.open(path).verify(receipt=HEAD)
    assert Ledger.open(path).entries()[-1].decision == BOARD
