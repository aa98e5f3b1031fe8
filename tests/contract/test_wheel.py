"""The wheel: reproducible, and installable in an empty environment."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT],
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.long
def test_two_builds_are_the_same_and_one_installs(tmp_path: Path) -> None:
    """Needs the package index: install for reading releases, into an empty environment."""
    first, second = (built(tmp_path / name) for name in ("first", "second"))
    digests = {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in (first, second)}
    assert len(digests) == 1
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", first], check=True)
    done = subprocess.run(
        [python.with_name("hushtable"), "--version"], cwd=tmp_path, capture_output=True, text=True,
        check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.startswith("hushtable ")
