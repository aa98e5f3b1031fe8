"""Names of modules: in docs/architecture.md, in other documents, and in strings of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hushtable"
TREE = re.search(
    r"```\nsrc/hushtable/\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL
)


def named() -> set[str]:
    """Return every path that the tree names, relative to the package."""
    assert TREE is not None
    found, folder = set(), ""
    for line in TREE[1].splitlines():
        entry = re.match(r"( +)([\w.]+/?)", line)
        assert entry is not None, line
        if len(entry[1]) == 2:
            folder = entry[2]
        found.add(entry[2] if len(entry[1]) == 2 else folder + entry[2])
    return found


def test_every_named_path_exists() -> None:
    for path in named():
        assert (PACKAGE / path).exists(), path
        assert (PACKAGE / path).is_dir() == path.endswith("/"), path


def test_every_package_module_and_family_is_named() -> None:
    packages = {path.name + "/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    families = {
        f"methods/{path.name}/"
        for path in (PACKAGE / "methods").iterdir()
        if (path / "__init__.py").exists()
    }
    assert packages | modules | families == named()


DOCUMENTS = [
    path
    for folder, pattern in ((ROOT, "*.md"), (ROOT / "docs", "**/*.md"), (PACKAGE, "**/*.md"))
    for path in folder.glob(pattern)
    if path.name not in {"CHANGELOG.md", "security-history.md"}  # which name files as they were
]
FILE = re.compile(r"`([\w/-]+\.(?:py|md))`")


def named_files(text: str) -> set[str]:
    """Return the Python and Markdown files that a document names in code spans."""
    return set(FILE.findall(text))


def missing_files(names: set[str]) -> set[str]:
    """Return the names that are not the end of the path of a file in the repository."""
    folders = ("src", "tests", "docs", "benchmarks", "examples", "reproduction")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    own = [path for path in [*paths, *ROOT.glob("*")] if "fixtures" not in path.parts]
    existing = [f"/{path.relative_to(ROOT).as_posix()}" for path in own]
    return {name for name in names if not any(path.endswith(f"/{name}") for path in existing)}


def test_documents_name_existing_files() -> None:
    names = {name for path in DOCUMENTS for name in named_files(path.read_text(encoding="utf-8"))}
    assert "engine/open_table.py" in names
    assert missing_files(names) <= {"STATEMENT.md"}  # part of every release


def test_a_document_that_names_a_removed_file_is_found() -> None:
    names = named_files("`privacy/coin_draws.py`, `numeric.py` and `docs/glossary.md`")
    assert missing_files(names) == {"privacy/coin_draws.py"}


MODULE = re.compile(r"hushtable(\.\w+)+(:\w+)?")
UPWARD = {
    "methods/prior.py": {"hushtable.priors"},  # a group of entry points, not a module
}
"""Strings that may look like a module of another package, which import-linter does not see."""


def named_elsewhere(source: str, package: str) -> set[str]:
    """Return the strings in a module's source that name a module outside its package."""
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and MODULE.fullmatch(node.value)
        and not re.match(rf"{re.escape(package)}(\W|$)", node.value)
    }


def test_strings_name_no_module_of_another_package() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        package = ".".join(path.relative_to(PACKAGE.parent).parts[:-1])
        if names := named_elsewhere(path.read_text(encoding="utf-8"), package):
            found[path.relative_to(PACKAGE).as_posix()] = names
    assert found == UPWARD


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("hushtable.audit.cases:CASES", True),
        ("hushtable.release", True),
        ("hushtable.methods.quilt.quilt:Quilt", False),
        ("hushtable.methods.quilt", False),
        ("hushtable.methods.quilted", True),
        ("see hushtable.release", False),
    ],
)
def test_a_module_of_another_package_in_a_string_is_found(text: str, is_found: bool) -> None:
    source = f"SPEC = dict(audit={text!r})"
    assert bool(named_elsewhere(source, "hushtable.methods.quilt")) is is_found
