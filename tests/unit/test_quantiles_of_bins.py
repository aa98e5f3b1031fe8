"""Quantiles of columns with public bins: only whole bins are tested, and errors at one end stay.

The sums are given, so the tests are exact: 1,000 values in ten bins, with 900 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.moments import NumericQuery
from hushtable.query.answers.quantiles import quantile
from hushtable.query.answers.row_sums import ONE, RowFunction, SumEstimates
from hushtable.schema import Integer

COLUMN = Integer(type="integer", low=0, high=999)
BINS = np.arange(1000) // 100
ROWS = np.array([100.0, 200, 300, 200, 60, 20, 10, 5, 5, 0])


def ask_with(
    error: Callable[[int], float] = lambda _: 0.0, std: Callable[[int], float] = lambda _: 1.0
) -> Callable[[Sequence[RowFunction]], SumEstimates]:
    """Return estimates whose error depends on the last bin that counts as below."""

    def ask(functions: Sequence[RowFunction]) -> SumEstimates:
        factors = [function.factors.get("x", np.ones(10)) for function in functions]
        last = [int(np.flatnonzero(factor == factor.max())[-1]) for factor in factors]
        changed = [
            error(at) if (factor < 0).any() else 0.0
            for factor, at in zip(factors, last, strict=True)
        ]
        values = [factor @ ROWS + more for factor, more in zip(factors, changed, strict=True)]
        model = np.diag([std(at) ** 2 for at in last])
        return SumEstimates(np.array(values), np.zeros_like(model), model, support="tested")

    return ask


def by_code(functions: Sequence[RowFunction]) -> SumEstimates:
    """Return exact sums of functions of codes; all rows have the first value of their bin."""
    values = [f.factors.get("x", np.ones(1000))[::100] @ ROWS for f in functions]
    nothing = np.zeros((len(values), len(values)))
    return SumEstimates(np.array(values), nothing, nothing)


def asked(ask: Callable[[Sequence[RowFunction]], SumEstimates], share: float = 0.5) -> Estimate:
    number = NumericQuery("x", COLUMN, ONE)
    return quantile(by_code, number, share, scope="people", by_bin=(ask, BINS))


def test_an_interval_consists_of_bins() -> None:
    found = asked(ask_with())
    assert (found.low, found.value, found.high) == (200, 250, 299)


def test_errors_beyond_the_last_rows_neither_move_nor_widen_a_median() -> None:
    """The model's sums explode in almost empty bins, as those of incomes above 600,000 did."""
    found = asked(ask_with(lambda at: -800.0 * (at > 6), lambda at: 1.0 if at <= 6 else 400.0))
    assert (found.low, found.value, found.high) == (200, 250, 299)


def test_errors_below_the_first_rows_do_not_either() -> None:
    found = asked(ask_with(lambda at: 800.0 * (at == 0), lambda at: 1.0 if at else 400.0), 0.9)
    assert (found.low, found.high) == (400, 499)


def test_a_limit_comes_from_a_threshold_that_is_known() -> None:
    """Bins 3 and 4 are modeled: the bounds of their sums follow from bins 2 and 5."""
    found = asked(ask_with(std=lambda at: 90.0 if at in (3, 4) else 1.0), 0.75)
    assert (found.low, found.high) == (300, 499)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_extremes_are_in_the_interval(share: float) -> None:
    found = asked(ask_with(), share)
    assert found.low <= found.value <= found.high


def test_a_condition_that_splits_a_bin_is_answered_by_code() -> None:
    below = RowFunction({"x": (np.arange(1000) < 250).astype(np.float64)})
    number = NumericQuery("x", COLUMN, below)
    refuse = ask_with()
    found = quantile(by_code, number, 0.95, scope="people", by_bin=(refuse, BINS))
    assert (found.low, found.high) == (200, 249)


def test_a_condition_of_whole_bins_is_answered_by_bin() -> None:
    above = RowFunction({"x": (np.arange(1000) >= 300).astype(np.float64)})
    number = NumericQuery("x", COLUMN, above)
    found = quantile(by_code, number, 0.5, scope="people", by_bin=(ask_with(), BINS))
    assert (found.low, found.high) == (300, 399)
