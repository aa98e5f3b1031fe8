"""Attacks: they succeed on unprotected tables and fail on protected ones.

Comparisons of rates are made at confidence 1 - ALPHA / (attacks of a table), so that a table
raises a false alarm with probability at most ALPHA; seeds are fixed, so a run repeats.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from hushtable.evaluation.risk.attack import Outcome, Rate, difference
from hushtable.evaluation.risk.attacks import Risk, assess
from population import SCHEMA, independent, noise, people
from seeds import shifted

ALPHA = 1e-6
N_ATTACKS = 20
CONFIDENCE = 1 - ALPHA / N_ATTACKS
N = 2000


@pytest.fixture(scope="module")
def raw() -> Risk:
    table = people(N, 1)
    return assess(table, table, people(N, 2), SCHEMA, None, np.random.default_rng(shifted(3)))


@pytest.fixture(scope="module")
def shuffled() -> Risk:
    table = people(N, 1)
    released = independent(table, 4)
    return assess(table, released, people(N, 2), SCHEMA, None, np.random.default_rng(shifted(5)))


@pytest.fixture(scope="module")
def random() -> Risk:
    return assess(
        people(N, 1), noise(N, 6), people(N, 2), SCHEMA, None, np.random.default_rng(shifted(7))
    )


def is_above(attack: Rate, other: Rate | None) -> bool:
    assert other is not None
    return difference(attack.at(CONFIDENCE), other.at(CONFIDENCE)).low > 0


def named(risk: Risk, name: str, of: str = "") -> list[Outcome]:
    found = [o for o in risk.attacks if o.name == name and of in o.of]
    assert found
    return found


def figure(outcomes: Iterable[Outcome], name: str) -> float:
    (value,) = [d.value for o in outcomes for d in o.details if d.metric == name]
    return value


def test_every_attack_on_the_raw_table_succeeds(raw: Risk) -> None:
    aimed = [
        *named(raw, "singling out", "several columns"),
        *named(raw, "linkability"),
        *named(raw, "attribute inference", "nearest record"),
        *named(raw, "membership"),
    ]
    assert len(aimed) == 1 + 1 + 6 + 1
    for outcome in aimed:
        assert is_above(outcome.attack, outcome.control), outcome.of
        assert outcome.succeeds
    assert named(raw, "singling out", "several columns")[0].attack.value == 1.0
    assert figure(named(raw, "membership"), "membership AUC") > 0.95
    assert figure(named(raw, "membership"), "membership advantage") > 0.9


def test_a_model_of_the_population_also_predicts_people_outside_the_release(
    raw: Risk,
) -> None:
    (job,) = named(raw, "attribute inference", "job, model")
    assert is_above(job.attack, job.naive)
    assert job.control is not None
    assert is_above(job.control, job.naive)


@pytest.mark.parametrize("of", ["age", "weight", "city", "sex", "grade", "job"])
def test_shuffled_columns_are_independent(shuffled: Risk, of: str) -> None:
    for outcome in named(shuffled, "attribute inference", of):
        assert not is_above(outcome.attack, outcome.control), outcome.of
        assert not is_above(outcome.attack, outcome.naive), outcome.of


def test_shuffled_columns_do_not_link_or_single_out_or_reveal_members(shuffled: Risk) -> None:
    for name, of in (
        ("linkability", ""),
        ("singling out", "several columns"),
        ("membership", ""),
    ):
        (outcome,) = named(shuffled, name, of)
        assert not is_above(outcome.attack, outcome.control), name
        assert not outcome.succeeds
    (linked,) = named(shuffled, "linkability")
    assert not is_above(linked.attack, linked.naive)


def test_random_rows_are_worth_nothing(random: Risk) -> None:
    for outcome in random.attacks:
        assert not is_above(outcome.attack, outcome.control), (outcome.name, outcome.of)
        if outcome.name in {"linkability", "attribute inference", "membership"}:
            assert not is_above(outcome.attack, outcome.naive), (outcome.name, outcome.of)
    area = next(
        d for o in named(random, "membership") for d in o.details if d.metric.endswith("AUC")
    )
    # From 2,000 people on either side the standard error is below 0.0092; six of them.
    assert abs(area.value - 0.5) < 0.056


def test_a_value_that_only_one_person_has_is_singled_out() -> None:
    table = people(N, 1)
    age = np.minimum(table.column("age").to_numpy(), 97)
    age[17] = 99
    table = table.set_column(0, "age", [age])
    released = independent(table, 8)  # the shuffle keeps single columns
    risk = assess(table, released, None, SCHEMA, None, np.random.default_rng(shifted(9)))
    (outcome,) = named(risk, "singling out", "one column")
    assert outcome.attack.value == 1.0
    assert outcome.control is None


def test_without_a_control_nothing_is_held_out_and_the_report_says_so() -> None:
    table = people(500, 1)
    risk = assess(table, table, None, SCHEMA, None, np.random.default_rng(shifted(1)))
    assert all(outcome.control is None for outcome in risk.attacks)
    assert all(outcome.name != "membership" for outcome in risk.attacks)
    assert any("No control table" in note for note in risk.notes)
    assert all(outcome.attack.n == 500 for outcome in named(risk, "attribute inference"))


def test_a_smaller_control_is_compared_at_its_own_size() -> None:
    table = people(N, 1)
    risk = assess(table, table, people(400, 2), SCHEMA, None, np.random.default_rng(shifted(3)))
    (outcome,) = named(risk, "singling out", "several columns")
    assert "400 random rows" in outcome.note
    assert figure([outcome], "singled out among all rows") == 1.0
    # About one in five of the people singled out is among the 400.
    assert 0.1 < outcome.attack.value < 0.4
    assert is_above(outcome.attack, outcome.control)


def test_the_control_of_fresh_people_is_not_above_itself() -> None:
    # A release made from neither table treats both the same.
    risk = assess(
        people(N, 1), people(N, 12), people(N, 2), SCHEMA, None, np.random.default_rng(shifted(13))
    )
    for outcome in risk.attacks:
        assert not is_above(outcome.attack, outcome.control), (outcome.name, outcome.of)
