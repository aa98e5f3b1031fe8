"""Bounds of what pseudo-records tell hold for any records that they may stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtable.estimate.row_functions import RowFunction, condition, power
from hushtable.methods.uncertain.displacement import Displacement
from hushtable.predicate import parse
from hushtable.predicate.formula import Formula, evaluate
from hushtable.schema import Schema

SIZES = np.array([6, 9])
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "x": {"type": "integer", "low": 0, "high": 5},
            "y": {"type": "integer", "low": 0, "high": 8},
            "sex": {"type": "categorical", "values": ["F", "M"]},
        },
    }
)
CLAUSES = (
    "x <= {a}", "x > {a}", "x BETWEEN {a} AND {b}", "x IN ({a}, {b})", "NOT x = {a}",
    "x <= {a} AND y >= {b}", "x <= {a} OR y >= {b}", "NOT (x < {a} AND y < {b})",
    "x >= {a} AND sex = 'F'", "x < {a} AND y < {b} OR x >= {a} AND y >= {b}",
    "x < y", "x < y AND sex = 'F'", "sex = 'M'", "(x = {a} OR sex = 'F') AND y <> {b}",
)  # fmt: skip

FUNCTIONS: tuple[Callable[[Any, Any], RowFunction], ...] = (
    lambda x, _: power("x", x, 1),
    lambda x, _: power("x", x, 2),
    lambda x, y: power("x", x, 1) * power("y", y, 1),
    lambda x, y: power("x", x, 2) * power("y", y, 2),
    lambda x, _: power("x", x, 1) * condition("sex = 'F'", SCHEMA),
    lambda x, _: power("x", x, 1) * condition("y >= 4", SCHEMA),
    lambda *_: condition("x >= 3 AND y < 5", SCHEMA),
    lambda *_: condition("x < y", SCHEMA),
)

Codes = dict[str, np.ndarray]


def drawn(seed: int, n: int = 40) -> tuple[Displacement, Codes, Codes]:
    """Draw records in groups of four of one sex, and pseudo-records that may lie anywhere."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, SIZES, (n, 2))
    near = rng.integers(-rng.integers(0, 5), rng.integers(1, 6), (n, 2))
    pseudo = np.clip(true + near, 0, SIZES - 1)
    groups = np.split(np.arange(n), n // 4)
    sex = np.repeat(rng.integers(0, 2, n // 4), 4)
    off = Displacement.of(("x", "y"), true, pseudo, groups=groups, n_values=SIZES)
    records, made = ({"x": c[:, 0], "y": c[:, 1], "sex": sex} for c in (true, pseudo))
    return Displacement.read(off.to_settings(), n, {}), records, made


def count(formula: Formula, codes: Codes) -> int:
    return int(np.broadcast_to(evaluate(formula, codes), len(codes["x"])).sum())


def bounds(off: Displacement, formula: Formula, pseudo: Codes) -> tuple[int, int]:
    return off.bounds(
        formula, seen=lambda part: count(part, pseudo), schema=SCHEMA, n_rows=len(pseudo["x"])
    )


@given(st.integers(0, 2**32), st.sampled_from(CLAUSES), st.integers(0, 5), st.integers(0, 5))
def test_counts_lie_between_their_bounds(seed: int, clause: str, a: int, b: int) -> None:
    off, records, pseudo = drawn(seed)
    formula = parse(clause.format(a=a, b=b), SCHEMA).formula
    low, high = bounds(off, formula, pseudo)
    assert low <= count(formula, records) <= high
    if not set(formula.columns) & {"x", "y"}:
        assert low == high


@given(st.integers(0, 2**32), st.sampled_from(FUNCTIONS))
def test_sums_are_off_by_no_more_than_said(
    seed: int, function: Callable[[Any, Any], RowFunction]
) -> None:
    off, records, pseudo = drawn(seed)
    asked = function(SCHEMA.attributes["x"], SCHEMA.attributes["y"])
    error = abs(asked.values(records).sum() - asked.values(pseudo).sum())
    assert error <= off.of_sum(asked, 40) + 1e-9


def test_no_number_can_be_smaller() -> None:
    """One less of any of them, and some count lies outside."""
    lacking = {"more", "fewer", "up", "down"}
    for seed in range(60):
        off, records, pseudo = drawn(seed)
        for name in tuple(lacking):
            less = getattr(off.columns["x"], name) - 1
            if less < 0:
                continue
            columns = {**off.columns, "x": replace(off.columns["x"], **{name: less})}
            broken = replace(off, columns=columns)
            for clause in ("x <= {a}", "x > {a}", "x <= {a} AND sex = 'F'", "x > {a} OR sex = 'F'"):
                for a in range(5):
                    formula = parse(clause.format(a=a), SCHEMA).formula
                    low, high = bounds(broken, formula, pseudo)
                    if not low <= count(formula, records) <= high:
                        lacking.discard(name)
    assert not lacking


def test_a_release_that_says_nothing_leaves_all_open() -> None:
    _, records, pseudo = drawn(1)
    off = Displacement.read(None, 40, {"x": 6, "y": 9})
    assert bounds(off, parse("x <= 2", SCHEMA).formula, pseudo) == (0, 40)
    assert bounds(off, parse("sex = 'F'", SCHEMA).formula, pseudo)[0] == (records["sex"] == 0).sum()
    assert off.of_sum(power("x", SCHEMA.attributes["x"], 1), 40) == pytest.approx(80)  # type: ignore[arg-type]
