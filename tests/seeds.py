"""Where tests get their seeds: all of them move with one environment variable.

No test may hang on the seed it was written with. `HUSHTABLE_TEST_SEED=5 make test` runs the suite
on other draws, and `python -m benchmarks.flakiness FILE... --seeds 200` runs some files on many.
Seeds that stay as they are belong to outputs that are compared with a record, and say so there.
"""

from __future__ import annotations

import os

VARIABLE = "HUSHTABLE_TEST_SEED"
APART = 1_000_003
"""Shifts are so far apart that no test gets the seed of another."""


def shifted(seed: int) -> int:
    """Move a seed by the shift that was asked for; by default it stays."""
    return seed + APART * int(os.environ.get(VARIABLE, "0"))
