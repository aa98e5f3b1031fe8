"""Noise for every cell of a domain, including empty ones, without enumerating it.

Every cell gets its own discrete Laplace noise; omitting the noise of empty cells would reveal that
they are empty. Up to a limit on the size of the domain, all noisy counts are published. In a larger
domain, only counts that reach a threshold are published. The threshold follows from public numbers,
so omitting the other cells is post-processing of the full noisy table. The empty cells that reach
the threshold, and their counts, are sampled from exactly the distribution that enumerating all of
them would give, in time proportional to their number, not to the size of the domain.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Integers
from hushtable.domain import Domain
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.accounting.sealed import SealedCounts, SealedValue, unseal
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.composition import optimal_delta
from hushtable.privacy.mechanisms.mechanism import Mechanism, add_noise
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.noise.distributions import (
    FractionBounds,
    laplace_tail_bounds,
    laplace_variance,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import MAX_SCALE
from hushtable.privacy.noise.sparse_subset import BoundsFunction, Keys, is_below
from hushtable.privacy.rational import exp_bounds

_INT64 = 2**63


@dataclass(frozen=True)
class NoisyCells:
    """Published cells in the order of the domain: codes and raw noisy counts."""

    codes: Integers
    noisy: Integers


@dataclass(frozen=True, kw_only=True)
class DomainMechanism(Mechanism):
    """Discrete Laplace noise of scale 1/rate on all cells of a domain.

    Parameters
    ----------
    domain : Domain
        All cells, occupied or not.
    rate : Fraction
        Epsilon per row: one added row changes the probability of any outcome by at most e**rate.
    max_cells : int
        Publish all cells of a domain up to this size. In a larger one, publish the cells that
        reach a threshold. At most about this many empty cells are expected to reach it.

    Examples
    --------
    >>> DomainMechanism(domain=Domain({"x": 10}), rate=Fraction(1), max_cells=100).threshold is None
    True
    >>> huge = Domain({f"x{i}": 10 for i in range(30)})
    >>> DomainMechanism(domain=huge, rate=Fraction(1), max_cells=1000).threshold
    62
    """

    domain: Domain
    rate: Fraction
    max_cells: int

    @property
    def threshold(self) -> int | None:
        """Smallest noisy count that is published; None if all are. Public."""
        if self.domain.size <= self.max_cells:
            return None
        # N e**(-rate t) / (1 + e**-rate) <= max_cells. Floats suffice: any public number is valid.
        excess = math.log(self.domain.size) - math.log(self.max_cells)
        rate = float(self.rate)
        return max(1, math.ceil((excess - math.log1p(math.exp(-rate))) / rate))

    @property
    def variance(self) -> float:
        """Variance of the noise of one cell."""
        return float(laplace_variance(float(1 / self.rate)))

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return l1 times the rate: every cell of the domain has noise, occupied or not."""
        return PrivacyCost.pure(sensitivity.l1 * self.rate)

    def draw(self, exact: Any, noise: Noise) -> NoisyCells:
        """Draw the published cells, given the occupied ones."""
        if exact.domain.shape != self.domain.shape:
            raise SealedError("the mechanism and the cells have different domains.")
        return self.add(exact.codes, exact.counts, noise)

    def add(self, codes: Integers, counts: Integers, noise: Noise) -> NoisyCells:
        """Add noise to all cells, given the occupied ones in the order of the domain."""
        scale = 1 / self.rate
        if self.threshold is None:
            full = np.zeros(self.domain.size, np.int64)
            full[self.domain.pack(codes)[:, 0]] = counts
            drawn = noise.discrete_laplace(scale, size=len(full))
            return NoisyCells(self.domain.grid(), add_noise(full, drawn))
        noisy = add_noise(counts, noise.discrete_laplace(scale, size=len(counts)))
        occupied = self._ranks(codes)
        absent = indices_above_threshold(
            self.domain.size - len(occupied), rate=self.rate, threshold=self.threshold, noise=noise
        )
        # Z given Z >= threshold >= 1 is the threshold plus a geometric number.
        excess = noise.geometric(self.rate, size=len(absent))
        shown = noisy >= self.threshold
        places = np.array(absent, occupied.dtype)
        # Convert positions among empty cells to ranks by adding the occupied cells before them.
        before = np.searchsorted(occupied - np.arange(len(occupied)), places, side="right")
        ranks = np.concatenate((occupied[shown], places + before))
        values = np.concatenate((noisy[shown], self.threshold + excess))
        order = np.argsort(ranks)
        return NoisyCells(self._codes(ranks[order]), values[order])

    @property
    def spurious(self) -> float:
        """Expected sum of the published noisy counts if all cells were empty. Public."""
        if self.threshold is None:
            return 0.0
        fall = math.exp(-float(self.rate))
        # The sum of z P(Z = z) over z >= t, in logarithms: the domain may exceed a float.
        log_share = -float(self.rate) * self.threshold - math.log1p(fall)
        log_cells = math.log(self.domain.size)
        return math.exp(log_cells + log_share) * (self.threshold + fall / (1 - fall))

    def total_of(self, cells: NoisyCells) -> int:
        """Estimate the number of rows from the published cells."""
        return max(0, round(int(cells.noisy.sum()) - self.spurious))

    def _ranks(self, codes: Integers) -> NDArray[Any]:
        """Return the ranks of cells, as Python integers if the domain is too large for int64."""
        keys = self.domain.pack(codes)
        ranks = keys[:, 0].astype(np.int64 if self.domain.size < _INT64 else object)
        for limb, size in enumerate(self._limb_sizes[1:], start=1):
            ranks = ranks * size + keys[:, limb]
        return ranks

    def _codes(self, ranks: NDArray[Any]) -> Integers:
        keys = np.zeros((len(ranks), len(self._limb_sizes)), np.int64)
        for limb, size in reversed(list(enumerate(self._limb_sizes))):
            keys[:, limb] = ranks % size if limb else ranks
            ranks = ranks // size
        return self.domain.unpack(keys)

    @property
    def _limb_sizes(self) -> list[int]:
        return [math.prod(self.domain.shape[run]) for run in self.domain.limbs]


def indices_above_threshold(n: int, *, rate: Fraction, threshold: int, noise: Noise) -> list[int]:
    """Sample which of n discrete Laplace numbers of scale 1/rate reach a threshold >= 1.

    Each of 0, ..., n-1 is kept independently with probability p = e**(-rate threshold) / (1 +
    e**-rate), for n of any size. With a rational x such that q = 1 - e**-x is slightly above p, the
    gaps between successes of probability q are geometric; each success is kept with probability
    p/q.

    Examples
    --------
    >>> from hushtable.privacy.noise.sources import SecureNoise
    >>> indices_above_threshold(10, rate=Fraction(1), threshold=60, noise=SecureNoise())
    []
    """
    high = laplace_tail_bounds(rate, threshold, 64)[1]
    # e**-x <= 1/(1 + x) gives q >= x/(1 + x), which is at least p for x = p/(1 - p), rounded up.
    x = _rounded_up(high / (1 - high))

    def kept(bits: int) -> FractionBounds:
        low, high = laplace_tail_bounds(rate, threshold, bits)
        fall_low, fall_high = exp_bounds(-x, bits + x.denominator.bit_length())
        return low / (1 - fall_low), min(Fraction(1), high / (1 - fall_high))

    found: list[int] = []
    position = -1
    while position < n:
        expected = int((n - position) * min(x, Fraction(1))) + 1
        leaps = _geometric(x, size=expected + 4 * math.isqrt(expected) + 16, noise=noise)
        ends = itertools.accumulate((leap + 1 for leap in leaps), initial=position)
        tried = list(ends)[1:]
        position = tried[-1]
        tried = tried[: bisect_right(tried, n - 1)]
        found += itertools.compress(tried, bernoulli_bounded(kept, size=len(tried), noise=noise))
    return found


def bernoulli_bounded(
    bounds: BoundsFunction, *, size: int, noise: Noise, bits: int = 128
) -> list[bool]:
    """Draw Bernoulli variables whose probability is a real number with arbitrarily close bounds.

    A uniform number is compared with the lower bound. Closer bounds are computed only if it is
    between the bounds, which has a probability of about 2**-bits.

    Examples
    --------
    >>> from hushtable.privacy.noise.sources import SecureNoise
    >>> bernoulli_bounded(lambda bits: (Fraction(1), Fraction(1)), size=2, noise=SecureNoise())
    [True, True]
    """
    low, high = bounds(bits)
    heads = noise.bernoulli(low, size=size)
    undecided = np.flatnonzero(~heads)
    if low < high:
        between = noise.bernoulli((high - low) / (1 - low), size=len(undecided))
        for at in undecided[between]:
            heads[at] = is_below(noise, bounds, low, high, bits)
    decided: list[bool] = heads.tolist()
    return decided


def _geometric(x: Fraction, *, size: int, noise: Noise) -> list[int]:
    """Draw geometric numbers for a rate of any size, however small.

    With B such that x B is about 1, a geometric number is B times a geometric number of rate x B,
    plus an independent number g below B with probability proportional to e**(-x g).
    """
    if x * MAX_SCALE >= 1:
        drawn: list[int] = noise.geometric(x, size=size).tolist()
        return drawn
    block = 1 << ((1 / x).__floor__().bit_length() - 1)
    wholes = noise.geometric(x * block, size=size).tolist()
    rests: list[int] = []
    while len(rests) < size:
        tries = [noise.integer_below(block) for _ in range(size - len(rests))]
        numerators = np.array([g * x.numerator for g in tries], object)
        accepted = noise.bernoulli_exp_each(numerators, denominator=x.denominator)
        rests += itertools.compress(tries, accepted.tolist())
    return [whole * block + rest for whole, rest in zip(wholes, rests, strict=True)]


def _rounded_up(x: Fraction, digits: int = 24) -> Fraction:
    """Round up to a dyadic fraction of few digits, which samplers process fastest."""
    shift = max(0, digits - (x.numerator.bit_length() - x.denominator.bit_length()))
    return Fraction(-(-(x.numerator << shift) // x.denominator), 1 << shift)


# Publication of occupied cells with noisy counts.


class CellMechanism(Mechanism):
    """Mechanism that publishes occupied cells; the engine may apply it to some cells at a time.

    Its draw for a cell must therefore depend on that cell alone.
    """

    @abstractmethod
    def draw_some(self, exact: Any, noise: Noise) -> Any:
        """Draw the published part of some of the enumerated cells."""

    def draw(self, exact: Any, noise: Noise) -> Any:
        """Draw the published part of occupied cells; refuse if empty cells are enumerated too."""
        if self.whole_domain or type(self).inserted is not CellMechanism.inserted:
            raise SealedError(
                "this mechanism also enumerates empty cells; use publish_cells instead of "
                "noise.open."
            )
        return self.draw_some(exact, noise)

    @property
    def whole_domain(self) -> bool:
        """True if empty cells must be enumerated too."""
        return False

    def inserted(self, noise: Noise) -> Keys | None:
        """Draw cells to enumerate besides the occupied ones, independently of these; or None."""
        return None


@dataclass(frozen=True)
class CellCounts(CellMechanism):
    """Publication of cells through a mechanism for single counts.

    If the mechanism may publish an empty cell, it enumerates the whole domain and publishes all
    cells; otherwise only occupied cells can be published.
    """

    count: CountMechanism  # applied to each count

    @property
    def whole_domain(self) -> bool:
        """True if empty cells must be enumerated too."""
        return self.count.shows_absent

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of the counts; which cells are published is a function of them."""
        return self.count.cost(sensitivity)

    def draw_some(self, exact: Any, noise: Noise) -> NoisyCells:
        """Draw the published counts of some cells and omit suppressed ones."""
        noisy = self.count.noisy(exact.counts, noise)
        shown = np.ones(len(noisy), np.bool_) if self.whole_domain else noisy > 0
        # Cells stay in the order of their codes, which reveals nothing beyond their presence.
        return NoisyCells(exact.only(shown).codes, noisy[shown])


# Publication of tuples with noisy counts, where a record has one tuple in several groups.


class CommonTuples(NamedTuple):
    """Occupied tuples (`hushtable.engine.baskets.Tuples`) that occur in enough records."""

    tuples: Any
    at_least: int  # smallest number of records


class SealedTuples(SealedValue):
    """Sealed occupied tuples; which tuples are occupied, and how many, is private."""

    __slots__ = ()

    @classmethod
    def of(
        cls, tuples: Any, sensitivity: Sensitivity, part: DataPart, *, at_least: int
    ) -> SealedTuples:
        """Seal tuples; those of fewer than `at_least` records were omitted."""
        return cls(CommonTuples(tuples, at_least), sensitivity, part)

    @property
    def n_records(self) -> SealedCounts:
        """Number of records, as one count."""
        counts = np.array([unseal(self).tuples.n_records], np.int64)
        return SealedCounts(counts, Sensitivity(rows=self.sensitivity.rows), self.part)


@dataclass(frozen=True)
class TupleCounts(Mechanism):
    """Publication of tuples through a mechanism for single counts.

    A record changes one count in each of n groups, so n mechanisms are composed. Their cost is a
    point of the optimal composition theorem (Kairouz, Oh and Viswanath 2015); see
    `hushtable.privacy.composition.shares_of`.

    Parameters
    ----------
    count : CountMechanism
        Applied to each count. It must not publish absent tuples, or tuples that were omitted as
        rare.
    spared : int
        The i of the theorem: epsilon is that of n - 2 i mechanisms, at the price of a larger delta.
    """

    count: CountMechanism
    spared: int = 0

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of n mechanisms together."""
        if sensitivity.rows != 1 or sensitivity.step != 1:
            raise SealedError("tuples are charged per record; use a promise per row.")
        n, each = sensitivity.cells, self.count.epsilon
        delta: Fraction = getattr(self.count, "delta", Fraction(0))
        used = optimal_delta(each, n, self.spared) if self.spared else Fraction(0)
        # 1 - (1 - delta)**n <= n delta
        return PrivacyCost((n - 2 * self.spared) * each, used + n * delta * (1 - used))

    def draw(self, exact: CommonTuples, noise: Noise) -> tuple[Any, Integers]:
        """Return the published tuples and their counts."""
        if self.count.release_probability(exact.at_least - 1) > 0:
            raise SealedError(
                f"tuples of fewer than {exact.at_least} records were omitted, but this mechanism "
                "would publish some of them."
            )
        noisy = self.count.noisy(exact.tuples.counts, noise)
        shown = noisy > 0
        # Exact counts are dropped; the noisy counts decide which tuples are published.
        return replace(exact.tuples.take(shown), counts=noisy[shown], n_records=0), noisy[shown]
