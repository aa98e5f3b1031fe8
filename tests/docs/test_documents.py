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


def shape(text: str) -> list[str]:
    """Return the lines of an output without numbers, widths, and which table an answer is from."""
    text = re.sub(r"; model[^)]*", "", text)
    lines = (re.sub(r"[\d,.]*\d", "0", line) for line in text.splitlines())
    return [re.sub(r" +|-{2,}", " ", line).strip() for line in lines]


def test_the_readme_shows_what_its_examples_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hushtable import Ledger, Quilt, publish, sample, sample_schema
    from hushtable.cli.app import main

    readme = ROOT / "README.md"
    (code,), (commands,) = blocks(readme, "python"), blocks(readme, "sh")
    shown = blocks(readme, "text")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # noqa: S102 - our own document
    assert shape(capsys.readouterr().out) == shape(shown[0])
    folder = tmp_path / "demo-release"  # as `hushtable demo` leaves it
    folder.mkdir()
    ledger = Ledger.create(
        folder / "ledger.sqlite", epsilon=2, delta="1e-5", schema=sample_schema()
    )
    method = Quilt(epsilon=1, delta="1e-6")
    publish(sample(), sample_schema(), method, out=folder / "release", ledger=ledger)
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "200")
    printed = []
    for line in commands.splitlines():
        monkeypatch.setattr("sys.argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        printed += shape(capsys.readouterr().out)
    whole = " ".join(" ".join(printed).split())  # the width of the screen decides where lines end
    for line in shape(shown[1]):
        assert " ".join(line.split()) in whole


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_answer_in_the_readme_is_close_to_the_truth() -> None:
    """Fails if the numbers are of another table: seven intervals, each at most doubled."""
    from hushtable import sample

    table = sample()
    for line in blocks(ROOT / "README.md", "text")[0].splitlines()[2:]:
        diagnosis, value, low, high = (part.strip() for part in line.strip("|").split("|"))
        ages = [
            age
            for age, found in zip(
                table["age"].to_pylist(), table["diagnosis"].to_pylist(), strict=True
            )
            if found == diagnosis
        ]
        truth = sum(ages) / len(ages)
        assert abs(float(value) - truth) <= float(high) - float(low)


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
