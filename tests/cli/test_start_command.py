"""`hushtable start`: every step of a newcomer, with the commands that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release


def test_start_leads_from_a_table_to_a_charged_release(tmp_path: Path) -> None:
    rows = "\n".join(f"{20 + i % 60},{'FM'[i % 2]},town {i % 3}" for i in range(600))
    (tmp_path / "people.csv").write_text(f"age,sex,town\n{rows}\n")
    answers = ["a", "as collected", "a", "", "a", "the questionnaire", "600", "1", "n", "2", "y",
               "3", "first"]  # fmt: skip
    done = CliRunner().invoke(
        app, ["start", str(tmp_path / "people.csv"), "--folder", str(tmp_path)],
        input="".join(f"{answer}\n" for answer in answers),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    run = [line.split()[2:4] for line in done.output.splitlines() if line.startswith("$ ")]
    plan = ["plan", "quilt"]
    assert run == [
        ["schema", "draft"], ["schema", "review"], ["schema", "check"], plan, plan,
        ["ledger", "init"], ["publish", "quilt"],
    ]  # fmt: skip
    release = Release.load(tmp_path / "first")
    (entry,) = Ledger.open(tmp_path / "table.ledger").entries()
    assert (entry.status, float(entry.cost.epsilon)) == ("released", 2.0)
    assert release.statement.ledger is not None
    assert "no ledger recorded this release" not in done.output


def test_plan_shows_the_price_of_rows_per_person(tmp_path: Path) -> None:
    """Laplace noise is proportional to the rows of a person."""
    (tmp_path / "s.yaml").write_text(
        "name: t\nunit: {kind: person, column: p, max_rows: 4}\ncolumns:\n"
        "  p: {role: identifier}\n  sex: {type: categorical, values: [F, M]}\n"
    )
    words = ["plan", "noisy-counts", str(tmp_path / "s.yaml"), "--epsilon", "1"]
    words += ["--mechanism", "pure", "--rows", "9000", "--no-simulate"]
    shown = CliRunner().invoke(app, words).output
    (line,) = [one for one in shown.splitlines() if "Error against max_rows" in one]
    listed = line.partition("): ")[2].split(", ")
    errors = [float(part.split(": ")[1].split()[0]) for part in listed]
    assert len(errors) == 6
    assert errors[3] == pytest.approx(4 * errors[0], rel=0.1)
