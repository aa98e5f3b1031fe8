"""Every sampler against its exact probabilities, and against OpenDP.

Each comparison is a chi-square test on cells that expect at least `MIN_EXPECTED` draws, rejected
below `ALPHA`. ALPHA is a hundredth of the permitted false-alarm rate of 1e-6 per test: this leaves
room for the few comparisons that one test makes and for the error of the chi-square approximation.
All draws are from `SecureNoise` (or a subclass) unless OpenDP is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from hushtable.privacy.mechanisms.private_choice import Scores, TopChoices
from hushtable.privacy.noise.sources import OpenDPNoise, SecureNoise

ALPHA = 1e-8
MIN_EXPECTED = 100
N = 400_000


class DripNoise(SecureNoise):
    """Noise that is refilled one word at a time: most draws run out of bits and are resumed."""

    _chunk = 1


def p_value(drawn: np.ndarray, mass: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the chi-square p-value of integer draws; rare values are pooled into one cell."""
    values, observed = np.unique(drawn, return_counts=True)
    lowest, highest = int(values[0]), int(values[-1])
    grid = np.arange(lowest, highest + 1)
    counts = np.zeros(len(grid))
    counts[values - lowest] = observed
    expected = len(drawn) * np.asarray(mass(grid), float)
    common = expected >= MIN_EXPECTED
    rare_expected = len(drawn) - expected[common].sum()
    rare_observed = len(drawn) - counts[common].sum()
    statistic = ((counts[common] - expected[common]) ** 2 / expected[common]).sum()
    n_cells = int(common.sum())
    if rare_expected >= MIN_EXPECTED:
        statistic += (rare_observed - rare_expected) ** 2 / rare_expected
        n_cells += 1
    assert n_cells >= 2, "a test with one cell cannot fail"
    return float(chi2.sf(statistic, n_cells - 1))


def two_sample_p_value(one: np.ndarray, two: np.ndarray) -> float:
    """Return the chi-square p-value that two samples share a distribution."""
    lowest, highest = min(one.min(), two.min()), max(one.max(), two.max())
    counts = np.array(
        [np.bincount(sample - lowest, minlength=highest - lowest + 1) for sample in (one, two)]
    )
    common = counts.sum(axis=0) >= 2 * MIN_EXPECTED
    cells = np.column_stack((counts[:, common], counts[:, ~common].sum(axis=1)))
    cells = cells[:, cells.sum(axis=0) >= 2 * MIN_EXPECTED]
    share = cells.sum(axis=1, keepdims=True) / cells.sum()
    expected = share * cells.sum(axis=0)
    assert cells.shape[1] >= 2, "a test with one cell cannot fail"
    return float(chi2.sf(((cells - expected) ** 2 / expected).sum(), cells.shape[1] - 1))


def laplace_mass(scale: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    q = math.exp(-1 / scale)
    return lambda z: (1 - q) / (1 + q) * q ** np.abs(z)


def geometric_mass(x: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    return lambda g: -math.expm1(-x) * np.exp(-float(x) * g)


def gaussian_mass(variance: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    reach = 40 * math.isqrt(math.ceil(variance)) + 40
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(variance)))
    return lambda z: np.exp(-(z.astype(float) ** 2) / (2 * float(variance))) / weights.sum()


def rounded_mass(variance: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    above = np.vectorize(lambda x: math.erfc(x / math.sqrt(2 * variance)) / 2)
    # By the smaller tail: the other one is close to 1.
    return lambda z: above(np.abs(z) - 0.5) - above(np.abs(z) + 0.5)


def coin_mass(p: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda b: np.where(b == 1, p, 1 - p)


def sizes(noise: SecureNoise) -> int:
    return N if type(noise) is not DripNoise else 20_000


SOURCES = [SecureNoise(), DripNoise()]
each_source = pytest.mark.parametrize("noise", SOURCES, ids=["secure", "drip"])


def test_the_test_can_fail():
    """A scale off by 3%, one missing value and a doubled zero are all detected.

    Each is missed with probability below 1e-12, by the noncentral chi-square distribution.
    """
    drawn = SecureNoise().discrete_laplace(Fraction(10), size=N)
    assert p_value(drawn, laplace_mass(Fraction(10))) > ALPHA
    assert p_value(drawn, laplace_mass(Fraction(103, 10))) < ALPHA
    assert p_value(drawn[drawn != 3], laplace_mass(Fraction(10))) < ALPHA
    doubled = np.concatenate((drawn, np.zeros((drawn == 0).sum(), np.int64)))
    assert p_value(doubled, laplace_mass(Fraction(10))) < ALPHA
    assert two_sample_p_value(drawn, drawn + 1) < ALPHA


@each_source
@pytest.mark.parametrize("n", [2, 3, 10, 64, 100])
def test_uniform(noise, n):
    drawn = noise.uniform_below(n, size=sizes(noise))
    assert p_value(drawn, lambda v: np.where((v >= 0) & (v < n), 1 / n, 0)) > ALPHA


def test_uniform_integers_of_any_size():
    noise, n = SecureNoise(), 3 * 10**40
    drawn = np.array([noise.integer_below(n) * 10 // n for _ in range(20_000)])
    assert p_value(drawn, lambda v: np.full(len(v), 1 / 10)) > ALPHA
    drawn = np.array([noise.integer_below(n) % 7 for _ in range(20_000)])
    assert p_value(drawn, lambda v: np.full(len(v), 1 / 7)) > ALPHA


def test_permutations_come_in_every_order():
    noise, n = SecureNoise(), 4
    codes = np.array([noise.permutation(n) for _ in range(30_000)]) @ n ** np.arange(n)

    def mass(code: np.ndarray) -> np.ndarray:
        digits = [[c // n**i % n for i in range(n)] for c in code.tolist()]
        return np.array([1 / math.factorial(n) if len(set(d)) == n else 0 for d in digits])

    assert p_value(codes, mass) > ALPHA


@each_source
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(3, 8), Fraction(1, 1000), Fraction(2, 3)])
def test_coins(noise, p):
    drawn = noise.bernoulli(p, size=sizes(noise) * (10 if p < 0.01 else 3))
    assert p_value(drawn.astype(int), coin_mass(float(p))) > ALPHA


@each_source
@pytest.mark.parametrize(
    "x",
    [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(1, 50), Fraction(10**30, 10**30 + 1)],
)
def test_exponential_coins(noise, x):
    slow = x.denominator > 2**62
    drawn = noise.bernoulli_exp(x, size=20_000 if slow else sizes(noise))
    assert p_value(drawn.astype(int), coin_mass(math.exp(-x))) > ALPHA


def test_exponential_coins_of_the_reference_numbers(vectors):
    for text, value in vectors["samplers"]["bernoulli_exp"].items():
        x = -Fraction(text.removeprefix("exp(").removesuffix(")"))
        drawn = SecureNoise().bernoulli_exp(x, size=4 * N)
        assert p_value(drawn.astype(int), coin_mass(float(value))) > ALPHA


@each_source
def test_exponential_coins_with_their_own_exponents(noise):
    numerators = np.tile(np.arange(6), sizes(noise) // 6)
    drawn = noise.bernoulli_exp_each(numerators, denominator=2).reshape(-1, 6)
    assert drawn[:, 0].all()
    for k in range(1, 6):
        assert p_value(drawn[:, k].astype(int), coin_mass(math.exp(-k / 2))) > ALPHA


@each_source
@pytest.mark.parametrize("x", [Fraction(1), Fraction(2, 7), Fraction(1, 40), Fraction(5, 2)])
def test_geometric(noise, x):
    assert p_value(noise.geometric(x, size=sizes(noise)), geometric_mass(x)) > ALPHA


@each_source
@pytest.mark.parametrize(
    "scale",
    [Fraction(1), Fraction(10), Fraction(100, 7), Fraction(2, 5), Fraction(10**16, 3 * 10**15 + 1)],
)
def test_discrete_laplace(noise, scale):
    assert p_value(noise.discrete_laplace(scale, size=sizes(noise)), laplace_mass(scale)) > ALPHA


def test_discrete_laplace_on_python_integers():
    scale = Fraction(10**40 + 1, 10**40)
    drawn = SecureNoise().discrete_laplace(scale, size=20_000)
    assert p_value(drawn, laplace_mass(scale)) > ALPHA


def test_discrete_laplace_has_the_reference_numbers(vectors):
    known = vectors["samplers"]["two_sided_geometric"]
    drawn = SecureNoise().discrete_laplace(Fraction(1), size=4 * N)
    assert p_value((drawn == 0).astype(int), coin_mass(float(known["eps=1 P[0]"]))) > ALPHA
    assert p_value((drawn == 1).astype(int), coin_mass(float(known["eps=1 P[1]"]))) > ALPHA
    for epsilon, key in ((Fraction(1), "eps=1 variance"), (Fraction(1, 2), "eps=0.5 variance")):
        variance = float(known[key])
        drawn = SecureNoise().discrete_laplace(1 / epsilon, size=4 * N).astype(float)
        # Var[z**2] < 6 * variance**2 for a Laplace-like tail (its kurtosis is below 7); six
        # standard deviations are exceeded by chance with probability 2e-9.
        assert abs((drawn**2).mean() - variance) < 6 * variance * math.sqrt(6 / len(drawn))


def binned(mass_of_scale: float, width: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the mass of floor(z / width) for a geometric rate 1/mass_of_scale, z >= 0."""
    return lambda b: np.exp(-b * width / mass_of_scale) * -math.expm1(-width / mass_of_scale)


def test_large_scales():
    noise, scale = SecureNoise(), 10**6
    drawn = noise.geometric(Fraction(1, scale), size=N)
    assert p_value(drawn // 100_000, binned(scale, 100_000)) > ALPHA
    assert p_value(drawn % 5, lambda r: np.full(len(r), 1 / 5)) > ALPHA
    drawn = noise.discrete_laplace(Fraction(scale), size=N)
    nonzero = drawn[drawn != 0]
    assert p_value((np.abs(nonzero) - 1) // 100_000, binned(scale, 100_000)) > ALPHA
    assert p_value((nonzero > 0).astype(int), coin_mass(0.5)) > ALPHA
    # The bins of a Gaussian of standard deviation 10**6 differ from the continuous ones by 1e-6.
    drawn = noise.discrete_gaussian(Fraction(scale**2), size=N)
    edges = np.vectorize(lambda e: 0.5 * math.erfc(-(e - 0.5) / scale / math.sqrt(2)))
    width = 250_000
    assert p_value(drawn // width, lambda b: edges((b + 1) * width) - edges(b * width)) > ALPHA


def test_tiny_scales():
    noise = SecureNoise()
    tiny = noise.discrete_laplace(Fraction(1, 6), size=4 * N)
    assert p_value(tiny, laplace_mass(Fraction(1, 6))) > ALPHA
    assert not noise.discrete_laplace(Fraction(1, 1000), size=N).any()
    assert not noise.discrete_gaussian(Fraction(1, 10_000), size=N).any()
    assert not noise.geometric(Fraction(1000), size=N).any()


@each_source
@pytest.mark.parametrize(
    "variance",
    [Fraction(1), Fraction(100), Fraction(9, 2), Fraction(1, 4), Fraction(1000001, 7919)],
)
def test_discrete_gaussian(noise, variance):
    drawn = noise.discrete_gaussian(variance, size=sizes(noise))
    assert p_value(drawn, gaussian_mass(variance)) > ALPHA


@each_source
@pytest.mark.parametrize(
    "variance",
    [Fraction(1), Fraction(100), Fraction(1, 4), Fraction(1000001, 7919), Fraction(10**4, 3)],
)
def test_rounded_gaussian(noise, variance):
    drawn = noise.rounded_gaussian(variance, size=sizes(noise))
    assert p_value(drawn, rounded_mass(variance)) > ALPHA


def test_rounded_gaussian_is_distinguished_from_others():
    """A variance off by 3%, and a discrete Gaussian of small variance, are detected."""
    drawn = SecureNoise().rounded_gaussian(Fraction(100), size=N)
    assert p_value(drawn, rounded_mass(Fraction(103))) < ALPHA
    drawn = SecureNoise().rounded_gaussian(Fraction(1), size=N)
    assert p_value(drawn, gaussian_mass(Fraction(1))) < ALPHA


def test_discrete_gaussian_on_python_integers():
    variance = Fraction(5 * 10**30 + 1, 10**30)
    drawn = SecureNoise().discrete_gaussian(variance, size=20_000)
    assert p_value(drawn, gaussian_mass(variance)) > ALPHA


@each_source
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(5, 8), Fraction(1, 40), Fraction(6, 7)])
def test_subset(noise, p):
    """All patterns of neighboring indexes, hence frequency and independence, across words too."""
    n = sizes(noise)
    kept = np.zeros(n, int)
    kept[noise.subset(n, p=p)] = 1
    for shift in (0, 2):
        bits = np.roll(kept, shift)[: n // 4 * 4].reshape(-1, 4)
        codes = bits @ [1, 2, 4, 8]
        ones = np.array([int(c).bit_count() for c in range(16)])
        mass = float(p) ** ones * float(1 - p) ** (4 - ones)
        assert p_value(codes, lambda c, mass=mass: mass[c]) > ALPHA


# --- selection ---


def exponential_masses(scores, factor, base):
    weights = np.array([b * math.exp(factor * s) for s, b in zip(scores, base, strict=True)])
    return weights / weights.sum()


def permute_and_flip_masses(scores, factor, base):
    """Sum over all outcomes of the Bernoulli draws; the winner is uniform among the successes."""
    # The generating function of the number of other successes gives E[1 / (1 + successes)].
    copies = [(i, math.exp(factor * (s - max(scores)))) for i, s in enumerate(scores)]
    copies = [copy for copy in copies for _ in range(base[copy[0]])]
    masses = np.zeros(len(scores))
    for at, (i, head) in enumerate(copies):
        heads = np.array([1.0])
        for other, (_, p) in enumerate(copies):
            if other != at:
                heads = np.convolve(heads, [1 - p, p])
        masses[i] += head * (heads / np.arange(1, len(heads) + 1)).sum()
    return masses


@pytest.mark.parametrize("source", [SecureNoise, DripNoise, OpenDPNoise])
@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("base", [None, [7, 0, 1, 2, 9]])
def test_choose(source, rule, monotone, base):
    noise, scores = source(), [0, 3, 5, 5, -4]
    epsilon, sensitivity = Fraction(1, 2), Fraction(2, 3)
    drawn = [
        noise.choose(
            scores,
            epsilon=epsilon,
            sensitivity=sensitivity,
            monotone=monotone,
            base=base,
            rule=rule,
        )
        for _ in range(4000 if source is OpenDPNoise else 6000)
    ]
    factor = float(epsilon / sensitivity) / (1 if monotone else 2)
    masses = {"exponential": exponential_masses, "permute-and-flip": permute_and_flip_masses}
    exact = masses[rule](scores, factor, base or [1] * 5)
    assert abs(exact.sum() - 1) < 1e-12
    assert p_value(np.array(drawn), lambda i: exact[i]) > ALPHA


def test_choose_with_a_huge_base_measure():
    """Weights that only balance because the base measure spans forty orders of magnitude."""
    scores, base = [0, 90, 92, 45], [10**39, 1, 0, 10**20]
    drawn = [
        SecureNoise().choose(
            scores, epsilon=Fraction(1), sensitivity=Fraction(1), monotone=True, base=base
        )
        for _ in range(10_000)
    ]
    exact = exponential_masses(scores, 1.0, base)
    assert (np.sort(exact)[1:] > 0.05).all()
    assert p_value(np.array(drawn), lambda i: exact[i]) > ALPHA


def test_choose_among_many():
    """Five thousand candidates over three thousand scores; compared by groups of candidates."""
    scores = np.arange(5000) * 3 // 5
    drawn = [
        SecureNoise().choose(
            scores, epsilon=Fraction(1, 200), sensitivity=Fraction(1), monotone=True
        )
        for _ in range(5000)
    ]
    exact = exponential_masses(scores - 3000, 1 / 200, [1] * 5000).reshape(-1, 100).sum(axis=1)
    assert p_value(np.array(drawn) // 100, lambda i: exact[i]) > ALPHA


def test_top_choices():
    scores, k, n = [0, 2, 3, 1], 2, 4
    drawn = [
        TopChoices(Fraction(1), k).draw(Scores(scores, 1, False), SecureNoise())
        for _ in range(10_000)
    ]
    weights = np.exp(np.array(scores) / 2)
    exact = np.zeros(n * n)
    for i in range(n):
        for j in range(n):
            if i != j:
                left = weights.sum() - weights[i]
                exact[n * i + j] = weights[i] / weights.sum() * weights[j] / left
    assert p_value(np.array(drawn) @ [n, 1], lambda c: exact[c]) > ALPHA


# --- OpenDP as the oracle ---


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1, 3)])
def test_opendp_agrees_on_laplace(scale):
    theirs = OpenDPNoise().discrete_laplace(scale, size=60_000)
    ours = SecureNoise().discrete_laplace(scale, size=60_000)
    assert two_sample_p_value(ours, theirs) > ALPHA
    assert p_value(theirs, laplace_mass(scale)) > ALPHA


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(30), Fraction(1, 3)])
def test_opendp_agrees_on_gaussian(variance):
    theirs = OpenDPNoise().discrete_gaussian(variance, size=60_000)
    ours = SecureNoise().discrete_gaussian(variance, size=60_000)
    assert two_sample_p_value(ours, theirs) > ALPHA
    assert p_value(theirs, gaussian_mass(variance)) > ALPHA


@pytest.mark.parametrize("x", [Fraction(1, 4), Fraction(3)])
def test_opendp_agrees_on_geometric(x):
    theirs = OpenDPNoise().geometric(x, size=40_000)
    ours = SecureNoise().geometric(x, size=40_000)
    assert two_sample_p_value(ours, theirs) > ALPHA
    assert p_value(theirs, geometric_mass(x)) > ALPHA
