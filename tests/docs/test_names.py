"""One name, one meaning: no class name is defined twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "hushtable"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)

TWICE: dict[str, str] = {}
"""Class names that may be defined more than once, each with the reason."""


def class_names(paths: list[Path]) -> dict[str, list[str]]:
    """Return the modules that define each class name, nested classes included."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.name)
    return found


def test_no_class_name_is_defined_twice() -> None:
    repeated = {name: where for name, where in class_names(MODULES).items() if len(where) > 1}
    assert repeated.keys() == TWICE.keys(), repeated


def test_a_class_name_that_is_defined_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Account: ...\n")
    (tmp_path / "two.py").write_text("def make():\n    class Account: ...\n")
    assert class_names(sorted(tmp_path.iterdir())) == {"Account": ["one.py", "two.py"]}


MAY_REPEAT = {"__init__.py", "estimator.py"}  # packages; the class that reads a family's releases


def test_file_names_occur_at_most_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        folder = path.relative_to(PACKAGE).parent.as_posix()
        if path.name not in MAY_REPEAT and folder not in {"cli", "web/pages"}:
            found[path.name].append(folder)
    assert not {name: folders for name, folders in found.items() if len(folders) > 2}
