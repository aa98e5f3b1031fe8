"""Deviation of rows from a uniform distribution inside published groups."""

from __future__ import annotations

import numpy as np
import pytest

from hushtable.query.answers.cell_sums import cut_error


@pytest.mark.parametrize("share", [1e-15, 1e-6, 0.01, 0.3, 0.5, 0.9])
def test_a_condition_and_its_opposite_say_the_same(share: float) -> None:
    counts = np.array([1000.0])
    one, other = cut_error(np.array([share]), counts), cut_error(np.array([1 - share]), counts)
    assert one.std == pytest.approx(other.std, abs=1e-6)
    assert one.below == pytest.approx(other.above, abs=1e-6)
    assert one.above == pytest.approx(other.below, abs=1e-6)
    assert 0 <= one.below <= 1000 * share + 1e-9
    assert 0 <= one.above <= 1000 * (1 - share) + 1e-9


@pytest.mark.parametrize("share", [1e-6, 0.02, 0.4, 0.8])
def test_ends_hold_where_all_rows_of_a_group_have_one_value(share: float) -> None:
    """If all rows have one value, the condition holds for all of them or for none."""
    error = cut_error(np.array([share]), np.array([1000.0]))
    assert 1000 * share - error.below == pytest.approx(0.0)
    assert 1000 * share + error.above == pytest.approx(1000.0)


def test_groups_err_together() -> None:
    shares = np.array([0.1, 0.5])
    both = cut_error(shares, np.array([100.0, 300.0]))
    alone = [cut_error(shares[[i]], np.array([[100.0, 300.0][i]])) for i in (0, 1)]
    assert both.std == pytest.approx(sum(one.std for one in alone))
    assert both.above == pytest.approx(sum(one.above for one in alone))
    assert both.below == pytest.approx(sum(one.below for one in alone))


def test_noise_on_empty_groups_cancels() -> None:
    noise = np.tile([-40.0, 40.0], 500)
    error = cut_error(np.full(1000, 0.25), noise)
    assert (error.std, error.below, error.above) == (0.0, 0.0, 0.0)
    assert error.most.shape == (1000,)


def test_without_split_groups_there_is_no_error() -> None:
    error = cut_error(np.empty(0), np.empty(0))
    assert (error.std, error.below, error.above) == (0.0, 0.0, 0.0)
