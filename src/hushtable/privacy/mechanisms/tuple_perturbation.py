"""Insertion of random tuples of the domain: uniformly, or by a public source distribution.

`UniformInsertions` and `SourceInsertions` have the same interface: the probability that a tuple is
inserted, sampling of insertions, and the probability that a tuple of the table is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hushtable.arrays import Bools, Integers
from hushtable.domain import Domain
from hushtable.errors import ParameterError, Refused, SealedError, TooLarge
from hushtable.numeric import bisect
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.bounded_adversary import Adversary, Ratios
from hushtable.privacy.mechanisms.cells import CellMechanism
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sparse_subset import (
    Keys,
    bernoulli_indices,
    power_bounds,
    sparse_subset,
)
from hushtable.privacy.rational import as_rational, log_upper

MAX_CLASSES = 5_000
"""Largest number of different source probabilities; the promise is checked for each."""

_BITS = 192


@dataclass(frozen=True)
class UniformInsertions:
    """Insertion of every tuple with probability beta; tuples of the table are kept more often.

    A tuple of the table is kept with probability alpha + beta, or, if rows are counted, with
    beta + alpha min(rows, copies) / copies.
    """

    domain: Domain
    alpha: Fraction
    beta: Fraction
    copies: int = 1

    @property
    def ratios(self) -> Ratios:
        """Bounds of the likelihood ratios of one view of a tuple."""
        return Ratios.of_one_view(keep=self.alpha + self.beta, insert=self.beta)

    @property
    def expected(self) -> float:
        """Expected number of insertions into an empty table."""
        return float(self.beta * self.domain.size)

    def insert(self, noise: Noise) -> Keys:
        """Sample the tuples to insert, from the whole domain."""
        return sparse_subset(self.domain, p=self.beta, noise=noise)

    def keep(self, codes: Integers, counts: Integers, noise: Noise) -> Bools:
        """Sample which tuples of the table are kept, given the number of rows of each."""
        kept = np.zeros(len(codes), np.bool_)
        for share, members in _by_share_of_alpha(counts, self.copies):
            kept[members] = noise.bernoulli(self.beta + self.alpha * share, size=len(members))
        return kept


@dataclass(frozen=True)
class SourceInsertions:
    """Insertion of tuples with probabilities that follow a public source distribution.

    Each tuple t owns w(t) = w_1(t_1) ... w_l(t_l) of W = W_1 ... W_l lots, where W_j is the sum of
    column j's weights. Each lot is drawn independently with probability `hit`, and a tuple is
    inserted if any of its lots is drawn. So tuples are inserted independently, with probability
    exactly beta(t) = 1 - (1 - hit)**w(t), close to hit * W * source(t).
    """

    domain: Domain
    weights: tuple[tuple[int, ...], ...]  # of the codes of each column, at least 1
    alpha: Fraction  # a tuple in at least `copies` rows is kept with probability alpha + beta(t)
    hit: Fraction  # probability of a lot
    copies: int = 1  # a tuple in fewer rows gets the share rows / copies of alpha

    @cached_property
    def lots(self) -> Domain:
        """Lots, as a product domain over columns."""
        totals = map(sum, self.weights)
        return Domain(dict(zip(self.domain.names, totals, strict=True)))

    @property
    def ratios(self) -> Ratios:
        """Bounds of the likelihood ratios of one view of any tuple."""
        each = self.ratios_by_weight.values()
        return Ratios(low=min(r.low for r in each), high=max(r.high for r in each))

    @cached_property
    def ratios_by_weight(self) -> dict[int, Ratios]:
        """Bounds of the likelihood ratios of tuples, by weight."""
        found = {}
        for weight in weight_classes(self.weights):
            low, high = self.beta_bounds(weight)
            if low <= 0:
                raise ParameterError(
                    "source: the rarest tuples would be inserted with a probability that is "
                    "practically 0, so an observer could be certain that a published one is real. "
                    "Use a more even source."
                )
            found[weight] = Ratios(low=1 - self.alpha / (1 - high), high=1 + self.alpha / low)
        return found

    @property
    def expected(self) -> float:
        """Expected number of lots drawn, slightly more than that of insertions."""
        return float(self.hit * self.lots.size)

    def beta_bounds(self, weight: int, bits: int = _BITS) -> tuple[Fraction, Fraction]:
        """Bound the probability with which a tuple of this weight is inserted."""
        low, high = power_bounds(1 - self.hit, weight, bits)
        return 1 - high, 1 - low

    def insert(self, noise: Noise) -> Keys:
        """Sample the tuples to insert, from the whole domain."""
        drawn = self.lots.unpack(sparse_subset(self.lots, p=self.hit, noise=noise))
        codes = np.empty_like(drawn)
        for position, weights in enumerate(self.weights):
            ends = np.cumsum(weights)
            codes[:, position] = np.searchsorted(ends, drawn[:, position], side="right")
        # Several lots of one tuple have equal keys: sort, and keep one of each.
        keys = self.domain.pack(codes)
        keys = keys[np.lexsort(keys.T[::-1])]
        return keys[np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)]] if len(keys) else keys

    def keep(self, codes: Integers, counts: Integers, noise: Noise) -> Bools:
        """Sample which tuples of the table are kept, given the number of rows of each."""
        weights = np.ones(len(codes), object)
        for position, column in enumerate(self.weights):
            weights *= np.array(column, object)[codes[:, position]]
        kept = np.zeros(len(codes), np.bool_)
        for weight in sorted(set(weights.tolist())):
            of_weight = np.flatnonzero(weights == weight)
            for share, some in _by_share_of_alpha(counts[of_weight], self.copies):
                members, more = of_weight[some], self.alpha * share

                def bounds(
                    bits: int, weight: int = weight, more: Fraction = more
                ) -> tuple[Fraction, Fraction]:
                    low, high = self.beta_bounds(weight, bits)
                    return more + low, min(Fraction(1), more + high)

                kept[members[bernoulli_indices(noise, len(members), bounds)]] = True
        return kept


@dataclass(frozen=True)
class SourcePrior:
    """Observers against whom noise from a source distribution protects.

    They assign a tuple a prior probability of at most d(t) = expected_tuples * source(t).
    """

    domain: Domain
    weights: tuple[tuple[int, ...], ...]  # of the codes of each column, at least 1
    expected_tuples: Fraction  # public number of tuples, times the prior factor

    def prior(self, weight: int) -> Fraction:
        """Return the largest prior of a tuple of this weight."""
        return self.expected_tuples * weight / math.prod(map(sum, self.weights))

    def keeps(self, noise: SourceInsertions, gamma: Fraction, adversary: Adversary) -> bool:
        """Return whether noise keeps the promise for tuples of every weight, decided exactly."""
        each = noise.ratios_by_weight
        # For an exclusive observer, the other tuples of a group may have any class's lowest ratio.
        least = min(ratios.low for ratios in each.values())
        return all(
            Ratios(low=least, high=ratios.high).posterior(self.prior(weight), adversary) <= gamma
            and ratios.low * gamma >= self.prior(weight)
            for weight, ratios in each.items()
        )

    def solve(self, gamma: Fraction, adversary: Adversary) -> SourceInsertions:
        """Find the least noise that keeps the promise; `hit` is at most 0.4% too large."""
        most = self.prior(weight_classes(self.weights)[-1])
        if most >= gamma:
            raise ParameterError(
                f"the most likely tuple has a prior of up to {float(most):.3g}, which is not below "
                f"gamma = {float(gamma):g}. Raise gamma, lower prior_factor or n_public, or use a "
                "more even source."
            )
        n_lots = math.prod(map(sum, self.weights))

        def holds(hit: Fraction) -> bool:
            noise = self._noise(hit)
            return noise.alpha > 0 and self.keeps(noise, gamma, adversary)

        hit = min(Fraction(1, 2), self.expected_tuples * (1 - gamma) / gamma / n_lots / 4)
        while not holds(hit):
            hit *= 2
            if hit >= 1 or self._noise(hit).alpha <= 0:
                raise ParameterError(
                    f"gamma = {float(gamma):g} cannot be kept with noise from this source. Raise "
                    "gamma, lower prior_factor or n_public, or use a more even source."
                )
        return self._noise(bisect(lambda hit: not holds(hit), hit / 2, hit, steps=8)[1])

    def with_rates(self, alpha: Fraction, beta: Fraction) -> SourceInsertions:
        """Return insertions that insert the rarest tuples with probability beta, others more often.

        The probability is slightly above beta if the required root is irrational.

        Examples
        --------
        >>> prior = SourcePrior(Domain({"a": 2}), ((1, 3),), Fraction(1))
        >>> noise = prior.with_rates(Fraction(1, 2), Fraction(1, 10))
        >>> noise.hit, round(float(noise.beta_bounds(3)[0]), 3)
        (Fraction(1, 10), 0.271)
        """
        classes = weight_classes(self.weights)
        rarest, likeliest = classes[0], classes[-1]
        low, hit = beta / rarest, beta  # 1 - (1 - h)**w is between h and w h
        while rarest > 1 and (hit - low) * 2**60 > low:
            middle = Fraction(math.ceil((low + hit) / 2 * 2**128), 2**128)
            trial = SourceInsertions(self.domain, self.weights, alpha=alpha, hit=middle)
            low, hit = (low, middle) if trial.beta_bounds(rarest)[0] >= beta else (middle, hit)
        noise = SourceInsertions(self.domain, self.weights, alpha=alpha, hit=hit)
        _, largest = noise.beta_bounds(likeliest)
        if alpha + largest >= 1:
            raise ParameterError(
                f"the most likely tuple would be inserted with probability {float(largest):.3g}; "
                f"added to alpha = {alpha} this is 1 or more, so a tuple that is not published "
                "would certainly not be in the table. Lower alpha or beta, or use a more even "
                "source."
            )
        return noise

    def _noise(self, hit: Fraction) -> SourceInsertions:
        """Return noise that keeps the likeliest tuples with probability 1/2, others less often."""
        trial = SourceInsertions(self.domain, self.weights, alpha=Fraction(0), hit=hit)
        _, largest = trial.beta_bounds(weight_classes(self.weights)[-1])
        alpha = Fraction(math.floor((Fraction(1, 2) - largest) * 2**40), 2**40)
        return SourceInsertions(self.domain, self.weights, alpha=alpha, hit=hit)


@lru_cache(maxsize=16)
def weight_classes(weights: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the distinct weights of tuples, increasing."""
    products = {1}
    for column in weights:
        products = {w * product for w in set(column) for product in products}
        if len(products) > MAX_CLASSES:
            raise TooLarge(
                f"source: tuples have more than {MAX_CLASSES:,} different probabilities, and the "
                "promise is checked for each. Use fewer different weights, such as powers of two."
            )
    return tuple(sorted(products))


def _by_share_of_alpha(counts: Integers, copies: int) -> Iterator[tuple[Fraction, Integers]]:
    """Yield each share of alpha, and the positions of the tuples with that share."""
    counted = np.minimum(counts, copies)
    for own in np.unique(counted).tolist():
        yield Fraction(own, copies), np.flatnonzero(counted == own)


def source_weights(domain: Domain, source: Mapping[str, list[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the weights of every column; a column that is not named is uniform."""
    return tuple(tuple(source.get(name, [1] * size)) for name, size in domain.sizes.items())


def whole_weights(name: str, given: object) -> dict[str, list[int]]:
    """Parse weights by column to integers without common divisor.

    Examples
    --------
    >>> whole_weights("source", {"sex": ["1/2", 1]})
    {'sex': [1, 2]}
    """
    if not isinstance(given, Mapping):
        raise ParameterError(f"{name} is {given!r}; it must map column names to lists of weights.")
    weights: dict[str, list[int]] = {}
    problems: list[str] = []
    for column, of_codes in given.items():
        about = f"{name}: column {column!r}"
        several = isinstance(of_codes, Sequence) and not isinstance(of_codes, str)
        listed = of_codes if several else [of_codes]
        try:
            exact = [as_rational(weight, name=about) for weight in listed]
        except ParameterError as error:
            problems += error.problems
            continue
        if min(exact, default=0) <= 0:
            problems.append(
                f"{about} has a weight that is not above 0; a tuple that is never inserted as "
                "noise would certainly be real if it is published."
            )
            continue
        scale = math.lcm(*(weight.denominator for weight in exact))
        whole = [int(weight * scale) for weight in exact]
        divisor = math.gcd(*whole)
        weights[str(column)] = [weight // divisor for weight in whole]
    ParameterError.raise_if_any(problems)
    return weights


# Independent retention or replacement of each row: local randomization.


@dataclass(frozen=True)
class RowReplacement(Mechanism):
    """Retention of rows with probability `retention`; others become uniform tuples of the domain.

    For any two rows, the probabilities of becoming the same tuple have a ratio of at most
    1 + g m / (1 - g). The number of rows is visible, so the neighbor relation must be replace.

    Parameters
    ----------
    retention : Fraction
        The g of the formula.
    n_tuples : int
        The m of the formula: the size of the domain.

    Examples
    --------
    >>> exchanged = Sensitivity(rows=2, exchanged=True)
    >>> round(float(RowReplacement(Fraction(1, 2), 9).cost(exchanged).epsilon), 3)
    2.303
    """

    retention: Fraction
    n_tuples: int

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the logarithm of the ratio for each row that is replaced."""
        if not sensitivity.exchanged:
            raise SealedError(
                "replacing rows one by one reveals how many there are; use the neighbor relation "
                "replace."
            )
        g = self.retention
        return PrivacyCost.pure(sensitivity.l1 // 2 * log_upper(1 + g * self.n_tuples / (1 - g)))

    def draw(self, exact: Any, noise: Noise) -> Integers:
        """Return the codes of all rows, sorted, because their order is private."""
        if self.n_tuples != exact.domain.size:
            raise SealedError(f"n_tuples is {self.n_tuples}; it must be the size of the domain.")
        codes = np.repeat(exact.codes, exact.counts, axis=0)
        replaced = np.flatnonzero(~noise.bernoulli(self.retention, size=len(codes)))
        for position, size in enumerate(exact.domain.shape):
            codes[replaced, position] = noise.uniform_below(size, size=len(replaced))
        return np.asarray(codes[np.lexsort(codes.T[::-1])])


# Perturbation of the distinct tuples of a private table: retention and insertion, view by view.

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

    def draw_some(self, exact: Any, noise: Noise) -> Integers:
        """Return the codes of the table's tuples that are kept, and of all inserted ones."""
        held = exact.counts > 0
        shown = ~held
        shown[held] = self.law.keep(exact.codes[held], exact.counts[held], noise)
        return np.asarray(exact.only(shown).codes)


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
        """Draw the next view by Algorithm 4 of Rastogi, Suciu and Hong (2007)."""
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

    The cost covers all views together. Without `repeats` (view rule ``memoized``), each tuple is
    drawn only once, in the first view of a table that contains it. With `repeats`, the table must
    not change, and the cost follows from `Ratios.of_repeated_views`.

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
        table = TupleSet(exact.domain, exact.keys)
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


def is_among(keys: Keys, others: Keys) -> Bools:
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
