"""``hushtable dossier``: writes and checks dossiers, and never takes a release for a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run


@pytest.fixture
def released(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    run("ledger", "init", "book", "--epsilon", "1", "--delta", "1e-6", "--schema", "schema.yaml")
    done = run("publish", "noisy-counts", "data.csv", "schema.yaml", "--out", "release", "--ledger",
               "book", "--epsilon", "0.5", "--mechanism", "pure", "--generalize", "age=20",
               "--responsible", "the data board", "--reason", "a pilot",
               "--review-by", "2099-01-01")  # fmt: skip
    assert done.code == 0
    return files


def test_a_dossier_from_the_command_line(run: Run, released: Path) -> None:
    (released / "facts.yaml").write_text("curator: City clinic\n")
    done = run("dossier", "release", "--ledger", "book", "--facts", "facts.yaml", "-o", "d.json")
    assert done.code == 0
    words = " ".join(done.out.split())
    assert "Wrote d.json." in words
    assert "answers are 'not stated': collection, region" in words
    assert "curator" not in words
    assert "INTERNAL: contains ledger entries" in words
    content = json.loads(Path("d.json").read_text())["dossier"]
    said = {one["id"]: one["answer"] for part in content["sections"] for one in part["answers"]}
    assert said["responsible"] == ["for release: the data board"]
    assert said["review"] == ["for release: 2099-01-01"]
    told = run("dossier", "verify", "d.json")
    assert told.code == 0
    assert "d.json and its" in " ".join(told.out.split())
    assert "It is not signed" in told.out


def test_programs_get_json(run: Run, released: Path) -> None:
    told = json.loads(run("dossier", "release", "--out", "d.json", "--json").out)
    assert told["dossier"] == "d.json"
    assert "curator" in told["not_stated"]
    checked = json.loads(run("dossier", "verify", "d.json", "--json").out)
    assert (checked["signer"], checked["signed_with_key"]) == (None, False)
    assert checked["files"] >= 2


def test_options_may_stand_first(run: Run, released: Path) -> None:
    assert run("dossier", "--out", "d.html", "--ledger", "book", "release").code == 0
    assert run("dossier", "verify", "d.html").code == 0


def test_a_changed_dossier_fails(run: Run, released: Path) -> None:
    run("dossier", "release", "--out", "d.json")
    text = Path("d.json").read_text()
    Path("d.json").write_text(text.replace("epsilon 0.5", "epsilon 0.1"))
    told = run("dossier", "verify", "d.json")
    assert told.code == 1
    assert "was changed after it was sealed" in told.err


def test_nothing_is_written_where_something_is_wrong(run: Run, released: Path) -> None:
    for wrong in (
        ("dossier", "release", "--out", "d.pdf"),
        ("dossier", "nowhere", "--out", "d.json"),
        ("dossier", "release", "--out", "d.json", "--key", "schema.yaml"),
        ("dossier", "release", "--out", "d.json", "--evaluation", "schema.yaml"),
        ("dossier", "release"),
        ("dossier", "verify", "data.csv"),
    ):
        done = run(*wrong)
        assert done.code in {1, 2}, wrong
        assert done.err
        assert not list(released.glob("d.*"))


def test_help_names_both(run: Run) -> None:
    told = run("dossier", "--help")
    assert told.code == 0
    assert "write" in told.out
    assert "verify" in told.out
