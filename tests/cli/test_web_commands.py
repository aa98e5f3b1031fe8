"""``hushtable workbench`` and ``serve``: what they refuse before they listen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Run


def test_the_workbench_is_for_this_machine_alone(run: Run, tmp_path: Path) -> None:
    result = run("workbench", tmp_path, "--host", "0.0.0.0", "--no-browse")  # noqa: S104
    assert result.code == 2
    assert "this machine alone" in result.err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_data_must_be_there(run: Run, tmp_path: Path) -> None:
    result = run("workbench", tmp_path, "--data", tmp_path / "nowhere", "--no-browse")
    assert result.code == 2
    assert "there is no folder" in result.err


def test_only_a_release_is_served(run: Run, tmp_path: Path) -> None:
    result = run("serve", tmp_path)
    assert result.code == 1
    assert "is not a release" in result.err


@pytest.mark.parametrize("words", [("workbench",), ("serve", "release")])
def test_without_the_extra_it_says_what_to_install(words: tuple[str, ...], tmp_path: Path) -> None:
    # A process of its own: modules that are imported anew would be others than the ones that
    # the rest of the tests know.
    code = (
        "import sys; sys.modules.update(starlette=None, uvicorn=None); "
        "from hushtable.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 2
    assert "pip install 'hushtable[web]'" in result.stderr
