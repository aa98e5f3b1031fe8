"""Formulas with functions, products and weights agree with least squares on the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from hushtable.errors import ParameterError
from hushtable.query.answers import moments
from hushtable.query.answers.functions import clipped, read_function
from hushtable.query.answers.moments import NumericQuery
from hushtable.query.answers.regression import (
    MAX_TERMS,
    likelihood_regression,
    linear_regression,
    read_formula,
)
from hushtable.query.answers.row_sums import ONE, RowFunction, SumEstimates
from hushtable.schema import Schema
from seeds import shifted

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "pay": {"type": "integer", "low": 0, "high": 200, "missing": "category"},
            "age": {"type": "integer", "low": 18, "high": 80},
            "old": {"type": "integer", "low": 1, "high": 9},
            "sex": {"type": "categorical", "values": ["F", "M"]},
            "job": {"type": "categorical", "values": ["a", "b", "c"]},
        },
    }
)
COLUMNS = SCHEMA.attributes
Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def rows() -> dict[str, NDArray[np.int64]]:
    rng = np.random.default_rng(shifted(3))
    n = 400
    return {name: rng.integers(0, column.size, n) for name, column in COLUMNS.items()}


def exact(rows: dict[str, NDArray[np.int64]]) -> Callable[[Sequence[RowFunction]], SumEstimates]:
    def ask(functions: Sequence[RowFunction]) -> SumEstimates:
        values = np.array([float(function.values(rows).sum()) for function in functions])
        none = np.zeros((len(functions), len(functions)))
        return SumEstimates(values, none, none)

    return ask


def design(rows: dict[str, NDArray[np.int64]]) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return the columns as numbers, and which rows have a positive pay."""
    pay, age, old = rows["pay"] * 1.0, rows["age"] + 18.0, rows["old"] + 1.0
    there = (rows["pay"] > 0) & (rows["pay"] <= 200)
    indicators = {f"C(job)[{v}]": (rows["job"] == c) * 1.0 for c, v in enumerate("abc")}
    m = (rows["sex"] == 1) * 1.0
    return {"pay": pay, "age": age, "old": old, "C(sex)[M]": m, **indicators}, there


CASES: dict[str, Callable[[dict[str, Floats]], tuple[Floats, dict[str, Floats]]]] = {
    "log(pay) ~ age + I(age**2) + sqrt(old)": lambda d: (
        np.log(d["pay"]),
        {"age": d["age"], "I(age**2)": d["age"] ** 2, "sqrt(old)": np.sqrt(d["old"])},
    ),
    "log(pay) ~ age*old": lambda d: (
        np.log(d["pay"]),
        {"age": d["age"], "old": d["old"], "age:old": d["age"] * d["old"]},
    ),
    # Without age alone, each job has its own slope; with it, the first is the reference.
    "log(pay) ~ C(job):age": lambda d: (
        np.log(d["pay"]),
        {f"C(job)[{v}]:age": d[f"C(job)[{v}]"] * d["age"] for v in "abc"},
    ),
    "log(pay) ~ age + C(job):age + C(sex)": lambda d: (
        np.log(d["pay"]),
        {"age": d["age"], **{f"C(job)[{v}]:age": d[f"C(job)[{v}]"] * d["age"] for v in "bc"},
         "C(sex)[M]": d["C(sex)[M]"]},
    ),
    "log(pay) ~ C(sex)*C(job)": lambda d: (
        np.log(d["pay"]),
        {"C(sex)[M]": d["C(sex)[M]"], **{f"C(job)[{v}]": d[f"C(job)[{v}]"] for v in "bc"},
         **{f"C(sex)[M]:C(job)[{v}]": d["C(sex)[M]"] * d[f"C(job)[{v}]"] for v in "bc"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("formula", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_to_exact_sums_is_least_squares(
    rows: dict[str, NDArray[np.int64]], formula: str, weighted: bool
) -> None:
    numbers, there = design(rows)
    outcome, regressors = CASES[formula]({k: v[there] for k, v in numbers.items()})
    weight = RowFunction({"old": np.arange(1, 10) / 9}) if weighted else ONE
    read = read_formula(formula, COLUMNS)
    found = linear_regression(exact(rows), read, COLUMNS, ONE, weight=weight, scope="people")
    x = np.stack([np.ones(len(outcome)), *regressors.values()], axis=1)
    w = numbers["old"][there] if weighted else np.ones(len(outcome))
    wanted = np.linalg.solve(x.T @ (w[:, None] * x), x.T @ (w * outcome))
    assert list(found) == ["(intercept)", *regressors]
    assert [one.value for one in found.values()] == pytest.approx(wanted.tolist(), rel=1e-6)


def test_a_poisson_fit_solves_its_likelihood_equations(rows: dict[str, NDArray[np.int64]]) -> None:
    read = read_formula("old ~ age + C(sex)", COLUMNS, counts=True)
    found = likelihood_regression(exact(rows), read, COLUMNS, ONE, poisson=True, scope="people")
    numbers, _ = design(rows)
    x = np.stack([np.ones(400), numbers["age"], numbers["C(sex)[M]"]], axis=1)
    rate = np.exp(x @ np.array([one.value for one in found.values()]))
    assert x.T @ (numbers["old"] - rate) == pytest.approx(np.zeros(3), abs=1e-3)


def test_means_of_functions_and_clipped_means(rows: dict[str, NDArray[np.int64]]) -> None:
    there = rows["pay"] <= 200
    pay = rows["pay"][there].astype(float)
    cases = {
        "log(pay)": np.log(pay[pay > 0]), "log1p(pay)": np.log1p(pay), "pay**2": pay**2,
        "sqrt(pay)": np.sqrt(pay),
    }  # fmt: skip
    for text, wanted in cases.items():
        found = read_function(text, COLUMNS)
        assert found is not None
        mean = moments.mean(exact(rows), NumericQuery(*found, ONE, text), scope="people")
        assert mean.value == pytest.approx(wanted.mean())
        assert mean.what == f"mean of {text}"
    number = clipped(COLUMNS["pay"], (20, 50))  # type: ignore[arg-type]
    mean = moments.mean(exact(rows), NumericQuery("pay", number, ONE), scope="people")
    assert mean.value == pytest.approx(np.clip(pay, 20, 50).mean())


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("pay ~ exp(age)", "'exp\\(age\\)' is not a valid term"),
        ("pay ~ __import__('os')", "is not a valid term"),
        ("pay ~ I(age**9)", "is not a valid term"),
        ("pay ~ log(nosuch)", "'nosuch' is not published"),
        ("pay ~ log(sex)", "'sex' is not a number"),
        ("pay ~ age:age", "'age:age' occurs twice"),
        ("log(pay) ~ pay", "'pay' occurs twice"),
        ("C(sex) ~ age", "the outcome cannot be C\\(sex\\)"),
        ("pay ~ " + " + ".join(f"I(age**{k}):C(job):C(sex):log(old)" for k in (2, 2)), "twice"),
    ],
)
def test_wrong_terms_are_refused(formula: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        read_formula(formula, COLUMNS)


def test_products_count_toward_the_limit_of_coefficients() -> None:
    columns = {**COLUMNS, "many": Schema.from_dict(
        {"name": "t", "columns": {"many": {"type": "categorical", "values": [
            f"v{k}" for k in range(60)]}}}).attributes["many"]}  # fmt: skip
    read_formula("pay ~ C(many)", columns)
    with pytest.raises(ParameterError, match=f"has 120 coefficients; at most {MAX_TERMS}"):
        read_formula("pay ~ C(many)*C(sex)", columns)


@pytest.mark.parametrize("clip", [(5, 5), (9, 1), (1,), "ab", (1, "2"), (float("nan"), 1)])
def test_a_clip_needs_two_ordered_numbers(clip: object) -> None:
    with pytest.raises(ParameterError, match="give two numbers"):
        clipped(COLUMNS["pay"], clip)  # type: ignore[arg-type]
