"""Payment for a release: the ledger, and the statements recorded with a charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from hushtable.errors import ParameterError
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger.records import Decision

if TYPE_CHECKING:
    from hushtable.privacy.ledger.ledger import Ledger
    from hushtable.privacy.ledger.records import Entry, LedgerTable

_PATIENCE = 300.0  # seconds to wait for a busy ledger; giving up would waste the charge


class PaymentOptions(TypedDict, total=False):
    """Payment options as keyword arguments; `Payment` documents each."""

    ledger: Ledger | str | Path | None
    reservation: int | None
    purpose: str
    same_people: str | None
    receipt: str | None
    decision: Decision | None
    state_decision: bool


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Payment for one release from a ledger; without a ledger, nothing is charged.

    Parameters
    ----------
    ledger : Ledger or path, optional
        Where the spending is recorded. A ledger that is bound to a schema refuses others unless
        `same_people` is given. Its last receipt is stored beside the release, and the next release
        checks it.
    reservation : int, optional
        The reservation in the ledger that the release uses.
    purpose : str
        Purpose of the release, for the ledger.
    same_people : str, optional
        Why a table that is new to the ledger is about the same people; recorded.
    receipt : str, optional
        A receipt that the ledger must contain, such as that of the last release.
    decision : Decision, optional
        Who is responsible for the release, the justification of its cost, and when to review it;
        recorded in the ledger.
    state_decision : bool
        Whether the release's statement contains the decision too.
    """

    ledger: Ledger | str | Path | None = None
    reservation: int | None = None
    purpose: str = ""
    same_people: str | None = None
    receipt: str | None = None
    decision: Decision | None = None
    state_decision: bool = False
    opened_ledger: Ledger | None = field(init=False)

    @classmethod
    def of(cls, options: PaymentOptions) -> Payment:
        """Make a payment from keyword arguments; raise `ParameterError` for unknown ones.

        Examples
        --------
        >>> Payment.of({"purpose": "yearly table", "anyhow": True})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hushtable.errors.ParameterError: 'anyhow' is not a payment option; use ...
        """
        known = ", ".join(PaymentOptions.__annotations__)
        problems = [
            f"{name!r} is not a payment option; use {known}."
            for name in options
            if name not in PaymentOptions.__annotations__
        ]
        ParameterError.raise_if_any(problems)
        return cls(**options)

    def __post_init__(self) -> None:
        problems = []
        if self.ledger is None:
            given = ["reservation", "same_people", "receipt"]
            given += [] if self.state_decision else ["decision"]
            problems += [
                f"{name} is given without a ledger; pass the ledger too, or leave {name} out."
                for name in given
                if getattr(self, name) is not None
            ]
        if self.state_decision and not (self.decision and self.decision.is_stated):
            problems.append(
                "state_decision is given without a decision; state who is responsible, the reason "
                "or when to review it."
            )
        ParameterError.raise_if_any(problems)
        ledger = self.ledger
        if isinstance(ledger, str | Path):
            from hushtable.privacy.ledger.ledger import Ledger  # noqa: PLC0415 - often not needed

            ledger = Ledger.open(ledger, timeout=_PATIENCE)
        object.__setattr__(self, "opened_ledger", ledger)

    def require(self, promised: Sequence[Guarantee], schema: LedgerTable, *, beside: Path) -> None:
        """Raise what the ledger would raise for this charge, before anything is read or charged.

        `beside` is the folder that will contain the release, where the last receipt is stored.
        """
        if self.opened_ledger is None:
            return
        self.opened_ledger.require_receipt(beside)
        if self.receipt is not None:
            self.opened_ledger.verify(receipt=self.receipt)
        self.opened_ledger.require(
            promised, reservation=self.reservation, schema=schema, same_people=self.same_people
        )

    def charge(
        self,
        promised: Sequence[Guarantee],
        schema: LedgerTable,
        *,
        method: str,
        prior: Mapping[str, str] | None = None,
    ) -> Entry | None:
        """Record the spending and the prior of the release; return None without a ledger."""
        if self.opened_ledger is None:
            return None
        return self.opened_ledger.charge(
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
        """The decision as stated in the release, or None."""
        return self.decision if self.state_decision else None
