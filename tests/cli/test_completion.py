"""Shells get a script that completes commands and options: bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("hushtable")
BINDS = {
    "bash": "complete -o default -F _hushtable_completion hushtable",
    "zsh": "compdef _hushtable_completion hushtable",
    "fish": "complete --command hushtable --no-files",
}

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists() or shutil.which("bash") is None, reason="no installed command, or no bash"
)


def said(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        words, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("shell", BINDS)
def test_the_shell_is_recognized_and_gets_its_script(shell: str, tmp_path: Path) -> None:
    # The name of the calling program identifies the shell, so bash runs under each name.
    caller = tmp_path / shell
    shutil.copy(shutil.which("bash") or "", caller)
    assert BINDS[shell] in said(caller, "-c", f"{PROGRAM} --show-completion; true")


@pytest.mark.parametrize(
    ("shell", "typed"),
    [
        ("bash", {"COMP_WORDS": "hushtable pub", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "hushtable pub"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "hushtable pub",
                  "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)  # fmt: skip
def test_what_was_typed_is_completed(shell: str, typed: dict[str, str]) -> None:
    found = said(PROGRAM, **typed, _HUSHTABLE_COMPLETE=f"complete_{shell}")
    assert "publish" in found
    assert "ledger" not in found


def test_bash_completes_by_its_script() -> None:
    """The script as bash runs it, for a command of a method and its options."""
    script = said(PROGRAM, _HUSHTABLE_COMPLETE="source_bash")
    asks = (
        f'PATH="{PROGRAM.parent}:$PATH"\n{script}\n'
        'COMP_WORDS=(hushtable plan quilt --eps); COMP_CWORD=3; '
        '_hushtable_completion hushtable; echo "${COMPREPLY[@]}"'
    )  # fmt: skip
    assert said("bash", "-c", asks).split() == ["--epsilon"]
