"""What a ledger's records mean: amounts, entries, reservations, and the rules they follow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from hushtable.errors import (
    BudgetExceeded,
    CompositionError,
    LedgerError,
    ParameterError,
    Refused,
)
from hushtable.privacy.guarantee import (
    ApproxDP,
    Guarantee,
    Neighbors,
    NoGuarantee,
    PureDP,
    Unit,
    as_written,
    check_delta,
    check_epsilon,
    parse_guarantee,
)
from hushtable.privacy.ledger_tables import BoundTable, parse_table

FORMAT = 2
"""What new ledgers are: 2 says in its first record whether it takes what it cannot count."""
FORMATS = (1, FORMAT)
NOTHING_BEFORE = "0" * 64
_MAX_BITS = 10_000  # of a sum's denominator; Python refuses to print beyond about 14,000

Record = TypeVar("Record")


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
        return Budget(epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)

    def __sub__(self, other: Budget) -> Budget:
        return Budget(epsilon=self.epsilon - other.epsilon, delta=self.delta - other.delta)

    def to_dict(self) -> dict[str, str]:
        """Return both numbers as text.

        Examples
        --------
        >>> Budget(epsilon=Fraction(1, 2)).to_dict()
        {'epsilon': '1/2', 'delta': '0'}
        """
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Describe one charge and what became of it.

    ``receipt`` is the digest of the charge's record: kept outside the ledger, it proves later that
    the ledger still contains the charge. ``counted`` is false when no guarantee was differentially
    private, so that nothing could be added up. ``table`` is the digest of the table's schema, if
    the charge was for one, and ``same_people`` why a person said that it belongs here.
    """

    id: int
    time: str
    purpose: str
    guarantees: tuple[Guarantee, ...]
    cost: Budget
    counted: bool
    reservation: int | None
    receipt: str
    table: str | None = None
    same_people: str | None = None
    status: Literal["charged", "released", "void"] = "charged"
    note: str = ""  # digest of the release, or the reason why the charge is void
    released: str | None = None  # when it was marked released

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
        }


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Describe budget set aside, from which later charges may draw."""

    id: int
    time: str
    purpose: str
    amount: Budget
    status: Literal["open", "canceled"] = "open"

    def to_dict(self) -> dict[str, Any]:
        """Return the reservation with its numbers as text, ready for JSON."""
        return {**asdict(self), "amount": self.amount.to_dict()}


@dataclass(frozen=True, kw_only=True)
class Quote:
    """Say what a charge would cost and leave, without writing anything.

    ``problems`` says why it would be refused; it is empty when ``fits``.
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


@dataclass(kw_only=True)
class State:
    """What the chain adds up to. Writing and verifying go through the same rules (`apply`)."""

    format: int = FORMAT
    allow_uncounted: bool = False
    tables: dict[str, BoundTable] = field(default_factory=dict)  # by digest: those it pays for
    name: str = ""
    cap: Budget = field(default_factory=Budget)
    unit: Unit = field(default_factory=lambda: Unit(kind="row"))
    neighbors: Neighbors = "add-remove"
    created: str = ""
    digests: list[str] = field(default_factory=list)
    entries: dict[int, Entry] = field(default_factory=dict)
    reservations: dict[int, Reservation] = field(default_factory=dict)
    # Running sums, so that replaying n records takes n steps.
    spent: Budget = field(default_factory=Budget)
    reserved: Budget = field(default_factory=Budget)
    left: dict[int, Budget] = field(default_factory=dict)  # of each open reservation

    @property
    def head(self) -> str:
        """The digest of the last record."""
        return self.digests[-1] if self.digests else NOTHING_BEFORE

    @property
    def remaining(self) -> Budget:
        """What may still be spent or reserved."""
        return self.cap - self.spent - self.reserved

    @property
    def holds_uncounted(self) -> bool:
        """Whether what is spent may not be all: by permission, or by charges from before."""
        return self.allow_uncounted or any(
            not entry.counted and entry.status != "void" for entry in self.entries.values()
        )

    def refusals(
        self, guarantees: Sequence[Guarantee], table: BoundTable | None, same_people: str | None
    ) -> list[str]:
        """Say why a charge does not belong here, whatever it costs."""
        problems = []
        if not self.allow_uncounted and not is_counted(guarantees):
            families = ", ".join(sorted({g.family for g in guarantees if not g.counted}))
            problems.append(
                f"the promise ({families}) is outside differential privacy: this ledger cannot "
                "count it, and would let it pass at no charge. Publish with a method that promises "
                "differential privacy, or charge a ledger that was started to take what it cannot "
                "count ('hushtable ledger init FILE --allow-uncounted'; its statements say so)."
            )
        if same_people is None and (known := self._other_than(table)):
            given = "a charge without a schema" if table is None else table.describe()
            problems.append(
                f"this ledger {known}, and {given} is something else. If it is about other "
                "people, use their ledger. If it is about the same people, say so and why: "
                "'--same-people REASON' (same_people=); the reason goes on record."
            )
        return problems

    def _other_than(self, table: BoundTable | None) -> str:
        """Say what the ledger is for, unless it is for this table or not bound yet."""
        if self.tables:
            if table is not None and table.digest in self.tables:
                return ""
            return "pays for " + ", ".join(bound.describe() for bound in self.tables.values())
        # Not bound yet: a name is all it says about whom it is for.
        other = table is not None and self.name not in {"", table.name}
        return f"is called {self.name!r}" if other else ""

    def cost(self, guarantees: Sequence[Guarantee]) -> Budget:
        """Add up what differential privacy counts; refuse what cannot be added to this ledger."""
        terms = [term for term in guarantees if isinstance(term, PureDP | ApproxDP)]
        problems = []
        for term in terms:
            if term.unit != self.unit:
                problems.append(
                    f"the promise protects {term.unit.describe()}, the ledger counts for "
                    f"{self.unit.describe()}. Promise the ledger's unit, or keep another ledger."
                )
            if term.neighbors != self.neighbors:
                problems.append(
                    f"the promise is for neighbors {term.neighbors}, the ledger counts for "
                    f"{self.neighbors}. Promise the ledger's relation, or keep another ledger."
                )
        if problems:
            raise CompositionError(dict.fromkeys(problems))
        return sum((Budget(epsilon=t.epsilon, delta=t.delta) for t in terms), start=Budget())

    def problems(self, asked: Budget, reservation: int | None) -> list[str]:
        """Say why the amount does not fit, for epsilon and delta each."""
        if reservation is None:
            source, available = "", self.remaining
        else:
            source = f" of reservation {reservation}"
            available = self.left[self.open_reservation(reservation).id]
        amounts = (asked, available, self.cap, self.spent, self.reserved)
        advice = "Ask for less, or have whoever owns the data decide on a new budget."
        return [
            f"{what} {ask} was asked for, but {left}{source} remains: the ledger's cap is {cap}, "
            f"{used} is spent and {held} is reserved. {advice}"
            for what, (ask, left, cap, used, held) in (
                (name, [getattr(amount, name) for amount in amounts])
                for name in ("epsilon", "delta")
            )
            if ask > left
        ]

    def afford(self, asked: Budget, reservation: int | None) -> None:
        """Raise if the amount does not fit."""
        problems = self.problems(asked, reservation)
        if problems:
            raise BudgetExceeded(problems)

    def open_reservation(self, number: int) -> Reservation:
        """Give a reservation that may be spent from, or refuse."""
        reservation = _numbered(self.reservations, number, "reservation")
        if reservation.status != "open":
            raise Refused(f"reservation {number} is canceled; make a new one.")
        return reservation

    def pending_entry(self, number: int) -> Entry:
        """Give an entry whose fate is open, or refuse."""
        entry = _numbered(self.entries, number, "entry")
        if entry.status != "charged":
            was = "marked released" if entry.status == "released" else "void"
            raise Refused(f"entry {number} is already {was}; that is final.")
        return entry

    def apply(self, record: dict[str, Any], *, new: bool = False) -> str:
        """Check a record against the rules, take it in, and return its digest.

        A `new` record keeps the rules of today, also in a ledger of an older format.
        """
        seq = len(self.digests)
        if record["seq"] != seq:
            raise LedgerError(f"it says it is record {record['seq']}.")
        digest = digest_of(self.head, canonical(record))
        if (record["kind"] == "init") != (seq == 0):
            raise LedgerError("the first record, and only the first, sets the cap.")
        match record["kind"]:
            case "init":
                self._init(record)
            case "charge":
                self._charge(record, digest, new=new)
            case "reserve":
                self._reserve(record)
            case "cancel":
                reservation = self.open_reservation(record["reservation"])
                self.reservations[reservation.id] = replace(reservation, status="canceled")
                self.reserved -= self.left.pop(reservation.id)
            case "released":
                entry = self.pending_entry(record["entry"])
                self.entries[entry.id] = replace(
                    entry, status="released", note=record["digest"], released=record["time"]
                )
            case "void":
                entry = self.pending_entry(record["entry"])
                self.entries[entry.id] = replace(entry, status="void", note=record["reason"])
                self._spend(Budget() - entry.cost, entry.reservation)
            case kind:
                raise LedgerError(f"its kind {kind!r} is unknown.")
        self.digests.append(digest)
        _ = self.remaining  # refuses sums with too many digits now, not when they are read
        return digest

    def _spend(self, amount: Budget, reservation: int | None) -> None:
        """Move an amount from what is left to what is spent; a negative one moves back."""
        self.spent += amount
        if reservation in self.left:
            self.left[reservation] -= amount
            self.reserved -= amount

    def _init(self, record: dict[str, Any]) -> None:
        if record["format"] not in FORMATS:
            raise LedgerError(f"its format is {record['format']}, this version reads {FORMATS}.")
        self.format = record["format"]
        if self.format > 1:
            if type(record["allow_uncounted"]) is not bool:
                raise ParameterError("allow_uncounted must be true or false.")
            self.allow_uncounted = record["allow_uncounted"]
            self._bind(parse_table(record["table"], record=0))
        self.name = record["name"]
        self.created = record["time"]
        epsilon = check_epsilon(as_written(record["epsilon"], name="epsilon"))
        delta = as_written(record["delta"], name="delta")
        if delta != 0:
            check_delta(delta)
        self.cap = Budget(epsilon=epsilon, delta=delta)
        try:
            self.unit = Unit.model_validate(record["unit"])
            self.neighbors = TypeAdapter(Neighbors).validate_python(record["neighbors"])
        except ValidationError as error:
            raise ParameterError(
                f"unit is {record['unit']!r} and neighbors is {record['neighbors']!r}; give a Unit,"
                " and 'add-remove' or 'replace'."
            ) from error

    def _bind(self, table: BoundTable | None) -> None:
        """Take a table in, unless it is among those that are paid for already."""
        if table is not None:
            self.tables.setdefault(table.digest, table)

    def _charge(self, record: dict[str, Any], digest: str, *, new: bool) -> None:
        guarantees = tuple(parse_guarantee(document) for document in record["guarantees"])
        cost = self.cost(guarantees)
        same_people = record.get("same_people")
        table = parse_table(record.get("table"), record=record["seq"], reason=same_people or "")
        # Format 1 knew neither rule: what was charged by then stands.
        if (new or self.format > 1) and (problems := self.refusals(guarantees, table, same_people)):
            raise CompositionError(problems)
        self._bind(table)
        reservation = record["reservation"]
        self.afford(cost, reservation)
        self._spend(cost, reservation)
        seq = record["seq"]
        self.entries[seq] = Entry(
            id=seq,
            time=record["time"],
            purpose=record["purpose"],
            guarantees=guarantees,
            cost=cost,
            counted=is_counted(guarantees),
            reservation=reservation,
            receipt=digest,
            table=table.digest if table else None,
            same_people=same_people,
        )

    def _reserve(self, record: dict[str, Any]) -> None:
        guarantees = [parse_guarantee(document) for document in record["guarantees"]]
        uncounted = sorted({term.family for term in guarantees if not term.counted})
        if uncounted:
            raise CompositionError(
                f"promises of the family {', '.join(uncounted)} are not counted, so nothing can be "
                "reserved for them. Reserve for the differentially private ones only."
            )
        amount = self.cost(guarantees)
        self.afford(amount, None)
        seq = record["seq"]
        self.left[seq] = amount
        self.reserved += amount
        self.reservations[seq] = Reservation(
            id=seq, time=record["time"], purpose=record["purpose"], amount=amount
        )


def _numbered(records: Mapping[int, Record], number: int, what: str) -> Record:
    if number not in records:
        known = ", ".join(map(str, records)) or "none"
        raise ParameterError(f"there is no {what} {number}; those there are: {known}.")
    return records[number]


def is_counted(guarantees: Sequence[Guarantee]) -> bool:
    """Tell whether what a release promises can be added up: nothing is told apart from a promise.

    Examples
    --------
    >>> row = PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="add-remove")
    >>> is_counted([row]), is_counted([row, NoGuarantee(reason="seeded")])
    (True, False)
    """
    return any(g.counted for g in guarantees) and not any(
        isinstance(g, NoGuarantee) for g in guarantees
    )


def canonical(record: dict[str, Any]) -> str:
    """Spell a record in the one way that is digested."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def digest_of(previous: str, body: str) -> str:
    """Digest a record's text together with the digest before it."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()
