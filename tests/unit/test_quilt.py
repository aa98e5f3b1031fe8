"""quilt: parameters, buckets, the filter, the release."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, Refused, SealedError, TooLarge
from hushtable.methods.base import Released
from hushtable.methods.quilt import binning
from hushtable.methods.quilt.binning import (
    CountedDomain,
    merge_neighbors,
    merge_rare,
    values_of,
)
from hushtable.methods.quilt.budget import (
    BudgetShares,
    PrivateMeasurer,
    ScoredTable,
    as_share,
    schedule,
)
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.particles import PostprocessingRng
from hushtable.methods.quilt.quilt import Quilt
from hushtable.numeric import bucket_shares, project_to_simplex
from hushtable.privacy.accounting.run_account import SpendingLimit
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR, gaussian_share
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.epsilon import ErrorTarget, needed_epsilon
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding
from sealing import sealed
from seeds import shifted

FAST = {"particles": 2000}


def run(method: Quilt, table: pa.Table, schema: Schema, seed: int = 1) -> Released:
    noise = SeededNoise(shifted(seed))
    return method.run(connect(table, schema, noise=noise), noise)


def make_schema(columns: Mapping[str, Any], **more: Any) -> Schema:
    return Schema.from_dict({"name": "t", "columns": columns, **more})


# --- parameters -----------------------------------------------------------------------------------


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        Quilt(epsilon=-1, delta=1, particles=10, max_published="1/2")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4
    for name in ("epsilon", "delta", "particles", "max_published"):
        assert any(problem.startswith(name) for problem in caught.value.problems)


def test_the_promise_is_pure_without_delta() -> None:
    schema = sample_schema()
    assert Quilt(epsilon=1).guarantee(schema) == (
        PureDP(epsilon=Fraction(1), unit=schema.unit, neighbors="add-remove"),
    )
    (promise,) = Quilt(epsilon=1, delta="1e-9").guarantee(schema)
    assert isinstance(promise, ApproxDP)
    assert promise.delta == Fraction(1, 10**9)


def test_unknown_target_and_nodes_are_refused() -> None:
    with pytest.raises(ParameterError, match="target 'income'"):
        Quilt(epsilon=1, target="income").guarantee(sample_schema())
    nodes = make_schema(
        {"a": {"type": "integer", "low": 0, "high": 1}},
        unit={"kind": "node"},
    )
    with pytest.raises(ParameterError, match="unit is node"):
        Quilt(epsilon=1).guarantee(nodes)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_plan_is_run_many_times(delta: str) -> None:
    # Each run has its own budget filter; with one per plan, the second run would be refused.
    schema = sample_schema()
    plan = Quilt(epsilon=1, delta=delta, **FAST).plan(schema)
    first, again, other = (
        plan.run(connect(sample(), schema, noise=SeededNoise(seed)), SeededNoise(seed))
        for seed in (1, 1, 2)
    )
    assert again.settings == first.settings
    assert again.tables["data"].equals(first.tables["data"])
    assert not other.tables["data"].equals(first.tables["data"])
    assert plan == Quilt(epsilon=1, delta=delta, **FAST).plan(schema)


# --- too many values ------------------------------------------------------------------------------


def test_columns_with_too_many_values_are_binned_or_refused() -> None:
    many = [str(i) for i in range(10_001)]
    tree = {"all": {"even": many[::2], "odd": many[1::2]}}
    schema = make_schema(
        {
            "weight": {"type": "integer", "low": 0, "high": 1_999_999},
            "dose": {"type": "number", "low": 0, "high": 5000, "step": 0.25},
            "place": {"type": "categorical", "values": many, "taxonomy": tree},
        }
    )
    weight, dose, place = values_of(schema)
    assert weight.first_codes[:4].tolist() == [0, 1, 2, 4]  # a separate bin for zero pays off
    assert weight.first_codes[-1] == 1_999_999
    assert weight.size <= binning.N_BINS
    assert dose.recoding is None
    assert place.rule == 1
    assert place.size == 2
    lines = Quilt(epsilon=1).forecast(schema, 10_000).lines
    assert sum("too many values" in name for name in lines) == 1
    assert "weight, dose" in lines.values()
    bare = make_schema({"place": {"type": "categorical", "values": many}})
    with pytest.raises(TooLarge, match=r"'place' has 10,001 values.*taxonomy"):
        Quilt(epsilon=1).guarantee(bare)


def test_binned_columns_are_published_in_values_of_the_schema() -> None:
    many = [f"p{i}" for i in range(10_001)]
    schema = make_schema(
        {
            "weight": {"type": "integer", "low": 5, "high": 1_000_004, "missing": "category"},
            "place": {
                "type": "categorical",
                "values": many,
                "taxonomy": {"all": {"low": many[:6000], "high": many[6000:]}},
            },
        }
    )
    draw = np.random.default_rng(shifted(0))
    weight = draw.integers(5, 500_000, 5000)
    table = pa.table(
        {
            "weight": pa.array(weight, mask=draw.random(5000) < 0.2),
            "place": [many[i] for i in draw.integers(0, 3000, 5000)],
        }
    )
    made = run(Quilt(epsilon=2, delta="1e-6", **FAST), table, schema).tables["data"]
    found = made["weight"].drop_null().to_numpy()
    assert abs(made["weight"].null_count / made.num_rows - 0.2) < 0.05
    assert found.min() >= 5
    assert np.mean(found < 500_000) > 0.9
    assert len(np.unique(found)) > 1000  # spread inside the bins, not on their edges
    low = np.mean([int(name[1:]) < 6000 for name in made["place"].to_pylist()])
    assert low > 0.9


# --- buckets --------------------------------------------------------------------------------------

noisy_counts = st.lists(st.integers(-50, 400), min_size=1, max_size=40).map(
    lambda counts: np.array(counts, np.float64)
)


@given(noisy_counts, st.integers(1, 12))
def test_neighbors_are_merged_into_heavy_intervals(counts: Any, most: int) -> None:
    buckets = merge_neighbors(counts, 60.0, most)
    steps = np.diff(buckets)
    assert buckets[0] == 0
    assert set(steps.tolist()) <= {0, 1}
    sums, widths = np.bincount(buckets, counts), np.bincount(buckets)
    assert len(sums) <= most
    if len(sums) < most:
        heavy = sums >= 60 * np.sqrt(widths) - 1e-9
        for place in np.flatnonzero(~heavy):  # only light values are between heavy ones
            for side in {max(place - 1, 0), min(place + 1, len(sums) - 1)} - {place}:
                assert heavy[side]


def test_a_heavy_value_among_empty_ones_has_its_own_bucket() -> None:
    counts = np.zeros(500)
    counts[[0, 250]] = 5000, 900
    buckets = merge_neighbors(counts, 100.0, 32)
    assert buckets[0] != buckets[250] != buckets[400]
    assert (buckets == buckets[250]).sum() == 1
    assert buckets.max() == 2


@given(noisy_counts, st.integers(2, 12))
def test_rare_values_share_a_bucket(counts: Any, most: int) -> None:
    buckets = merge_rare(counts, 60.0, most)
    widths = np.bincount(buckets)
    assert (widths > 0).all()
    assert len(widths) <= most
    if len(widths) < most:  # heavy values are separate, all others are merged
        assert (widths[buckets][counts >= 60] == 1).all()
        assert len(set(buckets[counts < 60].tolist())) <= 1


def test_a_taxonomy_keeps_rare_values_near_their_relatives() -> None:
    tree = {"World": {"Europe": ["FR", "DE", "LU", "MT"], "America": ["US", "AG", "BB"]}}
    column = {"type": "categorical", "taxonomy": tree}
    schema = make_schema(
        {"country": {**column, "values": ["FR", "DE", "LU", "MT", "US", "AG", "BB"]}}
    )
    (values,) = values_of(schema)
    #                                   FR   DE  LU  MT   US  AG BB
    buckets = values.buckets(np.array([900, 800, 35, 38, 950, 3, 5]), 20.0)
    fr, de, lu, mt, us, ag, bb = buckets.tolist()
    assert len({fr, de, us}) == 3
    assert lu == mt  # merged they are heavy, and stay in Europe
    assert lu not in {fr, de, us}
    assert ag == bb
    assert ag not in {fr, de, us, lu}


def test_a_target_keeps_its_values() -> None:
    schema = make_schema({"x": {"type": "categorical", "values": ["a", "b", "c"]}})
    (values,) = values_of(schema)
    noisy = np.array([500, -4, 2])
    assert values.buckets(noisy, 10.0).tolist() == [0, 1, 1]
    assert values.buckets(noisy, 10.0, is_target=True).tolist() == [0, 1, 2]


KINDS: list[dict[str, Any]] = [
    {"type": "integer", "low": 3, "high": 40},
    {"type": "integer", "low": 0, "high": 3_000, "missing": "category"},
    {"type": "number", "low": 0, "high": 10, "step": 0.25, "missing": "category"},
    {"type": "categorical", "values": [f"v{i}" for i in range(70)]},
    {"type": "categorical", "values": ["a", "b", "c"], "missing": "category"},
    {"type": "categorical", "values": ["l", "m", "h"], "ordered": True},
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["type"])
def test_recodings_and_drawn_codes_agree_with_the_buckets(kind: dict[str, Any]) -> None:
    schema = make_schema({"x": kind})
    (values,) = values_of(schema)
    draw = np.random.default_rng(shifted(4))
    for _ in range(5):
        noisy = draw.integers(-20, 60, values.size) * draw.integers(0, 3, values.size)
        buckets = values.buckets(noisy, 20.0)
        assert len(buckets) == values.size
        assert buckets.max() < binning.MAX_BUCKETS
        codes = np.arange(values.column.size)
        counted = codes if values.recoding is None else values.recoding.apply(codes)
        recoding = values.bucket_recoding(buckets)
        found = codes if recoding is None else recoding.apply(codes)
        assert np.array_equal(found, buckets[counted])
        of_rows = draw.integers(0, buckets.max() + 1, 400)
        drawn = values.codes(of_rows, buckets, np.maximum(noisy, 0) / 100.0, PostprocessingRng(1))
        assert np.array_equal(found[drawn], of_rows)


def test_counts_become_a_distribution() -> None:
    found = project_to_simplex([5.0, -3.0, 0.0, 1.0], 7.0)
    assert found.sum() == pytest.approx(7)
    assert found.min() == 0
    assert project_to_simplex([-5.0, -9.0], 3.0).sum() == pytest.approx(3)
    assert project_to_simplex([-5.0, 9.0], 0.0).tolist() == [0, 0]


def test_noise_of_many_empty_values_does_not_add_up() -> None:
    noise = np.random.default_rng(shifted(0)).normal(size=1000) * 20
    counts = np.concatenate([[5000, 4000], noise]).round().astype(np.int64)
    buckets = merge_neighbors(counts.astype(np.float64), 75.0, 32)
    shares = bucket_shares(counts, buckets, 9000.0)
    assert shares.sum() == pytest.approx(1)
    # About 0.7 if each value were clipped at 0 separately; the truth is 0, the noise of the sum
    # 20 * sqrt(1000) / 9000 = 0.07.
    assert shares[2:].sum() < 0.25
    assert (shares >= 0).all()


# --- the filter -----------------------------------------------------------------------------------

fractions = st.fractions(Fraction(1, 10**6), 1)


@settings(max_examples=200)
@given(share=fractions, total=st.fractions(Fraction(1, 10**6), 20), reach=st.integers(1, 9))
def test_noise_never_costs_more_than_its_share(share: Any, total: Any, reach: int) -> None:
    gaussian = BudgetShares(total=total, accounting="concentrated", rows_per_unit=reach)
    assert Fraction(reach**2) / (2 * gaussian.count_noise(share).parameter) <= share * total
    assert gaussian.choice_epsilon(share) ** 2 / 8 <= share * total
    rounded = BudgetShares(total=total, accounting="gaussian", rows_per_unit=reach)
    assert Fraction(reach**2) / (2 * rounded.count_noise(share).parameter) <= share * total
    assert rounded.choice_epsilon(share) ** 2 * CHOICE_FACTOR / 2 <= share * total
    laplace = BudgetShares(total=total, accounting="pure", rows_per_unit=reach)
    assert Fraction(reach) / laplace.count_noise(share).parameter <= share * total
    assert laplace.choice_epsilon(share) <= share * total


def test_rounding_costs_little() -> None:
    budget = BudgetShares(total=Fraction(1, 100), accounting="concentrated", rows_per_unit=1)
    share = Fraction(1, 50)
    used = 1 / (2 * budget.count_noise(share).parameter)
    assert used > Fraction(999, 1000) * share / 100
    assert budget.choice_epsilon(share) ** 2 / 8 > Fraction(999, 1000) * share / 100


def test_the_budget_adds_shares_by_step_and_refuses_empty_ones() -> None:
    budget = BudgetShares(total=Fraction(1), accounting="pure", rows_per_unit=1)
    budget.spend("a", Fraction(1, 3))
    budget.spend("b", Fraction(1, 3))
    budget.spend("b", Fraction(1, 3))
    assert budget.left == 0
    for share in (Fraction(0), Fraction(-1)):
        with pytest.raises(Refused, match="too small"):
            budget.spend("c", share)
    assert budget.spent == {"a": Fraction(1, 3), "b": Fraction(2, 3)}


@given(st.floats(0, 1, allow_nan=False))
def test_shares_are_rounded_down(value: float) -> None:
    assert 0 <= as_share(value) <= Fraction(value)


class NoNoise(SeededNoise):
    """Noise source that fails when anything is drawn."""

    def _words(self, n: int) -> Any:
        raise AssertionError("noise was drawn")


def test_the_account_refuses_before_counts_are_opened() -> None:
    table, schema = sample(), sample_schema()
    budget = BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=1)
    little = SpendingLimit(Fraction(1), Fraction(1, 10**6), rho=Fraction(1, 10**9))
    meter = PrivateMeasurer(
        sealed(connect(table, schema, noise=SeededNoise(shifted(0))), little), NoNoise(0), budget
    )
    meter.read([(0,), (1,)], {})
    candidate = ScoredTable((1,), np.zeros(2, np.int64), 0, 1)
    for ask in (
        lambda: meter.row_count(Fraction(1, 100)),
        lambda: meter.measure("one", (0,), Fraction(1, 100)),
        lambda: meter.choose("choice", [candidate], k=1, share=Fraction(1, 100)),
    ):
        with pytest.raises(SealedError, match="would raise the cost"):
            ask()


def test_expected_counts_are_whole() -> None:
    with pytest.raises(TypeError, match="int64"):
        ScoredTable((0,), np.zeros(2), 0, 1)  # type: ignore[arg-type]


def test_the_schedule_is_a_division_of_the_budget() -> None:
    for pure in (False, True):
        for n_rows in (0, 50, 1000, 30_000, 10**7):
            for n_columns in (1, 2, 5, 30, 100):
                for total, size in product((1e-5, 0.01, 1.0, 10.0), (1, 2, 6, 1000)):
                    plan = schedule(
                        n_rows=n_rows,
                        sizes=[size] * n_columns,
                        total=total,
                        pure=pure,
                        rows_per_unit=1,
                    )
                    assert min(plan.one_ways, 1 - plan.choices) >= 0
                    assert plan.one_ways + plan.forest + plan.choices <= 1.06
                    if n_columns > 1:
                        assert 1 <= plan.n_edges <= n_columns - 1
                        assert plan.choice > 0


def test_small_tables_count_as_more_rows() -> None:
    def planned(n_rows: int, sizes: list[int], pure: bool) -> Any:
        plan = schedule(n_rows=n_rows, sizes=sizes, total=0.2, pure=pure, rows_per_unit=1)
        return plan.one_ways, plan.forest, plan.choices, plan.n_edges, plan.prefers_target

    for pure in (False, True):
        # 2 values instead of 6: nine times the rows. More than 6, on average of the roots: none.
        assert planned(1000, [2] * 5, pure) == pytest.approx(planned(9000, [6] * 5, pure))
        assert planned(1000, [3] * 5, pure) == pytest.approx(planned(4000, [6] * 5, pure))
        assert planned(1000, [50] * 5, pure) == pytest.approx(planned(1000, [6] * 5, pure))
        assert planned(1000, [900, 2, 2, 2, 2], pure) == pytest.approx(planned(1000, [6] * 5, pure))
        assert planned(1000, [2] * 5, pure) != pytest.approx(planned(1000, [6] * 5, pure))


def test_the_number_of_tables_is_limited_by_those_that_exist() -> None:
    def tables(n_columns: int, size: int, **more: Any) -> int:
        given = {"n_rows": 30_000, "total": 0.01, "pure": False, "rows_per_unit": 1, **more}
        rich = schedule(sizes=[size] * n_columns, **given)
        return rich.n_rounds * rich.n_picks

    # Of 10 pairs 8, of 78 pairs 64; more with resolutions, or with the triples of a target.
    assert [tables(n, 2) for n in (5, 13, 23)] == [8, 64, 200]
    assert (tables(5, 9), tables(5, 6)) == (24, 16)
    assert tables(5, 6, has_target=True, n_rows=10**6) == 30
    # If triples would displace pairs, as many as without a target.
    assert tables(5, 6, has_target=True) == 16
    # Tables of columns with many values do not pay off.
    assert tables(23, 6) < 100
    # The time of a fit grows with the number of tables.
    assert tables(60, 2) == tables(100, 2) == 8 * 32


# --- the target -----------------------------------------------------------------------------------


def test_a_target_is_preferred_where_pairs_are_chosen_or_noise_is_small() -> None:
    def prefers(n_rows: int, n_columns: int, size: int, *, pure: bool = False) -> bool:
        given = {"sizes": [size] * n_columns, "total": 1.0 if pure else 0.01, "rows_per_unit": 1}
        assert not schedule(n_rows=n_rows, pure=pure, **given).prefers_target
        return schedule(n_rows=n_rows, pure=pure, has_target=True, **given).prefers_target

    rows = (100, 30_000, 10**6)
    # Many columns with many values: from 30,000 rows on some pairs pay off, never most.
    assert [prefers(n, 13, 9) for n in rows] == [False, True, True]
    # With two values, most pairs pay off long before triples do.
    assert [prefers(n, 23, 2) for n in rows] == [False, False, True]
    assert [prefers(n, 23, 2, pure=True) for n in rows] == [False, True, True]


Offer = tuple[list[tuple[int, ...]], list[int], bool]  # groups, weights, whether it may stop


def offers(monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> list[Offer]:
    """Run on independent columns, and record the candidates of each selection."""
    columns = {name: {"type": "integer", "low": 0, "high": 3} for name in "abcd"}
    schema = make_schema({**columns, "t": {**columns["a"], "role": "target"}})
    every = np.indices((4,) * 5).reshape(5, -1).repeat(3, axis=1)
    table = pa.table(dict(zip(schema.attributes, every, strict=True)))
    seen: list[Offer] = []
    choose = PrivateMeasurer.choose

    def noted(self: PrivateMeasurer, step: str, candidates: Any, **how: Any) -> list[int]:
        offered = [candidates[place] for place in how.get("offered", range(len(candidates)))]
        groups, weights = [c.group for c in offered], [c.weight for c in offered]
        seen.append((groups, weights, how.get("stop") is not None))
        return choose(self, step, candidates, **how)

    monkeypatch.setattr(PrivateMeasurer, "choose", noted)
    # Candidates depend on noisy counts; here they must follow from the counts alone.
    for drawn in ("discrete_laplace", "discrete_gaussian", "rounded_gaussian"):
        monkeypatch.setattr(SeededNoise, drawn, lambda self, _, size: np.zeros(size, np.int64))
    run(Quilt(**parameters, **FAST), table, schema)
    return seen


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_first_pair_is_the_targets(monkeypatch: pytest.MonkeyPatch, delta: str) -> None:
    first, second, *_ = offers(monkeypatch, epsilon="1/20", delta=delta, target="t")
    assert first == ([(0, 4), (1, 4), (2, 4), (3, 4)], [10] * 4, False)
    groups, weights, may_stop = second
    assert may_stop
    assert set(weights) == {10}
    assert (0, 1) in groups or (1, 2) in groups


def test_a_target_is_preferred_where_the_budget_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = offers(monkeypatch, epsilon=8, delta="1e-6", target="t")
    assert made[0][1] == [15] * 4  # equal weights: the sensitivity of this choice is not larger
    assert {10, 13, 15} == {weight for _, weights, _ in made for weight in weights}
    assert any(len(group) == 3 for groups, _, _ in made for group in groups)


def test_triples_wait_for_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = offers(monkeypatch, epsilon=8, delta="1e-6", target="t")
    # The forest may stop, except at its first selection.
    rounds = [groups for groups, _, may_stop in made[1:] if not may_stop]
    assert {len(group) for group in rounds[0]} == {2}
    assert {len(group) for group in rounds[-1]} == {2, 3}


def exclusive_or(target: str | None) -> Released:
    """Publish a target that depends on two columns jointly and on neither alone."""
    names = "abcdefgh"  # enough for eight rounds
    schema = make_schema({n: {"type": "integer", "low": 0, "high": 1} for n in f"{names}t"})
    columns = np.random.default_rng(shifted(3)).integers(0, 2, (len(names), 4000))
    table = pa.table({**dict(zip(names, columns, strict=True)), "t": columns[0] ^ columns[1]})
    return run(Quilt(epsilon=8, delta="1e-6", target=target, **FAST), table, schema)


def test_triples_find_dependence_that_pairs_do_not_show() -> None:
    # No pair of these columns is dependent, only the triple.
    for target in ("t", None):
        rows = exclusive_or(target).tables["data"]
        kept = np.mean((rows["a"].to_numpy() ^ rows["b"].to_numpy()) == rows["t"].to_numpy())
        assert kept > 0.9


@pytest.mark.parametrize("n_causes", [2, 3])
def test_a_larger_budget_loses_no_interaction(n_causes: int) -> None:
    # The share of rows that follow the rule must not fall as the budget grows, beyond noise.
    draw = np.random.default_rng(shifted(11))
    columns = draw.integers(0, 2, (6, 20_000))
    columns[5] = columns[:n_causes].sum(axis=0) % 2 ^ (draw.random(20_000) < 0.1)
    schema = make_schema({n: {"type": "integer", "low": 0, "high": 1} for n in "abcdef"})
    table = pa.table(dict(zip("abcdef", columns, strict=True)))
    for target in (None, "f"):
        kept = []
        for epsilon in ("1/2", "1", "2", "5"):
            method = Quilt(epsilon=epsilon, delta="1e-9", target=target, particles=10_000)
            rows = run(method, table, schema).tables["data"].to_pandas()
            kept.append(np.mean(rows.iloc[:, :n_causes].sum(axis=1) % 2 == rows["f"]))
        assert min(kept) > 0.84
        assert min(np.diff(kept)) > -0.03


def test_a_weak_product_of_numbers_is_kept() -> None:
    # The product explains 4% of the variance. In 8 cells it stands out, in 64 noise hides it:
    # rows then kept a fifth of its coefficient.
    draw = np.random.default_rng(shifted(14))
    x, z, rest = draw.normal(size=(3, 40_000))
    named = {"x": x, "z": z, "y": (x + z + x * z) / 5 + rest}
    columns = {n: np.clip(10 * v + 50, 0, 99).astype(np.int64) for n, v in named.items()}
    columns |= {n: draw.integers(0, 10, 40_000) for n in "abcd"}
    schema = make_schema(
        {n: {"type": "integer", "low": 0, "high": 99 if n in "xyz" else 9} for n in columns}
    )
    rows = run(Quilt(epsilon=1, delta="1e-9", particles=20_000), pa.table(columns), schema)
    slopes = []
    for table in (columns, rows.tables["data"].to_pandas()):
        x, z, y = (np.asarray(table[name], float) - columns[name].mean() for name in "xzy")
        design = np.column_stack([np.ones(len(x)), x, z, x * z])
        slopes.append(np.linalg.lstsq(design, y, rcond=None)[0][3])
    assert 0.7 < slopes[1] / slopes[0] < 1.25


def test_nothing_is_selected_where_pairs_miss_nothing() -> None:
    draw = np.random.default_rng(shifted(12))
    a, b = draw.integers(0, 4, (2, 5_000))
    table = pa.table({"a": a, "b": (a + b // 2) % 4, "c": b, "d": draw.integers(0, 4, 5_000)})
    schema = make_schema({n: {"type": "integer", "low": 0, "high": 3} for n in "abcd"})
    independent = pa.table({n: draw.integers(0, 4, 5_000) for n in "abcd"})
    made = [run(Quilt(epsilon=4, delta="1e-6", **FAST), t, schema) for t in (table, independent)]
    several = [
        {tuple(t["columns"]) for t in m.settings["tables"] if len(t["columns"]) > 2} for m in made
    ]
    assert ("a", "b", "c") in several[0]  # b depends on a and c jointly
    assert not several[1]


def test_rounds_that_change_little_admit_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each round then takes twice the previous share, so the last round comes early.
    monkeypatch.setattr("hushtable.methods.quilt.fit._in_vain", lambda picked, *_: picked)
    first, *later = exclusive_or("t").settings["rounds"]
    assert {len(group) for group in first["selected"]} == {2}
    assert 3 in {len(group) for made in later for group in made["selected"]}


def test_rules_are_structural_zeros() -> None:
    # Children have no job, and nobody's second visit is before the first.
    draw = np.random.default_rng(shifted(13))
    age = draw.integers(0, 90, 8_000)
    job = np.where(age < 15, 0, draw.integers(0, 6, 8_000) * (age < 70))
    first = draw.integers(0, 40, 8_000)
    table = pa.table(
        {"age": age, "job": job, "first": first, "second": first + draw.integers(0, 20, 8_000)}
    )
    described = {
        name: {"type": "integer", "low": 0, "high": high}
        for name, high in (("age", 89), ("job", 5), ("first", 39), ("second", 58))
    }
    broken, missed = np.zeros((2, 2))
    rules = ("age >= 15 OR job = 0", "second >= first")
    for has_rules, seed in product((0, 1), range(3)):
        schema = make_schema(described).model_copy(update={"rules": rules[: 2 * has_rules]})
        method = Quilt(epsilon=1, delta="1e-6", particles=10_000)
        rows = run(method, table, schema, seed=seed).tables["data"].to_pandas()
        breaks = (rows.age < 15) & (rows.job > 0) | (rows["second"] < rows["first"])
        broken[has_rules] += breaks.sum() / 3
        ours, theirs = (
            [np.histogram2d(t[x], t[y], bins=12, density=True)[0] for x, y in PAIRS_OF_RULES]
            for t in (rows, table.to_pandas())
        )
        missed[has_rules] += sum(
            np.abs(a / a.sum() - b / b.sum()).sum() for a, b in zip(ours, theirs, strict=True)
        )
    # The few that are left, in buckets with hardly any possible value, are replaced on release.
    assert broken[1] < 10
    assert broken[0] > 100
    assert missed[1] < missed[0]


PAIRS_OF_RULES = (("age", "job"), ("first", "second"))


def test_a_role_is_not_enough_to_be_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    made = offers(monkeypatch, epsilon=8, delta="1e-6")
    groups, _, may_stop = made[0]
    assert may_stop
    assert len(groups) == 10
    assert {weight for _, weights, _ in made for weight in weights} == {10}


def test_a_target_of_one_value_leaves_the_others_free() -> None:
    schema = make_schema(
        {
            "a": {"type": "integer", "low": 0, "high": 3},
            "b": {"type": "integer", "low": 0, "high": 3},
            "t": {"type": "integer", "low": 1, "high": 1},
        }
    )
    a = np.arange(4000) % 4
    made = run(
        Quilt(epsilon=2, delta="1e-6", target="t", **FAST),
        pa.table({"a": a, "b": a, "t": np.ones(4000, np.int64)}),
        schema,
    )
    assert ["a", "b"] in [table["columns"] for table in made.settings["tables"]]


# --- the release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_error_of_a_count_is_known_before(delta: str) -> None:
    public = Schema.from_dict({**sample_schema().to_dict(), "rows": sample().num_rows})
    method = Quilt(epsilon=1, delta=delta, **FAST)
    said = method.count_error(public, rows=None, share=0.1)
    tables = run(method, sample(), public).settings["tables"][:5]
    sums = [table["std"] * max(1, round(table["shape"][0] / 10)) ** 0.5 for table in tables]
    assert said.std == pytest.approx(max(sums), rel=1e-3)
    assert 1.9 < said.half_width / said.std < 2.3
    double = Quilt(epsilon=2, delta=delta).count_error(public, rows=None, share=0.1)
    assert double.half_width < said.half_width
    with pytest.raises(Refused, match="number of rows"):
        method.count_error(sample_schema(), rows=None, share=0.1)


def test_an_epsilon_is_found_for_an_error() -> None:
    method = Quilt(epsilon=1, delta="1e-9")
    want = ErrorTarget.parse("count error 50 at 10%")
    epsilon, error = needed_epsilon(method, sample_schema(), want, rows=12_000)
    assert 45 < error.half_width <= 50
    assert "one column" in error.assumes
    assert (
        method.at_epsilon(sample_schema(), epsilon).count_error(
            sample_schema(), rows=12_000, share=0.1
        )
        == error
    )


class CountingEngine:
    """Record the queries."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.asked = engine, []

    @property
    def schema(self) -> Schema:
        return self._engine.schema

    def marginals(
        self, groups: Sequence[Sequence[str]], *, recode: Mapping[str, Recoding] | None = None
    ) -> Any:
        self.asked.append((len(groups), sorted(recode or {})))
        return self._engine.marginals(groups, recode=recode)


def test_counts_are_read_three_times() -> None:
    engine = CountingEngine(connect(sample(), sample_schema(), noise=SeededNoise(shifted(0))))
    Quilt(epsilon=40, delta="1e-6", target="diagnosis", **FAST).run(engine, SeededNoise(shifted(1)))
    assert [n for n, _ in engine.asked] == [5, 10 + 6, 10 + 5]  # triples and more come last
    assert engine.asked[0][1] == []
    assert "age" in engine.asked[1][1]


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_nearly_all_is_spent_and_never_more(delta: str) -> None:
    for epsilon in ("1/20", "1", "8"):
        made = run(Quilt(epsilon=epsilon, delta=delta, **FAST), sample(), sample_schema())
        spent = sum(Fraction(share) for share in made.settings["budget_shares"].values())
        assert Fraction(99, 100) < spent <= 1


def test_the_release_is_what_its_documentation_says() -> None:
    schema = sample_schema()
    made = run(Quilt(epsilon=1, delta="1e-6", **FAST), sample(), schema)
    found = json.loads(json.dumps(made.settings))
    names, sizes = list(schema.attributes), schema.domain.sizes
    assert made.tables["data"].column_names == names
    assert made.tables["data"].num_rows == round(found["total"])
    measured, factors = made.tables["measured"], made.tables["factors"]
    lengths = np.bincount(measured["table"].to_numpy())
    assert [math.prod(table["shape"]) for table in found["tables"]] == lengths.tolist()
    assert [table["columns"] for table in found["tables"][: len(names)]] == [[n] for n in names]
    assert [table["level"] for table in found["tables"]] == ["values"] * 5 + ["buckets"] * (
        len(lengths) - 5
    )
    buckets = made.tables["buckets"]
    assert np.bincount(buckets["column"].to_numpy()).tolist() == [sizes[n] for n in names]
    for position, name in enumerate(names):
        mine = buckets["column"].to_numpy() == position
        n_buckets = int(buckets["bucket"].to_numpy()[mine].max()) + 1
        assert n_buckets == found["columns"][name]["n_buckets"]
        assert buckets["share"].to_numpy()[mine].sum() == pytest.approx(1)
    groups = {
        (tuple(table["columns"]), json.dumps(table["cells"]))
        for place, table in enumerate(found["tables"])
    }
    assert len(np.unique(factors["table"].to_numpy())) == len(groups)
    assert len(found["fit"]["fit_errors"]) == len(found["fit"]["residuals"]) == len(groups)
    assert made.tables["candidates"].num_rows == found["rounds"][-1]["n_candidates"]


def test_a_public_number_of_rows_is_free_and_kept() -> None:
    public = Schema.from_dict({**sample_schema().to_dict(), "rows": sample().num_rows})
    method = Quilt(epsilon=1, delta="1e-6", **FAST)
    made = run(method, sample(), public)
    assert made.tables["data"].num_rows == sample().num_rows
    assert "number of rows" not in made.settings["budget_shares"]
    assert "number of rows" not in method.forecast(public).split
    assert made.settings["total_std"] == 0


def test_persons_cost_their_rows() -> None:
    columns = {
        "who": {"role": "identifier"},
        "a": {"type": "integer", "low": 0, "high": 2},
        "b": {"type": "categorical", "values": ["x", "y"]},
    }
    draw = np.random.default_rng(shifted(0))
    table = pa.table(
        {
            "who": [f"p{i}" for i in draw.integers(0, 500, 2000)],
            "a": draw.integers(0, 3, 2000),
            "b": [("x", "y")[i] for i in draw.integers(0, 2, 2000)],
        }
    )
    unit = {"kind": "person", "column": "who", "max_rows": 3}
    method = Quilt(epsilon=1, delta="1e-6", **FAST)
    # The number of rows is public, but not the number of counted rows.
    made = run(method, table, make_schema(columns, unit=unit, rows=2000))
    assert made.settings["rows_per_unit"] == 3
    assert "number of rows" in made.settings["budget_shares"]
    share = Fraction(made.settings["budget_shares"]["tables of one column"])
    total = gaussian_share(Fraction(1), Fraction(1, 10**6)) ** 2 / 2
    cost = sum(
        Fraction(9) / (2 * Fraction(table["parameter"])) for table in made.settings["tables"][:2]
    )
    assert Fraction(99, 100) * share * total < cost <= share * total


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_small_shapes(delta: str) -> None:
    one = make_schema({"a": {"type": "integer", "low": 0, "high": 3}})
    constant = make_schema(
        {
            "a": {"type": "integer", "low": 1, "high": 1},
            "b": {"type": "categorical", "values": ["x"]},
        }
    )
    two = make_schema(
        {
            "a": {"type": "integer", "low": 0, "high": 3},
            "b": {"type": "categorical", "values": ["x", "y"], "missing": "category"},
        }
    )
    rows = {"a": [1, 1, 2, 3] * 100, "b": ["x"] * 400}
    method = Quilt(epsilon=2, delta=delta, **FAST)
    for schema, table in (
        (one, pa.table({"a": rows["a"]})),
        (constant, pa.table({"a": [1] * 400, "b": rows["b"]})),
        (two, pa.table(rows)),
        (two, pa.table(rows).slice(0, 0)),
    ):
        made = run(method, table, schema)
        assert made.tables["data"].column_names == list(schema.attributes)
        assert abs(made.tables["data"].num_rows - table.num_rows) < 200
        method.forecast(schema, 400)


def test_fewer_rows_represent_more() -> None:
    made = run(Quilt(epsilon=1, delta="1e-6", max_published=500, **FAST), sample(), sample_schema())
    assert made.tables["data"].num_rows == 500
    assert any("represents 2" in note for note in made.settings["notes"])


def test_a_failed_fit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(Quilt(epsilon=4, delta="1e-6", particles=20_000), sample(), sample_schema())
    assert not any("did not converge" in note for note in made.settings["notes"])
    monkeypatch.setattr(LogLinearModel, "fit", lambda self, max_sweeps=0: None)
    monkeypatch.setattr(LogLinearModel, "sweep", lambda self: (0.0, 0.0))
    made = run(Quilt(epsilon=4, delta="1e-6", particles=20_000), sample(), sample_schema())
    assert any("did not converge" in note for note in made.settings["notes"])


def test_dependence_survives() -> None:
    # Two columns that determine each other, and one that does not matter.
    draw = np.random.default_rng(shifted(2))
    a = draw.integers(0, 8, 20_000)
    table = pa.table({"a": a, "b": (a * 3 + 1) % 8, "c": draw.integers(0, 8, 20_000)})
    schema = make_schema({name: {"type": "integer", "low": 0, "high": 7} for name in "abc"})
    made = run(Quilt(epsilon=1, delta="1e-6", particles=10_000), table, schema).tables["data"]
    a, b = made["a"].to_numpy(), made["b"].to_numpy()
    assert np.mean(b == (a * 3 + 1) % 8) > 0.95


def test_secure_noise_makes_different_releases() -> None:
    engine = connect(sample(), sample_schema(), noise=SecureNoise())
    method = Quilt(epsilon=1, delta="1e-6", **FAST)
    one, two = (method.run(engine, SecureNoise()) for _ in range(2))
    assert not one.tables["measured"].equals(two.tables["measured"])


def test_sizes_of_counted_values() -> None:
    column = make_schema({"x": KINDS[4]}).attributes["x"]
    values = CountedDomain("x", column)
    assert (values.size, values.n_values) == (4, 3)
    assert values.widths.tolist() == [1, 1, 1, 1]
