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
from itertools import combinations, combinations_with_replacement, product

import numpy as np

from hushtable.arrays import ColumnCodes, Floats
from hushtable.errors import HushtableError, ParameterError, Refused, unpublished
from hushtable.query.answers.estimator import Estimate, Scope
from hushtable.query.answers.functions import (
    FUNCTIONS,
    NAME,
    FunctionOfColumn,
    read_function,
    unquoted,
)
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

# Parser of regression formulas: ``log(y) ~ x + I(x**2) + C(g):x + x*z``.

MAX_TERMS = 100  # each pair of coefficients is a sum over the release
_GROUP = re.compile(rf"C\(\s*({NAME})\s*\)")
_OUTSIDE_QUOTES = r'(?=(?:[^"]*"[^"]*")*[^"]*$)'
_ALLOWED = (
    "write 'y ~ x + z + C(g)': column names, in double quotes if they have special characters, "
    f"C() around columns that enter as categories, functions ({FUNCTIONS}), and products (x:z, or "
    "x*z for x + z + x:z)"
)


@dataclass(frozen=True, eq=False)
class Factor:
    """A number or a category in a formula."""

    text: str
    name: str  # the column
    number: Integer | Number | FunctionOfColumn | None  # None: enters as categories


@dataclass(frozen=True, eq=False)
class RegressionFormula:
    """A parsed regression formula: the outcome, and terms, each a product of factors."""

    outcome: Factor
    terms: tuple[tuple[Factor, ...], ...]

    @property
    def regressors(self) -> tuple[str, ...]:
        """All columns on the right side."""
        return tuple(dict.fromkeys(factor.name for term in self.terms for factor in term))


def read_formula(
    text: str, columns: Mapping[str, Column], *, two_valued: bool = False, counts: bool = False
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
    counts : bool
        Whether the outcome must be a number that is not negative.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> number = Integer(type="integer", low=0, high=9)
    >>> read = read_formula("y ~ x * log1p(z)", {"x": number, "y": number, "z": number})
    >>> [[factor.text for factor in term] for term in read.terms]
    [['x'], ['log1p(z)'], ['x', 'log1p(z)']]
    """
    outcome, sign, rest = text.partition("~")
    if not sign or not rest.strip():
        raise ParameterError(f"{text!r} has no regressors: {_ALLOWED}.")
    problems: list[str] = []
    explained = _factor(outcome, columns, problems, is_outcome=True)
    if explained is not None:
        problems += _outcome_problems(explained, columns, two_valued, counts)
    found: dict[frozenset[str], tuple[Factor, ...]] = {}
    for part in re.split(rf"\+{_OUTSIDE_QUOTES}", rest):
        if part.strip() == "1":
            continue  # the intercept is always included
        crossed = [
            [_factor(piece, columns, problems) for piece in re.split(rf":{_OUTSIDE_QUOTES}", side)]
            for side in re.split(rf"(?<!\*)\*(?!\*){_OUTSIDE_QUOTES}", part)
        ]
        for size in range(1, len(crossed) + 1):
            for sides in combinations(crossed, size):
                factors = [factor for side in sides for factor in side]
                term = tuple(factor for factor in factors if factor is not None)
                names = frozenset(factor.text for factor in term)
                if len(term) < len(factors):
                    continue
                if names in found and len(crossed) > 1:
                    continue  # x + x*z contains x once
                twice = names in found or len(names) < len(term)
                if twice or any(explained and f.name == explained.name for f in term):
                    said = term[0].name if len(term) == 1 else part.strip()
                    problems.append(f"column {said!r} occurs twice in the formula; name it once.")
                found[names] = term
    read = None if explained is None else RegressionFormula(explained, tuple(found.values()))
    n_terms = 0 if problems or read is None else 1 + sum(
        math.prod(len(codes) for codes in _codes(term, read, columns)) for term in read.terms
    )  # fmt: skip
    if n_terms > MAX_TERMS:
        problems.append(
            f"the formula has {n_terms:,} coefficients; at most {MAX_TERMS} are allowed. Leave out "
            "a column of many categories, or publish it with fewer."
        )
    if problems or read is None:
        raise ParameterError(list(dict.fromkeys(problems)))
    return read


def _factor(
    text: str, columns: Mapping[str, Column], problems: list[str], *, is_outcome: bool = False
) -> Factor | None:
    """Parse a column, a function of one, or a category; append problems to `problems`."""
    text = text.strip()
    group, plain = _GROUP.fullmatch(text), re.fullmatch(NAME, text)
    name = unquoted(group[1] if group else text)
    column = columns.get(name)
    try:
        if function := read_function(text, columns):
            return Factor(text, *function)
    except ParameterError as error:
        problems += error.problems
        return None
    if is_outcome and group:
        problems.append(f"the outcome cannot be {text}: {_ALLOWED}.")
    elif group is None and plain is None:
        problems.append(
            f"{text!r} is not a valid term: {_ALLOWED}. For another function, create such a column "
            "before publishing."
        )
    elif column is None:
        problems += unpublished([name], columns)
    elif group or is_outcome or isinstance(column, Integer | Number):
        is_number = group is None and isinstance(column, Integer | Number)
        return Factor(f"C({name})" if group else name, name, column if is_number else None)  # type: ignore[arg-type]
    else:
        problems.append(
            f"column {name!r} is {kind_of(column)}, not a number; write C({name}) to enter its "
            "values as categories."
        )
    return None


def _codes(
    term: Sequence[Factor], formula: RegressionFormula, columns: Mapping[str, Column]
) -> list[Sequence[int | None]]:
    """Return the codes of each factor's indicators; a number has one entry, None.

    The first value is the reference if the term without this factor is in the formula, too.
    Otherwise, all values have indicators.
    """
    present_terms = {frozenset(f.text for f in one) for one in formula.terms} | {frozenset[str]()}
    made: list[Sequence[int | None]] = []
    for factor in term:
        rest = frozenset(f.text for f in term if f is not factor)
        first = 1 if rest in present_terms else 0
        made.append([None] if factor.number else range(first, columns[factor.name].n_values))
    return made


def kind_of(column: Column) -> str:
    """Describe the type of a column that is not a number."""
    return "categorical" if isinstance(column, Categorical) else f"a {column.type}"


def _outcome_problems(
    outcome: Factor, columns: Mapping[str, Column], two_valued: bool, counts: bool
) -> list[str]:
    name, column = outcome.name, columns[outcome.name]
    if two_valued:
        if isinstance(column, Categorical) and column.n_values == 2:
            return []
        return [
            f"column {name!r}: the outcome of a logistic regression must have exactly two values."
        ]
    if outcome.number is None:
        return [
            f"column {name!r} is {kind_of(column)}; the outcome of a linear regression must be a "
            "number; a column of two values fits a logistic regression."
        ]
    if counts and (not isinstance(column, Integer) or outcome.number is not column):
        return [f"column {name!r}: the outcome of a Poisson regression must be an integer column."]
    if counts and column.exact_low < 0:  # type: ignore[union-attr]
        return [f"column {name!r} may be negative, which a Poisson regression does not allow."]
    return []


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


def _scaled(factor: Factor, where: RowFunction, *, is_alone: bool = True) -> Regressor:
    """Return a column of numbers, scaled to -1 to 1; in a product, without a shift."""
    name, number = factor.name, factor.number
    assert number is not None  # noqa: S101 - the formula was checked
    ruler, there = UnitRuler.of(number), present(name, number) * where
    function = power(name, number, 1)
    if is_alone:
        return Regressor(factor.text, function * where, there, ruler.half, ruler.middle)
    largest = ruler.half + abs(ruler.middle)
    shifted = (ruler.middle * power(name, number, 0).factors[name] + ruler.half
               * function.factors[name]) / largest  # fmt: skip
    smooth = RowFunction({name: shifted}, smooth=function.smooth)
    return Regressor(factor.text, smooth * where, there, largest)


def design(
    formula: RegressionFormula, columns: Mapping[str, Column], where: RowFunction
) -> list[Regressor]:
    """Return the columns of the design matrix: intercept, numbers, indicators, and products."""
    made = [Regressor(INTERCEPT, where, where)]
    for term in formula.terms:
        for codes in product(*_codes(term, formula, columns)):
            parts = [
                _scaled(factor, ONE, is_alone=len(term) == 1) if code is None
                else _indicator(factor, columns[factor.name], code)
                for factor, code in zip(term, codes, strict=True)
            ]  # fmt: skip
            made.append(
                Regressor(
                    ":".join(part.name for part in parts),
                    math.prod((part.function for part in parts), start=where),
                    math.prod((part.there for part in parts), start=where),
                    math.prod(part.half for part in parts),
                    parts[0].middle if len(parts) == 1 else 0.0,
                )
            )
    return made


def _indicator(factor: Factor, column: Column, code: int) -> Regressor:
    label = f"{factor.text}[{column.value(code)}]"
    return Regressor(label, is_code(factor.name, column, code), present(factor.name, column))


def _of_intercept(regressors: Sequence[Regressor]) -> Floats:
    """Return the weights of the scaled coefficients whose sum is the unscaled intercept."""
    return np.array([1.0, *(-one.middle / one.half for one in regressors[1:])])


def linear_regression(
    ask: Ask,
    formula: RegressionFormula,
    columns: Mapping[str, Column],
    where: RowFunction,
    *,
    weight: RowFunction = ONE,
    scope: Scope,
) -> dict[str, Estimate]:
    """Fit a linear regression by least squares; each row counts by its weight."""
    regressors = design(formula, columns, where)
    y = _scaled(formula.outcome, where)
    products = Products([*regressors, y], ask, weight)
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
    combined = np.vstack([np.eye(n)[1:], back])
    homoscedastic = residual * ((combined @ inverse) * combined).sum(axis=1)
    influences = _influence(products, ask, combined @ inverse, coefficients)
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

    def __init__(self, of: Sequence[Regressor], ask: Ask, weight: RowFunction) -> None:
        n = len(of)
        self.of = of
        self.everywhere = math.prod((one.there for one in of), start=weight)
        every = {
            (i, j): of[i].function * of[j].function * self.everywhere
            for i, j in combinations_with_replacement(range(n), 2)
        }
        # Indicators of two values of one column have no product.
        self.pairs = [pair for pair, product in every.items() if not product.is_zero]
        functions = [every[pair] for pair in self.pairs]
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


# --- logistic and Poisson regression --------------------------------------------------------------


def likelihood_regression(
    ask: Ask,
    formula: RegressionFormula,
    columns: Mapping[str, Column],
    where: RowFunction,
    *,
    poisson: bool = False,
    weight: RowFunction = ONE,
    scope: Scope,
) -> dict[str, Estimate]:
    """Fit a logistic regression of the second of two values, or a Poisson regression of a count.

    Given the coefficients, the likelihood equations are sums over rows. Newton's method solves
    them; the errors of the sums at the solution determine those of the coefficients.
    """
    regressors = design(formula, columns, where)
    outcome = formula.outcome
    there = [present(outcome.name, outcome.number or columns[outcome.name])]
    everywhere = math.prod((*there, *(one.there for one in regressors)), start=where * weight)
    event = (
        _scaled(outcome, ONE, is_alone=False) if poisson
        else _indicator(outcome, columns[outcome.name], 1)
    )  # fmt: skip
    tied = formula.regressors
    n = len(regressors)
    coefficients = np.zeros(n)

    def expected(at: Floats, codes: ColumnCodes) -> Floats:
        score = sum(b * one.function.values(codes) for b, one in zip(at, regressors, strict=True))
        bounded = np.clip(score, -30.0, 30.0)
        mean: Floats = np.exp(bounded) if poisson else 1 / (1 + np.exp(-bounded))
        return mean

    def scores(at: Floats) -> list[RowFunction]:
        def surplus(codes: ColumnCodes) -> Floats:
            return np.asarray(event.half * event.function.values(codes) - expected(at, codes))

        over = RowFunction({}, {}, (*tied, outcome.name), surplus) * everywhere
        return [over * one.function for one in regressors]

    def curvature(at: Floats) -> list[RowFunction]:
        def spread(codes: ColumnCodes) -> Floats:
            mean = expected(at, codes)
            return np.asarray(mean if poisson else mean * (1 - mean))

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
    unit = "log rate" if poisson else "log odds"
    errors = ask(scores(coefficients))
    return _likelihood_answers(errors, regressors, coefficients, inner, scope=scope, unit=unit)


def _likelihood_answers(
    errors: SumEstimates,
    regressors: Sequence[Regressor],
    coefficients: Floats,
    inner: Floats,
    *,
    scope: Scope,
    unit: str,
) -> dict[str, Estimate]:
    inverse: Floats = np.linalg.inv(inner).astype(np.float64)
    # Each row of weights converts the scaled coefficients to one unscaled coefficient.
    weights = np.diag([1 / one.half for one in regressors])
    weights[0] = _of_intercept(regressors)
    answers = {}
    for one, row in zip(regressors, weights, strict=True):
        name = "intercept" if one.name == INTERCEPT else f"{unit} per unit of {one.name}"
        answers[one.name] = symmetric(
            errors.combined(row[None, :] @ inverse),
            float(row @ coefficients),
            sampling=float(row @ inverse @ row),
            scope=scope,
            what=name,
        )
    return answers
