"""Section 000 of the reference numbers: all that this method computes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from exact_divergence import ROUNDING, hockey_stick
from exact_masses import mass_bounds
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.privacy.mechanisms.single_counts import (
    CountMechanism,
    OneSidedGeometric,
    ThresholdMatrix,
    TwoSidedGeometric,
)

DIGITS_20 = 1e-19
DOUBLE = 1e-12


def epsilon_of(text: str) -> Fraction:
    """Read '1' or 'ln5'; a logarithm to 60 digits, as in the reference numbers."""
    if not text.startswith("ln"):
        return Fraction(text)
    with mpmath.workdps(80):
        return Fraction(int(mpmath.log(int(text[2:])) * mpmath.mpf(2) ** 200), 2**200)


def released(mechanism: CountMechanism, count: int) -> Fraction:
    low, high = mass_bounds(mechanism, count, 0)
    return 1 - (low + high) / 2


def close(value: Fraction | float, expected: str, tolerance: float) -> bool:
    """Compare up to the last digit of the reference."""
    reference = Fraction(expected)
    if reference == 0:
        return value == 0
    return abs(Fraction(value) / reference - 1) <= tolerance


def test_release_probabilities_of_the_paper(vectors: dict[str, Any]) -> None:
    tables = vectors["000"]["w_tables"]["tables"]
    assert len(tables) == 12
    for table in tables:
        k = table["k"]
        paper = ThresholdMatrix(
            epsilon=epsilon_of(table["eps"]), delta=Fraction(table["delta"]), k=k
        )
        listed = zip(table["w_from_i_equal_k"], table["one_minus_w"], strict=True)
        for i, (w, rest) in enumerate(listed, start=k):
            assert close(released(paper, i), w, DIGITS_20)
            assert close(mass_bounds(paper, i, 0)[0], rest, DIGITS_20)
            assert close(paper.release_probability(i), w, DOUBLE)
            assert close(paper.mass(i)[0], rest, DOUBLE)
        for probability, count in table["first_i_with_w_ge"].items():
            assert paper.release_count(float(probability)) == count


@pytest.mark.parametrize(
    ("section", "epsilon"), [("EX_corrected", "1"), ("EX_corrected_ln5", "ln5")]
)
def test_expected_counts_of_the_paper(vectors: dict[str, Any], section: str, epsilon: str) -> None:
    values = vectors["000"][section]
    paper = ThresholdMatrix(epsilon=epsilon_of(epsilon), delta=Fraction(1, 10**5), k=10)
    for count, expected in values.get("values", values).items():
        assert close(paper.expected(int(count)), expected, DOUBLE)


def test_matrix_rows(vectors: dict[str, Any]) -> None:
    rows = vectors["000"]["matrix_rows_eps1_delta1e-5_k10"]["rows"]
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, mechanism="paper")
    paper = ThresholdMatrix(epsilon=Fraction(1), delta=Fraction(1, 10**5), k=10)
    assert set(rows) == {"9", "10", "11", "15", "35"}
    for count, row in rows.items():
        mass = method.of_one_row.mass(int(count))
        for published, expected in row.items():
            assert close(mass_bounds(paper, int(count), int(published))[0], expected, DIGITS_20)
            assert close(mass.get(int(published), 0.0), expected, DOUBLE)


def test_tight_mechanism(vectors: dict[str, Any]) -> None:
    tables = vectors["000"]["delta_exact_one_sided"]["tables"]
    assert len(tables) == 6
    for table in tables:
        epsilon, delta = epsilon_of(table["eps"]), Fraction(table["delta"])
        for k in (1, 10):
            tight = OneSidedGeometric(epsilon=epsilon, delta=delta, k=k)
            assert tight.n_head == table["n1"]
            mean = Fraction(table["mean_n"])
            assert tight.offset == round(mean)
            assert tight.bias == pytest.approx(float(tight.offset - mean), abs=1e-15)
            count = 1000
            peak = mass_bounds(tight, count, count + tight.offset - tight.n_head - 1)[0]
            assert close(peak, table["peak"], DIGITS_20)
            for c, expected in enumerate(table["release_prob_by_count_minus_k_plus_1"], start=1):
                assert close(released(tight, k - 1 + c), expected, DIGITS_20)
                assert close(tight.release_probability(k - 1 + c), expected, DOUBLE)
            # The tight delta is delta itself, and it is attained at every step.
            attained = hockey_stick(tight, k, k - 1)
            assert close(attained, table["tight_delta"], 1e-18)
            assert attained <= delta * ROUNDING


def test_tight_is_optimal_up_to_the_end_of_its_head(vectors: dict[str, Any]) -> None:
    for table in vectors["000"]["one_sided_truncated_geometric"]["tables"]:
        tight = OneSidedGeometric(
            epsilon=epsilon_of(table["eps"]), delta=Fraction(table["delta"]), k=table["k"]
        )
        best = table["optimal_pi_from_i_equal_k"]
        simple = table["release_prob_from_i_equal_k"]
        for i, (most, less) in enumerate(zip(best, simple, strict=True), start=tight.k):
            assert released(tight, i) <= Fraction(most) * (1 + Fraction(DIGITS_20))
            assert released(tight, i) >= Fraction(less) * (1 - Fraction(DIGITS_20))
            if i - tight.k + 1 <= tight.n_head:
                assert close(released(tight, i), most, DIGITS_20)


@pytest.mark.parametrize(
    ("epsilon", "tight", "paper"),
    [("1", (21, 25), (32, 36)), ("ln5", (17, 19), (24, 26)), ("ln10", (15, 16), (20, 21))],
)
def test_thresholds_of_both_mechanisms(
    epsilon: str, tight: tuple[int, int], paper: tuple[int, int]
) -> None:
    name = epsilon.replace("ln5", "ln(5)").replace("ln10", "ln(10)")
    for kind, counts in (("tight", tight), ("paper", paper)):
        method = NoisyCounts(epsilon=name, delta="1e-5", k=10, mechanism=kind)
        assert (
            method.of_one_row.release_count(0.5),
            method.of_one_row.release_count(0.99),
        ) == counts
        for count, probability in zip(counts, (0.5, 0.99), strict=True):
            assert method.of_one_row.release_probability(count - 1) < probability
            assert method.of_one_row.release_probability(count) >= probability


def test_variances_and_noise_levels() -> None:
    """The figures of the errata, to all their digits."""
    both = {
        kind: [
            NoisyCounts(epsilon=e, delta="1e-5", k=10, mechanism=kind)
            for e in (1, "ln(5)", "ln(10)")
        ]
        for kind in ("tight", "paper")
    }
    variances = {
        kind: [round(method.of_one_row.variance, 2) for method in methods]
        for kind, methods in both.items()
    }
    assert variances == {"tight": [1.98, 0.67, 0.27], "paper": [7.84, 2.93, 1.35]}
    assert round(both["tight"][0].of_one_row.noise_level(30), 2) == 0.03
    assert round(both["paper"][0].of_one_row.noise_level(30), 2) == 0.79


def test_two_sided_geometric(vectors: dict[str, Any]) -> None:
    numbers = vectors["samplers"]["two_sided_geometric"]
    one = TwoSidedGeometric(epsilon=Fraction(1))
    assert close(mass_bounds(one, 50, 50)[0], numbers["eps=1 P[0]"], DIGITS_20)
    assert close(mass_bounds(one, 50, 51)[0], numbers["eps=1 P[1]"], DIGITS_20)
    assert close(one.variance, numbers["eps=1 variance"], DOUBLE)
    half = ThresholdMatrix(epsilon=Fraction(1), delta=Fraction(1, 10**5), k=10)
    assert close(half.variance, numbers["eps=0.5 variance"], DOUBLE)


@pytest.mark.parametrize(("epsilon", "section"), [("1", "eps1"), ("ln5", "ln5")])
def test_replacing_a_row(vectors: dict[str, Any], epsilon: str, section: str) -> None:
    """Errata li-2009-4: (epsilon, delta) does not hold for replace, (2 epsilon, delta) does."""
    paper = ThresholdMatrix(epsilon=epsilon_of(epsilon), delta=Fraction(1, 10**5), k=10)
    listed = vectors["000"]["tight"][f"replace_one_{section}"]
    for name, value in listed.items():
        factor = float(name.removeprefix("delta at ").removesuffix(" eps"))
        found = _replace_divergence(paper, factor * float(paper.epsilon))
        assert found == pytest.approx(float(value.split()[0]), rel=1e-6)


def _replace_divergence(mechanism: ThresholdMatrix, epsilon: float) -> float:
    """Largest divergence over pairs of counts where one tuple loses a row and another gains it."""
    top = 45
    rows = np.zeros((top + 1, 4 * top))
    for count in range(top + 1):
        for published, chance in mechanism.mass(count).items():
            rows[count, min(published, 4 * top - 1)] += chance
    worst = 0.0
    for loses in range(1, top):
        before, after = rows[loses], rows[loses - 1]
        for gains in range(top):
            joint = np.outer(before, rows[gains]) - math.exp(epsilon) * np.outer(
                after, rows[gains + 1]
            )
            worst = max(worst, float(joint[joint > 0].sum()))
    return worst
