"""Costs of draws, computed from the formulas in floats, independently of the privacy layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtable.privacy.mechanisms.cells import CellCounts, DomainMechanism, TupleCounts
from hushtable.privacy.mechanisms.mechanism import (
    Gaussian,
    Laplace,
    RoundedGaussian,
    RowwiseMechanism,
)
from hushtable.privacy.mechanisms.private_choice import HistogramCuts, TopChoices
from hushtable.privacy.mechanisms.scored_splits import ScoreChoice, SplitChoice
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.mechanisms.tuple_perturbation import RowReplacement

_SLACK = 1e-9
"""Relative tolerance for sums of floats."""

_LOOSE = 1e-6
"""Relative tolerance for differences of two tail probabilities."""


@dataclass(frozen=True)
class ReferenceCost:
    """Total cost of draws: epsilon and delta, plus rho (zCDP) or squared mu (Gaussian DP)."""

    epsilon: float = 0.0
    delta: float = 0.0
    rho: float = 0.0
    mu_squared: float = 0.0

    def __add__(self, other: ReferenceCost) -> ReferenceCost:
        return ReferenceCost(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.rho + other.rho,
            self.mu_squared + other.mu_squared,
        )

    def is_within(self, epsilon: float, delta: float) -> bool:
        """Return whether the cost implies (epsilon, delta)-differential privacy, up to rounding.

        Examples
        --------
        >>> (
        ...     ReferenceCost(epsilon=1.0).is_within(1.0, 0.0),
        ...     ReferenceCost(epsilon=1.1).is_within(1.0, 0.0),
        ... )
        (True, False)
        >>> (
        ...     ReferenceCost(rho=0.01).is_within(1.0, 1e-6),
        ...     ReferenceCost(rho=0.1).is_within(1.0, 1e-6),
        ... )
        (True, False)
        >>> (
        ...     ReferenceCost(mu_squared=0.05).is_within(1.0, 1e-6),
        ...     ReferenceCost(mu_squared=0.06).is_within(1.0, 1e-6),
        ... )
        (True, False)
        """
        left = epsilon * (1 + _SLACK) - self.epsilon, delta * (1 + _SLACK) - self.delta
        if min(left) < 0:
            return False
        if self.mu_squared and self.rho:
            return False  # no run uses both kinds of accounting
        if self.mu_squared:
            return gaussian_delta(math.sqrt(self.mu_squared), left[0]) <= left[1] * (1 + _LOOSE)
        return self.rho == 0 or delta_of(self.rho, left[0]) <= left[1] * (1 + _SLACK)

    def in_words(self) -> str:
        """Return the cost as text."""
        parts = {
            "epsilon": self.epsilon, "delta": self.delta, "rho": self.rho,
            "mu**2": self.mu_squared,
        }  # fmt: skip
        return " and ".join(f"{name} {part:.6g}" for name, part in parts.items() if part)


def delta_of(rho: float, epsilon: float) -> float:
    """Return the smallest delta that rho-zCDP is known to imply with epsilon.

    This is the infimum over orders a of exp((a - 1) (a rho - epsilon)) / (a - 1) (1 - 1/a)**a
    (Canonne, Kamath and Steinke 2020, proposition 12).

    Examples
    --------
    >>> f"{delta_of(0.02, 1.0):.1e}"
    '8.8e-08'
    """

    def log_delta(order: float) -> float:
        return (
            (order - 1) * (order * rho - epsilon)
            - math.log(order - 1)
            + order * math.log1p(-1 / order)
        )

    # The exponent is convex in the order; ternary search finds its minimum.
    low, high = 1 + 1e-9, 10 + 10 * (epsilon + 1) / rho
    for _ in range(300):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if log_delta(one) <= log_delta(two) else (one, high)
    return min(1.0, math.exp(log_delta((low + high) / 2)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta that mu-Gaussian differential privacy implies with epsilon.

    Dong, Roth and Su 2022, corollary 1.

    Examples
    --------
    >>> f"{gaussian_delta(0.2, 1.0):.1e}"
    '1.8e-08'
    """
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tail, far_tail = (math.erfc(x / math.sqrt(2)) / 2 for x in (near, far))
    return tail - math.exp(min(epsilon, 700)) * far_tail


def reference_cost(
    mechanism: Any, sensitivity: Any, *, in_rho: bool, in_mu: bool = False
) -> ReferenceCost | None:
    """Return the cost of a draw; None for mechanisms that are not known here."""
    if in_mu:
        return _in_mu(mechanism, sensitivity)
    price: ReferenceCost | None = None
    if isinstance(mechanism, RowwiseMechanism):
        mechanism = mechanism.each
    if isinstance(mechanism, CellCounts):
        mechanism = mechanism.count
    if isinstance(mechanism, Laplace):
        price = _pure(sensitivity.l1 / float(mechanism.scale), in_rho=in_rho)
    elif isinstance(mechanism, DomainMechanism):
        price = _pure(sensitivity.l1 * float(mechanism.rate), in_rho=in_rho)
    elif isinstance(mechanism, Gaussian | RoundedGaussian):
        price = ReferenceCost(rho=sensitivity.l2_squared / (2 * float(mechanism.variance)))
    elif isinstance(mechanism, TopChoices):
        each, k = float(mechanism.epsilon), mechanism.k
        # The loss of the exponential mechanism has range epsilon, not 2 epsilon: a factor of four.
        divisor = 8 if mechanism.rule == "exponential" else 2
        price = ReferenceCost(rho=k * each**2 / divisor) if in_rho else ReferenceCost(k * each)
    elif isinstance(mechanism, SplitChoice | ScoreChoice):
        each = float(mechanism.eta) * sensitivity.l1
        price = ReferenceCost(rho=each**2 / 8) if in_rho else ReferenceCost(each)
    elif isinstance(mechanism, HistogramCuts):
        price = _pure(sensitivity.l1 * float(mechanism.rate), in_rho=in_rho)
    elif isinstance(mechanism, RowReplacement):
        g, m = float(mechanism.retention), mechanism.n_tuples
        price = _pure(sensitivity.l1 / 2 * math.log1p(g * m / (1 - g)), in_rho=in_rho)
    elif isinstance(mechanism, TupleCounts):
        price = _of_groups(mechanism, sensitivity.cells)
    elif isinstance(mechanism, CountMechanism):
        epsilon, steps = float(mechanism.epsilon), sensitivity.l1
        delta = float(getattr(mechanism, "delta", 0)) * sum(
            math.exp(i * epsilon) for i in range(steps)
        )
        price = (
            _pure(steps * epsilon, in_rho=in_rho)
            if not delta
            else ReferenceCost(steps * epsilon, delta)
        )
    return price


def _in_mu(mechanism: Any, sensitivity: Any) -> ReferenceCost | None:
    """Return the cost of a draw in Gaussian differential privacy; None if not known."""
    if isinstance(mechanism, RoundedGaussian):
        return ReferenceCost(mu_squared=sensitivity.l2_squared / float(mechanism.variance))
    if isinstance(mechanism, TopChoices) and mechanism.rule == "exponential":
        # Bounded-range mechanism, by comparison with randomized response at epsilon / 2.
        return ReferenceCost(mu_squared=mechanism.k * math.pi / 8 * float(mechanism.epsilon) ** 2)
    return None


def _of_groups(mechanism: TupleCounts, n: int) -> ReferenceCost:
    """Compose n mechanisms optimally (Kairouz, Oh and Viswanath 2015, theorem 3.3)."""
    each, spared = float(mechanism.count.epsilon), mechanism.spared
    delta = float(getattr(mechanism.count, "delta", 0))
    used = (
        sum(
            math.comb(n, at) * (math.exp((n - at) * each) - math.exp((n - 2 * spared + at) * each))
            for at in range(spared)
        )
        / (1 + math.exp(each)) ** n
    )
    return ReferenceCost((n - 2 * spared) * each, 1 - (1 - used) * (1 - delta) ** n)


def _pure(epsilon: float, *, in_rho: bool) -> ReferenceCost:
    return ReferenceCost(rho=epsilon**2 / 2) if in_rho else ReferenceCost(epsilon)


def spent_at_most(account: Any, *, epsilon: Fraction, unknown: set[str]) -> ReferenceCost:
    """Return the total cost of an account.

    A mechanism that is not known here counts with the cost that it states, and its name is added to
    `unknown`.

    If costs were recorded by row, group privacy gives the cost of a unit; its number of rows is the
    promised `epsilon` divided by that of a row. Parts of one division are disjoint, so the most
    expensive one counts; a part that is divided twice pays for both divisions.
    """
    promise = account.promise
    if promise is None:
        return ReferenceCost()
    in_rho, in_mu = promise.rho is not None, promise.mu is not None
    own: dict[int, ReferenceCost] = {}
    for opening in account.records:
        price = reference_cost(opening.mechanism, opening.sensitivity, in_rho=in_rho, in_mu=in_mu)
        if price is None:
            unknown.add(type(opening.mechanism).__name__)
            price = _stated(opening.mechanism.cost(opening.sensitivity), in_rho, in_mu)
        whole = not (opening.sensitivity.divisible or opening.sensitivity.rows == 1)
        for part in [account.root] * len(opening.parts) if whole else opening.parts:
            own[id(part)] = own.get(id(part), ReferenceCost()) + price
    total = _with_parts(account.root, own)
    if not promise.of_row:
        return total
    rows = max(1, round(epsilon / promise.epsilon))
    grown = sum(math.exp(at * total.epsilon) for at in range(rows))
    squared = rows**2
    return ReferenceCost(
        rows * total.epsilon, grown * total.delta, squared * total.rho, squared * total.mu_squared
    )


def _stated(cost: Any, in_rho: bool, in_mu: bool) -> ReferenceCost:
    if in_mu:
        return ReferenceCost(mu_squared=float(cost.mu_squared or 0))
    if in_rho:
        return ReferenceCost(rho=float(cost.rho or 0))
    return ReferenceCost(float(cost.epsilon or 0), float(cost.delta or 0))


def _with_parts(part: Any, own: dict[int, ReferenceCost]) -> ReferenceCost:
    total = own.get(id(part), ReferenceCost())
    for division in part.divisions or []:
        inside = [_with_parts(one, own) for one in division]
        total += ReferenceCost(
            max((cost.epsilon for cost in inside), default=0.0),
            max((cost.delta for cost in inside), default=0.0),
            max((cost.rho for cost in inside), default=0.0),
            max((cost.mu_squared for cost in inside), default=0.0),
        )
    return total
