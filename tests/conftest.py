"""Shared fixtures: reference numbers, real data, and settings of all tests."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import spark_session
from seeds import VARIABLE

# No deadline: a machine may be slow or busy. Examples are the same in every run, like all other
# draws, unless the seed shift asks for new ones.
settings.register_profile(
    "hushtable",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=VARIABLE not in os.environ,
)
settings.load_profile("hushtable")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that share a module fixture in one process, so that it is created once."""
    for item in items:
        made = getattr(item, "_fixtureinfo", None)
        if made is None or item.get_closest_marker("xdist_group"):
            continue
        if any(found[-1].scope == "module" for found in made.name2fixturedefs.values()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from garbage collection."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the Spark session before tests that do not use Spark."""
    spark_session.stop_after(item, nextitem)


SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data; tests that need it are skipped without it."""
    folder = Path(os.environ.get("HUSHTABLE_DATA", SHARED / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set HUSHTABLE_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """Return reference numbers for the papers' formulas."""
    path = SHARED / "vectors.json"
    if not path.is_file():
        pytest.skip("no reference numbers: vectors.json is absent")
    content: dict[str, Any] = json.loads(path.read_text())
    return content
