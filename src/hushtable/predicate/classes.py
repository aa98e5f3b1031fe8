"""Group the codes of a column that a formula cannot tell apart.

A clause asks little of most columns: ``income >= 50000`` splits two billion codes into two
classes (and missing). Everything that is counted is counted over classes, so wide columns cost
nothing as long as they are compared with constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import TooLarge
from hushtable.predicate.covering import Covering
from hushtable.predicate.formula import Formula, Literal, evaluate, literals, shorten
from hushtable.recoding import Intervals, Recoding

Integers = NDArray[np.int64]

MAX_CODES = 5_000_000  # codes of one column that are looked at one by one


@dataclass(frozen=True)
class Classes:
    """Say to which class each code of a column belongs.

    Parameters
    ----------
    size : int
        Number of codes of the column, those apart included.
    starts : array
        First code of each run of codes of one class, rising from 0; a code apart is its own run.
    labels : array
        Class of each run; classes are numbered from 0 without gaps.
    """

    size: int
    starts: Integers
    labels: Integers

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
        """Give the class of each code."""
        return self.labels[np.searchsorted(self.starts, codes, side="right") - 1]

    def overlaps(self, recoding: Recoding | Covering) -> Integers:
        """Count the codes that a new code of a recoding shares with each class."""
        if isinstance(recoding, Covering):
            return recoding.overlaps(self.starts, self.labels)
        if isinstance(recoding, Intervals):
            cuts = np.asarray(recoding.starts)
        else:
            cuts = np.arange(self.size)
        starts = np.union1d(self.starts, cuts)  # what is apart starts runs of its own already
        shared = np.zeros((recoding.size, self.n_classes), np.int64)
        cells = recoding.apply(starts), self.of(starts)
        np.add.at(shared, cells, np.diff(starts, append=self.size))
        return shared


def classify(formula: Formula, column: str, size: int, n_values: int) -> Classes:
    """Group the codes of a column by what the formula's parts over that column alone say.

    The codes from `n_values` on are apart: special values, and missing.
    Where the column stands in an atom with other columns, each code is its own class.
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
            f"{shorten(culprit.text)!r} needs each of the {size:,} codes of column {column!r}, and "
            f"the limit is {MAX_CODES:,}; compare the column with constants, or give it a coarser "
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
    return Classes(size, starts, labels)


def _pieces(formula: Formula, column: str) -> Iterator[Formula]:
    """Find the largest parts over the column alone, and the literals that tie it to others."""
    if formula.columns == (column,):
        yield formula
    elif isinstance(formula, Literal):
        if column in formula.columns:
            yield formula
    else:
        for part in formula.parts:
            yield from _pieces(part, column)


def _cuts(piece: Formula) -> set[int] | None:
    """List codes at which a piece may change; None if it may at any."""
    if len(piece.columns) > 1:
        return None
    cuts = [literal.atom.cuts() for literal in literals(piece)]
    return None if None in cuts else set().union(*(cut for cut in cuts if cut is not None))
