"""``hushtable workbench`` and ``serve``: what they refuse before they listen."""

from __future__ import annotations

from pathlib import Path

from .conftest import Run


def test_the_workbench_is_for_this_machine_alone(run: Run, tmp_path: Path) -> None:
    result = run("workbench", tmp_path, "--host", "0.0.0.0", "--no-browse")  # noqa: S104
    assert result.code == 2
    assert "must be 127.0.0.1, ::1 or localhost" in result.err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_data_must_be_there(run: Run, tmp_path: Path) -> None:
    result = run("workbench", tmp_path, "--data", tmp_path / "nowhere", "--no-browse")
    assert result.code == 2
    assert "does not exist" in result.err


def test_only_a_release_is_served(run: Run, tmp_path: Path) -> None:
    result = run("serve", tmp_path)
    assert result.code == 1
    assert "is not a release" in result.err
