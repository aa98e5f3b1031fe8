"""What a ledger's records add up to, and the rules they follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from hushtable.errors import (
    BudgetExceeded,
    CompositionError,
    LedgerError,
    ParameterError,
    Refused,
)
from hushtable.privacy.account import NOTHING, Account, Budget, Loss
from hushtable.privacy.decision import UNSTATED, Decision
from hushtable.privacy.guarantee import (
    ApproxDP,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    as_written,
    check_delta,
    check_epsilon,
    parse_guarantee,
)
from hushtable.privacy.ledger_records import (
    FORMAT,
    FORMATS,
    NOTHING_BEFORE,
    Entry,
    Reservation,
    canonical,
    digest_of,
    is_counted,
)
from hushtable.privacy.ledger_tables import BoundTable, parse_table
from hushtable.privacy.quick_reading import read_quickly

Record = TypeVar("Record")

_ADDED_UP = (PureDP, ApproxDP)


class Priced(NamedTuple):
    """Hold what a release promises, what that costs, and whether it counts."""

    guarantees: tuple[Guarantee, ...]
    cost: Loss
    counted: bool


@dataclass(kw_only=True)
class State:
    """What the chain adds up to. Writing and verifying go through the same rules (`apply`)."""

    format: int = FORMAT
    allow_uncounted: bool = False
    tables: dict[str, BoundTable] = field(default_factory=dict)  # by digest: those it pays for
    name: str = ""
    cap: Budget = field(default_factory=Budget)
    unit: Unit = field(default_factory=lambda: Unit(kind="row"))
    unit_text: str = ""  # the same, as records write it
    neighbors: Neighbors = "add-remove"
    created: str = ""
    decision: Decision = UNSTATED  # on the cap
    digests: list[str] = field(default_factory=list)
    charges: dict[int, dict[str, Any]] = field(default_factory=dict)  # the parts of each entry
    reservations: dict[int, Reservation] = field(default_factory=dict)
    # Fixed by a record that costs something when nothing is spent yet; before, by the cap alone.
    account: Account | None = None
    before: Loss = field(default_factory=lambda: NOTHING)  # spent before the account was started
    upgraded: int | None = None  # the record that started it, in a ledger of an older format
    # Running sums, so that replaying n records takes n steps.
    spent: Loss = field(default_factory=lambda: NOTHING)
    reserved: Loss = field(default_factory=lambda: NOTHING)
    left: dict[int, Loss] = field(default_factory=dict)  # of each open reservation
    history: list[tuple[str, Loss]] = field(default_factory=list)  # when it was how much, spent
    # Promises by their text: most charges of a long ledger promise what others did.
    prices: dict[str, Priced] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The digest of the last record."""
        return self.digests[-1] if self.digests else NOTHING_BEFORE

    @property
    def total(self) -> Loss:
        """What is spent or reserved since the account was started."""
        return self.spent + self.reserved - self.before

    @property
    def allowed(self) -> Budget:
        """What basic composition may come to: the cap, or less of its delta."""
        if self.account is None or self.is_untouched:
            return self.cap
        return self.before.basic + self.account.basic

    @property
    def remaining(self) -> Budget:
        """What may still be spent or reserved by basic composition."""
        return (self.allowed - self.spent.basic - self.reserved.basic).or_nothing

    def remaining_after(self, asked: Loss) -> Budget:
        """Say what a charge would leave by basic composition; the first shares delta out."""
        if asked == NOTHING or not self.is_untouched:
            return self.remaining - asked.basic
        return self.account_for(asked).basic - asked.basic

    @property
    def last(self) -> Entry | None:
        """The last charge that counts."""
        counted = (n for n in reversed(self.charges) if self.charges[n]["counted"])
        number = next((n for n in counted if self.charges[n]["status"] != "void"), None)
        return None if number is None else self.entry(number)

    @property
    def entries(self) -> dict[int, Entry]:
        """All charges and what became of them, by their number."""
        return {number: Entry(**parts) for number, parts in self.charges.items()}

    def entry(self, number: int) -> Entry:
        """Give one charge, or refuse a number that none has."""
        return Entry(**_numbered(self.charges, number, "entry"))

    @property
    def is_untouched(self) -> bool:
        """Whether the shares of delta may be chosen: nothing that counts was seen of the data."""
        return self.format == FORMAT and self.spent == self.before and self.reserved == NOTHING

    def account_for(self, first: Loss) -> Account:
        """Give the account, or the one that this charge would fix."""
        if self.account is not None and not self.is_untouched:
            return self.account
        return Account.for_first(self.cap - self.before.basic, first)

    def completed(self, record: dict[str, Any]) -> dict[str, Any]:
        """Give a new record together with the account, if it is the one that fixes it."""
        if not self.is_untouched or record["kind"] not in {"charge", "reserve"}:
            return record
        loss = self._price(record["guarantees"]).cost
        return (
            {**record, "account": self.account_for(loss).to_dict()} if loss != NOTHING else record
        )

    @property
    def holds_uncounted(self) -> bool:
        """Whether what is spent may not be all: by permission, or by charges from before."""
        return self.allow_uncounted or any(
            not parts["counted"] and parts["status"] != "void" for parts in self.charges.values()
        )

    def refusals(
        self, asked: Priced, table: BoundTable | None, same_people: str | None
    ) -> list[str]:
        """Say why a charge does not belong here, whatever it costs."""
        problems = []
        if not self.allow_uncounted and not asked.counted:
            families = ", ".join(sorted({g.family for g in asked.guarantees if not g.counted}))
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

    def priced(self, guarantees: Sequence[Guarantee]) -> Priced:
        """Add up what differential privacy counts; refuse what cannot be added to this ledger."""
        terms = [term for term in guarantees if isinstance(term, _ADDED_UP)]
        problems = []
        for term in terms:
            if term.unit is not self.unit and term.unit != self.unit:
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
        cost = sum((Loss.of(term) for term in terms), start=NOTHING)
        return Priced(tuple(guarantees), cost, is_counted(guarantees))

    def _price(self, documents: list[dict[str, Any]]) -> Priced:
        """Read promises and say what they cost."""
        text = repr(documents)
        found = self.prices.get(text)
        if found is None:
            found = self.prices[text] = self.priced([self._promise(one) for one in documents])
        return found

    def _promise(self, document: dict[str, Any]) -> Guarantee:
        """Read a promise; that of this ledger's unit need not be read anew in each of them."""
        is_own = repr(document.get("unit")) == self.unit_text
        promise = read_quickly(document, self.unit) if is_own else None
        return parse_guarantee(document) if promise is None else promise

    def problems(self, asked: Loss, reservation: int | None) -> list[str]:
        """Say why the amount does not fit, for each number of each account."""
        return self._problems(asked, reservation, self.account_for(asked), self.spent + asked)

    def _problems(
        self, asked: Loss, reservation: int | None, account: Account, spent: Loss
    ) -> list[str]:
        """Say why the amount does not fit an account, if so much were spent with it."""
        if reservation is not None:
            held = self.left[self.open_reservation(reservation).id].basic
            if not held.covers(asked.basic):
                source = f" of reservation {reservation}"
                return self._too_much(asked.basic, held, self.allowed, source)
        after = self._after(asked, reservation, spent)
        if account.allows(after):
            return []
        # As far as the numbers go that were there before: a draw counts as not made yet.
        left = account.basic - (after.basic - asked.basic)
        problems = self._too_much(asked.basic, left, self.before.basic + account.basic)
        if account.concentrated.rho:
            room = account.concentrated - (after.concentrated - asked.concentrated)
            problems += [
                f"the concentrated account has no room either: {what} about {float(ask):.4g} was "
                f"asked for, about {max(float(rest), 0.0):.4g} remains of about {float(of):.4g}."
                for what, ask, rest, of in (
                    ("rho", asked.concentrated.rho, room.rho, account.concentrated.rho),
                    ("delta", asked.concentrated.delta, room.delta, account.concentrated.delta),
                )
                if ask > rest
            ]
        return problems

    def _too_much(
        self, asked: Budget, left: Budget, allowed: Budget, source: str = ""
    ) -> list[str]:
        """Say which of epsilon and delta is more than what is left."""
        amounts = (asked, left.or_nothing, allowed, self.spent.basic, self.reserved.basic)
        advice = "Ask for less, or have whoever owns the data decide on a new budget."
        return [
            f"{what} {ask} was asked for, but {rest}{source} remains: the ledger's cap is {cap}, "
            f"{used} is spent and {held} is reserved. {advice}"
            for what, (ask, rest, cap, used, held) in (
                (name, [getattr(amount, name) for amount in amounts])
                for name in ("epsilon", "delta")
            )
            if ask > rest
        ]

    def _after(self, amount: Loss, reservation: int | None, spent: Loss) -> Loss:
        """Give what the account would come to with a charge, if so much were spent with it."""
        total = spent + self.reserved - self.before
        if reservation in self.left:
            held = self.left[reservation]
            total += _drawn(held, amount) - held
        return total

    def afford(self, asked: Loss, reservation: int | None) -> None:
        """Raise if the amount does not fit."""
        if problems := self.problems(asked, reservation):
            raise BudgetExceeded(problems)

    def _afforded(self, amount: Loss, reservation: int | None) -> Loss:
        """Give what is spent with an amount, by the account that is fixed; or refuse it."""
        spent = self.spent + amount
        account = self.account_for(amount) if self.account is None else self.account
        if problems := self._problems(amount, reservation, account, spent):
            raise BudgetExceeded(problems)
        return spent

    def open_reservation(self, number: int) -> Reservation:
        """Give a reservation that may be spent from, or refuse."""
        reservation = _numbered(self.reservations, number, "reservation")
        if reservation.status != "open":
            raise Refused(f"reservation {number} is canceled; make a new one.")
        return reservation

    def _end(self, number: int, **end: Any) -> None:
        """Note what became of an entry whose fate is open, or refuse."""
        parts = _numbered(self.charges, number, "entry")
        if parts["status"] != "charged":
            was = "marked released" if parts["status"] == "released" else "void"
            raise Refused(f"entry {number} is already {was}; that is final.")
        parts.update(end)

    def apply(self, record: dict[str, Any], *, new: bool = False) -> str:
        """Check a record against the rules, take it in, and return its digest.

        A `new` record keeps the rules of today, also in a ledger of an older format.
        """
        digest = digest_of(self.head, canonical(record))
        self.take_in(record, digest, new=new)
        return digest

    def take_in(self, record: dict[str, Any], digest: str, *, new: bool = False) -> None:
        """Check a record whose digest is known against the rules, and take it in."""
        seq = len(self.digests)
        if record["seq"] != seq:
            raise LedgerError(f"it says it is record {record['seq']}.")
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
                note, when = record["digest"], record["time"]
                self._end(record["entry"], status="released", note=note, released=when)
            case "upgrade":
                self._upgrade()
            case "void":
                self._void(record)
            case kind:
                raise LedgerError(f"its kind {kind!r} is unknown.")
        self.digests.append(digest)
        if not self.history or self.history[-1][1] is not self.spent:
            self.history.append((record["time"], self.spent))
        if new:
            _ = self.remaining  # refuses sums with too many digits now, not when they are read

    def _spend(self, amount: Loss, reservation: int | None, spent: Loss) -> None:
        """Move an amount from what is left to what is spent; a negative one moves back."""
        self.spent = spent
        if reservation in self.left:
            held = self.left[reservation]
            self.left[reservation] = _drawn(held, amount)
            self.reserved += self.left[reservation] - held

    def _fix_account(self, record: dict[str, Any], cost: Loss) -> None:
        """Take the account from a record that costs something while nothing is spent.

        The first one must have it. One after void charges and canceled reservations may, and then
        its account takes the place of the one before.
        """
        given, costs = "account" in record, cost != NOTHING
        if given and not (costs and self.is_untouched):
            raise LedgerError(
                "it fixes the shares of delta although they are fixed, or it costs nothing."
            )
        if costs and self.account is None and not given:
            raise LedgerError("the first record that costs something has no account.")
        if given:
            self.account = Account.from_dict(record["account"], self.cap - self.before.basic)

    def _upgrade(self) -> None:
        """Start a new account with what is left of the cap."""
        if self.format == FORMAT:
            raise Refused(f"the ledger has format {FORMAT} already; there is nothing to upgrade.")
        if self.left:
            raise Refused(
                f"reservations are open ({', '.join(map(str, self.left))}); cancel them first, and "
                "reserve anew after the upgrade."
            )
        self.format, self.upgraded = FORMAT, len(self.digests)
        self.account, self.before = None, self.spent

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
        self.decision = _decision(record)
        epsilon = check_epsilon(as_written(record["epsilon"], name="epsilon"))
        delta = as_written(record["delta"], name="delta")
        if delta != 0:
            check_delta(delta)
        self.cap = Budget(epsilon=epsilon, delta=delta)
        if self.format < 3:  # before there was a concentrated account
            self.account = Account(basic=self.cap)
        try:
            self.unit = Unit.model_validate(record["unit"])
            self.unit_text = repr(dict(sorted(self.unit.model_dump(mode="json").items())))
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
        asked = self._price(record["guarantees"])
        same_people = record.get("same_people")
        table = parse_table(record.get("table"), record=record["seq"], reason=same_people or "")
        # Format 1 knew neither rule: what was charged by then stands.
        if (new or self.format > 1) and (problems := self.refusals(asked, table, same_people)):
            raise CompositionError(problems)
        self._bind(table)
        reservation = record["reservation"]
        cost = asked.cost
        self._fix_account(record, cost)
        self._spend(cost, reservation, self._afforded(cost, reservation))
        seq = record["seq"]
        self.charges[seq] = {
            "id": seq,
            "time": record["time"],
            "purpose": record["purpose"],
            "guarantees": asked.guarantees,
            "cost": cost.basic,
            "concentrated": cost.concentrated,
            "counted": asked.counted,
            "reservation": reservation,
            "receipt": digest,
            "table": table.digest if table else None,
            "same_people": same_people,
            "decision": _decision(record),
            "prior": _prior(record),
            "status": "charged",
        }

    def _void(self, record: dict[str, Any]) -> None:
        entry = self.entry(record["entry"])
        if entry.status == "charged" and self.upgraded is not None and entry.id < self.upgraded:
            raise Refused(
                f"entry {entry.id} is from before the ledger was upgraded: what was spent by then "
                "is where its account starts. It stays charged."
            )
        self._end(entry.id, status="void", note=record["reason"])
        back = NOTHING - entry.loss
        self._spend(back, entry.reservation, self.spent + back)

    def _reserve(self, record: dict[str, Any]) -> None:
        guarantees, amount, _ = self._price(record["guarantees"])
        uncounted = sorted({term.family for term in guarantees if not term.counted})
        if uncounted:
            raise CompositionError(
                f"promises of the family {', '.join(uncounted)} are not counted, so nothing can be "
                "reserved for them. Reserve for the differentially private ones only."
            )
        self._fix_account(record, amount)
        self._afforded(amount, None)
        seq = record["seq"]
        self.left[seq] = amount
        self.reserved += amount
        self.reservations[seq] = Reservation(
            id=seq,
            time=record["time"],
            purpose=record["purpose"],
            amount=amount.basic,
            concentrated=amount.concentrated,
        )


def _decision(record: dict[str, Any]) -> Decision:
    """Read back what a record says about who decided; most, and all older ones, say nothing."""
    return Decision(**record["decision"]) if "decision" in record else UNSTATED


def _prior(record: dict[str, Any]) -> dict[str, str] | None:
    """Return what a record says about the prior of its release; older ones say nothing."""
    prior = record.get("prior")
    if prior is None:
        return None
    if not isinstance(prior, dict) or not all(isinstance(said, str) for said in prior.values()):
        raise LedgerError("its prior is not described by texts.")
    return prior


def _numbered(records: Mapping[int, Record], number: int, what: str) -> Record:
    if number not in records:
        known = ", ".join(map(str, records)) or "none"
        raise ParameterError(f"there is no {what} {number}; those there are: {known}.")
    return records[number]


def _drawn(held: Loss, amount: Loss) -> Loss:
    """Give what a reservation holds after a charge.

    It never holds less than nothing: a charge may have more rho than was set aside with its
    epsilon, and what it has too much must not be taken off what is spent.
    """
    rest = held - amount
    return replace(rest, concentrated=rest.concentrated.or_nothing)
