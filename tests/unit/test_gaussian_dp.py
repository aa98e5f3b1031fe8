"""Gaussian differential privacy: bounds against many digits, costs against exact enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from hushtable.errors import ParameterError, SealedError
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import (
    CHOICE_FACTOR,
    PI_ABOVE,
    gaussian_share,
    is_gaussian,
    pi_bounds,
    upper_tail_bounds,
)
from hushtable.privacy.guarantee import ApproxDP, parse_guarantee
from hushtable.privacy.ledger.budget import Loss
from hushtable.privacy.ledger.state import read_quickly
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import TopChoices
from hushtable.privacy.unit import Unit
from seeds import shifted

Floats = NDArray[np.float64]
ROW = Unit(kind="row")
ONE_ROW = Sensitivity(rows=1)
EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0)


def delta_of(mu: float, epsilon: float) -> float:
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return float(norm.sf(near) - math.exp(epsilon) * norm.sf(far))


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """Return the smallest delta of two distributions on the same outcomes, exactly."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def exceeds(p: Floats, q: Floats, mu: float) -> bool:
    """Return whether two distributions are easier to distinguish than mu-GDP allows."""
    # In both directions, and also for negative epsilon: the whole trade-off function.
    return any(
        hockey_stick(one, two, epsilon) > delta_of(mu, epsilon) + 1e-12
        for one, two in ((p, q), (q, p))
        for epsilon in (*EPSILONS, *(-e for e in EPSILONS if e))
    )


def rounded_law(variance: float, at: int = 0, reach: int = 60) -> Floats:
    z = np.arange(-reach, reach + 1) - at
    sigma = math.sqrt(variance)
    return np.asarray(norm.cdf((z + 0.5) / sigma) - norm.cdf((z - 0.5) / sigma))


def discrete_law(variance: float, at: int = 0, reach: int = 60) -> Floats:
    weights = np.exp(-((np.arange(-reach, reach + 1) - at) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


# --- certified bounds -----------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [8, 40, 128, 700, 2500])
def test_bounds_enclose_pi(bits: int) -> None:
    low, high = pi_bounds(bits)
    with mpmath.workdps(bits // 3 + 60):
        assert mpmath.mpf(low.numerator) / low.denominator < mpmath.pi
        assert mpmath.mpf(high.numerator) / high.denominator > mpmath.pi
        assert mpmath.mpf(PI_ABOVE.numerator) / PI_ABOVE.denominator > mpmath.pi
    assert high - low < Fraction(1, 2**bits)


@pytest.mark.parametrize("x", ["1/1000", "1/3", "1", "5/2", "5", "97/10", "20", "38", "60", "-3/2"])
def test_bounds_enclose_tails(x: str) -> None:
    low, high = upper_tail_bounds(Fraction(x))
    with mpmath.workdps(2500):
        exact = mpmath.erfc(mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator
                            / mpmath.sqrt(2)) / 2  # fmt: skip
        assert mpmath.mpf(low.numerator) / low.denominator < exact
        assert mpmath.mpf(high.numerator) / high.denominator > exact
    assert high - low < low / 2**128


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "5", "100"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-9", "1e-40"])
def test_shares_are_the_largest_that_imply_the_promise(epsilon: str, delta: str) -> None:
    one, two = Fraction(epsilon), Fraction(delta)
    mu = gaussian_share(one, two)
    assert is_gaussian(mu, one, two)
    assert not is_gaussian(mu * (1 + Fraction(1, 10**7)), one, two)
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu.numerator) / mu.denominator, mpmath.mpf(epsilon)
        near, far = (mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (e / m - m / 2, e / m + m / 2))
        assert near - mpmath.exp(e) * far <= mpmath.mpf(delta)


def test_deltas_beyond_floats_have_a_share_too() -> None:
    one, tiny = Fraction(1), Fraction(1, 10**400)
    mu = gaussian_share(one, tiny)
    assert is_gaussian(mu, one, tiny)
    assert not is_gaussian(mu * Fraction(1001, 1000), one, tiny)


def test_values_of_mu_that_imply_nothing_are_refused() -> None:
    one, millionth = Fraction(1), Fraction(1, 10**6)
    for mu in (Fraction(0), Fraction(-1), Fraction(100), Fraction(1)):
        assert not is_gaussian(mu, one, millionth)
    assert is_gaussian(Fraction(1, 10**9), one, millionth)


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.3, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("shift", [1, 2])
def test_rounded_noise_is_as_private_as_its_cost(variance: float, shift: int) -> None:
    price = RoundedGaussian(Fraction(variance)).cost(Sensitivity(rows=shift))
    assert price.mu_squared is not None
    assert price.rho == price.mu_squared / 2
    p, q = rounded_law(variance), rounded_law(variance, at=shift)
    assert not exceeds(p, q, math.sqrt(price.mu_squared))
    # A cost that is 10% too low is detected, unless rounding hides nearly everything.
    if variance >= 1:
        assert exceeds(p, q, 0.9 * math.sqrt(price.mu_squared))


def test_discrete_noise_is_not_gaussian_dp_for_its_variance() -> None:
    """It has no cost in mu, because its trade-off function has corners below the curve."""
    assert exceeds(discrete_law(1.0), discrete_law(1.0, at=1), 1.0)
    assert Gaussian(Fraction(1)).cost(ONE_ROW).mu_squared is None


def two_points(e: float, t: float) -> tuple[Floats, Floats]:
    """Return the worst pair of distributions with log ratios in [t - e, t], on two points."""
    q = -math.expm1(t - e) / (math.exp(t) - math.exp(t - e))
    p = q * math.exp(t)
    return np.array([p, 1 - p]), np.array([q, 1 - q])


@pytest.mark.parametrize("e", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_selections_are_as_private_as_their_cost_for_every_range(e: float) -> None:
    mu = math.sqrt(float(CHOICE_FACTOR) * e * e)
    for t in np.linspace(e / 200, e * 199 / 200, 199):
        p, q = two_points(e, float(t))
        # The corner of the trade-off function against the curve of mu-GDP, in both directions.
        for reject, miss in ((q[0], p[1]), (p[1], q[0])):
            assert miss >= norm.cdf(norm.isf(reject) - mu) * (1 - 1e-12)
    if e <= 0.1:  # tight at the middle of the range
        p, q = two_points(e, e / 2)
        assert p[1] < norm.cdf(norm.isf(q[0]) - 0.99 * mu)


def test_exponential_selections_keep_their_cost() -> None:
    """Scores of neighbors, one up and one down, enumerated; permute-and-flip has no cost in mu."""
    draw = np.random.default_rng(shifted(3))
    for epsilon in (0.2, 1.0, 3.0):
        mechanism = TopChoices(Fraction(epsilon))
        price = mechanism.cost(ONE_ROW).mu_squared
        assert price is not None
        for _ in range(200):
            scores = draw.integers(0, 8, draw.integers(2, 6)).astype(float)
            moved = scores + draw.integers(-1, 2, len(scores))
            p, q = (np.exp(epsilon / 2 * (s - s.max())) for s in (scores, moved))
            assert not exceeds(p / p.sum(), q / q.sum(), math.sqrt(price))
    assert TopChoices(Fraction(1), rule="permute-and-flip").cost(ONE_ROW).mu_squared is None


def test_adaptive_shares_stay_within_the_total() -> None:
    """Two queries, the second with a precision that depends on the first result: enumerated."""
    reach = 40
    z = np.arange(-reach, reach + 1)
    first = [rounded_law(4.0, at, reach) for at in (0, 1)]
    joint = []
    for place in (0, 1):
        rows = []
        for seen, chance in zip(z, first[place], strict=True):
            # mu**2 = 1/4 is spent; then all of the other 3/4 if the result was large, or less.
            variance = 4 / 3 if seen >= 1 else 5.0
            rows.append(chance * rounded_law(variance, place, reach))
        joint.append(np.concatenate(rows))
    assert not exceeds(joint[0], joint[1], 1.0)
    assert exceeds(joint[0], joint[1], 0.8)


# --- the account of a run -------------------------------------------------------------------------


def test_an_account_in_mu_adds_squares_and_refuses_beyond() -> None:
    account = RunAccount(SpendingLimit(Fraction(1), Fraction(1, 10**6), mu=Fraction(1, 2)))
    for _ in range(2):
        account.record("counts", [account.root], ONE_ROW, RoundedGaussian(Fraction(8)))
    assert account.spent().mu_squared == Fraction(1, 4)
    account.require_within()
    with pytest.raises(SealedError, match=r"mu\*\*2"):
        account.record("one more", [account.root], ONE_ROW, RoundedGaussian(Fraction(10**6)))


@pytest.mark.parametrize(
    "mechanism",
    [Gaussian(Fraction(8)), Laplace(Fraction(8)), TopChoices(Fraction(1), 1, "permute-and-flip")],
)
def test_noise_without_a_cost_in_mu_is_refused(mechanism: object) -> None:
    account = RunAccount(SpendingLimit(Fraction(1), Fraction(1, 10**6), mu=Fraction(1, 2)))
    with pytest.raises(SealedError, match=r"cost of this noise in mu\*\*2 is unknown"):
        account.record("counts", [account.root], ONE_ROW, mechanism)


def test_rows_of_a_person_have_that_part_of_mu() -> None:
    promise = SpendingLimit(Fraction(1), Fraction(1, 10**6), mu=Fraction(3, 5)).for_each_of(3)
    assert promise.mu == Fraction(1, 5)


# --- promises and ledgers -------------------------------------------------------------------------


def promised(**by: object) -> ApproxDP:
    return ApproxDP(epsilon=1, delta="1e-6", unit=ROW, neighbors="add-remove", **by)


def test_a_promise_says_its_mu_and_costs_half_its_square() -> None:
    mu = gaussian_share(Fraction(1), Fraction(1, 10**6))
    promise = promised(mu=mu)
    assert parse_guarantee(promise.to_dict()) == promise
    assert read_quickly(promise.to_dict(), ROW) == promise
    assert "rho" not in promise.to_dict()
    rho = Loss.of(promise).concentrated.rho
    assert mu**2 / 2 <= rho < mu**2 / 2 + Fraction(1, 2**60)
    assert Loss.of(promise).concentrated.delta == 0


def test_a_promise_with_too_large_a_mu_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"mu is 0\.24"):
        promised(mu="0.24")
    with pytest.raises(ParameterError, match="both given"):
        promised(mu="0.2", rho="0.02")
    document = promised(mu="0.2").to_dict()
    assert read_quickly({**document, "mu": "6/25"}, ROW) is None
    assert read_quickly({**document, "mu": None}, ROW) is None


def test_gaussian_shares_are_larger_than_concentrated_ones() -> None:
    """The benefit of mu-GDP: a larger budget at the same epsilon and delta."""
    gains = [
        float(gaussian_share(Fraction(1), delta) ** 2 / 2 / concentrated_share(Fraction(1), delta))
        for delta in (Fraction(1, 10**3), Fraction(1, 10**6), Fraction(1, 10**9))
    ]
    assert all(one > two > 1.1 for one, two in pairwise(gains))


def test_the_curve_is_that_of_the_definition() -> None:
    """Solve for mu by an independent method and compare."""
    mu = brentq(lambda m: delta_of(m, 0.5) - 1e-5, 1e-3, 5.0, xtol=1e-14)
    assert float(gaussian_share(Fraction(1, 2), Fraction(1, 10**5))) == pytest.approx(mu, rel=1e-7)
