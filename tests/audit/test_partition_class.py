"""Class splits: sensitivity of the score, privacy loss of a choice, and a bound that is necessary.

Scores are compared with exact fractions. Losses are computed, not sampled, except for one audit.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.audit.cases import SIDE
from hushtable.errors import ParameterError
from hushtable.kernels import MOVES, POINTS, TELLING
from hushtable.kernels.split_scores import split_score
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.tree import MOST_SPLITS, PartitionAxis
from hushtable.privacy.mechanisms.sealed_regions import OrderedCells
from hushtable.schema import Schema

PLAIN = Schema.from_dict(
    {"name": "t", "columns": {"v": {"type": "integer", "low": 0, "high": 9}}}
)  # fmt: skip
SPAN = MOVES[TELLING]


def beyond(left: np.ndarray, whole: np.ndarray) -> Fraction:
    """Return the rows of the left side in excess of its share of their class."""
    n, n_left = int(whole.sum()), int(left.sum())
    if not n:
        return Fraction(0)
    each = (int(x) - Fraction(n_left * int(c), n) for x, c in zip(left, whole, strict=True))
    return sum((max(Fraction(0), off) for off in each), Fraction(0))


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(
        st.tuples(st.integers(0, 2**35), st.integers(0, 2**35)), min_size=2, max_size=5
    )
)  # fmt: skip
def test_the_score_is_the_excess_over_independence_rounded_down(
    pairs: list[tuple[int, int]],
) -> None:
    left, right = np.array(pairs, np.int64).T
    exact = POINTS * beyond(left, left + right)
    found = split_score(left, left + right, TELLING)
    # Near an integer, floats may round differently: by less than 0.25.
    assert math.floor(exact - Fraction(1, 4)) <= found <= math.floor(exact + Fraction(1, 4))
    assert split_score(right, left + right, TELLING) == pytest.approx(found, abs=1)


@pytest.mark.parametrize(("n_classes", "most"), [(2, 9), (3, 2)])
def test_one_row_changes_the_score_by_less_than_one(n_classes: int, most: int) -> None:
    """Enumerate small tables and all ways to add a row: exact and rounded scores."""
    up, down = Fraction(0), Fraction(0)
    for flat in itertools.product(range(most + 1), repeat=2 * n_classes):
        table = np.array(flat, np.int64).reshape(2, n_classes)
        whole = table.sum(axis=0)
        before, points = beyond(table[0], whole), split_score(table[0], whole, TELLING)
        for side, c in itertools.product(range(2), range(n_classes)):
            more = table.copy()
            more[side, c] += 1
            moved = beyond(more[0], more.sum(axis=0)) - before
            after = split_score(more[0], more.sum(axis=0), TELLING)
            assert abs(moved) < 1
            assert abs(int(after) - int(points)) <= SPAN // 2
            up, down = max(up, moved), min(down, moved)
    # The bound holds in both directions, and large tables approach it (below).
    assert up > 0.7
    assert down < -0.4


def cells(side: int, *, with_row: bool) -> OrderedCells:
    """Return the auditor's neighbors: two axes, one with ten times as many splits."""
    few, many = PartitionAxis("few", None, 2, True), PartitionAxis("many", None, 11, False)
    rows = [(0, 10, 1, side), (1, 10, 0, side), (1, 10, 1, side**2 - 2 * side)]
    rows += [(0, 0, 0, 1)] * with_row
    table = np.array(rows, np.int64)
    return OrderedCells([few, many], table[:, :2].T, table[:, 2], 2, table[:, 3])


def chance_of_few(side: int, eta: float, *, with_row: bool) -> float:
    """Return the probability that the column with one split is chosen."""
    table = cells(side, with_row=with_row)
    where = slice(0, len(table.counts))
    whole = table.class_counts(np.array([0]), np.array([len(table.counts)]))[0]
    weights = []
    for at, part in enumerate([(0b11, 0), (0, 10)]):
        found = table.runs(at, part, where, whole=whole, quality=TELLING)
        n_ways = int(found.n_ways.sum())
        weights.append((found.n_ways * np.exp(eta * found.scores)).sum() / max(n_ways, MOST_SPLITS))
    return float(weights[0] / sum(weights))


def loss(side: int, eta: float) -> float:
    without, with_row = (chance_of_few(side, eta, with_row=one) for one in (False, True))
    return abs(math.log(without / with_row))


def test_a_choice_keeps_its_budget_unless_it_treats_the_score_as_monotone() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        for side in (3, SIDE, 100, 10_000):
            assert loss(side, epsilon / SPAN) <= epsilon
    assert loss(10_000, 1.0 / SPAN) > 0.85  # the bound is nearly tight
    assert loss(SIDE, 2.0 / (POINTS + 1)) > 2.75  # the auditor's own example


def test_the_probabilities_behind_the_power_of_the_auditor() -> None:
    epsilon = 2 * 0.99
    broken = epsilon / (POINTS + 1)
    assert chance_of_few(SIDE, broken, with_row=False) == pytest.approx(0.4126, abs=0.001)
    assert chance_of_few(SIDE, broken, with_row=True) == pytest.approx(0.0226, abs=0.001)


def test_class_rules_use_this_score_and_need_a_target() -> None:
    plain = PLAIN.to_dict()
    plain["columns"]["c"] = {"type": "categorical", "values": ["+", "-"], "role": "target"}
    rules = Partition(epsilon=1, split="class").plan(Schema.from_dict(plain)).rules
    assert rules.sensitivity == 2 * (POINTS + 1)
    with pytest.raises(ParameterError, match="split is 'class'"):
        Partition(epsilon=1, split="class").plan(PLAIN)
