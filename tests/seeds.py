"""Seeds of the tests, all shifted by one environment variable.

No test may depend on the seed it was written with. `HUSHTABLE_TEST_SEED=5 make test` runs the suite
on other draws, and `python -m benchmarks.flakiness FILE... --seeds 200` runs some files with many.
Seeds of outputs that are compared with stored ones stay fixed, with a comment there.
"""

from __future__ import annotations

import os

VARIABLE = "HUSHTABLE_TEST_SEED"
APART = 1_000_003
"""Shifts are far enough from each other that no test gets the seed of another."""


def shifted(seed: int) -> int:
    """Add the requested shift to a seed; by default 0."""
    return seed + APART * int(os.environ.get(VARIABLE, "0"))
