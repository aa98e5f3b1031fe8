"""The errors of the paper, each with a test that fails if it returns; and an attack."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import hushtable.methods.counts.noisy_counts as module
from exact_divergence import ROUNDING, hockey_stick
from exact_masses import mass_bounds
from hushtable.arrays import Integers
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.privacy.guarantee import ApproxDP, PureDP, Threshold
from hushtable.privacy.mechanisms.single_counts import (
    CountMechanism,
    OneSidedGeometric,
    ThresholdMatrix,
    TwoSidedGeometric,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema

ONE = {"epsilon": Fraction(1), "delta": Fraction(1, 10**5), "k": 10}
TIGHT, PAPER = OneSidedGeometric(**ONE), ThresholdMatrix(**ONE)  # type: ignore[arg-type]
SCHEMA = Schema.from_dict({"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 9}}})

every_mechanism = pytest.mark.parametrize("kind", ["tight", "paper", "pure"])
both = pytest.mark.parametrize("mechanism", [TIGHT, PAPER], ids=["tight", "paper"])


def make(kind: str, **parameters: Any) -> NoisyCounts:
    limits = {} if kind == "pure" else {"delta": "1e-5", "k": 10}
    return NoisyCounts(**({"epsilon": 1, "mechanism": kind} | limits | parameters))


def replace_divergence(
    mechanism: CountMechanism, *, loses: int, gains: int, epsilon: float
) -> float:
    """Divergence where one tuple loses a row and another one gets it."""
    p, p_after = mechanism.mass(loses), mechanism.mass(loses - 1)
    q, q_after = mechanism.mass(gains), mechanism.mass(gains + 1)
    factor = math.exp(epsilon)
    return math.fsum(
        max(0.0, a * b - factor * p_after.get(x, 0.0) * q_after.get(y, 0.0))
        for x, a in p.items()
        for y, b in q.items()
    )


# --- li-2009-4: neighbors -------------------------------------------------------------------------


@every_mechanism
def test_li_2009_4_the_promise_is_for_adding_or_removing(kind: str) -> None:
    promise = make(kind).guarantee(SCHEMA)[0]
    assert isinstance(promise, ApproxDP | PureDP)
    assert promise.neighbors == "add-remove"
    assert "Adding or removing" in promise.explain()


@both
def test_li_2009_4_replacing_needs_twice_epsilon_but_not_twice_delta(
    mechanism: CountMechanism,
) -> None:
    worst = {
        factor: max(
            replace_divergence(mechanism, loses=loses, gains=gains, epsilon=factor)
            for loses in (10, 22, 33)
            for gains in (9, 20, 32)
        )
        for factor in (1.0, 2.0)
    }
    assert worst[1.0] > 0.05  # so (epsilon, delta) must not be promised for it
    assert worst[2.0] <= 1e-5 * (1 + 1e-6)


@both
def test_li_2009_4_delta_is_met_only_where_a_new_outcome_appears(mechanism: CountMechanism) -> None:
    assert hockey_stick(mechanism, 10, 9) <= Fraction(1, 10**5) * ROUNDING
    assert hockey_stick(mechanism, 10, 9) >= Fraction(1, 10**5) * (1 - Fraction(1, 2**60))
    for count in (15, 25, 40):  # and the whole epsilon is used: a smaller one does not suffice
        enough, less = (
            max(
                hockey_stick(mechanism, count, count + 1, epsilon=epsilon),
                hockey_stick(mechanism, count + 1, count, epsilon=epsilon),
            )
            for epsilon in (Fraction(1), Fraction(99, 100))
        )
        assert enough <= Fraction(1, 10**5) * ROUNDING
        assert less > enough + Fraction(1, 10**9)


# --- li-2009-5: which definition ------------------------------------------------------------------


def bad_mass(mechanism: CountMechanism, count: int, other: int, merge: dict[int, int]) -> float:
    """Mass of the outcomes whose ratio exceeds e**epsilon: the paper's Definition 2."""
    merged: list[dict[int, float]] = []
    for private in (count, other):
        table: dict[int, float] = {}
        for outcome, chance in mechanism.mass(private).items():
            name = merge.get(outcome, outcome)
            table[name] = table.get(name, 0.0) + chance
        merged.append(table)
    limit = math.exp(float(mechanism.epsilon)) * (1 + 1e-9)
    return math.fsum(p for o, p in merged[0].items() if p > limit * merged[1].get(o, 0.0))


def test_li_2009_5_the_standard_definition_survives_what_definition_2_does_not() -> None:
    newest = max(TIGHT.mass(15))
    assert bad_mass(TIGHT, 15, 14, {}) == pytest.approx(1e-5)
    merge = {newest: newest - 1}
    assert bad_mass(TIGHT, 15, 14, merge) > 3e-5  # more than delta: Definition 2 is broken
    merged = hockey_stick(TIGHT, 15, 14, merge=lambda j: merge.get(j, j))
    assert merged <= TIGHT.delta * ROUNDING  # the promise is not


@both
@pytest.mark.parametrize("width", [2, 5, 1000])
def test_li_2009_5_coarser_outcomes_keep_the_promise(
    mechanism: OneSidedGeometric | ThresholdMatrix, width: int
) -> None:
    for count in range(8, 45, 3):
        for one, two in ((count, count + 1), (count + 1, count)):
            divergence = hockey_stick(mechanism, one, two, merge=lambda j: j // width)
            assert divergence <= mechanism.delta * ROUNDING


def test_li_2009_5_the_promise_says_which_definition() -> None:
    assert "standard definition" in (ApproxDP.__doc__ or "")
    assert "standard definition" in proof()


# --- li-2009-6: a threshold is only a threshold ---------------------------------------------------


@pytest.mark.parametrize("kind", ["tight", "paper"])
def test_li_2009_6_the_threshold_is_not_sold_as_more(kind: str) -> None:
    promises = make(kind).guarantee(SCHEMA)
    assert [type(promise) for promise in promises] == [ApproxDP, Threshold]
    threshold = promises[1]
    assert "fewer than 10" in threshold.explain()
    assert "anonym" not in threshold.explain().lower()
    left_out = " ".join(threshold.unprotected)
    for weakness in ("Planted", "Sensitive values", "Several releases"):
        assert weakness in left_out


@both
def test_li_2009_6_fewer_than_k_rows_are_never_published(mechanism: CountMechanism) -> None:
    for count in range(10):
        assert mass_bounds(mechanism, count, 0) == (1, 1)
        assert mechanism.mass(count) == {0: 1.0}
    # With a large delta, so that a threshold that is off by one would publish hundreds.
    eager = type(mechanism)(epsilon=Fraction(1), delta=Fraction(1, 10), k=10)  # type: ignore[call-arg]
    few = np.tile(np.arange(10, dtype=np.int64), 20_000)
    assert not eager.noisy(few, SecureNoise()).any()


def test_li_2009_6_pure_promises_no_threshold() -> None:
    assert [type(p) for p in make("pure").guarantee(SCHEMA)] == [PureDP]


# --- li-2009-7 to li-2009-11: the matrix ----------------------------------------------------------


def test_li_2009_7_rows_of_the_matrix_sum_to_one() -> None:
    for count in (10, 11, 12, 20, 40):
        last = count + 5
        r = math.exp(-0.5)
        total = sum(mass_bounds(PAPER, count, j)[1] for j in (0, *range(10, last + 1)))
        tail = PAPER.release_probability(count) * r ** (last + 1 - count) / (1 + r)
        assert float(total) + tail == pytest.approx(1, abs=1e-14)
        # The paper's r**(i-j) is unbounded above i.
        assert mass_bounds(PAPER, count, count + 4)[1] < mass_bounds(PAPER, count, count + 3)[0]
    literal = sum(math.exp(-0.5 * (12 - j)) for j in range(11, 100))
    assert literal > 1e14


def test_li_2009_8_the_expected_count_is_the_corrected_one() -> None:
    r = math.exp(-0.5)
    method = make("paper")
    for count in (10, 12, 15, 20, 40):
        w = method.of_one_row.release_probability(count)
        right = w * (count + r ** (count - 10 + 1) / (1 - r * r))
        printed = w * (count + r ** (count + 1) / (1 - r * r))
        assert method.of_one_row.expected(count) == pytest.approx(right, rel=1e-12)
        if count <= 15:
            assert method.of_one_row.expected(count) > printed * 1.005
    assert method.of_one_row.expected(10) == pytest.approx(1.0959517e-4, rel=1e-7)
    assert method.of_one_row.expected(15) == pytest.approx(1.836969e-3, rel=1e-6)


def test_li_2009_9_ninety_nine_percent_from_36_on_not_35() -> None:
    method = make("paper")
    assert method.of_one_row.release_probability(35) == pytest.approx(0.98002, abs=1e-5)
    assert method.of_one_row.release_probability(36) == pytest.approx(0.99265, abs=1e-5)
    assert method.of_one_row.release_count(0.99) == 36


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "first", "printed"),
    [
        ("1", "1e-5", 10, (24, 32, 36), 30),
        ("ln(5)", "1e-5", 10, (19, 24, 26), 23),
        ("ln(10)", "1e-5", 10, (16, 20, 21), 15),
        ("ln(5)", "1e-7", 10, (25, 30, 32), 30),
        ("ln(5)", "1e-3", 10, (13, 18, 21), 15),
        ("ln(5)", "1e-5", 3, (12, 17, 19), 13),
        ("ln(5)", "1e-5", 20, (29, 34, 36), 35),
    ],
)
def test_li_2009_10_release_counts_are_stated_as_quantiles(
    epsilon: str, delta: str, k: int, first: tuple[int, ...], printed: int
) -> None:
    method = make("paper", epsilon=epsilon, delta=delta, k=k)
    # At ln(10) w_16 is 0.01 exactly, and the rational epsilon is slightly below ln(10).
    assert tuple(method.of_one_row.release_count(p) for p in (0.009999, 0.5, 0.99)) == first
    lines = method.forecast(SCHEMA).lines
    for probability in (0.01, 0.5, 0.99):
        name = f"rows from which a tuple is published with probability {probability}"
        assert lines[name] == method.of_one_row.release_count(probability)
    assert not any("starts" in line for line in lines)
    if epsilon == "ln(10)":
        assert method.of_one_row.release_probability(printed) < 0.01


def test_li_2009_11_the_likeliest_published_count_may_be_k() -> None:
    def mode(count: int) -> int:
        mass = {j: p for j, p in make("paper").of_one_row.mass(count).items() if j}
        return max(mass, key=lambda j: mass[j])

    assert mode(11) == 10  # the paper says 11
    assert mode(20) == 20


# --- li-2009-12: absent tuples under pure ---------------------------------------------------------


def test_li_2009_12_how_often_an_absent_tuple_appears() -> None:
    pure = make("pure")
    r = math.exp(-1)
    assert pure.of_one_row.release_probability(0) == pytest.approx(r / (1 + r), rel=1e-12)
    assert pure.of_one_row.release_probability(0) == pytest.approx(
        0.269, abs=1e-3
    )  # the paper: over 3/4
    lines = make("pure").forecast(SCHEMA).lines
    assert lines["chance that an absent tuple gets a count above 0"] == pytest.approx(
        0.2689, abs=1e-4
    )
    assert lines["absent tuples with a count above 0, at most about"] == 3


def test_li_2009_12_noise_of_scale_lambda_is_one_over_lambda_private_for_add_remove() -> None:
    mechanism = make("pure", epsilon="1/2").plan(SCHEMA).mechanism
    assert isinstance(mechanism, TwoSidedGeometric)
    # Scale 2 for epsilon 1/2: half of it (2/lambda, for replace) would break the promise.
    assert mechanism.variance == pytest.approx(7.8354, abs=1e-4)
    assert hockey_stick(mechanism, 6, 5) <= Fraction(1, 2**200)
    assert hockey_stick(mechanism, 6, 5, epsilon=Fraction(49, 100)) > Fraction(1, 1000)


# --- the proof says so --------------------------------------------------------------------------


def proof() -> str:
    return Path(module.__file__).with_suffix(".md").read_text()


def test_the_proof_lists_every_repair() -> None:
    text = proof()
    for number in range(4, 13):
        assert f"li-2009-{number} " in text or f"li-2009-{number})" in text


# --- an attack ----------------------------------------------------------------------------------

CONFIDENCE_EACH = 1 - 1e-7  # both bounds hold except with probability 2e-7, the false-alarm rate
N_RUNS = 20_000


def epsilon_seen(mechanism: CountMechanism, delta: float, noise: Noise) -> float:
    """Return a lower bound of epsilon from how often k and k-1 copies of a tuple are published."""
    k = 10
    seen = [
        int(np.count_nonzero(mechanism.noisy(np.full(N_RUNS, count, np.int64), noise)))
        for count in (k, k - 1)
    ]
    tail = 1 - CONFIDENCE_EACH
    present = float(beta.ppf(tail, seen[0], N_RUNS - seen[0] + 1)) if seen[0] else 0.0
    absent = float(beta.ppf(1 - tail, seen[1] + 1, N_RUNS - seen[1]))
    return math.log((present - delta) / absent) if present > delta else -math.inf


@pytest.mark.parametrize("kind", [OneSidedGeometric, ThresholdMatrix])
def test_the_attack_finds_nothing(kind: type[OneSidedGeometric] | type[ThresholdMatrix]) -> None:
    mechanism = kind(epsilon=Fraction(1), delta=Fraction(1, 100), k=10)
    assert epsilon_seen(mechanism, 0.01, SecureNoise()) <= 1


@pytest.mark.parametrize("kind", [OneSidedGeometric, ThresholdMatrix])
def test_the_attack_finds_a_delta_that_is_five_times_too_large(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    leaky = kind(epsilon=Fraction(1), delta=Fraction(5, 100), k=10)
    assert epsilon_seen(leaky, 0.01, SecureNoise()) > 1


def test_a_threshold_that_is_one_too_low_would_be_seen() -> None:
    class OffByOne(ThresholdMatrix):
        def noisy(self, counts: Integers, noise: Noise) -> Integers:
            return super().noisy(counts + 1, noise)

    leaky = OffByOne(epsilon=Fraction(1), delta=Fraction(1, 100), k=10)
    assert leaky.noisy(np.full(N_RUNS, 9, np.int64), SecureNoise()).any()  # missed: e**-200
