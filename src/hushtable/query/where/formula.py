"""Two-valued formulas over the three-valued atoms of a clause.

SQL has TRUE, FALSE and NULL; a row matches if the clause is TRUE. Each atom therefore has a set of
accepted outcomes: ``NOT age < 3`` accepts the outcome FALSE of ``age < 3``. With NOT pushed down to
the atoms, AND and OR are two-valued:

- an AND is TRUE (or not FALSE) if all its parts are; it is FALSE (or not TRUE) if any part is;
- an OR is the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal as Choice

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import ColumnCodes
from hushtable.query.where import terms
from hushtable.query.where.terms import Term

Truths = NDArray[np.bool_]
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
        """Return codes at which the outcome may change; None if it may change at any."""
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
        left, right = terms.evaluate(self.left, codes), terms.evaluate(self.right, codes)
        one, other, *_ = terms.align(left, right)
        truth = one == other if self.operator == "=" else one < other
        return np.asarray(truth), left.null | right.null

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at any."""
        left, right = terms.affine(self.left), terms.affine(self.right)
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
        given = terms.evaluate(self.term, codes)
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
                found = found | ValueTest("=", self.term, terms.Constant(value)).evaluate(codes)[0]
        return found, given.null | ~found if self.has_null else given.null

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at any."""
        form = terms.affine(self.term)
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
        return terms.evaluate(self.term, codes).null, np.asarray(False)

    def cuts(self) -> set[int] | None:
        """Return codes at which the outcome may change; None if it may change at any."""
        # A term without a divisor is NULL exactly if the column is missing, and missing is always a
        # class of its own.
        return None if terms.affine(self.term) is None else set()


Atom = ConstantTruth | ValueTest | Member | IsNull


@dataclass(frozen=True)
class AtomTest:
    """An atom and its accepted outcomes; ``text`` is its source in the clause."""

    atom: Atom
    accept: Outcomes
    text: str = field(compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the literal, without repetition."""
        return tuple(dict.fromkeys(c for term in self.atom.terms for c in terms.columns(term)))


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
    for outcome in formula.accept:
        match outcome:
            case None:
                result = result | null
            case True:
                result = result | (truth & ~null)
            case False:
                result = result | ~(truth | null)
    return result


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= 60 else text[:57] + "..."
