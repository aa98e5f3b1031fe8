"""Counts of Rastogi et al. (2007)'s example clauses over its example domain."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hushtable.query.where import parse
from hushtable.schema import Schema

# "age 20..39, nationality {0,1,2}, score 81..100"
SCHEMA = Schema.from_dict(
    {
        "name": "example 4.1",
        "columns": {
            "age": {"type": "integer", "low": 20, "high": 39},
            "nationality": {"type": "categorical", "values": ["0", "1", "2"]},
            "score": {"type": "integer", "low": 81, "high": 100},
        },
    }
)
CLAUSES = {"age+score is even": "(age + score) % 2 = 0"}


@pytest.fixture
def expected(vectors: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = vectors["004"]["pC"]
    return found


def test_counts_and_probabilities(expected: dict[str, dict[str, Any]]) -> None:
    assert len(expected) == 4
    uniform = {
        name: np.full(column.size, 1 / column.size) for name, column in SCHEMA.attributes.items()
    }
    for name, numbers in expected.items():
        predicate = parse(CLAUSES.get(name, name), SCHEMA)
        assert predicate.count() == numbers["count"], name
        assert Fraction(predicate.count(), SCHEMA.domain.size) == Fraction(numbers["p"]), name
        assert predicate.weigh(uniform) == pytest.approx(float(Fraction(numbers["p"]))), name


def test_erratum_004_10(vectors: dict[str, Any]) -> None:
    """Example 4.1 has 549 combinations, not the printed 190."""
    example = vectors["004"]["example41"]
    assert SCHEMA.domain.size == example["m"]
    assert parse("score < 3 * age", SCHEMA).count() == example["n_D"] == 549
