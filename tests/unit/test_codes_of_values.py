"""Conversion of published values to codes: vectorized if exact, otherwise one by one."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from hushtable.schema import Integer, Number
from hushtable.schema.codes import to_codes

COLUMNS = [
    Integer(type="integer", low=-5, high=90_000),
    Integer(type="integer", low=0, high=30, special={999: "never"}, missing="category"),
    Number(type="number", low=-3.3, high=700, step=0.1),
    Number(type="number", low=0.2, high=5.01, step=0.01, special={-1: "none"}, missing="category"),
    Number(type="number", low=1e9, high=1e9 + 1, step=1e-4),  # too many steps from zero
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.low} to {column.high}")
def test_every_code_comes_back(column: Integer | Number) -> None:
    codes = np.arange(column.size)
    values = [column.value(code) for code in codes.tolist()]
    assert to_codes(column, pa.chunked_array([values])).tolist() == codes.tolist()


def test_many_values_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(Integer, "code_of", refuse)
    column = COLUMNS[0]
    assert to_codes(column, pa.chunked_array([[-5, 90_000], [7]])).tolist() == [0, 90_005, 12]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_numbers_have_no_code(bad: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        to_codes(COLUMNS[2], pa.chunked_array([[1.0, bad]]))
