"""Tables of (generalized) tuples with counts, as several methods publish them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.schema import Schema
from hushtable.schema.codes import to_labels
from hushtable.schema.recoding import Recoding

QUANTILES = (0.01, 0.5, 0.99)
"""Release probabilities whose counts are listed in the forecast and statement."""

TYPICAL_ROWS = 1_000_000
"""Number of rows that forecasts of memory assume if none is given."""


def label_tuples(
    schema: Schema, recode: Mapping[str, Recoding], codes: Integers
) -> dict[str, pa.Array]:
    """Return tuples, one row of codes each, as published columns."""
    return {
        name: to_labels(column, codes[:, position], recode.get(name))
        for position, (name, column) in enumerate(schema.attributes.items())
    }


def memory_mb(schema: Schema, n_tuples: int) -> float:
    """Return the memory in megabytes for tuples with their counts."""
    return n_tuples * 8 * (2 * len(schema.attributes) + 8) / 1e6


def describe_noise(mechanism: CountMechanism, *, per: str) -> dict[str, Any]:
    """Describe the noise of a single count, for analysts who use other tools."""
    return {
        f"epsilon_per_{per}": str(mechanism.epsilon),
        f"delta_per_{per}": str(getattr(mechanism, "delta", 0)),
        "count_bias": mechanism.bias,
        "count_std": mechanism.std,
        "release_counts": {f"{p:g}": mechanism.release_count(p) for p in QUANTILES},
    }


def commonest(rows: int, sizes: Sequence[int]) -> float:
    """Return the expected number of rows of the most frequent tuple, for typically skewed columns.

    If all tuples were equally frequent, hardly any tuple of a wide table would have more than one
    row. So each column is assumed to follow Zipf's law: the most frequent of n values has a share
    of about 1 / (1 + ln(n)).

    Examples
    --------
    >>> round(commonest(1000, [2, 2])), round(commonest(1000, [10] * 20))
    (349, 0)
    """
    return rows / math.prod(1 + math.log(size) for size in sizes)
