"""Counts of Rastogi et al. (2007)'s example clauses over its example domain."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hushtable.errors import PredicateError
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


def test_example_4_2_is_counted_exactly() -> None:
    """P1(A1, A2) and P2(A2, A3) and P3(A3, A4), with the paper's P1 and two products."""
    columns = {f"A{i}": {"type": "integer", "low": 0, "high": 6} for i in (1, 2, 3, 4)}
    schema = Schema.from_dict({"name": "example 4.2", "columns": columns})
    where = "POWER(A1, 2) + POWER(A2, 2) >= 20 AND A2 * A3 < 9 AND POWER(A3, 3) > A4"
    a1, a2, a3, a4 = np.indices((7, 7, 7, 7))
    true = (a1**2 + a2**2 >= 20) & (a2 * a3 < 9) & (a3**3 > a4)
    assert parse(where, schema).count() == true.sum()


@pytest.mark.parametrize("where", ["POWER(age, 5) > 1", "POWER(age, score) > 1", "age ** 2 > 1"])
def test_other_powers_are_refused(where: str) -> None:
    with pytest.raises(PredicateError, match=r"exponent must be 2 or 3 or 4|write POWER"):
        parse(where, SCHEMA)


def test_erratum_004_10(vectors: dict[str, Any]) -> None:
    """Example 4.1 has 549 combinations, not the printed 190."""
    example = vectors["004"]["example41"]
    assert SCHEMA.domain.size == example["m"]
    assert parse("score < 3 * age", SCHEMA).count() == example["n_D"] == 549
