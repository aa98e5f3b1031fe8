"""Where tests find the reference numbers and the real data."""

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

# A machine may be slow, or busy: how long an example takes decides nothing. Examples are the same
# in every run, as all other draws are, until the shift asks for new ones: then for any.
settings.register_profile(
    "hushtable",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=VARIABLE not in os.environ,
)
settings.load_profile("hushtable")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share a fixture of their module in one process: it is made once."""
    for item in items:
        made = getattr(item, "_fixtureinfo", None)
        if made is None or item.get_closest_marker("xdist_group"):
            continue
        if any(found[-1].scope == "module" for found in made.name2fixturedefs.values()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Set aside what was imported and collected: nobody has to look whether it may go."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave no session of Spark to tests that do without."""
    spark_session.stop_after(item, nextitem)


SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data; the tests that want it skip where it is absent."""
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
