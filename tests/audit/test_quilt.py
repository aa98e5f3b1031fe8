"""Attacks on quilt: every query is charged, and unpaid use of the data is detected.

There are three kinds. Sensitivities are tested on random neighbors. The cost of a release is
recomputed from its published content, without the method's own accounting. And a release is made
again from a recorded transcript over *other* data: if one number changes, something other than the
measurements depends on the data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from audit.broken.unseen import STATISTIC, half_the_change_of_a_sum
from hushtable.audit import run as auditor
from hushtable.audit.cases import paired_pairs, paired_schema, planned
from hushtable.audit.subject import Clock, Subject
from hushtable.audit.white_box import Watched, WhiteBox
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import SealedError
from hushtable.methods.base import Released
from hushtable.methods.quilt import fit
from hushtable.methods.quilt import fit as rounds
from hushtable.methods.quilt.binning import CountedDomain
from hushtable.methods.quilt.budget import BudgetShares, NoisyTable, PrivateMeasurer, ScoredTable
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.particles import Group
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import Quilt, QuiltPlan
from hushtable.methods.quilt.workload import SCALE
from hushtable.privacy.accounting.sealed import unseal
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.privacy.unit import Unit
from hushtable.schema import Schema
from sealing import PLENTY_OF_RHO, sealed
from seeds import shifted

Integers = NDArray[np.int64]

SIZES = (3, 4, 2)
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            name: {"type": "integer", "low": 0, "high": size - 1}
            for name, size in zip("abc", SIZES, strict=True)
        },
    }
)
WITHOUT_LOSS = ["generator", "account", "elsewhere", "differences", "repeats"]
PAIRS: list[Group] = [(0, 1), (0, 2), (1, 2)]


class ByHand:
    """An engine of a few rows, for thousands of neighbors."""

    def __init__(self, rows: Integers, reach: int) -> None:
        self.rows = rows
        unit = Unit(kind="person", column="p", max_rows=reach) if reach > 1 else Unit(kind="row")
        self.schema = SCHEMA.model_copy(update={"unit": unit})

    def marginals(self, groups: Sequence[Sequence[str]], *, recode: Any = None) -> list[Integers]:
        assert not recode
        found = []
        for group in groups:
            places = ["abc".index(name) for name in group]
            table = np.zeros([SIZES[place] for place in places], np.int64)
            np.add.at(table, tuple(self.rows[:, place] for place in places), 1)
            found.append(table)
        return found


def engine_of(rows: Integers, reach: int = 1) -> SealedTable:
    return sealed(ByHand(rows, reach), PLENTY_OF_RHO)


class ScoreNoise(SeededNoise):
    """Noise that records the scores of a choice, and chooses the first candidate."""

    def choose(self, scores: Any, **how: Any) -> int:
        self.seen, self.how = list(scores), how
        return 0


def scores_of(rows: Integers, candidates: Sequence[ScoredTable], reach: int = 1) -> list[int]:
    noise = ScoreNoise(shifted(0))
    purse = BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=reach)
    meter = PrivateMeasurer(engine_of(rows, reach), noise, purse)
    meter.read([c.group for c in candidates], {})
    meter.choose("choice", candidates, k=1, share=Fraction(1, 2), stop=0)
    # Computed here, independently of the method: the tests below show that a unit does change a
    # score by this much, so a smaller number would break the promise.
    assert noise.how["sensitivity"] == reach * max(c.weight for c in candidates)
    assert noise.how["monotone"] is False
    assert noise.seen[-1] == 0  # stopping
    return noise.seen[:-1]


def random_candidates(draw: np.random.Generator) -> list[ScoredTable]:
    """Make a random model: any model is allowed that does not depend on the data."""
    weights = draw.choice([10, 13, 15], size=3)
    return [
        ScoredTable(
            group,
            draw.integers(-3, 15, math.prod(SIZES[c] for c in group)),
            int(draw.integers(0, 20)),
            int(weight),
        )
        for group, weight in zip(PAIRS, weights, strict=True)
    ]


def random_rows(draw: np.random.Generator, n: int) -> Integers:
    return np.stack([draw.integers(0, size, n) for size in SIZES], axis=1)


# --- sensitivities --------------------------------------------------------------------------------


def test_one_row_changes_a_score_by_at_most_its_weight() -> None:
    draw = np.random.default_rng(shifted(0))
    largest = Fraction(0)
    for _ in range(1000):
        rows, candidates = random_rows(draw, int(draw.integers(1, 60))), random_candidates(draw)
        with_row, without = scores_of(rows, candidates), scores_of(rows[1:], candidates)
        for candidate, one, two in zip(candidates, with_row, without, strict=True):
            largest = max(largest, Fraction(abs(one - two), candidate.weight))
    assert largest == 1  # reached, and never exceeded


def test_a_person_changes_a_score_by_at_most_its_rows() -> None:
    draw = np.random.default_rng(shifted(1))
    largest = Fraction(0)
    for _ in range(300):
        candidates = random_candidates(draw)
        rows = random_rows(draw, 40)
        rows[:3] = rows[0]  # the worst: all of a person's rows in one cell
        with_person = scores_of(rows, candidates, reach=3)
        without = scores_of(rows[3:], candidates, reach=3)
        for candidate, one, two in zip(candidates, with_person, without, strict=True):
            largest = max(largest, Fraction(abs(one - two), candidate.weight))
    assert largest == 3


COARSE = np.array([0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3])  # two by two of the three by four cells


def coarse_candidate(cells: Integers, draw: np.random.Generator) -> ScoredTable:
    expected = draw.integers(-3, 15, int(cells.max()) + 1)
    return ScoredTable((0, 1), expected, int(draw.integers(0, 20)), 10, cells)


def test_one_row_changes_a_coarse_score_by_at_most_its_weight() -> None:
    draw = np.random.default_rng(shifted(8))
    largest = 0
    for _ in range(500):
        rows = random_rows(draw, int(draw.integers(1, 60)))
        candidates = [coarse_candidate(COARSE, draw)]
        (one,), (two,) = scores_of(rows, candidates), scores_of(rows[1:], candidates)
        largest = max(largest, abs(one - two))
    assert largest == 10  # reached, and never exceeded


def test_a_coarse_table_counts_every_row_once() -> None:
    # The broken variant, a table of overlapping cells, counts some rows twice.
    rows = random_rows(np.random.default_rng(shifted(9)), 40)

    class NoNoise(SeededNoise):
        def discrete_gaussian(self, variance: Fraction, size: Any = None) -> Any:
            return np.zeros(size, np.int64)

    def counts_of(rows: Integers) -> Integers:
        purse = BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=1)
        meter = PrivateMeasurer(engine_of(rows), NoNoise(shifted(0)), purse)
        meter.read(PAIRS, {})
        return meter.measure("pair", (0, 1), Fraction(1, 2), COARSE).counts

    all_of_them, less = counts_of(rows), counts_of(rows[1:])
    assert all_of_them.sum() == 40
    assert np.abs(all_of_them - less).sum() == 1
    fine = np.zeros((3, 4), np.int64)
    np.add.at(fine, (rows[:, 0], rows[:, 1]), 1)
    assert all_of_them.tolist() == np.bincount(COARSE, fine.ravel()).astype(int).tolist()


def test_a_pair_is_chosen_at_one_resolution_only() -> None:
    draw = np.random.default_rng(shifted(10))
    rows = random_rows(draw, 50)
    offered = [coarse_candidate(COARSE, draw), *random_candidates(draw)]
    meter = PrivateMeasurer(
        engine_of(rows),
        SeededNoise(shifted(2)),
        BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=1),
    )
    meter.read(PAIRS, {})
    chosen = meter.choose("choice", offered, k=3, share=Fraction(1, 10))
    assert sorted(offered[place].group for place in chosen) == PAIRS
    assert meter.budget.left == Fraction(7, 10)


def score_against_the_data(rows: Integers, pair: Group) -> float:
    """The broken variant: the model is independence of the *exact* one-way marginals."""
    i, j = pair
    joint = np.zeros((SIZES[i], SIZES[j]))
    np.add.at(joint, (rows[:, i], rows[:, j]), 1)
    expected = np.outer(joint.sum(1), joint.sum(0)) / max(len(rows), 1)
    return float(np.abs(joint - expected).sum())


def test_scores_against_the_data_would_be_too_sensitive() -> None:
    draw = np.random.default_rng(shifted(2))
    worst = 0.0
    for _ in range(300):
        a = draw.integers(0, 2, 30)
        rows = np.stack([a, a, draw.integers(0, 2, 30)], axis=1)
        rows[0, :2] = 2, 3
        worst = max(
            worst,
            abs(score_against_the_data(rows, (0, 1)) - score_against_the_data(rows[1:], (0, 1))),
        )
    assert worst > 1.5


def test_candidates_are_scored_against_the_noisy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    # The expected counts that `choose` gets are the rounded answers of the model.
    seen: list[bool] = []
    choose = PrivateMeasurer.choose

    def checked(
        self: PrivateMeasurer, step: str, candidates: Sequence[ScoredTable], **how: Any
    ) -> list[int]:
        seen.append(all(c.expected.dtype == np.int64 for c in candidates))
        return choose(self, step, candidates, **how)

    answers: dict[Group, NDArray[np.float64]] = {}
    ask = LogLinearModel.answers

    def noted(self: LogLinearModel, groups: Sequence[Group]) -> Any:
        found = ask(self, groups)
        answers.update(zip(groups, found, strict=True))
        return found

    make = rounds.candidates_for

    def compared(groups: Any, expected: Any, *more: Any) -> Any:
        made = make(groups, expected, *more)
        for offer in made:
            group, cells = offer.query.group, offer.scored.cells
            if group in answers:
                model = answers[group].ravel()
                own = model if cells is None else np.bincount(cells, model)
                assert np.abs(offer.scored.expected - own).max() <= 0.5 + 1e-9
        coarse.append(any(offer.scored.cells is not None for offer in made))
        return made

    coarse: list[bool] = []
    monkeypatch.setattr(PrivateMeasurer, "choose", checked)
    monkeypatch.setattr(LogLinearModel, "answers", noted)
    for stage in (fit, rounds):
        monkeypatch.setattr(stage, "candidates_for", compared)
    noise = SeededNoise(shifted(3))
    Quilt(epsilon=1, delta="1e-6", particles=2000).run(
        connect(sample(), sample_schema(), noise=noise), noise
    )
    assert seen
    assert all(seen)
    assert any(coarse)


# --- the mechanism of a choice --------------------------------------------------------------------


def probabilities(scores: Sequence[int], epsilon: float, delta_score: float) -> Any:
    """Return the probabilities of the exponential mechanism for scores that are not monotone."""
    exponents = np.array(scores, np.float64) * epsilon / (2 * delta_score)
    masses = np.exp(exponents - exponents.max())
    return masses / masses.sum()


def top_two(scores: Sequence[int], epsilon: float, delta_score: float) -> dict[Any, float]:
    """Return the distribution of two choices without replacement."""
    found = {}
    first = probabilities(scores, epsilon, delta_score)
    for i, j in itertools.permutations(range(len(scores)), 2):
        rest = [k for k in range(len(scores)) if k != i]
        second = probabilities([scores[k] for k in rest], epsilon, delta_score)
        found[i, j] = float(first[i] * second[rest.index(j)])
    return found


def renyi(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


def test_a_choice_costs_an_eighth_of_its_square() -> None:
    epsilon = 0.7
    for change in itertools.product((-1, 0, 1), repeat=4):
        for scores in ([0, 0, 0, 0], [5, 1, -3, 0], [2, 2, 1, 0]):
            other = [s + c for s, c in zip(scores[:3], change, strict=False)] + [0]  # stopping: 0
            p, q = (probabilities(s, epsilon, 1) for s in (scores, other))
            ratio = np.log(p / q)
            assert np.ptp(ratio) <= epsilon + 1e-12  # bounded range
            for order in (1.01, 2.0, 5.0, 30.0):
                assert renyi(p, q, order) <= order * epsilon**2 / 8 + 1e-12
            two_p, two_q = (top_two(s, epsilon, 1) for s in (scores, other))
            p2, q2 = (np.array([two[o] for o in sorted(two)]) for two in (two_p, two_q))
            for order in (1.01, 2.0, 5.0, 30.0):
                assert renyi(p2, q2, order) <= 2 * order * epsilon**2 / 8 + 1e-12


def test_an_eighth_would_be_too_little_without_the_factor_two() -> None:
    # The broken variant: exponent epsilon per unit of score, as if scores were monotone.
    epsilon = 0.7
    p, q = probabilities([0, 0], 2 * epsilon, 1), probabilities([1, -1], 2 * epsilon, 1)
    assert renyi(p, q, 2.0) > 2 * epsilon**2 / 8


def test_the_sampler_is_that_mechanism() -> None:
    # 20,000 choices; each frequency is within 6 standard deviations of its probability but with
    # probability 2e-9, and there are 4 of them.
    rows = random_rows(np.random.default_rng(shifted(5)), 50)
    candidates = random_candidates(np.random.default_rng(shifted(6)))
    scores = [*scores_of(rows, candidates), 0]
    share, total = Fraction(1, 20_000), Fraction(4, 5)
    budget = BudgetShares(total=total, accounting="concentrated", rows_per_unit=1)
    meter = PrivateMeasurer(engine_of(rows), SecureNoise(), budget)
    meter.read(PAIRS, {})
    counts = np.zeros(4)
    for _ in range(20_000):
        budget.spent.clear()
        chosen = meter.choose("choice", candidates, k=1, share=share, stop=0)
        counts[chosen[0] if chosen else 3] += 1
    expected = probabilities(
        scores, float(budget.choice_epsilon(share)), max(c.weight for c in candidates)
    )
    spread = np.sqrt(20_000 * expected * (1 - expected))
    assert (np.abs(counts - 20_000 * expected) < 6 * spread).all()


def test_the_stop_rule_is_charged() -> None:
    # A choice to stop is a choice: the account records it, and its score does not change.
    budget = BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=1)
    rows = random_rows(np.random.default_rng(shifted(7)), 30)
    meter = PrivateMeasurer(engine_of(rows), SeededNoise(shifted(1)), budget)
    meter.read(PAIRS, {})
    hopeless = [
        ScoredTable(g, np.zeros(SIZES[g[0]] * SIZES[g[1]], np.int64), 10**6, 1) for g in PAIRS
    ]
    assert meter.choose("choice", hopeless, k=1, share=Fraction(1, 3), stop=0) == []
    assert budget.left == Fraction(2, 3)


def test_scores_kept_for_later_selections_are_paid_each_time() -> None:
    # The same scores, with the sensitivity of those that can be selected; stopping is public.
    draw = np.random.default_rng(shifted(8))
    for reach in (1, 3):
        rows, candidates = random_rows(draw, 40), random_candidates(draw)
        exact = scores_of(rows, candidates, reach)
        noise = ScoreNoise(shifted(0))
        purse = BudgetShares(total=Fraction(1), accounting="concentrated", rows_per_unit=reach)
        meter = PrivateMeasurer(engine_of(rows, reach), noise, purse)
        meter.read(PAIRS, {})
        for offered in ([0, 2], [1], [2, 1, 0]):
            meter.choose("c", candidates, k=1, share=Fraction(1, 9), offered=offered, stop=7)
            assert noise.seen == [*(exact[place] for place in offered), 7]
            assert noise.how["sensitivity"] == reach * max(candidates[p].weight for p in offered)
        assert purse.left == Fraction(6, 9)


# --- the cost of a release, from its published content --------------------------------------------


def budget_of(method: Quilt) -> tuple[Fraction, Fraction]:
    """Return the total budget, and the cost of a choice per squared epsilon.

    Computed in floats, without the method's own numbers, in units of mu**2 / 2.
    """
    epsilon, delta = float(method.epsilon), float(method.delta)
    if method.accounting == "concentrated":
        return concentrated_share(method.epsilon, method.delta), Fraction(1, 8)

    def left(mu: float) -> float:
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return float(norm.sf(near) - math.exp(epsilon) * norm.sf(far)) - delta

    mu = brentq(left, 1e-4, 10.0, xtol=1e-14)
    return Fraction(mu) ** 2 / 2, Fraction(math.pi / 16)


def cost_of(
    made: Released, choice_share: Fraction, rho: Fraction, rows_share: Fraction
) -> Fraction:
    """Return the total cost of a release: its tables, its choices, and its number of rows.

    Choices of the spanning forest are not in the list of rounds; the statement contains their
    share.
    """
    reach = made.settings["rows_per_unit"]
    tables = sum(
        Fraction(reach**2) / (2 * Fraction(table["parameter"])) for table in made.settings["tables"]
    )
    return tables + choice_share * rho + rows_share * rho


def audit(
    method: Quilt, table: pa.Table, schema: Schema, before: Callable[[], None] = lambda: None
) -> bool:
    """Check that a release costs at most its promise, by its own published numbers."""
    before()
    noise = SeededNoise(shifted(4))
    made = method.run(connect(table, schema, noise=noise), noise)
    rho, of_choice = budget_of(method)
    spent = {step: Fraction(share) for step, share in made.settings["budget_shares"].items()}
    # A published number of rows that is not public must have been paid for.
    if schema.rows is None and "number of rows" not in spent:
        return False
    n_choices = sum(len(made_round["selected"]) for made_round in made.settings["rounds"])
    in_rounds = sum(
        len(r["selected"]) * Fraction(r["selection_epsilon"]) ** 2 * of_choice
        for r in made.settings["rounds"]
    )
    if n_choices and spent.get("choices", Fraction(0)) * rho < in_rounds * Fraction(999, 1000):
        return False
    cost = cost_of(
        made, spent.get("choices", Fraction(0)), rho, spent.get("number of rows", Fraction(0))
    )
    return cost <= rho


METHOD = Quilt(epsilon=1, delta="1e-6", particles=2000)
CONCENTRATED = replace(METHOD, accounting="concentrated")


def wide() -> tuple[pa.Table, Schema]:
    """Make a table with a binned column, most of whose rows have one value, and another column."""
    draw = np.random.default_rng(shifted(11))
    days = np.where(draw.random(4000) < 0.6, 1, draw.integers(0, 5000, 4000))
    columns = {"days": {"type": "integer", "low": 0, "high": 4999},
               "sex": {"type": "categorical", "values": ["F", "M"]}}  # fmt: skip
    sex = np.array(["F", "M"])[draw.integers(0, 2, 4000)]
    return pa.table({"days": days, "sex": sex}), Schema.from_dict({"name": "w", "columns": columns})


def test_bins_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    table, schema = wide()
    assert audit(METHOD, table, schema)
    spend = BudgetShares.spend

    def lenient(self: BudgetShares, step: str, share: Fraction) -> None:
        if step != "cuts of wide columns":
            spend(self, step, share)

    monkeypatch.setattr(BudgetShares, "spend", lenient)
    with pytest.raises(SealedError, match="would raise the cost"):
        audit(METHOD, table, schema)


def test_bins_follow_from_noisy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same transcript over other data gives the same bins; bins by exact counts would not.
    table, schema = wide()
    rows = {"one less": table.slice(1), "nobody": table.slice(0, 0)}

    def run(table: pa.Table) -> Released:
        noise = SeededNoise(shifted(0))
        return METHOD.run(connect(table, schema, noise=noise), FixedSeed(shifted(5)))

    Recorder.transcript = []
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Recorder)
    first = run(table)
    assert len(first.settings["columns"]["days"]["bins"]) > 16
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Player)
    for name, other in rows.items():
        Player.transcript = list(Recorder.transcript)
        again = run(other)
        assert again.settings == first.settings, name
        assert again.tables["data"].equals(first.tables["data"]), name


def test_a_release_costs_what_it_promises() -> None:
    assert audit(METHOD, sample(), sample_schema())
    assert audit(CONCENTRATED, sample(), sample_schema())
    for epsilon in ("1/2", 40):  # with little budget there are no triples
        target = Quilt(epsilon=epsilon, delta="1e-9", target="diagnosis", particles=2000)
        assert audit(target, sample(), sample_schema())


@pytest.mark.parametrize("broken", [False, True])
def test_the_auditor_checks_how_much_a_row_changes_sums(
    monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        half_the_change_of_a_sum(monkeypatch)
    schema = paired_schema(STATISTIC)
    subject = Subject(STATISTIC, schema, planned(STATISTIC, schema), SecureNoise())
    box = WhiteBox([Watched(subject, "tried", list(paired_pairs(STATISTIC, schema)))])
    finding, *_ = box.findings(1e-9, Clock())
    assert (finding.verdict == "VIOLATION") is broken
    assert not broken or "(workload) changes by" in finding.witness.event


def test_a_workload_costs_its_share() -> None:
    """The cost of the sums, from the published weights and the parameter of the noise."""
    schema = paired_schema(STATISTIC)
    noise = SeededNoise(shifted(6))
    rows = pa.table({"x": [0, 1, 1] * 20, "y": [0, 1, 0] * 20})
    (said,) = STATISTIC.run(connect(rows, schema, noise=noise), noise).settings["workload"]
    # A row has one value of y, so it changes one sum of x (by 1 or -1 in its scale), and one count.
    pairs = np.array(said["weights"]).reshape(2, 2)
    length = float(((SCALE * pairs) ** 2).sum(axis=1).max())
    spent = length / (2 * float(Fraction(said["parameter"])))
    share = float(STATISTIC.workload_share * budget_of(STATISTIC)[0])
    assert share * (1 - 1e-4) < spent <= share


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a public table with other people than those of the release."""
    file = tmp_path_factory.mktemp("prior") / "public.parquet"
    pq.write_table(sample().slice(8000), file)
    return file


def with_prior(file: Path, **more: Any) -> Quilt:
    return Quilt(delta="1e-6", particles=2000, prior=file, prior_public="made up", **more)


def test_a_release_with_a_prior_costs_what_it_promises(public: Path) -> None:
    method = with_prior(public, epsilon="1/2")
    assert audit(method, sample().slice(0, 8000), sample_schema())


def test_uncharged_pairs_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spend = BudgetShares.spend

    def lenient(self: BudgetShares, step: str, share: Fraction) -> None:
        if step != "tables of the forest":
            spend(self, step, share)

    monkeypatch.setattr(BudgetShares, "spend", lenient)
    with pytest.raises(SealedError, match="would raise the cost"):
        audit(METHOD, sample(), sample_schema())


def test_uncharged_choices_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spend = BudgetShares.spend

    def lenient(self: BudgetShares, step: str, share: Fraction) -> None:
        if step != "choices":
            spend(self, step, share)

    monkeypatch.setattr(BudgetShares, "spend", lenient)
    with pytest.raises(SealedError, match="would raise the cost"):
        audit(METHOD, sample(), sample_schema())


def test_an_uncharged_row_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(self: PrivateMeasurer, share: Fraction) -> NoisyTable:
        return NoisyTable(
            (), np.array([int(self._source.n_rows())]), self.budget.count_noise(share)
        )

    monkeypatch.setattr(PrivateMeasurer, "row_count", free)
    with pytest.raises(SealedError, match="converted to numbers"):
        audit(METHOD, sample(), sample_schema())


# --- only measurements depend on the data ---------------------------------------------------------


class Recorder(PrivateMeasurer):
    """Measurer that records all outcomes."""

    transcript: ClassVar[list[Any]] = []

    def row_count(self, share: Fraction) -> NoisyTable:
        self.transcript.append(super().row_count(share))
        return self.transcript[-1]

    def measure(
        self, step: str, group: Group, share: Fraction, cells: Integers | None = None, **how: bool
    ) -> NoisyTable:
        self.transcript.append(super().measure(step, group, share, cells, **how))
        return self.transcript[-1]

    def choose(self, step: str, candidates: Sequence[ScoredTable], **how: Any) -> list[int]:
        self.transcript.append(super().choose(step, candidates, **how))
        return self.transcript[-1]


class Player(PrivateMeasurer):
    """Measurer that replays recorded outcomes, whatever the data."""

    transcript: ClassVar[list[Any]] = []

    def _next(self, step: str, share: Fraction) -> Any:
        self.budget.spend(step, share)
        return self.transcript.pop(0)

    def row_count(self, share: Fraction) -> NoisyTable:
        return self._next("number of rows", share)

    def measure(
        self, step: str, group: Group, share: Fraction, cells: Integers | None = None, **how: bool
    ) -> NoisyTable:
        found: NoisyTable = self._next(step, share)
        assert found.group == group
        return found

    def choose(self, step: str, candidates: Sequence[ScoredTable], **how: Any) -> list[int]:
        return self._next(step, how["k"] * how["share"])


def neighbors_and_strangers() -> dict[str, pa.Table]:
    return {
        "one row less": sample().slice(1),
        "nobody": sample().slice(0, 0),
        "others": sample().slice(3000, 500),
    }


@pytest.mark.parametrize(
    ("epsilon", "delta", "largest"), [(1, "0", 3), (1, "1e-6", 2), (40, "1e-6", 3)]
)
def test_a_transcript_decides_the_release(
    epsilon: int, delta: str, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Merged values, shares, stopping, doubling, triples, the fit and the rows all follow from
    # the outcomes, so the same transcript gives the same release over any data.
    method = Quilt(epsilon=epsilon, delta=delta, target="diagnosis", particles=2000)
    schema = sample_schema()

    def run(table: pa.Table) -> Released:
        return method.run(
            connect(table, schema, noise=SeededNoise(shifted(0))), FixedSeed(shifted(5))
        )

    Recorder.transcript = []
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Recorder)
    first = run(sample())
    assert max(len(table["columns"]) for table in first.settings["tables"]) == largest
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Player)
    for name, table in neighbors_and_strangers().items():
        Player.transcript = list(Recorder.transcript)
        again = run(table)
        assert again.settings == first.settings, name
        for part in first.tables:
            assert again.tables[part].equals(first.tables[part]), (name, part)
        assert Player.transcript == []


def replayed(method: Quilt, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Check that the same transcript gives the same release over other data."""
    schema = sample_schema()

    def run(table: pa.Table) -> Released:
        return method.run(
            connect(table, schema, noise=SeededNoise(shifted(0))), FixedSeed(shifted(5))
        )

    Recorder.transcript = []
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Recorder)
    first = run(sample().slice(0, 8000))
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Player)
    Player.transcript = list(Recorder.transcript)
    try:
        again = run(sample().slice(1, 500))
    except (AssertionError, ValueError, IndexError):
        return False  # the tables of the transcript do not match
    same = all(again.tables[part].equals(first.tables[part]) for part in first.tables)
    return same and again.settings == first.settings and Player.transcript == []


def test_a_transcript_and_a_prior_decide_the_release(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The prior weight, the buckets that it refines and the choices all follow from public rows and
    # from the outcomes.
    assert replayed(with_prior(public, epsilon=1), monkeypatch)


def prior_of(source: Any, names: Sequence[str], count: Callable[[Any], Any]) -> PriorRows:
    """Make a prior from the private table's own counts: the broken variant."""
    counts = [np.asarray(count(source.marginals([[name]])[0]), np.int64).ravel() for name in names]
    n = int(counts[0].sum())
    return PriorRows(
        {
            name: np.resize(np.repeat(np.arange(len(found)), found), n)
            for name, found in zip(names, counts, strict=True)
        }
    )


@pytest.mark.parametrize("by_force", [False, True])
def test_a_prior_made_of_the_private_table_is_caught(
    by_force: bool, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sealed counts cannot become rows; if unsealed by force, the release depends on the data.
    names, release = list(sample_schema().attributes), QuiltPlan.release

    def peeking(self: QuiltPlan, source: SealedTable, noise: Any) -> Released:
        own = prior_of(source, names, unseal if by_force else lambda counts: counts)
        return release(replace(self, prior=own), source, noise)

    monkeypatch.setattr(QuiltPlan, "release", peeking)
    if by_force:
        assert not replayed(with_prior(public, epsilon=1), monkeypatch)
    else:
        with pytest.raises(SealedError, match="cannot be converted"):
            audit(with_prior(public, epsilon=1), sample(), sample_schema())


@pytest.mark.parametrize("broken", [False, True])
def test_the_auditor_finds_a_prior_made_of_the_private_table(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The auditor replays each outcome: with a prior that depends on the rows, the next query or the
    # release differs after the same outcomes.
    file = tmp_path / "public.csv"
    pa_csv.write_csv(pa.table({"x": [0, 1, 1, 0], "y": [0, 1, 0, 0]}), file)
    method = Quilt(epsilon=1, particles=1000, prior=file, prior_public="made up")
    release = QuiltPlan.release

    def peeking(self: QuiltPlan, source: SealedTable, noise: Any) -> Released:
        own = prior_of(source, ["x", "y"], unseal)
        return release(replace(self, prior=own if own.n_rows else None), source, noise)

    if broken:
        monkeypatch.setattr(QuiltPlan, "release", peeking)
    report = auditor.audit(method, runs=50, largest=0, seconds=1.5, tests=WITHOUT_LOSS)
    assert (report.verdict == "VIOLATION") is broken, "\n".join(report.lines())


class FixedSeed(SeededNoise):
    """Noise that gives post-processing the same seed, whatever was drawn before."""

    def integer_below(self, n: int) -> int:
        return 12345


def test_replay_detects_use_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    # The broken variant: buckets from exact counts. Over other data the release changes.
    method = Quilt(epsilon=1, delta="1e-6", particles=2000)
    schema = sample_schema()
    original, asked = CountedDomain.buckets, []

    def peeking(
        self: CountedDomain, noisy: Integers, std: float, *, is_target: bool = False
    ) -> Integers:
        exact = unseal(asked[0].marginals([[self.name]])[0])  # by force
        return original(self, exact, std, is_target=is_target)

    monkeypatch.setattr(CountedDomain, "buckets", peeking)
    start = PrivateMeasurer.__init__

    def noted(self: PrivateMeasurer, engine: Any, noise: Any, purse: Any) -> None:
        asked[:] = [engine]
        start(self, engine, noise, purse)

    monkeypatch.setattr(PrivateMeasurer, "__init__", noted)
    Recorder.transcript = []
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Recorder)
    first = method.run(
        connect(sample(), schema, noise=SeededNoise(shifted(0))), FixedSeed(shifted(5))
    )
    monkeypatch.setattr("hushtable.methods.quilt.quilt.PrivateMeasurer", Player)
    Player.transcript = list(Recorder.transcript)
    different = False
    try:
        again = method.run(
            connect(sample().slice(0, 300), schema, noise=SeededNoise(shifted(0))),
            FixedSeed(shifted(5)),
        )
        different = not again.tables["buckets"].equals(first.tables["buckets"])
    except (AssertionError, ValueError, IndexError):
        different = True  # the tables of the transcript do not match
    assert different
