"""``hushtable audit``: verdicts, exit codes, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from hushtable.audit.cases import CASES
from hushtable.cli.app import app
from hushtable.errors import TooLarge
from hushtable.methods.base import Released
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.registry import specs

QUICK = ["--runs", "120", "--largest", "1", "--seconds", "6"]
# On a busy machine, 6 seconds may suffice for half of these runs: too few for a verdict.
WHOLE = [*QUICK, "--seconds", "60"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_no_violation_says_what_was_promised_and_what_would_have_been_seen() -> None:
    result = run("contingency-table", "--epsilon", "1", *WHOLE)
    assert result.exit_code == 0
    assert result.stdout.startswith("NO VIOLATION FOUND (would have detected epsilon above ")
    for words in ("Adding or removing one row", "epsilon: promised 1", "false alarm"):
        assert words in result.stdout


def test_a_violation_names_the_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ContingencyTablePlan.run

    def exact(self: ContingencyTablePlan, engine: Any, noise: Any) -> Released:
        return Released(real(self, engine, noise).tables, {"rows": engine.n_rows()})

    monkeypatch.setattr(ContingencyTablePlan, "run", exact)
    result = run("contingency-table", "--epsilon", "1", *QUICK, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    (finding,) = [one for one in report["findings"] if one["verdict"] == "VIOLATION"]
    assert report["verdict"] == "VIOLATION"
    witness = finding["witness"]
    n_rows = [sum(row["rows"] for row in witness[side]) for side in ("input", "other_input")]
    assert n_rows[0] != n_rows[1]
    assert "with the same outcomes of all 1 draws" in witness["event"]
    assert "rows differs" in witness["event"]
    said = run("contingency-table", "--epsilon", "1", *QUICK)
    assert said.exit_code == 1
    assert said.stdout.startswith("VIOLATION: ")
    assert "neighbor:" in said.stdout


def test_graphs_and_promises_that_are_none() -> None:
    result = run("degrees", "--epsilon", "1", "--max-degree", "2", *WHOLE, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["method"] == "degrees"
    result = run("condensation", "--k", "3")
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT TESTED (the method makes no promise)")


def test_every_method_with_a_case_is_audited_a_baseline_for_python_too() -> None:
    told = run("--help").stdout.split()
    for name in specs():
        assert (name in told) is (name in CASES)
    result = run("mondrian", "--k", "2", *WHOLE, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["method"] == "mondrian"


def test_a_method_that_refuses_every_run_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ContingencyTablePlan, engine: Any, noise: Any) -> Released:
        raise TooLarge("no.")

    monkeypatch.setattr(ContingencyTablePlan, "run", refuse)
    result = run("contingency-table", "--epsilon", "1", *QUICK)
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT TESTED (every run was refused: TooLarge: no.)")
    result = run("contingency-table", "--epsilon", "1", *QUICK, "--json")
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert report["verdict"] == report["findings"][0]["verdict"] == "NOT TESTED"
    assert report["findings"][0]["reason"].startswith("every run was refused")
    assert report["findings"][0]["would_have_seen"] is None


def test_a_schema_file(tmp_path: Any) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("name: t\ncolumns:\n  age: {type: integer, low: 0, high: 3}\n")
    result = run("contingency-table", "--epsilon", "1", "--schema", str(path), *WHOLE, "--json")
    assert result.exit_code == 0
    witness = json.loads(result.stdout)["findings"][0]["witness"]
    assert "age" in str(witness)  # in one of the two tables, the other may be empty
