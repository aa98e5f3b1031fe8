"""Options that may be repeated become the entries of a tuple."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app

SCHEMA = "name: t\ncolumns:\n" + "".join(
    f"  {name}: {{type: integer, low: 0, high: 3}}\n" for name in "abc"
)
COMMON = ["--epsilon", "1", "--delta", "1e-6", "--k", "5", "--max-columns", "2", "--json"]


@pytest.mark.parametrize(
    ("options", "n_columns"),
    [
        (["--columns", "a", "--columns", "b,c", "--columns", "a, b"], 3),
        (["--clusters", "2", "--clusters", "3"], 5),
        (["--clusters", "1,2"], 3),
    ],
)
def test_plan_of_columns(tmp_path: Path, options: list[str], n_columns: int) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA)
    result = CliRunner().invoke(app, ["plan", "columns", str(path), *COMMON, *options])
    assert result.exit_code == 0, result.output
    assert f'"columns": {n_columns}' in json.dumps(json.loads(result.stdout))
