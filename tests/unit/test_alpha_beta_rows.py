"""Counts of rows in alpha-beta: cost of a row, posteriors of observers, coverage of answers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.errors import ParameterError
from hushtable.methods import AlphaBeta
from hushtable.methods.alpha_beta.two_rates import CopyRateCount, TwoRateCount
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.mechanisms.tuple_perturbation import UniformInsertions
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.rational import exp_bounds
from hushtable.publishing.publish import publish
from hushtable.schema import Schema

SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 1999}}}
)
DIFFERENT = ((1, 1), (2, 5), (4, 5), (5, 3))


def epsilon_of(method: AlphaBeta, schema: Schema = SCHEMA) -> Fraction:
    promise = method.guarantee(schema)[-1]
    assert isinstance(promise, PureDP)
    return Fraction(promise.epsilon)


def chances(law: UniformInsertions) -> list[Fraction]:
    """Return the probability that a tuple is published, by its number of rows."""
    return [
        law.beta + law.alpha * min(rows, law.copies) / law.copies for rows in range(law.copies + 3)
    ]


# --- promise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize(("alpha", "beta"), [("2/5", "1/10"), ("4/5", "1/10"), ("1/2", "1/100")])
def test_one_row_costs_what_is_charged(alpha: str, beta: str, copies: int) -> None:
    """Every likelihood ratio of neighbors is within the charge, and one of them attains it."""
    method = AlphaBeta(alpha=alpha, beta=beta, max_copies=copies)
    law = method.plan(SCHEMA).noise
    assert isinstance(law, UniformInsertions)
    ratios = []
    for one, more in itertools.pairwise(chances(law)):
        ratios += [more / one, (1 - one) / (1 - more)]
    low, high = exp_bounds(epsilon_of(method), 64)
    assert max(ratios) <= low
    assert max(ratios) > high * (1 - Fraction(1, 2**20))


@pytest.mark.parametrize("adversary", ["exclusive", "independent"])
def test_observers_learn_no_more_of_a_tuple_than_without_copies(adversary: str) -> None:
    """For any prior of an observer on the number of rows of a tuple; exact."""
    method = AlphaBeta(d="1/100", n_public=1, gamma="1/5", adversary=adversary, max_copies=4)  # type: ignore[arg-type]
    law = method.plan(SCHEMA).noise
    assert isinstance(law, UniformInsertions)
    d, gamma = Fraction(1, 100), Fraction(1, 5)
    seen = chances(law)[:5]
    worst = Fraction(0)
    for shape in itertools.product(range(3), repeat=4):
        if not any(shape):
            continue
        for event in (lambda p: p, lambda p: 1 - p):
            there = sum(w * event(p) for w, p in zip(shape, seen[1:], strict=True)) / sum(shape)
            rest = event(seen[0])
            if adversary == "exclusive":  # the row is in another tuple, which was not published
                rest = 1 - seen[4]
                there *= 1 - seen[0]
                rest *= event(seen[0])
            after = d * there / (d * there + (1 - d) * rest)
            worst = max(worst, after)
            assert after <= gamma
            if adversary == "independent":
                assert after >= d * d / gamma
    assert worst == gamma


def test_a_coin_for_every_row_would_break_the_promise() -> None:
    """rastogi-2007-6, because of duplicates: 1 - (1 - s)**c instead of a share of alpha."""
    law = AlphaBeta(d="1/100", n_public=1, gamma="1/5", max_copies=4).plan(SCHEMA).noise
    assert isinstance(law, UniformInsertions)
    keep = 1 - (1 - law.alpha - law.beta) ** 4
    odds = Fraction(1, 99) * keep / law.beta * (1 - law.beta) / (1 - keep)
    assert odds / (1 + odds) > Fraction(2, 5)


def test_several_views_of_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="rows need a single view"):
        AlphaBeta(
            alpha="2/5", beta="1/10", views=2, view_history=tmp_path / "history", max_copies=2
        )


def test_probabilities_for_an_epsilon_reach_it() -> None:
    for copies in (1, 3, 50):
        method = AlphaBeta(alpha="2/5", beta="1/10", max_copies=copies)
        found = epsilon_of(method.at_epsilon(SCHEMA, Fraction(1)))
        assert Fraction(999, 1000) < found <= 1 + Fraction(1, 2**20)


# --- draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_tuples_are_kept_the_more_often_the_more_rows_have_them(weighted: bool) -> None:
    """500 tuples each with 0, 1, 2 and 5 rows; false alarm 1e-6, by five standard deviations.

    One of the four detects a probability that is off by alpha / 10 with probability 98%.
    """
    source = {"x": [1] * 2000} if weighted else {}
    method = AlphaBeta(alpha="1/2", beta="1/10", max_copies=3, source=source)
    rows = [x for x in range(500, 2000) for _ in range((1, 2, 5)[(x - 500) // 500])]
    engine = connect(pa.table({"x": rows}), SCHEMA)
    seen = np.zeros(4)
    for _ in range(8):
        published = method.run(engine, SecureNoise()).tables["data"]["x"].to_numpy()
        seen += np.bincount(published // 500, minlength=4)
    for found, chance in zip(seen / 4000, (0.1, 0.1 + 1 / 6, 0.1 + 1 / 3, 0.6), strict=True):
        assert abs(found - chance) < 5 * math.sqrt(chance * (1 - chance) / 4000)


# --- answers --------------------------------------------------------------------------------------


def law_of(counts: list[int], low: float, gain: float) -> np.ndarray:
    """Return the exact distribution of the published number, given the rows of each item."""
    law = np.ones(1)
    for count in counts:
        chance = low + gain * count
        law = np.convolve(law, [1 - chance, chance])
    return law


@pytest.mark.parametrize(("low", "gain"), [(0.01, 0.1), (0.1, 0.08), (0.3, 0.02)])
@pytest.mark.parametrize("spread", DIFFERENT)
@pytest.mark.parametrize("n_items", [5, 60])
def test_intervals_hold_however_rows_are_spread(
    low: float, gain: float, spread: tuple[int, int], n_items: int
) -> None:
    """Exact coverage, by enumeration: at least 95%, up to 1.3% of the 5%."""
    rows, n_there = spread
    counts = [rows] * n_there + [0] * (n_items - n_there)
    law, true = law_of(counts, low, gain), sum(counts)
    held = mean = 0.0
    for n_seen, chance in enumerate(law):
        answer = CopyRateCount(n_seen, n_items, low, low + gain, most=5 * n_items)
        first, last = answer.interval()
        held += chance * (first <= true <= last)
        mean += chance * answer.unbiased
    assert held >= 0.95 - 0.05 * 0.013
    assert mean == pytest.approx(true, abs=1e-9)


def test_one_copy_is_a_distinct_tuple() -> None:
    """If each item occurs at most once, equal rates give hardly wider intervals than exact ones."""
    two = TwoRateCount(40, 500, Fraction(1, 50), Fraction(1, 2), most=500)
    alike = CopyRateCount(40, 500, Fraction(1, 50), Fraction(1, 2), most=500)
    assert alike.unbiased == two.unbiased
    assert alike.interval()[0] <= two.interval()[0]
    assert alike.interval()[1] >= two.interval()[1]


def test_a_release_answers_rows(tmp_path: Path) -> None:
    """3,000 rows on 1,000 tuples, six standard deviations: counts, sums and means are of rows."""
    table = pa.table({"x": np.repeat(np.arange(1000), 3)})
    method = AlphaBeta(alpha="2/5", beta="1/10", max_copies=3)
    release = publish(table, SCHEMA, method, out=tmp_path / "out", rows=3000)
    count = release.count("x < 1000")
    assert abs(count.unbiased - 3000) < 6 * count.privacy_std  # type: ignore[attr-defined]
    assert "rows" in count.notes[0]
    total = release.total("x", where="x < 1000")
    assert abs(total.value - 3 * 499_500) < 6 * total.privacy_std
