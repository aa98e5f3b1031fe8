"""Two-valued formulas over the three-valued atoms of a clause.

SQL has TRUE, FALSE and NULL; a row matches if the clause is TRUE. Each atom therefore has a set of
accepted outcomes: ``NOT age < 3`` accepts the outcome FALSE of ``age < 3``. With NOT pushed down to
the atoms, AND and OR are two-valued:

- an AND is TRUE (or not FALSE) if all its parts are; it is FALSE (or not TRUE) if any part is;
- an OR is the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal
from typing import Literal as Choice

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Bools, ColumnCodes

# Exact arithmetic over encoded columns: fractions of integers, with SQL's NULL.
#
# Numbers of a schema are on a decimal grid, so every value of ``+ - * / %`` is a fraction. Arrays
# contain numerators and denominators as 64-bit integers as long as a bound allows it, otherwise as
# Python integers. So ``price <= 0.3`` is exact on a grid of step 0.1, and nothing overflows.

Integers = NDArray[Any]  # int64, or object holding Python integers
Operator = Literal["+", "-", "*", "/", "%"]

_WORD = 2**62  # results below this stay 64-bit integers


@dataclass(frozen=True)
class Constant:
    """A number in the clause."""

    value: Fraction


@dataclass(frozen=True)
class Grid:
    """A column whose code c represents ``low + c * step``; codes from ``n_values`` on are NULL.

    These are the codes of special values, which are not numbers, and missing.
    """

    column: str
    low: Fraction
    step: Fraction
    n_values: int


@dataclass(frozen=True)
class Ranks:
    """A column whose code c represents ``ranks[c]``; codes beyond ``ranks`` are NULL."""

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
    null: Bools
    top: int
    bottom: int


def evaluate_term(term: Term, codes: ColumnCodes) -> Exact:
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
    left, right = evaluate_term(term.left, codes), evaluate_term(term.right, codes)
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


Truths = Bools
Outcomes = frozenset[bool | None]

TRUE: Outcomes = frozenset({True})
OUTCOMES: Outcomes = frozenset({True, False, None})


def opposite(accept: Outcomes) -> Outcomes:
    """Return the outcomes of x that give an accepted outcome of NOT x."""
    return frozenset(None if outcome is None else not outcome for outcome in accept)


@dataclass(frozen=True)
class ConstantTruth:
    """Constant TRUE, FALSE or NULL."""

    value: bool | None
    terms: tuple[Term, ...] = ()

    def evaluate(self, codes: ColumnCodes) -> tuple[Truths, Truths]:
        """Return where the atom is TRUE, and where it is NULL."""
        return np.asarray(self.value is True), np.asarray(self.value is None)

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at every code."""
        return set()


@dataclass(frozen=True)
class ValueTest:
    """Comparison of two terms by = or <; the others are swapped or negated forms of these."""

    operator: Choice["=", "<"]
    left: Term
    right: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        """Both sides."""
        return self.left, self.right

    def evaluate(self, codes: ColumnCodes) -> tuple[Truths, Truths]:
        """Return where the atom is TRUE, and where it is NULL."""
        left, right = evaluate_term(self.left, codes), evaluate_term(self.right, codes)
        one, other, *_ = align(left, right)
        truth = one == other if self.operator == "=" else one < other
        return np.asarray(truth), left.null | right.null

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at every code."""
        left, right = affine(self.left), affine(self.right)
        if left is None or right is None:
            return None
        slope = left[0] - right[0]
        if slope == 0:
            return set()
        root = (right[1] - left[1]) / slope
        return {math.ceil(root), math.floor(root) + 1}


@dataclass(frozen=True)
class Member:
    """Membership of a term in a list of numbers, which may contain NULL."""

    term: Term
    values: frozenset[Fraction]
    has_null: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """The term."""
        return (self.term,)

    def evaluate(self, codes: ColumnCodes) -> tuple[Truths, Truths]:
        """Return where the atom is TRUE, and where it is NULL."""
        given = evaluate_term(self.term, codes)
        found = np.zeros(np.shape(given.numerators), np.bool_)
        if isinstance(given.denominators, int):
            scaled = (value * given.denominators for value in self.values)
            wanted = [int(v) for v in scaled if v.denominator == 1 and abs(v) <= given.top]
            if given.numerators.dtype == object:
                among = set(wanted)
                hits = (number in among for number in given.numerators.flat)
                found = np.fromiter(hits, np.bool_).reshape(found.shape)
            else:
                found = np.isin(given.numerators, np.asarray(sorted(wanted), np.int64))
        else:
            for value in self.values:
                found = found | ValueTest("=", self.term, Constant(value)).evaluate(codes)[0]
        return found, given.null | ~found if self.has_null else given.null

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at every code."""
        form = affine(self.term)
        if form is None:
            return None
        slope, intercept = form
        if slope == 0:
            return set()
        roots = ((value - intercept) / slope for value in self.values)
        whole = [int(root) for root in roots if root.denominator == 1]
        return {code + after for code in whole for after in (0, 1)}


@dataclass(frozen=True)
class IsNull:
    """Test whether a term is NULL."""

    term: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        """The term."""
        return (self.term,)

    def evaluate(self, codes: ColumnCodes) -> tuple[Truths, Truths]:
        """Return where the atom is TRUE, and where it is NULL."""
        return evaluate_term(self.term, codes).null, np.asarray(False)

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at every code."""
        # An affine term is NULL exactly for the codes of special values and missing, and these are
        # always runs of their own.
        return None if affine(self.term) is None else set()


Atom = ConstantTruth | ValueTest | Member | IsNull


@dataclass(frozen=True)
class AtomTest:
    """A literal: an atom and its accepted outcomes; ``text`` is its source in the clause."""

    atom: Atom
    accept: Outcomes
    text: str = field(compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the literal, without repetition."""
        return tuple(dict.fromkeys(c for term in self.atom.terms for c in columns(term)))


@dataclass(frozen=True)
class Junction:
    """Conjunction (`every`) or disjunction of several formulas."""

    every: bool
    parts: tuple[Formula, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the formula, without repetition."""
        return tuple(dict.fromkeys(c for part in self.parts for c in part.columns))

    @cached_property
    def n_literals(self) -> int:
        """Number of literals."""
        return sum(p.n_literals if isinstance(p, Junction) else 1 for p in self.parts)


Formula = AtomTest | Junction


def join(every: bool, parts: Iterable[Formula]) -> Formula:
    """Combine formulas by AND or OR; nested junctions of the same kind are merged."""
    flat: list[Formula] = []
    for part in parts:
        same = isinstance(part, Junction) and part.every == every
        flat.extend(part.parts if isinstance(part, Junction) and same else [part])
    return flat[0] if len(flat) == 1 else Junction(every, tuple(flat))


def literals(formula: Formula) -> Iterator[AtomTest]:
    """Yield the literals of a formula."""
    if isinstance(formula, AtomTest):
        yield formula
    else:
        for part in formula.parts:
            yield from literals(part)


def evaluate(formula: Formula, codes: ColumnCodes) -> Truths:
    """Return which rows match; arrays are broadcast against each other."""
    if isinstance(formula, Junction):
        result = np.asarray(formula.every)
        for part in formula.parts:
            found = evaluate(part, codes)
            result = result & found if formula.every else result | found
        return result
    truth, null = formula.atom.evaluate(codes)
    result = np.asarray(False)
    if True in formula.accept:
        result = result | (truth & ~null)
    if False in formula.accept:
        result = result | ~(truth | null)
    if None in formula.accept:
        result = result | null
    return result


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= 60 else text[:57] + "..."
