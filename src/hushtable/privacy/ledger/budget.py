"""Amounts of privacy loss, and the admission rule that keeps a ledger within its cap.

Every charge is counted twice: by basic composition (epsilon, delta), and as approximate
zero-concentrated differential privacy (zCDP: rho, and an approximation delta). Each account has a
share of the cap's delta that was fixed before any data was read. A charge is admitted if the total,
with the charge, is within the limits of at least one account. The proof is in ``ledger.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from hushtable.errors import ParameterError, Refused
from hushtable.privacy.composition import certified_share, concentrated_implies
from hushtable.privacy.guarantee import ApproxDP, PureDP, as_written

_MAX_BITS = 10_000  # of a sum's denominator; Python refuses to print more than about 14,000

BASIC_SHARE = Fraction(1, 2)
"""Share of delta for basic composition."""
APPROXIMATION_SHARE = Fraction(1, 4)
"""Share of delta for guarantees without a rho of their own. The rest converts rho to epsilon."""

_NONE = Fraction(0)

RHO_GRID = 1 << 64
"""Costs in rho are multiples of one over this."""


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
class Loss:
    """One privacy loss, as (epsilon, delta) and as approximate zCDP.

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
        """Return the cost of a guarantee."""
        return cls.priced(promise.epsilon, promise.delta, *promise.concentrated)

    @classmethod
    def priced(
        cls, epsilon: Fraction, delta: Fraction, rho: Fraction, approximation: Fraction = _NONE
    ) -> Self:
        """Return a loss of (epsilon, delta) that is also `approximation`-approximate rho-zCDP.

        Rho is rounded up to a multiple of 2^-64, so that sums stay short.
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
class LedgerCap:
    """Limits of a ledger: basic composition, and zCDP composition, each with its share of delta."""

    basic: Budget  # limit of basic composition
    concentrated: Concentrated = Concentrated()  # limit of zCDP composition; unused if rho is 0
    alpha: Fraction = _NONE  # Renyi order that certifies rho; 0 if rho is 0

    @classmethod
    def shared(cls, cap: Budget) -> Self | None:
        """Divide delta between both accounts; return None if no rho can be certified."""
        basic, approximation = cap.delta * BASIC_SHARE, cap.delta * APPROXIMATION_SHARE
        try:
            rho, alpha = certified_share(cap.epsilon, cap.delta - basic - approximation)
        except (Refused, ArithmeticError, ValueError):
            return None
        return cls._allocated(cap, basic, approximation, rho, alpha)

    @classmethod
    def _allocated(
        cls, cap: Budget, basic: Fraction, approximation: Fraction, rho: Fraction, alpha: Fraction
    ) -> Self:
        return cls(
            basic=Budget(epsilon=cap.epsilon, delta=basic),
            concentrated=Concentrated(rho=rho, delta=approximation),
            alpha=alpha,
        )

    @classmethod
    def for_first(cls, cap: Budget, first: Loss) -> Self:
        """Allocate delta depending on the first charge, which depends on no data.

        All of delta goes to basic composition if more charges equal to the first are then admitted,
        for example if the first uses the whole cap.
        """
        alone = cls(basic=cap)
        shared = cls.shared(cap) if cap.epsilon > 0 and cap.delta > 0 else None
        if shared is None:
            return alone
        n_shared = shared.remaining_charges(NOTHING, first)
        return shared if 0 < n_shared >= alone.remaining_charges(NOTHING, first) else alone

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], cap: Budget) -> Self:
        """Read an account that `to_dict` wrote, and check again that it keeps the cap."""
        names = ("basic_delta", "approximation_delta", "rho", "alpha")
        if set(document) != set(names):
            raise ParameterError(f"the account must have {', '.join(names)}.")
        basic, approximation, rho, alpha = (as_written(document[n], name=n) for n in names)
        conversion = cap.delta - basic - approximation
        if min(basic, approximation, conversion, rho) < 0:
            raise ParameterError("the account's shares of delta exceed the cap or are negative.")
        if rho and not concentrated_implies(rho, alpha, cap.epsilon, conversion):
            raise ParameterError(f"rho {rho} of the account does not imply the cap.")
        return cls._allocated(cap, basic, approximation, rho, alpha)

    def to_dict(self) -> dict[str, str]:
        """Return what the ledger records of the account; the rest follows from the cap.

        Examples
        --------
        >>> LedgerCap(basic=Budget(epsilon=Fraction(1))).to_dict()
        {'basic_delta': '0', 'approximation_delta': '0', 'rho': '0', 'alpha': '0'}
        """
        return {
            "basic_delta": str(self.basic.delta),
            "approximation_delta": str(self.concentrated.delta),
            "rho": str(self.concentrated.rho),
            "alpha": str(self.alpha),
        }

    def allows(self, total: Loss) -> bool:
        """Return whether the total is within the limits of basic or zCDP composition."""
        return self.basic.covers(total.basic) or self.concentrated.covers(total.concentrated)

    def remaining_charges(self, total: Loss, each: Loss) -> int:
        """Return how many more charges of the same cost are admitted.

        Examples
        --------
        >>> account = LedgerCap(basic=Budget(epsilon=Fraction(1)))
        >>> each = Loss(
        ...     basic=Budget(epsilon=Fraction(1, 3)), concentrated=Concentrated(rho=Fraction(1, 18))
        ... )
        >>> account.remaining_charges(each, each)
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
    # A shortcut: most deltas are 0, and replaying a long ledger is mostly sums.
    if not other:
        return one
    return one + other if one else other


def _minus(one: Fraction, other: Fraction) -> Fraction:
    return one - other if other else one


def _times(*amounts: tuple[Fraction, Fraction]) -> int:
    """Return how many times all costs fit into what is left; 0 if something left is negative."""
    if any(left < 0 for left, _ in amounts):
        return 0
    return min((int(left // cost) for left, cost in amounts if cost), default=0)
