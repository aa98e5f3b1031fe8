"""Where values that are drawn from a release come from.

A release is public, so what is drawn from it protects nobody: any generator will do, and with one
of their own analysts repeat a draw. Noise that keeps a promise is `hushtable.privacy.noise`.
"""

from __future__ import annotations

import numpy as np

Generator = np.random.Generator


def fresh() -> Generator:
    """Make a generator that starts anywhere."""
    return np.random.default_rng()
