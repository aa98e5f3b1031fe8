"""Amounts of privacy loss, and the admission rule that keeps a ledger within its cap.

Every charge is counted three times: by basic composition (epsilon, delta), as approximate
zero-concentrated differential privacy (zCDP: rho), and as approximate Gaussian differential privacy
(mu**2). The last two also add up an approximation delta. Each account has a share of the cap's
delta that was fixed before any data was read. A charge is admitted if the total, with the charge,
is within the limits of at least one account. The proof is in ``ledger.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from hushtable.errors import ParameterError, Refused
from hushtable.privacy.composition import certified_share, concentrated_implies
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR, gaussian_share, is_gaussian
from hushtable.privacy.guarantee import ApproxDP, PureDP, implied_rho
from hushtable.privacy.values import as_written

_MAX_BITS = 10_000  # of a sum's denominator; Python refuses to print more than about 14,000

BASIC_SHARE, APPROXIMATION_SHARE = Fraction(1, 2), Fraction(1, 4)
"""Shares of delta for basic composition and for guarantees without a rho; the rest is for rho."""
BASIC_BESIDE_GAUSSIAN, APPROXIMATION_BESIDE_GAUSSIAN = Fraction(1, 8), Fraction(1, 16)
"""The same shares if the rest is for mu."""

_NONE = Fraction(0)

RHO_GRID = 1 << 64
"""Costs in rho are multiples of one over this."""
_MU_SQUARED_GRID = 1 << 120  # includes the squares of what `gaussian_share` returns


@dataclass(frozen=True, kw_only=True)
class _Amount:
    """Exact numbers that are added, subtracted and compared one by one."""

    def __post_init__(self) -> None:
        if any(number.denominator.bit_length() > _MAX_BITS for number in vars(self).values()):
            raise ParameterError(
                f"the sum of these {' or '.join(f'{name}s' for name in vars(self))} has thousands "
                "of digits; use rounder numbers, such as 0.1 or 1e-6."
            )

    def __add__(self, other: Self) -> Self:
        return self._combined(_plus, other)

    def __sub__(self, other: Self) -> Self:
        return self._combined(_minus, other)

    def _combined(self, operation: Callable[[Fraction, Fraction], Fraction], other: Self) -> Self:
        theirs = vars(other)
        return type(self)(
            **{name: operation(number, theirs[name]) for name, number in vars(self).items()}
        )

    def covers(self, other: Self) -> bool:
        """Return whether all numbers of the other amount are at most those of this one."""
        theirs = vars(other)
        return all(number >= theirs[name] for name, number in vars(self).items())

    @property
    def or_nothing(self) -> Self:
        """The amount, clipped at 0."""
        return type(self)(**{name: max(number, _NONE) for name, number in vars(self).items()})

    def to_dict(self) -> dict[str, str]:
        """Return the numbers as text."""
        return {name: str(number) for name, number in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Budget(_Amount):
    """Exact amount of privacy loss: epsilon and delta.

    Examples
    --------
    >>> Budget(epsilon=Fraction(1, 3)) + Budget(epsilon=Fraction(1, 6), delta=Fraction(1, 10**6))
    Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
    >>> Budget(epsilon=Fraction(1, 2)).to_dict()
    {'epsilon': '1/2', 'delta': '0'}
    """

    epsilon: Fraction = _NONE
    delta: Fraction = _NONE


@dataclass(frozen=True, kw_only=True)
class Concentrated(_Amount):
    """Exact amount of delta-approximate rho-zero-concentrated differential privacy."""

    rho: Fraction = _NONE
    delta: Fraction = _NONE


@dataclass(frozen=True, kw_only=True)
class GaussianLoss(_Amount):
    """Exact amount of delta-approximate mu-Gaussian differential privacy; mu**2 adds up."""

    mu_squared: Fraction = _NONE
    delta: Fraction = _NONE


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One privacy loss, as (epsilon, delta), as approximate zCDP and as approximate Gaussian DP.

    Examples
    --------
    >>> from hushtable.privacy.unit import Unit
    >>> loss = Loss.of(PureDP(epsilon="1/2", unit=Unit(kind="row"), neighbors="add-remove"))
    >>> loss.basic.epsilon, loss.concentrated.rho, round(float(loss.gaussian.mu_squared), 3)
    (Fraction(1, 2), Fraction(1, 8), 0.393)
    """

    basic: Budget
    concentrated: Concentrated
    gaussian: GaussianLoss

    @classmethod
    def of(cls, promise: PureDP | ApproxDP) -> Self:
        """Return the cost of a guarantee."""
        if isinstance(promise, PureDP):
            return cls.priced(promise.epsilon)
        return cls.priced(promise.epsilon, promise.delta, rho=promise.rho, mu=promise.mu)

    @classmethod
    def priced(
        cls,
        epsilon: Fraction,
        delta: Fraction = _NONE,
        *,
        rho: Fraction | None = None,
        mu: Fraction | None = None,
    ) -> Self:
        """Return the loss of (epsilon, delta)-DP that follows from rho-zCDP or mu-GDP, if given.

        What is not given follows from epsilon, with delta as approximation (see ``ledger.md``).
        Rho and mu**2 are rounded up to multiples of 2^-64 and 2^-120, so that sums stay short.
        """
        if rho is None and mu is not None:
            rho = mu**2 / 2
        approximate_rho = implied_rho(epsilon) if rho is None else rho
        # The loss of epsilon-DP has range 2 epsilon.
        mu_squared = CHOICE_FACTOR * (2 * epsilon) ** 2 if mu is None else mu**2
        return cls(
            basic=Budget(epsilon=epsilon, delta=delta),
            concentrated=Concentrated(
                rho=_rounded_up(approximate_rho, RHO_GRID), delta=delta if rho is None else _NONE
            ),
            gaussian=GaussianLoss(
                mu_squared=_rounded_up(mu_squared, _MU_SQUARED_GRID),
                delta=delta if mu is None else _NONE,
            ),
        )

    @property
    def amounts(self) -> tuple[Budget, Concentrated, GaussianLoss]:
        """The amounts, one for each account."""
        return self.basic, self.concentrated, self.gaussian

    def __add__(self, other: Loss) -> Loss:
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return Loss(
            basic=self.basic + other.basic,
            concentrated=self.concentrated + other.concentrated,
            gaussian=self.gaussian + other.gaussian,
        )

    def __sub__(self, other: Loss) -> Loss:
        if other is NOTHING:
            return self
        return Loss(
            basic=self.basic - other.basic,
            concentrated=self.concentrated - other.concentrated,
            gaussian=self.gaussian - other.gaussian,
        )


NOTHING = Loss(basic=Budget(), concentrated=Concentrated(), gaussian=GaussianLoss())


@dataclass(frozen=True, kw_only=True)
class LedgerCap:
    """Limits of a ledger's accounts, each with its share of delta; unused accounts have limit 0."""

    basic: Budget  # limit of basic composition
    concentrated: Concentrated = Concentrated()  # limit of zCDP composition
    alpha: Fraction = _NONE  # Renyi order that certifies rho
    rho_delta: Fraction = _NONE  # share of delta that converts rho to epsilon
    gaussian: GaussianLoss = GaussianLoss()  # limit of Gaussian composition
    mu: Fraction = _NONE  # root of its limit
    mu_delta: Fraction = _NONE  # share of delta that converts mu to epsilon

    @classmethod
    def shared(cls, cap: Budget) -> Self | None:
        """Divide delta between basic and zCDP composition; None if no rho can be certified."""
        basic, approximation = cap.delta * BASIC_SHARE, cap.delta * APPROXIMATION_SHARE
        rest = cap.delta - basic - approximation
        try:
            rho, alpha = certified_share(cap.epsilon, rest)
        except (Refused, ArithmeticError, ValueError):
            return None
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=basic),
            concentrated=Concentrated(rho=rho, delta=approximation),
            alpha=alpha,
            rho_delta=rest,
        )

    @classmethod
    def mostly_gaussian(cls, cap: Budget) -> Self | None:
        """Divide delta between basic and Gaussian composition; None if no mu can be certified."""
        basic = cap.delta * BASIC_BESIDE_GAUSSIAN
        approximation = cap.delta * APPROXIMATION_BESIDE_GAUSSIAN
        rest = cap.delta - basic - approximation
        try:
            mu = gaussian_share(cap.epsilon, rest)
        except (Refused, ArithmeticError, ValueError):
            return None
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=basic),
            gaussian=GaussianLoss(mu_squared=mu**2, delta=approximation),
            mu=mu,
            mu_delta=rest,
        )

    @classmethod
    def for_first(cls, cap: Budget, first: Loss) -> LedgerCap:
        """Allocate delta depending on the first charge, which depends on no data.

        The allocation is the one that admits the most charges equal to the first. If several admit
        as many, it is the earliest of `_allocations`, whose order is that of the proof.
        """
        best, most = cls(basic=cap), 0
        for candidate in _allocations(cap):
            n_admitted = candidate.remaining_charges(NOTHING, first)
            if n_admitted > most:
                best, most = candidate, n_admitted
        return best

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], cap: Budget) -> Self:
        """Read an allocation that `to_dict` wrote, and check again that it keeps the cap."""
        if set(document) != set(_WRITTEN):
            raise ParameterError(f"the allocation must have {', '.join(_WRITTEN)}.")
        numbers = {name: as_written(document[name], name=name) for name in _WRITTEN}
        deltas = [number for name, number in numbers.items() if name.endswith("delta")]
        rho, alpha, mu = (numbers[name] for name in ("rho", "alpha", "mu"))
        if min(numbers.values()) < 0 or sum(deltas) > cap.delta:
            raise ParameterError("the shares of delta exceed the cap or are negative.")
        rho_delta, mu_delta = numbers["rho_delta"], numbers["mu_delta"]
        if rho and not concentrated_implies(rho, alpha, cap.epsilon, rho_delta):
            raise ParameterError(f"rho {rho} of the allocation does not imply the cap.")
        if mu and not is_gaussian(mu, cap.epsilon, mu_delta):
            raise ParameterError(f"mu {mu} of the allocation does not imply the cap.")
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=numbers["basic_delta"]),
            concentrated=Concentrated(rho=rho, delta=numbers["zcdp_delta"]),
            alpha=alpha,
            rho_delta=rho_delta,
            gaussian=GaussianLoss(mu_squared=mu**2, delta=numbers["gaussian_delta"]),
            mu=mu,
            mu_delta=mu_delta,
        )

    def to_dict(self) -> dict[str, str]:
        """Return what the ledger records of the allocation; the rest follows from the cap.

        Examples
        --------
        >>> LedgerCap(basic=Budget(epsilon=Fraction(1), delta=Fraction(1, 100))).to_dict()[
        ...     "basic_delta"
        ... ]
        '1/100'
        """
        numbers = (
            *(self.basic.delta, self.concentrated.delta, self.rho_delta),
            *(self.gaussian.delta, self.mu_delta),
            *(self.concentrated.rho, self.alpha, self.mu),
        )
        return dict(zip(_WRITTEN, map(str, numbers), strict=True))

    @property
    def limits(self) -> tuple[Budget, Concentrated, GaussianLoss]:
        """The limits, one for each account."""
        return self.basic, self.concentrated, self.gaussian

    def allows(self, total: Loss) -> bool:
        """Return whether the total is within the limits of at least one account."""
        pairs = zip(self.limits, total.amounts, strict=True)
        return any(limit.covers(amount) for limit, amount in pairs)

    def remaining_charges(self, total: Loss, each: Loss) -> int:
        """Return how many more charges of the same cost are admitted.

        Examples
        --------
        >>> account = LedgerCap(basic=Budget(epsilon=Fraction(1)))
        >>> each = Loss.priced(Fraction(1, 3))
        >>> account.remaining_charges(each, each)
        2
        """
        accounts = zip(self.limits, total.amounts, each.amounts, strict=True)
        return max(_times(vars(limit - spent), vars(cost)) for limit, spent, cost in accounts)


_WRITTEN = (
    "basic_delta",
    "zcdp_delta",
    "rho_delta",
    "gaussian_delta",
    "mu_delta",
    "rho",
    "alpha",
    "mu",
)
"""Numbers of an allocation in a ledger."""


@lru_cache(maxsize=64)
def _allocations(cap: Budget) -> tuple[LedgerCap, ...]:
    """Return allocations of a cap, those that suit most kinds of charges first."""
    alone = LedgerCap(basic=cap)
    if not cap.epsilon > 0 or not cap.delta > 0:
        return (alone,)
    found = (LedgerCap.shared(cap), LedgerCap.mostly_gaussian(cap), alone)
    return tuple(allocation for allocation in found if allocation is not None)


def _rounded_up(value: Fraction, grid: int) -> Fraction:
    return Fraction(-(-value.numerator * grid // value.denominator), grid)


def _plus(one: Fraction, other: Fraction) -> Fraction:
    # A shortcut: most deltas are 0, and replaying a long ledger is mostly sums.
    if not other:
        return one
    return one + other if one else other


def _minus(one: Fraction, other: Fraction) -> Fraction:
    return one - other if other else one


def _times(left: Mapping[str, Fraction], each: Mapping[str, Fraction]) -> int:
    """Return how many times all costs fit into what is left; 0 if something left is negative."""
    if min(left.values()) < 0:
        return 0
    return min((int(left[name] // cost) for name, cost in each.items() if cost), default=0)
