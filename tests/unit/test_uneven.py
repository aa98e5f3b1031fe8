"""How far rows may be from an even spread inside published groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from hushtable.estimate.uneven import cut_error


@pytest.mark.parametrize("share", [1e-15, 1e-6, 0.01, 0.3, 0.5, 0.9])
def test_a_condition_and_its_opposite_say_the_same(share: float) -> None:
    counts = np.array([1000.0])
    one, other = cut_error(np.array([share]), counts), cut_error(np.array([1 - share]), counts)
    assert one.std == pytest.approx(other.std, abs=1e-6)
    assert one.below == pytest.approx(other.above, abs=1e-6)
    assert one.above == pytest.approx(other.below, abs=1e-6)
    assert 0 <= one.below <= 1000 * share + 1e-9
    assert 0 <= one.above <= 1000 * (1 - share)


def test_ends_hold_for_any_question_and_for_one_that_a_row_is_known_to_satisfy() -> None:
    """The chance to be beyond an end is 1/40 at most under both, and is so under one."""
    for share in (0.02, 0.4, 0.8):
        error = cut_error(np.array([share]), np.array([1.0]))
        low, high = share - error.below, share + error.above
        for satisfied, not_satisfied in ((0, 0), (1, 0), (0, 1)):
            law = beta(share + satisfied, 1 - share + not_satisfied)
            assert law.cdf(low) <= 0.025 + 1e-9
            assert law.sf(high) <= 0.025 + 1e-9
        assert beta(share + 1, 1 - share).sf(high) == pytest.approx(0.025)
        if share > 0.1:  # below, the low end is 0 in double precision
            assert beta(share, 2 - share).cdf(low) == pytest.approx(0.025, abs=1e-4)


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


def test_nothing_cut_is_no_error() -> None:
    error = cut_error(np.empty(0), np.empty(0))
    assert (error.std, error.below, error.above) == (0.0, 0.0, 0.0)
