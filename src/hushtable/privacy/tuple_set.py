"""The distinct tuples of the private table: which are kept, which others join, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError, Refused
from hushtable.privacy.bounded_adversary import Ratios
from hushtable.privacy.cell_counts import CellMechanism
from hushtable.privacy.insertions import SourceInsertions, UniformInsertions
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.sparse_subset import Keys
from hushtable.privacy.spending import Price, Sensitivity

Law = UniformInsertions | SourceInsertions


@dataclass(frozen=True)
class KeptTuples(CellMechanism):
    """Keep tuples of the table by their coins, and insert others of the domain.

    A row adds one copy to one tuple, and of a copy can be told what its ratios say.
    """

    law: Law

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the loss of one copy of a tuple for each row."""
        return Price.pure(sensitivity.l1 * self.law.ratios.per_copy(self.law.copies).epsilon)

    def inserted(self, noise: Noise) -> Keys:
        """Draw the tuples to insert, from the whole domain."""
        return self.law.insert(noise)

    def draw_some(self, exact: Any, noise: Noise) -> NDArray[np.int64]:
        """Give the codes of tuples of the table that are kept, and of all that were inserted."""
        held = exact.counts > 0
        shown = ~held
        shown[held] = self.law.keep(exact.codes[held], exact.counts[held], noise)
        return np.asarray(exact.codes[shown])


@dataclass
class Past:
    """What is remembered: the tuples of the table so far, and each view published."""

    seen: Keys
    views: list[Keys] = field(default_factory=list)


@dataclass(frozen=True)
class TupleSet:
    """The distinct tuples of the private table, by their keys, in order."""

    domain: Domain
    keys: Keys

    def perturbed(self, law: Law, noise: Noise) -> Keys:
        """Keep tuples of the table by their coins, insert others of the domain."""
        once = np.ones(len(self.keys), np.int64)
        kept = self.keys[law.keep(self.domain.unpack(self.keys), once, noise)]
        inserted = law.insert(noise)
        return merged(kept, inserted[~is_among(inserted, self.keys)])

    def seen_again(self, earlier: Sequence[Keys], law: Law, views: int, noise: Noise) -> Keys:
        """Draw the next view by the paper's Algorithm 4."""
        if isinstance(law, SourceInsertions):
            raise ParameterError("algorithm-4 has no noise from a source distribution.")
        keep = law.alpha + law.beta
        before: Keys = np.empty((0, self.keys.shape[1]), np.int64)
        for view in earlier:
            before = merged(before, view[~is_among(view, before)])
        known = before[~is_among(before, self.keys)]
        again = noise.bernoulli(keep, size=len(known)) & noise.bernoulli_exp(
            Fraction(1, views), size=len(known)
        )
        rate = UniformInsertions(self.domain, law.alpha, (1 - keep) ** len(earlier) * law.beta)
        fresh = rate.insert(noise)
        fresh = fresh[~is_among(fresh, self.keys)]
        fresh = fresh[~is_among(fresh, before)]
        kept = self.keys[noise.bernoulli(keep, size=len(self.keys))]
        return merged(kept, known[again], fresh)


@dataclass(frozen=True)
class NextView(Mechanism):
    """Add the next view to those published before, and remember what it has seen.

    The price is that of all views together: a tuple is never given a second chance (``memoized``),
    or repeated views of a table that does not change tell what `Ratios.of_repeated_views` says.

    Parameters
    ----------
    law : UniformInsertions or SourceInsertions
        How tuples are kept and inserted.
    past : Past
        What was published and seen before; it is changed.
    views : int
        How many there will be in all.
    repeats : bool
        Whether every view shows the whole table again, by Algorithm 4.
    """

    law: Law
    past: Past = field(repr=False)  # private, and no part of how noisy a view is
    views: int
    repeats: bool

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the loss of one tuple in all views, for each row."""
        if self.repeats:
            if isinstance(self.law, SourceInsertions):
                raise ParameterError("algorithm-4 has no noise from a source distribution.")
            keep = self.law.alpha + self.law.beta
            ratios = Ratios.of_repeated_views(keep=keep, insert=self.law.beta, views=self.views)
            return Price.pure(sensitivity.l1 * ratios.epsilon)
        # A row may decide in which of the views its tuple is taken for new.
        return Price.pure(sensitivity.l1 * self.law.ratios.epsilon_of_exchange)

    def draw(self, exact: Any, noise: Noise) -> list[Keys]:
        """Give all views, the new one last."""
        past = self.past
        table = TupleSet(exact.domain, exact.domain.pack(exact.codes))
        if not self.repeats:
            fresh = TupleSet(table.domain, table.keys[~is_among(table.keys, past.seen)])
            past.views.append(fresh.perturbed(self.law, noise))
            past.seen = merged(past.seen, fresh.keys)
            return list(past.views)
        if past.views and not np.array_equal(past.seen, table.keys):
            raise Refused(
                "the table has changed since the first view, and algorithm-4 keeps its promise "
                "only for a table that does not. Use view_rule memoized from the first view on."
            )
        past.seen = table.keys
        past.views.append(table.seen_again(past.views, self.law, self.views, noise))
        return list(past.views)


def is_among(keys: Keys, others: Keys) -> NDArray[np.bool_]:
    """Tell which keys are among others; both in order and without repetition.

    Examples
    --------
    >>> is_among(np.array([[1], [5], [7]]), np.array([[5], [6]])).tolist()
    [False, True, False]
    """
    if not len(keys) or not len(others):
        return np.zeros(len(keys), np.bool_)
    if keys.shape[1] == 1:
        place = np.searchsorted(others[:, 0], keys[:, 0])
        return np.asarray(others[np.minimum(place, len(others) - 1), 0] == keys[:, 0])
    both = np.concatenate((others, keys))
    order = np.lexsort(both.T[::-1])  # stable: an equal one of `others` comes first
    same = np.r_[False, (both[order][1:] == both[order][:-1]).all(axis=1)]
    found = np.zeros(len(both), np.bool_)
    found[order] = same
    return found[len(others) :]


def merged(*parts: Keys) -> Keys:
    """Join disjoint sets of keys into one, in order."""
    keys = np.concatenate(parts)
    return keys[np.lexsort(keys.T[::-1])]
