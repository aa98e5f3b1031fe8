"""What stands in a ledger: charges, reservations, and how a record is spelled and digested."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from hushtable.privacy.account import Budget, Concentrated, Loss
from hushtable.privacy.decision import UNSTATED, Decision
from hushtable.privacy.guarantee import Guarantee, NoGuarantee

FORMAT = 3
"""What new ledgers are: 2 and later say in the first record whether they take what they cannot
count, 3 also has a concentrated account."""
FORMATS = (1, 2, FORMAT)
NOTHING_BEFORE = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Describe one charge and what became of it.

    ``receipt`` is the digest of the charge's record: kept outside the ledger, it proves later that
    the ledger still contains the charge. ``counted`` is false when no guarantee was differentially
    private, so that nothing could be added up. ``table`` is the digest of the table's schema, if
    the charge was for one, and ``same_people`` why a person said that it belongs here.
    ``concentrated`` is what the same charge costs in the other account. ``decision`` is who answers
    for it and why, as far as that was stated. ``prior`` describes the prior that the release starts
    from, with the reason why it is public (``public``) if one was given.
    """

    id: int
    time: str
    purpose: str
    guarantees: tuple[Guarantee, ...]
    cost: Budget
    concentrated: Concentrated
    counted: bool
    reservation: int | None
    receipt: str
    table: str | None = None
    same_people: str | None = None
    decision: Decision = UNSTATED
    prior: Mapping[str, str] | None = None
    status: Literal["charged", "released", "void"] = "charged"
    note: str = ""  # digest of the release, or the reason why the charge is void
    released: str | None = None  # when it was marked released

    @property
    def loss(self) -> Loss:
        """What it costs, in both currencies."""
        return Loss(basic=self.cost, concentrated=self.concentrated)

    @property
    def seconds(self) -> float | None:
        """How long it took from the charge to the release, by the machine's clock.

        None without a release, or where the clock was set back in between. It depends on the
        private data, so it is for the custodian alone.
        """
        if self.released is None:
            return None
        took = datetime.fromisoformat(self.released) - datetime.fromisoformat(self.time)
        return took.total_seconds() if took.total_seconds() >= 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry with its numbers as text, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
            "cost": self.cost.to_dict(),
            "concentrated": self.concentrated.to_dict(),
            "decision": self.decision.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Describe budget set aside, from which later charges may draw."""

    id: int
    time: str
    purpose: str
    amount: Budget
    concentrated: Concentrated
    status: Literal["open", "canceled"] = "open"

    def to_dict(self) -> dict[str, Any]:
        """Return the reservation with its numbers as text, ready for JSON."""
        return {
            **asdict(self),
            "amount": self.amount.to_dict(),
            "concentrated": self.concentrated.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Quote:
    """Say what a charge would cost and leave, without writing anything.

    ``problems`` says why it would be refused; it is empty when ``fits``. What remains is said by
    basic composition: a charge may also fit because the concentrated account has room for it.
    """

    asked: Budget
    spent: Budget
    reserved: Budget
    remaining: Budget
    remaining_after: Budget
    problems: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Tell whether the charge would be accepted now."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the quote with its numbers as text, ready for JSON."""
        amounts = ("asked", "spent", "reserved", "remaining", "remaining_after")
        return {
            "fits": self.fits,
            **{name: getattr(self, name).to_dict() for name in amounts},
            "problems": list(self.problems),
        }


def is_counted(guarantees: Sequence[Guarantee]) -> bool:
    """Tell whether what a release promises can be added up: nothing is told apart from a promise.

    Examples
    --------
    >>> from hushtable.privacy.guarantee import PureDP, Unit
    >>> row = PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="add-remove")
    >>> is_counted([row]), is_counted([row, NoGuarantee(reason="seeded")])
    (True, False)
    """
    counted = [g.counted for g in guarantees]
    if all(counted):
        return bool(counted)
    return any(counted) and not any(isinstance(g, NoGuarantee) for g in guarantees)


_SPELLING = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical(record: dict[str, Any]) -> str:
    """Spell a record in the one way that is digested."""
    return _SPELLING.encode(record)


def digest_of(previous: str, body: str) -> str:
    """Digest a record's text together with the digest before it."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()
