"""Parser of regression formulas: ``y ~ x + z + C(g)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hushtable.errors import ParameterError
from hushtable.schema import Categorical, Column, Integer, Number

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
