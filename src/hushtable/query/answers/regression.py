"""Linear and logistic regression from sums over rows, with intervals.

A linear regression needs only the mean product of each pair of its columns. A release estimates
these sums with known error, so the regression does not use synthetic rows and is not affected by
their noise and shrinkage. A row that lacks any of the values is left out of all products: missing
values are rarely random, so products over different rows would not be consistent.

A coefficient is a ratio of two sums. The numerator is the product of two residuals after regression
on the other columns: that of its column and that of the outcome. The denominator is the squared
residual of its column. Errors in the other coefficients cancel to first order (Frisch and Waugh
1933; Neyman 1959), so both sums have known errors, and the ratio has Fieller's interval. That
interval is valid even if noise in the denominator would make others too short. It is unbounded if,
given the noise, the column may not vary beyond the others. This is unavoidable: every interval that
is valid for all true values must be unbounded for some releases, because a coefficient is
undetermined if its denominator is zero (Gleser and Hwang 1987).

The sampling variance of a coefficient is the sum of its squared influences: the product of its
column's residual and the outcome's (Eicker 1963; White 1980). It is never taken below the variance
for homoscedastic residuals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from hushtable.arrays import ColumnCodes, Floats
from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.query.answers.estimator import Estimate, Scope
from hushtable.query.answers.moments import NO_SPREAD, Ask, answer_of, fieller, in_values, symmetric
from hushtable.query.answers.row_sums import (
    ONE,
    RowFunction,
    SumEstimates,
    UnitRuler,
    is_code,
    power,
    present,
)
from hushtable.schema import Categorical, Column, Integer, Number

# Parser of regression formulas: ``y ~ x + z + C(g)``.

MAX_TERMS = 100  # each pair of coefficients is a sum over the release
_NAME = r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^\W\d][\w.-]*))'
_TERM = re.compile(rf"\s*(?:(?P<factor>C)\(\s*)?{_NAME}\s*(?P<close>\))?\s*")
_ALLOWED = (
    "write 'y ~ x + z + C(g)': column names, in double quotes if they have special characters, "
    "and C() around columns that enter as categories"
)


@dataclass(frozen=True)
class RegressionFormula:
    """A parsed regression formula.

    Parameters
    ----------
    outcome : str
        The outcome column.
    numbers, groups : tuple of str
        Columns that enter as numbers, and as categories.
    """

    outcome: str
    numbers: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the formula."""
        return (self.outcome, *self.numbers, *self.groups)


def read_formula(
    text: str, columns: Mapping[str, Column], *, two_valued: bool = False
) -> RegressionFormula:
    """Parse a formula over the columns of a schema; raise one error that lists all problems.

    Parameters
    ----------
    text : str
        The formula.
    columns : mapping of str to Column
        The columns that it may name.
    two_valued : bool
        Whether the outcome must be categorical with two values instead of numeric.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> number = Integer(type="integer", low=0, high=9)
    >>> read_formula("y ~ x + C(z)", {"x": number, "y": number, "z": number})
    RegressionFormula(outcome='y', numbers=('x',), groups=('z',))
    """
    outcome, sign, rest = text.partition("~")
    if not sign or not rest.strip():
        raise ParameterError(f"{text!r} has no regressors: {_ALLOWED}.")
    problems: list[str] = []
    explained = _term(outcome, columns, problems)
    if explained is not None:
        if explained[1]:
            problems.append(f"the outcome cannot be C({explained[0]}): {_ALLOWED}.")
        problems += _outcome_problems(explained[0], columns[explained[0]], two_valued)
    numbers: list[str] = []
    groups: list[str] = []
    for part in rest.split("+"):
        if part.strip() == "1":
            continue  # the intercept is always included
        term = _term(part, columns, problems)
        if term is None:
            continue
        name, is_factor = term
        if name in (*numbers, *groups) or (explained is not None and name == explained[0]):
            problems.append(f"column {name!r} occurs twice in the formula; name it once.")
        elif is_factor:
            groups.append(name)
        elif not isinstance(columns[name], Integer | Number):
            problems.append(
                f"column {name!r} is {kind_of(columns[name])}, not a number; write C({name}) to "
                "enter its values as categories."
            )
        else:
            numbers.append(name)
    n_terms = 1 + len(numbers) + sum(columns[name].size - 1 for name in groups)
    if n_terms > MAX_TERMS:
        problems.append(
            f"the formula has {n_terms:,} coefficients; at most {MAX_TERMS} are allowed. Leave out "
            "a column of many categories, or publish it with fewer."
        )
    if problems or explained is None:
        raise ParameterError(problems)
    return RegressionFormula(explained[0], tuple(numbers), tuple(groups))


def kind_of(column: Column) -> str:
    """Describe the type of a column that is not a number."""
    return "categorical" if isinstance(column, Categorical) else f"a {column.type}"


def _outcome_problems(name: str, column: Column, two_valued: bool) -> list[str]:
    if two_valued:
        if isinstance(column, Categorical) and column.n_values == 2:
            return []
        return [
            f"column {name!r}: the outcome of a logistic regression must have exactly two values."
        ]
    if not isinstance(column, Integer | Number):
        return [
            f"column {name!r} is {kind_of(column)}; the outcome of a linear regression must be a "
            "number; a column of two values fits a logistic regression."
        ]
    return []


def _term(text: str, columns: Mapping[str, Column], problems: list[str]) -> tuple[str, bool] | None:
    """Parse a column and whether it enters as categories; append problems to `problems`."""
    found = _TERM.fullmatch(text)
    if found is None or bool(found["factor"]) != bool(found["close"]):
        problems.append(
            f"{text.strip()!r} is not a valid term: {_ALLOWED}. Functions and interactions are not "
            "supported; create such a column before publishing."
        )
        return None
    name = found["plain"] or found["quoted"].replace('""', '"')
    if name not in columns:
        problems.append(
            f"column {name!r} is not published; published columns are {', '.join(columns)}."
        )
        return None
    return name, bool(found["factor"])


INTERCEPT = "(intercept)"
LOGISTIC_STEPS = 25


@dataclass(frozen=True, eq=False)
class Regressor:
    """A column of the design matrix."""

    name: str  # name of the term
    function: RowFunction  # value in a row; numbers are scaled to -1 to 1
    there: RowFunction  # 1 if the row has a value
    half: float = 1.0  # value = middle + half * scaled number
    middle: float = 0.0


def _scaled(name: str, column: Column, where: RowFunction) -> Regressor:
    """Return a column of numbers, scaled to -1 to 1."""
    assert isinstance(column, Integer | Number)  # noqa: S101 - the formula was checked
    ruler = UnitRuler.of(column)
    there = present(name, column) * where
    return Regressor(name, power(name, column, 1) * where, there, ruler.half, ruler.middle)


def design(
    formula: RegressionFormula, columns: Mapping[str, Column], where: RowFunction
) -> list[Regressor]:
    """Return the columns of the design matrix: intercept, numbers, and indicators of categories.

    The first value of a categorical column is the reference and has no indicator.
    """
    made = [Regressor(INTERCEPT, where, where)]
    made += [_scaled(name, columns[name], where) for name in formula.numbers]
    for name in formula.groups:
        column = columns[name]
        there = present(name, column) * where
        for code in range(1, column.n_values):
            label = f"C({name})[{column.value(code)}]"
            made.append(Regressor(label, is_code(name, column, code) * where, there))
    return made


def _of_intercept(regressors: Sequence[Regressor]) -> Floats:
    """Return the weights of the scaled coefficients whose sum is the unscaled intercept."""
    return np.array([1.0, *(-one.middle / one.half for one in regressors[1:])])


def linear_regression(
    ask: Ask,
    formula: RegressionFormula,
    columns: Mapping[str, Column],
    where: RowFunction,
    *,
    scope: Scope,
) -> dict[str, Estimate]:
    """Fit a linear regression by least squares."""
    regressors = design(formula, columns, where)
    y = _scaled(formula.outcome, columns[formula.outcome], where)
    products = Products([*regressors, y], ask)
    n = len(regressors)
    inner, explained = products.means[:n, :n], products.means[:n, n]
    if np.linalg.eigvalsh(inner)[0] <= NO_SPREAD:
        raise Refused(
            "the noise is too large: the regressors may be linear combinations of each other or "
            "constant. Use fewer regressors, or categories with more rows."
        )
    coefficients: Floats = np.linalg.solve(inner, explained).astype(np.float64)
    residual = max(0.0, float(products.means[n, n] - coefficients @ explained))
    inverse = np.linalg.inv(inner)
    back = _of_intercept(regressors)
    # Combinations of the coefficients: each but the intercept, then the unscaled intercept.
    combinations = np.vstack([np.eye(n)[1:], back])
    homoscedastic = residual * ((combinations @ inverse) * combinations).sum(axis=1)
    influences = _influence(products, ask, combinations @ inverse, coefficients)
    sampling = np.maximum(homoscedastic / products.n_rows, influences).tolist()
    answers = {INTERCEPT: _intercept(products, back, coefficients, y.half**2 * sampling[-1], scope)}
    for place, one in enumerate(regressors[1:], start=1):
        answer = _coefficient(products, place, coefficients, sampling[place - 1], scope)
        answers[one.name] = replace(
            in_values(answer, y.half / one.half), what=f"coefficient of {one.name}"
        )
    return answers


class Products:
    """Mean products of all pairs of columns of a design, with their errors."""

    def __init__(self, of: Sequence[Regressor], ask: Ask) -> None:
        n = len(of)
        self.of = of
        self.pairs = list(combinations_with_replacement(range(n), 2))
        self.everywhere = math.prod((one.there for one in of), start=ONE)
        functions = [of[i].function * of[j].function * self.everywhere for i, j in self.pairs]
        found = ask([*functions, self.everywhere])
        self.n_rows = float(found.values[-1])
        if self.n_rows <= 0:
            raise Refused("because of noise, there may be no such rows; ask about a larger group.")
        self.n_rows = max(self.n_rows, 1.0)
        means = found.values[:-1] / self.n_rows
        lift = np.concatenate([np.eye(len(functions)), -means[:, None]], axis=1)
        self.errors = found.combined(lift / self.n_rows)
        self.notes = found.notes
        self.means: Floats = np.zeros((n, n))
        for (i, j), mean in zip(self.pairs, means, strict=True):
            self.means[i, j] = self.means[j, i] = mean

    def form(self, left: Floats, right: Floats) -> Floats:
        """Return the mean product of two linear combinations of columns as weights of the pairs."""
        return np.array(
            [left[i] * right[j] + (left[j] * right[i] if i != j else 0.0) for i, j in self.pairs]
        )


def _influence(products: Products, ask: Ask, moved: Floats, coefficients: Floats) -> Floats:
    """Return the sampling variance of combinations of coefficients, from squared influences.

    `products` has the outcome as its last column. Row i of `moved` gives the change of combination
    i per unit of the product of a row's regressors and its residual.
    """
    columns = products.of
    names = tuple(dict.fromkeys(name for one in columns for name in one.function.columns))
    residual = np.append(-coefficients, 1.0)

    def squares(weights: Floats) -> RowFunction:
        def over(codes: ColumnCodes) -> Floats:
            values = np.stack([one.function.values(codes) for one in columns])
            return np.asarray(((weights @ values[:-1]) * (residual @ values)) ** 2)

        return RowFunction({}, {}, names, over) * products.everywhere

    try:
        found = [float(ask([squares(weights)]).values[0]) for weights in moved]
    except HushtableError:  # this kind of release supports only products of columns
        found = [0.0] * len(moved)
    return np.array(found) / products.n_rows**2


def _coefficient(
    products: Products, place: int, coefficients: Floats, sampling: float, scope: Scope
) -> Estimate:
    """Return a coefficient as a ratio of products of residuals, with Fieller's interval."""
    n = len(coefficients)
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
    low, high = fieller(values, errors.half_width_squared(spread))
    notes = products.notes
    if math.isinf(low):
        notes = (*notes, "Because of noise, this column may not vary independently of the others.")
    return answer_of(
        errors.combined(np.array([[1.0, -value]])),
        value,
        (low, high),
        sampling=sampling * bottom**2,
        scope=scope,
        notes=notes,
        scale=1 / bottom,
    )


def _intercept(
    products: Products, back: Floats, coefficients: Floats, sampling: float, scope: Scope
) -> Estimate:
    """Return the intercept: a linear combination of all coefficients of scaled columns."""
    y, n = products.of[-1], len(coefficients)
    # To first order, coefficients change by the inverse times the products with the residual.
    direction = np.append(y.half * np.linalg.solve(products.means[:n, :n], back), 0.0)
    residual = np.append(-coefficients, 1.0)
    errors = products.errors.combined(products.form(direction, residual)[None, :])
    value = y.middle + y.half * float(back @ coefficients)
    return symmetric(errors, value, sampling=sampling, scope=scope, what="intercept")


# --- logistic regression --------------------------------------------------------------------------


def logistic_regression(
    ask: Ask,
    formula: RegressionFormula,
    columns: Mapping[str, Column],
    where: RowFunction,
    *,
    scope: Scope,
) -> dict[str, Estimate]:
    """Fit a logistic regression of the second of two values, by maximum likelihood.

    Given the coefficients, the likelihood equations are sums over rows. Newton's method solves
    them; the errors of the sums at the solution determine those of the coefficients.
    """
    regressors = design(formula, columns, where)
    there = [present(name, columns[name]) for name in formula.columns]
    everywhere = math.prod(there, start=where)
    event = is_code(formula.outcome, columns[formula.outcome], 1)
    tied = tuple(dict.fromkeys((*formula.numbers, *formula.groups)))
    n = len(regressors)
    coefficients = np.zeros(n)

    def expected(at: Floats, codes: ColumnCodes) -> Floats:
        score = sum(b * one.function.values(codes) for b, one in zip(at, regressors, strict=True))
        chance: Floats = 1 / (1 + np.exp(-np.clip(score, -30.0, 30.0)))
        return chance

    def scores(at: Floats) -> list[RowFunction]:
        def surplus(codes: ColumnCodes) -> Floats:
            happened: Floats = event.values(codes)
            return happened - expected(at, codes)

        over = RowFunction({}, {}, (*tied, formula.outcome), surplus) * everywhere
        return [over * one.function for one in regressors]

    def curvature(at: Floats) -> list[RowFunction]:
        def spread(codes: ColumnCodes) -> Floats:
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
            raise Refused("the noise is too large for this fit; use fewer columns or more rows.")
        step = np.linalg.solve(inner, found.values[:n])
        coefficients = coefficients + np.clip(step, -2.0, 2.0)
        if float(np.max(np.abs(step))) < 1e-6:
            break
    else:
        raise Refused("the noisy likelihood has no maximum; use fewer columns or more rows.")
    return _logistic_answers(ask(scores(coefficients)), regressors, coefficients, inner, scope)


def _logistic_answers(
    errors: SumEstimates,
    regressors: Sequence[Regressor],
    coefficients: Floats,
    inner: Floats,
    scope: Scope,
) -> dict[str, Estimate]:
    inverse: Floats = np.linalg.inv(inner).astype(np.float64)
    # Each row of weights converts the scaled coefficients to one unscaled coefficient.
    weights = np.diag([1 / one.half for one in regressors])
    weights[0] = _of_intercept(regressors)
    answers = {}
    for one, row in zip(regressors, weights, strict=True):
        name = "intercept" if one.name == INTERCEPT else f"log odds per unit of {one.name}"
        answers[one.name] = symmetric(
            errors.combined(row[None, :] @ inverse),
            float(row @ coefficients),
            sampling=float(row @ inverse @ row),
            scope=scope,
            what=name,
        )
    return answers
