"""Components of attacks, and unusual tables that must not stop them."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import hypergeom
from sklearn.metrics import roc_auc_score

from hushtable.datasets import sample, sample_schema
from hushtable.errors import DataError
from hushtable.evaluation.risk import linkability, membership
from hushtable.evaluation.risk.attack import Outcome, Rate, difference, make_attack_tables
from hushtable.evaluation.risk.attacks import assess
from hushtable.evaluation.risk.singling_out import AT_LEAST, AT_MOST, EQUAL, Description
from hushtable.kernels.nearest import nearest, nearest_without_each
from hushtable.methods import (
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    TopDownSpecialization,
    Uncertain,
)
from hushtable.publishing.publish import publish
from hushtable.schema import Schema
from hushtable.schema.recoding import recode
from population import SCHEMA, people
from seeds import shifted


def slow_distance(x: np.ndarray, y: np.ndarray, ordered: np.ndarray) -> float:
    total = 0.0
    for a, b, is_ordered in zip(x, y, ordered, strict=True):
        if np.isnan(a) and np.isnan(b):
            continue
        if np.isnan(a) or np.isnan(b):
            total += 1.0
        else:
            total += abs(a - b) if is_ordered else float(a != b)
    return total


@pytest.mark.parametrize("n_neighbors", [1, 3, 7])
def test_nearest_records_are_those_of_all_comparisons(n_neighbors: int) -> None:
    rng = np.random.default_rng(shifted(n_neighbors))
    ordered = np.array([True, False, True, False])
    targets, published = (
        np.where(ordered, rng.random((n, 4)).round(1), rng.integers(0, 3, (n, 4))) for n in (30, 50)
    )
    targets[rng.random(targets.shape) < 0.1] = np.nan
    published[rng.random(published.shape) < 0.1] = np.nan
    places, distances = nearest(targets, published, ordered=ordered, n_neighbors=n_neighbors)
    for target, near, far in zip(targets, places, distances, strict=True):
        all_of_them = [slow_distance(target, one, ordered) for one in published]
        assert far == pytest.approx(sorted(all_of_them)[:n_neighbors])
        assert len(set(near.tolist())) == n_neighbors
        assert [all_of_them[place] for place in near] == pytest.approx(far.tolist())


def test_nearest_records_without_each_column_are_those_of_all_comparisons() -> None:
    rng = np.random.default_rng(shifted(5))
    ordered = np.array([True, False, True, False, True])
    targets, published = (
        np.where(ordered, rng.random((n, 5)).round(1), rng.integers(0, 3, (n, 5)))
        for n in (40, 300)
    )
    targets[rng.random(targets.shape) < 0.1] = np.nan
    published[rng.random(published.shape) < 0.1] = np.nan
    places = nearest_without_each(targets, published, ordered=ordered, seed=shifted(2))
    for column in range(5):
        known = [other for other in range(5) if other != column]
        for target, near in zip(targets[:, known], places[:, column], strict=True):
            by_all = [slow_distance(target, one, ordered[known]) for one in published[:, known]]
            assert by_all[near] == pytest.approx(min(by_all))


def test_ties_without_a_column_are_broken_at_random() -> None:
    # Without the first column, the distance is 0.3, although 0.1 + 0.2 != 0.3 in floats.
    ordered = np.array([True, True, True])
    published = np.array([[0.7, 0.1, 0.2], [0.4, 0.2, 0.1], [0.1, 0.3, 0.0], [0.9, 0.0, 0.3]])
    near = nearest_without_each(np.zeros((4000, 3)), published, ordered=ordered, seed=shifted(7))
    # Each is first with probability 1/4 in 4,000: 1,000 with a standard deviation of 27.
    assert np.abs(np.bincount(near[:, 0], minlength=4) - 1000).max() < 6 * 28
    assert nearest_without_each(np.zeros((2, 3)), published[:0], ordered=ordered).shape == (2, 3)


def test_nearest_records_of_few_or_no_published_ones() -> None:
    ordered = np.array([True])
    places, distances = nearest(
        np.array([[0.5]]), np.array([[0.0]]), ordered=ordered, n_neighbors=9
    )
    assert places.tolist() == [[0]]
    assert distances.tolist() == [[0.5]]
    places, _ = nearest(np.array([[0.5]]), np.empty((0, 1)), ordered=ordered)
    assert places.shape == (1, 0)


def test_the_probability_of_a_random_link() -> None:
    for n in (5, 9, 10, 11, 200):
        k = min(linkability.N_NEIGHBORS, n)
        assert linkability._chance(n) == pytest.approx(1 - hypergeom(n, k, k).pmf(0))


def test_the_area_under_the_curve_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(shifted(1))
    members, others = rng.integers(0, 6, 80) / 5, rng.integers(1, 8, 60) / 5
    found = membership._area(members, others)
    truth = np.repeat([1, 0], [80, 60])
    assert found.value == pytest.approx(roc_auc_score(truth, -np.concatenate((members, others))))
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low < found.value < found.high <= 1


def test_a_predicate_counts_the_matching_rows() -> None:
    table = np.asfortranarray([[0.1, 1.0], [0.2, np.nan], [0.3, 1.0], [0.3, 2.0]])
    for columns, relations, values, n in (
        ((0,), (AT_LEAST,), (0.2,), 3),
        ((0,), (AT_MOST,), (0.1,), 1),
        ((1,), (EQUAL,), (float("nan"),), 1),
        ((1, 0), (EQUAL, AT_LEAST), (1.0, 0.2), 1),
        ((1,), (EQUAL,), (9.0,), 0),
    ):
        assert Description(columns, relations, values).count(table, most=9) == n


def test_an_outcome_is_compared_with_the_control_if_given() -> None:
    outcome = Outcome(
        name="a", of="", attacker="Someone.", attack=Rate.of(900, 1000), control=Rate.of(500, 1000),
        naive=Rate.of(10, 1000),
    )  # fmt: skip
    assert outcome.reference == outcome.control
    assert outcome.succeeds
    assert outcome.to_dict()["compared_with"] == "control"
    none = Outcome(
        name="a", of="", attacker="Someone.", attack=Rate.of(0, 0), control=None, naive=None
    )
    assert not none.succeeds
    assert none.excess is None
    json.dumps(none.to_dict())


def test_an_insignificant_difference_is_not_a_success() -> None:
    outcome = Outcome(
        name="a", of="", attacker="Someone.", attack=Rate.of(540, 1000), control=Rate.of(490, 1000),
        naive=None,
    )  # fmt: skip
    assert difference(outcome.attack, Rate.of(490, 1000)).low > 0  # at 95% it would be significant
    assert not outcome.succeeds


ODD: dict[str, pa.Array] = {
    "decimal": pa.array([decimal.Decimal("12.5")] * 30 + [None] * 10),
    "date": pa.array([datetime.date(2024, 1, 1)] * 40),
    "boolean": pa.array([True, False] * 20),
    "list": pa.array([[1, 2], None] * 20),
    "bytes": pa.array([b"\xff", b"1"] * 20),
    "null": pa.nulls(40),
    "huge": pa.array([2**63 - 1, -(2**63)] * 20),
    "infinite": pa.array([float("inf"), float("-inf"), float("nan"), 1.0] * 10),
    "text": pa.array(["", "abc", "7", " 8 "] * 10),
    "dictionary": pa.array(["7", "8"] * 20).dictionary_encode(),
    "unsigned": pa.array([1, 200] * 20, pa.uint8()),
    "duration": pa.array([1, 2] * 20, pa.duration("s")),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_types_do_not_stop_an_attack(kind: str) -> None:
    table = people(40, 1)
    odd = table
    for name in ("age", "weight", "city", "job"):
        odd = odd.set_column(odd.column_names.index(name), name, ODD[kind])
    risk = assess(odd, odd, table, SCHEMA, None, np.random.default_rng(shifted(1)))
    json.dumps(risk.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("n_published", "n_control"), [(0, None), (0, 30), (1, 0), (1, 1), (2, None), (30, 1)]
)
def test_small_tables_do_not_stop_an_attack(n_published: int, n_control: int | None) -> None:
    control = None if n_control is None else people(max(n_control, 1), 3).slice(0, n_control)
    published = people(30, 2).slice(0, n_published)
    risk = assess(
        people(30, 1), published, control, SCHEMA, None, np.random.default_rng(shifted(1))
    )
    json.dumps(risk.to_dict(), allow_nan=False)
    assert (risk.anonymity is None) == (n_published == 0)


def test_one_column_has_nothing_to_link_or_infer() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"age": {"type": "integer", "low": 0, "high": 99}}}
    )
    table = people(50, 1).select(["age"])
    risk = assess(table, table, people(50, 2).select(["age"]), schema, None,
                  np.random.default_rng(shifted(1)))  # fmt: skip
    assert {outcome.name for outcome in risk.attacks} == {"singling out", "membership"}


def test_tables_that_share_no_column_are_refused() -> None:
    with pytest.raises(DataError, match="no column of the schema in common"):
        make_attack_tables(
            people(5, 1), pa.table({"x": [1]}), None, SCHEMA, {}, np.random.default_rng(shifted(1))
        )


def test_columns_missing_in_a_table_are_omitted_and_named() -> None:
    table = people(50, 1)
    risk = assess(
        table, table.drop(["city"]), None, SCHEMA, None, np.random.default_rng(shifted(1))
    )
    assert any("city" in note for note in risk.notes)
    assert not any("city" in outcome.of for outcome in risk.attacks)


def test_private_values_are_generalized_like_the_published_ones() -> None:
    thirds = {f"city {n}": str(n % 3) for n in range(20)}
    cuts: dict[str, Any] = {
        "age": recode("age", SCHEMA.attributes["age"], 20),
        "city": recode("city", SCHEMA.attributes["city"], thirds),
    }
    table = people(200, 1)
    published = table
    for name, cut in cuts.items():
        column = SCHEMA.attributes[name]
        if name == "age":
            codes = table.column(name).to_numpy()
        else:
            codes = np.array([column.values.index(v) for v in table.column(name).to_pylist()])  # type: ignore[union-attr]
        labels = pa.array([cut.labels[code] for code in cut.apply(codes)])
        published = published.set_column(published.column_names.index(name), name, labels)
    scene = make_attack_tables(
        table, published, None, SCHEMA, cuts, np.random.default_rng(shifted(1))
    )
    # The engine does not preserve the order of rows, and attacks do not depend on it.
    rows = [sorted(map(str, matrix.tolist())) for matrix in (scene.original, scene.published)]
    assert rows[0] == rows[1]
    assert scene.sizes[:3].tolist() == [5, 401, 3]
    assert scene.ordered.tolist() == [True, True, False, False, True, False]


@pytest.mark.parametrize(
    "method",
    [
        GeneralizeSuppress(k=5, generalize={"age": 20, "region": 1, "diagnosis": 1}),
        TopDownSpecialization(k=10),
        NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize={"age": 20, "region": 1}),
    ],
    ids=lambda method: method.name,
)
def test_releases_of_generalized_values(method: Method, tmp_path: Path) -> None:
    table, schema = sample().slice(0, 3000), sample_schema()
    release = publish(table, schema, method, out=tmp_path / "release")
    risk = assess(
        table,
        release.frame(),
        sample().slice(9000),
        schema,
        release,
        np.random.default_rng(shifted(1)),
    )
    assert risk.anonymity is not None
    assert any("generalized values" in note for note in risk.notes)
    if not isinstance(method, NoisyCounts):
        assert risk.anonymity.k >= method.k  # type: ignore[attr-defined]
    (linked,) = [outcome for outcome in risk.attacks if outcome.name == "linkability"]
    assert not linked.succeeds


def test_ties_are_broken_independently_for_each_target() -> None:
    ordered = np.array([False])
    published = np.zeros((10, 1))
    places, _ = nearest(
        np.zeros((5000, 1)), published, ordered=ordered, n_neighbors=2, seed=shifted(3)
    )
    # Each record is first with probability 0.1 in 5,000: 500 with a standard deviation of 21.
    assert np.abs(np.bincount(places[:, 0]) - 500).max() < 6 * 22
    assert (places[:, 0] != places[:, 1]).all()
    others, _ = nearest(
        np.zeros((5000, 1)), published, ordered=ordered, n_neighbors=2, seed=shifted(4)
    )
    assert abs(np.mean(others[:, 0] == places[:, 0]) - 0.1) < 0.03


def test_noisy_records_are_also_attacked_by_likelihood(tmp_path: Path) -> None:
    schema = Schema.from_dict(
        {
            "name": "points",
            "columns": {
                name: {"type": "number", "low": 0, "high": 100, "step": 0.5} for name in "xy"
            },
        }
    )
    rng = np.random.default_rng(shifted(1))
    table = pa.table({name: rng.integers(0, 201, 400) / 2 for name in "xy"})
    release = publish(table, schema, Uncertain(k=5), out=tmp_path / "release")
    risks = [
        assess(table, release.frame(), None, schema, release, np.random.default_rng(shifted(2)))
        for _ in range(2)
    ]
    (found,) = [o for o in risks[0].attacks if o.name == "likelihood linkage"]
    assert found.attack.n == 400
    assert found.naive is not None
    assert found.attack.value < 0.5
    assert {d.metric for d in found.details} == {
        "mean posterior of the owner",
        "records that fewer than k fit",
        "guessing within the level",
    }
    assert risks[0].to_dict() == risks[1].to_dict()  # the same seed gives the same report
