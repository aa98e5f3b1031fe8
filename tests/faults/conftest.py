"""Fixtures: one process that forks commands, and a `Scene` for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .scene import Commands, Scene


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    server = Commands(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    # Not in pytest's own folder, which other users cannot read.
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    yield Scene(root).fill()
    shutil.rmtree(root, ignore_errors=True)
