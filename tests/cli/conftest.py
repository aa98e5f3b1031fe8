"""Fixtures that run the command line in this process, and files to run it on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest

from hushtable.cli.app import main
from hushtable.datasets import sample, sample_schema
from hushtable.web import explorer_page


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `hushtable` with arguments; return exit code and output.

    To save time, no explorer is added to a release by default.
    """
    monkeypatch.setattr(explorer_page, "FEW_CELLS", 0)

    def call(*arguments: object) -> Result:
        if arguments[0] == "plan" and "--simulate" not in arguments and len(arguments) > 2:
            arguments = (*arguments, "--no-simulate")  # simulations take seconds
        monkeypatch.setattr(sys, "argv", ["hushtable", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Create a folder with data.csv and schema.yaml, without a ledger."""
    pa_csv.write_csv(sample(), tmp_path / "data.csv")
    (tmp_path / "schema.yaml").write_text(sample_schema().to_yaml())
    return tmp_path
