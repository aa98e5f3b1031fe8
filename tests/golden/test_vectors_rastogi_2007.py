"""Section 004 of the reference numbers: all numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hushtable.methods import AlphaBeta
from hushtable.methods.alpha_beta.frapp import same_privacy_retention
from hushtable.methods.alpha_beta.insertion_estimator import InsertionEstimator
from hushtable.methods.alpha_beta.two_rates import TwoRateCount
from hushtable.privacy.bounded_adversary import Ratios, odds_limit, solve
from hushtable.query.where import parse
from hushtable.schema import Schema

SCORES = Schema.from_dict(
    {
        "name": "test scores",
        "columns": {
            "age": {"type": "integer", "low": 20, "high": 39},
            "nationality": {"type": "categorical", "values": ["British", "Indian", "American"]},
            "score": {"type": "integer", "low": 81, "high": 100},
        },
    }
)
TABLE_1A = [
    (25, "British", 99), (27, "British", 97), (21, "Indian", 82),
    (32, "Indian", 90), (33, "American", 94), (36, "American", 94),
]  # fmt: skip
TABLE_1D = [
    (25, "British", 99), (21, "British", 99), (22, "Indian", 89), (32, "Indian", 90),
    (28, "Indian", 99), (29, "American", 81), (33, "American", 94), (27, "American", 94),
    (32, "British", 83), (36, "American", 94), (26, "American", 99), (39, "Indian", 94),
]  # fmt: skip


def close(value: Fraction | float, expected: str, tolerance: float = 1e-18) -> bool:
    return abs(Fraction(value) / Fraction(expected) - 1) <= tolerance


@pytest.fixture(scope="module")
def numbers(vectors: dict[str, Any]) -> dict[str, Any]:
    section: dict[str, Any] = vectors["004"]
    return section


@pytest.fixture(scope="module")
def prior(numbers: dict[str, Any]) -> tuple[Fraction, Fraction, Fraction]:
    """Return d, gamma and c of the paper's experiment."""
    adult = numbers["adult"]
    gamma = Fraction(adult["gamma"])
    d = Fraction(adult["k"] * adult["n"], adult["m"])
    return d, gamma, 1 / odds_limit(d, gamma)


def test_priors(numbers: dict[str, Any], prior: tuple[Fraction, Fraction, Fraction]) -> None:
    d, _, c = prior
    assert close(d, numbers["adult"]["d"])
    assert close(c, numbers["adult"]["c"])


@pytest.mark.parametrize(
    "choice",
    [
        "printed_choice",
        "minimal_beta_half",
        "independent_only_s_1_minus_d_over_gamma",
        "exclusive_exact",
        "theorem63_printed",
    ],
)
def test_choices_of_alpha_and_beta(
    numbers: dict[str, Any], prior: tuple[Fraction, Fraction, Fraction], choice: str
) -> None:
    d, gamma, c = prior
    half = Fraction(1, 2)
    keep, insert = {
        "printed_choice": (half, d / gamma),
        "minimal_beta_half": (half, c / 2),
        "independent_only_s_1_minus_d_over_gamma": (1 - d / gamma, c * (1 - d / gamma)),
        "exclusive_exact": solve(d, gamma, "exclusive"),
        "theorem63_printed": (half, 2 * c),
    }[choice]
    listed = numbers["adult"][choice]
    alpha = keep - insert
    assert close(alpha, listed["alpha"])
    assert close(insert, listed["beta"])
    ratios = Ratios.of_one_view(keep=keep, insert=insert)
    assert close(ratios.posterior(d, "independent"), listed["posterior_t_in_V"])
    assert close(ratios.low, listed["min_post_over_prior"])
    unseen = d * ratios.low / (d * ratios.low + 1 - d)
    assert close(unseen, listed["posterior_t_not_in_V"])
    assert close(ratios.posterior(d, "exclusive"), listed["exclusive_posterior"])
    assert 0 <= ratios.epsilon - Fraction(listed["eps_dp"]) <= Fraction(1, 2**24)
    spread = TwoRateCount(n_seen=0, n_items=1, low=insert, high=keep, most=1)
    assert close(spread.std(1) ** 2, listed["variance_coeff_I"], 1e-12)
    assert close(spread.std(0) ** 2, listed["variance_coeff_D"], 1e-12)
    large = TwoRateCount(n_seen=0, n_items=10**6, low=insert, high=keep, most=10**6)
    assert close(large.std(100) ** 2, listed["variance_example_q100_nD1e6"], 1e-12)


def test_independent_solution_is_at_least_as_good(
    numbers: dict[str, Any], prior: tuple[Fraction, Fraction, Fraction]
) -> None:
    """The exact negative condition allows slightly more than the printed one (rastogi-2007-7)."""
    d, gamma, _ = prior
    keep, insert = solve(d, gamma, "independent")
    listed = numbers["adult"]["independent_only_s_1_minus_d_over_gamma"]
    assert insert * (1 - insert) / (keep - insert) ** 2 < Fraction(listed["variance_coeff_D"])
    ratios = Ratios.of_one_view(keep=keep, insert=insert)
    assert ratios.posterior(d, "independent") == gamma
    assert ratios.low == d / gamma


def test_several_views(numbers: dict[str, Any], prior: tuple[Fraction, Fraction, Fraction]) -> None:
    d, gamma, _ = prior
    assert set(numbers["algorithm4"]) == {"1", "2", "4", "8", "11"}
    for views, listed in numbers["algorithm4"].items():
        ratios = Ratios.of_repeated_views(keep=Fraction(1, 2), insert=d / gamma, views=int(views))
        assert close(ratios.high, listed["max_likelihood_ratio"])
        assert close(ratios.posterior(d, "independent"), listed["max_posterior"])
        assert close(ratios.low, listed["min_post_over_prior"])
        assert ratios.keeps(d, gamma, "independent") == listed["ok"]


def test_example_4_1(numbers: dict[str, Any], tmp_path: Path) -> None:
    listed = numbers["example41"]
    where = "score < 3 * age"
    columns = list(SCORES.attributes)
    published = pa.table(dict(zip(columns, zip(*TABLE_1D, strict=True), strict=True)))
    method = AlphaBeta(alpha=listed["alpha"], beta=listed["beta"])
    estimator = InsertionEstimator(
        SCORES, method.parameters(), {"view": 1, "notes": [""]}, {"data": published}
    )
    answer = estimator.answer(where)
    assert isinstance(answer, TwoRateCount)
    assert SCORES.domain.size == listed["m"]
    assert (answer.n_items, answer.n_seen) == (listed["n_D"], listed["n_V"])
    assert answer.unbiased == float(listed["estimate"])
    assert sum(score < 3 * age for age, _, score in TABLE_1A) == listed["true_answer"]


def test_retention_of_the_same_privacy(
    numbers: dict[str, Any], prior: tuple[Fraction, Fraction, Fraction]
) -> None:
    d, gamma, _ = prior
    adult = numbers["adult"]
    retention = same_privacy_retention(d=d, gamma=gamma, n_tuples=adult["n"], n_domain=adult["m"])
    assert close(retention, numbers["frapp_retention"])


def test_counts_over_the_domain(numbers: dict[str, Any]) -> None:
    clauses = {
        "score<3*age": "score < 3 * age",
        "score<90 and age>30": "score < 90 AND age > 30",
        "score<3*age or nationality=0": "score < 3 * age OR nationality = 'British'",
        "age+score is even": "(age + score) % 2 = 0",
    }
    assert set(clauses) == set(numbers["pC"])
    for name, where in clauses.items():
        count = parse(where, SCORES).count()
        assert count == numbers["pC"][name]["count"]
        assert Fraction(count, SCORES.domain.size) == Fraction(numbers["pC"][name]["p"])
