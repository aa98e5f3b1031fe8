"""Consistent option names in all commands, and exit codes as documented."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from hushtable.cli.app import app
from hushtable.cli.plain import INTERRUPTED, NOT_TESTED, REFUSED, TERMINATED, WRONG_USAGE
from hushtable.query.answers import Estimate

DOCUMENT = Path(__file__).parents[2] / "docs" / "command-line.md"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name in command.commands:
            yield from commands(command.commands[name], (*path, name))
    else:
        yield path, command


ALL = dict(commands(get_command(app)))


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_all_commands_are_walked() -> None:
    assert len(ALL) > 50
    assert ("publish", "columns") in ALL
    assert ("ledger", "void") in ALL


SERVERS = {("workbench",), ("serve",), ("mcp",)}  # these run until they are stopped
DIALOGS = {("start",), ("schema", "review")}  # these ask questions in the terminal


@pytest.mark.parametrize("path", sorted(ALL.keys() - SERVERS - DIALOGS), ids=" ".join)
def test_every_command_has_json_and_one_word_for_what_it_writes(path: tuple[str, ...]) -> None:
    said = options(ALL[path])
    assert "--json" in said
    assert not said & {"--output", "--to", "--file", "--dest"}
    if path[0] in {"publish", "export", "demo"} or path[-1] in {"draft", "generate"}:
        assert "--out" in said


def test_exit_codes_are_those_of_the_document() -> None:
    table = re.findall(r"^\| (\d+) \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    codes = {0, REFUSED, WRONG_USAGE, NOT_TESTED, INTERRUPTED, TERMINATED}
    assert {int(code) for code, _ in table} == codes


FIRST_OF_EACH = {path[:-1] if len(path) > 1 and path[0] in {"plan", "publish", "audit"} else path:
                 path for path in ALL}  # fmt: skip


@pytest.mark.parametrize("path", FIRST_OF_EACH.values(), ids=" ".join)
def test_an_unknown_option_is_wrong_usage(path: tuple[str, ...]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - click's own, with its code
        ALL[path].main(["--no-such-option"], standalone_mode=False)
    assert getattr(caught.value, "exit_code", None) == 2


def test_completion_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hushtable.cli.app", "--help"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "--install-completion" in done.stdout


def test_an_answer_says_what_is_counted() -> None:
    answer = Estimate(value=3.0, low=1.0, high=5.0, privacy_std=1.0, model_std=0.0, what="nodes")
    assert str(answer) == "3 nodes (95% interval 1 to 5)"
    assert answer.to_dict()["what"] == "nodes"
