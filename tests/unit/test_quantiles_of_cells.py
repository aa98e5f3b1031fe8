"""Quantiles from cells: all rows of a cell may have one value, and intervals allow for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.methods import Mondrian, TopDownSpecialization
from hushtable.methods.base import Method

N_ROWS = 600
SCHEMA = ht.Schema.from_dict({
    "name": "visits",
    "columns": {
        "visits": {"type": "integer", "low": 0, "high": 140},
        "age": {"type": "integer", "low": 20, "high": 80},
        "town": {"type": "categorical", "values": ["a", "b"]},
        "ill": {"type": "categorical", "values": ["no", "yes"], "role": "target"},
    },
})  # fmt: skip


def visits() -> pa.Table:
    """Make people; few have visits, and illness depends on age alone."""
    place = np.arange(N_ROWS)
    age = 20 + place % 61
    return pa.table({
        "visits": np.where(place % 10 == 0, 1 + place % 7, 0),
        "age": age,
        "town": np.where(place % 3 == 0, "a", "b"),
        "ill": np.where(age > 50, "yes", "no"),
    })  # fmt: skip


@pytest.mark.parametrize(
    "method",
    [
        TopDownSpecialization(k=200),
        Mondrian(k=300),
        ht.DiffGen(epsilon=100, specializations=1),
        ht.Partition(epsilon=100, max_depth=1, column_share=0, split="class"),
    ],
    ids=lambda method: method.name,
)
def test_medians_of_columns_with_one_frequent_value_hold(tmp_path: Path, method: Method) -> None:
    release = ht.publish(visits(), SCHEMA, method, out=tmp_path / "r", rows=N_ROWS, anyway=True)
    for where in (None, "age <= 50", "town = 'a'"):
        median = release.median("visits", where=where)
        assert median.low == 0 <= median.value <= median.high
        assert median.model_std > 0
    by = release.median("visits", by=["town"])
    assert [one.low for _, one in by] == [0, 0]


def test_medians_are_as_accurate_as_counts(tmp_path: Path) -> None:
    """One-way counts inform about columns that are not split at all."""
    rows = pa.concat_tables([visits()] * 20)
    release = ht.publish(
        rows, SCHEMA, ht.Partition(epsilon=10, max_depth=1), out=tmp_path / "r", rows=20 * N_ROWS
    )
    median = release.median("visits")
    assert median.low == 0
    assert median.high <= 2
    assert median.privacy_std + median.model_std > 0 or median.high == 0
