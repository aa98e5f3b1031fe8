"""Run the analysts' notebooks and store their outputs: ``python docs/store_outputs.py``.

Their noise is that of one run. A cell's output is what it prints, and the value of its last line in
the forms that notebooks show.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_output

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
TEMPORARY = re.escape(tempfile.gettempdir()) + r"/\w+/"  # folders that the notebooks make
STORED = ("first_look", "regression_with_intervals", "compare_two_releases")


def outputs_of(source: str, names: dict[str, Any]) -> list[Any]:
    """Run a cell, and return its outputs."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    found = []
    if printed.getvalue():
        found.append(new_output("stream", name="stdout", text=printed.getvalue()))
    if value is not None:
        data = {"text/plain": repr(value)}
        for kind, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
            if hasattr(value, method):
                data[kind] = getattr(value, method)()
        data = {kind: re.sub(TEMPORARY, "", text) for kind, text in data.items()}
        found.append(new_output("execute_result", data=data, execution_count=None))
    return found


def store(name: str) -> None:
    """Run the cells of a notebook, and write their outputs into it."""
    path = FOLDER / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    names: dict[str, Any] = {}
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.outputs = outputs_of(cell.source, names)
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in STORED:
        store(each)
