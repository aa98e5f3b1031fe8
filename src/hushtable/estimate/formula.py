"""Read a regression formula: ``y ~ x + z + C(g)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hushtable.errors import ParameterError
from hushtable.schema import Categorical, Column, Integer, Number

_NAME = r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^\W\d][\w.-]*))'
_TERM = re.compile(rf"\s*(?:(?P<factor>C)\(\s*)?{_NAME}\s*(?P<close>\))?\s*")
_ALLOWED = (
    "a formula is 'y ~ x + z + C(g)': columns by name, in double quotes where a name is not plain, "
    "and C() around those that stand for groups"
)


@dataclass(frozen=True)
class Formula:
    """What is explained by what.

    Parameters
    ----------
    outcome : str
        The column that is explained.
    numbers, groups : tuple of str
        The columns that enter as numbers, and as groups.
    """

    outcome: str
    numbers: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        return (self.outcome, *self.numbers, *self.groups)


def read_formula(text: str, columns: Mapping[str, Column], *, two_valued: bool = False) -> Formula:
    """Read a formula over the columns of a schema; every problem is told.

    Parameters
    ----------
    text : str
        The formula.
    columns : mapping of str to Column
        The columns it may name.
    two_valued : bool
        Whether the outcome is a list of two values instead of a number.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> number = Integer(type="integer", low=0, high=9)
    >>> read_formula("y ~ x + C(z)", {"x": number, "y": number, "z": number})
    Formula(outcome='y', numbers=('x',), groups=('z',))
    """
    outcome, sign, rest = text.partition("~")
    if not sign or not rest.strip():
        raise ParameterError(f"{text!r} explains nothing: {_ALLOWED}.")
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
            continue  # an intercept is always there
        term = _term(part, columns, problems)
        if term is None:
            continue
        name, is_factor = term
        if name in (*numbers, *groups) or (explained is not None and name == explained[0]):
            problems.append(f"column {name!r} is in the formula twice; name it once.")
        elif is_factor:
            groups.append(name)
        elif not isinstance(columns[name], Integer | Number):
            problems.append(
                f"column {name!r} is {kind_of(columns[name])}, not a number; write C({name}) for "
                "its groups."
            )
        else:
            numbers.append(name)
    if problems or explained is None:
        raise ParameterError(problems)
    return Formula(explained[0], tuple(numbers), tuple(groups))


def kind_of(column: Column) -> str:
    """Say what a column is that is no number."""
    return "a list of values" if isinstance(column, Categorical) else f"a {column.type}"


def _outcome_problems(name: str, column: Column, two_valued: bool) -> list[str]:
    if two_valued:
        if isinstance(column, Categorical) and column.n_values == 2:
            return []
        return [
            f"column {name!r} has not two values, which a logistic regression needs of its outcome."
        ]
    if not isinstance(column, Integer | Number):
        return [
            f"column {name!r} is {kind_of(column)} and has no mean to explain; a list of two "
            "values can be the outcome of a logistic regression."
        ]
    return []


def _term(text: str, columns: Mapping[str, Column], problems: list[str]) -> tuple[str, bool] | None:
    """Read a column and whether it stands for groups; what is wrong goes to the problems."""
    found = _TERM.fullmatch(text)
    if found is None or bool(found["factor"]) != bool(found["close"]):
        problems.append(
            f"{text.strip()!r} is no term of a formula: {_ALLOWED}. Functions and products are not "
            "supported; make such a column before publishing."
        )
        return None
    name = found["plain"] or found["quoted"].replace('""', '"')
    if name not in columns:
        problems.append(
            f"column {name!r} is not a published column; there are {', '.join(columns)}."
        )
        return None
    return name, bool(found["factor"])
