"""Regions of near records: their size, uniform sampling, and noise under heavy tails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hushtable.engine import connect
from hushtable.errors import Refused
from hushtable.evaluation.risk.likelihood_linkage import likelihood_linkage
from hushtable.learn import UncertainNeighbors
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.methods.uncertain.uncertain import PARTS, RecordRegions, Uncertain, around, divided
from hushtable.privacy.guarantee import UncertainAnonymity
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.publish import publish
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted


def whole_numbers(n_columns: int, high: int) -> Schema:
    column = {"type": "integer", "low": 0, "high": high}
    return Schema.from_dict({"name": "t", "columns": {f"x{i}": column for i in range(n_columns)}})


def heavy_tails(n: int, n_columns: int, high: int, seed: int) -> np.ndarray:
    """Make firms with partly shared log-normal sizes, and with Pareto sizes."""
    rng = np.random.default_rng(shifted(seed))
    size = rng.normal(0, 1.3, (n, 1))
    values = np.exp(size + rng.normal(0, 0.8, (n, n_columns))) * 500
    values[:, ::4] = (rng.pareto(1.2, (n, len(range(0, n_columns, 4)))) + 1) * 300
    return np.asarray(np.minimum(np.rint(values), high))


@pytest.mark.parametrize("k", [5, 10])
@pytest.mark.parametrize(("n", "n_columns"), [(834, 13), (1500, 11)])
def test_heavy_tails_do_not_make_all_records_pure_noise(k: int, n: int, n_columns: int) -> None:
    """With one noise level for all, 700 and more records fit the median record of such tables."""
    schema = whole_numbers(n_columns, 1_000_000)
    values = heavy_tails(n, n_columns, 1_000_000, seed=4)
    method = Uncertain(k=k)
    assert method.guarantee(schema) == (UncertainAnonymity(k=k, eta=0),)
    found = likelihood_linkage(method, values, schema, SecureNoise())
    assert found.rank_quantiles["0"] >= k
    assert found.rank_quantiles["0.5"] <= 10 * k
    assert found.top1_rate <= 1 / k + 1e-9
    assert found.mean_posterior <= 1 / k + 1e-9
    perturbed = method.plan(schema).perturb(values, SecureNoise())
    assert perturbed.regions is not None
    # Half of the values have noise below a half of their column's deviation.
    widths = perturbed.regions.n_values / np.sqrt(12) / values.std(axis=0)
    assert np.median(widths) < 0.5


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(8, 90), most=st.integers(2, 8))
def test_a_region_has_as_many_as_each_of_its_records_asks_for(seed: int, n: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, rng.integers(1, 30), (n, rng.integers(1, 4)))
    k = rng.integers(2, most + 1, n)
    regions = divided(steps, k)
    assert sorted(np.concatenate(regions).tolist()) == list(range(n))
    for rows in regions:
        assert len(rows) >= k[rows].max()


def test_many_records_are_halved_and_still_have_company() -> None:
    rng = np.random.default_rng(shifted(2))
    steps, k = rng.integers(0, 10_000, (9000, 2)), np.where(np.arange(9000) % 50 == 0, 40, 5)
    regions = divided(steps, k)
    assert sorted(np.concatenate(regions).tolist()) == list(range(9000))
    assert all(len(rows) >= k[rows].max() for rows in regions)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_ends_hold_the_records_and_lie_on_a_coarse_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_values = rng.integers(1, 5000, 3)
    steps = rng.integers(0, n_values, (6, 3))
    first, last = around(steps, n_values)
    width = np.ptp(steps, axis=0)
    assert (first <= steps).all()
    assert (last >= steps).all()
    assert (first >= 0).all()
    assert (last < n_values).all()
    assert (last - first <= width * (1 + 2 / PARTS)).all()
    fine = width < 2 * PARTS
    assert (fine | (first % 2 == 0)).all()


def test_every_value_of_a_region_is_equally_likely_for_all_its_records() -> None:
    """A draw biased toward its record would reveal it; 4,000 draws detect 1/10, at 1e-6."""
    schema = whole_numbers(1, 99)
    values = np.array([[0.0], [1.0], [6.0], [7.0]])
    plan, noise = Uncertain(k=4).plan(schema), SecureNoise()
    drawn = np.stack([plan.perturb(values, noise).steps[:, 0] for _ in range(4000)])
    assert drawn.min() == 0
    assert drawn.max() == 7
    for record in range(4):
        assert chisquare(np.bincount(drawn[:, record], minlength=8)).pvalue > 1e-6 / 4


def test_the_draw_looks_at_regions_alone() -> None:
    regions = RecordRegions(np.zeros((3, 2), np.int64), np.array([[0, 9], [4, 9], [9, 9]]))
    one, two = (regions.draw(SeededNoise(shifted(5))) for _ in range(2))
    assert np.array_equal(one, two)
    assert (one[:, 0] <= [0, 4, 9]).all()


def test_groups_and_own_wishes() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "integer", "low": 0, "high": 99},
            "sex": {"type": "categorical", "values": ["F", "M"]},
            "own": {"type": "integer", "low": 2, "high": 30}}}
    )  # fmt: skip
    rows = np.array([[x, x % 2, 12 if x < 6 else 2] for x in range(60)], float)
    method = Uncertain(k=3, carry=["sex"], k_column="own")
    made = method.plan(schema).perturb(rows, SecureNoise())
    assert made.regions is not None
    levels = np.column_stack((rows[:, 1], made.regions.first, made.regions.last))
    _, level_of, sizes = np.unique(levels, axis=0, return_inverse=True, return_counts=True)
    assert (sizes[level_of.reshape(-1)] >= np.maximum(rows[:, 2], 3)).all()
    rows[:, 1] = np.arange(60) < 2
    with pytest.raises(Refused, match="2 records cannot have cover"):
        method.plan(schema).perturb(rows, SecureNoise())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), high=st.sampled_from([2, 5, 40, 100_000]), k=st.integers(2, 4))
def test_every_published_record_fits_as_many_originals(seed: int, high: int, k: int) -> None:
    """Count them, on tables with ties, duplicates, carried values and individual k."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(25, 60)), int(rng.integers(1, 4))
    few = rng.integers(0, high + 1, (3, d))
    x = np.where(
        rng.random((n, 1)) < 0.5, few[rng.integers(0, 3, n)], rng.integers(0, high + 1, (n, d))
    )
    carried, own = rng.integers(0, n, n) < rng.choice([4, n // 2]), rng.integers(0, 7, n)
    carried = carried.astype(np.int64)
    columns: dict[str, Any] = {
        **{f"x{i}": {"type": "integer", "low": 0, "high": high} for i in range(d)},
        "c": {"type": "integer", "low": 0, "high": 1},
        "own": {"type": "integer", "low": 0, "high": 9},
    }
    schema = Schema.from_dict({"name": "t", "columns": columns})
    data = pa.table({**{f"x{i}": x[:, i] for i in range(d)}, "c": carried, "own": own})
    method = Uncertain(k=k, carry=["c"], k_column="own")
    plan, engine = method.plan(schema), connect(data, schema)
    if any(0 < (carried == c).sum() < max(own[carried == c].max(), k) for c in range(2)):
        with pytest.raises(Refused, match="cannot have cover"):
            plan.run(engine, SecureNoise())
        return
    rows = plan.run(engine, SecureNoise()).tables["data"].to_pydict()
    from_, to = (np.array([rows[f"x{i}{end}"] for i in range(d)]).T for end in ("_from", "_to"))
    level = [*map(tuple, np.column_stack((from_, to, rows["c"])).tolist())]
    wishes = []
    for box in set(level):
        fits = (x >= box[:d]).all(axis=1) & (x <= box[d : 2 * d]).all(axis=1) & (carried == box[-1])
        assert fits.sum() >= level.count(box) >= k
        wishes += [level.count(box)] * level.count(box)
    # For any positions, records with the largest k are among the largest levels.
    assert (np.sort(wishes) >= np.sort(np.maximum(own, k))).all()
    assert (from_ >= 0).all()
    assert (to <= high).all()


def test_records_without_a_carried_value_are_a_group() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "integer", "low": 0, "high": 9},
            "c": {"type": "integer", "low": 0, "high": 3, "missing": "category"},
            "d": {"type": "categorical", "values": ["a"], "missing": "category"}}}
    )  # fmt: skip
    table = pa.table({"x": [*range(9)], "c": [None] * 5 + [1] * 4, "d": ["a"] * 6 + [None] * 3})
    method = Uncertain(k=3, carry=["c", "d"])
    with pytest.raises(Refused, match="1 records cannot have cover"):  # c is 1 and d is "a"
        method.plan(schema).run(connect(table, schema), SecureNoise())
    shown = method.plan(schema).run(connect(table.slice(0, 5), schema), SecureNoise())
    assert shown.tables["data"]["c"].null_count == 5


def test_only_even_noise_has_regions() -> None:
    assert Uncertain(k=3).edges == "region"
    assert Uncertain(k=3, model="gaussian").edges == "wrap"
    assert Uncertain(k=3, local=True).edges == "wrap"
    assert Uncertain(k=3, levels="exact").edges == "open"


def released(values: dict[str, Any], schema: Schema, method: Uncertain) -> UncertainEstimator:
    made = method.run(connect(pa.table(values), schema), SeededNoise(shifted(3)))
    return UncertainEstimator(schema, method.parameters(), made.settings, made.tables)


def test_counts_by_enumeration_and_intervals_that_always_hold() -> None:
    schema = whole_numbers(2, 39)
    rng = np.random.default_rng(shifted(6))
    values = {"x0": rng.integers(0, 40, 70), "x1": np.minimum(rng.geometric(0.2, 70), 39)}
    asked = released(values, schema, Uncertain(k=3))
    table = asked.table.to_pydict()
    for where in ("x0 < 13", "x0 >= 5 AND x1 < 4", "x0 < 5 OR NOT x1 BETWEEN 3 AND 15", "x0 < x1"):
        predicate = parse(where, schema)
        shares = []
        for row in range(70):
            box = np.meshgrid(
                *(
                    np.arange(table[f"{name}_from"][row], table[f"{name}_to"][row] + 1)
                    for name in ("x0", "x1")
                )
            )
            mask = predicate.mask({"x0": box[0].ravel(), "x1": box[1].ravel()})
            shares.append(np.broadcast_to(mask, box[0].size).mean())
        answer = asked.count(where)
        assert answer.low == sum(share == 1 for share in shares)
        assert answer.high == sum(share > 0 for share in shares)
        assert answer.value == pytest.approx(sum(shares))
        true = np.asarray(predicate.mask(values)).sum()
        assert answer.low <= true <= answer.high
    mean = RowFunction(factors={"x0": np.linspace(-1, 1, 40)}, powers={"x0": 1})
    with pytest.raises(Refused, match="has no mean"):
        asked.sums([mean])


def test_regions_classify_by_their_middle(tmp_path: Any) -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "integer", "low": 0, "high": 999},
            "kind": {"type": "categorical", "values": ["a", "b"], "role": "target"}}}
    )  # fmt: skip
    x = np.concatenate((np.arange(0, 100), np.arange(800, 900)))
    table = pa.table({"x": x, "kind": ["a"] * 100 + ["b"] * 100})
    release = publish(table, schema, Uncertain(k=5, carry=["kind"]), out=tmp_path / "release")
    learner = UncertainNeighbors.from_release(release)
    assert learner.predict([[50.0], [850.0]]).tolist() == ["a", "b"]
    inside = (learner._points - learner._noise_range <= 100) | (
        learner._points + learner._noise_range >= 799
    )
    assert inside.all()
