"""Uncertain records: parameters, refusals, the run, the estimator, the learner, the baseline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from expected_fits import gaussian_anonymity, uniform_anonymity
from hushtable.domain import Domain
from hushtable.engine.cells import OccupiedCells
from hushtable.errors import DataError, ParameterError, PredicateError, Refused
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.learn import UncertainNeighbors
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.estimator import (
    UncertainEstimator,
    gaussian_noise_range,
    interval_probability,
    most_behind,
)
from hushtable.methods.uncertain.grid import NoiseGrid
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted


class FakeEngine:
    """Engine that counts given codes."""

    def __init__(self, schema: Schema, codes: np.ndarray) -> None:
        self.schema, self.codes = schema, codes

    def counts(self, columns: Any, *, recode: Any = None) -> OccupiedCells:
        places = [list(self.schema.attributes).index(name) for name in columns]
        codes, counts = np.unique(self.codes[:, places], axis=0, return_counts=True)
        domain = Domain(
            dict(zip(columns, (codes.max(axis=0, initial=0) + 1).tolist(), strict=True))
        )
        return OccupiedCells(domain, domain.pack(codes.astype(np.int64)), counts)


def make_schema(n_columns: int = 2, high: int = 99, **extra: Any) -> Schema:
    columns = {f"x{i}": {"type": "integer", "low": 0, "high": high} for i in range(n_columns)}
    return Schema.from_dict({"name": "t", "columns": columns | extra})


def codes(n: int, n_columns: int = 2, high: int = 99, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(shifted(seed)).integers(0, high + 1, (n, n_columns))


QUICK: dict[str, Any] = {"k": 5, "eta": 0.2, "edges": "wrap"}
SEX = {"type": "categorical", "values": ["F", "M"]}


# --- arithmetic -----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(1.01, 8))
def test_anonymity_grows_and_the_solver_never_falls_short(seed: int, d: int, k: float) -> None:
    rng = np.random.default_rng(shifted(seed))
    points = np.round(rng.normal(size=(60, d)) * 3) / rng.choice([1, 3, 100])
    for anonymity, scales in (
        (gaussian_anonymity, gaussian_scales),
        (uniform_anonymity, uniform_scales),
    ):
        sizes = [anonymity(points, np.full(60, s)) for s in (0.05, 0.3, 1.0, 5.0, 50.0)]
        assert np.all(np.diff(sizes, axis=0) >= -1e-12)
        solved = scales(points, np.full(60, k))
        fine = np.isfinite(solved) & (solved > 0)
        reached = anonymity(points, np.where(fine, solved, 1.0))
        assert np.all(reached[fine] >= k - 1e-9)
        below = anonymity(points, np.where(fine, solved / 1.006, 1.0))
        assert np.all(below[fine] <= k + 1e-9)


def test_shapes_scale_distances_per_record() -> None:
    points = np.random.default_rng(shifted(0)).random((50, 3))
    shape = np.random.default_rng(shifted(1)).uniform(0.5, 2, (50, 3))
    k = np.full(50, 4.0)
    for anonymity, scales in (
        (gaussian_anonymity, gaussian_scales),
        (uniform_anonymity, uniform_scales),
    ):
        solved = scales(points, k, shape=shape)
        one = anonymity(points / shape[7], solved)[7]
        assert 4 <= one <= 4.1
        assert anonymity(points, solved, shape=shape)[7] == pytest.approx(one)


@pytest.mark.parametrize("size", [3.0, 30.0])
@pytest.mark.parametrize("n_values", [9, 10])
@pytest.mark.parametrize("model", ["uniform", "gaussian"])
def test_errors_follow_their_distribution_on_joined_ends(
    model: Any, n_values: int, size: float
) -> None:
    ruler = NoiseGrid(model, np.array([1.0]), np.array([n_values]))
    width = ruler.widths(np.array([size]))
    drawn = ruler.draw(np.tile(width, (20_000, 1)), SeededNoise(shifted(1)))
    placed = ruler.place(drawn)[:, 0]
    distance = np.minimum(np.arange(n_values), n_values - np.arange(n_values))
    weights = np.exp(-(distance**2) / (2 * size**2)) if model == "gaussian" else distance < size / 2
    expected = 20_000 * weights / weights.sum()
    observed = np.bincount(placed, minlength=n_values)
    # Six standard deviations in each of ten cells: a false alarm with probability 2e-8.
    assert np.all(np.abs(observed - expected) <= 6 * np.sqrt(expected) + 1e-9)


# --- parameters and schemas -----------------------------------------------------------------------


def test_all_wrong_parameters_are_named_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        Uncertain(k=0, model="cauchy", levels="none", eta=0, local_floor=0, scales={"a": 0},
                  k_by={"1": 1}, edges="round")  # fmt: skip
    assert len(caught.value.problems) == 8


def test_the_schema_is_checked_without_data() -> None:
    schema = make_schema(
        1, sex=SEX, one={"type": "integer", "low": 3, "high": 3},
        gap={"type": "integer", "low": 0, "high": 9, "missing": "category"},
    )  # fmt: skip
    with pytest.raises(ParameterError) as caught:
        Uncertain(k=5, carry=["zip"]).guarantee(schema)
    text = str(caught.value)
    for part in ("'zip'", "'sex' is categorical", "'gap' may be missing", "'one' has only one"):
        assert part in text
    person = {"kind": "person", "column": "id", "max_rows": 2}
    several = Schema.from_dict(
        {"name": "t", "unit": person, "columns": {
            "id": {"role": "identifier"}, "x": {"type": "integer", "low": 0, "high": 9}}}
    )  # fmt: skip
    with pytest.raises(ParameterError, match="one record per person"):
        Uncertain(k=5).guarantee(several)


def test_exact_levels_and_expectation_promise_nothing() -> None:
    for method in (Uncertain(k=5, levels="exact"), Uncertain(k=5, eta="expectation")):
        assert [promise.family for promise in method.guarantee(make_schema())] == ["none"]
        assert method.edges == "open"
    assert Uncertain(**QUICK).guarantee(make_schema())[0].counted is False


# --- the run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["uniform", "gaussian"])
@pytest.mark.parametrize("n_columns", [1, 50])
def test_one_and_fifty_columns(model: Any, n_columns: int) -> None:
    schema = make_schema(n_columns)
    released = Uncertain(model=model, **QUICK).run(
        FakeEngine(schema, codes(120, n_columns)), SeededNoise(shifted(1))
    )
    table = released.tables["data"]
    assert table.num_rows == 120
    assert table.column_names == [*schema.attributes, *(f"{n}_std" for n in schema.attributes)]
    values = table.column("x0").to_numpy()
    assert values.min() >= 0
    assert values.max() <= 99


def test_few_records_are_refused_without_revealing_their_number() -> None:
    for n in (0, 1, 4):
        with pytest.raises(Refused, match="fewer records than k") as caught:
            Uncertain(**QUICK).run(FakeEngine(make_schema(), codes(n)), SeededNoise(shifted(1)))
        assert "4" not in str(caught.value)


def test_duplicates_of_everything_and_constant_columns() -> None:
    same = np.zeros((30, 2), np.int64) + 7
    for method in (Uncertain(**QUICK), Uncertain(k=5, levels="exact")):
        table = method.run(FakeEngine(make_schema(), same), SeededNoise(shifted(1))).tables["data"]
        assert table.column("x0_std").to_numpy().max() < 1
    constant = np.column_stack((np.arange(200) // 2, np.full(200, 3)))  # two equal, fewer than k
    released = Uncertain(**QUICK).run(FakeEngine(make_schema(), constant), SeededNoise(shifted(1)))
    assert released.tables["data"].column("x1_std").to_numpy().min() > 0


def test_infeasible_k_says_why() -> None:
    with pytest.raises(Refused, match="1 \\+ duplicates \\+ others / 2"):
        Uncertain(k=60, model="gaussian", levels="exact").run(
            FakeEngine(make_schema(), codes(100)), SeededNoise(shifted(1))
        )
    with pytest.raises(Refused, match="not below the number of records"):
        Uncertain(k=100, levels="exact").run(
            FakeEngine(make_schema(), codes(100)), SeededNoise(shifted(1))
        )


def test_bad_values_are_the_engines_to_refuse(tmp_path: Any) -> None:
    from hushtable.engine import connect

    for values in ([1.0, math.nan, 3.0], [1.0, 500.0, 3.0]):
        table = pa.table({"x0": values, "x1": [1.0, 2.0, 3.0]})
        strict = make_schema().to_dict()
        strict["columns"]["x0"] |= {"missing": "forbid", "outside": "refuse"}
        engine = connect(table, Schema.from_dict(strict), noise=SeededNoise(shifted(1)))
        with pytest.raises(DataError, match="'x0': 1 rows"):
            Uncertain(k=2, eta=0.2).run(engine, SeededNoise(shifted(1)))


def test_carried_columns_split_the_cover() -> None:
    schema = make_schema(1, sex=SEX)
    rows = np.column_stack((codes(60, 1), np.arange(60) % 2))
    table = Uncertain(carry=["sex"], **QUICK).run(
        FakeEngine(schema, rows), SeededNoise(shifted(1))
    ).tables["data"]  # fmt: skip
    assert table.column("sex").to_pylist().count("F") == 30
    rows[:, 1] = np.arange(60) < 3
    with pytest.raises(Refused, match="3 records cannot have cover"):
        Uncertain(carry="sex", **QUICK).run(FakeEngine(schema, rows), SeededNoise(shifted(1)))


def test_records_may_ask_for_more_cover() -> None:
    schema = make_schema(1, care={"type": "integer", "low": 0, "high": 40})
    rows = np.column_stack((codes(200, 1), np.repeat([0, 1], 100)))
    engine = FakeEngine(schema, rows)
    table = (
        Uncertain(k_column="care", k_by={"1": 30}, **QUICK)
        .run(engine, SeededNoise(shifted(1)))
        .tables
    )
    assert table["data"].column_names == ["x0", "x0_std"]
    plain = Uncertain(k_column="care", **QUICK).run(engine, SeededNoise(shifted(1))).tables["data"]
    more, less = (t.column("x0_std").to_numpy().mean() for t in (table["data"], plain))
    assert more > 2 * less


# --- counting -------------------------------------------------------------------------------------


def estimator(method: Any, schema: Schema, rows: np.ndarray) -> UncertainEstimator:
    released = method.run(FakeEngine(schema, rows), SeededNoise(shifted(2)))
    return UncertainEstimator(schema, method.parameters(), released.settings, released.tables)


@pytest.mark.parametrize(
    "method",
    [
        Uncertain(k=5, levels="exact"),
        Uncertain(k=5, levels="exact", model="gaussian"),
        Uncertain(**QUICK),
        Uncertain(model="gaussian", **QUICK),
        Condensation(k=5),
    ],
    ids=["exact-uniform", "exact-gaussian", "safe-uniform", "safe-gaussian", "condensation"],
)
def test_counts_have_honest_intervals(method: Any) -> None:
    schema, rows = make_schema(), codes(800)
    asked = estimator(method, schema, rows)
    hits = 0
    clauses = {
        "x0 BETWEEN 20 AND 60": (rows[:, 0] >= 20) & (rows[:, 0] <= 60),
        "x0 >= 30 AND x1 < 50": (rows[:, 0] >= 30) & (rows[:, 1] < 50),
        "x0 < 40 OR x1 < 40": (rows < 40).any(axis=1),
        "NOT (x0 < 10 OR x0 > 90)": (rows[:, 0] >= 10) & (rows[:, 0] <= 90),
        "x0 < 50 AND x1 < 50 OR x0 >= 50 AND x1 >= 50": (rows[:, 0] < 50) == (rows[:, 1] < 50),
        "x0 * 2 < 50": rows[:, 0] * 2 < 50,
    }
    for where, truth in clauses.items():
        answer = asked.count(where)
        assert 0 <= answer.low <= answer.value <= answer.high <= 800
        hits += answer.low <= truth.sum() <= answer.high
    assert hits >= 5
    assert asked.count("TRUE").low == asked.count("TRUE").high == 800
    assert asked.count("FALSE").high == 0
    with pytest.raises(PredicateError):
        asked.count("salary > 3")


def test_probabilities_of_a_partition_add_up() -> None:
    for method in (Uncertain(**QUICK), Uncertain(k=5, levels="exact", model="gaussian")):
        asked = estimator(method, make_schema(), codes(300))
        parts = ("x0 < 20", "x0 >= 20 AND x0 < 21", "x0 >= 21")
        schema = asked.schema
        total = sum(
            asked.probabilities(parse(where, schema).formula, "spread").sum() for where in parts
        )
        assert total == pytest.approx(300, abs=1e-6)


def test_wrapped_probability_by_enumeration() -> None:
    z, n, w = np.array([1.0]), 9, 2
    inside = interval_probability(
        z, np.array([2.0 * w + 1]), 6.5, 8.5, model="uniform", domain=(-0.5, n - 0.5), wrap=True
    )
    assert inside[0] == pytest.approx(1 / 5)  # of -1, 0, 1, 2, 3 only -1, which is 8
    sigma = np.array([1.5])
    whole = interval_probability(
        z, sigma, -0.5, n - 0.5, model="gaussian", domain=(-0.5, n - 0.5), wrap=True
    )
    assert whole[0] == pytest.approx(1)


# --- learning and the baseline --------------------------------------------------------------------


def test_neighbors_agree_with_a_plain_computation() -> None:
    rng = np.random.default_rng(shifted(3))
    z, std = rng.normal(size=(80, 3)), rng.uniform(0.2, 2, (80, 3))
    labels = rng.integers(0, 3, 80)
    tests = rng.normal(size=(25, 3))
    logs = -np.log(std).sum(1) - 0.5 * (((tests[:, None] - z) / std) ** 2).sum(2)
    for q in (1, 7, 500):
        learner = UncertainNeighbors(q=q).fit(z, labels, std)
        expected = np.zeros((25, 3))
        for row, fit in zip(expected, logs, strict=True):
            best = np.argsort(-fit)[:q]
            np.add.at(row, labels[best], np.exp(fit[best] - fit.max()))
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(learner.predict_proba(tests), expected, atol=1e-12)


def test_points_outside_every_box_go_to_the_nearest_boxes() -> None:
    learner = UncertainNeighbors(q=1, model="uniform").fit(
        [[0.0], [10.0]], ["a", "b"], [[0.1], [1.0]]
    )
    assert learner.predict([[0.1], [4.0], [9.0]]).tolist() == ["a", "b", "b"]
    assert np.all(np.isfinite(learner.predict_proba([[4.0], [1e6]])))


def test_neighbors_refuse_what_cannot_be() -> None:
    with pytest.raises(ParameterError) as caught:
        UncertainNeighbors(q=0, model="box").fit([[0.0], [1.0]], [0, 1], [[1.0]])
    assert len(caught.value.problems) == 3


def test_condensation_keeps_the_moments() -> None:
    rng = np.random.default_rng(shifted(4))
    rows = np.clip(rng.multivariate_normal([50, 50], [[90, 60], [60, 90]], 2000), 0, 99)
    rows = rows.astype(np.int64)
    made = (
        Condensation(k=20).plan(make_schema()).condense(rows.astype(float), SeededNoise(shifted(1)))
    )
    np.testing.assert_allclose(made.mean(0), rows.mean(0), atol=0.5)
    np.testing.assert_allclose(np.cov(made.T), np.cov(rows.T), rtol=0.1)
    with pytest.raises(Refused):
        Condensation(k=20).plan(make_schema()).condense(
            rows[:5].astype(float), SeededNoise(shifted(1))
        )


# --- the interval -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 40), st.floats(0.01, 0.999), st.integers(2, 60) | st.none())
def test_gaussian_reach_holds_what_it_says(sigma: float, chance: float, n: int | None) -> None:
    reach = int(gaussian_noise_range(np.array([sigma]), chance, n)[0])
    far = 400 if n is None else n
    errors = np.arange(-far, far + 1)
    if n is not None:
        errors = np.arange(-((n - 1) // 2), n // 2 + 1)
    weights = np.exp(-(errors**2) / (2 * sigma**2))
    assert weights[np.abs(errors) <= reach].sum() / weights.sum() >= chance - 1e-12


@given(st.integers(0, 30), st.floats(0.05, 0.999), st.floats(0.001, 0.2))
def test_most_behind_is_the_largest_that_is_plausible(seen: int, chance: float, a: float) -> None:
    most = most_behind(seen, chance, a)
    assert most == seen or binom.cdf(seen, most, chance) > a * (1 - 1e-9)
    assert binom.cdf(seen, most + 1, chance) <= a * (1 + 1e-9)


@pytest.mark.parametrize("edges", ["wrap", "open"])
def test_possible_and_certain_by_enumeration(edges: Any) -> None:
    """Check every value within the noise range of each point, for clauses of all shapes."""
    schema = make_schema(high=19, sex=SEX)
    rows = np.column_stack((codes(60, high=19), np.arange(60) % 2))
    asked = estimator(Uncertain(k=3, eta=0.3, edges=edges, carry=["sex"]), schema, rows)
    table = asked.frame()
    grid = np.stack(np.meshgrid(np.arange(20), np.arange(20), indexing="ij"), -1).reshape(-1, 2)
    z = np.stack([table[name].to_numpy() for name in ("x0", "x1")], axis=1)
    reach = np.random.default_rng(shifted(3)).integers(0, 6, (60, 2))
    near = np.abs(grid[None] - (z if edges == "wrap" else z.clip(0, 19))[:, None])
    if edges == "wrap":
        near = np.minimum(near, 20 - near)
    within = (near <= reach[:, None]).all(axis=2)
    sex = np.asarray([["F", "M"].index(value) for value in table["sex"].to_pylist()])
    for where in (
        "x0 < 5 AND x1 >= 7",
        "x0 < 5 OR NOT x1 BETWEEN 3 AND 15",
        "x0 < x1",
        "x0 % 3 = 1 AND sex = 'F' OR x1 > 12",
        "sex = 'M' AND x0 <> 4",
    ):
        predicate = parse(where, schema)
        match = np.stack(
            [
                predicate.mask({"x0": grid[:, 0], "x1": grid[:, 1], "sex": np.full(400, s)})
                for s in sex
            ]
        )
        steps = {"x0": reach[:, 0], "x1": reach[:, 1]}
        possible, certain = asked._extent(predicate.formula, steps)
        assert np.array_equal(possible, (match & within).any(axis=1))
        assert np.array_equal(certain, (match | ~within).all(axis=1))
