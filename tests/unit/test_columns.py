"""The method columns: parameters, plan and release."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Columns, NoisyCounts, Schema, SecureNoise, publish, sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods.counts import column_choice as choice_module
from hushtable.methods.counts.column_choice import PairMechanism, cluster, phi_squared, similarities
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, Mechanism
from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric, ThresholdMatrix
from sealing import sealed
from seeds import shifted

BASIC: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "k": 5, "max_columns": 2}
LONG: dict[str, Any] = {**BASIC, "item": "movie", "value": "rating"}


def ratings_schema(n_items: int = 6, max_rows: int = 4, **more: Any) -> Schema:
    return Schema.from_dict(
        {
            "name": "ratings",
            "unit": {"kind": "person", "column": "user", "max_rows": max_rows},
            "columns": {
                "user": {"role": "identifier"},
                "movie": {"type": "categorical", "values": [f"m{i}" for i in range(n_items)]},
                "rating": {"type": "integer", "low": 1, "high": 5},
                **more,
            },
        }
    )


def ratings(people: list[dict[int, int]]) -> pa.Table:
    rows = [(p, m, r) for p, mine in enumerate(people) for m, r in mine.items()]
    return pa.table(
        {"user": [r[0] for r in rows], "movie": [f"m{r[1]}" for r in rows],
         "rating": [r[2] for r in rows]}
    )  # fmt: skip


class TestParameters:
    def test_all_problems_are_named_at_once(self) -> None:
        with pytest.raises(ParameterError) as caught:
            Columns(epsilon=-1, delta=2, k=0, max_columns=0, columns=[["a", "a"], []],
                    clusters=[0], item="x", max_values=3, similarity="phi2")  # fmt: skip
        text = str(caught.value)
        for part in ("epsilon is -1", "delta is 2", "k is 0", "max_columns is 0",
                     "a more than once", "column 1 is empty", "both given",
                     "each number must be at least 1", "item and value must be given together",
                     "similarity is 'phi2'"):  # fmt: skip
            assert part in text, part

    def test_there_is_no_way_to_choose_columns_without_budget(self) -> None:  # li-2009-1
        with pytest.raises(ParameterError, match="neither columns nor clusters"):
            Columns(**BASIC)
        with pytest.raises(ParameterError, match="costs budget"):
            Columns(**BASIC, clusters=[2], schema_share=0)

    def test_max_columns_is_not_taken_from_the_data(self) -> None:  # li-2009-3
        with pytest.raises(TypeError, match="max_columns"):
            Columns(epsilon=1, delta="1e-6", k=5, columns=[["age"]])  # type: ignore[call-arg]

    def test_text_from_the_command_line_is_read(self) -> None:
        method = Columns(**BASIC, columns=["age, sex", "region"])  # type: ignore[arg-type]
        assert method.columns == (("age", "sex"), ("region",))
        assert Columns(**BASIC, clusters=["2,3", 4]).clusters == (2, 3, 4)  # type: ignore[list-item]

    def test_the_schema_must_fit(self) -> None:
        for method, problem in (
            (Columns(**BASIC, columns=[["age", "salary"]]), "'salary' are not published"),
            (Columns(**BASIC, clusters=[9]), "only 5 attributes"),
            (Columns(**LONG, columns=[["m0"]]), "item 'movie' is not a published column"),
            (Columns(**BASIC, columns=[["m0"]], item="sex", value="age"), "the unit is row"),
        ):
            with pytest.raises(ParameterError, match=problem):
                method.guarantee(sample_schema())
        for method, problem in (
            (Columns(**LONG, columns=[["m9"]]), "'m9' are not values of 'movie'"),
            (Columns(**BASIC, columns=[["1"]], item="rating", value="movie"), "categorical"),
            (Columns(**LONG, columns=[["m0"]], generalize={"movie": 1}), "cannot be generalized"),
        ):
            with pytest.raises(ParameterError, match=problem):
                method.guarantee(ratings_schema())
        for name in ("column", "tuple", "count"):
            clash = {name: {"type": "integer", "low": 0, "high": 1}}
            with pytest.raises(ParameterError, match=f"column {name!r}"):
                Columns(**LONG, columns=[["m0"]]).guarantee(ratings_schema(**clash))
        with pytest.raises(TooLarge, match="noisy pair counts"):
            Columns(**LONG, clusters=[3000]).guarantee(ratings_schema(5000))


class TestPlan:
    def test_one_record_is_in_no_more_columns_than_it_can_reach(self) -> None:
        one = [[f"m{i}"] for i in range(6)]
        schema = ratings_schema(6, max_rows=4)
        for parameters, touched in (
            ({"max_columns": 3}, 3),
            ({"max_columns": 9}, 4),  # four values affect four columns
            ({"max_columns": 9, "max_values": 2}, 2),
            (
                {"max_columns": 9, "max_values": 2, "columns": one + one},
                4,
            ),  # copies count, li-2009-3
            ({"max_columns": 9, "max_values": 1, "columns": (), "clusters": [2, 3]}, 2),
        ):
            method = Columns(**{**LONG, "columns": one, **parameters})
            assert method.plan(schema).n_touched == touched

    def test_a_copy_of_a_column_costs_as_much_as_another_column(self) -> None:  # li-2009-3
        table = sample_schema()
        twice = Columns(**BASIC, columns=[["age"], ["age"]]).plan(table).mechanism
        both = Columns(**BASIC, columns=[["age"], ["sex"]]).plan(table).mechanism
        once = Columns(**BASIC, columns=[["age"]]).plan(table).mechanism
        assert twice.epsilon == both.epsilon == once.epsilon / 2 == 1

    def test_the_number_of_columns_does_not_change_the_noise(self) -> None:  # li-2009-2
        schema = ratings_schema(60)
        few = Columns(**LONG, columns=[[f"m{i}"] for i in range(6)]).plan(schema).mechanism
        many = Columns(**LONG, columns=[[f"m{i}"] for i in range(60)]).plan(schema).mechanism
        assert few == many

    def test_budget_adds_up(self) -> None:
        method = Columns(**LONG, clusters=[2, 3], schema_share="1/4", count_share="1/10")
        plan = method.plan(ratings_schema())
        assert plan.pair_noise is not None
        assert plan.pair_noise.n_touched == 4 * 5 // 2
        assert plan.count_epsilon == Fraction(1, 5)
        assert plan.pair_noise.epsilon == Fraction(9, 20)
        assert plan.columns_epsilon == Fraction(27, 20)
        assert isinstance(plan.mechanism, OneSidedGeometric)
        spent = plan.mechanism.delta * plan.n_touched
        if plan.pair_noise.is_gaussian:
            spent += plan.pair_noise.delta
        assert spent == method.delta
        assert sum(method.forecast(ratings_schema()).split.values()) == method.epsilon

    def test_a_person_with_several_rows_of_a_wide_table(self) -> None:
        content = sample_schema().to_dict()
        content["unit"] = {"kind": "person", "column": "visit", "max_rows": 3}
        schema = Schema.from_dict(content)
        method = Columns(**BASIC, columns=[["age"], ["sex"]], count_share="1/2")
        mechanism = method.plan(schema).mechanism
        assert mechanism.epsilon == Fraction(2) / 3 / 2 / 2
        x = float(Fraction(2, 3))
        assert isinstance(mechanism, OneSidedGeometric)
        total = float(mechanism.delta) * 2 * (1 + np.exp(x) + np.exp(2 * x))
        assert total == pytest.approx(1e-6, rel=1e-9)
        assert total <= 1e-6
        assert sum(method.forecast(schema).split.values()) == 2
        assert method.forecast(schema, 10**8).memory_mb < 10  # few tuples, however many rows

    def test_optimal_composition_is_used_where_it_is_better(self) -> None:
        schema = ratings_schema(60, max_rows=50)
        columns = [[f"m{i}"] for i in range(60)]
        mechanism = Columns(**{**LONG, "max_columns": 50}, columns=columns).plan(schema).mechanism
        assert mechanism.epsilon > Fraction(2, 50)
        basic = OneSidedGeometric(epsilon=Fraction(2, 50), delta=Fraction(1, 50 * 10**6), k=5)
        assert mechanism.release_count(0.5) < basic.release_count(0.5)
        paper = Columns(**BASIC, columns=[["age"]], mechanism="paper").plan(sample_schema())
        assert isinstance(paper.mechanism, ThresholdMatrix)

    @pytest.mark.parametrize("delta", ["1e-3", "1e-5", "1e-7"])
    def test_tight_publishes_every_tuple_at_least_as_often_as_paper(self, delta: str) -> None:
        for epsilon in ("ln(5)", "1/4"):
            tight, paper = (
                NoisyCounts(epsilon=epsilon, delta=delta, k=10, mechanism=kind).of_one_row
                for kind in ("tight", "paper")
            )
            for count in (1, *range(10, 260, 5)):
                least = paper.release_probability(count) * (1 - 1e-9)
                assert tight.release_probability(count) >= least

    def test_forecast_warns_of_tables_that_are_too_small(self) -> None:
        method = Columns(**LONG, clusters=[2])
        assert "warning" in method.forecast(ratings_schema(), 20).lines
        assert "warning" not in method.forecast(ratings_schema(), 20_000).lines


class TestChoice:
    def test_phi_squared(self) -> None:
        table = np.array([[30, 10], [20, 40]])
        chi2 = 100 * (30 * 40 - 10 * 20) ** 2 / (40 * 60 * 50 * 50)
        assert phi_squared(table) == pytest.approx(chi2 / 100)
        assert phi_squared(np.diag([20, 30, 50])) == pytest.approx(1.0)
        assert phi_squared(np.array([[3, 4]])) == 0.0
        assert phi_squared(np.zeros((2, 2), np.int64)) == 0.0

    def test_noise_is_taken_off_phi_squared(self) -> None:
        # 400 independent pairs of attributes with noise: without the correction the mean would be
        # 16 cells * 50**2 / 625 / 10000 / 3 = 0.0021; a mean below 0.0008 happens with 6 sigma.
        draw = np.random.default_rng(shifted(3))
        tables = [625 + np.rint(draw.normal(0, 50, (4, 4))).astype(np.int64) for _ in range(400)]
        corrected = np.mean([phi_squared(table, 50.0) for table in tables])
        assert corrected < 0.0008 < np.mean([phi_squared(table) for table in tables])

    def test_similarities_are_those_of_the_papers_section_7_and_of_a_cosine(self) -> None:
        draw = np.random.default_rng(shifted(5))
        ratings_of = np.where(draw.random((50, 4)) < 0.6, draw.integers(1, 4, (50, 4)), 0)
        support = (ratings_of > 0).sum(axis=0)
        pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
        both = [(ratings_of[:, i] > 0) & (ratings_of[:, j] > 0) for i, j in pairs]
        same = [ratings_of[:, i] == ratings_of[:, j] for i, j in pairs]
        agree = np.array([(s & b).sum() for s, b in zip(same, both, strict=True)])
        differ = np.array([b.sum() for b in both]) - agree
        for number, (i, j) in enumerate(pairs):
            either = ((ratings_of[:, i] > 0) | (ratings_of[:, j] > 0)).sum()
            union = similarities("union", support, agree, differ, 0.0)
            cosine = similarities("cosine", support, agree, differ, 0.0)
            assert union[i, j] == union[j, i] == agree[number] / either
            assert cosine[i, j] == pytest.approx(agree[number] / np.sqrt(support[i] * support[j]))

    def test_the_less_noisy_noise_is_taken(self) -> None:
        one = PairMechanism(n_touched=1, epsilon=Fraction(1), delta=Fraction(1, 10**6))
        many = PairMechanism(n_touched=210, epsilon=Fraction(1), delta=Fraction(1, 10**6))
        assert not one.is_gaussian
        assert one.std == pytest.approx(2**0.5)
        assert many.is_gaussian
        assert many.std < 210 * 2**0.5 / 4
        assert many._variance == int(many._variance)
        same = many.law.draw(np.zeros(20_000, np.int64), SecureNoise())
        # The mean square of 20,000 Gaussians is off by 1% (one sigma); 7 sigma: 1e-12.
        assert np.mean(same.astype(float) ** 2) == pytest.approx(many.std**2, rel=0.07)

    def test_a_cluster_that_two_partitions_share_stands_there_twice(self) -> None:
        points = np.array([0.0, 0.1, 5.0, 5.2, 9.0])
        groups = cluster(np.abs(points[:, None] - points), [2, 3])
        assert len(groups) == 5
        assert groups.count([0, 1]) == 2

    @pytest.mark.parametrize("similarity", ["union", "cosine"])
    def test_items_with_similar_ratings_are_grouped(self, similarity: Any) -> None:
        draw = np.random.default_rng(shifted(1))
        people = []
        for _ in range(4000):
            block, rating = int(draw.integers(0, 2)), int(draw.integers(1, 6))
            people.append({3 * block + i: rating for i in range(3)})
        method = Columns(**LONG, clusters=[2], similarity=similarity)
        released = method.run(connect(ratings(people), ratings_schema()), SecureNoise())
        assert sorted(released.settings["columns"]) == [["m0", "m1", "m2"], ["m3", "m4", "m5"]]

    def test_only_items_that_stand_out_of_the_noise_are_compared(self) -> None:
        people = [{m: 1 + m % 5 for m in range(4)} for _ in range(400)]
        people += [{m: 1} for m in range(4, 40)]
        method = Columns(**LONG, clusters=[2, 3], max_values=4, schema_share="1/2")
        engine = connect(ratings(people), ratings_schema(40))
        plan = method.plan(engine.schema)
        asked: list[Any] = []
        ask = engine.pairs
        engine.pairs = lambda *a, **b: asked.append(b["items"]) or ask(*a, **b)  # type: ignore
        groups = plan.choose(sealed(engine), SecureNoise())
        supports, compared = asked
        assert len(supports) == 0
        assert set(range(4)) <= set(compared)
        assert len(compared) < 20  # at least 6, and those with noise above 2 standard deviations
        for partition in (groups[:2], groups[2:]):
            assert sorted(item for group in partition for item in group) == list(range(40))
            rare = [len(set(group) - set(compared)) for group in partition]
            assert max(rare) - min(rare) <= 1

    def test_dependent_attributes_are_grouped(self) -> None:
        draw = np.random.default_rng(shifted(1))
        a, b = draw.integers(0, 3, 5000), draw.integers(0, 3, 5000)
        table = pa.table({"a": a, "b": b, "c": a, "d": 2 - b})
        column = {"type": "integer", "low": 0, "high": 2}
        schema = Schema.from_dict({"name": "t", "columns": dict.fromkeys("abcd", column)})
        released = Columns(**BASIC, clusters=[2]).run(connect(table, schema), SecureNoise())
        assert sorted(released.settings["columns"]) == [["a", "c"], ["b", "d"]]


class TestRelease:
    PEOPLE = [{0: 5, 1: 4}] * 300 + [{0: 5}] * 200 + [{4: 1}] * 3 + [{2: 3, 3: 3, 4: 2}] * 250

    def test_long_table(self, tmp_path: Path) -> None:
        method = Columns(**LONG, columns=[["m1", "m0"], ["m2", "m3", "m4"], ["m5"]])
        release = publish(ratings(self.PEOPLE), ratings_schema(), method, out=tmp_path / "out")
        rows = release.table().to_pylist()
        tuples: dict[int, list[tuple[int, str, int, int]]] = {}
        for row in rows:
            entry = (row["column"], row["movie"], row["rating"], row["count"])
            tuples.setdefault(row["tuple"], []).append(entry)
        shown = {tuple(entry[:3] for entry in held): held[0][3] for held in tuples.values()}
        assert set(shown) == {
            ((0, "m0", 5),),
            ((0, "m0", 5), (0, "m1", 4)),
            ((1, "m2", 3), (1, "m3", 3), (1, "m4", 2)),
        }
        # Noise beyond 40 has a probability below e^-38.
        for held, count in zip(shown, (200, 300, 250), strict=True):
            assert abs(shown[held] - count) < 40, held
        assert release.statement.estimator["columns"][0] == ["m0", "m1"]
        frame = release.frame()
        assert release.n_rows == frame.num_rows  # from the counts
        assert frame.column_names == ["user", "movie", "rating"]
        sizes = {held: len(held) * count for held, count in shown.items()}
        assert frame.num_rows == sum(sizes.values())
        assert len(set(frame["user"].to_pylist())) == sum(shown.values())

    def test_wide_table_is_padded(self, tmp_path: Path) -> None:
        method = Columns(**BASIC, columns=[["age", "sex"], ["smoker"]], generalize={"age": 50})
        release = publish(sample(), sample_schema(), method, out=tmp_path / "out")
        for row in release.table().to_pylist():
            if row["column"] == 0:
                assert row["smoker"] is None
                assert row["age"] in {"0 to 49", "50 to 99"}
            else:
                assert row["age"] is row["sex"] is None
                assert row["smoker"] in {"yes", "no"}  # people without a value are not counted
            assert row["region"] is None
        assert release.frame().column_names == list(sample_schema().attributes)

    def test_values_of_a_long_table_are_generalized(self, tmp_path: Path) -> None:
        method = Columns(**LONG, columns=[["m0", "m1"]], generalize={"rating": [4]})
        release = publish(ratings(self.PEOPLE), ratings_schema(), method, out=tmp_path / "out")
        assert set(release.table()["rating"].to_pylist()) == {"4 to 5"}

    def test_engines_agree(self, tmp_path: Path) -> None:
        method = Columns(**LONG, columns=[["m1", "m0"], ["m2", "m3", "m4"]])
        for engine in ("memory", "duckdb"):
            release = publish(
                ratings(self.PEOPLE), ratings_schema(), method, out=tmp_path / engine, engine=engine
            )
            assert len(set(release.table()["tuple"].to_pylist())) == 3


def test_nothing_of_the_choice_of_columns_goes_without_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Supports, agreements and differences get noise, and only noisy ones are used (li-2009-1)."""
    far, noised = 10_000, []

    def draw(self: Mechanism, counts: Any, noise: Any) -> Any:
        noised.append(counts)
        return counts + far

    looked_at: list[Any] = []

    def watched(name: str, which: slice) -> None:
        real = getattr(choice_module, name)

        def look(*given: Any) -> Any:
            looked_at.extend(given[which])
            return real(*given)

        monkeypatch.setattr(choice_module, name, look)

    for law in (Laplace, Gaussian):
        monkeypatch.setattr(law, "draw", draw)
    watched("worth_comparing", slice(0, 1))
    watched("similarities", slice(1, 4))
    people = [{0: 1, 1: 1, 2: 5}, {0: 2, 1: 2}, {3: 4, 4: 4}, {3: 1, 4: 2, 5: 3}] * 30
    method = Columns(**LONG, clusters=[2])
    engine = connect(ratings(people), ratings_schema(), engine="memory")
    method.run(engine, SecureNoise())
    assert len(noised) == 3
    assert len(looked_at) == 4
    assert all((counts >= far).all() for counts in looked_at)


def test_columns_are_chosen_where_one_value_of_each_person_counts() -> None:
    """Then no person is in a pair, so the choice costs only the support of one item."""
    method = Columns(**(LONG | {"max_values": 1, "clusters": [2]}))
    table = ratings([{person % 6: 3, (person + 1) % 6: 4} for person in range(60)])
    run = method.plan(ratings_schema()).accounted(connect(table, ratings_schema()), SecureNoise())
    costs = {one.what: one.sensitivity.l1 for one in run.account.records}
    assert (costs["items"], costs["pairs of items"]) == (1, 0)


def test_pair_noise_is_made_for_all_counts_that_a_record_touches() -> None:
    """Variance n / (2 rho) for counts that a record changes by one each, or scale n / epsilon."""
    asked: list[tuple[str, Fraction]] = []

    class Listened(SecureNoise):
        def discrete_gaussian(self, variance: Fraction, *, size: int) -> Any:
            asked.append(("gaussian", variance))
            return super().discrete_gaussian(variance, size=size)

        def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
            asked.append(("laplace", scale))
            return super().discrete_laplace(scale, size=size)

    epsilon, delta = Fraction(1, 2), Fraction(1, 10**6)
    for n_touched in (1, 210):
        PairMechanism(n_touched, epsilon, delta).law.draw(np.zeros(3, np.int64), Listened())
    (first, scale), (second, variance) = asked
    assert (first, scale) == ("laplace", 1 / epsilon)
    assert second == "gaussian"
    rho = concentrated_share(epsilon, delta)
    assert 210 / (2 * rho) <= variance < 210 / (2 * rho) + 1
    # The bound of Bun and Steinke (2016), which is not the tightest, is kept about as well.
    loss = float(rho) + 2 * (float(rho) * np.log(1 / float(delta))) ** 0.5
    assert float(epsilon) <= loss < 1.25 * float(epsilon)
