"""DiffGen's samplers: they have the distributions that its guarantee assumes.

Each test draws with operating-system randomness and raises a false alarm with probability below
1e-6: chi-square tests at level ALPHA, whose approximation is safe since every cell expects at
least 25 draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2

import diffgen_oracle as oracle
from hushtable.domain import Domain
from hushtable.engine import connect
from hushtable.methods.diffgen.cuts import (
    CutSet,
    IntervalPart,
    specialize_as_printed,
    specialize_jointly,
)
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.cells import (
    DomainMechanism,
    bernoulli_bounded,
    indices_above_threshold,
)
from hushtable.privacy.mechanisms.scored_splits import Max, Score, TotalVariation
from hushtable.privacy.noise.sources import SecureNoise
from sealing import sealed

ALPHA = 1e-7
LEAST_EXPECTED = 25
N_RUNS = 3000
HALF = Fraction(1, 2)


def p_value(seen: Counter[Hashable], chances: dict[Hashable, float]) -> float:
    """Compare draws with a distribution, rare outcomes pooled; none may be impossible."""
    n = seen.total()
    impossible = set(seen) - set(chances)
    assert not impossible, f"drawn, though not possible: {list(impossible)[:5]}"
    common = {o for o, p in chances.items() if p * n >= LEAST_EXPECTED}
    pairs = [(seen[o], n * chances[o]) for o in common]
    rest = n - sum(expected for _, expected in pairs)
    if rest >= LEAST_EXPECTED:
        pairs.append((n - sum(count for count, _ in pairs), rest))
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    return float(chi2.sf(statistic, len(pairs) - 1))


def outcome_of(cuts: CutSet) -> oracle.Outcome:
    """Return the split in the notation of the oracle."""
    named: list[tuple[oracle.Part, int | None]] = []
    for done in cuts.rounds:
        if isinstance(done.part, IntervalPart):
            upper = done.children[1]
            assert isinstance(upper, IntervalPart)
            codes = done.part.codes
            named.append(((codes[0], codes[-1]), upper.codes[0]))
        else:
            named.append((done.part.label, None))
    return tuple(named)


def counts() -> dict[str, SealedCounts]:
    jobs, ages, classes = zip(*oracle.ROWS, strict=True)
    table = pa.table({"job": jobs, "age": ages, "class": classes})
    return sealed(connect(table, oracle.SCHEMA)).histograms(["job", "age"], by="class")


MAX = Max(), oracle.max_score, Fraction(1, 2)
VARIATION = TotalVariation(), oracle.total_variation, 2


@pytest.mark.parametrize(
    ("score", "by_hand", "epsilon", "calibration"),
    [
        pytest.param(*MAX, "tight", id="tight-max"),
        pytest.param(*VARIATION, "tight", id="tight-total-variation"),
        pytest.param(*VARIATION, "paper", id="paper-total-variation"),
        pytest.param(*MAX, "paper", id="paper-max", marks=pytest.mark.long),
    ],
)
def test_cuts_are_chosen_with_their_exact_probabilities(
    calibration: str, score: Score, by_hand: oracle.Score, epsilon: Fraction
) -> None:
    private, noise = counts(), SecureNoise()
    run = specialize_jointly if calibration == "tight" else specialize_as_printed
    exact = oracle.tight if calibration == "tight" else oracle.paper
    sensitivity = score.sensitivity(n_classes=2)
    factor = 1 if calibration == "tight" and score.monotone else 2
    chances = exact(oracle.ROWS, rounds=2, eta=float(epsilon) / factor / sensitivity, score=by_hand)
    assert sum(chances.values()) == pytest.approx(1)
    seen: Counter[Hashable] = Counter()
    for _ in range(N_RUNS):
        cuts = CutSet(oracle.SCHEMA, private, score)
        run(cuts, n_rounds=2, epsilon=Fraction(epsilon), sensitivity=sensitivity, noise=noise)
        seen[outcome_of(cuts)] += 1
    assert p_value(seen, dict(chances)) > ALPHA
    # The test would detect an exponent twice as large.
    wrong = exact(oracle.ROWS, rounds=2, eta=4 * float(epsilon) / sensitivity, score=by_hand)
    assert p_value(seen, dict(wrong)) < ALPHA


# --- noise for cells that are not enumerated ------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "rate", "threshold"),
    [
        (40_000, HALF, 1),
        (10**6, Fraction(1), 6),
        (10**12, Fraction(1, 10), 200),
        (10**40, Fraction(3), 28),
    ],
)
def test_empty_cells_reach_the_threshold_as_often_as_they_should(
    n: int, rate: Fraction, threshold: int
) -> None:
    found = indices_above_threshold(n, rate=rate, threshold=threshold, noise=SecureNoise())
    x = float(rate)
    chance = math.exp(-x * threshold) / (1 + math.exp(-x))
    mean = n * chance
    assert mean > 1000
    spread = math.sqrt(mean * (1 - chance))
    assert abs(len(found) - mean) < 6 * spread  # 2e-9
    assert found == sorted(set(found))
    assert found[0] >= 0
    assert found[-1] < n
    tenth = Counter(place * 10 // n for place in found)
    assert p_value(tenth, dict.fromkeys(range(10), 0.1)) > ALPHA


def test_each_empty_cell_decides_for_itself() -> None:
    """All 8 outcomes of three cells, against the exact probabilities."""
    noise, chance = SecureNoise(), math.exp(-0.5) / (1 + math.exp(-0.5))
    seen: Counter[Hashable] = Counter(
        tuple(indices_above_threshold(3, rate=HALF, threshold=1, noise=noise)) for _ in range(4000)
    )
    chances = {
        (): (1 - chance) ** 3,
        **{(i,): chance * (1 - chance) ** 2 for i in range(3)},
        **{(i, j): chance**2 * (1 - chance) for i in range(3) for j in range(i + 1, 3)},
        (0, 1, 2): chance**3,
    }
    assert p_value(seen, dict(chances)) > ALPHA


def test_bernoulli_samples_of_real_probability() -> None:
    """With bounds as wide as 1/4, refinement decides most draws."""

    def bounds(bits: int) -> tuple[Fraction, Fraction]:
        width = Fraction(1, 2 ** (bits // 2 + 1))
        third = Fraction(1, 3)
        return third - width / 3, third + width * 2 / 3

    noise, n = SecureNoise(), 3000
    heads = sum(bernoulli_bounded(bounds, size=n, noise=noise, bits=2))
    assert binom.sf(heads - 1, n, 1 / 3) > ALPHA
    assert binom.cdf(heads, n, 1 / 3) > ALPHA


@pytest.mark.parametrize("max_cells", [100, 3])
def test_all_cells_have_the_same_noise(max_cells: int) -> None:
    """An empty and an occupied cell, listed in full or above a threshold."""
    domain, noise = Domain({"x": 4}), SecureNoise()
    groups = DomainMechanism(domain=domain, rate=HALF, max_cells=max_cells)
    seen: dict[int, Counter[Hashable]] = {0: Counter(), 2: Counter()}
    n = 4000
    for _ in range(n):
        cells = groups.add(np.array([[2]]), np.array([3]), noise)
        listed = dict(zip(cells.codes[:, 0].tolist(), cells.noisy.tolist(), strict=True))
        for cell, counter in seen.items():
            counter[listed.get(cell)] += 1
    lowest = -200 if groups.threshold is None else groups.threshold
    r = math.exp(-0.5)
    for cell, count in ((0, 0), (2, 3)):
        chances: dict[Hashable, float] = {
            value: (1 - r) / (1 + r) * r ** abs(value - count) for value in range(lowest, 200)
        }
        chances[None] = max(0.0, 1 - sum(chances.values()))
        assert p_value(seen[cell], chances) > ALPHA
