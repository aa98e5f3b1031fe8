"""Recorded runs of the auditor: every kind of fault is detected, and correct runs have none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hushtable.audit.cases import copies, made_schema, whole
from hushtable.audit.inputs import Pair, TableInput
from hushtable.audit.recorder import LuckyNoise, observer_of
from hushtable.audit.reference_costs import ReferenceCost, delta_of, reference_cost
from hushtable.audit.subject import Clock, Prepared, Subject
from hushtable.audit.white_box import Watched, WhiteBox, faults_of_count_mechanism
from hushtable.engine import memory_engine
from hushtable.engine.sealed_table import seal
from hushtable.methods.base import Released
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.accounting.sealed import SealedCounts, unseal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace
from hushtable.privacy.mechanisms.private_choice import SealedScores, TopChoices
from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric, ThresholdMatrix
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.noise.sparse_subset import is_below
from hushtable.privacy.unit import Unit

SCHEMA = made_schema({"x": whole(3)})
PROMISED = PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="add-remove")


def fault_of(release: Any, *, pairs: list[Pair] | None = None) -> str:
    """Record runs of a function that opens sealed counts, and return the fault that was found."""

    def run(engine: Any, noise: Noise) -> Released:
        limit = SpendingLimit(Fraction(10**6))
        account = RunAccount(limit, spends_all=False, observer=observer_of(noise))
        return Released({}, release(seal(engine, account), noise))

    subject = Subject(None, SCHEMA, Prepared((PROMISED,), run), SecureNoise())  # type: ignore[arg-type]
    pairs = pairs or list(copies(SCHEMA, range(12)))
    finding, *_ = WhiteBox([Watched(subject, "tried", pairs)]).findings(1e-9, Clock())
    assert finding is not None
    assert (finding.verdict == "VIOLATION") is (finding.witness is not None)
    return finding.witness.event if finding.witness else ""


def counts(source: Any) -> Any:
    return source.histograms(["x"])["x"]


def opened(source: Any, noise: Noise, scale: int = 1) -> list[int]:
    noisy: list[int] = noise.open(counts(source), Laplace(Fraction(scale)), "counts").tolist()
    return noisy


def test_a_correct_run_has_no_fault() -> None:
    def release(source: Any, noise: Noise) -> Any:
        first = opened(source, noise, 2)
        more = noise.open(counts(source).sum(), Laplace(Fraction(2)), "rows") if first[0] > 3 else 0
        return {
            "counts": first,
            "more": int(np.ravel(more)[0]),
            "coin": int(noise.integer_below(9)),
        }

    assert fault_of(release) == ""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda s, n: {"c": opened(s, n), "n": int(unseal(s.n_rows())[0])}, "n differs"),
        (lambda s, n: {"c": opened(s, n)[: 1 + int(unseal(s.n_rows())[0]) % 2]}, "differs"),
        (lambda s, n: {"c": [opened(s, n) for _ in range(int(unseal(s.n_rows())[0]))]},
         "after the same outcomes"),
        (lambda s, n: {"c": opened(s, n, 1 + int(unseal(s.n_rows())[0]))}, "different noise"),
        (lambda s, n: {"c": (opened(s, n), opened(s, n))}, "cost of the run is epsilon 2"),
        (lambda s, n: {"c": Laplace(Fraction(1)).draw(unseal(counts(s)), n).tolist()},
         "without a recorded cost"),
        (lambda s, n: {"c": opened(s, SecureNoise())}, "noise other than that of the run"),
    ],
)  # fmt: skip
def test_unpaid_output_is_detected(wrong: Any, said: str) -> None:
    assert said in fault_of(wrong)


def test_very_unlikely_outcomes_are_tried() -> None:
    """Noise that is truncated far out, where no number of runs would find it."""

    def release(source: Any, noise: Noise) -> Any:
        exact = unseal(counts(source))
        return {"c": np.clip(opened(source, noise), exact - 30, exact + 30).tolist()}

    assert "differs" in fault_of(release)


def test_a_sensitivity_that_is_too_small_is_detected() -> None:
    def release(source: Any, noise: Noise) -> Any:
        twice = SealedCounts(2 * unseal(counts(source)), Sensitivity(rows=1), source.account.root)
        return {"c": noise.open(twice, Laplace(Fraction(1)), "counts").tolist()}

    assert "changes by 2 in total between neighbors; 1 was recorded" in fault_of(release)


@pytest.mark.parametrize(("most", "monotone"), [(1, True), (1, False)])
def test_scores_that_change_too_much_or_both_ways_are_detected(most: int, monotone: bool) -> None:
    def release(source: Any, noise: Noise) -> Any:
        n = int(unseal(source.n_rows())[0])
        values = [n, -n] if monotone else [3 * n, 0]
        scores = SealedScores.of(
            values, Sensitivity(rows=most), source.account.root, monotone=monotone
        )
        return {"c": noise.open(scores, TopChoices(Fraction(1)), "choice")}

    assert ("by 2 relative to each other" if monotone else "by 3 at most") in fault_of(release)


def test_a_draw_that_deviates_from_its_sampler_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Laplace.draw
    monkeypatch.setattr(
        Laplace, "draw", lambda self, exact, noise: real(Laplace(self.scale / 2), exact, noise)
    )
    assert "deviates from its exact sampler" in fault_of(lambda s, n: {"c": opened(s, n, 4)})


def crowd(*, first: bool) -> Pair:
    """Return people with three rows each (one row is used), and one more person."""
    schema = made_schema(
        {"who": {"role": "identifier"}, "x": whole(3)},
        {"kind": "person", "column": "who", "max_rows": 1},
    )
    people = [tuple((x, who) for x in range(3)) for who in range(20)]
    ordered = [row for rows in (people[::-1] if first else people) for row in rows]
    sides = [
        TableInput(schema, tuple((x,) for x, _ in rows), tuple(who for _, who in rows))
        for rows in (ordered, [row for row in ordered if row[1] < 19])
    ]
    return Pair("a crowd", *sides)


def watch_crowd(pair: Pair) -> tuple[WhiteBox, Any]:
    def run(engine: Any, noise: Noise) -> Released:
        account = RunAccount(SpendingLimit(Fraction(1)))
        return Released({}, {"c": opened(seal(engine, account), noise)})

    subject = Subject(None, pair.one.schema, Prepared((PROMISED,), run), SecureNoise())  # type: ignore[arg-type, union-attr]
    box = WhiteBox([Watched(subject, "tried", [pair] * 5)])
    return box, next(iter(box.findings(1e-9, Clock())), None)


def test_the_same_rows_are_selected_in_both_tables() -> None:
    box, finding = watch_crowd(crowd(first=False))
    assert box.n_pairs == 5
    assert finding.verdict == "NO VIOLATION FOUND"


def test_pairs_that_change_the_selection_of_others_are_skipped() -> None:
    box, finding = watch_crowd(crowd(first=True))
    assert (box.n_pairs, finding) == (0, None)


def test_more_rows_of_a_person_than_recorded_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_engine, "_bounded", lambda persons, *_: np.arange(len(persons)))
    _, finding = watch_crowd(crowd(first=False))
    assert "changes by 3 in total between neighbors; 1 was recorded" in finding.witness.event


def test_overlapping_parts_are_detected() -> None:
    def apart(source: Any, noise: Noise) -> Any:
        parts = counts(source).divided([0, 1])
        return {"c": [noise.open(part, Laplace(Fraction(1)), "a part").tolist() for part in parts]}

    def overlapping(source: Any, noise: Noise) -> Any:
        whole = counts(source)
        parts = [
            SealedCounts(unseal(whole), whole.sensitivity, part.part)
            for part in whole.divided([0, 1])
        ]
        return {"c": [noise.open(part, Laplace(Fraction(1)), "a part").tolist() for part in parts]}

    assert fault_of(apart) == ""
    assert "2 parts of table change between neighbors" in fault_of(overlapping)


def test_behavior_of_one_in_many_runs_is_detected() -> None:
    def release(source: Any, noise: Noise) -> Any:
        found: dict[str, Any] = {"c": opened(source, noise)}
        if noise.integer_below(10**12) == 0:
            found["n"] = int(unseal(source.n_rows())[0])
        return found

    assert "n differs" in fault_of(release)


def test_use_of_a_draws_noise_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [0]
    real = Noise.discrete_laplace

    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        drawn = real(self, scale, size=size)
        kept[0] = int(drawn[0])
        return drawn

    monkeypatch.setattr(Noise, "discrete_laplace", draw)
    assert "drawn differs" in fault_of(lambda s, n: {"c": opened(s, n), "drawn": kept[0]})


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(Fraction(7, 3)), Gaussian(Fraction(50)), TopChoices(Fraction(1, 3), 4),
     TopChoices(Fraction(1, 3), 2, "permute-and-flip"),
     OneSidedGeometric(epsilon=Fraction(1, 2), delta=Fraction(1, 100), k=5)],
    ids=lambda mechanism: type(mechanism).__name__,
)  # fmt: skip
@pytest.mark.parametrize("rows", [1, 3])
def test_recomputed_costs_equal_the_recorded_ones(mechanism: Any, rows: int) -> None:
    sensitivity = Sensitivity(rows=rows, cells=2)
    booked = mechanism.cost(sensitivity)
    if booked.epsilon is not None:
        own = reference_cost(mechanism, sensitivity, in_rho=False)
        assert own is not None
        assert (own.epsilon, own.delta) == pytest.approx((booked.epsilon, float(booked.delta)))
    if booked.rho is not None:
        own = reference_cost(mechanism, sensitivity, in_rho=True)
        assert own is not None
        assert own.rho == pytest.approx(float(booked.rho))


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/10", "1e-9"), ("4", "1/1000")])
def test_the_conversion_of_rho_matches_the_promise(epsilon: str, delta: str) -> None:
    """The rho of a promise implies it, and a rho that is 1% larger does not."""
    rho = float(concentrated_share(Fraction(epsilon), Fraction(delta)))
    assert ReferenceCost(rho=rho).is_within(float(Fraction(epsilon)), float(Fraction(delta)))
    assert not ReferenceCost(rho=1.01 * rho).is_within(
        float(Fraction(epsilon)), float(Fraction(delta))
    )
    assert delta_of(rho, 100.0) < 1e-30


@pytest.mark.parametrize("kind", [OneSidedGeometric, ThresholdMatrix])
def test_probabilities_of_counts_keep_their_promise(kind: Any) -> None:
    right = kind(epsilon=Fraction(1), delta=Fraction(1, 100), k=5)
    assert list(faults_of_count_mechanism(right, range(40))) == []

    @dataclass(frozen=True)
    class Claimed:
        """The same probabilities with a smaller promise."""

        epsilon: Fraction
        delta: Fraction

        def mass(self, count: int) -> dict[int, float]:
            masses: dict[int, float] = right.mass(count)
            return masses

    for claimed in (
        Claimed(Fraction(1), Fraction(1, 200)),
        Claimed(Fraction(9, 10), Fraction(1, 100)),
    ):
        assert list(faults_of_count_mechanism(claimed, range(40)))  # type: ignore[arg-type]


def test_unlikely_random_bits_do_not_keep_a_sampler_busy() -> None:
    """Each unlikely Boolean doubles the digits of a probability; an audit of alpha-beta hung."""
    asked = []

    def two_thirds(bits: int) -> tuple[Fraction, Fraction]:
        asked.append(bits)
        assert bits < 10**6
        return Fraction(2 ** (bits + 1) // 3, 2**bits), Fraction(2 ** (bits + 1) // 3 + 1, 2**bits)

    is_below(LuckyNoise(1, coin=0), two_thirds, *two_thirds(90), 90)
    assert len(asked) > 5  # the random bits were unlikely
