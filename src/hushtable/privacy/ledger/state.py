"""State of a ledger: the sums of its records, and the rules that records must follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from hushtable.errors import BudgetExceeded, CompositionError, LedgerError, ParameterError, Refused
from hushtable.privacy.composition import is_concentrated
from hushtable.privacy.gaussian_dp import is_gaussian
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP, parse_guarantee
from hushtable.privacy.ledger.budget import NOTHING, Budget, LedgerCap, Loss
from hushtable.privacy.ledger.records import (
    FORMAT,
    NOTHING_BEFORE,
    UNSTATED,
    BoundTable,
    Decision,
    Entry,
    Reservation,
    canonical,
    digest_of,
    is_counted,
    parse_table,
)
from hushtable.privacy.rational import plain_fraction
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import MAX_DELTA, MAX_LOSS, as_written, check_delta, check_epsilon

# Fast parsing of guarantees in the form that a ledger writes.
#
# It checks the same rules as `hushtable.privacy.guarantee`. Any other form is left to
# `parse_guarantee`, which parses it or reports what is wrong.

_PURE = {"family", "epsilon", "unit", "neighbors"}
_APPROXIMATE = (_PURE | {"delta"}, _PURE | {"delta", "rho"}, _PURE | {"delta", "mu"})
_RELATIONS = ("add-remove", "replace")


def read_quickly(document: Mapping[str, Any], unit: Unit) -> PureDP | ApproxDP | None:
    """Parse a guarantee whose unit is known, or return None.

    `document` is what `Guarantee.to_dict` wrote; its unit is ignored in favor of `unit`.

    Examples
    --------
    >>> row = Unit(kind="row")
    >>> promise = PureDP(epsilon="1/2", unit=row, neighbors="add-remove")
    >>> read_quickly(promise.to_dict(), row) == promise
    True
    >>> read_quickly({**promise.to_dict(), "epsilon": "-1/2"}, row) is None
    True
    """
    family, neighbors = document.get("family"), document.get("neighbors")
    epsilon = _amount(document.get("epsilon"), MAX_LOSS)
    if epsilon is None or neighbors not in _RELATIONS:
        return None
    if family == "pure-dp" and document.keys() == _PURE:
        return PureDP.model_construct(
            family=family, epsilon=epsilon, unit=unit, neighbors=neighbors
        )
    if family != "approx-dp" or document.keys() not in _APPROXIMATE:
        return None
    delta = _amount(document["delta"], MAX_DELTA)
    rho, mu = (plain_fraction(document.get(name)) for name in ("rho", "mu"))
    if delta is None or not (
        ("rho" not in document or (rho is not None and is_concentrated(rho, epsilon, delta)))
        and ("mu" not in document or (mu is not None and is_gaussian(mu, epsilon, delta)))
    ):
        return None
    return ApproxDP.model_construct(
        family=family, epsilon=epsilon, delta=delta, unit=unit, neighbors=neighbors, rho=rho, mu=mu
    )


def _amount(text: Any, most: Fraction) -> Fraction | None:
    """Parse a number above 0 and at most `most`, or return None."""
    number = plain_fraction(text)
    if number is None or not number.numerator > 0:
        return None
    too_large = number.numerator * most.denominator > most.numerator * number.denominator
    return None if too_large else number


Record = TypeVar("Record")

_ADDED_UP = (PureDP, ApproxDP)


class Priced(NamedTuple):
    """Guarantees of a release, their cost, and whether the ledger can count them."""

    guarantees: tuple[Guarantee, ...]
    cost: Loss
    counted: bool


@dataclass(kw_only=True)
class LedgerState:
    """Result of replaying a ledger's records; writing and verifying share its rules."""

    allow_uncounted: bool = False
    tables: dict[str, BoundTable] = field(default_factory=dict)  # tables that it pays for
    name: str = ""
    cap: Budget = field(default_factory=Budget)
    unit: Unit = field(default_factory=lambda: Unit(kind="row"))
    unit_text: str = ""  # the unit as written in records
    neighbors: Neighbors = "add-remove"
    created: str = ""
    decision: Decision = UNSTATED  # on the cap; a review changes it
    reviews: list[dict[str, str]] = field(default_factory=list)  # when, and what was decided
    digests: list[str] = field(default_factory=list)
    entries: dict[int, Entry] = field(default_factory=dict)  # all charges, by number
    reservations: dict[int, Reservation] = field(default_factory=dict)
    # Fixed by a record with nonzero cost while nothing is spent or reserved.
    account: LedgerCap | None = None
    # Running sums, so that replay takes linear time.
    spent: Loss = field(default_factory=lambda: NOTHING)
    reserved: Loss = field(default_factory=lambda: NOTHING)
    left: dict[int, Loss] = field(default_factory=dict)  # remaining amount of each open reservation
    history: list[tuple[str, Loss]] = field(default_factory=list)  # time and total spent
    # Costs by text of the guarantees: in a long ledger most charges repeat earlier ones.
    prices: dict[str, Priced] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """Digest of the last record."""
        return self.digests[-1] if self.digests else NOTHING_BEFORE

    @property
    def total(self) -> Loss:
        """Sum of everything spent or reserved."""
        return self.spent + self.reserved

    @property
    def allowed(self) -> Budget:
        """Limit of basic composition: the cap, or epsilon and a share of delta."""
        if self.account is None or self.is_untouched:
            return self.cap
        return self.account.basic

    @property
    def remaining(self) -> Budget:
        """Remaining budget under basic composition, clipped at 0."""
        return (self.allowed - self.spent.basic - self.reserved.basic).or_nothing

    def remaining_after(self, asked: Loss) -> Budget:
        """Return what a charge, which allocates delta if first, leaves under basic composition."""
        if asked == NOTHING or not self.is_untouched:
            return self.remaining - asked.basic
        return self.account_for(asked).basic - asked.basic

    @property
    def last(self) -> Entry | None:
        """The last charge that was counted and is not void."""
        entries = reversed(self.entries.values())
        return next((one for one in entries if one.counted and one.status != "void"), None)

    @property
    def is_untouched(self) -> bool:
        """True if delta may still be allocated: no counted charge or reservation is in effect."""
        return self.spent == NOTHING and self.reserved == NOTHING

    def account_for(self, first: Loss) -> LedgerCap:
        """Return the account, or the one that this charge would fix."""
        if self.account is not None and not self.is_untouched:
            return self.account
        return LedgerCap.for_first(self.cap, first)

    def completed(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a new record, with the account added if the record fixes it."""
        if not self.is_untouched or record["kind"] not in {"charge", "reserve"}:
            return record
        loss = self._price(record["guarantees"]).cost
        return (
            {**record, "allocation": self.account_for(loss).to_dict()}
            if loss != NOTHING
            else record
        )

    @property
    def holds_uncounted(self) -> bool:
        """True if the total may be incomplete: uncounted releases are allowed or were charged."""
        return self.allow_uncounted or any(
            not entry.counted and entry.status != "void" for entry in self.entries.values()
        )

    def refusals(
        self, asked: Priced, table: BoundTable | None, same_people: str | None
    ) -> list[str]:
        """Return the reasons why this ledger does not accept a charge, whatever its cost."""
        problems = []
        if not self.allow_uncounted and not asked.counted:
            families = ", ".join(sorted({g.family for g in asked.guarantees if not g.counted}))
            problems.append(
                f"the promise ({families}) is not differential privacy: this ledger cannot count "
                "it, so it would be free. Publish with a method that promises differential "
                "privacy, or charge a ledger that accepts uncounted releases ('hushtable ledger "
                "init FILE --allow-uncounted'; its statements mention this)."
            )
        if same_people is None and (known := self._other_than(table)):
            given = "a charge without a schema" if table is None else table.describe()
            problems.append(
                f"this ledger {known}, and {given} is something else. If it is about other "
                "people, use their ledger. If it is about the same people, confirm this with a "
                "reason: '--same-people REASON' (same_people=); the ledger records the reason."
            )
        return problems

    def _other_than(self, table: BoundTable | None) -> str:
        """Return what the ledger is for, or "" if it is for this table or not yet bound."""
        if self.tables:
            if table is not None and table.digest in self.tables:
                return ""
            return "pays for " + ", ".join(bound.describe() for bound in self.tables.values())
        # Not yet bound: its name is the only hint at what it is for.
        other = table is not None and self.name not in {"", table.name}
        return f"is called {self.name!r}" if other else ""

    def priced(self, guarantees: Sequence[Guarantee]) -> Priced:
        """Return the cost of guarantees; raise `CompositionError` if they cannot be added."""
        terms = [term for term in guarantees if isinstance(term, _ADDED_UP)]
        problems = []
        for term in terms:
            if term.unit is not self.unit and term.unit != self.unit:
                problems.append(
                    f"the promise protects {term.unit.describe()}, but the ledger counts for "
                    f"{self.unit.describe()}. Use the ledger's unit, or another ledger."
                )
            if term.neighbors != self.neighbors:
                problems.append(
                    f"the promise is for neighbors {term.neighbors}, but the ledger counts for "
                    f"{self.neighbors}. Use the ledger's relation, or another ledger."
                )
        if problems:
            raise CompositionError(dict.fromkeys(problems))
        cost = sum((Loss.of(term) for term in terms), start=NOTHING)
        return Priced(tuple(guarantees), cost, is_counted(guarantees))

    def _price(self, documents: list[dict[str, Any]]) -> Priced:
        """Return the cost of serialized guarantees."""
        text = repr(documents)
        found = self.prices.get(text)
        if found is None:
            found = self.prices[text] = self.priced([self._promise(one) for one in documents])
        return found

    def _promise(self, document: dict[str, Any]) -> Guarantee:
        """Parse a guarantee; the ledger's own unit is not parsed again."""
        is_own = repr(document.get("unit")) == self.unit_text
        promise = read_quickly(document, self.unit) if is_own else None
        return parse_guarantee(document) if promise is None else promise

    def problems(self, asked: Loss, reservation: int | None) -> list[str]:
        """Return the reasons why the ledger does not admit an amount; empty if it does."""
        return self._problems(asked, reservation, self.account_for(asked), self.spent + asked)

    def _problems(
        self, asked: Loss, reservation: int | None, account: LedgerCap, spent: Loss
    ) -> list[str]:
        """Return the reasons why an account does not admit an amount that `spent` includes."""
        if reservation is not None:
            held = self.left[self.open_reservation(reservation).id]
            used = zip(held.amounts, asked.amounts, account.limits, strict=True)
            if not any(
                left.covers(wanted) for left, wanted, limit in used if any(vars(limit).values())
            ):
                source = f" of reservation {reservation}"
                return self._too_much(asked.basic, held.basic, self.allowed, source)
        after = self._after(asked, reservation, spent)
        if account.allows(after):
            return []
        # Report what remained before this charge, without a draw from its reservation.
        left = account.basic - (after.basic - asked.basic)
        problems = self._too_much(asked.basic, left, account.basic)
        for composition, name in (("zCDP", "concentrated"), ("Gaussian", "gaussian")):
            limits, request, totals = (vars(getattr(of, name)) for of in (account, asked, after))
            if not any(limits.values()):
                continue  # this account is not used
            for what, limit in limits.items():
                rest = limit - (totals[what] - request[what])
                if request[what] > rest:
                    problems.append(
                        f"{composition} composition does not allow it either: "
                        f"{what.replace('_squared', '**2')} of about {float(request[what]):.4g} is "
                        f"requested, about {max(float(rest), 0.0):.4g} remains of about "
                        f"{float(limit):.4g}."
                    )
        return problems

    def _too_much(
        self, asked: Budget, left: Budget, allowed: Budget, source: str = ""
    ) -> list[str]:
        """Return a sentence for each of epsilon and delta that exceeds what is left."""
        own = self.cap  # basic composition may have only a part of it
        amounts = (asked, left.or_nothing, allowed, own, self.spent.basic, self.reserved.basic)
        advice = "Request less, or ask the owner of the data to decide on a new budget."
        return [
            f"{what} {ask} was requested, but {rest}{source} remains: the ledger's cap is {whole}, "
            f"{'' if cap == whole else f'of which basic composition has {cap}, '}"
            f"{used} is spent and {held} is reserved. {advice}"
            for what, (ask, rest, cap, whole, used, held) in (
                (name, [getattr(amount, name) for amount in amounts])
                for name in ("epsilon", "delta")
            )
            if ask > rest
        ]

    def _after(self, amount: Loss, reservation: int | None, spent: Loss) -> Loss:
        """Return the account's total with a charge; `spent` includes the charge."""
        total = spent + self.reserved
        if reservation in self.left:
            held = self.left[reservation]
            total += _drawn(held, amount) - held
        return total

    def afford(self, asked: Loss, reservation: int | None) -> None:
        """Raise `BudgetExceeded` if the amount exceeds what remains."""
        if problems := self.problems(asked, reservation):
            raise BudgetExceeded(problems)

    def _afforded(self, amount: Loss, reservation: int | None) -> Loss:
        """Return the total spent with an amount; raise `BudgetExceeded` if it is refused."""
        spent = self.spent + amount
        account = self.account_for(amount) if self.account is None else self.account
        if problems := self._problems(amount, reservation, account, spent):
            raise BudgetExceeded(problems)
        return spent

    def open_reservation(self, number: int) -> Reservation:
        """Return an open reservation; raise `Refused` if it is canceled."""
        reservation = _lookup(self.reservations, number, "reservation")
        if reservation.status != "open":
            raise Refused(f"reservation {number} is canceled; make a new one.")
        return reservation

    def _end(self, number: int, **end: Any) -> Entry:
        """Set the final status of an entry; raise `Refused` if it already has one."""
        entry = _lookup(self.entries, number, "entry")
        if entry.status != "charged":
            was = "marked released" if entry.status == "released" else "void"
            raise Refused(f"entry {number} is already {was}; that is final.")
        self.entries[number] = replace(entry, **end)
        return entry

    def apply(self, record: dict[str, Any]) -> str:
        """Check a new record against the rules, update the state, and return its digest."""
        digest = digest_of(self.head, canonical(record))
        self.replay(record, digest)
        _ = self.remaining  # raise now if sums have too many digits, not when they are read
        return digest

    def replay(self, record: dict[str, Any], digest: str) -> None:
        """Check a record with known digest against the rules and update the state."""
        seq = len(self.digests)
        if record["seq"] != seq:
            raise LedgerError(f"it has the number {record['seq']}.")
        if (record["kind"] == "init") != (seq == 0):
            raise LedgerError("only the first record may set the cap, and it must.")
        match record["kind"]:
            case "init":
                self._init(record)
            case "charge":
                self._charge(record, digest)
            case "reserve":
                self._reserve(record)
            case "cancel":
                reservation = self.open_reservation(record["reservation"])
                self.reservations[reservation.id] = replace(reservation, status="canceled")
                self.reserved -= self.left.pop(reservation.id)
            case "released":
                note, when = record["digest"], record["time"]
                self._end(record["entry"], status="released", note=note, released=when)
            case "void":
                self._void(record)
            case "review":
                stated = _decision(record)
                self.reviews.append({"time": record["time"], **stated.to_dict()})
                self.decision = Decision(**self.decision.to_dict() | stated.to_dict())
            case kind:
                raise LedgerError(f"its kind {kind!r} is unknown.")
        self.digests.append(digest)
        if not self.history or self.history[-1][1] is not self.spent:
            self.history.append((record["time"], self.spent))

    def _spend(self, amount: Loss, reservation: int | None, spent: Loss) -> None:
        """Set the total spent and draw on the reservation; a negative amount reverses a charge."""
        self.spent = spent
        if reservation in self.left:
            held = self.left[reservation]
            self.left[reservation] = _drawn(held, amount)
            self.reserved += self.left[reservation] - held

    def _fix_account(self, record: dict[str, Any], cost: Loss) -> None:
        """Read the account from a record with nonzero cost while nothing is spent or reserved.

        A later one, after all others were voided or canceled, replaces the earlier account.
        """
        given, costs = "allocation" in record, cost != NOTHING
        if given and not (costs and self.is_untouched):
            raise LedgerError(
                "it allocates delta although that is fixed, or although it costs nothing."
            )
        if costs and self.is_untouched and not given:
            raise LedgerError("it costs something while nothing is spent, but has no allocation.")
        if given:
            self.account = LedgerCap.from_dict(record["allocation"], self.cap)

    def _init(self, record: dict[str, Any]) -> None:
        if record["format"] != FORMAT:
            raise LedgerError(f"its format is {record['format']}; this version reads {FORMAT}.")
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
        try:
            self.unit = Unit.model_validate(record["unit"])
            self.unit_text = repr(dict(sorted(self.unit.model_dump(mode="json").items())))
            self.neighbors = TypeAdapter(Neighbors).validate_python(record["neighbors"])
        except ValidationError as error:
            raise ParameterError(
                f"unit is {record['unit']!r} and neighbors is {record['neighbors']!r}; pass a Unit,"
                " and 'add-remove' or 'replace'."
            ) from error

    def _bind(self, table: BoundTable | None) -> None:
        """Add a table unless the ledger already pays for it."""
        if table is not None:
            self.tables.setdefault(table.digest, table)

    def _charge(self, record: dict[str, Any], digest: str) -> None:
        asked = self._price(record["guarantees"])
        same_people = record["same_people"]
        table = parse_table(record["table"], record=record["seq"], reason=same_people or "")
        if problems := self.refusals(asked, table, same_people):
            raise CompositionError(problems)
        self._bind(table)
        reservation = record["reservation"]
        cost = asked.cost
        self._fix_account(record, cost)
        self._spend(cost, reservation, self._afforded(cost, reservation))
        seq = record["seq"]
        self.entries[seq] = Entry(
            id=seq,
            time=record["time"],
            purpose=record["purpose"],
            guarantees=asked.guarantees,
            cost=cost.basic,
            concentrated=cost.concentrated,
            gaussian=cost.gaussian,
            counted=asked.counted,
            reservation=reservation,
            receipt=digest,
            table=table.digest if table else None,
            same_people=same_people,
            decision=_decision(record),
            prior=_prior(record),
        )

    def _void(self, record: dict[str, Any]) -> None:
        entry = self._end(record["entry"], status="void", note=record["reason"])
        back = NOTHING - entry.loss
        self._spend(back, entry.reservation, self.spent + back)

    def _reserve(self, record: dict[str, Any]) -> None:
        guarantees, amount, _ = self._price(record["guarantees"])
        uncounted = sorted({term.family for term in guarantees if not term.counted})
        if uncounted:
            raise CompositionError(
                f"promises of the family {', '.join(uncounted)} are not counted, so nothing can be "
                "reserved for them. Reserve only for differentially private releases."
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
            gaussian=amount.gaussian,
        )


def _decision(record: dict[str, Any]) -> Decision:
    """Read the decision of a record; most records have none."""
    return Decision(**record["decision"]) if "decision" in record else UNSTATED


def _prior(record: dict[str, Any]) -> dict[str, str] | None:
    """Return what a record says about the prior of its release."""
    prior = record.get("prior")
    if prior is None:
        return None
    if not isinstance(prior, dict) or not all(isinstance(said, str) for said in prior.values()):
        raise LedgerError("its prior is not described by texts.")
    return prior


def _lookup(records: Mapping[int, Record], number: int, what: str) -> Record:
    if number not in records:
        known = ", ".join(map(str, records)) or "none"
        raise ParameterError(f"there is no {what} {number}; existing ones: {known}.")
    return records[number]


def _drawn(held: Loss, amount: Loss) -> Loss:
    """Return what a reservation holds after a charge, clipped at 0.

    A charge needs to be covered in one composition only. What exceeds the reservation in others
    counts as spent.
    """
    rest = held - amount
    return Loss(
        basic=rest.basic.or_nothing,
        concentrated=rest.concentrated.or_nothing,
        gaussian=rest.gaussian.or_nothing,
    )
