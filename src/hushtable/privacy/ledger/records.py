"""Records of a ledger: decisions, charges, reservations, and their canonical form and digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Literal, Protocol

from pydantic import field_validator

from hushtable.errors import LedgerError, ParameterError
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.ledger.budget import Budget, Concentrated, GaussianLoss, Loss
from hushtable.privacy.unit import Unit
from hushtable.privacy.values import FrozenValue

FORMAT = 5
"""Format of ledger files; others are refused."""
NOTHING_BEFORE = "0" * 64

# Decisions on privacy spending: who is responsible, why, and when to review it.

MAX_TEXT = 1000


class Decision(FrozenValue):
    """Decision on a budget or a release: the responsible person, the reason, the review date.

    All parts are optional. The decision is recorded in the ledger, which only its owner reads, and
    in a release only on request.

    Parameters
    ----------
    responsible : str
        Who is responsible: a person, a role or a board.
    reason : str
        Justification of the amount.
    review_by : str
        Date by which to review the decision, such as ``"2027-06-30"``.

    Examples
    --------
    >>> Decision(responsible="data board", review_by="2027-06-30").to_dict()
    {'responsible': 'data board', 'review_by': '2027-06-30'}
    """

    responsible: str = ""
    reason: str = ""
    review_by: str = ""

    @field_validator("responsible", "reason")
    @classmethod
    def _short(cls, text: str) -> str:
        if len(text) > MAX_TEXT:
            raise ParameterError(
                f"responsible and reason must have at most {MAX_TEXT} characters; the given text "
                f"has {len(text)}."
            )
        return text.strip()

    @field_validator("review_by")
    @classmethod
    def _day(cls, text: str) -> str:
        try:
            return date.fromisoformat(text).isoformat() if text else ""
        except ValueError:
            raise ParameterError(
                f"review_by is {text!r}; write a date as YEAR-MONTH-DAY, such as 2027-06-30."
            ) from None

    @property
    def is_stated(self) -> bool:
        """True if any part is given."""
        return bool(self.responsible or self.reason or self.review_by)

    def to_dict(self) -> dict[str, str]:
        """Return the given parts, ready for JSON."""
        return {name: text for name, text in self.model_dump().items() if text}

    def is_overdue(self, today: date) -> bool:
        """Return whether the review date has passed."""
        return bool(self.review_by) and date.fromisoformat(self.review_by) < today


UNSTATED = Decision()

# Charges and reservations.


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge and its status."""

    id: int
    time: str
    purpose: str
    guarantees: tuple[Guarantee, ...]
    cost: Budget
    concentrated: Concentrated  # the cost under zCDP composition
    gaussian: GaussianLoss  # the cost under Gaussian composition
    counted: bool  # False if no guarantee was differentially private
    reservation: int | None
    receipt: str  # digest of the record; kept elsewhere, it proves that the ledger has the charge
    table: str | None = None  # digest of the table's schema
    same_people: str | None = None  # why the table is about the same people
    decision: Decision = UNSTATED
    prior: Mapping[str, str] | None = None  # its prior; `public`: why it is public
    status: Literal["charged", "released", "void"] = "charged"
    note: str = ""  # digest of the release, or the reason why the charge is void
    released: str | None = None  # time when it was marked released

    @property
    def loss(self) -> Loss:
        """Cost in each account."""
        return Loss(basic=self.cost, concentrated=self.concentrated, gaussian=self.gaussian)

    @property
    def seconds(self) -> float | None:
        """Time from the charge to the release, in seconds, by the machine's clock.

        None without a release, or if the clock was set back in between. It depends on the private
        data, so only the custodian may see it.
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
            "gaussian": self.gaussian.to_dict(),
            "decision": self.decision.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Reserved budget for later charges."""

    id: int
    time: str
    purpose: str
    amount: Budget
    concentrated: Concentrated
    gaussian: GaussianLoss
    status: Literal["open", "canceled"] = "open"

    def to_dict(self) -> dict[str, Any]:
        """Return the reservation with its numbers as text, ready for JSON."""
        return {
            **asdict(self),
            "amount": self.amount.to_dict(),
            "concentrated": self.concentrated.to_dict(),
            "gaussian": self.gaussian.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Quote:
    """Cost of a possible charge, and the budget it would leave; nothing is written.

    ``problems`` lists why it would be refused; it is empty if the charge ``fits``. Remaining
    amounts are those under basic composition; a charge may also fit in another account alone.
    """

    asked: Budget
    spent: Budget
    reserved: Budget
    remaining: Budget
    remaining_after: Budget
    n_admitted: int  # charges of this cost that the ledger admits now, without reservations
    problems: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """True if the charge would be accepted now."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the quote with its numbers as text, ready for JSON."""
        amounts = ("asked", "spent", "reserved", "remaining", "remaining_after")
        return {
            "fits": self.fits,
            **{name: getattr(self, name).to_dict() for name in amounts},
            "n_admitted": self.n_admitted,
            "problems": list(self.problems),
        }


def is_counted(guarantees: Sequence[Guarantee]) -> bool:
    """Return whether a ledger can count what a release promises.

    True if all guarantees are differential privacy, or if some are and none is `NoGuarantee`.

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
    """Return the canonical text of a record, which is digested."""
    return _SPELLING.encode(record)


def digest_of(previous: str, body: str) -> str:
    """Return the digest of a record's text and the previous digest."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


# Tables that a ledger pays for, identified by a digest of their schema.

_DIGEST = re.compile(r"[0-9a-f]{64}")


class LedgerTable(Protocol):
    """Table as a ledger identifies it; a `hushtable.schema.Schema` is one."""

    @property
    def name(self) -> str:
        """Name of the table."""

    @property
    def digest(self) -> str:
        """Digest that identifies the schema."""

    @property
    def unit(self) -> Unit:
        """Unit of privacy."""

    def require_confirmed(self) -> None:
        """Raise an error if a person has yet to confirm parts of the schema."""


@dataclass(frozen=True, kw_only=True)
class BoundTable:
    """Table that a ledger pays for."""

    name: str
    digest: str
    record: int = 0  # the record that bound the ledger to it; 0 is the first, any other a charge
    reason: str = ""  # why it is about the same people as earlier tables

    def describe(self) -> str:
        """Return the name and the beginning of the digest."""
        return f"{self.name!r} (schema {self.digest[:16]})"

    def to_dict(self) -> dict[str, Any]:
        """Return the table ready for JSON."""
        return asdict(self)


def table_document(schema: LedgerTable | None) -> dict[str, str] | None:
    """Return what a record contains about the table of a schema."""
    return None if schema is None else {"name": schema.name, "digest": schema.digest}


def parse_table(document: Any, *, record: int, reason: str = "") -> BoundTable | None:
    """Read what `table_document` wrote."""
    if document is None:
        return None
    if set(document) != {"name", "digest"} or not _DIGEST.fullmatch(document["digest"]):
        raise LedgerError("it names a table in a form that hushtable does not write.")
    name, digest = str(document["name"]), document["digest"]
    return BoundTable(name=name, digest=digest, record=record, reason=reason)
