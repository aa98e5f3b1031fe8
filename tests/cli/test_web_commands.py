"""``hushtable workbench`` and ``serve``: what they refuse before they listen."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

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
def test_without_the_extra_it_says_what_to_install(
    run: Run, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in {"starlette", "uvicorn"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("hushtable.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    result = run(*words)
    assert result.code == 2
    assert "pip install 'hushtable[web]'" in result.err
