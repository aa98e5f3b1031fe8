"""``hushtable audit``: verdicts, exit codes, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.methods.base import Released
from hushtable.methods.diffgen.contingency_table import ContingencyTable

QUICK = ["--runs", "120", "--largest", "1"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_a_pass_says_what_was_promised_and_the_resolution() -> None:
    result = run("contingency-table", "--epsilon", "1", *QUICK)
    assert result.exit_code == 0
    assert result.stdout.startswith("PASS: Adding or removing one row")
    for words in ("epsilon: promised 1", "resolution", "fails this audit with probability"):
        assert words in result.stdout


def test_a_fail_names_the_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ContingencyTable.run

    def exact(self: ContingencyTable, engine: Any, noise: Any) -> Released:
        return Released(real(self, engine, noise).tables, {"rows": engine.n_rows()})

    monkeypatch.setattr(ContingencyTable, "run", exact)
    result = run("contingency-table", "--epsilon", "1", *QUICK, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    (finding,) = report["findings"]
    assert not report["passed"]
    assert finding["verdict"] == "FAIL"
    assert finding["bound"] > finding["limit"] == 1
    witness = finding["witness"]
    n_rows = [sum(row["rows"] for row in witness[side]) for side in ("input", "other_input")]
    assert abs(n_rows[0] - n_rows[1]) == 1
    assert (witness["hits"], witness["other_hits"]) == (60, 0)
    said = run("contingency-table", "--epsilon", "1", *QUICK)
    assert said.exit_code == 1
    assert said.stdout.startswith("FAIL")
    assert "neighbor:" in said.stdout


def test_graphs_and_promises_that_are_none() -> None:
    result = run("degrees", "--epsilon", "1", "--max-degree", "2", "--runs", "40", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["method"] == "degrees"
    result = run("condensation", "--k", "3")
    assert result.exit_code == 0
    assert result.stdout.startswith("NOTHING PROMISED")


def test_a_schema_file(tmp_path: Any) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("name: t\ncolumns:\n  age: {type: integer, low: 0, high: 3}\n")
    result = run("contingency-table", "--epsilon", "1", "--schema", str(path), *QUICK, "--json")
    assert result.exit_code == 0
    witness = json.loads(result.stdout)["findings"][0]["witness"]
    assert "age" in str(witness)  # in one of the two tables, the other may be empty
