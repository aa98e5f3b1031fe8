"""The methods that DiffGen is compared with: TDS, DiffP-C4.5 and the contingency table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods import ContingencyTable, TopDownSpecialization
from hushtable.methods.diffgen.dp_c45 import DecisionTree, DpC45
from hushtable.methods.diffgen.estimator import GeneralizedEstimator
from hushtable.privacy.guarantee import KAnonymity, PureDP, Unit
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "age": {"type": "integer", "low": 0, "high": 9, "missing": "category"},
            "kind": {"type": "categorical", "values": ["a", "b"]},
            "class": {"type": "categorical", "values": ["Y", "N"], "role": "target"},
        },
    }
)


def rows(n: int = 600) -> pa.Table:
    """Make rows whose class is Y below age 5."""
    age = np.arange(n) % 10
    return pa.table(
        {
            "age": age,
            "kind": np.where(age % 2 == 0, "a", "b"),
            "class": np.where(age < 5, "Y", "N"),
        }
    )


# --- TDS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 25, 400])
def test_every_group_has_k_rows(k: int) -> None:
    method = TopDownSpecialization(k=k)
    assert method.guarantee(sample_schema()) == (KAnonymity(k=k),)
    released = method.run(connect(sample(), sample_schema()), SecureNoise())
    data = released.tables["data"]
    identifying = [n for n in sample_schema().attributes if n != "diagnosis"]
    sizes = data.group_by(identifying).aggregate([("count", "sum")])
    assert min(sizes.column("count_sum").to_pylist()) >= k
    assert sum(data.column("count").to_pylist()) == 12000
    assert "noisy_count" not in data.column_names
    assert released.settings["specializations"]


def test_tds_finds_the_split_that_separates_the_classes() -> None:
    released = TopDownSpecialization(k=5).run(connect(rows(), SCHEMA), SecureNoise())
    first = released.settings["specializations"][0]
    # No age is missing: that group is empty, and empty groups are not published.
    assert first["column"] == "age"
    assert first["into"] == ["0 to 4", "5 to 9", "missing"]


def test_fewer_than_k_rows_are_not_listed() -> None:
    method = TopDownSpecialization(k=5)
    released = method.run(connect(rows(4), SCHEMA), SecureNoise())
    assert released.tables["data"].num_rows == 0


# --- DiffP-C4.5 -----------------------------------------------------------------------------------


def test_the_budget_of_a_tree_adds_up() -> None:
    method = DpC45(epsilon=1, depth=4)
    step = method.step_epsilon(SCHEMA)
    assert 4 * (1 + 1 + 1) * step + 2 * step == 1  # rows, one numeric split and a choice per level
    (promise,) = method.guarantee(SCHEMA)
    assert isinstance(promise, PureDP)
    assert promise.epsilon == Fraction(1)


def test_a_tree_learns_what_there_is_to_learn() -> None:
    tree = DpC45(epsilon=20, depth=2).fit(connect(rows(), SCHEMA), SecureNoise())
    age = np.arange(10)
    found = tree.predict({"age": age, "kind": age % 2})
    assert found.tolist() == [0] * 5 + [1] * 5
    assert (tree.column, tree.split) == ("age", 5)  # the next best is e**-75 as likely


def test_too_few_rows_make_a_leaf() -> None:
    tree = DpC45(epsilon="1/10", depth=3).fit(connect(rows(10), SCHEMA), SecureNoise())
    assert tree.column is None
    assert len(tree.counts) == 2


def test_empty_branches_exist() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "kind": {"type": "categorical", "values": ["a", "b", "c"]},
                "class": {"type": "categorical", "values": ["Y", "N"], "role": "target"},
            },
        }
    )
    table = pa.table({"kind": ["a", "b"] * 500, "class": ["Y", "N"] * 500})
    tree = DpC45(epsilon=5, depth=1).fit(connect(table, schema), SecureNoise())
    assert len(tree.children) == 3


def test_an_empty_branch_is_predicted_by_its_parent() -> None:
    leaf, empty = DecisionTree((9, 1)), DecisionTree((-3, 1))
    tree = DecisionTree((6, 2), "kind", None, (leaf, empty))
    assert tree.predict({"kind": np.array([0, 1])}).tolist() == [0, 0]


# --- the contingency table ------------------------------------------------------------------------


def test_all_combinations_are_published_and_counted() -> None:
    method = ContingencyTable(epsilon=2)
    released = method.run(connect(rows(), SCHEMA), SecureNoise())
    assert released.tables["data"].num_rows == SCHEMA.domain.size == 44
    estimator = GeneralizedEstimator(
        SCHEMA, method.parameters(), released.settings, released.tables
    )
    answer = estimator.count("age < 5 AND class = 'Y'")
    assert answer.model_std == 0
    assert abs(answer.value - 300) < 60  # ten cells of standard deviation 0.6
    assert estimator.generalize({"age": np.arange(3)}).column("age").to_pylist() == [0, 1, 2]


def test_large_domains_are_refused() -> None:
    with pytest.raises(TooLarge, match="44 combinations; contingency-table publishes all"):
        ContingencyTable(epsilon=1, max_cells=43).guarantee(SCHEMA)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (ContingencyTable, {"epsilon": 0}, "epsilon is 0"),
        (ContingencyTable, {"epsilon": 1, "max_cells": 0}, "max_cells is 0"),
        (TopDownSpecialization, {"k": 1}, "k is 1"),
        (DpC45, {"epsilon": 1, "depth": 0}, "depth is 0"),
        (DpC45, {"epsilon": "x"}, "epsilon"),
    ],
)
def test_bad_parameters(kind: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        kind(**given)


def test_bad_schemas() -> None:
    nodes = SCHEMA.model_copy(update={"unit": Unit(kind="node")})
    for method in (ContingencyTable(epsilon=1), TopDownSpecialization(k=2), DpC45(epsilon=1)):
        with pytest.raises(ParameterError, match="unit is node"):
            method.guarantee(nodes)  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="is numeric"):
        DpC45(epsilon=1, target="age").guarantee(SCHEMA)
