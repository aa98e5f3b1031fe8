"""Mechanisms that publish the noisy count of one tuple, or suppress it.

Each of the three mechanisms is defined by a few exact numbers. It is sampled from these numbers,
and its privacy conditions are verified for them in rational arithmetic when it is created. The
proofs are in ``methods/counts/noisy_counts.md``, whose symbols are used here.

A published count of 0 means that the tuple is suppressed (`OneSidedGeometric`, `ThresholdMatrix`)
or that noise reduced its count to 0 or less (`TwoSidedGeometric`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.composition import delta_of_rows
from hushtable.privacy.mechanisms.mechanism import Mechanism, add_noise
from hushtable.privacy.noise.distributions import (
    FractionBounds,
    laplace_mass,
    laplace_tail,
    laplace_variance,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import MAX_SCALE
from hushtable.privacy.rational import bisect_exact, exp_bounds

BITS = 256
"""Precision in bits of the bounds of e**x that decide whether a mechanism is private."""

NEGLIGIBLE = 1e-18
"""`mass` omits outcomes less likely than this, relative to the probability of being published."""

MAX_OUTCOMES = 10_000_000
"""Largest number of outcomes that `mass` lists."""

Outcomes = tuple[Integers, Floats]
"""Published counts above 0, increasing, and their probabilities."""


class CountMechanism(Mechanism):
    """Mechanism that publishes the noisy count of one tuple; tuples are independent."""

    epsilon: Fraction

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of a unit by group privacy over all steps of size 1."""
        steps, delta = sensitivity.l1, getattr(self, "delta", Fraction(0))
        if not delta:
            return PrivacyCost.pure(steps * self.epsilon)
        return PrivacyCost(steps * self.epsilon, delta_of_rows(self.epsilon, delta, steps))

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        """Draw a published count for each private one."""
        return self.noisy(exact, noise)

    @property
    def shows_absent(self) -> bool:
        """True if an absent tuple may be published, so that the whole domain must be enumerated."""
        return self.release_probability(0) > 0

    @abstractmethod
    def verify(self) -> None:
        """Check the privacy conditions in exact arithmetic; raise `Refused` if one fails."""

    @abstractmethod
    def noisy(self, counts: Integers, noise: Noise) -> Integers:
        """Draw a published count for each private one."""

    @abstractmethod
    def release_probability(self, count: int) -> float:
        """Return the probability that a tuple with this count is published with a count above 0."""

    @abstractmethod
    def outcomes(self, count: int) -> Outcomes:
        """Return the possible published counts above 0 for a private count, with probabilities."""

    @property
    def bias(self) -> float:
        """Mean of published minus private count, for counts far above the threshold."""
        return 0.0

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the published count, for counts far above the threshold."""

    @property
    def std(self) -> float:
        """Standard deviation of the published count, for counts far above the threshold."""
        return math.sqrt(self.variance)

    def mass(self, count: int) -> dict[int, float]:
        """Return the distribution of the published count; key 0 means "not published".

        Probabilities have a relative error below 1e-12. Outcomes less likely than `NEGLIGIBLE`
        times the probability of being published are omitted.
        """
        values, chances = self.outcomes(count)
        suppressed = {0: self._suppression(count)}
        return suppressed | dict(zip(values.tolist(), chances.tolist(), strict=True))

    def expected(self, count: int) -> float:
        """Return the mean of the published count, which is 0 if suppressed."""
        values, chances = self.outcomes(count)
        return math.fsum(values * chances)

    def noise_level(self, count: int) -> float:
        """Return E|published - count| / count for a count >= 1; published is 0 if suppressed."""
        if count < 1:
            raise ParameterError(f"count is {count}; it must be at least 1.")
        values, chances = self.outcomes(count)
        published = math.fsum(np.abs(values - count) * chances)
        return published / count + self._suppression(count)

    def release_count(self, probability: float) -> int:
        """Return the smallest count that is published with at least this probability (below 1)."""
        if not 0 < probability < 1:
            raise ParameterError(f"probability is {probability}; it must be between 0 and 1.")
        return least(lambda count: self.release_probability(count) >= probability)

    def _suppression(self, count: int) -> float:
        """Return 1 - release_probability; subclasses avoid the cancellation."""
        return 1.0 - self.release_probability(count)

    def _tail_steps(self, rate: Fraction) -> int:
        """Return the number of steps of a factor e**-rate after which outcomes are negligible."""
        steps = math.ceil(-math.log(NEGLIGIBLE) / float(rate))
        if 2 * steps > MAX_OUTCOMES:
            raise TooLarge(
                f"epsilon {float(self.epsilon):g} distributes a count over about {2 * steps:,} "
                f"values; at most {MAX_OUTCOMES:,} can be listed. Use a larger epsilon."
            )
        return steps


@dataclass(frozen=True, kw_only=True)
class OneSidedGeometric(CountMechanism):
    """Mechanism ``tight``: publish ``count + offset - N`` if ``N <= count - (k - 1)``.

    The probability of N >= 1 increases by exactly e**epsilon per step from P[N = 1] <= delta up to
    ``n_head``, and then decreases by exactly e**-epsilon per step. N is sampled from one Bernoulli
    and one geometric draw G: with probability ``head_mass`` it is ``n_head - (G mod n_head)``,
    otherwise ``n_head + 1 + G``.

    Parameters
    ----------
    epsilon, delta : Fraction
        The promise for one added or removed row.
    k : int
        Counts below it are never published.

    Examples
    --------
    >>> tight = OneSidedGeometric(epsilon=Fraction(1), delta=Fraction(1, 10**5), k=10)
    >>> tight.n_head, tight.offset, tight.release_count(0.5)
    (11, 12, 21)
    """

    epsilon: Fraction
    delta: Fraction
    k: int
    n_head: int = field(init=False)
    head_mass: Fraction = field(init=False)

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta, self.k)
        n_head = least(lambda n: self._falls_from(n, self._largest_head(n)))
        object.__setattr__(self, "n_head", n_head)
        object.__setattr__(self, "head_mass", self._largest_head(n_head))
        self.verify()

    def _largest_head(self, n: int) -> Fraction:
        """Return the largest P[N <= n] with P[N = 1] <= delta, rounded down."""
        if n == 0:
            return Fraction(0)
        _, growth = exp_bounds(self.epsilon, BITS)
        risen, _ = exp_bounds(self.epsilon * n, BITS)
        return _round_down(self.delta * (risen - 1) / (growth - 1), self.delta)

    def _falls_from(self, n: int, head: Fraction) -> bool:
        """Return whether P[N = n+1] <= e**epsilon P[N = n] is certain (n = 0: <= delta)."""
        if n == 0:
            return 1 - exp_bounds(-self.epsilon, BITS)[0] <= self.delta
        inside = 1 - exp_bounds(-self.epsilon * n, BITS)[0]
        return (1 - head) * inside <= exp_bounds(self.epsilon, BITS)[0] * head

    def verify(self) -> None:
        """Check P[N = 1] <= delta and the one step whose ratio is not e**epsilon by definition."""
        n, head = self.n_head, self.head_mass
        conditions = {"P[N = n+1] <= e^epsilon P[N = n]": self._falls_from(n, head)}
        if n:
            growth = exp_bounds(self.epsilon, BITS)[1]
            risen = exp_bounds(self.epsilon * n, BITS)[0]
            inside = 1 - exp_bounds(-self.epsilon * n, BITS)[1]
            fallen = exp_bounds(-self.epsilon, BITS)[1]
            conditions |= {
                "0 < head < 1": 0 < head < 1,
                "P[N = 1] <= delta": head * (growth - 1) <= self.delta * (risen - 1),
                "P[N = n] <= e^epsilon P[N = n+1]": (1 - head) * inside >= fallen * head,
            }
        else:
            conditions["no head"] = head == 0
        _refuse_unless(conditions, self)

    def noisy(self, counts: Integers, noise: Noise) -> Integers:
        """Draw a published count for each private one; 0 means suppressed."""
        in_head = noise.bernoulli(self.head_mass, size=len(counts))
        steps = noise.geometric(self.epsilon, size=len(counts))
        lag = self.n_head + 1 + steps
        if self.n_head:
            lag[in_head] = self.n_head - steps[in_head] % self.n_head
        published = add_noise(counts, self.offset - lag)
        return np.where(lag <= counts - (self.k - 1), published, 0)

    @cached_property
    def _moments(self) -> FractionBounds:
        """Mean and variance of N; r is precise enough that cancellation does not matter."""
        r = _middle(exp_bounds(-self.epsilon, BITS))
        n, head = self.n_head, self.head_mass
        mean, variance = r / (1 - r), r / (1 - r) ** 2
        below_mean = below_square = Fraction(0)
        if n:
            # G = n * (G div n) + (G mod n), the two independent and G div n geometric again.
            s = _middle(exp_bounds(-self.epsilon * n, BITS))
            below_mean = mean - n * s / (1 - s)
            below_square = variance - n * n * s / (1 - s) ** 2 + below_mean**2
        from_n = (1 - head) * (1 + mean) - head * below_mean
        square = (1 - head) * (variance + (1 + mean) ** 2) + head * below_square
        return n + from_n, square - from_n**2

    @cached_property
    def offset(self) -> int:
        """Mean of N, rounded; added to every published count."""
        return round(self._moments[0])

    @property
    def bias(self) -> float:
        """Offset minus the mean of N, between -1/2 and 1/2."""
        return float(self.offset - self._moments[0])

    @property
    def variance(self) -> float:
        """Variance of N."""
        return float(self._moments[1])

    def release_probability(self, count: int) -> float:
        """Return P[N <= count - (k - 1)]."""
        above = count - (self.k - 1)
        if above <= 0:
            return 0.0
        rate, n = float(self.epsilon), self.n_head
        if above > n:
            return 1.0 - self._suppression(count)
        share = math.expm1(-rate * above) / math.expm1(-rate * n)
        return float(self.head_mass) * math.exp(-rate * (n - above)) * share

    def _suppression(self, count: int) -> float:
        above = count - (self.k - 1)
        if above <= self.n_head:
            return 1.0 - self.release_probability(count)
        return float(1 - self.head_mass) * math.exp(-float(self.epsilon * (above - self.n_head)))

    def outcomes(self, count: int) -> Outcomes:
        """Return the published counts, from ``offset + k - 1`` up."""
        above, n, reach = count - (self.k - 1), self.n_head, self._tail_steps(self.epsilon)
        # If all allowed N are at most n_head, the most likely N is the largest allowed one.
        first = max(1, min(n, above) - reach)
        lags = np.arange(first, min(above, n + 1 + reach) + 1, dtype=np.int64)[::-1]
        rate = float(self.epsilon)
        step = -math.expm1(-rate)
        head = float(self.head_mass) * step / -math.expm1(-rate * n) if n else 0.0
        tail = float(1 - self.head_mass) * step
        height = np.where(lags <= n, head, tail)
        distance = np.where(lags <= n, n - lags, lags - n - 1)
        return count + self.offset - lags, height * np.exp(-rate * distance)


@dataclass(frozen=True, kw_only=True)
class ThresholdMatrix(CountMechanism):
    """Mechanism ``paper``: matrix (4) of Li and Li as corrected, w_i by its equation (5).

    w_i increases by exactly e**(epsilon/2) per step from w_k <= delta up to ``turn_mass`` at count
    ``turn``; from there 1 - w_i decreases by exactly e**-epsilon per step. So a Bernoulli draw of
    probability ``turn_mass`` and a geometric draw decide whether a tuple is published, without a
    table. The published count is ``max(k, count + Z)``, Z discrete Laplace of scale 2/epsilon.

    Parameters
    ----------
    epsilon, delta, k
        As for `OneSidedGeometric`.

    Examples
    --------
    >>> paper = ThresholdMatrix(epsilon=Fraction(1), delta=Fraction(1, 10**5), k=10)
    >>> paper.release_count(0.5), paper.release_count(0.99)
    (32, 36)
    """

    epsilon: Fraction
    delta: Fraction
    k: int
    turn: int = field(init=False)
    turn_mass: Fraction = field(init=False)

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta, self.k)
        steps = least(lambda n: self._turns_at(self._risen(n)))
        object.__setattr__(self, "turn", self.k + steps)
        object.__setattr__(self, "turn_mass", self._risen(steps))
        self.verify()

    def _risen(self, steps: int) -> Fraction:
        """Return w_k e**(epsilon/2 steps), rounded down."""
        first = min(self.delta, 1 - exp_bounds(-self.epsilon, BITS)[1])
        return _round_down(first * exp_bounds(self.epsilon * steps / 2, BITS)[0], first)

    def _turns_at(self, w: Fraction) -> bool:
        """Return whether 1 - (1 - w) e**-epsilon <= e**(epsilon/2) w is certain."""
        fall_low, fall_high = exp_bounds(-self.epsilon, BITS)
        rise_low, _ = exp_bounds(self.epsilon / 2, BITS)
        return w * (rise_low - fall_high) >= 1 - fall_low

    def verify(self) -> None:
        """Check conditions (b2) and (b3) of the paper where they do not hold by definition."""
        w, steps = self.turn_mass, self.turn - self.k
        fall = exp_bounds(-self.epsilon, BITS)[1]
        risen = exp_bounds(self.epsilon * steps / 2, BITS)[0]
        last = exp_bounds(-self.epsilon * Fraction(3, 2), BITS)[0]
        _refuse_unless(
            {
                "0 < w < 1": 0 < w < 1,
                "(b2) w_k <= delta": w <= self.delta * risen,
                "(b2) 1 - w_k >= e^-epsilon": w <= (1 - fall) * risen,
                "(b3) suppressed, rising part": steps == 0 or w * (1 - last) <= 1 - fall,
                "(b3) published, falling part": self._turns_at(w),
            },
            self,
        )

    def noisy(self, counts: Integers, noise: Noise) -> Integers:
        """Draw a published count for each private one; 0 means suppressed."""
        size = len(counts)
        coin = noise.bernoulli(self.turn_mass, size=size)
        # P[G >= d] = e**(-x d): one geometric draw is a Bernoulli draw for every distance d.
        reached = noise.geometric(self.epsilon / 2, size=size) >= self.turn - counts
        left = noise.geometric(self.epsilon, size=size) >= counts - self.turn
        shown = np.where(counts <= self.turn, coin & reached, coin | ~left) & (counts >= self.k)
        spread = noise.discrete_laplace(2 / self.epsilon, size=size)
        return np.where(shown, np.maximum(self.k, add_noise(counts, spread)), 0)

    @property
    def variance(self) -> float:
        """Variance of discrete Laplace noise of scale 2/epsilon."""
        return float(laplace_variance(float(2 / self.epsilon)))

    def release_probability(self, count: int) -> float:
        """Return w_i for i = count."""
        if count < self.k:
            return 0.0
        if count > self.turn:
            return 1.0 - self._suppression(count)
        return float(self.turn_mass) * math.exp(-float(self.epsilon * (self.turn - count) / 2))

    def _suppression(self, count: int) -> float:
        if count <= self.turn:
            return 1.0 - self.release_probability(count)
        return float(1 - self.turn_mass) * math.exp(-float(self.epsilon * (count - self.turn)))

    def outcomes(self, count: int) -> Outcomes:
        """Return the published counts, from k up."""
        if count < self.k:
            return np.empty(0, np.int64), np.empty(0)
        return _clamped_laplace(
            count, self.k, self.epsilon / 2, self.release_probability(count), self._tail_steps
        )


@dataclass(frozen=True, kw_only=True)
class TwoSidedGeometric(CountMechanism):
    """Mechanism ``pure``: matrix (3) of Li and Li, noise for every tuple of the domain.

    `noisy` returns ``count + Z``, Z discrete Laplace of scale 1/epsilon, which may be negative; the
    published count is ``max(0, count + Z)``. An absent tuple is published with probability
    r / (1 + r), r = e**-epsilon.

    Parameters
    ----------
    epsilon : Fraction
        The promise for one added or removed row.

    Examples
    --------
    >>> round(TwoSidedGeometric(epsilon=Fraction(1)).release_probability(0), 3)
    0.269
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def verify(self) -> None:
        """Do nothing: the noise decreases by exactly e**-epsilon per step on both sides."""

    def noisy(self, counts: Integers, noise: Noise) -> Integers:
        """Draw a noisy count for each private one; it may be negative."""
        return add_noise(counts, noise.discrete_laplace(1 / self.epsilon, size=len(counts)))

    @property
    def variance(self) -> float:
        """Variance of discrete Laplace noise of scale 1/epsilon."""
        return float(laplace_variance(float(1 / self.epsilon)))

    def release_probability(self, count: int) -> float:
        """Return P[count + Z > 0]."""
        return 1.0 - self._suppression(count)

    def _suppression(self, count: int) -> float:
        return laplace_tail(float(self.epsilon), count)

    def outcomes(self, count: int) -> Outcomes:
        """Return the published counts above 0."""
        values, chances = _clamped_laplace(count, 0, self.epsilon, 1.0, self._tail_steps)
        return values[values > 0], chances[values > 0]


def make_count_mechanism(
    kind: str, *, epsilon: Fraction, delta: Fraction | None = None, k: int | None = None
) -> CountMechanism:
    """Return the mechanism of that name: ``tight``, ``paper`` or ``pure``.

    Examples
    --------
    >>> make_count_mechanism("pure", epsilon=Fraction(1, 2))
    TwoSidedGeometric(epsilon=Fraction(1, 2))
    """
    if kind == "pure":
        return TwoSidedGeometric(epsilon=epsilon)
    if kind not in {"tight", "paper"}:
        raise ParameterError(f"mechanism is {kind!r}; it must be tight, paper or pure.")
    lacking = [
        f"{name} is missing; the mechanism {kind} needs it."
        for name, value in (("delta", delta), ("k", k))
        if value is None
    ]
    if delta is None or k is None:
        raise ParameterError(lacking)
    make = OneSidedGeometric if kind == "tight" else ThresholdMatrix
    return make(epsilon=epsilon, delta=delta, k=k)


# --- discrete Laplace noise, clamped from below ------------------------------------------------


def _clamped_laplace(
    count: int, floor: int, rate: Fraction, total: float, reach_of: Callable[[Fraction], int]
) -> Outcomes:
    """Return the values of max(floor, count + Z) with probabilities that sum to `total`."""
    reach, x = reach_of(rate), float(rate)
    values = np.arange(max(floor, count - reach), max(floor, count + reach) + 1, dtype=np.int64)
    chances = laplace_mass(x, values - count)
    if values[0] == floor:
        chances[0] = laplace_tail(x, count - floor)
    return values, total * chances


# --- checks and searches -----------------------------------------------------------------------


def _middle(bounds: FractionBounds) -> Fraction:
    return (bounds[0] + bounds[1]) / 2


def least(holds: Callable[[int], bool]) -> int:
    """Return the smallest n >= 0 for which a monotone condition holds."""
    high = 1
    while not holds(high):
        high *= 2
    if high == 1 and holds(0):
        return 0
    return 1 + bisect_exact(lambda n: not holds(n), high // 2, high)


def _round_down(value: Fraction, scale: Fraction) -> Fraction:
    """Round down to a multiple of a power of two at least 2**128 times finer than `scale`."""
    words = 2 + -(-math.ceil(1 / scale).bit_length() // 64)
    grid = 1 << (64 * words)
    return Fraction(value.numerator * grid // value.denominator, grid)


def _check(epsilon: Fraction, delta: Fraction = Fraction(1, 2), k: int = 1) -> None:
    problems = []
    if not Fraction(4, MAX_SCALE) <= epsilon <= 1000:
        problems.append(
            f"epsilon is {float(epsilon):g}; for one count it must be between "
            f"{4 / MAX_SCALE:.0e} and 1000."
        )
    if not 0 < delta < 1:
        problems.append(f"delta is {float(delta):g}; it must be between 0 and 1.")
    if k < 1:
        problems.append(f"k is {k}; it must be at least 1.")
    ParameterError.raise_if_any(problems)


def _refuse_unless(conditions: dict[str, bool], mechanism: CountMechanism) -> None:
    broken = [condition for condition, holds in conditions.items() if not holds]
    if broken:
        raise Refused(
            f"{type(mechanism).__name__} with epsilon {float(mechanism.epsilon):g} does not keep "
            f"its promise ({'; '.join(broken)}). Nothing is published. Please report this, and "
            "change epsilon or delta a little."
        )
