"""Interval of a correlation: all values that the errors of the sums allow, however large."""

from __future__ import annotations

import numpy as np
import pytest

from hushtable.numeric import NORMAL
from hushtable.query.answers.moments import ALL_POSSIBLE, NumericQuery, correlation, mean, variance
from hushtable.query.answers.row_sums import ONE, SumEstimates
from hushtable.schema import Integer
from seeds import shifted

COLUMN = Integer(type="integer", low=-50, high=50)
X, Y = (NumericQuery(name, COLUMN, ONE) for name in "xy")
N = 1000


def sums(means, errors):
    """Return sums of N rows with these means of x, y, xx, yy and xy, and errors of the means."""
    privacy = np.zeros((6, 6))
    privacy[1:, 1:] = np.asarray(errors) * N**2
    return SumEstimates(N * np.array([1.0, *means]), privacy, np.zeros((6, 6)), privacy_z=1.0)


def asked(means, errors, scope="people"):
    return correlation(lambda _: sums(means, errors), X, Y, scope=scope)


def of(point):
    x, y, xx, yy, xy = point.T
    with np.errstate(invalid="ignore"):
        return (xy - x * y) / np.sqrt((xx - x**2) * (yy - y**2))


MEANS = np.array([0.1, -0.2, 0.11, 0.2, 0.06])


def test_without_errors_it_is_the_number_itself():
    found = asked(MEANS, np.zeros((5, 5)))
    assert found.value == pytest.approx(of(MEANS[None, :])[0])
    assert found.low == pytest.approx(found.value) == found.high


def test_small_errors_reach_as_far_as_the_slope_says():
    draw = np.random.default_rng(shifted(1))
    half = 1e-5 * draw.normal(size=(5, 5))
    found = asked(MEANS, half @ half.T)
    steps = 1e-6 * np.eye(5)
    slope = (of(MEANS + steps) - of(MEANS - steps)) / 2e-6
    reach = np.linalg.norm(half.T @ slope)
    assert found.high - found.value == pytest.approx(reach, rel=1e-2)
    assert found.value - found.low == pytest.approx(reach, rel=1e-2)


def test_large_errors_reach_as_far_as_any_means_that_are_possible():
    """No point of the ellipsoid has a correlation beyond the interval, and some are near its end.

    Points are on the surface of a ball in five dimensions: of 200,000, some are within a few
    degrees of any direction.
    """
    draw = np.random.default_rng(shifted(2))
    for _ in range(10):
        half = draw.uniform(0.005, 0.012) * draw.normal(size=(5, 5))
        found = asked(MEANS, half @ half.T)
        ball = draw.normal(size=(200_000, 5))
        ball /= np.linalg.norm(ball, axis=1, keepdims=True)
        possible = of(MEANS + ball @ half.T)
        if np.isnan(possible).any():
            assert (found.low, found.high) == (-1, 1)
            continue
        assert found.low <= possible.min() + 1e-6
        assert found.high >= min(possible.max(), 1) - 1e-6
        if (found.low, found.high) != (-1, 1):
            assert found.low >= possible.min() - 0.03
            assert found.high <= possible.max() + 0.03


def test_where_a_column_may_be_constant_everything_is_possible():
    errors = np.diag([0, 0, 0.11**2, 0, 0])
    found = asked(MEANS, errors)
    assert (found.low, found.high) == (-1, 1)


def test_sampling_comes_on_top():
    people = asked(MEANS, np.zeros((5, 5)))
    population = asked(MEANS, np.zeros((5, 5)), scope="population")
    half = (population.high - population.low) / 2
    assert half == pytest.approx(1.96 * (1 - people.value**2) / N**0.5, rel=0.02)


def test_an_interval_of_all_that_is_possible_says_so():
    found = asked(MEANS, 0.1 * np.eye(5))
    assert (found.low, found.high) == (-1.0, 1.0)
    assert ALL_POSSIBLE in found.notes
    assert ALL_POSSIBLE not in asked(MEANS, 1e-6 * np.eye(5)).notes


@pytest.mark.parametrize(("spread", "says_so"), [(0.4, True), (0.01, False)])
def test_so_does_one_of_a_mean(spread, says_so):
    found = SumEstimates(
        N * np.array([0.1, 1.0, 0.2]), np.zeros((3, 3)), (spread * N) ** 2 * np.eye(3)
    )
    answer = mean(lambda _: found, X, scope="people")
    assert (ALL_POSSIBLE in answer.notes) == says_so


def test_a_variance_reaches_to_where_the_mean_may_have_hidden_some():
    """Squares around a wrong mean are too small by the square of its error."""
    found = SumEstimates(
        N * np.array([1.0, 0.0, 0.2, 0.0, 0.1]), np.zeros((5, 5)), np.zeros((5, 5))
    )
    found.privacy[1, 1] = (0.2 * N) ** 2  # of the sum of positions, whose mean is 0
    answer = variance(lambda _: found, X, scope="people")
    half = 50.0**2
    assert answer.low == pytest.approx(0.2 * half)
    assert answer.value == pytest.approx((0.2 + 0.2**2) * half)
    assert answer.high == pytest.approx((0.2 + (NORMAL * 0.2) ** 2) * half)
