"""Trees of partition: probabilities of the splits, and coverage of intervals.

All draws use operating-system randomness; each test raises a false alarm with probability below
1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.methods.partition.estimator import RegionEstimator
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.region_table import NoisyTree
from hushtable.methods.partition.tree import PartitionAxis
from hushtable.privacy.mechanisms.sealed_regions import OrderedCells
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from sealing import grow

ALPHA = 1e-7
LEAST_EXPECTED = 25

SMALL = Schema.from_dict(
    {"name": "small", "columns": {
        "x": {"type": "integer", "low": 0, "high": 3},
        "y": {"type": "categorical", "values": ["a", "b", "c"]},
        "c": {"type": "categorical", "values": ["+", "-"], "role": "target"}}}
)  # fmt: skip
# Codes of x, y and the class, and the number of rows.
CELLS = np.array(
    [[0, 0, 0, 3], [0, 1, 1, 2], [1, 0, 0, 1], [2, 2, 1, 4], [3, 1, 0, 2], [3, 2, 1, 1]]
)

Part = tuple[frozenset[int], frozenset[int]]


def splits_of(part: Part) -> list[tuple[int, Part, Part]]:
    """List all splits of a region: the axis and both halves."""
    x, y = (sorted(codes) for codes in part)
    found: list[tuple[int, Part, Part]] = [
        (0, (frozenset(x[:at]), part[1]), (frozenset(x[at:]), part[1])) for at in range(1, len(x))
    ]
    for chosen in range(1, 1 << len(y)):
        left = frozenset(code for i, code in enumerate(y) if chosen >> i & 1)
        if y and y[0] in left and left != part[1]:
            found.append((1, (part[0], left), (part[0], part[1] - left)))
    return found


def counts_in(part: Part) -> np.ndarray:
    tally = np.zeros(2, np.int64)
    for x, y, c, n in CELLS.tolist():
        if x in part[0] and y in part[1]:
            tally[c] += n
    return tally


def chances(part: Part, level: int, budget: float, random_attribute: bool) -> dict[Any, float]:
    """Return the probability of every subtree below a region, as nested halves."""
    splits = splits_of(part) if level < 2 else []
    if not splits:
        return {part: 1.0}
    per_axis = Counter(axis for axis, _, _ in splits)
    weights = []
    for _, left, right in splits:
        one, two = counts_in(left), counts_in(right)
        score = 2 * min(one.sum(), two.sum()) + max(one[0] + two[1], one[1] + two[0])
        weights.append(math.exp(budget * score / 3))
    if random_attribute:
        sums = {
            axis: sum(w for w, s in zip(weights, splits, strict=True) if s[0] == axis)
            for axis in per_axis
        }
        weights = [w / sums[s[0]] / len(per_axis) for w, s in zip(weights, splits, strict=True)]
    found: dict[Any, float] = {}
    for (_, left, right), weight in zip(splits, weights, strict=True):
        below = (chances(half, level + 1, budget, random_attribute) for half in (left, right))
        one, two = below
        for name_one, p in one.items():
            for name_two, q in two.items():
                found[(name_one, name_two)] = p * q * weight / sum(weights)
    return found


@pytest.mark.parametrize("split", ["median", "random-attribute"])
def test_trees_have_their_probabilities(split: Any) -> None:
    """Two levels of a small table, compared with products of probabilities by hand."""
    method = Partition(epsilon=2, max_depth=2, test_from=2, split=split)
    plan = method.plan(SMALL)
    budget = float(plan.rules.split_budget(0))
    root = frozenset(range(4)), frozenset(range(3))
    expected = chances(root, 0, budget, split == "random-attribute")
    assert sum(expected.values()) == pytest.approx(1)
    noise, n_runs = SecureNoise(), 3000
    drawn: Counter[Any] = Counter()
    for _ in range(n_runs):
        rows = OrderedCells(plan.axes, CELLS[:, :2].T, CELLS[:, 2], 2, CELLS[:, 3].copy())
        tree, _ = grow(rows, plan.rules, noise)
        names: dict[int, Any] = {0: root}
        for node, left in enumerate(tree.left):
            if left >= 0:
                axis = plan.axes[tree.axis[node]]
                for side, half in enumerate(axis.halves(*_ends(names[node], tree.axis[node], axis),
                                                        tree.cut[node])):  # fmt: skip
                    part = list(names[node])
                    part[tree.axis[node]] = frozenset(axis.codes_of(*half).tolist())
                    names[left + side] = tuple(part)
        for node in reversed(range(len(tree.left))):
            if tree.left[node] >= 0:
                names[node] = names[tree.left[node]], names[tree.left[node] + 1]
        drawn[names[0]] += 1
    assert set(drawn) <= set(expected)
    common = {t: p * n_runs for t, p in expected.items() if p * n_runs >= LEAST_EXPECTED}
    observed = [drawn[t] for t in common] + [n_runs - sum(drawn[t] for t in common)]
    wanted = [*common.values(), n_runs - sum(common.values())]
    assert wanted[-1] >= LEAST_EXPECTED
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True))
    assert chi2.sf(statistic, len(wanted) - 1) > ALPHA


def _ends(part: Part, at: int, axis: PartitionAxis) -> tuple[int, int]:
    codes = part[at]
    return (sum(1 << code for code in codes), 0) if axis.subsets else (min(codes), max(codes))


def test_counts_of_tests_and_leaves_have_their_noise() -> None:
    """Variances against the budgets; 8 standard errors of a variance of about 2,000 draws.

    The fourth moment of the noise is 6 variances squared, so a variance over n draws has a
    relative standard error of sqrt(5 / n); 8 of them are exceeded with probability far below 1e-6.
    """
    schema = Schema.from_dict({"name": "t", "columns": {
        "x": {"type": "integer", "low": 0, "high": 63}}})  # fmt: skip
    method = Partition(epsilon=1, max_depth=4, test_from=0, stop_count=-(10**6))
    plan = method.plan(schema)
    tests, leaves = [], []
    noise = SecureNoise()
    for _ in range(150):
        rows = OrderedCells(plan.axes, [np.arange(64)], np.zeros(64, int), 1, np.full(64, 100))
        tree, regions = grow(rows, plan.rules, noise)
        size = {
            leaf: int(n) for leaf, n in zip(tree.leaves.tolist(), regions.exact[:, 0], strict=True)
        }
        for node in reversed(range(len(tree.left))):
            if tree.left[node] >= 0:
                size[node] = size[tree.left[node]] + size[tree.left[node] + 1]
            if tree.tested[node]:
                tests.append(tree.noisy[node] - size[node])
    engine = _engine(schema)
    released = [method.run(engine, noise) for _ in range(100)]
    for made in released:
        data = made.tables["data"]
        truth = np.array([100 * (row["high"] - row["low"] + 1) for row in data["x"].to_pylist()])
        leaves += (
            (data["noisy_count"].to_numpy() - truth) / data["noise_scale"].to_numpy()
        ).tolist()
    scale = 1 / float(plan.rules.epsilon_test)
    assert scale == 16
    for values, variance in ((tests, 2 * scale**2), (leaves, 2.0)):
        slack = 8 * (5 / len(values)) ** 0.5 + 0.1  # 0.1: the noise is discrete
        assert abs(np.var(values) / variance - 1) < slack
        assert abs(np.mean(values)) < 8 * (variance / len(values)) ** 0.5


def _engine(schema: Schema) -> Any:
    return connect(pa.table({"x": np.arange(64).repeat(100)}), schema)


def coverage(where: str, truth: int, *, runs: int, **parameters: Any) -> tuple[int, list[float]]:
    method = Partition(**parameters)
    engine = connect(sample(), sample_schema(), engine="memory")
    misses, errors = 0, []
    for _ in range(runs):
        made = method.run(engine, SecureNoise())
        release = RegionEstimator(engine.schema, method.parameters(), {}, made.tables)
        answer = release.count(where)
        misses += not answer.low <= truth <= answer.high
        errors.append(answer.value - truth)
    return misses, errors


@pytest.mark.parametrize(
    ("where", "parameters"),
    [
        ("TRUE", {"epsilon": 1, "max_depth": 4, "test_from": 1}),
        ("diagnosis = 'asthma'", {"epsilon": "1/2", "max_depth": 5, "test_from": 3}),
        ("TRUE", {"epsilon": 3, "max_depth": 2, "test_from": 2}),
        ("sex = 'F' AND age < 50", {"epsilon": 1, "max_depth": 6, "test_from": 4}),
    ],
)
def test_intervals_hold_the_truth(where: str, parameters: dict[str, Any]) -> None:
    """Valid intervals miss in at most 5%; more misses than this have probability ALPHA."""
    rows = sample().to_pylist()
    wanted = {
        "TRUE": lambda row: True,
        "diagnosis = 'asthma'": lambda row: row["diagnosis"] == "asthma",
        "sex = 'F' AND age < 50": lambda row: row["sex"] == "F" and row["age"] < 50,
    }[where]
    misses, _ = coverage(where, sum(map(wanted, rows)), runs=120, **parameters)
    assert misses <= binom.isf(ALPHA, 120, 0.05)


def test_least_squares_lower_the_error_as_predicted() -> None:
    """The reason for the default: using the counts of the tests reduces the variance.

    A full tree of 32 leaves, tested on all levels; the sum of a quarter of its leaves. A variance
    over 3,000 draws has a relative standard error below sqrt(5 / 3000); 8 of them are 0.33.
    """
    left = np.concatenate((np.arange(1, 63, 2), np.full(32, -1)))
    levels = np.array([int(node).bit_length() - 1 for node in range(1, 64)])
    leaves = slice(31, 63)
    marks = np.zeros((63, 32))
    marks[leaves] = np.eye(32)
    for node in reversed(range(31)):
        marks[node] = marks[left[node]] + marks[left[node] + 1]
    truth = np.full(32, 100.0)
    node_scale = np.where(left >= 0, 6.0, np.inf)
    trees = [NoisyTree(left, levels, np.full((32, 1), 2.0), scale)
             for scale in (node_scale, np.full(63, np.inf))]  # fmt: skip
    wanted = np.zeros((32, 1))
    wanted[:8] = 1.0
    fitted_std, plain_std = (tree.error(wanted)[0] for tree in trees)
    assert plain_std == pytest.approx((8 * 7.835) ** 0.5, rel=1e-3)
    assert fitted_std < 0.8 * plain_std
    noise, n_runs = SecureNoise(), 3000
    cell_noise = noise.discrete_laplace(Fraction(2), size=32 * n_runs).reshape(n_runs, 32)
    node_noise = noise.discrete_laplace(Fraction(6), size=63 * n_runs).reshape(n_runs, 63)
    for tree, std in zip(trees, (fitted_std, plain_std), strict=True):
        errors = [
            tree.fit((truth + cells)[:, None], marks @ truth + nodes)[:8].sum() - 800
            for cells, nodes in zip(cell_noise, node_noise, strict=True)
        ]
        assert abs(np.mean(errors)) < 8 * std / n_runs**0.5
        assert abs(np.var(errors) / std**2 - 1) < 0.33


def test_budgets_are_fractions_without_rounding() -> None:
    rules = Partition(epsilon="1/3", max_depth=7, test_from=3, column_share=0).plan(SMALL).rules
    total = sum((rules.split_budget(d) + rules.epsilon_test * rules.is_tested(d) for d in range(7)),
                Fraction(0))  # fmt: skip
    assert total == Fraction(1, 6)
