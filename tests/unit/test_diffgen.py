"""DiffGen: parameters, refusals, cuts, tables, and the use of its releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable import publish
from hushtable.datasets import sample, sample_schema
from hushtable.domain import Domain
from hushtable.engine import Counts, Engine, OccupiedCells, connect
from hushtable.errors import DataError, ParameterError, ReleaseError, SchemaError, TooLarge
from hushtable.methods import DiffGen, NoisyCounts
from hushtable.methods.diffgen.cuts import (
    CutSet,
    ValueSetPart,
    base_measure,
    recoding_of,
)
from hushtable.methods.diffgen.estimator import GeneralizedEstimator
from hushtable.numeric import project_integers_to_simplex
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.guarantee import Unit
from hushtable.privacy.mechanisms.cells import DomainMechanism, NoisyCells
from hushtable.privacy.mechanisms.scored_splits import (
    BITS,
    WEIGHT,
    BalancedGain,
    BalancedMax,
    InformationGain,
    Max,
    Score,
    ScoredSplits,
    TotalVariation,
    make_score,
)
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.release.release import Release
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import Recoding

CLASS = {"type": "categorical", "values": ["Y", "N"], "role": "target"}


def make_schema(columns: dict[str, Any], **more: Any) -> Schema:
    return Schema.from_dict({"name": "t", "columns": columns | {"class": CLASS}, **more})


AGE = {"type": "integer", "low": 0, "high": 9}
SMALL = make_schema({"age": AGE})
ROWS = pa.table({"age": [1, 2, 8, 9], "class": ["Y", "Y", "N", "N"]})


# --- parameters and refusals ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"specializations": 0}, "specializations is 0; it must be a whole number of at least 1"),
        ({"specializations": -3}, "specializations is -3"),
        ({"specializations": "many"}, "specializations is many; .* or auto"),
        ({"specializations": "1.5"}, "specializations is 1.5"),
        ({"score": "gini"}, "score is 'gini'; it must be balanced-gain, balanced-max, max"),
        ({"calibration": "loose"}, "calibration is 'loose'; it must be tight or paper"),
        ({"structure_share": 1}, "structure_share is 1; it must lie between 0 and 1"),
        ({"structure_share": "most"}, "structure_share is most; it must .* or auto"),
        ({"calibration": "paper", "structure_share": "1/4"}, "calibration paper requires 1/2"),
        ({"epsilon": 0}, "epsilon is 0"),
        ({"max_groups": 0}, "max_groups is 0"),
    ],
)
def test_bad_parameters(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        DiffGen(**({"epsilon": 1} | given))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        DiffGen(epsilon=-1, specializations=0, score="x", calibration="y", max_groups=0)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 5


def test_text_from_the_command_line_is_understood() -> None:
    assert DiffGen(epsilon="1/2", specializations="12") == DiffGen(
        epsilon=Fraction(1, 2), specializations=12
    )


@pytest.mark.parametrize(
    ("columns", "target", "said"),
    [
        ({"age": AGE}, "weight", "target 'weight' is not a published column"),
        ({"age": AGE}, "age", "target 'age' is numeric; only a categorical column"),
        ({"age": AGE, "one": {"type": "categorical", "values": ["x"]}}, "one", "only one value"),
        ({}, "class", "target 'class' is the only column"),
        ({"count": AGE}, "class", "column 'count': the published table has a column"),
    ],
)
def test_bad_targets_and_names(columns: dict[str, Any], target: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        DiffGen(epsilon=1, target=target).guarantee(make_schema(columns))


def test_no_target_at_all() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {"age": AGE}})
    with pytest.raises(ParameterError, match="target is missing"):
        DiffGen(epsilon=1).guarantee(schema)


def test_nodes_are_refused() -> None:
    with pytest.raises(ParameterError, match="unit is node"):
        DiffGen(epsilon=1).guarantee(SMALL.model_copy(update={"unit": Unit(kind="node")}))


def test_grids_too_fine_for_a_histogram_are_refused_before_any_data_is_read() -> None:
    schema = make_schema({"x": {"type": "integer", "low": 0, "high": 10**8}})
    with pytest.raises(TooLarge, match=r"column 'x'.*coarser step"):
        DiffGen(epsilon=1).guarantee(schema)


def test_a_taxonomy_must_cover_its_values() -> None:
    with pytest.raises(SchemaError, match="the taxonomy does not cover: b"):
        make_schema(
            {"x": {"type": "categorical", "values": ["a", "b"], "taxonomy": {"any": ["a"]}}}
        )


# --- the search -----------------------------------------------------------------------------------


class CountingEngine:
    """Engine that records the queries."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.asked = engine, list[str]()

    @property
    def schema(self) -> Schema:
        return self.engine.schema

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        self.asked.append("histograms")
        return self.engine.histograms(columns, by=by)

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> OccupiedCells:
        self.asked.append("counts")
        return self.engine.counts(columns, recode=recode)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_two_questions_whatever_the_number_of_specializations(calibration: Any) -> None:
    for h in (1, 7):
        engine = CountingEngine(connect(sample(), sample_schema()))
        method = DiffGen(epsilon=1, specializations=h, calibration=calibration)
        released = method.run(engine, SecureNoise())  # type: ignore[arg-type]
        assert engine.asked == ["histograms", "counts"]
        assert len(released.settings["specializations"]) == h


def test_more_specializations_than_there_are_stop_early_and_say_so() -> None:
    method = DiffGen(epsilon=1, specializations=50)
    released = method.run(connect(ROWS, SMALL), SecureNoise())
    assert len(released.settings["specializations"]) == 9
    assert (
        "50 specializations were requested; taxonomies, grids and lists allow 9."
        in (released.settings["notes"])
    )
    assert "allow only 9 splits" in str(method.forecast(SMALL).lines["note"])
    assert released.settings["columns"]["age"]["starts"] == list(range(10))


def test_constant_attributes_are_never_split_and_cost_nothing() -> None:
    constant = {"type": "integer", "low": 5, "high": 5}
    schema = make_schema({"five": constant, "one": {"type": "categorical", "values": ["x"]}})
    method = DiffGen(epsilon=1, specializations=3, score="max")
    table = pa.table({"five": [5, 5], "one": ["x", "x"], "class": ["Y", "N"]})
    released = method.run(connect(table, schema), SecureNoise())
    assert released.settings["specializations"] == []
    assert released.settings["rate"] == "1"  # all of epsilon is for the counts
    assert method.forecast(schema).split == {"counts": 1}
    both = make_schema({"five": constant, "age": AGE})
    table = table.append_column("age", [[1, 2]]).drop(["one"])
    released = method.run(connect(table, both), SecureNoise())
    assert {r["column"] for r in released.settings["specializations"]} == {"age"}


def test_an_empty_class_is_published() -> None:
    schema = make_schema({"age": AGE})
    only_yes = pa.table({"age": [1, 2], "class": ["Y", "Y"]})
    released = DiffGen(epsilon=1, specializations=2).run(connect(only_yes, schema), SecureNoise())
    classes = released.tables["data"].column("class").to_pylist()
    assert classes.count("N") == classes.count("Y") == 3


def test_missing_values_are_part_of_the_top_and_then_a_part_of_their_own() -> None:
    optional = AGE | {"missing": "category"}
    kind = {"type": "categorical", "values": ["a", "b"], "missing": "category"}
    schema = make_schema({"age": optional, "kind": kind})
    table = pa.table({"age": [1, None, 9] * 50, "kind": ["a", "b", None] * 50,
                      "class": ["Y", "N", "Y"] * 50})  # fmt: skip
    for h, n_labels in ((1, 4), (10, 13)):
        method = DiffGen(epsilon=50, specializations=h)
        released = method.run(connect(table, schema), SecureNoise())
        columns = released.settings["columns"]
        sizes = {name: len(cut["labels"]) + cut["has_missing"] for name, cut in columns.items()}
        assert sum(sizes.values()) in (n_labels, n_labels + 1)  # either may be split first
        total = sum(released.tables["data"].column("noisy_count").to_pylist())
        assert abs(total - 150) < 20
    whole = {"age": "0 to 9 or missing", "kind": "* or missing"}
    labels = [set(released.tables["data"].column(name).to_pylist()) for name in whole]
    assert None in labels[0]  # after 10 rounds both are split
    released = DiffGen(epsilon=1, specializations=1).run(connect(table, schema), SecureNoise())
    data = released.tables["data"]
    untouched = [name for name in whole if set(data.column(name).to_pylist()) == {whole[name]}]
    assert len(untouched) == 1


def test_nodes_with_one_child_are_skipped_and_equal_labels_distinguished() -> None:
    chain = {"any": {"all": {"left": ["a", "b"], "right": {"left": ["c"], "d": ["d"]}}}}
    kind = {"type": "categorical", "values": list("abcd"), "taxonomy": chain}
    schema = make_schema({"kind": kind})
    table = pa.table({"kind": list("abcd"), "class": ["Y", "N", "Y", "N"]})
    released = DiffGen(epsilon=1, specializations=1).run(connect(table, schema), SecureNoise())
    (done,) = released.settings["specializations"]
    assert done == {"column": "kind", "part": "all", "into": ["left", "right"]}
    released = DiffGen(epsilon=1, specializations=9).run(connect(table, schema), SecureNoise())
    assert sorted(released.settings["columns"]["kind"]["labels"]) == list("abcd")


def test_a_person_with_several_rows_scales_everything() -> None:
    unit = {"kind": "person", "column": "id", "max_rows": 3}
    schema = make_schema({"age": AGE, "id": {"role": "identifier"}}, unit=unit)
    for score in ("balanced-gain", "balanced-max", "max", "total-variation"):
        method = DiffGen(epsilon=1, specializations=2, score=score)  # type: ignore[arg-type]
        one, three = method.plan(SMALL), method.plan(schema)
        made = make_score(score, np.array([2, 2]))  # type: ignore[arg-type]
        assert three.sensitivity(made) == 3 * one.sensitivity(made)
        assert 3 * three.rate == one.rate
    assert method.guarantee(schema)[0].unit.max_rows == 3  # type: ignore[union-attr]


def test_the_share_of_the_cuts_falls_with_their_number_and_is_known_before() -> None:
    columns = {f"x{i}": AGE for i in range(14)}
    plans = {
        h: DiffGen(epsilon=1, specializations=h).plan(make_schema(columns)) for h in (4, 10, 14)
    }
    shares = [plan.structure_share for plan in plans.values()]
    assert shares == [Fraction(3, 4), Fraction(15, 32), Fraction(1, 4)]
    for plan in plans.values():
        assert sum(plan.epsilon_by_step().values()) == 1
        assert plan.epsilon_by_step()["cuts"] == plan.structure_share * (1 - plan.sizes_epsilon)
    huge = DiffGen(epsilon=1, specializations=10**9).plan(make_schema(columns))
    assert huge.structure_share == Fraction(1, 8)
    for method in (DiffGen(epsilon=1), DiffGen(epsilon=1, specializations=9, calibration="paper")):
        assert method.plan(make_schema(columns)).structure_share == Fraction(1, 2)
    assert DiffGen(epsilon=1, structure_share="2/3").plan(SMALL).structure_share == Fraction(2, 3)


def test_a_gain_finds_a_split_below_the_top() -> None:
    schema = make_schema(
        {
            "kind": {
                "type": "categorical",
                "values": list("abcd"),
                "taxonomy": {"all": {"left": ["a", "b"], "right": ["c", "d"]}},
            },
            **{f"x{i}": {"type": "categorical", "values": ["0", "1"]} for i in range(8)},
        }
    )
    kinds = ["a", "b", "c", "d"] * 500
    table = pa.table(
        {
            "kind": kinds,
            **{f"x{i}": [str((n >> (i + 2)) % 2) for n in range(2000)] for i in range(8)},
            "class": ["Y" if kind in "ac" else "N" for kind in kinds],
        }
    )
    counts = connect(table, schema).histograms(["kind", "x0"], by="class")
    left, whole = np.array([counts["kind"][0], counts["kind"][1]]), counts["x0"]
    sizes = np.array([1000, 1000])
    gain, level = make_score("balanced-gain", sizes), make_score("balanced-max", sizes)
    assert gain.of(left) > gain.of(whole) == 0  # the children of the part are pure
    assert level.of(left) == level.of(whole)  # both classify half of all rows


def test_scores_of_very_many_rows_are_exact() -> None:
    big = np.array([[[2**40, 1], [3, 2**40]]])
    n = int(big.sum())
    cells = big[0].tolist()
    rows, classes = [sum(row) for row in cells], [sum(c) for c in zip(*cells, strict=True)]
    exact = sum(abs(n * cells[i][j] - rows[i] * classes[j]) for i in (0, 1) for j in (0, 1)) // n
    assert TotalVariation().of(big).tolist() == [exact]


def test_auto_takes_more_specializations_for_more_rows() -> None:
    schema = sample_schema()
    n_rounds = [DiffGen(epsilon=1).plan(schema).n_rounds(10**e) for e in range(7)]
    assert n_rounds == sorted(n_rounds)
    assert n_rounds[0] == 0  # a noisy number of rows that is consistent with 0
    assert n_rounds[4] == 8  # log2(10,000 * 0.49 / 10), slightly less for the noise
    known = sample_schema().model_copy(update={"rows": 41})
    assert DiffGen(epsilon=1).plan(known).n_rounds(41) == 1  # log2(41 * 0.49 / 10): no reduction


WIDE = {"type": "categorical", "values": [f"v{i:02}" for i in range(30)]}

WIDE_NAMES = ("told", "x0", "x1", "x2", "x3", "x4")


def wide_table(n_rows: int) -> pa.Table:
    """Make rows whose class depends on 3 of 30 values of one column, and on no other column."""
    rng = np.random.default_rng(12)
    values = np.array(WIDE["values"])
    told = rng.integers(0, 30, n_rows)
    chance = np.where(np.isin(told, (4, 11, 25)), 0.9, 0.05)
    return pa.table(
        {
            "told": values[told],
            **{f"x{i}": values[rng.integers(0, 30, n_rows)] for i in range(5)},
            "class": np.where(rng.random(n_rows) < chance, "Y", "N"),
        }
    )


def test_a_list_without_taxonomy_is_split_one_value_at_a_time() -> None:
    """A split into all values at once would make 30 times as many groups in one round."""
    schema = make_schema(dict.fromkeys(WIDE_NAMES, WIDE))
    released = DiffGen(epsilon=1).run(connect(wide_table(20_000), schema), SecureNoise())
    done = released.settings["specializations"]
    assert all(len(one["into"]) == 2 for one in done)
    # 3 of 30 values are informative: by chance, 3 choices of 180 are right once in 20,000.
    told = {one["into"][0] for one in done if one["column"] == "told"}
    assert {"v04", "v11", "v25"} <= told
    assert released.settings["n_groups"] <= 2 * 20_000 * 0.49 / 10
    labels = released.settings["columns"]["told"]["labels"]
    assert "all but v04, v11, v25" in labels or len(labels) > 4
    paper = DiffGen(epsilon=1, specializations=1, calibration="paper")
    flat = paper.run(connect(wide_table(2000), schema), SecureNoise())
    assert len(flat.settings["specializations"][0]["into"]) == 30  # a taxonomy of one level


def test_missing_values_of_a_list_come_off_with_the_first_value() -> None:
    one = {"type": "categorical", "values": ["x"], "missing": "category"}
    schema = make_schema({"kind": {**WIDE, "missing": "category"}, "one": one})
    table = pa.table({"kind": ["v01", "v02", None] * 40, "one": ["x", None, "x"] * 40,
                      "class": ["Y", "N", "N"] * 40})  # fmt: skip
    method = DiffGen(epsilon=9, specializations=40)
    assert method.plan(schema).most_rounds == 29 + 1
    released = method.run(connect(table, schema), SecureNoise())
    first = {
        done["column"]: done["into"] for done in reversed(released.settings["specializations"])
    }
    assert len(first["kind"]) == 3
    assert first["kind"][-1] == "missing"
    assert first["one"] == ["x", "missing"]
    assert sorted(released.settings["columns"]["kind"]["labels"]) == WIDE["values"]


def test_names_of_listed_values_that_look_like_others_are_distinguished() -> None:
    kind = {"type": "categorical", "values": ["a", "b", "c", "d", "a, b"]}
    column = make_schema({"kind": kind}).attributes["kind"]
    assert isinstance(column, Categorical)
    cut = [ValueSetPart("kind", False, column, codes) for codes in ((0, 1), (4,), (2, 3))]
    labels = recoding_of(cut).labels
    assert labels == ("a, b ('a', 'b')", "a, b ('a, b')", "c, d")


def test_auto_stops_where_groups_exceed_what_the_rows_bear() -> None:
    """Taxonomies of one wide level: the rest of the cuts' budget is used for the counts."""
    wide = {**WIDE, "taxonomy": {"any": WIDE["values"]}}
    schema = make_schema(dict.fromkeys(WIDE_NAMES, wide), rows=2000)
    plan = DiffGen(epsilon=1).plan(schema)
    assert plan.borne_groups(2000) == 98
    assert plan.n_rounds(2000) == 6
    assert plan.most_groups(2000) == 2 * 98
    released = DiffGen(epsilon=1).run(connect(wide_table(2000), schema), SecureNoise())
    assert len(released.settings["specializations"]) == 1
    assert released.settings["n_groups"] == 2 * 30
    left = plan.structure_epsilon * Fraction(5, 6)
    assert Fraction(released.settings["rate"]) == plan.counts_epsilon + left
    asked = DiffGen(epsilon=1, specializations=2).run(
        connect(wide_table(2000), schema), SecureNoise()
    )
    assert asked.settings["n_groups"] == 2 * 30 * 30  # requested splits are made


def test_too_few_rows_for_a_split_leave_all_to_the_classes() -> None:
    schema = make_schema({"told": WIDE, "x0": WIDE}, rows=60)
    few = wide_table(60).select(["told", "x0", "class"])
    released = DiffGen(epsilon="0.1").run(connect(few, schema), SecureNoise())
    assert released.settings["specializations"] == []
    assert Fraction(released.settings["rate"]) == Fraction(1, 10) * Fraction(49, 50)
    assert released.settings["n_groups"] == 2
    assert "too few rows" in " ".join(released.settings["notes"])
    many = make_schema({f"x{i}": WIDE for i in range(20)})
    warned = DiffGen(epsilon="0.3").forecast(many, 1500)
    assert "nearly random" in str(warned.lines["warning"])


def test_rows_that_come_out_are_counted_by_all_that_counts_them() -> None:
    """Class sizes get a 50th of epsilon; with few groups, the sum of their counts is far better."""
    schema = make_schema({"told": WIDE})
    plan = DiffGen(epsilon="0.1").plan(schema)
    groups = DomainMechanism(domain=Domain({"class": 2}), rate=Fraction(98, 1000), max_cells=9)
    noisy = NoisyCells(np.array([[0], [1]]), np.array([400, 260]))
    fitted = plan.fitted_total(2600, groups, noisy)  # 1,940 too many, two standard deviations
    assert 660 <= fitted <= 662
    public = DiffGen(epsilon="0.1").plan(make_schema({"told": WIDE}, rows=700))
    assert public.fitted_total(700, groups, noisy) == 700


@pytest.mark.parametrize("score", ["max", "balanced-gain", "total-variation"])
def test_listed_values_are_split_off_within_the_price(score: Any) -> None:
    """Exact: adding or removing a row changes no split's log probability by more than its cost."""
    schema = make_schema({"told": {**WIDE, "values": list("abcde")}, "age": AGE})
    made = make_score(score, np.array([9, 4]))
    plan = DiffGen(epsilon=1, specializations=1, score=score).plan(schema)
    epsilon = Fraction(1, 2)
    eta = float(epsilon / (plan.sensitivity(made) * (1 if made.monotone else 2)))

    def chances(told: Any, age: Any) -> np.ndarray[Any, Any]:
        counts = {"told": told, "age": age}
        choices = list(CutSet(schema, counts, made, one_by_one=True).choices())
        assert [choice.part.n_ways for choice in choices] == [5, 9]
        weights = []
        for choice, weight in zip(choices, base_measure(choices), strict=True):
            assert isinstance(choice.ways, ScoredSplits)
            scores = np.repeat(choice.ways.scores, choice.ways.n_ways)
            weights.append(weight * np.exp(eta * scores.astype(float)))
        whole = np.concatenate(weights)
        return np.asarray(whole / whole.sum())

    told, age = np.array([[5, 0], [0, 2], [3, 1], [0, 0], [1, 1]]), np.zeros((10, 2), np.int64)
    age[3], age[8] = (5, 2), (4, 2)
    before, worst = chances(told, age), 0.0
    for value in range(5):
        for at in range(10):
            for cls in range(2):
                more, older = told.copy(), age.copy()
                more[value, cls] += 1
                older[at, cls] += 1
                loss = np.abs(np.log(chances(more, older) / before)).max()
                worst = max(worst, float(loss))
    assert 0 < worst <= float(epsilon) + 1e-12


# --- counts ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 200), min_size=1, max_size=40), st.integers(-5, 3000))
@settings(max_examples=60, deadline=None)
def test_least_squares_counts_are_the_closest(noisy: list[int], total: int) -> None:
    raw = np.array(noisy, np.int64)
    fitted = project_integers_to_simplex(raw, total)
    assert fitted.min() >= 0
    assert fitted.sum() == max(0, total)
    if total > 0:  # the conditions of the minimum, up to rounding: one shift for all above 0
        shift = raw - fitted
        above = fitted > 1
        if above.any():
            assert shift[above].max() - shift[above].min() <= 2
            assert (raw[fitted == 0] <= shift[above].max() + 1).all()


def test_groups_beyond_a_million_million() -> None:
    """40 columns of 10 values: 10**40 cells, more than fit a 64-bit key."""
    domain = Domain({f"x{i}": 10 for i in range(40)})
    groups = DomainMechanism(domain=domain, rate=Fraction(1, 2), max_cells=500)
    occupied = np.zeros((2, 40), np.int64)
    occupied[1] = 9
    cells = groups.add(occupied, np.array([10**6, 10**6]), SecureNoise())
    assert groups.threshold is not None
    assert cells.noisy.min() >= groups.threshold
    assert 200 < len(cells.noisy) < 900  # at most about 500 empty ones; 6 standard deviations
    assert (cells.codes[0] == 0).all()
    assert (cells.codes[-1] == 9).all()
    ranks = [domain.rank(row) for row in cells.codes.tolist()]
    assert ranks == sorted(set(ranks))


# --- releases -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("diffgen") / "out"
    return publish(sample(), sample_schema(), DiffGen(epsilon=2, specializations=6), out=folder)


def test_rows_have_labels_or_drawn_values(release: Release) -> None:
    frame, drawn = release.frame(), release.frame(drawn=True)
    assert frame.num_rows == drawn.num_rows == sum(release.table().column("count").to_pylist())
    assert drawn.column_names == frame.column_names == list(release.schema.attributes)
    engine = connect(drawn, Schema.from_dict(release.schema.to_dict() | {
        "columns": {n: c for n, c in release.schema.to_dict()["columns"].items() if n != "visit"}
    }))  # fmt: skip
    assert engine.rule_breaks() == []
    again = release.generalize(drawn)
    assert again.equals(frame)  # drawn inside each cell: mapping back gives the labels


@pytest.mark.parametrize("make", [lambda t: t, pl.from_arrow, lambda t: t.to_pandas()])
def test_any_table_is_mapped_to_the_cuts(release: Release, make: Any) -> None:
    mapped = release.generalize(make(sample().select(["age", "sex", "region"])))
    assert mapped.column_names == ["age", "sex", "region"]
    assert mapped.num_rows == 12000
    for name in mapped.column_names:
        labels = set(release.table().column(name).to_pylist())
        assert set(mapped.column(name).to_pylist()) <= labels


def test_tables_that_do_not_fit_are_not_mapped(release: Release) -> None:
    with pytest.raises(DataError, match="none of the release's columns"):
        release.generalize(pd.DataFrame({"height": [180]}))
    # Out-of-domain values are recorded as they were for the release.
    ages = release.generalize(pd.DataFrame({"age": [180, 99]}))["age"].to_pylist()
    assert ages[0] == ages[1]
    with pytest.raises(DataError, match="only a table in memory"):
        release.generalize("rows.csv")


def test_other_releases_have_no_cuts(tmp_path: Path) -> None:
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize={"age": 20})
    other = publish(sample(), sample_schema(), method, out=tmp_path / "out")
    with pytest.raises(ReleaseError, match="no cuts"):
        other.generalize(sample())
    with pytest.raises(ReleaseError, match="omit drawn"):
        other.frame(drawn=True)


def test_the_cuts_are_exported_and_drawn(release: Release) -> None:
    document = json.loads((release.folder / "statement.json").read_text())
    assert len(document["estimator"]["specializations"]) == 6
    drawing = (release.folder / "cuts.svg").read_text()
    texts = [e.text or "" for e in ElementTree.fromstring(drawing).iter() if e.text]  # noqa: S314
    for at, done in enumerate(document["estimator"]["specializations"], start=1):
        assert any(f"{done['part']}  (split {at})" in text for text in texts)
    assert "](cuts.svg)" in (release.folder / "STATEMENT.md").read_text()


def test_a_changed_drawing_is_noticed(tmp_path: Path) -> None:
    made = publish(ROWS, SMALL, DiffGen(epsilon=1, specializations=2), out=tmp_path / "out")
    (made.folder / "cuts.svg").write_text("<svg/>")
    with pytest.raises(ReleaseError, match=r"cuts\.svg was changed"):
        Release.load(made.folder)


def test_counts_separate_noise_from_model_error(release: Release) -> None:
    everyone = release.count("TRUE")
    assert everyone.model_std == 0
    assert everyone.privacy_std > 0
    starts = [*release.statement.estimator["columns"]["age"]["starts"], 100]
    width, first = max((end - start, start) for start, end in pairwise(starts))
    whole = release.count(f"age BETWEEN {first} AND {first + width - 1}")
    assert whole.model_std == 0
    assert whole.notes == ()
    part = release.count(f"age BETWEEN {first} AND {first + width // 2}")
    assert part.model_std > 0
    assert part.privacy_std < whole.privacy_std
    assert "spread evenly" in part.notes[0]


def test_sums_over_empty_groups_are_unbiased_above_a_threshold() -> None:
    """Without rows, estimates average to 0; 60 releases, six standard errors."""
    four = {"type": "categorical", "values": list("abcd"), "taxonomy": {"any": list("abcd")}}
    columns = {f"x{i}": four for i in range(6)}
    schema = make_schema(columns, rows=0)
    method = DiffGen(epsilon=1, specializations=6, score="max", max_groups=300)
    empty = pa.table({name: pa.array([], pa.string()) for name in [*columns, "class"]})
    found = []
    for _ in range(60):
        released = method.run(connect(empty, schema), SecureNoise())
        assert released.settings["threshold"] is not None
        estimator = GeneralizedEstimator(
            schema, method.parameters(), released.settings, released.tables
        )
        shares = np.ones(released.tables["data"].num_rows)
        value = float(shares @ estimator.counts)
        value += estimator._left_out[0] * (estimator.n_groups - len(shares))
        spread = estimator._sum(shares, float(estimator.n_groups)).privacy_std
        found.append(value / spread)
    assert abs(np.mean(found)) < 6 / np.sqrt(60) * 1.2


@pytest.mark.parametrize("max_rows", [1, 3])
def test_class_sizes_get_noise_for_what_they_pay(max_rows: int) -> None:
    """A fiftieth of epsilon; all rows of a person may be in one class."""
    scales: list[Fraction] = []

    class Listened(SecureNoise):
        def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
            scales.append(scale)
            return super().discrete_laplace(scale, size=size)

    unit = {"kind": "person", "column": "who", "max_rows": max_rows}
    schema = make_schema({"who": {"role": "identifier"}, "age": AGE}, unit=unit)
    rows = ROWS.append_column("who", pa.array([0, 1, 2, 3]))
    method = DiffGen(epsilon=2, specializations=1)
    released = method.run(connect(rows, schema, engine="memory"), Listened())
    assert scales[0] == max_rows / (method.epsilon / 50)
    assert Fraction(released.settings["class_sizes_scale"]) == scales[0]
    split = method.forecast(schema, None).split
    assert sum(split.values()) == method.epsilon
    assert method.epsilon / 50 in split.values()


def test_the_number_of_splits_is_chosen_from_rows_that_are_paid_for_or_public() -> None:
    """The public number of rows is that of the counted rows only if each row is a unit."""
    columns = {
        "who": {"role": "identifier"},
        "x": {"type": "integer", "low": 0, "high": 99},
        "y": {"type": "categorical", "values": ["a", "b"], "role": "target"},
    }
    person = {"kind": "person", "column": "who", "max_rows": 2}
    for known, paid in (
        ({}, True),
        ({"rows": 5000}, False),
        ({"rows": 5000, "unit": person}, True),
    ):
        schema = Schema.from_dict({"name": "t", "columns": columns, **known})
        split = DiffGen(epsilon=1, score="max").forecast(schema, 5000).split
        assert len(split) == (3 if paid else 2), split
        assert sum(split.values()) == 1


@pytest.mark.parametrize(
    ("score", "reached"),
    [
        (Max(), 1),
        (BalancedMax.of_sizes(np.array([300, 100])), 3 * WEIGHT),
        (BalancedGain.of_sizes(np.array([300, 100])), 3 * WEIGHT),
        (InformationGain(), 1 << BITS),
        (TotalVariation(), 4),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_one_row_moves_no_score_beyond_its_sensitivity_which_is_reached(
    score: Score, reached: int
) -> None:
    """All 2 by 2 tables with up to 14 rows in a cell, and each row that may be added."""
    tables = np.stack(np.meshgrid(*[np.arange(15)] * 4, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    before = score.of(tables)
    changes = []
    for child, of_class in product(range(2), repeat=2):
        after = tables.copy()
        after[:, child, of_class] += 1
        changes.append(score.of(after) - before)
    most = int(np.abs(changes).max())
    assert reached == most <= score.sensitivity(n_classes=2) <= reached + 1
    assert score.monotone == bool(np.min(changes) >= 0)
    moved = score.moved(Sensitivity(rows=1), 2).l1
    assert int(np.max(changes) - np.min(changes)) <= moved


def test_every_empty_cell_of_a_large_domain_is_gone_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If all reached the threshold, all would be listed in addition to the occupied ones."""
    domain = Domain({"a": 5, "b": 7, "c": 3})
    asked = []

    def all_reach(n: int, **_: Any) -> list[int]:
        asked.append(n)
        return list(range(n))

    monkeypatch.setattr("hushtable.privacy.mechanisms.cells.indices_above_threshold", all_reach)
    mechanism = DomainMechanism(domain=domain, rate=Fraction(1), max_cells=20)
    assert mechanism.threshold is not None
    places = np.array([0, 1, 17, 50, 51, 103])  # at both ends, and beside each other
    codes, counts = domain.grid()[places], np.full(len(places), 10**6)
    shown = mechanism.add(codes, counts, SecureNoise())
    assert asked == [domain.size - len(places)]
    assert np.array_equal(shown.codes, domain.grid())
    assert np.flatnonzero(shown.noisy > 10**5).tolist() == places.tolist()
    assert shown.noisy.min() >= mechanism.threshold
