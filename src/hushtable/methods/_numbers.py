"""Read the numbers among a method's parameters: exact, within range, all problems at once."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from hushtable.errors import ParameterError
from hushtable.privacy.guarantee import check_delta, check_epsilon
from hushtable.privacy.rational import as_rational


def read_numbers(method: object, names: Iterable[str]) -> list[str]:
    """Replace parameters by exact numbers, where they are given; return what is wrong with them."""
    problems: list[str] = []
    for name in names:
        given = getattr(method, name)
        if given is None:
            continue
        try:
            object.__setattr__(method, name, exact_number(name, given))  # methods are frozen
        except ParameterError as error:
            problems += error.problems
    return problems


def exact_number(name: str, given: Fraction | float | str) -> Fraction | int:
    """Turn a parameter into an exact number and check its range, which its name tells.

    Epsilon and delta have ranges of their own, a share is 0 or more and below 1, and all others are
    whole numbers of at least 1.

    Examples
    --------
    >>> exact_number("epsilon", "0.1"), exact_number("count_share", "1/4"), exact_number("k", 10.0)
    (Fraction(1, 10), Fraction(1, 4), 10)
    >>> exact_number("k", 0)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 0; it must be a whole number of at least 1.
    """
    value = as_rational(given, name=name)
    if name == "epsilon":
        return check_epsilon(value)
    if name == "delta":
        return check_delta(value)
    if name.endswith("_share"):
        if not 0 <= value < 1:
            raise ParameterError(f"{name} is {given}; it must be 0 or more, below 1.")
        return value
    if value.denominator != 1 or value < 1:
        raise ParameterError(f"{name} is {given}; it must be a whole number of at least 1.")
    return int(value)
