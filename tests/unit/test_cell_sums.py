"""Sums over cells that a condition splits: rows of a cell may be anywhere in it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hushtable.numeric import NORMAL
from hushtable.query.answers.cell_sums import PublishedCells
from hushtable.query.answers.row_sums import RowFunction, is_code, power, present
from hushtable.query.where.code_classes import CodeSets
from hushtable.schema import Integer, Schema

SCHEMA = Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "pay": {"type": "integer", "low": 0, "high": 99, "missing": "category"},
            "group": {"type": "categorical", "values": ["a", "b", "c"]},
            "age": {"type": "integer", "low": 0, "high": 8},
        },
    }
)
PAY, GROUP = SCHEMA.attributes["pay"], SCHEMA.attributes["group"]
assert isinstance(PAY, Integer)


def cells() -> PublishedCells:
    """Return one cell of the whole domain, and one of the upper half of pay without missing."""
    none = np.zeros(1, np.int64)
    pay = CodeSets(2, np.array([0, 1]), np.array([0, 50]), np.array([PAY.size - 1, 99]))
    group = CodeSets(1, none, none, none + 2)
    age = CodeSets(1, none, none, none + 8)
    codes = {"pay": np.array([0, 1]), "group": np.array([0, 0]), "age": np.array([0, 0])}
    return PublishedCells(SCHEMA, {"pay": pay, "group": group, "age": age}, codes)


def between(low: int, high: int) -> RowFunction:
    codes = np.arange(PAY.size)
    return RowFunction({"pay": ((codes >= low) & (codes <= high)).astype(np.float64)})


ASKED = {
    "present": [present("pay", PAY)],
    "a number and who has it": [power("pay", PAY, 1), present("pay", PAY)],
    "above": [between(90, 99)],
    "at one value": [between(0, 0), present("pay", PAY)],
    "in a group": [
        power("pay", PAY, 1) * is_code("group", GROUP, 1),
        present("pay", PAY) * is_code("group", GROUP, 1),
        is_code("group", GROUP, 1),
    ],
}


@pytest.mark.parametrize("name", ASKED)
def test_rows_may_be_anywhere_in_a_cell(name: str) -> None:
    functions, found = ASKED[name], cells()
    rng = np.random.default_rng(5)
    for one_cell in (0, 1):
        counts = np.eye(2)[one_cell] * 1000.0
        model = found.inside(functions, counts, together=True)
        values = np.stack([found.means(one) for one in functions]) @ counts
        pays = range(50 * one_cell, 101 - one_cell)
        codes = np.array(list(product(pays, range(3), range(9))))
        rows = dict(zip(("pay", "group", "age"), codes.T, strict=True))
        truths = 1000.0 * np.stack([one.values(rows) for one in functions])
        weights = np.vstack([np.eye(len(functions)), rng.normal(size=(200, len(functions)))])
        reach = NORMAL * np.sqrt(np.einsum("wi,ij,wj->w", weights, model, weights))
        off = np.abs(weights @ (truths - values[:, None])).max(axis=1)
        assert (off <= reach * 1.001 + 1e-6).all(), (off / np.maximum(reach, 1e-9)).max()
        assert np.linalg.eigvalsh(model)[0] > -1e-6 * max(1.0, float(model.max()))


def test_what_no_condition_cuts_has_the_variance_of_the_cell() -> None:
    factor = power("pay", PAY, 1).factors["pay"]
    model = cells().inside([RowFunction({"pay": factor})], np.array([0.0, 1000.0]), together=True)
    assert model[0, 0] == pytest.approx(1000.0**2 * np.var(factor[50:100]))


def test_it_is_a_covariance_whatever_columns_functions_have() -> None:
    along = np.linspace(-1, 1, 9)
    pay = power("pay", PAY, 1).factors["pay"]
    groups = [is_code("group", GROUP, code) for code in range(3)]
    numbers = [RowFunction({"pay": 2.0 + pay}), RowFunction({"age": 2.0 + along})]
    functions = [*groups, *numbers, *(one * group for one in numbers for group in groups)]
    model = cells().inside(functions, np.array([700.0, 300.0]), together=True)
    assert np.linalg.eigvalsh(model)[0] > -1e-9 * float(model.max())
