"""Ledgers: the people they are about, uncounted releases, and restored old copies."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hushtable import AlphaBeta, GeneralizeSuppress, NoisyCounts, Schema, publish, publish_graph
from hushtable import engine as engines
from hushtable.errors import (
    BudgetExceeded,
    CompositionError,
    LedgerError,
    ParameterError,
    Unconfirmed,
)
from hushtable.methods.degrees.degrees import Degrees
from hushtable.privacy.guarantee import NoGuarantee, PureDP, Threshold, Unit
from hushtable.privacy.ledger import ledger as told
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import digest_of
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.release import Release

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
PATIENTS = """
name: patients
columns:
  age: {type: integer, low: 0, high: 99}
  sex: {type: categorical, values: [F, M]}
"""
TICKETS = """
name: parking tickets 2019
columns:
  age: {type: integer, low: 0, high: 99}
  sex: {type: categorical, values: [F, M]}
"""
METHOD = NoisyCounts(epsilon="1/2", mechanism="pure")
TABLE = {"age": [1, 2, 3] * 20, "sex": ["F", "M", "M"] * 20}


def pure(epsilon: Any) -> list[PureDP]:
    return [PureDP(epsilon=epsilon, **ROW)]


def people(text: str = PATIENTS) -> Schema:
    return Schema.parse(text)


def table() -> pa.Table:
    return pa.table(TABLE)


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM records ORDER BY seq").fetchall()
    connection.close()
    return found


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("something was read")

    monkeypatch.setattr(engines, "open", read)
    for name in ("inspect_graph", "read_graph"):
        monkeypatch.setattr(f"hushtable.engine.edges.{name}", read)


# --- uncounted releases ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "guarantees",
    [
        [Threshold(k=5)],
        [NoGuarantee(reason="seeded")],
        [*pure("1/100"), NoGuarantee(reason="it contradicts the promise beside it")],
    ],
    ids=["threshold", "none", "both"],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, guarantees: Any) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1)
    with pytest.raises(CompositionError, match="--allow-uncounted"):
        book.charge(guarantees, purpose="x")
    with pytest.raises(CompositionError, match="would be free"):
        book.require(guarantees)
    assert not book.quote(guarantees).fits
    assert book.entries() == ()


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize("noise", ["secure", SeededNoise(1)])
def test_refused_before_anything_is_read(tmp_path: Path, noise: Any) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1)
    method = METHOD if noise != "secure" else GeneralizeSuppress(k=5)
    with pytest.raises(CompositionError, match="--allow-uncounted"):
        publish("people.csv", people(), method, out=tmp_path / "r", ledger=book, noise=noise)
    assert book.entries() == ()


def test_a_ledger_that_allows_it_says_so_everywhere(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, allow_uncounted=True)
    assert json.loads(rows_of(book.path)[0][1])["allow_uncounted"] is True
    # Also in the statement of a counted release, and before there is an uncounted one.
    counted = publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    publish(table(), people(), GeneralizeSuppress(k=5), out=tmp_path / "b", ledger=book)
    assert counted.statement.ledger is not None
    assert counted.statement.ledger.uncounted
    assert "releases whose cost it cannot count" in (tmp_path / "a" / "STATEMENT.md").read_text()
    shown = book.show()
    assert (shown["allow_uncounted"], shown["holds_uncounted"], shown["n_uncounted"]) == (
        *(True, True, 1),
    )
    strict = Ledger.create(tmp_path / "strict", epsilon=1)
    plain = publish(table(), people(), METHOD, out=tmp_path / "c", ledger=strict)
    assert plain.statement.ledger is not None
    assert not plain.statement.ledger.uncounted
    assert "cannot count" not in (tmp_path / "c" / "STATEMENT.md").read_text()


@pytest.mark.parametrize("allow", [1, "yes", None])
def test_allowing_is_true_or_false(tmp_path: Path, allow: Any) -> None:
    with pytest.raises(ParameterError, match="allow_uncounted"):
        Ledger.create(tmp_path / "book", epsilon=1, allow_uncounted=allow)
    assert not (tmp_path / "book").exists()


@pytest.mark.parametrize("d", ["1e-60", "1e-30", "1e-9"])
@pytest.mark.parametrize("allow", [False, True])
def test_weaker_protection_costs_more(tmp_path: Path, d: str, allow: bool) -> None:
    """An earlier attack: with a tiny d, epsilon was not counted, and releases were free."""
    columns = {f"x{i}": {"type": "integer", "low": 0, "high": 99} for i in range(30)}
    wide = Schema.from_dict({"name": "wide", "columns": columns})  # m = 1e60
    book = Ledger.create(tmp_path / "book", epsilon=1, allow_uncounted=allow)
    method = AlphaBeta(d=d, n_public=1, gamma="1/5", max_tuples=10**60)
    with pytest.raises(BudgetExceeded):
        publish("people.csv", wide, method, out=tmp_path / "r", ledger=book, anyway=True)
    assert book.entries() == ()


# --- people ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize("bound", ["schema", "name"])
def test_a_ledger_refuses_a_table_about_other_people(tmp_path: Path, bound: str) -> None:
    about: Any = (
        {"schema": people(TICKETS)} if bound == "schema" else {"name": people(TICKETS).name}
    )
    book = Ledger.create(tmp_path / "book", epsilon=60, **about)
    before = book.path.read_bytes()
    with pytest.raises(CompositionError, match=r"'parking tickets 2019'.*'patients'.*same-people"):
        publish(
            "people.csv", people(), NoisyCounts(epsilon=50, mechanism="pure"),
            out=tmp_path / "r", ledger=book.path,
        )  # fmt: skip
    assert book.path.read_bytes() == before
    assert not (tmp_path / "r").exists()


def test_the_first_charge_binds(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10)
    assert book.tables() == ()
    publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    (bound,) = book.tables()
    assert (bound.name, bound.record) == ("patients", 1)
    assert json.loads(rows_of(book.path)[1][1])["table"]["digest"] == people().digest
    with pytest.raises(CompositionError, match="same-people"):
        publish(table(), people(TICKETS), METHOD, out=tmp_path / "b", ledger=book)
    publish(table(), people(), METHOD, out=tmp_path / "c", ledger=book)
    assert len(book.entries()) == 2


def test_a_confirmed_table_about_the_same_people_is_accepted(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10, schema=people())
    reason = "drivers of the same town; J. Doe"
    publish(table(), people(TICKETS), METHOD, out=tmp_path / "a", ledger=book, same_people=reason)
    publish(table(), people(TICKETS), METHOD, out=tmp_path / "b", ledger=book)  # now known
    publish(table(), people(), METHOD, out=tmp_path / "c", ledger=book)
    first, second = book.tables()
    assert (first.record, first.reason) == (0, "")
    assert (second.name, second.record, second.reason) == ("parking tickets 2019", 1, reason)
    assert [entry.same_people for entry in book.entries()] == [reason, None, None]
    assert reason not in (tmp_path / "a" / "statement.json").read_text()
    for empty in ("", "  ", 5):
        with pytest.raises(ParameterError, match="same_people"):
            book.charge(pure(1), purpose="x", same_people=empty)  # type: ignore[arg-type]


def test_charges_of_other_tools_need_confirmation_in_a_bound_ledger(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10)
    book.charge(pure(1), purpose="by another tool")
    book.charge(pure(1), purpose="ours", schema=people())
    with pytest.raises(CompositionError, match="a charge without a schema"):
        book.charge(pure(1), purpose="by another tool")
    entry = book.charge(pure(1), purpose="by another tool", same_people="the same registry")
    assert entry.same_people == "the same registry"
    assert [bound.name for bound in book.tables()] == ["patients"]


def test_other_units_are_refused(tmp_path: Path) -> None:
    person = people(
        PATIENTS + "  who: {role: identifier}\nunit: {kind: person, column: who, max_rows: 2}\n"
    )
    book = Ledger.create(tmp_path / "book", epsilon=10, schema=person)
    assert book.unit == person.unit
    with pytest.raises(CompositionError, match="or another ledger"):
        publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book, same_people="yes")
    with pytest.raises(ParameterError, match="disagree"):
        Ledger.create(tmp_path / "x", epsilon=1, schema=person, unit=Unit(kind="row"))
    with pytest.raises(ParameterError, match="pass a Schema"):
        Ledger.create(tmp_path / "x", epsilon=1, schema=PATIENTS)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_the_unit_of_what_is_not_counted_is_checked_too(tmp_path: Path) -> None:
    """A threshold names no unit, but its table does."""
    persons = people(f"{PATIENTS}  id: {{type: integer, low: 0, high: 9, role: identifier}}\n"
                     "unit: {kind: person, column: id, max_rows: 3}\n")  # fmt: skip
    book = Ledger.create(tmp_path / "book", epsilon=1, allow_uncounted=True, name="patients")
    for ask in (book.charge, book.require):
        more = {"purpose": "x"} if ask == book.charge else {}
        with pytest.raises(CompositionError, match=r"one person.*counts for one row"):
            ask([Threshold(k=5)], schema=persons, **more)  # type: ignore[operator]
    assert not book.quote([Threshold(k=5)], schema=persons).fits
    assert book.entries() == ()
    book.charge([Threshold(k=5)], purpose="x", schema=people())


def test_an_unconfirmed_schema_does_not_bind_a_ledger(tmp_path: Path) -> None:
    draft = people(PATIENTS.replace("high: 99}", "high: 99, confirm: [low, high]}"))
    with pytest.raises(Unconfirmed):
        Ledger.create(tmp_path / "book", epsilon=1, schema=draft)
    assert not (tmp_path / "book").exists()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("# a comment\n" + PATIENTS, True),
        (PATIENTS.replace("{type: integer, low: 0, high: 99}", "{high: 99, low: 0, type: integer}"),
         True),
        (PATIENTS.replace("[F, M]", '["M", "F"]'), True),
        (PATIENTS + "rows: 5000\n", True),
        (PATIENTS.replace("high: 99}", "high: 99, outside: clip}"), True),
        (PATIENTS.replace("high: 99}", "high: 99, missing: category}"), True),
        (PATIENTS.replace("high: 99", "high: 100"), False),
        (PATIENTS.replace("low: 0", "low: 1"), False),
        (PATIENTS.replace("[F, M]", "[F, M, X]"), False),
        (PATIENTS.replace("age:", "years:"), False),
        (PATIENTS + "  id: {role: identifier}\n", False),
        (PATIENTS.replace("name: patients", "name: Patients"), False),
        (PATIENTS.replace("integer, low: 0, high: 99", "number, low: 0, high: 99, step: 0.5"),
         False),
    ],
)  # fmt: skip
def test_digests_identify_tables(text: str, same: bool) -> None:
    assert (people(text).digest == people().digest) is same


@pytest.mark.usefixtures("nothing_is_read")
def test_graphs_are_identified_by_their_names(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10, unit=Unit(kind="node"))
    node: Any = {"unit": Unit(kind="node"), "neighbors": "add-remove"}
    method = Degrees(epsilon=1, max_degree=4, population="endpoints")
    book.charge([PureDP(epsilon=1, **node)], purpose="x", schema=method.schema("friends"))
    # Another bound yields another column of the same graph.
    wider = Degrees(epsilon=1, max_degree=8, population="endpoints").schema("friends")
    book.charge([PureDP(epsilon=1, **node)], purpose="x", schema=wider)
    with pytest.raises(CompositionError, match=r"'friends'.*'debts'"):
        publish_graph("edges.csv", method, out=tmp_path / "r", ledger=book, name="debts")
    assert len(book.tables()) == 1


# --- receipts -------------------------------------------------------------------------------------


def kept(folder: Path) -> str:
    (path,) = folder.glob("ledger-*.receipt")
    return path.read_text().strip()


def test_a_restored_copy_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, schema=people())
    (tmp_path / "out").mkdir()
    publish(table(), people(), METHOD, out=tmp_path / "out" / "a", ledger=book.path)
    old = book.path.read_bytes()
    publish(table(), people(), METHOD, out=tmp_path / "out" / "b", ledger=book.path)
    new = book.path.read_bytes()
    book.path.write_bytes(old)
    with monkeypatch.context() as patch:
        patch.setattr(engines, "open", lambda *_, **__: pytest.fail("it was read"))
        with pytest.raises(LedgerError, match=r"older than .*newest"):
            publish(table(), people(), METHOD, out=tmp_path / "out" / "c", ledger=book.path)
    assert book.path.read_bytes() == old
    assert not (tmp_path / "out" / "c").exists()
    # In another folder there is no stored receipt, but that of the last statement can be passed.
    given = Release.load(tmp_path / "out" / "b").statement.ledger
    assert given is not None
    with pytest.raises(LedgerError, match="older copy"):
        publish(
            table(), people(), METHOD, out=tmp_path / "d", ledger=book.path, receipt=given.receipt
        )
    book.path.write_bytes(new)
    assert Ledger.open(book.path).verify(receipt=kept(tmp_path / "out"))
    with pytest.raises(BudgetExceeded):
        publish(
            table(), people(), METHOD, out=tmp_path / "d", ledger=book.path, receipt=given.receipt
        )


def test_a_receipt_from_anywhere_in_the_chain_is_good(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=9, schema=people())
    publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    first = (path := next(tmp_path.glob("*.receipt"))).read_bytes()
    publish(table(), people(), METHOD, out=tmp_path / "b", ledger=book)
    path.write_bytes(first)
    publish(table(), people(), METHOD, out=tmp_path / "c", ledger=book)
    assert path.read_bytes() != first
    assert len(book.entries()) == 3


@pytest.mark.parametrize("content", [b"", b"nonsense", b"0" * 63, b"0" * 5000])
def test_a_file_without_a_receipt_is_refused(tmp_path: Path, content: bytes) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, schema=people())
    (tmp_path / f"ledger-{book.id}.receipt").write_bytes(content)
    with pytest.raises(LedgerError, match="does not contain a receipt"):
        publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    assert book.entries() == ()


def test_a_receipt_that_cannot_be_stored_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, schema=people())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr(
        engines.PrivateTable, "connect", lambda *_, **__: pytest.fail("it was read")
    )
    with pytest.raises(LedgerError, match=r"(?s)disk is full.*Entry 1.*void"):
        publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book"]


def test_leftovers_of_a_killed_run_are_overwritten(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, schema=people())
    (tmp_path / f".ledger-{book.id}.receipt.new").write_text("half")
    publish(table(), people(), METHOD, out=tmp_path / "a", ledger=book)
    assert not list(tmp_path.glob(".*"))
    assert book.verify(receipt=kept(tmp_path))


@pytest.mark.parametrize("option", ["reservation", "same_people", "receipt"])
def test_ledger_options_need_a_ledger(tmp_path: Path, option: str) -> None:
    given: Any = {option: 1 if option == "reservation" else "text"}
    with pytest.raises(ParameterError, match=f"{option} is given.*pass the ledger"):
        publish(table(), people(), METHOD, out=tmp_path / "a", **given)


def test_a_statement_does_not_reveal_earlier_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same release after 0 and after 3 failed attempts: equal except for the receipt."""
    monkeypatch.setattr(told, "now", lambda: "2030-01-01T00:00:00.000000+00:00")
    documents, receipts = [], []
    for n_failed in (0, 3):
        folder = tmp_path / str(n_failed)
        folder.mkdir()
        book = Ledger.create(folder / "book", epsilon=10, schema=people())
        for _ in range(n_failed):
            book.charge(pure("1/2"), purpose="noisy-counts", schema=people())
        release = publish(table(), people(), METHOD, out=folder / "r", ledger=book)
        document = release.statement.model_dump(mode="json")
        receipts.append(document["ledger"].pop("receipt"))
        for changing in ("sha256", "rows"):
            del document["tables"]["data"][changing]
        documents.append(document)
        assert receipts[-1] == book.entries()[-1].receipt  # the custodian finds it
        assert "entry" not in (folder / "r" / "STATEMENT.md").read_text()
    assert documents[0] == documents[1]
    assert documents[0]["ledger"] == {"uncounted": False}


def test_a_receipt_cannot_be_guessed_from_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ledgers with the same records at the same times have no digest in common."""
    monkeypatch.setattr(told, "now", lambda: "2030-01-01T00:00:00.000000+00:00")
    seen: set[str] = set()
    for name in ("a", "b"):
        book = Ledger.create(tmp_path / name, epsilon=10, name="x")
        book.mark_released(book.charge(pure(1), purpose="x").id, "digest")
        records = rows_of(book.path)
        assert all(len(json.loads(body)["salt"]) == 32 for _, body, _ in records)
        assert seen.isdisjoint(digest for _, _, digest in records)
        seen |= {digest for _, _, digest in records}
    # Nor from a receipt: the next one needs a random number that only the ledger contains.
    (_, _, first), (_, after, second) = records[1:]
    bare = {k: v for k, v in json.loads(after).items() if k != "salt"}
    assert digest_of(first, json.dumps(bare, sort_keys=True, separators=(",", ":"))) != second
    assert digest_of(first, after) == second
