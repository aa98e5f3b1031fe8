"""Random subsets of huge domains have exactly the distribution of independent draws."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, kstest

from hushtable.domain import Domain
from hushtable.errors import ParameterError
from hushtable.privacy.noise import sparse_subset as bounded_coins
from hushtable.privacy.noise import sparse_subset as sparse_subset_module
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.privacy.noise.sparse_subset import bernoulli_indices, power_bounds, sparse_subset
from seeds import shifted

FALSE_ALARM = 1e-6


def assert_law(domain: Domain, p: Fraction, runs: int) -> None:
    """Compare the frequency of each subset with independent draws; false alarm 1e-6."""
    noise, m = SecureNoise(), domain.size
    found = np.zeros(1 << m, np.int64)
    for _ in range(runs):
        codes = domain.unpack(sparse_subset(domain, p=p, noise=noise))
        found[sum(1 << domain.rank(row) for row in codes.tolist())] += 1
    sizes = np.array([bin(s).count("1") for s in range(1 << m)])
    expected = runs * float(p) ** sizes * (1 - float(p)) ** (m - sizes)
    # Rare subsets are grouped by size.
    rare = expected < 8
    observed = [*found[~rare], found[rare].sum()]
    wanted = [*expected[~rare], expected[rare].sum()]
    keep = np.array(wanted) > 0
    statistic = (((np.array(observed) - wanted) ** 2)[keep] / np.array(wanted)[keep]).sum()
    assert statistic < chi2.isf(FALSE_ALARM, keep.sum() - 1)


@pytest.mark.parametrize("p", ["1/10", "1/2", "9/10"])
def test_law_over_all_subsets(p: str) -> None:
    assert_law(Domain({"a": 3, "b": 2}), Fraction(p), 1500)


@pytest.mark.parametrize("shape", [(3, 1, 2), (2, 2, 2), (7,), (1, 6)])
def test_law_of_numbers_with_several_digits(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With digits of one bit, every number of the tree has several, and columns may exceed one."""
    monkeypatch.setattr(sparse_subset_module, "_DIGIT", 1)
    domain = Domain({f"x{i}": size for i, size in enumerate(shape)})
    assert_law(domain, Fraction(1, 3), 800)


def test_law_when_every_draw_needs_closer_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_coins, "_BITS", 1)
    assert_law(Domain({"a": 5}), Fraction(1, 3), 1500)


def test_bounds_are_refined_until_they_decide() -> None:
    """A draw of probability 1/3 whose first bounds are 0 and 1; false alarm 1e-6."""
    asked = []

    def bounds(bits: int) -> tuple[Fraction, Fraction]:
        asked.append(bits)
        slack = Fraction(1, 2 ** (bits // 96 - 1))
        return max(Fraction(0), Fraction(1, 3) - slack), min(Fraction(1), Fraction(1, 3) + slack)

    n_heads = len(bernoulli_indices(SecureNoise(), 4000, bounds))
    assert len(set(asked)) > 3
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 4000, 1 / 3)
    assert low <= n_heads <= high


@given(
    st.fractions(0, 1, max_denominator=10**6),
    st.integers(0, 500),
    st.sampled_from([8, 64, 200]),
)
def test_powers_are_bounded(base: Fraction, exponent: int, bits: int) -> None:
    low, high = power_bounds(base, exponent, bits)
    assert low <= base**exponent <= high
    assert high - low <= Fraction(1, 2**bits)


def test_powers_of_huge_exponents() -> None:
    low, high = power_bounds(1 - Fraction(1, 10**40), 10**40, 128)
    assert float(low) == pytest.approx(math.exp(-1), rel=1e-15)
    assert high - low <= Fraction(1, 2**128)


def test_the_number_kept_varies_as_it_should() -> None:
    """Sizes over 400 runs have the mean and the variance of Binomial(m, p); false alarm 1e-6."""
    domain, p, noise = Domain({"a": 1000, "b": 1000}), Fraction(1, 10**4), SecureNoise()
    sizes = np.array([len(sparse_subset(domain, p=p, noise=noise)) for _ in range(400)])
    scaled = (sizes - 100) ** 2 / (100 * (1 - 1e-4))
    assert chi2.ppf(FALSE_ALARM / 2, 400) < scaled.sum() < chi2.isf(FALSE_ALARM / 2, 400)


@pytest.mark.parametrize(
    "domain",
    [
        Domain({f"x{i}": 40 for i in range(20)}),
        Domain({"a": 10**12, "b": 10**12, "c": 10**12}),
        Domain({"a": 2**62 + 1, "b": 3}),
        Domain({"a": 2**62, "b": 2}),
        Domain({"a": 2**31, "b": 2**31, "c": 2**31}),
        Domain({f"x{i}": 40 for i in range(200)}),
        Domain({"a": 3**39}),
        Domain({"a": 10**9, "b": 10**9, "c": 10**9, "d": 10**9}),
    ],
    ids=lambda domain: f"{len(str(domain.size))}-digits",
)  # fmt: skip
def test_huge_domains(domain: Domain) -> None:
    """Numbers and positions of cells in domains beyond enumeration; false alarm 1e-6 each."""
    mean = 3000
    keys = sparse_subset(domain, p=Fraction(mean, domain.size), noise=SecureNoise())
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 10**9, mean / 10**9)
    assert low <= len(keys) <= high
    codes = domain.unpack(keys)
    ranks = [domain.rank(row) for row in codes.tolist()]
    assert ranks == sorted(set(ranks))
    assert 0 <= ranks[0] <= ranks[-1] < domain.size
    for position, size in enumerate(domain.shape):
        assert kstest((codes[:, position] + 0.5) / size, "uniform", method="asymp").pvalue > (
            FALSE_ALARM if size > 1000 else 0
        )
    low_half = sum(rank < domain.size // 2 for rank in ranks)
    bounds = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(ranks), 0.5)
    assert bounds[0] <= low_half <= bounds[1]


def test_one_combination_and_nearly_certain_ones() -> None:
    noise = SeededNoise(shifted(1))
    one = [len(sparse_subset(Domain({"a": 1}), p=Fraction(1, 2), noise=noise)) for _ in range(200)]
    assert set(one) == {0, 1}
    most = sparse_subset(Domain({"a": 1000}), p=Fraction(10**9 - 1, 10**9), noise=noise)
    assert len(most) >= 998
    none = sparse_subset(Domain({"a": 1000}), p=Fraction(1, 10**30), noise=noise)
    assert none.shape == (0, 1)


@pytest.mark.parametrize("p", [0, 1, 2, -1])
def test_probabilities_outside_are_refused(p: int) -> None:
    with pytest.raises(ParameterError, match="between 0 and 1"):
        sparse_subset(Domain({"a": 3}), p=Fraction(p), noise=SecureNoise())
