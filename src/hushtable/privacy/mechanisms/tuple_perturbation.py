"""Insertion of random tuples of the domain: uniformly, or by a public source distribution.

`UniformInsertions` and `SourceInsertions` have the same interface: the probability that a tuple is
inserted, sampling of insertions, and the probability that a tuple of the table is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError, TooLarge
from hushtable.privacy.bounded_adversary import Adversary, Ratios
from hushtable.privacy.noise.bounded_coins import bernoulli_indices, power_bounds
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sparse_subset import Keys, sparse_subset
from hushtable.privacy.rational import as_rational

MAX_CLASSES = 5_000
"""Largest number of different source probabilities; the promise is checked for each."""

_BITS = 192

_ANY = Fraction(1)  # placeholder for the number of tuples, which the ratios do not depend on


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

    def keep(
        self, codes: NDArray[np.int64], counts: NDArray[np.int64], noise: Noise
    ) -> NDArray[np.bool_]:
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

    Parameters
    ----------
    domain : Domain
        The tuples.
    weights : tuple of tuple of int
        For each column the weight of each code, at least 1.
    alpha : Fraction
        A tuple in at least `copies` rows is kept with probability alpha + beta(t).
    hit : Fraction
        The probability of a lot.
    copies : int
        A tuple in fewer rows than this gets the share rows / copies of alpha.
    """

    domain: Domain
    weights: tuple[tuple[int, ...], ...]
    alpha: Fraction
    hit: Fraction
    copies: int = 1

    @cached_property
    def lots(self) -> Domain:
        """Lots, as a product domain over columns."""
        totals = map(sum, self.weights)
        return Domain(dict(zip(self.domain.names, totals, strict=True)))

    @property
    def ratios(self) -> Ratios:
        """Bounds of the likelihood ratios of one view of any tuple."""
        each = [ratios for _, ratios in SourcePrior(self.domain, self.weights, _ANY).ratios(self)]
        return Ratios(low=min(r.low for r in each), high=max(r.high for r in each))

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

    def keep(
        self, codes: NDArray[np.int64], counts: NDArray[np.int64], noise: Noise
    ) -> NDArray[np.bool_]:
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

    Parameters
    ----------
    domain : Domain
        The tuples.
    weights : tuple of tuple of int
        For each column the weight of each code, at least 1.
    expected_tuples : Fraction
        The public number of tuples, times the prior factor.
    """

    domain: Domain
    weights: tuple[tuple[int, ...], ...]
    expected_tuples: Fraction

    @cached_property
    def classes(self) -> list[int]:
        """Distinct weights of tuples, increasing."""
        products = {1}
        for column in self.weights:
            products = {w * product for w in set(column) for product in products}
            if len(products) > MAX_CLASSES:
                raise TooLarge(
                    f"source: tuples have more than {MAX_CLASSES:,} different probabilities, and "
                    "the promise is checked for each. Use fewer different weights, such as powers "
                    "of two."
                )
        return sorted(products)

    def prior(self, weight: int) -> Fraction:
        """Return the largest prior of a tuple of this weight."""
        return self.expected_tuples * weight / math.prod(map(sum, self.weights))

    def ratios(self, noise: SourceInsertions) -> Iterator[tuple[int, Ratios]]:
        """Yield each weight with bounds of its likelihood ratios."""
        for weight in self.classes:
            low, high = noise.beta_bounds(weight)
            if low <= 0:
                raise ParameterError(
                    "source: the rarest tuples would be inserted with a probability that is "
                    "practically 0, so an observer could be certain that a published one is real. "
                    "Use a more even source."
                )
            yield (
                weight,
                Ratios(low=1 - noise.alpha / (1 - high), high=1 + noise.alpha / low),
            )

    def keeps(self, noise: SourceInsertions, gamma: Fraction, adversary: Adversary) -> bool:
        """Decide the promise for every weight, in exact arithmetic."""
        each = dict(self.ratios(noise))
        # For an exclusive observer, the other tuples of a group may have any class's lowest ratio.
        least = min(ratios.low for ratios in each.values())
        return all(
            Ratios(low=least, high=ratios.high).posterior(self.prior(weight), adversary) <= gamma
            and ratios.low * gamma >= self.prior(weight)
            for weight, ratios in each.items()
        )

    def solve(self, gamma: Fraction, adversary: Adversary) -> SourceInsertions:
        """Find the least noise that keeps the promise, to three digits, rounded up."""
        most = self.prior(self.classes[-1])
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
        low = hit / 2
        for _ in range(8):
            middle = (low + hit) / 2
            low, hit = (low, middle) if holds(middle) else (middle, hit)
        return self._noise(hit)

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
        rarest, likeliest = self.classes[0], self.classes[-1]
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
        """Keep the most likely tuples with probability 1/2; the others slightly less often."""
        trial = SourceInsertions(self.domain, self.weights, alpha=Fraction(0), hit=hit)
        _, largest = trial.beta_bounds(self.classes[-1])
        alpha = Fraction(math.floor((Fraction(1, 2) - largest) * 2**40), 2**40)
        return SourceInsertions(self.domain, self.weights, alpha=alpha, hit=hit)


def _by_share_of_alpha(
    counts: NDArray[np.int64], copies: int
) -> Iterator[tuple[Fraction, NDArray[np.int64]]]:
    """Yield groups of tuples with the same share of alpha, and that share."""
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
    if problems:
        raise ParameterError(problems)
    return weights
