"""Notebooks: each matches its script, and all its cells run and display something."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))
STORED = {"first_look", "regression_with_intervals", "compare_two_releases"}  # with outputs
ON_SPARK = FOLDER / "on_spark.py"
IN_PROCESS = [path for path in SCRIPTS if path != ON_SPARK]


def cells(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def shown(source: str, names: dict[str, Any]) -> str:
    """Run a cell and return what a notebook would display for its last line."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    if value is None:
        return ""
    return str(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


def test_all_are_there_in_pairs() -> None:
    names = {path.stem for path in SCRIPTS}
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == names
    assert len(names) == 9
    assert names >= STORED


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_the_pair_of_its_script(path: Path) -> None:
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    # Otherwise: make notebooks.
    assert cells(notebook) == cells(jupytext.read(path, fmt="py:percent"))
    shown = [bool(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    if path.stem in STORED:  # written by docs/store_outputs.py
        assert sum(shown) >= len(shown) - 2
        assert "/tmp" not in path.with_suffix(".ipynb").read_text()  # noqa: S108
    else:
        assert not any(shown)  # outputs of other versions or machines


@pytest.mark.parametrize("path", IN_PROCESS, ids=lambda path: path.stem)
def test_cells_run_and_show_something(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    names: dict[str, Any] = {}
    displays = [shown(cell.source, names) for cell in notebook.cells if cell.cell_type == "code"]
    assert all("object at 0x" not in display for display in displays)
    assert any(displays) or capsys.readouterr().out


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_the_one_on_spark_runs(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ON_SPARK],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the same: True" in done.stdout
