"""Documentation: its code runs, and the commands that it names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hushtable.schema import Schema
from hushtable.schema.linked_schema import LinkedSchema

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks(path, "python")), {})  # noqa: S102 - our own documents


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_yaml_examples_are_valid_schemas(path: Path) -> None:
    for block in blocks(path, "yaml"):
        (LinkedSchema if "\ntables:" in block else Schema).parse(block)


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_shell_examples_are_commands_that_exist() -> None:
    from typer.main import get_command

    from hushtable.cli.app import app

    names = set(get_command(app).commands)  # type: ignore[attr-defined]
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "hushtable":
                    assert words[1] in names, f"{path.name}: {line}"
