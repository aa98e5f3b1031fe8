"""Attacks on the ledger from the command line: free releases, other ledgers, double use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from hushtable import Ledger

from .conftest import Result, Run

# Few rows for their domain: these tests attack the accounting only.
NOISY = ("--epsilon", 50, "--delta", "1e-6", "--k", 5, "--anyway")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Create 500 patients with 8 columns, their schema, and a schema of other people."""
    rows = {f"x{i}": [(7 * j + i * j) % 10 for j in range(500)] for i in range(8)}
    pa_csv.write_csv(pa.table(rows), tmp_path / "patients.csv")
    columns = "".join(f"  x{i}: {{type: integer, low: 0, high: 9}}\n" for i in range(8))
    (tmp_path / "patients.yaml").write_text(f"name: patients\ncolumns:\n{columns}")
    (tmp_path / "tickets.yaml").write_text(f"name: parking tickets 2019\ncolumns:\n{columns}")
    return tmp_path


def published(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_dir()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--d", "1e-60"), "d needs a public number of tuples"),
        (("--d", "1e-60", "--n-public", "500"), "the guarantee is empty"),
        (("--prior-factor", "1e-60", "--n-public", "500"), "the guarantee is empty"),
        (("--prior-factor", "1", "--n-public", "1"), "was requested, but 1/10 remains"),
        (("--d", "1/1000", "--n-public", "500"), "was requested, but 1/10 remains"),
    ],
)
@pytest.mark.parametrize("allow", [False, True])
def test_rows_for_nothing(
    run: Run, place: Path, options: tuple[str, ...], said: str, allow: bool
) -> None:
    book = place / "book"
    more = ("--allow-uncounted",) if allow else ()
    assert run("ledger", "init", book, "--epsilon", "0.1", *more).code == 0
    done = run("publish", "alpha-beta", place / "patients.csv", place / "patients.yaml",
               *options, "--gamma", "1/5", "--out", place / "r", "--ledger", book)  # fmt: skip
    assert done.code in (1, 2)
    assert said in done.err
    assert Ledger.open(book).entries() == ()
    assert published(place) == []


def test_uncounted_is_refused_or_said_loudly(run: Run, place: Path) -> None:
    words = ("publish", "generalize-suppress", place / "patients.csv", place / "patients.yaml",
             "--k", 2)  # fmt: skip
    run("ledger", "init", place / "strict", "--epsilon", 1)
    done = run(*words, "--out", place / "r", "--ledger", place / "strict")
    assert (done.code, "ledger init FILE --allow-uncounted" in done.err) == (1, True)
    run("ledger", "init", place / "lax", "--epsilon", 1, "--allow-uncounted")
    for ledger, loud in (("strict", False), ("lax", True)):
        told = " ".join(run("ledger", "show", place / ledger).out.split())
        assert ("WARNING: This ledger accepts releases that it does not count" in told) is loud
        shown = json.loads(run("ledger", "show", place / ledger, "--json").out)
        assert shown["allow_uncounted"] is loud
    assert run(*words, "--out", place / "r", "--ledger", place / "lax").code == 0
    assert "releases whose cost it cannot count" in (place / "r" / "STATEMENT.md").read_text()
    assert json.loads((place / "r" / "statement.json").read_text())["ledger"]["uncounted"] is True
    assert "cannot count" in " ".join(run("show", place / "r").out.split())


def test_parking_tickets_pay_for_nobody_else(run: Run, place: Path) -> None:
    book = place / "book"
    run("ledger", "init", book, "--epsilon", 60, "--schema", place / "tickets.yaml")
    # The file does not exist: the command refuses before it looks for it.
    words = ("publish", "noisy-counts", place / "nowhere.csv", place / "patients.yaml", *NOISY,
             "--out", place / "r", "--ledger", book)  # fmt: skip
    done = run(*words)
    assert done.code == 1
    assert "'parking tickets 2019'" in done.err
    assert "--same-people REASON" in done.err
    assert Ledger.open(book).entries() == ()
    told = run("ledger", "show", book).out
    assert "Pays for parking tickets 2019 (schema " in told
    ours = ("publish", "noisy-counts", place / "patients.csv", place / "patients.yaml",
            "--epsilon", 1, *NOISY[2:], "--out", place / "r")  # fmt: skip
    run("ledger", "init", place / "both", "--epsilon", 2, "--delta", "1e-5",
        "--schema", place / "tickets.yaml")  # fmt: skip
    assert run(*ours, "--ledger", place / "both", "--same-people", "the town's drivers").code == 0
    told = " ".join(run("ledger", "show", place / "both").out.split())
    assert "Pays for patients" in told
    assert "since entry 1: the town's drivers." in told


def test_a_copy_from_the_backup_does_not_pay_twice(run: Run, place: Path) -> None:
    book, backup = place / "book", place / "backup"
    run("ledger", "init", book, "--epsilon", 1, "--delta", "1e-5")
    shutil.copy(book, backup)

    def publish(name: str, *more: object) -> Result:
        return run("publish", "noisy-counts", place / "patients.csv", place / "patients.yaml",
                   "--epsilon", 1, *NOISY[2:], "--out", place / name,
                   "--ledger", book, *more)  # fmt: skip

    assert publish("first").code == 0
    shutil.copy(backup, book)
    done = publish("second")
    assert done.code == 1
    assert "older than what was published from it" in done.err
    assert Ledger.open(book).entries() == ()
    assert not (place / "second").exists()
    # Another folder has no receipt beside the ledger, but the first release's receipt helps.
    (place / "elsewhere").mkdir()
    receipt = json.loads((place / "first" / "statement.json").read_text())["ledger"]["receipt"]
    done = publish("elsewhere/second", "--receipt", receipt)
    assert done.code == 1
    assert "does not contain the receipt" in done.err
    assert Ledger.open(book).entries() == ()


def test_receipts_lead_the_custodian_to_entries(run: Run, place: Path) -> None:
    book = place / "book"
    run("ledger", "init", book, "--epsilon", 3, "--delta", "1e-5")
    run("publish", "noisy-counts", place / "patients.csv", place / "patients.yaml", "--epsilon", 1,
        *NOISY[2:], "--out", place / "r", "--ledger", book)  # fmt: skip
    document = json.loads((place / "r" / "statement.json").read_text())
    assert set(document["ledger"]) == {"receipt", "uncounted"}
    receipt = document["ledger"]["receipt"]
    assert receipt[:16] in run("ledger", "show", book).out
    shown = json.loads(run("ledger", "show", book, "--json").out)
    assert [entry["id"] for entry in shown["entries"] if entry["receipt"] == receipt] == [1]
    for file in ("statement.json", "STATEMENT.md"):
        assert "entry" not in (place / "r" / file).read_text()
