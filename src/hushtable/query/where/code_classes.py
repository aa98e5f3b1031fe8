"""Equivalence classes of the codes of a column that a formula does not distinguish.

Most clauses distinguish few values: ``income >= 50000`` splits two billion codes into two classes
(and missing). All counting uses classes, so wide columns are cheap if they are compared with
constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushtable.arrays import Integers
from hushtable.errors import TooLarge
from hushtable.query.where.formula import AtomTest, Formula, evaluate, literals, shorten
from hushtable.schema.recoding import Intervals, Recoding

# Sets of codes of a column that may overlap, such as those of published regions.


@dataclass(frozen=True)
class CodeSets:
    """Sets of codes of one column, each made of ranges of consecutive codes."""

    size: int  # number of sets
    owner: Integers  # set of each range
    first: Integers  # first code of each range; ranges of a set do not overlap
    last: Integers  # last code of each range

    @classmethod
    def of(cls, coarser: Recoding | CodeSets) -> CodeSets:
        """Return the codes behind each new code of a recoding."""
        if isinstance(coarser, CodeSets):
            return coarser
        if isinstance(coarser, Intervals):
            last = np.cumsum(coarser.widths) - 1
            return cls(coarser.size, np.arange(coarser.size), last + 1 - coarser.widths, last)
        codes = np.arange(coarser.n_values + coarser.n_special)
        return cls(coarser.size, coarser.apply(codes), codes, codes)

    def overlaps(self, starts: Integers, labels: Integers) -> Integers:
        """Count the codes that each set shares with each class of codes.

        `starts` is the first code of each run of codes of one class, ascending from 0; `labels` the
        class of each run.

        Examples
        --------
        >>> sets = CodeSets(2, np.array([0, 1, 1]), np.array([0, 2, 8]), np.array([4, 5, 9]))
        >>> sets.overlaps(np.array([0, 3, 9]), np.array([0, 1, 0])).tolist()
        [[3, 2], [2, 4]]
        """
        n_classes = int(labels.max()) + 1
        until = np.zeros((len(starts), n_classes), np.int64)
        until[np.arange(1, len(starts)), labels[:-1]] = np.diff(starts)
        until = np.cumsum(until, axis=0)

        def below(codes: Integers) -> Integers:
            run = np.searchsorted(starts, codes, side="right") - 1
            counts = until[run]
            counts[np.arange(len(codes)), labels[run]] += codes - starts[run]
            return counts

        shared = np.zeros((self.size, n_classes), np.int64)
        np.add.at(shared, self.owner, below(self.last + 1) - below(self.first))
        return shared


MAX_CODES = 5_000_000  # limit of a column whose codes are evaluated one by one


@dataclass(frozen=True)
class CodeClasses:
    """Class of each code of a column."""

    size: int  # number of codes of the column, including special values and missing
    # First code of each run of codes of one class, ascending from 0; special values and missing
    # are runs of their own.
    starts: Integers
    labels: Integers  # class of each run, numbered from 0 without gaps

    @cached_property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @cached_property
    def representatives(self) -> Integers:
        """One code of each class."""
        codes = np.empty(self.n_classes, np.int64)
        codes[self.labels] = self.starts
        return codes

    @cached_property
    def sizes(self) -> Integers:
        """Number of codes in each class."""
        sizes = np.zeros(self.n_classes, np.int64)
        np.add.at(sizes, self.labels, np.diff(self.starts, append=self.size))
        return sizes

    def of(self, codes: Integers) -> Integers:
        """Return the class of each code."""
        return self.labels[np.searchsorted(self.starts, codes, side="right") - 1]

    def overlaps(self, recoding: Recoding | CodeSets) -> Integers:
        """Count the codes that each new code of a recoding shares with each class."""
        return CodeSets.of(recoding).overlaps(self.starts, self.labels)


def classify(formula: Formula, column: str, size: int, n_values: int) -> CodeClasses:
    """Group the codes of a column by the parts of the formula that use only this column.

    Codes from `n_values` on are special values and missing. If an atom combines the column with
    others, each code is its own class.
    """
    pieces = list(_pieces(formula, column))
    changes = [_cuts(piece) for piece in pieces]
    if None not in changes:
        cuts = {cut for found in changes for cut in found or () if 0 < cut < size}
        cuts |= set(range(n_values, size))
        starts = np.asarray(sorted(cuts | {0}), np.int64)
    elif size <= MAX_CODES:
        starts = np.arange(size)
    else:
        every_code = pieces[changes.index(None)]
        culprit = next(part for part in literals(every_code) if _cuts(part) is None)
        raise TooLarge(
            f"{shorten(culprit.text)!r} needs each of the {size:,} codes of column {column!r}; the "
            f"limit is {MAX_CODES:,}. Compare the column with constants, or give it a coarser "
            "step."
        )
    labels = np.zeros(len(starts), np.int64)
    for piece in pieces:
        if len(piece.columns) > 1:
            labels = np.arange(len(starts))
            break
        truth = np.broadcast_to(evaluate(piece, {column: starts}), starts.shape)
        labels = 2 * labels + truth
        used = np.zeros(int(labels.max()) + 1, np.int64)
        used[labels] = 1
        labels = (np.cumsum(used) - 1)[labels]
    return CodeClasses(size, starts, labels)


def _pieces(formula: Formula, column: str) -> Iterator[Formula]:
    """Yield the largest parts on this column alone, and literals that combine it with others."""
    if formula.columns == (column,):
        yield formula
    elif isinstance(formula, AtomTest):
        if column in formula.columns:
            yield formula
    else:
        for part in formula.parts:
            yield from _pieces(part, column)


def _cuts(piece: Formula) -> set[int] | None:
    """Return codes at which a part may change; None if it may change at every code."""
    if len(piece.columns) > 1:
        return None
    cuts = [literal.atom.cuts() for literal in literals(piece)]
    return None if None in cuts else set().union(*(cut for cut in cuts if cut is not None))
