"""Posteriors by Bayes' rule over all tables and all views of small domains."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtable.errors import ParameterError
from hushtable.privacy.bounded_adversary import (
    Adversary,
    Ratios,
    odds_limit,
    solve,
    solve_repeated,
)
from hushtable.privacy.rational import exp_bounds

both = pytest.mark.parametrize("adversary", ["exclusive", "independent"])
chances = st.fractions(Fraction(1, 10**4), Fraction(9, 10), max_denominator=10**4)

Table = frozenset[int]


def subsets(items: range) -> list[Table]:
    return [frozenset(c) for n in range(len(items) + 1) for c in combinations(items, n)]


def view_chance(
    view: Table, table: Table, domain: range, keep: Fraction, insert: Fraction
) -> Fraction:
    chance = Fraction(1)
    for t in domain:
        p = keep if t in table else insert
        chance *= p if t in view else 1 - p
    return chance


def posteriors(
    prior: dict[Table, Fraction], domain: range, keep: Fraction, insert: Fraction
) -> list[list[Fraction]]:
    """Return the posterior of each tuple for each view, by definition."""
    result = []
    for view in subsets(domain):
        joint = {
            table: p * view_chance(view, table, domain, keep, insert) for table, p in prior.items()
        }
        total = sum(joint.values())
        result.append(
            [
                sum((p for table, p in joint.items() if t in table), Fraction(0)) / total
                for t in domain
            ]
        )
    return result


def independent_prior(chances_of: list[Fraction]) -> dict[Table, Fraction]:
    domain = range(len(chances_of))
    return {
        table: math.prod(
            (p if t in table else 1 - p for t, p in enumerate(chances_of)), start=Fraction(1)
        )
        for table in subsets(domain)
    }


def exclusive_prior(groups: list[dict[int, Fraction]]) -> dict[Table, Fraction]:
    return {
        frozenset(chosen): math.prod(
            (group[t] for group, t in zip(groups, chosen, strict=True)), start=Fraction(1)
        )
        for chosen in product(*groups)
    }


@pytest.mark.parametrize(
    ("d", "gamma"), [("1/100", "1/5"), ("1/20", "1/3"), ("1/3", "2/5"), ("3/10", "99/100")]
)
def test_independent_observers_by_enumeration(d: str, gamma: str) -> None:
    prior_bound, limit = Fraction(d), Fraction(gamma)
    keep, insert = solve(prior_bound, limit, "independent")
    ratios = Ratios.of_one_view(keep=keep, insert=insert)
    tiny = prior_bound / 10**6
    priors = [prior_bound, prior_bound / 2, tiny, prior_bound]
    seen = posteriors(independent_prior(priors), range(4), keep, insert)
    assert max(p for row in seen for p in row) == ratios.posterior(prior_bound, "independent")
    assert max(p for row in seen for p in row) == limit
    falls = min(p / prior for row in seen for p, prior in zip(row, priors, strict=True))
    assert prior_bound / limit <= falls < prior_bound / limit * (1 + Fraction(1, 10**5))


def test_exclusive_observers_by_enumeration() -> None:
    d, gamma = Fraction(1, 3), Fraction(1, 2)
    keep, insert = solve(d, gamma, "exclusive")
    ratios = Ratios.of_one_view(keep=keep, insert=insert)
    thirds = [dict.fromkeys(range(3), d), dict.fromkeys(range(3, 6), d)]
    seen = posteriors(exclusive_prior(thirds), range(6), keep, insert)
    assert max(p for row in seen for p in row) == ratios.posterior(d, "exclusive") == gamma
    # The solution for the weaker observer does not protect against this one.
    keep, insert = solve(d, gamma, "independent")
    weak = posteriors(exclusive_prior(thirds), range(6), keep, insert)
    assert max(p for row in weak for p in row) > gamma


def test_observers_unsure_whether_the_person_takes_part() -> None:
    """No tuple of the group in the table is one more case, and less informative than the others."""
    d, gamma = Fraction(1, 4), Fraction(1, 2)
    keep, insert = solve(d, gamma, "exclusive")
    prior = {frozenset({t}): d for t in range(3)} | {frozenset(): Fraction(1, 4)}
    seen = posteriors(prior, range(3), keep, insert)
    assert max(p for row in seen for p in row) < gamma


@given(chances, chances)
def test_solutions_are_tight_and_nothing_smaller_does(d: Fraction, gamma: Fraction) -> None:
    if d == gamma:
        return
    d, gamma = min(d, gamma), max(d, gamma)
    for adversary in ("exclusive", "independent"):
        keep, insert = solve(d, gamma, adversary)  # type: ignore[arg-type]
        ratios = Ratios.of_one_view(keep=keep, insert=insert)
        assert ratios.keeps(d, gamma, adversary)  # type: ignore[arg-type]
        assert ratios.posterior(d, adversary) == gamma  # type: ignore[arg-type]
        less = Ratios.of_one_view(keep=keep, insert=insert * Fraction(999, 1000))
        assert not less.keeps(d, gamma, adversary)  # type: ignore[arg-type]


def test_half_is_the_best_share_to_keep() -> None:
    d, gamma = Fraction(1, 1000), Fraction(1, 5)
    c = 1 / odds_limit(d, gamma)

    def noise(keep: Fraction) -> Fraction:
        insert = c * keep / (1 - keep + c * keep)
        return insert * (1 - insert) / (keep - insert) ** 2

    best = min((Fraction(i, 100) for i in range(1, 100)), key=noise)
    assert best == Fraction(1, 2)
    assert solve(d, gamma, "exclusive")[0] == best


@pytest.mark.parametrize("views", range(1, 9))
@pytest.mark.parametrize(
    ("keep", "insert"), [("1/2", "1/400"), ("1/2", "1/4"), ("9/10", "3/5"), ("1/10", "1/11")]
)
def test_ratios_of_several_views_by_enumeration(views: int, keep: str, insert: str) -> None:
    """All patterns of a tuple over the views of Algorithm 4, by its definition (rastogi-2007-2)."""
    s, b = Fraction(keep), Fraction(insert)
    fade = exp_bounds(Fraction(-1, views), 300)[0]
    found = []
    for pattern in product([False, True], repeat=views):
        inside = outside = Fraction(1)
        for i, seen in enumerate(pattern):
            known = any(pattern[:i])
            p_out = s * fade if known else (1 - s) ** i * b
            inside *= s if seen else 1 - s
            outside *= p_out if seen else 1 - p_out
        found.append(inside / outside)
    ratios = Ratios.of_repeated_views(keep=s, insert=b, views=views)
    assert max(found) <= ratios.high <= max(found) * (1 + Fraction(1, 2**140))
    assert min(found) >= ratios.low >= min(found) * (1 - Fraction(1, 2**140))


@both
@pytest.mark.parametrize("views", [2, 3, 10])
def test_solutions_for_several_views_keep_the_promise(adversary: Adversary, views: int) -> None:
    d, gamma = Fraction(1, 2000), Fraction(1, 5)
    keep, insert = solve_repeated(d, gamma, adversary, views)
    assert Ratios.of_repeated_views(keep=keep, insert=insert, views=views).keeps(
        d, gamma, adversary
    )
    less = Ratios.of_repeated_views(keep=keep, insert=insert * Fraction(99, 100), views=views)
    assert not less.keeps(d, gamma, adversary)


@both
def test_pairs_too_close_for_several_views_are_refused(adversary: Adversary) -> None:
    with pytest.raises(ParameterError, match=r"Raise gamma, lower d, publish fewer views"):
        solve_repeated(Fraction(1, 10), Fraction(3, 20), adversary, 4)


def test_epsilon_is_never_below_the_loss() -> None:
    ratios = Ratios.of_one_view(keep=Fraction(1, 2), insert=Fraction(1, 400))
    low, high = exp_bounds(ratios.epsilon)
    assert low >= ratios.high or high > ratios.high
    assert exp_bounds(ratios.epsilon)[1] >= max(ratios.high, 1 / ratios.low)
    assert exp_bounds(ratios.epsilon - Fraction(1, 2**24))[0] < ratios.high
    turned = Ratios.of_one_view(keep=Fraction(99, 100), insert=Fraction(1, 2))
    assert float(turned.epsilon) == pytest.approx(math.log(50), abs=1e-6)
    assert float(turned.epsilon_of_exchange) == pytest.approx(math.log(99), abs=1e-6)


@pytest.mark.parametrize(("keep", "insert"), [(0, 0), (1, "1/2"), ("1/2", "1/2"), ("1/4", "1/2")])
def test_invalid_probabilities_are_refused(keep: object, insert: object) -> None:
    with pytest.raises(ParameterError, match="0 < insert < keep < 1"):
        Ratios.of_one_view(keep=Fraction(str(keep)), insert=Fraction(str(insert)))
