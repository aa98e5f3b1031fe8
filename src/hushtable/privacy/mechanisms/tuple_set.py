"""Perturbation of the distinct tuples of a private table: retention and insertion, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError, Refused
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.bounded_adversary import Ratios
from hushtable.privacy.mechanisms.cell_counts import CellMechanism
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.mechanisms.tuple_perturbation import SourceInsertions, UniformInsertions
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sparse_subset import Keys

Law = UniformInsertions | SourceInsertions


@dataclass(frozen=True)
class KeptTuples(CellMechanism):
    """Random retention of the table's tuples, and insertion of others from the domain.

    A row adds one copy to one tuple; the ratios of a copy bound the loss.
    """

    law: Law

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the loss of one copy of a tuple for each row."""
        return PrivacyCost.pure(sensitivity.l1 * self.law.ratios.per_copy(self.law.copies).epsilon)

    def inserted(self, noise: Noise) -> Keys:
        """Sample the tuples to insert, from the whole domain."""
        return self.law.insert(noise)

    def draw_some(self, exact: Any, noise: Noise) -> NDArray[np.int64]:
        """Return the codes of the table's tuples that are kept, and of all inserted ones."""
        held = exact.counts > 0
        shown = ~held
        shown[held] = self.law.keep(exact.codes[held], exact.counts[held], noise)
        return np.asarray(exact.codes[shown])


@dataclass
class ViewHistory:
    """State between views: the tuples of the table so far, and each published view."""

    seen: Keys
    views: list[Keys] = field(default_factory=list)


@dataclass(frozen=True)
class TupleSet:
    """Distinct tuples of the private table, by their sorted keys."""

    domain: Domain
    keys: Keys

    def perturbed(self, law: Law, noise: Noise) -> Keys:
        """Return the kept tuples of the table and the inserted ones."""
        once = np.ones(len(self.keys), np.int64)
        kept = self.keys[law.keep(self.domain.unpack(self.keys), once, noise)]
        inserted = law.insert(noise)
        return merged(kept, inserted[~is_among(inserted, self.keys)])

    def seen_again(self, earlier: Sequence[Keys], law: Law, views: int, noise: Noise) -> Keys:
        """Draw the next view by the paper's Algorithm 4."""
        if isinstance(law, SourceInsertions):
            raise ParameterError("algorithm-4 does not support a source distribution.")
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
    """Publication of the next view; updates the state between views.

    The cost covers all views together. With ``memoized``, a tuple is drawn only once. Otherwise the
    table must not change, and repeated views cost what `Ratios.of_repeated_views` implies.

    Parameters
    ----------
    law : UniformInsertions or SourceInsertions
        How tuples are kept and inserted.
    past : ViewHistory
        The state so far; it is modified.
    views : int
        The total number of views.
    repeats : bool
        Whether every view shows the whole table again, by Algorithm 4.
    """

    law: Law
    past: ViewHistory = field(repr=False)  # private, and not a parameter of the noise
    views: int
    repeats: bool

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the loss of one tuple in all views, for each row."""
        if self.repeats:
            if isinstance(self.law, SourceInsertions):
                raise ParameterError("algorithm-4 does not support a source distribution.")
            keep = self.law.alpha + self.law.beta
            ratios = Ratios.of_repeated_views(keep=keep, insert=self.law.beta, views=self.views)
            return PrivacyCost.pure(sensitivity.l1 * ratios.epsilon)
        # A row may determine in which view its tuple is new.
        return PrivacyCost.pure(sensitivity.l1 * self.law.ratios.epsilon_of_exchange)

    def draw(self, exact: Any, noise: Noise) -> list[Keys]:
        """Return all views, the new one last."""
        past = self.past
        table = TupleSet(exact.domain, exact.domain.pack(exact.codes))
        if not self.repeats:
            fresh = TupleSet(table.domain, table.keys[~is_among(table.keys, past.seen)])
            past.views.append(fresh.perturbed(self.law, noise))
            past.seen = merged(past.seen, fresh.keys)
            return list(past.views)
        if past.views and not np.array_equal(past.seen, table.keys):
            raise Refused(
                "the table has changed since the first view; algorithm-4 requires a table that "
                "does not change. Use view_rule memoized from the first view on."
            )
        past.seen = table.keys
        past.views.append(table.seen_again(past.views, self.law, self.views, noise))
        return list(past.views)


def is_among(keys: Keys, others: Keys) -> NDArray[np.bool_]:
    """Return which keys are among others; both must be sorted and without duplicates.

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
    order = np.lexsort(both.T[::-1])  # stable: an equal key of `others` comes first
    same = np.r_[False, (both[order][1:] == both[order][:-1]).all(axis=1)]
    found = np.zeros(len(both), np.bool_)
    found[order] = same
    return found[len(others) :]


def merged(*parts: Keys) -> Keys:
    """Join disjoint sets of keys into one sorted set."""
    keys = np.concatenate(parts)
    return keys[np.lexsort(keys.T[::-1])]
