"""Who pays for a release: a ledger, and what a person says on record when charging it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from hushtable.errors import ParameterError
from hushtable.privacy.decision import Decision
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger import Entry, Ledger

if TYPE_CHECKING:
    from hushtable.schema import Schema

_PATIENCE = 300.0  # seconds for a busy ledger: giving up after the charge would waste it


class Paying(TypedDict, total=False):
    """Name what may be said about who pays; `Payment` says what each part is."""

    ledger: Ledger | str | Path | None
    reservation: int | None
    purpose: str
    same_people: str | None
    receipt: str | None
    decision: Decision | None
    state_decision: bool


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Charge a ledger for one release, or nothing where there is none.

    Parameters
    ----------
    ledger : Ledger or path, optional
        Where the spending is recorded. It pays for one schema, and refuses any other. The last
        receipt of it is kept beside the release, and asked for by the next one.
    reservation : int, optional
        A reservation in the ledger that the release draws from.
    purpose : str
        Why, for the ledger.
    same_people : str, optional
        Why a table that the ledger does not know is about the same people; it goes on record.
    receipt : str, optional
        A receipt that the ledger must contain, such as the last release's.
    decision : Decision, optional
        Who answers for the release, why it may cost so much, and when to look at it again; for the
        ledger alone.
    state_decision : bool
        Whether the release's statement says so, too.
    """

    ledger: Ledger | str | Path | None = None
    reservation: int | None = None
    purpose: str = ""
    same_people: str | None = None
    receipt: str | None = None
    decision: Decision | None = None
    state_decision: bool = False
    book: Ledger | None = field(init=False)

    @classmethod
    def of(cls, paying: Paying) -> Payment:
        """Take what was said about who pays, or say what is not known of it.

        Examples
        --------
        >>> Payment.of({"purpose": "yearly table", "anyhow": True})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hushtable.errors.ParameterError: 'anyhow' is not known here; of who pays ...
        """
        known = ", ".join(Paying.__annotations__)
        problems = [
            f"{name!r} is not known here; of who pays one may say {known}."
            for name in paying
            if name not in Paying.__annotations__
        ]
        if problems:
            raise ParameterError(problems)
        return cls(**paying)

    def __post_init__(self) -> None:
        problems = []
        if self.ledger is None:
            given = ["reservation", "same_people", "receipt"]
            given += [] if self.state_decision else ["decision"]
            problems += [
                f"{name} is given, which is about a ledger; name the ledger too, or leave it out."
                for name in given
                if getattr(self, name) is not None
            ]
        if self.state_decision and not (self.decision and self.decision.is_stated):
            problems.append(
                "state_decision is given, but no decision: say who is responsible, the reason or "
                "when to review it."
            )
        if problems:
            raise ParameterError(problems)
        book = (
            Ledger.open(self.ledger, timeout=_PATIENCE)
            if isinstance(self.ledger, str | Path)
            else self.ledger
        )
        object.__setattr__(self, "book", book)

    def require(self, promised: Sequence[Guarantee], schema: Schema, *, beside: Path) -> None:
        """Refuse what the ledger would refuse, before anything is read or charged.

        `beside` is the folder that will hold the release, where the last receipt is kept.
        """
        if self.book is None:
            return
        self.book.require_receipt(beside)
        if self.receipt is not None:
            self.book.verify(receipt=self.receipt)
        self.book.require(
            promised, reservation=self.reservation, schema=schema, same_people=self.same_people
        )

    def charge(
        self,
        promised: Sequence[Guarantee],
        schema: Schema,
        *,
        method: str,
        prior: Mapping[str, str] | None = None,
    ) -> Entry | None:
        """Record the spending, and what the release starts from."""
        if self.book is None:
            return None
        return self.book.charge(
            promised,
            purpose=self.purpose or method,
            reservation=self.reservation,
            schema=schema,
            same_people=self.same_people,
            decision=self.decision,
            prior=prior,
        )

    @property
    def stated(self) -> Decision | None:
        """What the release says about who decided."""
        return self.decision if self.state_decision else None
