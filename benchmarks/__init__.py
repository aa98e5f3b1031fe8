"""Benchmarks of speed, scale, coverage and the papers' figures; see each module's docstring."""

import sys
from pathlib import Path

# Benchmarks use the generated tables of the tests, whose modules import each other by plain names.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
