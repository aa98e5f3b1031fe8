"""k, l and t of tables, compared with hand calculations and a linear program."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from hushtable.errors import DataError, ParameterError
from hushtable.evaluation.risk.anonymity import check, measure, requirements
from hushtable.schema import Integer, Schema
from hushtable.schema.recoding import recode
from seeds import shifted

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(0, 2),
        st.sampled_from([1, 2, 5, 9, None]),
    ),
    min_size=1,
    max_size=25,
)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    q1, q2, s = zip(*rows, strict=True)
    return pa.table(
        {
            "q1": pa.array(q1, pa.string()),
            "q2": pa.array(q2, pa.int64()),
            "s": pa.array(s, pa.int64()),
        }
    )


def grouped(rows: list[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    groups = defaultdict(list)
    for q1, q2, s in rows:
        groups[q1, q2].append(s)
    return groups


def earth_movers_distance(p: np.ndarray, q: np.ndarray, cost: np.ndarray) -> float:
    """Solve the transport problem by its definition."""
    m = len(p)
    leaving = np.kron(np.eye(m), np.ones(m))
    arriving = np.kron(np.ones(m), np.eye(m))
    solved = linprog(cost.ravel(), A_eq=np.vstack((leaving, arriving)), b_eq=np.concatenate((p, q)))
    return float(solved.fun)


def farthest(rows: list[tuple[Any, ...]], *, ordered: bool) -> float:
    values = sorted({s for _, _, s in rows}, key=lambda v: (v is None, v))
    m = len(values)
    if m == 1:
        return 0.0
    place = np.arange(m)
    cost = np.abs(place[:, None] - place) / (m - 1) if ordered else 1.0 - np.eye(m)

    def shares(held: list[Any]) -> np.ndarray:
        counts = Counter(held)
        return np.array([counts[value] for value in values]) / len(held)

    overall = shares([s for _, _, s in rows])
    return max(
        earth_movers_distance(shares(held), overall, cost) for held in grouped(rows).values()
    )


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_k_and_l_as_counted_by_hand(rows: list[tuple[Any, ...]]) -> None:
    found = measure(table_of(rows), quasi=["q1", "q2"], sensitive=["s"])
    groups = grouped(rows)
    assert found.k == min(map(len, groups.values()))
    assert found.n_groups == len(groups)
    assert found.l["s"] == min(len(set(held)) for held in groups.values())


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_t_is_the_earth_movers_distance(rows: list[tuple[Any, ...]]) -> None:
    table = table_of(rows)
    assert measure(table, quasi=["q1", "q2"], sensitive=["s"]).t["s"] == pytest.approx(
        farthest(rows, ordered=True), abs=1e-8
    )
    as_text = table.set_column(2, "s", table.column("s").cast(pa.string()))
    assert measure(as_text, quasi=["q1", "q2"], sensitive=["s"]).t["s"] == pytest.approx(
        farthest(rows, ordered=False), abs=1e-8
    )


def test_the_schema_says_which_texts_have_an_order() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "zip": {"type": "categorical", "values": ["x", "y"]},
                "level": {"type": "categorical", "values": ["low", "mid", "high"], "ordered": True},
            },
        }
    )
    table = pa.table({"zip": list("xxyy"), "level": ["low", "mid", "mid", "high"]})
    plain = measure(table, quasi=["zip"], sensitive=["level"])
    ordered = measure(table, quasi=["zip"], sensitive=["level"], schema=schema)
    assert plain.t["level"] == pytest.approx(0.25)
    assert ordered.t["level"] == pytest.approx((0.25 + 0.25) / 2)


def test_intervals_keep_the_order_of_their_numbers() -> None:
    age = Integer(type="integer", low=0, high=99)
    cut = recode("age", age, [9, 80])
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "zip": {"type": "categorical", "values": ["x", "y"]},
                "age": {"type": "integer", "low": 0, "high": 99},
            },
        }
    )
    labels = [cut.labels[place] for place in (0, 1, 1, 2)]
    table = pa.table({"zip": list("xxyy"), "age": labels})
    found = measure(table, quasi=["zip"], sensitive=["age"], schema=schema, recode={"age": cut})
    assert found.t["age"] == pytest.approx(0.25)


def test_nan_is_a_missing_value_and_odd_types_are_grouped_too() -> None:
    table = pa.table(
        {
            "x": pa.array([1.0, float("nan"), None, 1.0]),
            "tags": pa.array([["a"], ["b"], ["b"], ["a"]]),
            "day": pa.array([1, 2, 2, 1], pa.date32()),
            "d": pa.array(["u", "v", "v", "u"]).dictionary_encode(),
        }
    )
    assert measure(table, quasi=["x", "tags", "day", "d"]).k == 2


def test_chunks_with_dictionaries_of_their_own() -> None:
    one = pa.array(["u", "v"]).dictionary_encode()
    two = pa.array(["v", "u"]).dictionary_encode()
    table = pa.table({"d": pa.chunked_array([one, two])})
    assert measure(table, quasi=["d"]).k == 2


def test_many_wide_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(shifted(1))
    table = pa.table({f"c{i}": rng.permutation(50_000) for i in range(6)})
    found = measure(table, quasi=table.column_names)
    assert (found.k, found.n_groups) == (1, 50_000)


def test_verdicts() -> None:
    table = pa.table({"zip": list("aabbb"), "ill": ["flu", "cold", "flu", "flu", "cold"]})
    found = measure(table, quasi=["zip"], sensitive=["ill"])
    verdicts = check(found, requirements(["k=2", "l=3,t=0.1"]))
    assert [verdict.holds for verdict in verdicts] == [True, False, True]
    assert verdicts[0].found == 2
    exactly = check(found, requirements([f"t={found.t['ill']!r}"]))
    assert exactly[0].holds


@pytest.mark.parametrize("text", ["k", "k=", "k=1.5", "t=2", "t=-1", "m=2", "", "k=five"])
def test_a_requirement_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        requirements([text])


def test_what_cannot_be_measured_is_refused_with_all_problems() -> None:
    table = pa.table({"zip": ["a"]})
    with pytest.raises(ParameterError) as refusal:
        measure(table, quasi=["zap"], sensitive=["ill"])
    assert len(refusal.value.problems) == 2
    with pytest.raises(DataError, match="no rows"):
        measure(table.slice(0, 0), quasi=["zip"])
    with pytest.raises(ParameterError, match="--sensitive"):
        check(measure(table, quasi=["zip"]), requirements(["l=2"]))
