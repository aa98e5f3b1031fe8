"""The reference numbers for Mohammed et al. (2011): scores, split distributions, budgets."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hushtable.methods.diffgen.cuts import CutPart, IntervalPart, TaxonomyPart, class_table, top
from hushtable.methods.diffgen.diffgen import DiffGen
from hushtable.privacy.mechanisms.scored_splits import (
    BITS,
    InformationGain,
    Max,
    Score,
    ScoredSplits,
    exponent,
)
from hushtable.schema import Categorical, Integer, Schema

JOB = Categorical(
    type="categorical",
    values=("Engineer", "Lawyer", "Dancer", "Writer"),
    taxonomy={"Any_Job": {"Professional": ["Engineer", "Lawyer"], "Artist": ["Dancer", "Writer"]}},
)
AGE = Integer(type="integer", low=18, high=64)


@pytest.fixture(scope="module")
def table(vectors: dict[str, Any]) -> dict[str, Any]:
    """Return table 1 of the paper as histograms by class (Y, N)."""
    job, age = np.zeros((4, 2), np.int64), np.zeros((47, 2), np.int64)
    for name, years, cls in vectors["003"]["table1"]:
        job[JOB.values.index(name), "YN".index(cls)] += 1
        age[years - 18, "YN".index(cls)] += 1
    return {"job": class_table(JOB, job), "age": class_table(AGE, age)}


def ways_of(part: CutPart, table: Any, score: Score) -> ScoredSplits:
    ways = part.scored(table, score)
    assert isinstance(ways, ScoredSplits)  # the counts of the paper are not sealed
    return ways


def age_choice(table: dict[str, Any], score: Score) -> ScoredSplits:
    return ways_of(top("age", AGE), table["age"], score)


def by_split(choice: ScoredSplits) -> dict[int, int]:
    """Return the score of every split, named by the lowest age of the upper half."""
    return {
        18 + int(start) + step: int(score)
        for start, ways, score in zip(choice.starts, choice.n_ways, choice.scores, strict=True)
        for step in range(int(ways))
    }


def test_scores_of_the_taxonomy(vectors: dict[str, Any], table: dict[str, Any]) -> None:
    root = top("job", JOB)
    assert isinstance(root, TaxonomyPart)
    parts = {part.label: part for part in (root, *root.children)}
    for name, numbers in vectors["003"]["scores"].items():
        part = parts[name.split("->")[0]]
        values = table["job"].values
        counts = [values[list(child.codes)].sum(axis=0).tolist() for child in part.children]
        assert counts == numbers["counts_YN"]
        found = {score: ways_of(part, table["job"], score) for score in (Max(), InformationGain())}
        assert found[Max()].scores.tolist() == [numbers["Max"]]
        gain = found[InformationGain()].scores[0]
        assert gain == round(float(numbers["InfoGain"]) * 2**BITS)


def test_scores_of_splits(vectors: dict[str, Any], table: dict[str, Any]) -> None:
    most, gain = (by_split(age_choice(table, score)) for score in (Max(), InformationGain()))
    for split, numbers in vectors["003"]["age_split"].items():
        assert most[int(split)] == numbers["Max"]
        bits = float(numbers["InfoGain_bits"])
        assert abs(gain[int(split)] / 2**BITS - bits) <= 2 ** -(BITS + 1) + 1e-12


def test_runs_count_grid_points_and_reach_both_ends(table: dict[str, Any]) -> None:
    """Errata mohammed-2011-6: Age 19..64 has 46 splits in runs of 2, 5, 7, 1, 1, 3, 1, 12, 14."""
    choice = age_choice(table, Max())
    assert choice.n_ways.tolist() == [2, 5, 7, 1, 1, 3, 1, 12, 14]
    assert sorted(by_split(choice)) == list(range(19, 65))


def test_split_distributions(vectors: dict[str, Any], table: dict[str, Any]) -> None:
    choice = age_choice(table, Max())
    for name, numbers in vectors["003"]["split_distribution_Max"].items():
        eta = float(name.split("eta=")[1].split(",")[0])
        weights = choice.n_ways * np.exp(eta * choice.scores)
        chance = weights / weights.sum() / choice.n_ways
        run_of = {
            split: at
            for at, (start, ways) in enumerate(zip(choice.starts, choice.n_ways, strict=True))
            for split in range(18 + int(start), 18 + int(start + ways))
        }
        for split, probability in numbers.items():
            assert chance[run_of[int(split)]] == pytest.approx(float(probability), rel=1e-13)


def schema_with(n_numeric: int) -> Schema:
    columns: dict[str, Any] = {
        f"x{i}": {"type": "integer", "low": 0, "high": 99} for i in range(n_numeric)
    }
    columns["class"] = {"type": "categorical", "values": ["Y", "N"], "role": "target"}
    return Schema.from_dict({"name": "t", "columns": columns})


def test_budgets(vectors: dict[str, Any]) -> None:
    for numbers in vectors["003"]["budgets"]:
        schema, h = schema_with(numbers["An"]), numbers["h"]
        given = {"epsilon": numbers["eps"], "specializations": h, "score": "max"}
        paper = DiffGen(**given, calibration="paper").plan(schema)
        tight = DiffGen(**given, structure_share="1/2").plan(schema)
        assert paper.n_rounds(0) == tight.n_rounds(0) == h
        score, one = Max(), {"sensitivity": 1}
        prime, joint = paper.round_epsilon(h), tight.round_epsilon(h)
        found = {
            "eps_prime": prime,
            "sum_structure": paper.structure_epsilon,
            "paper_exponent_Max": exponent(score, epsilon=prime, monotone=False, **one),
            "monotone_exponent_Max": exponent(score, epsilon=prime, monotone=True, **one),
            "joint_selection_exponent": exponent(score, epsilon=joint, monotone=True, **one),
            "geometric_alpha_counts": math.exp(-float(tight.rate)),
        }
        for name, value in found.items():
            assert float(value) == pytest.approx(float(numbers[name]), rel=1e-15), name
        assert (numbers["An"] + 2 * h) * prime == paper.structure_epsilon
        assert h * joint == tight.structure_epsilon
        assert paper.rate == tight.rate == Fraction(numbers["eps"]) / 2


def test_sensitivities_are_as_listed(vectors: dict[str, Any]) -> None:
    listed = vectors["003"]["sensitivities"]
    assert listed["Max add/remove"] == "[0,1] monotone"
    assert Max.monotone
    assert Max().sensitivity(n_classes=9) == 1
    for n_classes in (2, 3, 16):  # 1 bit, and the rounding error
        assert InformationGain().sensitivity(n_classes=n_classes) == 2**BITS + 1
    one, two = np.array([[1, 0], [0, 0]]), np.array([[1, 0], [0, 1]])
    assert InformationGain().of(two) - InformationGain().of(one) == 2**BITS
    assert InformationGain().sensitivity_of_paper(n_classes=16) == 4 * 2**BITS + 1


def test_an_interval_is_named_by_its_ends() -> None:
    whole = top("age", AGE)
    assert isinstance(whole, IntervalPart)
    assert [half.label for half in whole.split(22)] == ["18 to 39", "40 to 64"]
