"""Tables of (generalized) tuples with their counts: what the methods that publish them share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_labels
from hushtable.privacy.count_mechanisms import CountMechanism
from hushtable.recoding import Recoding
from hushtable.schema import Schema

COUNT, NOISY_COUNT = "count", "noisy_count"
"""Columns that are published beside the schema's own."""

QUANTILES = (0.01, 0.5, 0.99)
"""Release probabilities for which forecast and statement name the count."""

TYPICAL_ROWS = 1_000_000
"""What the forecast of memory takes for the number of rows where it is not told."""


def label_tuples(
    schema: Schema, recode: Mapping[str, Recoding], codes: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Write tuples, one row of codes each, as the columns that are published."""
    return {
        name: to_labels(column, codes[:, position], recode.get(name))
        for position, (name, column) in enumerate(schema.attributes.items())
    }


def memory_mb(schema: Schema, n_tuples: int) -> float:
    """Say how much memory it takes to hold so many tuples with their counts."""
    return n_tuples * 8 * (2 * len(schema.attributes) + 8) / 1e6


def describe_noise(mechanism: CountMechanism, *, per: str) -> dict[str, Any]:
    """Say how a single count was noised, for analysts who use other tools."""
    return {
        f"epsilon_per_{per}": str(mechanism.epsilon),
        f"delta_per_{per}": str(getattr(mechanism, "delta", 0)),
        "count_bias": mechanism.bias,
        "count_std": mechanism.std,
        "release_counts": {f"{p:g}": mechanism.release_count(p) for p in QUANTILES},
    }


def commonest(rows: int, sizes: Sequence[int]) -> float:
    """Expect how many rows the commonest tuple has, as uneven as columns usually are.

    Spread evenly, hardly any tuple of a wide table would have more than one. So each column is
    taken to follow Zipf's law, by which the commonest of n values has one part in about 1 + ln(n).

    Examples
    --------
    >>> round(commonest(1000, [2, 2])), round(commonest(1000, [10] * 20))
    (349, 0)
    """
    return rows / math.prod(1 + math.log(size) for size in sizes)
