"""The tree in the architecture is the tree there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hushtable"
TREE = re.search(
    r"```\nsrc/hushtable/\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL
)


def named() -> set[str]:
    """Give every path that the tree names, below the package."""
    assert TREE is not None
    found, folder = set(), ""
    for line in TREE[1].splitlines():
        entry = re.match(r"( +)([\w.]+/?)", line)
        assert entry is not None, line
        if len(entry[1]) == 2:
            folder = entry[2]
        found.add(entry[2] if len(entry[1]) == 2 else folder + entry[2])
    return found


def test_what_is_named_is_there() -> None:
    for path in named():
        assert (PACKAGE / path).exists(), path
        assert (PACKAGE / path).is_dir() == path.endswith("/"), path


def test_what_is_there_is_named() -> None:
    rooms = {path.name + "/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    families = {
        f"methods/{path.name}/"
        for path in (PACKAGE / "methods").iterdir()
        if (path / "__init__.py").exists()
    }
    assert rooms | modules | families == named()
