"""The paper's experiment: all selections of up to three of Adult's nine attributes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hushtable.privacy.noise.sources import SeededNoise

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "papers" / "alpha_beta_figures.py"


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """Load the script that draws the figures."""
    spec = importlib.util.spec_from_file_location("alpha_beta_figures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_errors_next_to_frapp(figures: ModuleType, shared_data: Path) -> None:
    """Seeded, so that the result is always the same; the script repeats it with secure noise."""
    table, schema = figures.adult_of_the_paper(shared_data)
    truth = figures.codes_of(table, schema)
    averages = {}
    for name, method in figures.methods(table.num_rows).items():
        if name != "independent":
            true, found = figures.one_release(method, table, schema, truth, SeededNoise(2007))
            averages[name] = float(np.abs(found - true).mean())
    assert averages["FRAPP"] / averages["minimal beta"] >= 4
    assert averages["FRAPP"] / averages["exclusive (default)"] >= 3
    assert 2.6 < averages["FRAPP"] / averages["printed beta"] < 3.2
