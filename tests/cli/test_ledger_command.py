"""``hushtable ledger``: a summary for people, exact numbers for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushtable import Decision, Guarantee, Ledger, PureDP, Threshold, Unit

from .conftest import Run

ROW = {"unit": Unit(kind="row"), "neighbors": "add-remove"}


def pure(epsilon: str) -> list[Guarantee]:
    return [PureDP(epsilon=epsilon, **ROW)]  # type: ignore[arg-type]


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    """Make a ledger with one record of every kind."""
    book = Ledger.create(
        tmp_path / "book", epsilon=3, delta="1e-5", name="clinic visits", allow_uncounted=True
    )
    held = book.reserve(pure("1/3"), purpose="next year")
    book.mark_released(book.charge(pure("1"), purpose="yearly table").id, "digest")
    book.charge(pure("1/10"), purpose="a part of it", reservation=held)
    book.void(book.charge(pure("1/2"), purpose="wrong file").id, "nothing came out")
    book.charge([Threshold(k=5)], purpose="k-anonymous")
    return book


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_account_is_for_people(run: Run, book: Ledger) -> None:
    told = run("ledger", "show", book.path)
    assert told.code == 0
    assert "clinic visits: created 20" in told.out
    assert "protects one row, neighbors add-remove" in " ".join(told.out.split())
    assert "Cap for all releases together: epsilon 3, delta 0.00001." in " ".join(told.out.split())
    assert "{" not in told.out
    found = lines(told.out)
    assert ["account", "counts", "limit", "spent", "reserved"] in found
    assert ["basic", "epsilon", "3", "1.1", "about", "0.2333"] in found
    assert ["delta", "0.000005", "0", "0"] in found  # relative to its own limit


def test_both_accounts_are_shown(run: Run, book: Ledger) -> None:
    told = run("ledger", "show", book.path)
    found, said = lines(told.out), " ".join(told.out.split())
    (rho,) = (line for line in found if line[:2] == ["concentrated", "rho"])
    assert rho[4:6] == ["about", "0.5050"]  # 1/2 + 1/200 exceeds rho, so basic composition applies
    assert "A release must fit one of the accounts" in said
    # 1/10, epsilon 1.667 remains
    words = (
        "16 more releases like the last one (epsilon 0.1), or one of its kind with epsilon 1.66."
    )
    assert f"Left: {words}" in said
    content = json.loads(run("ledger", "show", book.path, "--json").out)
    assert content["left"] == {"like": 4, "more": 16, "epsilon": "83/50", "in_words": words}
    assert content["concentrated"]["left"]["rho"] == "0"


def test_what_was_spent_over_time_is_drawn(run: Run, book: Ledger) -> None:
    told = run("ledger", "show", book.path).out
    assert "Spent over time, 20" in told
    drawn = {line.split()[0]: line for line in told.splitlines() if set(line) & set("▁▂▃▄▅▆▇█")}
    assert set(drawn) == {"basic", "concentrated"}
    assert drawn["basic"].endswith("36.7%")  # 1.1 of 3; the void entry is subtracted
    assert "▅" in drawn["basic"]
    assert drawn["concentrated"].rstrip().endswith("full")  # 254% of 0.199
    history = json.loads(run("ledger", "show", book.path, "--json").out)["history"]
    assert [round(step["basic"], 3) for step in history] == [0, 0.333, 0.367, 0.533, 0.367]


def test_who_why_and_until_when(run: Run, tmp_path: Path) -> None:
    run("ledger", "init", tmp_path / "book", "--epsilon", "1", "--responsible", "the data board",
        "--reason", "as decided\nin May", "--review-by", "2020-06-30")  # fmt: skip
    said = " ".join(run("ledger", "show", tmp_path / "book").out.split())
    assert (
        "The cap: responsible: the data board; reason: as decided in May; review by 2020-06-30."
        in said
    )
    assert "The cap: the review is overdue." in said
    content = json.loads(run("ledger", "show", tmp_path / "book", "--json").out)
    assert content["decision"] == {
        "responsible": "the data board", "reason": "as decided\nin May", "review_by": "2020-06-30",
    }  # fmt: skip
    wrong = run("ledger", "init", tmp_path / "other", "--epsilon", "1", "--review-by", "in June")
    assert wrong.code == 2
    assert "review_by is 'in June'" in wrong.err
    assert not (tmp_path / "other").exists()


def test_the_page_of_a_ledger(run: Run, book: Ledger, tmp_path: Path) -> None:
    book.charge(pure("1/10"), purpose="<script>", decision=Decision(responsible="A & B"))
    page = tmp_path / "account.html"
    told = run("ledger", "show", book.path, "--html", page)
    assert told.code == 0
    text = page.read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "A &amp; B" in text
    assert "15 more releases like the last one" in text
    assert text.count("<svg") == 1
    assert "not counted" in text
    again = run("ledger", "show", book.path, "--html", page)
    assert again.code == 2
    assert "exists" in again.err
    assert page.read_text() == text


def test_every_entry_and_reservation_is_listed(run: Run, book: Ledger) -> None:
    said = " ".join(run("ledger", "show", book.path).out.split())
    for words in (
        "yearly table 1 0 released", "wrong file 0.5 0 void: nothing", "k-anonymous not counted",
        "Entries", "Reservations", "next year about 0.3333 0 open, epsilon",
    ):  # fmt: skip
        assert words in said, words
    assert book.entries()[0].time[:10] in said
    assert run("ledger", "cancel", book.path, 1).code == 0
    assert "next year about 0.3333 0 canceled" in " ".join(
        run("ledger", "show", book.path).out.split()
    )


def test_an_empty_account_says_so(run: Run, tmp_path: Path) -> None:
    run("ledger", "init", tmp_path / "book", "--epsilon", "1/4")
    told = run("ledger", "show", tmp_path / "book")
    assert ["basic", "epsilon", "0.25", "0", "0"] in lines(told.out)
    assert "Left: One release may use epsilon 0.25." in told.out
    assert "Nothing has been charged." in told.out


def test_programs_get_exact_numbers(run: Run, book: Ledger) -> None:
    assert json.loads(run("ledger", "show", book.path, "--json").out) == json.loads(
        json.dumps(book.show())
    )


@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_no_number_is_cut_on_a_narrow_screen(
    width: int, run: Run, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = run("ledger", "show", book.path).out
    assert "…" not in told
    for number in ("about 0.3333", "about 0.2333", "0.00001", "not counted"):
        assert number in told


def test_a_terminal_does_not_obey_what_is_written_in_a_ledger(run: Run, tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=1, name="visits\x1b[2J")
    book.charge(pure("1/2"), purpose="one\x1b]0;x\x07\ntwo [red]")
    told = run("ledger", "show", book.path).out
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "[red]" in told


def test_a_canceled_reservation_is_free_again(run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "book"
    run("ledger", "init", ledger, "--epsilon", "1")
    assert run("ledger", "reserve", ledger, "--epsilon", "0.8", "--purpose", "later").code == 0
    refused = run("ledger", "reserve", ledger, "--epsilon", "0.8", "--purpose", "now")
    assert refused.code == 1
    done = run("ledger", "cancel", ledger, 1)
    assert (done.code, done.out) == (0, "Reservation 1 is canceled.\n")
    assert Ledger.open(ledger).remaining().epsilon == 1
    again = run("ledger", "cancel", ledger, 1)
    assert again.code == 1
    assert "canceled" in again.err
    unknown = run("ledger", "cancel", ledger, 7)
    assert unknown.code == 2
    assert "no reservation 7; existing ones: 1" in unknown.err


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        ("0", "5", ["epsilon is 0;", "delta is 5;"]),
        ("200", "-1", ["epsilon is 200;", "delta is -1;"]),
        ("lots", "few", ["'lots'", "'few'"]),
        ("0", "0", ["epsilon is 0;"]),
    ],
)
def test_all_that_is_wrong_with_an_amount_is_named(
    epsilon: str, delta: str, said: list[str], run: Run, tmp_path: Path
) -> None:
    amount = ("--epsilon", epsilon, "--delta", delta)
    started = run("ledger", "init", tmp_path / "new", *amount)
    assert not (tmp_path / "new").exists()
    Ledger.create(tmp_path / "book", epsilon=1)
    reserved = run("ledger", "reserve", tmp_path / "book", *amount, "--purpose", "x")
    for done in (started, reserved):
        assert done.code == 2
        assert all(words in done.err for words in said), done.err
