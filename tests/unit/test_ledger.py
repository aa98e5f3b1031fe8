"""The ledger: arithmetic, rules, tampering, and files that cannot be used."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hushtable.errors import (
    BudgetExceeded,
    CompositionError,
    LedgerError,
    ParameterError,
    Refused,
)
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.guarantee import ApproxDP, NoGuarantee, PureDP, Threshold, Unit
from hushtable.privacy.ledger import ledger as told
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.budget import Budget
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import Decision, digest_of

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}


def pure(epsilon: Any) -> PureDP:
    return PureDP(epsilon=epsilon, **ROW)


def approx(epsilon: Any, delta: Any) -> ApproxDP:
    return ApproxDP(epsilon=epsilon, delta=delta, **ROW)


def sql(path: Path, statement: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute(statement, values).fetchall()
    connection.close()
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "survey.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, epsilon=1, delta="1e-5", name="survey")


class TestSpending:
    def test_exact_to_the_last_digit(self, ledger: Ledger) -> None:
        for _ in range(10):
            ledger.charge([pure(0.1)], purpose="tenth")  # ten floats of 0.1 do not sum to 1
        assert ledger.spent() == Budget(epsilon=Fraction(1))
        # Half of delta is for basic composition, half for zCDP composition.
        assert ledger.remaining() == Budget(delta=Fraction(1, 2 * 10**5))
        with pytest.raises(BudgetExceeded):
            ledger.charge([pure("1e-300")], purpose="too much")
        assert len(ledger.entries()) == 10

    def test_several_promises_of_one_release_add_up(self, ledger: Ledger) -> None:
        entry = ledger.charge([pure("1/3"), approx("1/6", "1e-6"), Threshold(k=10)], purpose="both")
        assert entry.cost == Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
        assert entry.counted
        assert ledger.entries() == (entry,)

    def test_refusal_names_spent_reserved_asked_and_cap_for_both_numbers(
        self, ledger: Ledger
    ) -> None:
        ledger.charge([approx("1/2", "6e-6")], purpose="first")
        ledger.reserve([approx("1/4", "1e-6")], purpose="later")
        with pytest.raises(BudgetExceeded) as caught:
            ledger.charge([approx("3/8", "4e-6")], purpose="second")
        epsilon, delta = caught.value.problems
        assert epsilon.startswith("epsilon 3/8 was requested, but 1/4 remains")
        assert "cap is 1, 1/2 is spent and 1/4 is reserved" in epsilon
        assert delta.startswith("delta 1/250000 was requested, but 3/1000000 remains")

    def test_delta_is_capped_on_its_own(self, path: Path) -> None:
        ledger = Ledger.create(path, epsilon=10)
        with pytest.raises(BudgetExceeded, match="delta"):
            ledger.charge([approx(1, "1e-9")], purpose="no delta was budgeted")
        assert ledger.charge([pure(10)], purpose="all").cost == ledger.cap

    def test_outside_differential_privacy_is_recorded_as_uncounted(self, path: Path) -> None:
        ledger = Ledger.create(path, epsilon=1, allow_uncounted=True)
        entry = ledger.charge([Threshold(k=5), NoGuarantee(reason="test")], purpose="other")
        assert not entry.counted
        assert entry.cost == Budget()
        shown = ledger.show()
        assert shown["n_uncounted"] == 1
        assert shown["entries"][0]["guarantees"][0] == {"family": "threshold", "k": 5}

    def test_other_units_and_relations_are_refused(self, ledger: Ledger) -> None:
        replace = PureDP(epsilon="1/10", unit=Unit(kind="row"), neighbors="replace")
        node = PureDP(epsilon="1/10", unit=Unit(kind="node"), neighbors="add-remove")
        for act in (
            lambda g: ledger.charge(g, purpose="x"),
            lambda g: ledger.reserve(g, purpose="x"),
            ledger.quote,
        ):
            with pytest.raises(CompositionError, match="replace"):
                act([replace])
            with pytest.raises(CompositionError, match="one node"):
                act([pure("1/10"), node])
        assert ledger.spent() == Budget()

    def test_person_ledger(self, path: Path) -> None:
        unit = Unit(kind="person", column="patient", max_rows=3)
        ledger = Ledger.create(path, epsilon=1, unit=unit, neighbors="replace")
        assert Ledger.open(path).unit == unit
        ledger.charge([PureDP(epsilon=1, unit=unit, neighbors="replace")], purpose="x")
        other = Unit(kind="person", column="patient", max_rows=4)
        with pytest.raises(CompositionError, match="at most 4 rows"):
            ledger.quote([PureDP(epsilon=1, unit=other, neighbors="replace")])

    def test_quote_agrees_with_charge_and_writes_nothing(self, ledger: Ledger) -> None:
        before = ledger.path.read_bytes()
        quote = ledger.quote([pure("3/4")])
        assert quote.fits
        assert quote.remaining_after.epsilon == Fraction(1, 4)
        too_much = ledger.quote([pure(2)])
        assert not too_much.fits
        assert too_much.remaining_after.epsilon == -1
        assert json.loads(json.dumps(too_much.to_dict()))["fits"] is False
        assert ledger.path.read_bytes() == before
        ledger.charge([pure("3/4")], purpose="as quoted")
        assert ledger.remaining().epsilon == quote.remaining_after.epsilon

    def test_a_quote_includes_the_allocation_by_the_first_charge(self, path: Path) -> None:
        ledger = Ledger.create(path, epsilon=3, delta="1e-5")
        nothing_yet = ledger.remaining()
        for _ in range(2):
            quote = ledger.quote([pure(1)])
            entry = ledger.charge([pure(1)], purpose="as quoted")
            assert ledger.remaining() == quote.remaining_after
        assert quote.remaining_after.delta < nothing_yet.delta
        assert entry.cost.epsilon == 1

    @pytest.mark.parametrize("guarantees", [[], (), [1], pure(1), "pure", [{"family": "none"}]])
    def test_only_sequences_of_guarantees(self, ledger: Ledger, guarantees: Any) -> None:
        for act in (
            lambda: ledger.charge(guarantees, purpose="x"),
            lambda: ledger.reserve(guarantees, purpose="x"),
            lambda: ledger.quote(guarantees),
        ):
            with pytest.raises(ParameterError):
                act()

    @pytest.mark.parametrize("purpose", ["", "  ", "x" * 1001, None, 5])
    def test_a_purpose_is_needed(self, ledger: Ledger, purpose: Any) -> None:
        with pytest.raises(ParameterError, match="purpose"):
            ledger.charge([pure("1/10")], purpose=purpose)
        assert ledger.spent() == Budget()

    def test_any_text_survives(self, ledger: Ledger) -> None:
        odd = "Größe 🎈 \x00 \" ' \\ \ud800 \n"
        ledger.charge([pure("1/10")], purpose=odd)
        assert Ledger.open(ledger.path).entries()[0].purpose == odd

    def test_sums_with_thousands_of_digits_are_refused_when_written(self, path: Path) -> None:
        ledger = Ledger.create(path, epsilon=1)

        def charge_odd_numbers() -> None:
            for step in range(0, 60, 2):  # denominators without common factors
                ledger.charge([pure(Fraction(1, 10**300 + 2 * step + 1))], purpose="odd")
                ledger.reserve([pure(Fraction(1, 10**300 + 2 * step + 3))], purpose="odd")

        with pytest.raises(ParameterError, match="rounder"):
            charge_odd_numbers()
        assert 3 < len(ledger.entries()) < 30
        json.dumps(Ledger.open(path).show())  # still readable and printable
        ledger.verify()


class TestReservations:
    def test_held_drawn_and_canceled(self, ledger: Ledger) -> None:
        number = ledger.reserve([pure("1/2")], purpose="batch")
        assert ledger.reserved().epsilon == ledger.remaining().epsilon == Fraction(1, 2)
        with pytest.raises(BudgetExceeded):
            ledger.charge([pure("3/4")], purpose="not from the reservation")

        quote = ledger.quote([pure("1/8")], reservation=number)
        assert quote.fits
        entry = ledger.charge([pure("1/8")], purpose="part", reservation=number)
        assert entry.reservation == number
        assert ledger.remaining() == quote.remaining_after
        assert ledger.spent().epsilon == Fraction(1, 8)
        assert ledger.reserved().epsilon == Fraction(3, 8)

        with pytest.raises(BudgetExceeded, match=f"of reservation {number}"):
            ledger.charge([pure("1/2")], purpose="more than is left", reservation=number)
        ledger.release_reservation(number)
        assert ledger.reserved() == Budget()
        assert ledger.remaining().epsilon == Fraction(7, 8)
        with pytest.raises(Refused, match="canceled"):
            ledger.charge([pure("1/8")], purpose="too late", reservation=number)
        with pytest.raises(Refused, match="canceled"):
            ledger.release_reservation(number)
        assert [item.status for item in ledger.reservations()] == ["canceled"]

    def test_a_reservation_of_rho_pays_for_several_charges_of_rho(self, path: Path) -> None:
        """Their epsilons add up to more than was reserved, their rhos do not; the cap holds."""
        ledger = Ledger.create(path, epsilon=2, delta="1e-5", unit=Unit(kind="row"),
                               neighbors="add-remove")  # fmt: skip

        def of_rho(epsilon: str) -> ApproxDP:
            rho = concentrated_share(Fraction(epsilon), Fraction(1, 10**6))
            return approx(epsilon, "1e-6").model_copy(update={"rho": rho})

        whole = of_rho("3/2")
        number = ledger.reserve([whole], purpose="a series")
        part = of_rho("3/4")
        n = int(whole.rho / part.rho)  # type: ignore[operator]
        assert n > 2
        for _ in range(n):
            ledger.charge([part], purpose="a wave", reservation=number)
        assert ledger.spent().epsilon > Fraction(3, 2)
        with pytest.raises(BudgetExceeded, match=f"of reservation {number}"):
            ledger.charge([part], purpose="one too many", reservation=number)
        [held] = ledger.show()["reservations"]
        assert held["left"]["epsilon"] == "0"
        ledger.void(ledger.entries()[-1].id, "nobody saw it")
        ledger.charge([part], purpose="again", reservation=number)
        ledger.verify()

    def test_cannot_reserve_beyond_the_cap_or_for_the_uncounted(self, ledger: Ledger) -> None:
        ledger.reserve([pure("3/4")], purpose="most")
        with pytest.raises(BudgetExceeded):
            ledger.reserve([pure("1/2")], purpose="rest")
        with pytest.raises(CompositionError, match="threshold"):
            ledger.reserve([Threshold(k=3)], purpose="nothing to count")

    @pytest.mark.parametrize("number", [0, 99, -1, "1", True, None])
    def test_unknown_numbers(self, ledger: Ledger, number: Any) -> None:
        ledger.charge([pure("1/4")], purpose="entry 1 is not a reservation")
        with pytest.raises(ParameterError):
            ledger.release_reservation(number)
        if number is not None:
            with pytest.raises(ParameterError):
                ledger.charge([pure("1/4")], purpose="x", reservation=number)


class TestFateOfAnEntry:
    def test_void_gives_back_and_stays_in_the_chain(self, ledger: Ledger) -> None:
        entry = ledger.charge([pure("3/4")], purpose="crashed")
        ledger.void(entry.id, "the machine was switched off before anything was written; J. Doe")
        assert ledger.spent() == Budget()
        (kept,) = ledger.entries()
        assert kept.status == "void"
        assert kept.note.startswith("the machine")
        assert kept.receipt == entry.receipt
        ledger.charge([pure(1)], purpose="again")
        with pytest.raises(Refused, match="already void"):
            ledger.void(entry.id, "twice")

    def test_void_entry_cannot_be_released(self, ledger: Ledger) -> None:
        entry = ledger.charge([pure("3/4")], purpose="slow run")
        ledger.void(entry.id, "believed dead")
        with pytest.raises(Refused, match="already void"):
            ledger.mark_released(entry.id, "ab" * 32)

    def test_released_is_final(self, ledger: Ledger) -> None:
        entry = ledger.charge([pure("3/4")], purpose="table")
        ledger.mark_released(entry.id, "ab" * 32)
        assert ledger.entries()[0].status == "released"
        assert ledger.entries()[0].note == "ab" * 32
        with pytest.raises(Refused, match="already marked released"):
            ledger.void(entry.id, "changed my mind")
        with pytest.raises(Refused, match="already marked released"):
            ledger.mark_released(entry.id, "cd" * 32)
        assert ledger.spent().epsilon == Fraction(3, 4)

    def test_void_of_a_drawn_charge_returns_to_the_open_reservation(self, ledger: Ledger) -> None:
        number = ledger.reserve([pure("1/2")], purpose="batch")
        first = ledger.charge([pure("1/4")], purpose="a", reservation=number)
        second = ledger.charge([pure("1/8")], purpose="b", reservation=number)
        ledger.void(first.id, "nothing written")
        assert ledger.reserved().epsilon == Fraction(3, 8)
        ledger.release_reservation(number)
        ledger.void(second.id, "nothing written")
        assert ledger.remaining().epsilon == ledger.cap.epsilon
        assert ledger.spent() == ledger.reserved() == Budget()

    @pytest.mark.parametrize("number", [0, 99, "1", True])
    def test_unknown_entries(self, ledger: Ledger, number: Any) -> None:
        ledger.reserve([pure("1/4")], purpose="record 1 is not an entry")
        with pytest.raises(ParameterError):
            ledger.void(number, "x")
        with pytest.raises(ParameterError):
            ledger.mark_released(number, "x")

    def test_reason_and_digest_are_needed(self, ledger: Ledger) -> None:
        entry = ledger.charge([pure("1/4")], purpose="x")
        with pytest.raises(ParameterError, match="reason"):
            ledger.void(entry.id, " ")
        with pytest.raises(ParameterError, match="digest"):
            ledger.mark_released(entry.id, "")


class TestFile:
    def test_owner_only_and_single(self, path: Path) -> None:
        before = os.umask(0)
        try:
            ledger = Ledger.create(path, epsilon=1)
            ledger.charge([pure("1/2")], purpose="x")
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(path.parent.iterdir()) == [path]

    def test_a_review_changes_the_decision_and_stays_on_record(self, ledger: Ledger) -> None:
        ledger.review(Decision(responsible="data board", review_by="2027-06-30"))
        ledger.review(Decision(responsible="new head of registers", reason="handover"))
        shown = ledger.show()
        assert shown["decision"] == {
            "responsible": "new head of registers", "reason": "handover", "review_by": "2027-06-30",
        }  # fmt: skip
        assert [one["responsible"] for one in shown["reviews"]] == [
            "data board", "new head of registers",
        ]  # fmt: skip
        with pytest.raises(ParameterError, match="a review needs content"):
            ledger.review(Decision())
        assert ledger.spent() == Budget()

    def test_show_is_json_and_complete(self, ledger: Ledger) -> None:
        ledger.charge([approx("1/4", "1e-6")], purpose="a")
        number = ledger.reserve([pure("1/4")], purpose="b")
        shown = json.loads(json.dumps(ledger.show()))
        assert shown["cap"] == {"epsilon": "1", "delta": "1/100000"}
        assert shown["spent"] == {"epsilon": "1/4", "delta": "1/1000000"}
        assert shown["basic"] == {
            "limit": {
                "epsilon": "1",
                "delta": "1/200000",
            },  # half of delta; the other half is for zCDP composition
            "spent": {"epsilon": "1/4", "delta": "1/1000000"},
            "reserved": {"epsilon": "1/4", "delta": "0"},
            "left": {"epsilon": "1/2", "delta": "1/250000"},
        }
        assert shown["concentrated"]["spent"] == {"rho": "1/32", "delta": "1/1000000"}
        assert (shown["left"]["like"], shown["left"]["more"]) == (1, 2)
        assert shown["left"]["epsilon"] == "1/2"
        assert shown["unit"] == {"kind": "row"}
        assert shown["reservations"][0]["id"] == number
        assert shown["reservations"][0]["left"] == {"epsilon": "1/4", "delta": "0"}
        assert shown["head"] == ledger.verify()

    def test_existing_file_is_never_replaced(self, path: Path, ledger: Ledger) -> None:
        ledger.charge([pure("1/2")], purpose="x")
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="exists already"):
            Ledger.create(path, epsilon=100)
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "bad",
        [
            {"epsilon": 0},
            {"epsilon": -1},
            {"epsilon": float("nan")},
            {"epsilon": 101},
            {"epsilon": "much"},
            {"epsilon": Fraction(1, 10**5000)},
            {"epsilon": 1, "delta": -1},
            {"epsilon": 1, "delta": 0.5},
            {"epsilon": 1, "neighbors": "swap"},
            {"epsilon": 1, "unit": "row"},
            {"epsilon": 1, "name": "x" * 1001},
        ],
    )
    def test_bad_cap_leaves_no_file(self, path: Path, bad: dict[str, Any]) -> None:
        with pytest.raises(ParameterError):
            Ledger.create(path, **bad)
        assert not path.exists()

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match="existing folder"):
            Ledger.create(tmp_path / "nowhere" / "a.ledger", epsilon=1)
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger.open(tmp_path / "nowhere" / "a.ledger")

    def test_missing_file_is_not_created(self, path: Path) -> None:
        with pytest.raises(LedgerError, match="ledger init"):
            Ledger.open(path)
        assert not path.exists()

    def test_file_gone_while_in_use(self, path: Path, ledger: Ledger) -> None:
        path.unlink()
        with pytest.raises(LedgerError, match="does not exist"):
            ledger.charge([pure("1/2")], purpose="x")
        assert not path.exists()

    def test_folder_instead_of_file(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match="folder"):
            Ledger.open(tmp_path)
        with pytest.raises(LedgerError):
            Ledger.create(tmp_path, epsilon=1)

    @pytest.mark.parametrize(
        "name", ["a?b#c%41.ledger", "mit Leerzeichen ä.ledger", "-x", "a&mode=ro"]
    )
    def test_odd_names(self, tmp_path: Path, name: str) -> None:
        Ledger.create(tmp_path / name, epsilon=1).charge([pure(1)], purpose="x")
        assert [item.name for item in tmp_path.iterdir()] == [name]

    def test_not_a_path(self) -> None:
        for wrong in ("a\0b", None, 5):
            with pytest.raises(LedgerError, match="not a path"):
                Ledger.open(wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "content", [b"", b"not a database" * 100, b"SQLite format 3\0" + b"x" * 500]
    )
    def test_not_a_ledger(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(LedgerError, match="not a ledger"):
            Ledger.open(path)
        assert path.read_bytes() == content

    def test_another_database(self, path: Path) -> None:
        sql(path, "CREATE TABLE t (x)")
        with pytest.raises(LedgerError, match="not a ledger"):
            Ledger.open(path)

    def test_newer_format(self, path: Path, ledger: Ledger) -> None:
        sql(path, "PRAGMA user_version = 6")
        for act in (lambda: Ledger.open(path), lambda: ledger.charge([pure("1/2")], purpose="x")):
            with pytest.raises(LedgerError, match="ledger format 6"):
                act()

    def test_truncated_file(self, path: Path, ledger: Ledger) -> None:
        for _ in range(30):
            ledger.charge([pure("1/100")], purpose="x" * 900)
        content = path.read_bytes()
        for size in range(100, len(content), 4096 // 2 + 7):
            path.write_bytes(content[:size])
            with pytest.raises(LedgerError):
                Ledger.open(path)

    def test_clock_that_runs_backwards(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = ledger.charge([pure("1/4")], purpose="now")
        monkeypatch.setattr(told, "now", lambda: "1970-01-01T00:00:00.000000+00:00")
        second = ledger.charge([pure("1/4")], purpose="long ago")
        assert first.time > second.time
        assert [entry.purpose for entry in ledger.entries()] == ["now", "long ago"]
        assert ledger.verify() == second.receipt

    def test_seconds_from_charge_to_release(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        times = iter(["2030-01-01T00:00:00.000000+00:00", "2030-01-01T00:01:30.500000+00:00"])
        monkeypatch.setattr(told, "now", lambda: next(times))
        entry = ledger.charge([pure("1/4")], purpose="x")
        assert entry.seconds is None
        ledger.mark_released(entry.id, "digest")
        assert ledger.entries()[-1].seconds == 90.5
        monkeypatch.setattr(told, "now", lambda: "2030-01-01T00:00:00.000000+00:00")
        entry = ledger.charge([pure("1/4")], purpose="x")
        monkeypatch.setattr(told, "now", lambda: "1970-01-01T00:00:00.000000+00:00")
        ledger.mark_released(entry.id, "digest")
        assert ledger.entries()[-1].seconds is None  # the clock was set back

    def test_times_are_utc(self, ledger: Ledger) -> None:
        assert ledger.charge([pure("1/4")], purpose="x").time.endswith("+00:00")

    def test_every_commit_is_synced_with_its_folder(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []
        append = file.append

        def watch(connection: sqlite3.Connection, *rest: Any) -> None:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
            seen.append((mode, synchronous))
            append(connection, *rest)

        monkeypatch.setattr(file, "append", watch)
        ledger.charge([pure("1/4")], purpose="x")
        assert seen == [("delete", 3)]  # 3 is EXTRA

    def test_a_write_ahead_log_is_folded_back_in(self, path: Path, ledger: Ledger) -> None:
        sql(path, "PRAGMA journal_mode = WAL")
        ledger.charge([pure("1/4")], purpose="x")
        assert list(path.parent.iterdir()) == [path]
        assert Ledger.open(path).spent().epsilon == Fraction(1, 4)


class TestFilesThatCannotBeWritten:
    def test_full_disk(self, path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger.charge([pure("1/4")], purpose="fits")
        connect = file._connect

        def without_room(where: Path, timeout: float) -> sqlite3.Connection:
            connection = connect(where, timeout)
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
            return connection

        monkeypatch.setattr(file, "_connect", without_room)

        def fill() -> None:
            for _ in range(40):
                ledger.charge([pure("1/1000")], purpose="x" * 900)

        with pytest.raises(LedgerError, match="disk is full"):
            fill()
        monkeypatch.undo()
        entries = Ledger.open(path).entries()
        assert 1 <= len(entries) < 40
        ledger.charge([pure("1/4")], purpose="room again")

    def test_full_disk_at_the_start_leaves_no_file(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect = file._connect

        def without_room(where: Path, timeout: float) -> sqlite3.Connection:
            connection = connect(where, timeout)
            connection.execute("PRAGMA max_page_count = 1")
            return connection

        monkeypatch.setattr(file, "_connect", without_room)
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger.create(path, epsilon=1)
        assert list(path.parent.iterdir()) == []

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
    def test_a_device_is_not_a_ledger(self) -> None:
        with pytest.raises(LedgerError):
            Ledger.open("/dev/full")

    def test_read_only_medium(
        self, path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger.charge([pure("1/4")], purpose="x")
        before = path.read_bytes()

        def read_only(where: Path, timeout: float) -> sqlite3.Connection:
            return sqlite3.connect(
                f"{where.as_uri()}?mode=ro", uri=True, timeout=timeout, isolation_level=None
            )

        monkeypatch.setattr(file, "_connect", read_only)
        with pytest.raises(LedgerError, match="read-only"):
            ledger.charge([pure("1/4")], purpose="x")
        assert Ledger.open(path).spent().epsilon == Fraction(1, 4)  # it can still be read
        assert path.read_bytes() == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Create a folder that an unprivileged user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


WITHOUT_PRIVILEGES = """
import os, sys, urllib.parse  # which pathlib may want when the interpreter is out of reach
from pathlib import Path
from hushtable.errors import LedgerError
from hushtable.privacy.guarantee import PureDP, Unit
from hushtable.privacy.ledger.ledger import Ledger
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)  # root is not bound by permissions
guarantees = [PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="add-remove")]
for case in sys.argv[2:]:
    file_mode, folder_mode = (int(mode, 8) for mode in case.split("-"))
    folder = Path(sys.argv[1], case)
    folder.mkdir()
    path = folder / "a.ledger"
    Ledger.create(path, epsilon=1)
    path.chmod(file_mode), folder.chmod(folder_mode)
    try:
        Ledger.open(path).charge(guarantees, purpose="x")
        print("charged")
    except LedgerError as error:
        print(error)
    folder.chmod(0o755), path.chmod(0o644)
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX systems")
def test_permissions(open_folder: Path) -> None:
    expected = {
        "400-755": "read-only",
        "000-755": "cannot be opened",
        "600-555": "read-only|cannot be opened",  # the journal cannot be created
    }
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_PRIVILEGES, str(open_folder), *expected],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    lines = result.stdout.splitlines()
    assert len(lines) == len(expected)
    for line, (case, message) in zip(lines, expected.items(), strict=True):
        path = open_folder / case / "a.ledger"
        assert line.startswith(str(path))
        assert re.search(message, line), line
        assert Ledger.open(path).spent() == Budget()


def fields_of(record: dict[str, Any], at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a record, including nested ones."""
    paths = []
    items = record.items() if isinstance(record, dict) else enumerate(record)
    for key, value in items:
        paths.append((*at, key))
        if isinstance(value, dict | list):
            paths += fields_of(value, (*at, key))
    return paths


def rewrite(path: Path, records: list[dict[str, Any]]) -> None:
    """Forge a ledger with these records; digests and head are computed as hushtable would."""
    digest = "0" * 64
    sql(path, "DELETE FROM records")
    for seq, record in enumerate(records):
        body = json.dumps(record, sort_keys=True, separators=(",", ":"))
        digest = digest_of(digest, body)
        sql(path, "INSERT INTO records VALUES (?, ?, ?)", seq, body, digest)
    sql(path, "UPDATE head SET seq = ?, digest = ?", len(records) - 1, digest)


class TestTampering:
    @pytest.fixture
    def used(self, ledger: Ledger) -> Ledger:
        """Return a ledger with one record of each kind."""
        entry = ledger.charge([approx("1/4", "1e-6"), Threshold(k=5)], purpose="table")
        ledger.mark_released(entry.id, "ab" * 32)
        number = ledger.reserve([pure("1/4")], purpose="batch")
        drawn = ledger.charge([pure("1/8")], purpose="part", reservation=number)
        ledger.void(drawn.id, "never ran")
        ledger.release_reservation(number)
        ledger.charge([pure("1/8")], purpose="last")
        return ledger

    def records(self, path: Path) -> list[dict[str, Any]]:
        return [json.loads(body) for (body,) in sql(path, "SELECT body FROM records ORDER BY seq")]

    def assert_detected(self, ledger: Ledger, match: str | None = None) -> None:
        for act in (
            ledger.verify,
            ledger.remaining,
            ledger.show,
            lambda: Ledger.open(ledger.path),
            lambda: ledger.quote([pure("1/100")]),
            lambda: ledger.charge([pure("1/100")], purpose="x"),
        ):
            with pytest.raises(LedgerError, match=match):
                act()

    def test_every_field_of_every_record(self, used: Ledger) -> None:
        records = self.records(used.path)
        assert {record["kind"] for record in records} == {
            *("init", "charge", "released", "reserve", "void", "cancel")
        }
        n_edits = 0
        for seq, record in enumerate(records):
            for place in fields_of(record):
                forged = json.loads(json.dumps(record))
                inner = forged
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = "2" if inner[place[-1]] != "2" else "3"
                body = json.dumps(forged, sort_keys=True, separators=(",", ":"))
                (before,) = sql(used.path, "SELECT body FROM records WHERE seq = ?", seq)
                sql(used.path, "UPDATE records SET body = ? WHERE seq = ?", body, seq)
                with pytest.raises(LedgerError, match=f"record {seq} was edited"):
                    used.verify()
                sql(used.path, "UPDATE records SET body = ? WHERE seq = ?", before[0], seq)
                n_edits += 1
        assert n_edits > 50
        used.verify()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE records SET digest = 'f' || substr(digest, 2) || 'x' WHERE seq = 3",
            "UPDATE records SET digest = '' WHERE seq = 3",
            "UPDATE records SET body = replace(body, '\"1\"', '\"9\"') WHERE seq = 0",  # the cap
            "UPDATE records SET body = body || ' ' WHERE seq = 2",
            "UPDATE records SET body = CAST(body AS BLOB) WHERE seq = 2",
            "UPDATE records SET body = CAST(x'ff' AS TEXT) WHERE seq = 2",
            "UPDATE records SET seq = seq + 100 WHERE seq = 7",
            "UPDATE records SET seq = -seq",
            "DELETE FROM records",
            "DELETE FROM records WHERE seq = 0",
            "DELETE FROM records WHERE seq = 3",
            "DELETE FROM records WHERE seq = 7",
            "DELETE FROM records WHERE seq >= 5",
            "INSERT INTO records SELECT 8, body, digest FROM records WHERE seq = 7",
            "UPDATE head SET seq = 6",
            "UPDATE head SET digest = (SELECT digest FROM records WHERE seq = 6)",
            "UPDATE head SET id = 2",
            "DELETE FROM head",
            "INSERT INTO head SELECT 2, seq, digest FROM head",
            "DROP TABLE head",
            "DROP TABLE records",
            "PRAGMA user_version = 0",
            "PRAGMA application_id = 0",
        ],
    )
    def test_every_column(self, used: Ledger, statement: str) -> None:
        sql(used.path, statement)
        self.assert_detected(used)

    @pytest.mark.parametrize(("a", "b"), [(1, 2), (1, 7), (4, 7)])
    def test_swapped_records(self, used: Ledger, a: int, b: int) -> None:
        sql(used.path, "UPDATE records SET seq = 1000 WHERE seq = ?", a)
        sql(used.path, "UPDATE records SET seq = ? WHERE seq = ?", a, b)
        sql(used.path, "UPDATE records SET seq = ? WHERE seq = 1000", b)
        self.assert_detected(used, match="edited, replaced or moved")

    def test_all_damage_is_listed(self, used: Ledger) -> None:
        sql(used.path, "UPDATE records SET body = body || ' ' WHERE seq IN (2, 5)")
        with pytest.raises(LedgerError) as caught:
            used.verify()
        assert "record 2" in str(caught.value)
        assert "record 5" in str(caught.value)

    @pytest.mark.parametrize(
        "forge",
        [
            lambda r: r[7]["guarantees"][0].update(epsilon="3"),  # beyond the cap
            lambda r: r[7]["guarantees"][0].update(epsilon="-1/2"),  # returns budget
            lambda r: r[7]["guarantees"][0].update(neighbors="replace"),
            lambda r: r[7]["guarantees"][0].update(delta="0"),
            lambda r: r[7].update(kind="refund"),
            lambda r: r.__setitem__(7, {**r[0], "seq": 7, "epsilon": "50"}),  # a new cap
            lambda r: r.__setitem__(0, {**r[7], "seq": 0}),  # none at all
            lambda r: r[7].update(reservation=3),  # a canceled one
            lambda r: r[7].update(reservation=[]),
            lambda r: r[7].pop("guarantees"),
            lambda r: r[5].update(entry=1),  # voids what was released
            lambda r: r[0].update(epsilon="1/4"),  # a cap below what is spent
            lambda r: r[0].update(format=6),
            lambda r: r[0].update(format=4),
            lambda r: r[0].update(allow_uncounted=1),
            lambda r: r[0].update(table={"name": "x", "digest": "y"}),
            lambda r: r[7].update(guarantees=[{"family": "threshold", "k": 5}]),
            lambda r: r[0].update(unit="person"),
            lambda r: r[7].update(seq=6),
        ],
    )
    def test_rules_hold_even_if_all_digests_are_recomputed(self, used: Ledger, forge: Any) -> None:
        records = self.records(used.path)
        forge(records)
        rewrite(used.path, records)
        with pytest.raises(LedgerError):
            Ledger.open(used.path)

    def test_another_form_of_the_same_record(self, used: Ledger) -> None:
        (digest,) = sql(used.path, "SELECT digest FROM records WHERE seq = 6")[0]
        (last,) = sql(used.path, "SELECT body FROM records WHERE seq = 7")[0]
        digest = digest_of(digest, last + " ")
        sql(used.path, "UPDATE records SET body = ?, digest = ? WHERE seq = 7", last + " ", digest)
        sql(used.path, "UPDATE head SET digest = ?", digest)
        with pytest.raises(LedgerError, match="canonical form"):
            Ledger.open(used.path)

    def test_older_copy_is_found_by_a_receipt(self, path: Path, ledger: Ledger) -> None:
        first = ledger.charge([pure("1/4")], purpose="a")
        old = path.read_bytes()
        second = ledger.charge([pure("3/4")], purpose="b")
        assert ledger.verify(receipt=first.receipt) == second.receipt
        path.write_bytes(old)

        # The object that read the newer file detects it.
        with pytest.raises(LedgerError, match="replaced"):
            ledger.charge([pure("3/4")], purpose="again")
        # A new process needs the receipt from the second release's statement.
        reopened = Ledger.open(path)
        assert reopened.verify(receipt=first.receipt) == first.receipt
        with pytest.raises(LedgerError, match="older copy"):
            reopened.verify(receipt=second.receipt)
        # Spending the budget a second time gives another receipt, even for the same purpose.
        again = reopened.charge([pure("3/4")], purpose="b")
        assert again.receipt != second.receipt
        with pytest.raises(LedgerError, match="older copy"):
            reopened.verify(receipt=second.receipt)

    def test_consistent_rewrite_is_found_by_a_receipt_only(
        self, path: Path, ledger: Ledger
    ) -> None:
        entry = ledger.charge([pure(1)], purpose="all of it")
        records = self.records(path)
        records[0]["epsilon"] = "50"
        rewrite(path, records)
        forged = Ledger.open(path)  # the chain alone cannot reveal this
        assert forged.cap.epsilon == 50
        with pytest.raises(LedgerError, match="rewritten"):
            forged.verify(receipt=entry.receipt)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.verify()

    def test_another_ledger_in_its_place(self, tmp_path: Path, ledger: Ledger) -> None:
        ledger.charge([pure(1)], purpose="x")
        fresh = Ledger.create(tmp_path / "fresh", epsilon=1, delta="1e-5", name="survey")
        fresh.path.replace(ledger.path)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.charge([pure(1)], purpose="x")

    @pytest.mark.parametrize("receipt", ["", "0" * 64, "nonsense"])
    def test_made_up_receipts(self, used: Ledger, receipt: str) -> None:
        with pytest.raises(LedgerError, match="receipt"):
            used.verify(receipt=receipt)


def test_bytes_that_are_not_text_are_reported_as_damage(tmp_path: Path) -> None:
    """SQLite may quote a damaged file's bytes in its message, which Python then cannot read."""
    book = Ledger.create(tmp_path / "people.ledger", epsilon=1, delta=0)
    with (
        pytest.raises(LedgerError, match=r"is damaged; restore it"),
        file.connection_to(book.path, timeout=1.0),
    ):
        raise UnicodeDecodeError("utf-8", b"\x80", 0, 1, "invalid start byte")
