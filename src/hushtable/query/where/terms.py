"""Exact arithmetic over encoded columns: fractions of integers, with SQL's NULL.

Numbers of a schema are on a decimal grid, so every value of ``+ - * / %`` is a fraction. Arrays
contain numerators and denominators as 64-bit integers as long as a bound allows it, otherwise as
Python integers. So ``price <= 0.3`` is exact on a grid of step 0.1, and nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import ColumnCodes

Integers = NDArray[Any]  # int64, or object holding Python integers
Operator = Literal["+", "-", "*", "/", "%"]

_WORD = 2**62  # results below this stay 64-bit integers


@dataclass(frozen=True)
class Constant:
    """A number in the clause."""

    value: Fraction


@dataclass(frozen=True)
class Grid:
    """A column whose code c represents ``low + c * step``; later codes are NULL.

    Those are special values, which are not numbers, and missing.
    """

    column: str
    low: Fraction
    step: Fraction
    n_values: int


@dataclass(frozen=True)
class Ranks:
    """A column whose code c represents ``ranks[c]``; later codes are NULL."""

    column: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Arithmetic:
    """Two terms combined by an operator."""

    operator: Operator
    left: Term
    right: Term


Term = Constant | Grid | Ranks | Arithmetic


def combine(operator: Operator, left: Term | None, right: Term | None) -> Term | None:
    """Combine two terms, folding constants; the result is NULL (None) if either term is.

    Examples
    --------
    >>> combine("%", Constant(Fraction(-7)), Constant(Fraction(3)))
    Constant(value=Fraction(-1, 1))
    >>> combine("/", Constant(Fraction(1)), Constant(Fraction(0))) is None
    True
    """
    if left is None or right is None:
        return None
    if isinstance(right, Constant):
        if operator in "/%" and right.value == 0:
            return None
        if isinstance(left, Constant):
            return Constant(_FOLD[operator](left.value, right.value))
        if operator == "/":
            return Arithmetic("*", left, Constant(1 / right.value))
    return Arithmetic(operator, left, right)


_FOLD: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "%": lambda x, y: x - y * int(x / y),  # the remainder has the sign of the dividend
}


def columns(term: Term) -> tuple[str, ...]:
    """Return the columns of a term, without repetition."""
    if isinstance(term, Constant):
        return ()
    if isinstance(term, Arithmetic):
        return tuple(dict.fromkeys(columns(term.left) + columns(term.right)))
    return (term.column,)


def affine(term: Term) -> tuple[Fraction, Fraction] | None:
    """Return slope and intercept if the term is ``slope * code + intercept``, else None."""
    if isinstance(term, Constant):
        return Fraction(0), term.value
    if isinstance(term, Grid):
        return term.step, term.low
    left = right = None
    if isinstance(term, Arithmetic):
        left, right = affine(term.left), affine(term.right)
    if isinstance(term, Ranks) or left is None or right is None:
        return None
    if term.operator in "+-":
        sign = 1 if term.operator == "+" else -1
        return left[0] + sign * right[0], left[1] + sign * right[1]
    if term.operator == "*" and 0 in (left[0], right[0]):
        factor, form = (left[1], right) if left[0] == 0 else (right[1], left)
        return form[0] * factor, form[1] * factor
    return None


@dataclass(frozen=True)
class Exact:
    """Exact fractions with a NULL mask and bounds.

    Denominators are positive; ``top`` and ``bottom`` are at least 1 and bound the absolute
    numerators and the denominators.
    """

    numerators: Integers
    denominators: Integers | int
    null: NDArray[np.bool_]
    top: int
    bottom: int


def evaluate(term: Term, codes: ColumnCodes) -> Exact:
    """Evaluate a term on encoded rows."""
    if isinstance(term, Constant):
        top = max(1, abs(term.value.numerator))
        bottom = term.value.denominator
        return Exact(_whole(term.value.numerator, top), bottom, np.asarray(False), top, bottom)
    if isinstance(term, Grid):
        bottom = math.lcm(term.low.denominator, term.step.denominator)
        low, step = int(term.low * bottom), int(term.step * bottom)
        top = max(1, abs(low) + step * term.n_values)
        numerators = _product(np.minimum(codes[term.column], term.n_values), step, top) + low
        null = np.asarray(codes[term.column] >= term.n_values)
        return Exact(_whole(numerators, top), bottom, null, top, bottom)
    if isinstance(term, Ranks):
        ranks = np.asarray((*term.ranks, 0), np.int64)  # NULL gets an arbitrary rank
        top = max(1, int(np.abs(ranks).max()))
        places = np.minimum(codes[term.column], len(term.ranks))
        return Exact(ranks[places], 1, np.asarray(places == len(term.ranks)), top, 1)
    left, right = evaluate(term.left, codes), evaluate(term.right, codes)
    if term.operator == "*":
        return _multiplied(left, right)
    if term.operator == "/":
        return _multiplied(left, _inverse(right))
    return _summed(left, right, term.operator)


def _whole(numbers: Any, bound: int) -> Integers:
    """Store integers as int64 if the bound allows it, otherwise as Python integers."""
    return np.asarray(numbers, np.int64 if bound < _WORD else object)


def _product(left: Integers | int, right: Integers | int, bound: int) -> Any:
    """Multiply, given a bound on the result."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    left = left if isinstance(left, int) else _whole(left, bound)
    right = right if isinstance(right, int) else _whole(right, bound)
    return _whole(left * right, bound)


def align(left: Exact, right: Exact) -> tuple[Integers, Integers, Integers | int, int, int]:
    """Bring two arrays of fractions to common denominators.

    Return both numerators, the denominators, and bounds on the larger numerator and on the
    denominators.
    """
    if isinstance(left.denominators, int) and isinstance(right.denominators, int):
        common: Any = math.lcm(left.denominators, right.denominators)
        bottom = common
        by_left: Any = common // left.denominators
        by_right: Any = common // right.denominators
        top = max(left.top * by_left, right.top * by_right)
    else:
        by_left, by_right = right.denominators, left.denominators
        bottom = left.bottom * right.bottom
        common = _product(left.denominators, right.denominators, bottom)
        top = max(left.top * right.bottom, right.top * left.bottom)
    return (
        _product(left.numerators, by_left, top),
        _product(right.numerators, by_right, top),
        common,
        top,
        bottom,
    )


def _multiplied(left: Exact, right: Exact) -> Exact:
    top, bottom = left.top * right.top, left.bottom * right.bottom
    return Exact(
        _product(left.numerators, right.numerators, top),
        _product(left.denominators, right.denominators, bottom),
        left.null | right.null,
        top,
        bottom,
    )


def _inverse(divisor: Exact) -> Exact:
    zero = np.asarray(divisor.numerators == 0)
    sign = np.where(divisor.numerators < 0, -1, 1)
    size = _whole(np.abs(divisor.numerators), divisor.top)
    return Exact(
        _product(sign, divisor.denominators, divisor.bottom),
        np.where(zero, 1, size),
        divisor.null | zero,
        divisor.bottom,
        divisor.top,
    )


def _summed(left: Exact, right: Exact, operator: Operator) -> Exact:
    """Add, subtract or take the remainder, on common denominators."""
    one, other, common, top, bottom = align(left, right)
    null = left.null | right.null
    if operator == "%":
        zero = np.asarray(other == 0)
        divisor = np.where(zero, 1, _whole(np.abs(other), top))
        size = _whole(np.abs(one) % divisor, top)
        signed = np.where(one < 0, _whole(-size, top), size)
        return Exact(signed, common, null | zero, top, bottom)
    one, other = _whole(one, 2 * top), _whole(other, 2 * top)
    total = one + other if operator == "+" else one - other
    return Exact(_whole(total, 2 * top), common, null, 2 * top, bottom)
