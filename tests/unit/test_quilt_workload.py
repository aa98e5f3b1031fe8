"""Workload of quilt: parsing, sensitivities of sums, their measurement, and answers from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.errors import ParameterError
from hushtable.methods.base import reader_of
from hushtable.methods.quilt.candidates import TARGET_PAIR, WEIGHT, WORKLOAD, Preferences, groups_of
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.quilt.quilt import Quilt
from hushtable.methods.quilt.workload import SCALE, columns_of, key_of, read_items
from hushtable.privacy.accounting.sealed import unseal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.query.answers.row_sums import ONE, is_code, power
from hushtable.schema import Schema
from sealing import sealed
from seeds import shifted

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "pay": {"type": "integer", "low": 0, "high": 999, "missing": "category"},
            "age": {"type": "integer", "low": 0, "high": 99},
            "the sex": {"type": "categorical", "values": ["F", "M"]},
            "area": {"type": "categorical", "values": ["a", "b", "c"]},
        },
    }
)
MEANS, SLOPES = "mean(pay) by area", 'pay ~ age + "the sex"'


def made(n_rows: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(shifted(seed))
    age, area, sex = draw.integers(0, 100, n_rows), *draw.integers(0, [[3], [2]], (2, n_rows))
    pay = np.clip(np.rint(300 + 3 * age - 80 * sex + 90 * draw.normal(size=n_rows)), 0, 999)
    columns = {
        "pay": pa.array(pay.astype(np.int64), mask=draw.random(n_rows) < 0.1),
        "age": pa.array(age),
        "the sex": pa.array(np.array(["F", "M"])[sex]),
        "area": pa.array(np.array(["a", "b", "c"])[area]),
    }
    return pa.table(columns)


def test_items_name_their_columns() -> None:
    assert columns_of('mean("x y") by a x "b x c"') == ("x y", "a", "b x c")
    assert columns_of("total(pay)") == ("pay",)
    assert columns_of('y ~ "a+b" + C(g) + 1') == ("y", "a+b", "g")
    assert columns_of("a x b") == ("a", "b")
    items = read_items([MEANS, SLOPES, 'area x "the sex"'], SCHEMA)
    assert [len(item.queries) for item in items] == [3, 1, 0]


def test_all_problems_of_a_workload_are_listed() -> None:
    wrong = ["mean(area)", "area", "pay x nobody", "pay ~ pay", "mean(pay) by nothing", "medians"]
    with pytest.raises(ParameterError) as caught:
        Quilt(epsilon=1, workload=wrong).plan(SCHEMA)
    assert len(caught.value.problems) >= len(wrong)
    assert all(any(repr(text) in p for p in caught.value.problems) for text in wrong)


@pytest.mark.parametrize("seed", range(4))
def test_no_row_changes_sums_by_more_than_their_sensitivity(seed: int) -> None:
    """Exact: all rows of a small domain. The bounds are attained but for rounding."""
    draw = np.random.default_rng(shifted(seed))
    sizes = {"a": 4, "b": 3, "c": 2}
    functions = [
        {name: draw.uniform(-1, 1, size) for name, size in sizes.items() if draw.random() < 0.7}
        for _ in range(6)
    ]
    scale = 1000
    moved = Sensitivity(rows=1).of_sums(functions, sizes, scale)
    changes = np.array([
        [
            int(np.rint(scale * np.prod([f[name][row["abc".index(name)]] for name in f])))
            for f in functions
        ]
        for row in product(*map(range, sizes.values()))
    ])  # fmt: skip
    l1, l2 = np.abs(changes).sum(axis=1).max(), (changes**2).sum(axis=1).max() ** 0.5
    most = np.abs(changes).max()
    assert l1 <= moved.l1 <= l1 + len(functions) + 4
    assert l2 <= moved.l2_squared**0.5 <= l2 + len(functions) ** 0.5 + 4
    assert most <= moved.most <= most + 3
    three = Sensitivity(rows=3).of_sums(functions, sizes, scale)
    assert (three.l1, three.l2_squared) == (3 * moved.l1, 9 * moved.l2_squared)
    assert moved.merged().l1 == moved.l1 == moved.plus(moved).l1 / 2
    assert moved.times(-2).l2_squared == 4 * moved.l2_squared


def test_many_distinct_changes_are_bounded_from_above() -> None:
    angles = np.linspace(0, np.pi / 2, 3000)
    functions = [{"a": np.cos(angles)}, {"a": np.sin(angles)}]
    moved = Sensitivity(rows=1).of_sums(functions, {"a": 3000}, 1000)
    assert 1000**2 <= moved.l2_squared <= 1420**2  # the largest factors together


def test_sealed_sums_are_sums_over_rows() -> None:
    table = made(500, 1)
    engine = connect(table, SCHEMA, noise=SeededNoise(1))
    cells = sealed(engine).counts(["pay", "age"])
    factor = np.linspace(-1, 1, SCHEMA.attributes["pay"].size)
    found = unseal(cells.sums([{"pay": factor}, {}, {"pay": factor, "age": np.ones(100)}], 1000))
    codes = table["pay"].fill_null(1000).to_numpy()
    expected = int(np.rint(1000 * factor[codes]).sum())
    assert found.tolist() == [expected, 500_000, expected]


def test_keys_identify_functions() -> None:
    pay, area = SCHEMA.attributes["pay"], SCHEMA.attributes["area"]
    one = power("pay", pay, 1) * is_code("area", area, 1)
    assert key_of(one) == key_of(is_code("area", area, 1) * power("pay", pay, 1))
    others = [power("pay", pay, k) * is_code("area", area, c) for k in (0, 1, 2) for c in (0, 1)]
    assert len({key_of(other) for other in others}) == 6
    assert key_of(ONE) == key_of(power("age", SCHEMA.attributes["age"], 0)) == ""


@pytest.mark.parametrize("delta", ["1e-6", 0])
def test_answers_come_from_measured_sums(delta: object) -> None:
    """The sums have normal or Laplace errors of the stated size.

    The mean square of 18 z-scores is between 0.25 and 2.6, or 0.15 and 4.5 for Laplace noise: a
    correct run fails with a probability of 6e-4 or 8e-4. Noise of twice the stated standard
    deviation fails with a probability of 0.96 (normal).
    """
    table = made(4000, 2)
    method = Quilt(
        epsilon=2, delta=delta, particles=1000, workload=[MEANS, SLOPES], workload_share="1/2"
    )
    noise = SeededNoise(shifted(3))
    plan = method.plan(SCHEMA)
    released = method.run(connect(table, SCHEMA, noise=noise), noise)
    assert released.settings["budget_shares"]["workload"] == "1/2"
    estimator = reader_of(QuiltEstimator, plan, released)
    codes = {
        "pay": table["pay"].fill_null(1000).to_numpy(), "age": table["age"].to_numpy(),
        "the sex": (table["the sex"].to_numpy() == "M").astype(int),
        "area": np.searchsorted(["a", "b", "c"], table["area"].to_numpy().astype(str)),
    }  # fmt: skip
    z = []
    for item, said in zip(plan.workload, released.settings["workload"], strict=True):
        functions = list(item.functions.values())
        found = estimator.sums(functions)
        assert found.supported == "measured"
        assert len(said["values"]) == len(functions)
        true = np.array([one.values(codes).sum() for one in functions])
        z += ((found.values - true) / np.sqrt(found.privacy.diagonal())).tolist()
    assert len(z) == 18
    low, high = (0.25, 2.6) if delta else (0.15, 4.5)
    assert low < np.mean(np.square(z)) < high
    questions = ReleaseQuestions(estimator)
    means = questions.statistic("mean", "pay", None, ["area"], "people")
    slopes = questions.regression('pay ~ age + C("the sex")', None, logistic=False, scope="people")
    assert {one.support for one in (*means.estimates, *slopes.estimates)} == {"measured"}


def test_plans_forecast_the_width_of_answers() -> None:
    """The forecast supposes uniform columns; here, `pay` has more rows near its middle."""
    method = Quilt(epsilon=1, delta="1e-6", particles=1000, workload=[MEANS, SLOPES, "age x area"])
    plan = method.plan(SCHEMA)
    lines = plan.forecast(4000).lines
    said = lines["half-width of mean(pay) by area, about"]
    noise = SeededNoise(shifted(4))
    released = method.run(connect(made(4000, 2), SCHEMA, noise=noise), noise)
    asked = ReleaseQuestions(reader_of(QuiltEstimator, plan, released))
    means = asked.statistic("mean", "pay", None, ["area"], "people")
    width = np.mean([one.reach for one in means.estimates])
    assert said.startswith("mean of pay in a typical group: ")
    assert 0.5 < float(said.split(": ")[1]) / width < 1.6
    assert "coefficient of age" in lines[f"half-width of {SLOPES}, about"]
    assert lines["half-width of a count of age x area if it is measured, about"] > 0
    assert plan.step_epsilons(4000)["workload"] == Fraction(3, 10)
    assert sum(plan.step_epsilons(4000).values()) == 1


def test_marginals_of_a_workload_count_more_in_selection() -> None:
    preferences = Preferences(target=0, marginals=((1, 2, 3),))
    assert preferences.weight((1, 3)) == preferences.weight((1, 2, 3)) == WORKLOAD
    assert preferences.weight((0, 1)) == TARGET_PAIR
    assert replace(preferences, target=None).weight((0, 1)) == WEIGHT
    assert (1, 2, 3) in groups_of([2, 2, 2, 2], replace(preferences, target=None))
    assert len(groups_of([2, 2, 2, 2])) == 6


def test_sums_of_persons_with_many_rows_get_more_noise() -> None:
    functions = [{"pay": np.linspace(-1, 1, 1001)}, {}]
    one = Sensitivity(rows=1).of_sums(functions, {"pay": 1001}, SCALE)
    budget = Quilt(epsilon=1, delta="1e-6").plan(SCHEMA).budget()
    few, many = (budget.count_noise(Fraction(1, 4), replace(one, rows=n)) for n in (1, 5))
    assert float(many.parameter / few.parameter) == pytest.approx(25)
    table = made(300, 5).append_column("person", pa.array(np.arange(300) // 10))
    content = SCHEMA.model_dump(mode="json", exclude_none=True)
    columns = {**content["columns"], "person": whole_of(300)}
    unit = {"kind": "person", "column": "person", "max_rows": 5}
    schema = Schema.from_dict({"name": "t", "unit": unit, "columns": columns})
    cells = sealed(connect(table, schema, noise=SeededNoise(1))).counts(["pay"])
    assert cells.sums(functions, SCALE).sensitivity.l2_squared == 25 * one.l2_squared


def whole_of(size: int) -> dict[str, object]:
    return {"type": "integer", "low": 0, "high": size - 1, "role": "identifier"}
