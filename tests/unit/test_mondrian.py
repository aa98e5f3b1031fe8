"""Mondrian: groups of at least k, halved at medians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, Refused
from hushtable.methods.partition.mondrian import BoxEstimator, Mondrian, MondrianGroups, box_tables
from hushtable.privacy.guarantee import KAnonymity
from hushtable.schema import Schema
from seeds import shifted

SQUARE = Schema.from_dict(
    {"name": "square", "columns": {
        "x": {"type": "integer", "low": 0, "high": 9},
        "y": {"type": "integer", "low": 0, "high": 9},
        "c": {"type": "categorical", "values": ["+", "-"], "role": "target"}}}
)  # fmt: skip


def groups(x: list[int], y: list[int], c: str, **parameters: Any) -> MondrianGroups:
    table = pa.table({"x": x, "y": y, "c": list(c)})
    return Mondrian(**parameters).groups(connect(table, SQUARE))


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("k", [2, 25])
def test_every_group_has_k_rows_and_no_row_is_lost(relaxed: bool, by_class: bool, k: int) -> None:
    table, schema = sample(), sample_schema()
    method = Mondrian(k=k, relaxed=relaxed, by_class=by_class)
    assert method.guarantee(schema) == (KAnonymity(k=k),)
    found = method.groups(connect(table, schema))
    assert found.counts.sum(axis=1).min() >= k
    diagnoses = schema.attributes["diagnosis"]
    by_hand = [
        sum(value == diagnoses.value(code) for value in table["diagnosis"].to_pylist())
        for code in range(7)
    ]
    assert found.counts.sum(axis=0).tolist() == by_hand
    release = BoxEstimator(schema, method.parameters(), {}, box_tables(schema, found))
    assert release.frame().num_rows == 12_000
    if relaxed:  # halves are equal, so no remaining group can be halved
        assert found.counts.sum(axis=1).max() < 2 * k or k == 2


def test_strict_boxes_do_not_overlap() -> None:
    rng = np.random.default_rng(shifted(0))
    x, y = rng.integers(0, 10, 300).tolist(), rng.integers(0, 10, 300).tolist()
    found = groups(x, y, "+" * 300, k=5)
    inside = [
        ((first <= np.stack((x, y), axis=1)) & (np.stack((x, y), axis=1) <= last)).all(axis=1)
        for first, last in zip(found.first, found.last, strict=True)
    ]
    assert (np.sum(inside, axis=0) == 1).all()
    assert [int(rows.sum()) for rows in inside] == found.counts.sum(axis=1).tolist()


def test_equal_values_stay_together_unless_relaxed() -> None:
    x = [3] * 9 + [4]
    strict = groups(x, [0] * 10, "+" * 10, k=2)
    assert strict.counts.sum(axis=1).tolist() == [10]
    relaxed = groups(x, [0] * 10, "+" * 10, k=2, relaxed=True)
    # The left half has only the value 3 and no width; the right one is halved again.
    assert sorted(relaxed.counts.sum(axis=1).tolist()) == [2, 3, 5]


def test_the_widest_column_is_split_or_the_one_that_predicts_the_class() -> None:
    x, y = [0, 0, 9, 9], [4, 5, 4, 5]
    assert groups(x, y, "+-+-", k=2).first.tolist() == [[0, 4], [9, 4]]
    by_class = groups(x, y, "+-+-", k=2, by_class=True)
    assert by_class.counts.tolist() == [[2, 0], [0, 2]]
    assert by_class.last.tolist() == [[9, 4], [9, 5]]


def test_what_is_refused() -> None:
    with pytest.raises(Refused, match="fewer than k = 5"):
        groups([1, 2], [1, 2], "+-", k=5)
    with pytest.raises(ParameterError, match="k is 1"):
        Mondrian(k=1)
    with pytest.raises(ParameterError, match="relaxed is 'no'"):
        Mondrian(k=5, relaxed="no")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="target 'z'"):
        Mondrian(k=5, target="z").guarantee(SQUARE)
    plain = Schema.from_dict({"name": "t", "columns": {"x": {"type": "integer", "low": 0,
                                                            "high": 1}}})  # fmt: skip
    with pytest.raises(ParameterError, match="by_class needs a target"):
        Mondrian(k=5, by_class=True).guarantee(plain)
    with pytest.raises(ParameterError, match="only column"):
        Mondrian(k=5, target="x").guarantee(plain)


# --- public cuts ----------------------------------------------------------------------------------


def _line(values: list[int], k: int) -> list[tuple[int, int, int]]:
    """Return the groups of one column of 0 to 63: first, last and number of rows."""
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 63}}}
    )
    groups = Mondrian(k=k, cuts="middle").groups(connect(pa.table({"x": values}), schema))
    return sorted(
        zip(groups.first[:, 0].tolist(), groups.last[:, 0].tolist(),
            groups.counts.sum(axis=1).tolist(), strict=True)
    )  # fmt: skip


def test_public_cuts_show_regions_and_no_values_of_rows() -> None:
    """The paper's example: 20, 80 and 150 thousand, and 20 million."""
    assert _line([5, 9, 35, 60], 2) == [(0, 31, 2), (32, 63, 2)]
    assert _line([5, 9, 35, 36], 2) == [(0, 31, 2), (32, 63, 2)]
    assert _line([3, 4, 20, 21, 40, 41, 42], 2) == [(0, 15, 2), (16, 31, 2), (32, 63, 3)]


def test_a_row_may_be_replaced_within_its_region_without_any_change() -> None:
    rng = np.random.default_rng(shifted(3))
    for _ in range(60):
        values, k = rng.integers(0, 64, 12).tolist(), int(rng.integers(2, 5))
        before = _line(values, k)
        assert sum(n for _, _, n in before) == 12
        assert all(n >= k for _, _, n in before)
        for place, value in enumerate(values):
            first, last, _ = next(g for g in before if g[0] <= value <= g[1])
            others = {v for at, v in enumerate(values) if at != place and first <= v <= last}
            assert any(
                _line([*values[:place], other, *values[place + 1 :]], k) == before
                for other in others
            )


def test_public_cuts_take_no_look_at_rows_for_columns() -> None:
    with pytest.raises(ParameterError, match="use the rows"):
        Mondrian(k=2, cuts="middle", by_class=True)
    with pytest.raises(ParameterError, match="use the rows"):
        Mondrian(k=2, cuts="middle", relaxed=True)
