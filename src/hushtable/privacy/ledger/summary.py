"""Summary of a ledger: its accounts, the remaining budget in words, and the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.guarantee import ApproxDP
from hushtable.privacy.ledger.budget import NOTHING, Budget, LedgerCap, Loss
from hushtable.privacy.ledger.records import FORMAT, Entry
from hushtable.privacy.ledger.state import LedgerState
from hushtable.privacy.rational import bisect_exact
from hushtable.privacy.values import MAX_EPSILON, rounded

ACCOUNTS = {
    "basic": {"epsilon": "epsilon", "delta": "delta"},
    "concentrated": {"rho": "rho", "delta": "delta"},
    "gaussian": {"mu_squared": "mu**2", "delta": "delta"},
}
"""What each account adds up, with its symbol."""


@dataclass(frozen=True, kw_only=True)
class RemainingBudget:
    """Remaining budget of a ledger."""

    free: Budget  # neither spent nor reserved, under basic composition
    like: Entry | None  # the last counted charge
    more: int  # how many more charges of the same cost are admitted
    # Largest epsilon of three digits that is admitted for one release of the same kind (the same
    # delta, and a rho or mu if it had one); 0 if none is.
    epsilon: Fraction

    def in_words(self) -> str:
        """Return the remaining budget as one sentence."""
        if self.like is None:
            return f"One release may use {_amount(self.free)}."
        last = f"the last one ({_amount(self.like.cost)})"
        one = f"one of its kind with epsilon {rounded(self.epsilon)}"
        if self.more:
            releases = "release" if self.more == 1 else "releases"
            return f"{self.more:,} more {releases} like {last}, or {one}."
        if self.epsilon:
            return f"No further release like {last}, but {one}."
        return f"No further release like {last}."

    def to_dict(self) -> dict[str, Any]:
        """Return the remaining budget ready for JSON."""
        return {
            "like": self.like and self.like.id,
            "more": self.more,
            "epsilon": str(self.epsilon),
            "in_words": self.in_words(),
        }


def left_of(state: LedgerState) -> RemainingBudget:
    """Compute the remaining budget."""
    like = state.last
    if like is None:
        free = state.remaining
        return RemainingBudget(free=free, like=None, more=0, epsilon=free.epsilon)
    account = state.account_for(like.loss)
    return RemainingBudget(
        free=state.remaining,
        like=like,
        more=account.remaining_charges(state.total, like.loss),
        epsilon=largest_epsilon(account, state.total, _kind_of(like)),
    )


def _amount(cost: Budget) -> str:
    delta = f", delta {rounded(cost.delta)}" if cost.delta else ""
    return f"epsilon {rounded(cost.epsilon)}{delta}"


def _kind_of(entry: Entry) -> Callable[[Fraction], Loss]:
    """Return a function from epsilon to the cost of a release of the same kind."""
    delta = entry.cost.delta
    approximate = [g for g in entry.guarantees if isinstance(g, ApproxDP)]
    if approximate and all(g.mu is not None for g in approximate):
        return lambda epsilon: Loss.priced(epsilon, delta, mu=gaussian_share(epsilon, delta))
    if approximate and all(g.rho is not None or g.mu is not None for g in approximate):
        return lambda epsilon: Loss.priced(epsilon, delta, rho=concentrated_share(epsilon, delta))
    return lambda epsilon: Loss.priced(epsilon, delta)


_DIGITS = 900  # numbers of three digits, from 100 to 999
_LOWEST = -8  # 100 with this exponent is the smallest epsilon that is tried


def largest_epsilon(account: LedgerCap, total: Loss, cost: Callable[[Fraction], Loss]) -> Fraction:
    """Return the largest epsilon of three digits that the account admits; 0 if none.

    Examples
    --------
    >>> whole = LedgerCap(basic=Budget(epsilon=Fraction(2)))
    >>> largest_epsilon(whole, Loss.priced(Fraction(1, 3)), Loss.priced)
    Fraction(83, 50)
    """

    def number(place: int) -> Fraction:
        return (100 + place % _DIGITS) * Fraction(10) ** (_LOWEST + place // _DIGITS)

    n_places = 0
    while number(n_places) <= MAX_EPSILON:
        n_places += _DIGITS

    def admits(place: int) -> bool:
        epsilon = number(place)
        return epsilon <= MAX_EPSILON and account.allows(total + cost(epsilon))

    largest = bisect_exact(admits, -1, n_places)
    return number(largest) if largest >= 0 else Fraction(0)


# --- full summary ---------------------------------------------------------------------------------


def summary(state: LedgerState) -> dict[str, Any]:
    """Return the full summary ready for JSON; numbers are exact, as text."""
    return {
        "format": FORMAT,
        "name": state.name,
        "created": state.created,
        "decision": state.decision.to_dict(),
        "reviews": state.reviews,
        "unit": state.unit.model_dump(mode="json", exclude_none=True),
        "neighbors": state.neighbors,
        "tables": [table.to_dict() for table in state.tables.values()],
        "allow_uncounted": state.allow_uncounted,
        "holds_uncounted": state.holds_uncounted,
        "cap": state.cap.to_dict(),
        "spent": state.spent.basic.to_dict(),
        "reserved": state.reserved.basic.to_dict(),
        "basic": _basic(state),
        "concentrated": _other(state, "concentrated"),
        "gaussian": _other(state, "gaussian"),
        "left": left_of(state).to_dict(),
        "n_uncounted": sum(not entry.counted for entry in state.entries.values()),
        "history": _history(state),
        "entries": [entry.to_dict() for entry in state.entries.values()],
        "reservations": [
            {**reservation.to_dict(), "left": state.left.get(number, NOTHING).basic.to_dict()}
            for number, reservation in state.reservations.items()
        ],
        "head": state.head,
    }


def _basic(state: LedgerState) -> dict[str, Any]:
    """Return the account of basic composition; its limit may be less than the cap."""
    return {
        "limit": state.allowed.to_dict(),
        "spent": state.spent.basic.to_dict(),
        "reserved": state.reserved.basic.to_dict(),
        "left": state.remaining.to_dict(),
    }


def _other(state: LedgerState, name: str) -> dict[str, Any] | None:
    """Return the account of zCDP or of Gaussian composition, or None if it is not used."""
    if state.account is None or not any(vars(limit := getattr(state.account, name)).values()):
        return None
    return {
        "limit": limit.to_dict(),
        "spent": getattr(state.spent, name).to_dict(),
        "reserved": getattr(state.reserved, name).to_dict(),
        "left": (limit - getattr(state.total, name)).or_nothing.to_dict(),
    }


def _history(state: LedgerState) -> list[dict[str, Any]]:
    """Return what was spent over time, as shares of each account's limit."""
    account = LedgerCap(basic=state.allowed) if state.account is None else state.account
    limits = {**{name: getattr(account, name) for name in ACCOUNTS}, "basic": state.allowed}
    return [
        {
            "time": time,
            **{
                name: _share(vars(getattr(spent, name)), vars(limit))
                if any(vars(limit).values())
                else None
                for name, limit in limits.items()
            },
        }
        for time, spent in state.history
    ]


def _share(amounts: Mapping[str, Fraction], limits: Mapping[str, Fraction]) -> float:
    """Return the largest ratio of an amount to its limit; 2 for an amount above a limit of 0."""
    return max(
        float(amount / limits[name]) if limits[name] else float(amount > 0) * 2.0
        for name, amount in ((name, max(amount, Fraction(0))) for name, amount in amounts.items())
    )
