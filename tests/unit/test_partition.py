"""Partition: axes, splits, trees, fits, tables, estimates."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, TooLarge
from hushtable.kernels import EVEN
from hushtable.kernels.split_scores import score_interval, split_score
from hushtable.methods.partition.estimator import RegionEstimator
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.region_table import NoisyTree, leaf_parts, tree_table
from hushtable.methods.partition.tree import (
    GrowthRules,
    PartitionAxis,
    PartitionTree,
    axis_of,
    ordered_axis_of,
)
from hushtable.methods.registry import estimator_for
from hushtable.numeric import project_integers_to_simplex
from hushtable.privacy.mechanisms.sealed_regions import OrderedCells
from hushtable.privacy.noise.distributions import laplace_kurtosis, laplace_variance
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.publish import publish
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.schema import Categorical, Schema
from hushtable.schema.taxonomy import Taxonomy
from sealing import grow
from seeds import shifted

MIXED = Schema.from_dict(
    {"name": "mixed", "columns": {
        "age": {"type": "integer", "low": 0, "high": 30, "missing": "category"},
        "level": {"type": "categorical", "values": ["low", "mid", "high"], "ordered": True},
        "color": {"type": "categorical", "values": ["red", "green", "blue"], "missing": "category"},
        "place": {"type": "categorical",
                  "values": ["a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4", "c"],
                  "taxonomy": {"any": {"a": ["a1", "a2", "a3", "a4"], "b": ["b1", "b2", "b3", "b4"],
                                       "rest": ["c"]}}},
        "size": {"type": "number", "low": 0, "high": 2, "step": 0.5},
        "won": {"type": "categorical", "values": ["no", "yes"], "role": "target"},
    }}
)  # fmt: skip


def mixed_rows(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(shifted(seed))
    columns = {}
    for name, column in MIXED.attributes.items():
        codes = rng.integers(0, column.size, n)
        columns[name] = pa.array([column.value(int(code)) for code in codes])
    return pa.table(columns)


def run(method: Partition, table: pa.Table, schema: Schema, **more: Any) -> RegionEstimator:
    noise = more.pop("noise", SecureNoise())
    released = method.run(connect(table, schema, **more), noise)
    settings_ = {"kind": method.estimator_kind, **released.settings}
    made = estimator_for(settings_, schema, method.parameters(), released.tables)
    assert isinstance(made, RegionEstimator)
    return made


# --- axes -----------------------------------------------------------------------------------------


def test_what_kind_of_axis_a_column_has() -> None:
    axes = {name: axis_of(name, column) for name, column in MIXED.attributes.items()}
    assert {name for name, axis in axes.items() if axis.subsets} == {"color", "won"}
    assert (axes["age"].size, axes["color"].size) == (32, 4)  # missing is one more
    place = MIXED.attributes["place"]
    assert [place.value(code) for code in axes["place"].codes or ()] == [
        "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "c",
    ]  # fmt: skip
    assert axes["level"].codes is None


def test_missing_comes_after_the_leaves_of_a_taxonomy() -> None:
    column = Categorical(
        type="categorical",
        values=("x", "y"),
        taxonomy=Taxonomy.from_nested({"any": ["y", "x"]}),
        missing="category",
    )
    assert ordered_axis_of("c", column).codes == (1, 0, 2)


def test_positions_and_codes_are_inverse() -> None:
    axis = axis_of("place", MIXED.attributes["place"])
    codes = np.arange(axis.size)
    places = axis.positions(codes)
    assert [int(axis.codes_of(int(p), int(p))[0]) for p in places] == codes.tolist()


@pytest.mark.parametrize(
    "axis", [PartitionAxis("x", None, 7, False), PartitionAxis("x", None, 5, True)]
)
def test_halves_share_out_the_codes(axis: PartitionAxis) -> None:
    first, last = axis.whole
    cuts = range(first + 1, last + 1)
    if axis.subsets:
        cuts = range(1, first, 2)  # every set with position 0, except the whole
    assert len(cuts) == axis.n_splits(np.array([first]), np.array([last]))[0]
    for cut in cuts:
        one, two = axis.halves(first, last, cut)
        parts = [set(axis.codes_of(*half).tolist()) for half in (one, two)]
        assert all(parts)
        assert sorted(itertools.chain(*parts)) == list(range(axis.size))
    assert axis.middle(first, last) in cuts
    assert axis.share(first, last) == 1


# --- scores ---------------------------------------------------------------------------------------


def score_by_hand(left: np.ndarray, right: np.ndarray, by_class: bool) -> int:
    smaller = min(int(left.sum()), int(right.sum()))
    if not by_class:
        return smaller
    pairs = itertools.permutations(range(len(left)), 2)
    return 2 * smaller + max(int(left[a] + right[b]) for a, b in pairs)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=4))
def test_scores_of_any_number_of_classes(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs, np.int64).T
    for by_class in (False, True):
        found = split_score(left, left + right, by_class)
        assert found == score_by_hand(left, right, by_class)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_runs_are_all_splits_with_their_scores(data: st.DataObject) -> None:
    subsets = data.draw(st.booleans())
    size, n_classes = data.draw(st.integers(2, 7)), data.draw(st.integers(2, 3))
    axis = PartitionAxis("x", None, size, subsets)
    table = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=size * n_classes, max_size=size * n_classes))
    ).reshape(size, n_classes)
    part = axis.whole
    if subsets:
        mask = data.draw(st.integers(1, (1 << size) - 1).filter(lambda m: m.bit_count() > 1))
        part = mask, 0
    inside = axis.codes_of(*part)
    table[np.setdiff1d(np.arange(size), inside)] = 0
    codes, classes = np.nonzero(table)
    rows = OrderedCells([axis], [codes], classes, n_classes, table[codes, classes].astype(np.int64))
    whole = table.sum(axis=0).astype(np.int64)
    for by_class in (False, True):
        scores, ways, starts = rows.runs(
            0, part, slice(0, len(codes)), whole=whole, quality=by_class
        )
        found = {
            int(start) + i: int(score)
            for score, n, start in zip(scores, ways, starts, strict=True)
            for i in range(n)
        }
        assert len(found) == ways.sum() == axis.n_splits(*np.array([[part[0]], [part[1]]]))[0]
        for cut, score in found.items():
            left = axis.codes_of(*axis.halves(*part, cut)[0])
            below = table[left].sum(axis=0)
            assert score == score_by_hand(below, whole - below, by_class)


# --- trees ----------------------------------------------------------------------------------------


def grown(
    method: Partition, n: int = 800, seed: int = 0
) -> tuple[PartitionTree, np.ndarray, Any, Any]:
    plan = method.plan(MIXED)
    cells = connect(mixed_rows(n, seed), MIXED).counts([*[a.name for a in plan.axes], "won"])
    rows = OrderedCells(plan.axes, cells.codes.T[:-1], cells.codes[:, -1], 2, cells.counts)
    tree, leaves = grow(rows, plan.rules, SecureNoise())
    return tree, leaves.exact, plan, cells


@pytest.mark.parametrize("split", ["median", "random-attribute", "midpoint"])
def test_leaves_share_out_the_rows_and_the_domain(split: Any) -> None:
    tree, exact, plan, cells = grown(Partition(epsilon=1, split=split, max_depth=8, test_from=4))
    first, last = leaf_parts(tree_table(tree, plan.axes, plan.rules), plan.axes)
    inside = np.ones((len(first), len(cells.counts)), np.bool_)
    volume = np.ones(len(first), np.int64)
    for at, axis in enumerate(plan.axes):
        sets = [axis.codes_of(*part) for part in zip(first[:, at], last[:, at], strict=True)]
        inside &= np.stack([np.isin(cells.codes[:, at], codes) for codes in sets])
        volume *= [len(codes) for codes in sets]
    assert (inside.sum(axis=0) == 1).all()
    assert volume.sum() == plan.n_cells
    by_hand = np.zeros_like(exact)
    leaf, cell = np.nonzero(inside)
    np.add.at(by_hand, (leaf, cells.codes[cell, -1]), cells.counts[cell])
    assert exact.tolist() == by_hand.tolist()


def test_growth_ends_at_the_depth_and_at_the_number_of_regions() -> None:
    tree, *_ = grown(Partition(epsilon=1, max_depth=6, test_from=6))
    assert max(tree.levels) == 6
    assert len(tree.leaves) == 64
    for most in (1, 5, 33):
        tree, exact, *_ = grown(Partition(epsilon=1, max_depth=6, test_from=6, max_regions=most))
        assert len(tree.leaves) == len(exact) == most
        assert exact.sum() == 800


def test_stopping_tests_stop_small_regions() -> None:
    strict, *_ = grown(Partition(epsilon=50, max_depth=10, test_from=0, stop_count=500))
    noisy = np.array(strict.noisy)
    inner = np.array(strict.left) >= 0
    assert all(strict.tested)
    assert (noisy[inner] >= 500).all()
    assert (noisy[~inner] < 500).all()
    assert len(strict.leaves) < 8


def test_a_narrow_region_is_a_leaf_and_depth_50_is_fine() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {
        "x": {"type": "integer", "low": 0, "high": 7}}})  # fmt: skip
    table = pa.table({"x": np.arange(8).repeat(50)})
    release = run(Partition(epsilon=100, max_depth=50, test_from=50), table, schema)
    assert release.counts.shape == (8, 1)
    # At most seven splits are charged, and the last has no choice: the rest is for leaves.
    assert np.abs(release.counts.ravel() - 50).max() <= 5


def test_an_empty_table_and_a_single_row_are_published_like_any_other() -> None:
    for n in (0, 1):
        release = run(Partition(epsilon=1, max_depth=5), mixed_rows(n), MIXED)
        assert release.count("TRUE").low <= n + 60
        assert release.frame().column_names == list(MIXED.attributes)


def test_wide_columns_cost_nothing() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {
        "x": {"type": "integer", "low": 0, "high": 2**31 - 2},
        "y": {"type": "integer", "low": 0, "high": 1}}})  # fmt: skip
    rng = np.random.default_rng(shifted(0))
    x = (rng.random(2000) ** 4 * 2**31).astype(np.int64)
    table = pa.table({"x": x, "y": rng.integers(0, 2, 2000)})
    release = run(Partition(epsilon=10, max_depth=6), table, schema)
    half = release.count(f"x <= {int(np.median(x))}")
    assert half.value == pytest.approx(1000, abs=150)


def test_all_splits_weigh_the_same_but_a_wide_column_no_more_than_ten() -> None:
    seen: list[dict[str, Any]] = []

    class Listening(SecureNoise):
        def choose(self, scores: Any, **given: Any) -> int:
            seen.append(given)
            return super().choose(scores, **given)

    schema = Schema.from_dict({"name": "t", "columns": {
        "wide": {"type": "integer", "low": 0, "high": 10**6},
        "few": {"type": "integer", "low": 0, "high": 9},
        "set": {"type": "categorical", "values": ["a", "b", "c"]}}})  # fmt: skip
    table = pa.table({"wide": [5, 70], "few": [0, 9], "set": ["a", "b"]})
    method = Partition(epsilon=1, max_depth=1, test_from=1, column_share=0)
    method.run(connect(table, schema), Listening())
    [given_] = seen
    unit = 2**40 / 10
    # Runs: 3 of the wide column, 1 of the narrow one (both ends are occupied), 3 sets.
    weights = np.array(given_["base"]) / unit
    assert weights[:3].sum() == pytest.approx(10, rel=1e-5)
    assert weights[3:].tolist() == pytest.approx([9, 1, 1, 1])
    assert given_["monotone"] is True
    assert given_["sensitivity"] == 1
    assert given_["epsilon"] == Fraction(1, 2)


def test_one_question_is_asked() -> None:
    asked = []

    class Counting:
        def __init__(self, engine: Any) -> None:
            self._engine, self.schema = engine, engine.schema

        def counts(self, columns: Any, *, recode: Any = None) -> Any:
            asked.append(list(columns))
            return self._engine.counts(columns, recode=recode)

    engine: Any = Counting(connect(mixed_rows(50), MIXED))
    Partition(epsilon=1).run(engine, SecureNoise())
    assert asked == [list(MIXED.attributes)]


def test_all_engines_give_the_same_release() -> None:
    tables = [
        Partition(epsilon=1)
        .run(connect(mixed_rows(400), MIXED, engine=engine), SeededNoise(shifted(3)))
        .tables
        for engine in ("memory", "duckdb")
    ]
    assert tables[0]["data"].equals(tables[1]["data"])
    assert tables[0]["tree"].equals(tables[1]["tree"])


# --- persons --------------------------------------------------------------------------------------


def test_noise_grows_with_the_rows_of_a_person() -> None:
    columns = MIXED.to_dict()["columns"] | {"who": {"role": "identifier"}}
    unit = {"kind": "person", "column": "who", "max_rows": 4}
    persons = Schema.from_dict({"name": "p", "unit": unit, "columns": columns})
    method = Partition(epsilon=1)
    one, four = method.plan(MIXED).rules, method.plan(persons).rules
    assert (one.sensitivity, four.sensitivity) == (3, 12)
    table = mixed_rows(500).append_column("who", pa.array([f"p{i // 4}" for i in range(500)]))
    made = method.run(connect(table, persons), SecureNoise()).tables
    alone = method.run(connect(mixed_rows(500), MIXED), SecureNoise()).tables
    for name in ("data", "tree"):
        scale = np.nanmax(made[name]["noise_scale"].to_numpy())
        assert scale == 4 * np.nanmax(alone[name]["noise_scale"].to_numpy())
    [promise] = method.guarantee(persons)
    assert promise.unit.max_rows == 4  # type: ignore[union-attr]


# --- least squares --------------------------------------------------------------------------------


def random_tree(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    left, levels, at = [-1], [0], 0
    while at < len(left) and len(left) < 15:
        if at == 0 or rng.random() < 0.6:
            left[at] = len(left)
            left += [-1, -1]
            levels += [levels[at] + 1] * 2
        at += 1
    return np.array(left), np.array(levels)


@pytest.mark.parametrize("total", [None, 500])
@pytest.mark.parametrize("seed", range(6))
def test_the_walks_solve_the_normal_equations(seed: int, total: int | None) -> None:
    rng = np.random.default_rng(shifted(seed))
    left, levels = random_tree(rng)
    leaves = np.flatnonzero(left < 0)
    cell_scale = rng.uniform(0.3, 5, (len(leaves), 2))
    node_scale = np.where(rng.random(len(left)) < 0.6, rng.uniform(0.3, 5, len(left)), np.inf)
    tree = NoisyTree(left, levels, cell_scale, node_scale, total)
    marks = np.zeros((len(left), len(leaves)))
    marks[leaves, np.arange(len(leaves))] = 1
    for node in reversed(range(len(left))):
        if left[node] >= 0:
            marks[node] = marks[left[node]] + marks[left[node] + 1]
    marks = np.repeat(marks, 2, axis=1)
    weight = np.zeros(len(left))
    measured = np.isfinite(node_scale)
    weight[measured] = 1 / laplace_variance(node_scale[measured])
    precision = 1 / laplace_variance(cell_scale).ravel()
    cells, nodes = rng.normal(50, 10, cell_scale.shape), rng.normal(90, 10, len(left))
    matrix = np.diag(precision) + (marks.T * weight) @ marks
    covariance = np.linalg.inv(matrix)
    wanted = covariance @ (precision * cells.ravel() + marks.T @ (weight * nodes))
    if total is not None:
        ones = covariance.sum(axis=1)
        wanted = wanted + ones * (total - wanted.sum()) / ones.sum()
        covariance = covariance - np.outer(ones, ones) / ones.sum()
    assert tree.fit(cells, nodes).ravel() == pytest.approx(wanted)
    weights = rng.random(cell_scale.shape)
    std, kurtosis, step = tree.error(weights)
    assert std**2 == pytest.approx(weights.ravel() @ covariance @ weights.ravel())
    assert 0 < kurtosis <= laplace_kurtosis(0.3)
    assert step > 0


def test_moments_of_the_noise() -> None:
    for scale in (0.4, 1.0, 7.0):
        values = np.arange(-600, 601)
        chance = np.exp(-np.abs(values) / scale)
        chance /= chance.sum()
        variance = float(values**2 @ chance)
        assert laplace_variance(scale) == pytest.approx(variance)
        kurtosis = float(values**4 @ chance) / variance**2 - 3
        assert laplace_kurtosis(scale) == pytest.approx(kurtosis)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12))
def test_whole_counts_keep_the_sum_and_the_order(fitted: list[float]) -> None:
    values = np.array(fitted)
    counts = project_integers_to_simplex(values, round(float(values.sum())), np.ones(len(values)))
    assert counts.min() >= 0
    assert counts.sum() == max(0, round(float(values.sum())))
    order = np.argsort(values, kind="stable")
    assert (np.diff(counts[order]) >= -1).all()  # rounding may swap neighbors


# --- estimates and rows ---------------------------------------------------------------------------


def test_the_number_of_rows_is_known_without_drawing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    release = run(Partition(epsilon=1, max_depth=3), mixed_rows(50), MIXED)
    n_rows = release.frame().num_rows
    monkeypatch.delattr(type(release).__mro__[1], "frame")
    assert release.n_rows == n_rows


def test_counts_are_exact_where_there_is_almost_no_noise() -> None:
    table = mixed_rows(3000)
    release = run(Partition(epsilon=100, max_depth=12, test_from=20), table, MIXED)
    assert release.count("TRUE").value == pytest.approx(3000, abs=1)
    assert release.count("FALSE").value == 0
    won = sum(value == "yes" for value in table["won"].to_pylist())
    answer = release.count("won = 'yes'")
    assert answer.value == pytest.approx(won, abs=1)
    assert answer.model_std == 0
    assert answer.notes == ()
    cut = release.count("age < 7 AND color = 'red'")
    assert cut.model_std > 0
    assert cut.notes
    truth = sum(
        age is not None and age < 7 and color == "red"
        for age, color in zip(table["age"].to_pylist(), table["color"].to_pylist(), strict=True)
    )
    assert cut.low <= truth <= cut.high


def test_a_public_number_of_rows_is_kept() -> None:
    known = Schema.from_dict(MIXED.to_dict() | {"rows": 700})
    release = run(Partition(epsilon="1/10", max_depth=6), mixed_rows(700), known)
    everyone = release.count("TRUE")
    assert everyone.value == pytest.approx(700)
    assert everyone.privacy_std == pytest.approx(0, abs=1e-6)
    assert release.frame().num_rows == 700


@pytest.mark.parametrize("summarize", ["sample", "midpoint", "lower"])
def test_rows_lie_in_their_regions(summarize: Any) -> None:
    schema = MIXED
    method = Partition(epsilon=5, max_depth=5, summarize=summarize)
    released = method.run(connect(mixed_rows(900), schema), SecureNoise())
    data = released.tables["data"]
    release = RegionEstimator(schema, method.parameters(), {}, released.tables)
    frame = release.frame()
    assert frame.column_names == list(schema.attributes)
    regions = data.to_pylist()
    assert frame.num_rows == sum(region["count"] for region in regions)
    rows = iter(frame.to_pylist())
    for region in regions:
        for row in itertools.islice(rows, region["count"]):
            assert row["won"] == region["won"]
            assert row["color"] in region["color"]
            assert row["place"] in region["place"]
            age = region["age"]
            if row["age"] is None:
                assert age["missing"]
            else:
                assert age["low"] <= row["age"] <= age["high"]
            if summarize == "lower":
                assert row["size"] == region["size"]["low"]
            if summarize == "midpoint" and age["low"] is not None:
                assert row["age"] == (age["low"] + age["high"]) // 2


def test_a_region_of_missing_values_alone_has_no_bounds() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {
        "x": {"type": "integer", "low": 5, "high": 6, "missing": "category"}}})  # fmt: skip
    table = pa.table({"x": pa.array([None] * 50 + [5] * 50 + [6] * 50, pa.int64())})
    method = Partition(epsilon=100, max_depth=4, test_from=9)
    released = method.run(connect(table, schema), SecureNoise())
    shown = [row["x"] for row in released.tables["data"].to_pylist()]
    assert {"low": None, "high": None, "missing": True} in shown
    assert {"low": 5, "high": 5, "missing": False} in shown
    frame = RegionEstimator(schema, method.parameters(), {}, released.tables).frame()
    assert frame["x"].null_count == pytest.approx(50, abs=3)


def test_consistency_is_a_choice_of_the_analysis() -> None:
    table = mixed_rows(900)
    method = Partition(epsilon=1, max_depth=5, test_from=0)
    released = method.run(connect(table, MIXED), SecureNoise())
    fitted = method.parameters() | {"consistent": True}
    both = [
        RegionEstimator(MIXED, parameters, {}, released.tables).count("TRUE")
        for parameters in (fitted, method.parameters())
    ]
    noisy = released.tables["data"]["noisy_count"].to_numpy().sum()
    assert both[1].value == max(0, noisy)
    assert released.tables["data"]["count"].to_numpy().sum() == max(0, noisy)
    assert both[0].privacy_std < both[1].privacy_std


@pytest.mark.parametrize("rows", [0, 20, 1000])
def test_a_test_that_decides_is_no_fair_count(rows: int) -> None:
    """One test, then two leaves or one: by enumeration, the sum of the fit is too large on average.

    As ``partition.md`` states: by the difference of weights times the mean noise of split nodes.
    """
    scale, stop = 10.0, 5
    trees = {
        True: NoisyTree(
            np.array([1, -1, -1]), np.array([0, 1, 1]), np.full((2, 1), 3.0),
            np.array([scale, np.inf, np.inf]),
        ),
        False: NoisyTree(np.array([-1]), np.array([0]), np.full((1, 1), 2.5), np.array([scale])),
    }  # fmt: skip

    def sum_of_fit(is_split: bool, test: float, leaves: float) -> float:
        tree = trees[is_split]
        cells = np.full(tree.cell_scale.shape, leaves / len(tree.cell_scale))
        return float(tree.fit(cells, np.where(np.isfinite(tree.node_scale), test, 0.0)).sum())

    noise = np.arange(-600, 601)
    chance = np.tanh(0.5 / scale) * np.exp(-np.abs(noise) / scale)
    splits = rows + noise >= stop
    sums = [sum_of_fit(bool(up), rows + x, rows) for x, up in zip(noise, splits, strict=True)]
    bias = float(chance @ np.array(sums)) - rows
    weight = {up: sum_of_fit(up, 1.0, 0.0) for up in trees}
    said = (weight[True] - weight[False]) * float(chance[splits] @ noise[splits])
    assert bias == pytest.approx(said, abs=1e-9)
    assert bias > 0.01 if rows < 1000 else abs(bias) < 1e-9


# --- parameters -----------------------------------------------------------------------------------


def test_every_wrong_parameter_is_named() -> None:
    with pytest.raises(ParameterError) as caught:
        Partition(
            epsilon=-1, max_depth="2.5", stop_count="x", test_from=-1, split="best",  # type: ignore[arg-type]
            budget=0, test_share=2, summarize="mean", consistent=1, max_regions=0,  # type: ignore[arg-type]
        )  # fmt: skip
    for name in ("epsilon", "max_depth", "stop_count", "test_from", "split", "budget",
                 "test_share", "summarize", "consistent", "max_regions"):  # fmt: skip
        assert any(problem.startswith(name) for problem in caught.value.problems), name


def test_schemas_that_cannot_be_published_are_refused() -> None:
    def refused(schema: dict[str, Any], **parameters: Any) -> str:
        with pytest.raises(ParameterError) as caught:
            Partition(epsilon=1, **parameters).guarantee(Schema.from_dict(schema))
        return str(caught.value)

    number = {"type": "integer", "low": 0, "high": 5000}
    columns = {"x": number, "y": number}
    assert "unit is node" in refused({"name": "t", "unit": "node", "columns": columns})
    taken = refused({"name": "t", "columns": {"count": number, "node": number}})
    assert "'count'" in taken
    assert "'node'" in taken
    assert "target 'z' is not a published column" in refused(
        {"name": "t", "columns": columns}, target="z"
    )
    assert "5,001 values" in refused({"name": "t", "columns": columns}, target="x")
    few = {"x": {"type": "integer", "low": 0, "high": 3}}
    assert "only column" in refused({"name": "t", "columns": few}, target="x")


def test_what_is_too_large_or_too_small_is_refused_beforehand() -> None:
    number = {"type": "integer", "low": 0, "high": 999}
    many = Schema.from_dict({"name": "t", "columns": {"x": number, "y": number, "z": number}})
    with pytest.raises(TooLarge, match="200,000 regions times 1,000 classes"):
        Partition(epsilon=1, max_depth=50, target="z").forecast(many)
    with pytest.raises(ParameterError, match="only noise"):
        Partition(epsilon="1e-15", max_depth=50).guarantee(many)


def test_the_forecast_says_what_is_spent_and_held() -> None:
    schema = sample_schema()
    usual = Partition(epsilon=1).forecast(schema, 12_000)
    assert sum(usual.split.values()) == 1
    assert usual.split["counts of leaves"] == Fraction(3, 8)
    assert usual.split["counts of columns"] == Fraction(1, 4)
    free = Partition(epsilon=1, split="midpoint", test_from=10, column_share=0).forecast(schema)
    assert free.split == {"counts of leaves": Fraction(1)}
    deep = Partition(epsilon=1, max_depth=50).forecast(schema, 1_000_000)
    assert usual.memory_mb < deep.memory_mb < 1000
    sparse = Partition(epsilon="1/100", test_from=10).forecast(schema, 12_000)
    assert "Lower max_depth" in str(sparse.lines["warning"])


def test_publishing_the_sample(tmp_path: Path) -> None:
    release = publish(sample(), sample_schema(), Partition(epsilon=1), out=tmp_path / "out")
    assert set(release.statement.tables) == {"data", "tree", "columns"}
    answer = release.count("age >= 40 AND diagnosis = 'diabetes'")
    assert answer.low <= answer.value <= answer.high
    assert release.table("data").schema.field("age").type == pa.struct(
        [("low", pa.int64()), ("high", pa.int64()), ("missing", pa.bool_())]
    )


def test_rules_know_their_levels() -> None:
    method = Partition(epsilon=1, max_depth=4, test_from=2, column_share=0)
    rules: GrowthRules = method.plan(MIXED).rules
    assert [rules.is_tested(level) for level in range(4)] == [False, False, True, True]
    assert rules.split_budget(0) == Fraction(1, 8)
    assert rules.split_budget(3) == rules.epsilon_test == Fraction(1, 16)


@pytest.mark.parametrize(("first", "last"), [(0, 9), (3, 6), (0, 4), (5, 9), (4, 4)])
def test_which_cuts_there_are_does_not_depend_on_where_rows_are(first: int, last: int) -> None:
    """Every cut of the span is in one run, also for a span that does not contain all rows."""
    rng = np.random.default_rng(shifted(31))
    for _ in range(50):
        positions = np.sort(rng.integers(0, 10, int(rng.integers(0, 6)))).astype(np.int32)
        n = len(positions)
        order, classes = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
        counts, whole = np.ones(n, np.int64), np.array([n])
        scores, ways, starts = np.empty((3, n + 1), np.int64)
        n_runs = score_interval(
            order, positions, counts, classes, whole, first, last, EVEN, scores, ways, starts
        )
        runs = zip(starts[:n_runs].tolist(), ways[:n_runs].tolist(), strict=True)
        cuts = [cut for start, n_ways in runs for cut in range(start, start + n_ways)]
        assert cuts == list(range(first + 1, last + 1))


def test_a_number_of_one_column_is_told_by_its_own_counts() -> None:
    """Three in four rows have no pay, and the others little, at the end of a wide range.

    At this epsilon there is almost no noise, so this tests the assumed positions of rows. Regions
    alone assume a uniform distribution over all codes of pay, and missing is only one of them.
    """
    schema = Schema.from_dict(
        {
            "name": "pay",
            "columns": {
                "pay": {"type": "integer", "low": 0, "high": 150, "missing": "category"},
                "age": {"type": "integer", "low": 0, "high": 99},
            },
        }
    )
    draw = np.random.default_rng(shifted(3))
    ages = draw.integers(0, 100, 4000)
    paid = np.where(ages % 4 == 0, np.floor(draw.exponential(20, 4000)), np.nan)
    table = pa.table({"pay": pa.array(paid, from_pandas=True).cast(pa.int64()), "age": ages})
    method = Partition(epsilon=40)
    found = method.run(connect(table, schema, engine="memory"), SecureNoise())
    settings = {"kind": method.estimator_kind, **found.settings}
    answers = ReleaseQuestions(estimator_for(settings, schema, method.parameters(), found.tables))
    everybody = answers.statistic("total", "pay", None, (), "people")
    assert everybody.low <= np.nansum(paid) <= everybody.high
    assert everybody.high - everybody.low < 1.5 * np.nansum(paid)
    young = answers.statistic("total", "pay", "age < 50", (), "people")
    assert young.low <= np.nansum(paid[ages < 50]) <= young.high
    # The value 75 is at 0, halfway between -1 and 1: a sum without noise.
    at_one = answers.statistic("total", "pay", "pay = 75", (), "people")
    assert at_one.low <= 75 * np.sum(paid == 75) <= at_one.high
    unpaid = answers.share("pay IS NULL", None, (), "people")
    assert unpaid.low <= np.isnan(paid).mean() <= unpaid.high
