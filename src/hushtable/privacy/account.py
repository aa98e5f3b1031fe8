"""What a ledger's charges add up to in two currencies, and the rule that keeps them in the cap.

Every charge is counted by basic composition (epsilon, delta) and as concentrated differential
privacy (rho, and the delta of its approximation). It is allowed while one of the two accounts,
each with a share of delta that was fixed before any data was read, has room for all of it. The
proof is in ``ledger.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from hushtable.errors import ParameterError, Refused
from hushtable.privacy.composition import certified_share, concentrated_implies
from hushtable.privacy.guarantee import ApproxDP, PureDP, as_written

_MAX_BITS = 10_000  # of a sum's denominator; Python refuses to print beyond about 14,000

BASIC_SHARE = Fraction(1, 2)
"""Of delta, for basic composition."""
APPROXIMATION_SHARE = Fraction(1, 4)
"""Of delta, for the deltas of promises that have no rho of their own. The rest converts rho."""

_NONE = Fraction(0)

RHO_GRID = 1 << 64
"""What a charge costs in rho is a multiple of one over this."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Hold an exact amount of privacy loss: epsilon and delta.

    Examples
    --------
    >>> Budget(epsilon=Fraction(1, 3)) + Budget(epsilon=Fraction(1, 6), delta=Fraction(1, 10**6))
    Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if max(self.epsilon.denominator, self.delta.denominator).bit_length() > _MAX_BITS:
            raise ParameterError(
                "the sum of these epsilons or deltas has thousands of digits; use rounder numbers, "
                "such as 0.1 or 1e-6."
            )

    def __add__(self, other: Budget) -> Budget:
        return Budget(
            epsilon=_plus(self.epsilon, other.epsilon), delta=_plus(self.delta, other.delta)
        )

    def __sub__(self, other: Budget) -> Budget:
        return Budget(
            epsilon=_minus(self.epsilon, other.epsilon), delta=_minus(self.delta, other.delta)
        )

    def covers(self, other: Budget) -> bool:
        """Tell whether the other amount fits into this one."""
        return self.epsilon >= other.epsilon and self.delta >= other.delta

    @property
    def or_nothing(self) -> Budget:
        """The amount, with 0 for what is below it."""
        return Budget(epsilon=max(self.epsilon, Fraction(0)), delta=max(self.delta, Fraction(0)))

    def to_dict(self) -> dict[str, str]:
        """Return both numbers as text.

        Examples
        --------
        >>> Budget(epsilon=Fraction(1, 2)).to_dict()
        {'epsilon': '1/2', 'delta': '0'}
        """
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}


@dataclass(frozen=True, kw_only=True)
class Concentrated:
    """Hold an exact amount of delta-approximate rho-zero-concentrated differential privacy.

    Examples
    --------
    >>> Concentrated(rho=Fraction(1, 8)) + Concentrated(rho=Fraction(1, 8))
    Concentrated(rho=Fraction(1, 4), delta=Fraction(0, 1))
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if max(self.rho.denominator, self.delta.denominator).bit_length() > _MAX_BITS:
            raise ParameterError(
                "the sum of these rhos or deltas has thousands of digits; use rounder numbers, "
                "such as 0.1 or 1e-6."
            )

    def __add__(self, other: Concentrated) -> Concentrated:
        return Concentrated(rho=_plus(self.rho, other.rho), delta=_plus(self.delta, other.delta))

    def __sub__(self, other: Concentrated) -> Concentrated:
        return Concentrated(rho=_minus(self.rho, other.rho), delta=_minus(self.delta, other.delta))

    def covers(self, other: Concentrated) -> bool:
        """Tell whether the other amount fits into this one."""
        return self.rho >= other.rho and self.delta >= other.delta

    @property
    def or_nothing(self) -> Concentrated:
        """The amount, with 0 for what is below it."""
        return Concentrated(rho=max(self.rho, Fraction(0)), delta=max(self.delta, Fraction(0)))

    def to_dict(self) -> dict[str, str]:
        """Return both numbers as text."""
        return {"rho": str(self.rho), "delta": str(self.delta)}


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Hold the same privacy loss in both currencies.

    Examples
    --------
    >>> from hushtable.privacy.unit import Unit
    >>> loss = Loss.of(PureDP(epsilon="1/2", unit=Unit(kind="row"), neighbors="add-remove"))
    >>> loss.basic.epsilon, loss.concentrated.rho
    (Fraction(1, 2), Fraction(1, 8))
    """

    basic: Budget = Budget()
    concentrated: Concentrated = Concentrated()

    @classmethod
    def of(cls, promise: PureDP | ApproxDP) -> Self:
        """Say what a promise costs."""
        return cls.priced(promise.epsilon, promise.delta, *promise.concentrated)

    @classmethod
    def priced(
        cls, epsilon: Fraction, delta: Fraction, rho: Fraction, approximation: Fraction = _NONE
    ) -> Self:
        """Say what costs epsilon and delta or, approximately, rho.

        The rho is rounded up, so that sums stay short.
        """
        return cls(
            basic=Budget(epsilon=epsilon, delta=delta),
            concentrated=Concentrated(
                rho=Fraction(-(-rho.numerator * RHO_GRID // rho.denominator), RHO_GRID),
                delta=approximation,
            ),
        )

    def __add__(self, other: Loss) -> Loss:
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return Loss(
            basic=self.basic + other.basic, concentrated=self.concentrated + other.concentrated
        )

    def __sub__(self, other: Loss) -> Loss:
        if other is NOTHING:
            return self
        return Loss(
            basic=self.basic - other.basic, concentrated=self.concentrated - other.concentrated
        )


NOTHING = Loss()


@dataclass(frozen=True, kw_only=True)
class Account:
    """Say how much fits: the two accounts of one cap, and what is the share of each.

    Parameters
    ----------
    basic : Budget
        What basic composition may come to.
    concentrated : Concentrated
        What the concentrated account may come to; nothing, if rho is 0.
    alpha : Fraction
        The order that proves what rho implies; 0 without a concentrated account.
    """

    basic: Budget
    concentrated: Concentrated = Concentrated()
    alpha: Fraction = Fraction(0)

    @classmethod
    def shared(cls, cap: Budget) -> Self | None:
        """Divide delta between both accounts, or give nothing where that cannot be certified."""
        basic, approximation = cap.delta * BASIC_SHARE, cap.delta * APPROXIMATION_SHARE
        try:
            rho, alpha = certified_share(cap.epsilon, cap.delta - basic - approximation)
        except (Refused, ArithmeticError, ValueError):
            return None
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=basic),
            concentrated=Concentrated(rho=rho, delta=approximation),
            alpha=alpha,
        )

    @classmethod
    def for_first(cls, cap: Budget, first: Loss) -> Self:
        """Choose the shares of delta by the first charge, which depends on no data.

        All of it is for basic composition if more charges like the first then fit, as when the
        first takes the whole cap.
        """
        alone = cls(basic=cap)
        shared = cls.shared(cap) if cap.epsilon > 0 and cap.delta > 0 else None
        if shared is None:
            return alone
        n_shared = shared.room(NOTHING, first)
        return shared if 0 < n_shared >= alone.room(NOTHING, first) else alone

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], cap: Budget) -> Self:
        """Read back what `to_dict` wrote, and prove again that it keeps the cap."""
        names = ("basic_delta", "approximation_delta", "rho", "alpha")
        if set(document) != set(names):
            raise ParameterError(f"the account must have {', '.join(names)}.")
        basic, approximation, rho, alpha = (as_written(document[n], name=n) for n in names)
        conversion = cap.delta - basic - approximation
        if min(basic, approximation, conversion, rho) < 0:
            raise ParameterError("the account's shares of delta are not within the cap.")
        if rho and not concentrated_implies(rho, alpha, cap.epsilon, conversion):
            raise ParameterError(f"rho {rho} of the account does not imply the cap.")
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=basic),
            concentrated=Concentrated(rho=rho, delta=approximation),
            alpha=alpha,
        )

    def to_dict(self) -> dict[str, str]:
        """Return what the ledger records of it; the rest follows from the cap.

        Examples
        --------
        >>> Account(basic=Budget(epsilon=Fraction(1))).to_dict()
        {'basic_delta': '0', 'approximation_delta': '0', 'rho': '0', 'alpha': '0'}
        """
        return {
            "basic_delta": str(self.basic.delta),
            "approximation_delta": str(self.concentrated.delta),
            "rho": str(self.concentrated.rho),
            "alpha": str(self.alpha),
        }

    def allows(self, total: Loss) -> bool:
        """Tell whether all charges together fit one of the accounts."""
        return self.basic.covers(total.basic) or self.concentrated.covers(total.concentrated)

    def room(self, total: Loss, each: Loss) -> int:
        """Count how many more charges that cost the same are allowed.

        Examples
        --------
        >>> account = Account(basic=Budget(epsilon=Fraction(1)))
        >>> each = Loss(
        ...     basic=Budget(epsilon=Fraction(1, 3)), concentrated=Concentrated(rho=Fraction(1, 18))
        ... )
        >>> account.room(each, each)
        2
        """
        basic, concentrated = self.basic - total.basic, self.concentrated - total.concentrated
        return max(
            _times((basic.epsilon, each.basic.epsilon), (basic.delta, each.basic.delta)),
            _times(
                (concentrated.rho, each.concentrated.rho),
                (concentrated.delta, each.concentrated.delta),
            ),
        )


def _plus(one: Fraction, other: Fraction) -> Fraction:
    # Most deltas are 0, and a long ledger is mostly sums.
    if not other:
        return one
    return one + other if one else other


def _minus(one: Fraction, other: Fraction) -> Fraction:
    return one - other if other else one


def _times(*amounts: tuple[Fraction, Fraction]) -> int:
    """Count how often what each costs goes into what is left, for all of them; never below 0."""
    if any(left < 0 for left, _ in amounts):
        return 0
    return min((int(left // cost) for left, cost in amounts if cost), default=0)
