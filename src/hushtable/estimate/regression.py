"""Regressions from sums over rows, with what noise in the sums does to them.

A linear regression needs the mean product of each pair of its columns, nothing else. These are
sums over rows that a release tells with known error, so the rows that a release may have are not
used, nor what noise and shrinkage did to them. Rows that lack one of the values are left out of all
products: who lacks a value seldom is like who has it, so products of different rows do not fit
together.

A coefficient is the ratio of two sums: the products of what the other columns leave of its column
and of the outcome, and the squares of the former. Errors in what the others explain cancel to first
order (Frisch and Waugh 1933; Neyman 1959), so that both are sums with known errors, and the ratio
has Fieller's interval: it holds where noise in the denominator would make others too short. Where
the noise leaves open whether a column varies at all beside the others, it has no ends. That is no
weakness of Fieller's: every interval that holds whatever the truth is must be without ends for some
releases, since a coefficient is anything where its denominator is zero (Gleser and Hwang 1987).

What sampling of people does to a coefficient is told by the squares of its influence, the product
of what is left of its column and of the residual (Eicker 1963; White 1980), and no less than for
residuals that are spread alike everywhere: they seldom are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from hushtable.errors import HushtableError, Refused
from hushtable.estimate.base import Estimate, Scope
from hushtable.estimate.formula import Formula
from hushtable.estimate.moments import (
    NO_SPREAD,
    Ask,
    Numbers,
    answer_of,
    fieller,
    in_values,
    reach_of,
)
from hushtable.estimate.row_functions import (
    ONE,
    Codes,
    Floats,
    RowFunction,
    UnitRuler,
    is_code,
    power,
    present,
)
from hushtable.estimate.sums import Sums
from hushtable.schema import Column, Integer, Number

INTERCEPT = "(intercept)"
LOGISTIC_STEPS = 25


@dataclass(frozen=True, eq=False)
class Regressor:
    """A column of the design: its name, what it is of a row, and its scale.

    Parameters
    ----------
    name : str
        What it is called.
    function : RowFunction
        Its value; of numbers the place between the column's bounds.
    there : RowFunction
        1 where it has a value.
    half, middle : float
        How to get from places to values.
    """

    name: str
    function: RowFunction
    there: RowFunction
    half: float = 1.0
    middle: float = 0.0


def design(formula: Formula, columns: Mapping[str, Column], where: RowFunction) -> list[Regressor]:
    """List intercept, numbers and groups; the first value of a group is what others are against."""
    made = [Regressor(INTERCEPT, where, where)]
    for name in formula.numbers:
        column = columns[name]
        assert isinstance(column, Integer | Number)  # noqa: S101 - the formula was checked
        ruler = UnitRuler.of(column)
        function = power(name, column, 1) * where
        there = present(name, column) * where
        made.append(Regressor(name, function, there, ruler.half, ruler.middle))
    for name in formula.groups:
        column = columns[name]
        there = present(name, column) * where
        for code in range(1, column.n_values):
            label = f"C({name})[{column.value(code)}]"
            made.append(Regressor(label, is_code(name, column, code) * where, there))
    return made


def linear_regression(
    ask: Ask, formula: Formula, columns: Mapping[str, Column], where: RowFunction, *, scope: Scope
) -> dict[str, Estimate]:
    """Regress a number on others and on groups, by least squares."""
    outcome = Numbers(formula.outcome, columns[formula.outcome], where)  # type: ignore[arg-type]
    regressors = design(formula, columns, where)
    y = Regressor(
        formula.outcome,
        power(outcome.name, outcome.column, 1) * where,
        present(outcome.name, outcome.column) * where,
        outcome.ruler.half,
        outcome.ruler.middle,
    )
    products = Products([*regressors, y], ask)
    n = len(regressors)
    moments = products.means
    inner, explained = moments[:n, :n], moments[:n, n]
    if np.linalg.eigvalsh(inner)[0] <= NO_SPREAD:
        raise Refused(
            "the noise drowns the columns that are to explain: they cannot be told apart from "
            "sums of each other, or from a constant. Use fewer of them, or groups with more rows."
        )
    coefficients: Floats = np.linalg.solve(inner, explained).astype(np.float64)
    residual = max(0.0, float(moments[n, n] - coefficients @ explained))
    alike: Floats = (residual * np.linalg.inv(inner) / products.n_rows).astype(np.float64)
    back = np.array([1.0, *(-one.middle / one.half for one in regressors[1:])])
    moved = np.vstack([np.linalg.inv(inner)[1:], np.linalg.solve(inner, back)])
    spread = [*alike.diagonal()[1:].tolist(), float(back @ alike @ back)]
    sampling = np.maximum(spread, _influence(products, ask, moved, coefficients))
    answers = [
        _coefficient(products, place, coefficients, float(sampling[place - 1]), scope)
        for place in range(1, n)
    ]
    scaled = {
        one.name: replace(in_values(answer, y.half / one.half), what=f"coefficient of {one.name}")
        for one, answer in zip(regressors[1:], answers, strict=True)
    }
    own = y.half**2 * float(sampling[-1])
    intercept = _intercept(products, [*regressors, y], coefficients, own, scope)
    return {INTERCEPT: intercept, **scaled}


class Products:
    """The mean product of each pair of columns of a design.

    Parameters
    ----------
    of : sequence of Regressor
        The columns.
    ask : callable
        Gives sums over rows.
    """

    def __init__(self, of: Sequence[Regressor], ask: Ask) -> None:
        n = len(of)
        self.of = of
        self.pairs = list(combinations_with_replacement(range(n), 2))
        everywhere = ONE
        for one in of:
            everywhere = everywhere * one.there
        functions = [of[i].function * of[j].function * everywhere for i, j in self.pairs]
        found = ask([*functions, everywhere])
        self.n_rows = float(found.values[-1])
        if self.n_rows <= 0:
            raise Refused("the noise leaves open whether there are such rows at all.")
        self.n_rows = max(self.n_rows, 1.0)
        means = found.values[:-1] / self.n_rows
        lift = np.concatenate([np.eye(len(functions)), -means[:, None]], axis=1)
        self.errors = found.combined(lift / self.n_rows)
        self.notes = found.notes
        self.means: Floats = np.zeros((n, n))
        for (i, j), mean in zip(self.pairs, means, strict=True):
            self.means[i, j] = self.means[j, i] = mean

    def form(self, left: Floats, right: Floats) -> Floats:
        """Write the mean product of two combinations of columns as weights of the pairs."""
        return np.array(
            [left[i] * right[j] + (left[j] * right[i] if i != j else 0.0) for i, j in self.pairs]
        )

    @property
    def n(self) -> int:
        """How many columns there are."""
        return len(self.means)


def _influence(products: Products, ask: Ask, moved: Floats, coefficients: Floats) -> Floats:
    """Give the variance from sampling of combinations that rows move, by squares of influences.

    Parameters
    ----------
    products : Products
        The columns of the design, the outcome last.
    ask : callable
        Gives sums over rows.
    moved : array (combinations, regressors)
        How the product of a row's columns with its residual moves each.
    coefficients : array
        The fit.
    """
    columns = products.of
    names = tuple(dict.fromkeys(name for one in columns for name in one.function.columns))
    everywhere = ONE
    for one in columns:
        everywhere = everywhere * one.there
    residual = np.append(-coefficients, 1.0)

    def squares(weights: Floats) -> RowFunction:
        def over(codes: Codes) -> Floats:
            values = np.stack([one.function.values(codes) for one in columns])
            return np.asarray(((weights @ values[:-1]) * (residual @ values)) ** 2)

        return RowFunction({}, {}, names, over) * everywhere

    try:
        found = [float(ask([squares(weights)]).values[0]) for weights in moved]
    except HushtableError:  # this kind of release tells products of columns alone
        found = [0.0] * len(moved)
    return np.array(found) / products.n_rows**2


def _coefficient(
    products: Products, place: int, coefficients: Floats, sampling: float, scope: Scope
) -> Estimate:
    """Give a coefficient as the ratio of what the others leave of two columns."""
    n = products.n - 1
    others = [other for other in range(n) if other != place]
    inner = products.means[:n, :n]
    own, left = np.zeros(n + 1), np.zeros(n + 1)
    own[place] = 1.0
    left[n] = 1.0
    if others:
        rest = inner[np.ix_(others, others)]
        own[others] = -np.linalg.solve(rest, inner[others, place])
        left[others] = -np.linalg.solve(rest, products.means[others, n])
    weights = np.stack([products.form(own, left), products.form(own, own)])
    errors = products.errors.combined(weights)
    value = float(coefficients[place])
    bottom = float(own @ products.means @ own)
    values = np.array([value * bottom, bottom])
    spread = np.zeros((2, 2))
    spread[0, 0] = sampling * bottom**2 if scope == "population" else 0.0
    low, high = fieller(values, errors.reach_squared(spread))
    at = errors.combined(np.array([[1.0, -value]]))
    notes = products.notes
    if math.isinf(low):
        notes = (*notes, "The noise leaves open whether this column varies at all by itself.")
    return Estimate(
        value=value,
        low=low,
        high=high,
        privacy_std=math.sqrt(max(0.0, float(at.privacy[0, 0]))) / bottom,
        model_std=math.sqrt(max(0.0, float(at.model[0, 0]))) / bottom,
        sampling_std=math.sqrt(sampling),
        scope=scope,
        notes=notes,
    )


def _intercept(
    products: Products,
    columns: Sequence[Regressor],
    coefficients: Floats,
    own: float,
    scope: Scope,
) -> Estimate:
    """Give the outcome where all columns are 0: a combination of all coefficients."""
    *regressors, y = columns
    n = len(regressors)
    back = np.array([1.0, *(-one.middle / one.half for one in regressors[1:])])
    value = y.middle + y.half * float(back @ coefficients)
    # To first order coefficients move by the inverse times the products with the residual.
    direction = np.zeros(n + 1)
    direction[:n] = y.half * np.linalg.solve(products.means[:n, :n], back)
    residual = np.append(-coefficients, 1.0)
    errors = products.errors.combined(products.form(direction, residual)[None, :])
    reach = reach_of(errors, own, scope)
    return answer_of(
        errors,
        value,
        (value - reach, value + reach),
        sampling=own,
        scope=scope,
        what="intercept",
        notes=products.notes,
    )


# --- logistic regression --------------------------------------------------------------------------


def logistic_regression(
    ask: Ask, formula: Formula, columns: Mapping[str, Column], where: RowFunction, *, scope: Scope
) -> dict[str, Estimate]:
    """Regress the second of two values on numbers and groups, by maximum likelihood.

    The likelihood's equations are sums over rows given the coefficients; they are solved by
    Newton's steps, and their errors at the solution are those of the coefficients.
    """
    regressors = design(formula, columns, where)
    everywhere = where
    for name in formula.columns:
        everywhere = everywhere * present(name, columns[name])
    event = is_code(formula.outcome, columns[formula.outcome], 1)
    tied = tuple(dict.fromkeys((*formula.numbers, *formula.groups)))
    n = len(regressors)
    coefficients = np.zeros(n)

    def expected(at: Floats, codes: Codes) -> Floats:
        score = sum(b * one.function.values(codes) for b, one in zip(at, regressors, strict=True))
        chance: Floats = 1 / (1 + np.exp(-np.clip(score, -30.0, 30.0)))
        return chance

    def scores(at: Floats) -> list[RowFunction]:
        def surplus(codes: Codes) -> Floats:
            happened: Floats = event.values(codes)
            return happened - expected(at, codes)

        over = RowFunction({}, {}, (*tied, formula.outcome), surplus) * everywhere
        return [over * one.function for one in regressors]

    def curvature(at: Floats) -> list[RowFunction]:
        def spread(codes: Codes) -> Floats:
            chance = expected(at, codes)
            return np.asarray(chance * (1 - chance))

        over = RowFunction({}, {}, tied, spread) * everywhere
        return [
            over * regressors[i].function * regressors[j].function
            for i, j in combinations_with_replacement(range(n), 2)
        ]

    inner = np.eye(n)
    for _ in range(LOGISTIC_STEPS):
        at = coefficients.copy()
        found = ask([*scores(at), *curvature(at)])
        for (i, j), value in zip(
            combinations_with_replacement(range(n), 2), found.values[n:], strict=True
        ):
            inner[i, j] = inner[j, i] = value
        if np.linalg.eigvalsh(inner)[0] <= 0:
            raise Refused("the noise drowns this regression; use fewer columns or more rows.")
        step = np.linalg.solve(inner, found.values[:n])
        coefficients = coefficients + np.clip(step, -2.0, 2.0)
        if float(np.max(np.abs(step))) < 1e-6:
            break
    else:
        raise Refused("the noisy likelihood has no maximum; use fewer columns or more rows.")
    return _logistic_answers(ask(scores(coefficients)), regressors, coefficients, inner, scope)


def _logistic_answers(
    errors: Sums, regressors: Sequence[Regressor], coefficients: Floats, inner: Floats, scope: Scope
) -> dict[str, Estimate]:
    inverse: Floats = np.linalg.inv(inner).astype(np.float64)
    moved = errors.combined(inverse)
    back = np.array([1.0, *(-one.middle / one.half for one in regressors[1:])])
    answers = {}
    for place, one in enumerate(regressors):
        weights = np.zeros((1, len(regressors)))
        if place == 0:
            weights[0] = back
        else:
            weights[0, place] = 1 / one.half
        mine = moved.combined(weights)
        sampling = (weights @ inverse @ weights.T).item()
        reach = reach_of(mine, sampling, scope)
        value = float((weights @ coefficients).item())
        answers[one.name] = answer_of(
            mine,
            value,
            (value - reach, value + reach),
            sampling=sampling,
            scope=scope,
            what="intercept" if place == 0 else f"log odds per unit of {one.name}",
            notes=errors.notes,
        )
    return answers
