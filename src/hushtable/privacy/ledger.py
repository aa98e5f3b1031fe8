"""What has been spent: one SQLite file per private data set.

The file holds a chain of records that only grows: the cap, charges, reservations, and what became
of them. Each record's digest covers the record and the digest before it, so an edited, removed or
reordered record breaks the chain. The state (spent, reserved, remaining) is stored nowhere; it is
replayed from the whole chain, with every rule checked again, each time the file is used.

What the chain cannot see is a file that was replaced as a whole, by an older copy or by one whose
digests were all computed anew. For that there are receipts: `Entry.receipt` goes into the release's
statement, and ``verify(receipt=...)`` fails on a ledger that does not contain it.

Spending adds up by basic composition, which also holds when each charge is chosen after seeing
earlier releases, up to a cap fixed beforehand (Rogers, Roth, Ullman and Vadhan 2016, "Privacy
odometers and filters").

Keep the file on a local disk: many network file systems do not lock reliably.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from hushtable.errors import (
    BudgetExceeded,
    CompositionError,
    HushtableError,
    LedgerError,
    ParameterError,
    Refused,
)
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

__all__ = ["Budget", "Entry", "Ledger", "Quote", "Reservation"]

FORMAT = 1
APPLICATION_ID = 0x48555348  # "HUSH" in the file's header: tells a ledger from any other database
MAX_TEXT = 1000
_NOTHING_BEFORE = "0" * 64
_MAX_BITS = 10_000  # of a sum's denominator; Python refuses to print beyond about 14,000

_TABLES = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    # The head repeats what the last record says, so that a cut-off tail is noticed.
    "CREATE TABLE head (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, digest TEXT NOT NULL)",
)


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

    def covers(self, other: Budget) -> bool:
        """Tell whether the other amount fits into this one."""
        return self.epsilon >= other.epsilon and self.delta >= other.delta

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
    private, so that nothing could be added up.
    """

    id: int
    time: str
    purpose: str
    guarantees: tuple[Guarantee, ...]
    cost: Budget
    counted: bool
    reservation: int | None
    receipt: str
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
class _State:
    """What the chain adds up to. Writing and verifying go through the same rules (`apply`)."""

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
        return self.digests[-1] if self.digests else _NOTHING_BEFORE

    @property
    def remaining(self) -> Budget:
        return self.cap - self.spent - self.reserved

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
        return _total(Budget(epsilon=term.epsilon, delta=term.delta) for term in terms)

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
        problems = self.problems(asked, reservation)
        if problems:
            raise BudgetExceeded(problems)

    def open_reservation(self, number: int) -> Reservation:
        reservation = self.reservations.get(number)
        if reservation is None:
            known = ", ".join(map(str, self.reservations)) or "none"
            raise ParameterError(f"there is no reservation {number}; those there are: {known}.")
        if reservation.status != "open":
            raise Refused(f"reservation {number} is canceled; make a new one.")
        return reservation

    def pending_entry(self, number: int) -> Entry:
        entry = self.entries.get(number)
        if entry is None:
            known = ", ".join(map(str, self.entries)) or "none"
            raise ParameterError(f"there is no entry {number}; those there are: {known}.")
        if entry.status != "charged":
            was = "marked released" if entry.status == "released" else "void"
            raise Refused(f"entry {number} is already {was}; that is final.")
        return entry

    def apply(self, record: dict[str, Any]) -> str:
        """Check a record against the rules, take it in, and return its digest."""
        seq = len(self.digests)
        if record["seq"] != seq:
            raise LedgerError(f"it says it is record {record['seq']}.")
        digest = _digest(self.head, _canonical(record))
        if (record["kind"] == "init") != (seq == 0):
            raise LedgerError("the first record, and only the first, sets the cap.")
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
        if record["format"] != FORMAT:
            raise LedgerError(f"its format is {record['format']}, this version reads {FORMAT}.")
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

    def _charge(self, record: dict[str, Any], digest: str) -> None:
        guarantees = tuple(parse_guarantee(document) for document in record["guarantees"])
        cost = self.cost(guarantees)
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
            counted=any(guarantee.counted for guarantee in guarantees),
            reservation=reservation,
            receipt=digest,
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


class Ledger:
    """Record what has been spent on one private data set, and refuse what its cap does not allow.

    Use `create` once and `open` afterwards. Every call opens the file anew, so a ledger may be
    shared by threads and forked processes. Writers take turns: two processes can never overspend
    together. When `charge` has returned, the charge is on disk.

    Examples
    --------
    >>> import tempfile
    >>> row = dict(unit=Unit(kind="row"), neighbors="add-remove")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(Path(folder) / "survey.ledger", epsilon=1, name="survey")
    ...     entry = ledger.charge([PureDP(epsilon=0.75, **row)], purpose="yearly table")
    ...     print(ledger.remaining().epsilon, ledger.verify() == entry.receipt)
    ...     print(ledger.quote([PureDP(epsilon=0.5, **row)]).problems[0])
    1/4 True
    epsilon 1/2 was asked for, but 1/4 remains: the ledger's cap is 1, 3/4 is spent and 0 is ...
    """

    def __init__(self, path: Path, *, timeout: float, seen: str | None = None) -> None:
        self.path = path
        self._timeout = timeout
        self._seen = seen  # the last head this object saw: the file must still contain it
        state = self._read()
        self.name = state.name
        self.cap = state.cap
        self.unit = state.unit
        self.neighbors: Neighbors = state.neighbors

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: Any,
        delta: Any = 0,
        unit: Unit | None = None,
        neighbors: Neighbors = "add-remove",
        name: str = "",
        timeout: float = 30.0,
    ) -> Self:
        """Start a ledger in a new file that only its owner may read.

        Parameters
        ----------
        path : path
            A file that does not exist yet, in a folder that does.
        epsilon, delta : number
            The cap: all charges together never exceed it. It cannot be changed later.
        unit : Unit, optional
            Who is protected; one row unless told.
        neighbors : {"add-remove", "replace"}
            The relation all charges must be for.
        name : str
            What the private data set is called.
        timeout : float
            How many seconds to wait while other processes write.
        """
        target = _resolve(path)
        unit = Unit(kind="row") if unit is None else unit
        if not isinstance(unit, Unit):
            raise ParameterError(f"unit is {unit!r}; give a Unit, such as Unit(kind='row').")
        record = {
            "seq": 0,
            "kind": "init",
            "time": _now(),
            "format": FORMAT,
            "name": _text("name", name, required=False),
            "epsilon": str(as_written(epsilon, name="epsilon")),
            "delta": str(as_written(delta, name="delta")),
            "unit": unit.model_dump(mode="json"),
            "neighbors": neighbors,
        }
        digest = _State().apply(record)  # refuses a bad cap before there is a file
        try:
            # Ours alone from the first moment: O_EXCL never opens somebody else's file.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise LedgerError(
                f"{target} exists already; a ledger is started once and never replaced. Open it, "
                "or choose another name."
            ) from None
        except OSError as error:
            raise LedgerError(
                f"{target} cannot be created: {error.strerror}. Choose an existing folder that you "
                "may write to."
            ) from error
        try:
            with _connection(target, timeout) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                for table in _TABLES:
                    connection.execute(table)
                connection.execute("INSERT INTO head VALUES (1, -1, ?)", (_NOTHING_BEFORE,))
                _append(connection, record, digest)
                connection.execute("COMMIT")
        except BaseException:
            target.unlink(missing_ok=True)  # it is the file made above, and holds nothing yet
            raise
        return cls(target, timeout=timeout, seen=digest)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Self:
        """Open a ledger and check its whole chain.

        Parameters
        ----------
        path : path
            The file that `create` made.
        timeout : float
            How many seconds to wait while other processes write.
        """
        return cls(_resolve(path), timeout=timeout)

    def quote(self, guarantees: Sequence[Guarantee], *, reservation: int | None = None) -> Quote:
        """Say what a charge would cost and leave; write nothing.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What one release promises, or several releases together.
        reservation : int, optional
            The reservation the charge would draw from.
        """
        _documents(guarantees)
        state = self._read()
        asked = state.cost(guarantees)
        problems = tuple(state.problems(asked, reservation))
        remaining = state.remaining
        return Quote(
            asked=asked,
            spent=state.spent,
            reserved=state.reserved,
            remaining=remaining,
            # What a reservation holds is no longer in ``remaining``, so drawing from it is free.
            remaining_after=remaining - asked if reservation is None else remaining,
            problems=problems,
        )

    def charge(
        self,
        guarantees: Sequence[Guarantee],
        *,
        purpose: str,
        reservation: int | None = None,
    ) -> Entry:
        """Record spending, durably, before the data is read; or refuse.

        A charge is never taken back by itself: after a crash it stays, since the release may have
        got out. Guarantees outside differential privacy are recorded but cannot be counted.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What the release promises.
        purpose : str
            What it is for, in words that may be shown.
        reservation : int, optional
            Draw from this reservation; no more than is left in it.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it.
        CompositionError
            If a promise is for another unit or relation than the ledger's.
        LedgerError
            If the file cannot be written, or is not what it was.
        """
        documents = _documents(guarantees)
        state, seq = self._write(
            "charge",
            purpose=_text("purpose", purpose),
            guarantees=documents,
            reservation=None if reservation is None else _number("reservation", reservation),
        )
        return state.entries[seq]

    def reserve(self, guarantees: Sequence[Guarantee], *, purpose: str) -> int:
        """Set budget aside for later charges, and return the reservation's number.

        Several charges may draw from one reservation, until it is used up or canceled.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            Differentially private promises; their sum is set aside.
        purpose : str
            What it is for, in words that may be shown.
        """
        documents = _documents(guarantees)
        _, seq = self._write("reserve", purpose=_text("purpose", purpose), guarantees=documents)
        return seq

    def release_reservation(self, reservation: int) -> None:
        """Cancel a reservation: what is left in it becomes available again."""
        self._write("cancel", reservation=_number("reservation", reservation))

    def mark_released(self, entry: int, digest: str) -> None:
        """Record that a charge's release is about to be visible. It can then never be voided.

        Call it before the release is moved into place: a crash in between then errs on the safe
        side, and an entry voided in the meantime stops the release.

        Parameters
        ----------
        entry : int
            Number of the charge.
        digest : str
            What identifies the release, such as the hash of its statement.
        """
        self._write("released", entry=_number("entry", entry), digest=_text("digest", digest))

    def void(self, entry: int, reason: str) -> None:
        """Declare that nothing computed from a charge was ever seen by anyone, and take it back.

        This is a person's statement, kept in the chain with its reason, and nothing else in the
        library makes it. It is refused for entries marked released.

        Parameters
        ----------
        entry : int
            Number of the charge.
        reason : str
            Who says so and why.
        """
        self._write("void", entry=_number("entry", entry), reason=_text("reason", reason))

    def entries(self) -> tuple[Entry, ...]:
        """Return all charges, oldest first, void ones included."""
        return tuple(self._read().entries.values())

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, oldest first, canceled ones included."""
        return tuple(self._read().reservations.values())

    def spent(self) -> Budget:
        """Return the sum of all charges that are not void."""
        return self._read().spent

    def reserved(self) -> Budget:
        """Return what open reservations still hold."""
        return self._read().reserved

    def remaining(self) -> Budget:
        """Return what may still be charged or reserved."""
        return self._read().remaining

    def verify(self, *, receipt: str | None = None) -> str:
        """Check the chain and every rule, and return the digest of the last record.

        Parameters
        ----------
        receipt : str, optional
            A digest noted earlier, such as `Entry.receipt` in a release's statement. The ledger
            must contain it: an older copy, or another ledger, does not.

        Raises
        ------
        LedgerError
            Naming every record that is not what it was.
        """
        state = self._read()
        if receipt is not None and receipt not in state.digests:
            raise LedgerError(
                f"{self.path} does not contain the receipt {receipt!r}: it is an older copy, "
                "another ledger, or was written anew. Find the file that the receipt came from."
            )
        return state.head

    def show(self) -> dict[str, Any]:
        """Return all there is to know, ready for JSON; numbers are exact, as text."""
        state = self._read()
        return {
            "format": FORMAT,
            "name": state.name,
            "created": state.created,
            "unit": state.unit.model_dump(mode="json", exclude_none=True),
            "neighbors": state.neighbors,
            "cap": state.cap.to_dict(),
            "spent": state.spent.to_dict(),
            "reserved": state.reserved.to_dict(),
            "remaining": state.remaining.to_dict(),
            "n_uncounted": sum(not entry.counted for entry in state.entries.values()),
            "entries": [entry.to_dict() for entry in state.entries.values()],
            "reservations": [
                {**reservation.to_dict(), "left": state.left.get(number, Budget()).to_dict()}
                for number, reservation in state.reservations.items()
            ],
            "head": state.head,
        }

    def _read(self) -> _State:
        with _connection(self.path, self._timeout) as connection:
            connection.execute("BEGIN")  # one snapshot for the records and the head
            return self._replay(connection)

    def _write(self, kind: str, **content: Any) -> tuple[_State, int]:
        """Add a record if the rules allow it, and return the state after it with its number."""
        with _connection(self.path, self._timeout) as connection:
            # Takes the write lock before reading, so nobody can spend between check and commit.
            connection.execute("BEGIN IMMEDIATE")
            state = self._replay(connection)
            seq = len(state.digests)
            record = {"seq": seq, "kind": kind, "time": _now(), **content}
            digest = state.apply(record)
            _append(connection, record, digest)
            connection.execute("COMMIT")
        self._seen = digest
        return state, seq

    def _replay(self, connection: sqlite3.Connection) -> _State:
        _check_format(connection, self.path)
        rows = connection.execute("SELECT seq, body, digest FROM records ORDER BY seq").fetchall()
        head = connection.execute("SELECT id, seq, digest FROM head").fetchall()
        problems = _chain_problems(rows, head)
        state = _State()
        if not problems:
            for seq, body, digest in rows:
                try:
                    intact = state.apply(json.loads(body)) == digest
                except (HushtableError, KeyError, TypeError, ValueError) as error:
                    problems.append(f"record {seq} breaks the ledger's rules: {error}")
                    break
                if not intact:  # the digest fits the text, but hushtable writes it otherwise
                    problems.append(f"record {seq} is not in the ledger's own spelling.")
                    break
        if not problems and self._seen is not None and self._seen not in state.digests:
            problems.append("the file was exchanged for another or an older one while in use.")
        if problems:
            raise LedgerError(
                [
                    f"{self.path} is not as hushtable wrote it; nothing is charged to it. Restore "
                    "the file from where it was last intact, and find out who changed it:",
                    *problems,
                ]
            )
        self._seen = state.head
        return state


def _chain_problems(
    rows: list[tuple[Any, Any, Any]], head: list[tuple[Any, Any, Any]]
) -> list[str]:
    """Say where digests and numbers do not follow from each other."""
    problems = []
    previous = _NOTHING_BEFORE
    for position, (seq, body, digest) in enumerate(rows):
        if seq != position:
            problems.append(f"record {position} is missing; record {seq} stands in its place.")
            break
        if not isinstance(body, str) or _digest(previous, body) != digest:
            problems.append(f"record {seq} was edited, exchanged or moved.")
        previous = digest
    if not problems and head != [(1, len(rows) - 1, previous)]:
        problems.append(f"the last records are missing, or the head was edited: {len(rows)} left.")
    return problems


def _append(connection: sqlite3.Connection, record: dict[str, Any], digest: str) -> None:
    seq = record["seq"]
    connection.execute("INSERT INTO records VALUES (?, ?, ?)", (seq, _canonical(record), digest))
    connection.execute("UPDATE head SET seq = ?, digest = ? WHERE id = 1", (seq, digest))


def _canonical(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _digest(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


# SQLite's bookkeeping of locks does not survive a fork in the middle of a transaction of another
# thread, so forks wait until none is under way, and threads take turns.
_NO_FORK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK.acquire,
        after_in_parent=_NO_FORK.release,
        after_in_child=_NO_FORK.release,
    )


@contextmanager
def _connection(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction; whatever goes wrong becomes a clear `LedgerError`."""
    try:
        with _NO_FORK, closing(_connect(path, timeout)) as connection:
            # EXTRA also syncs the folder after the journal is gone: without it a power cut right
            # after COMMIT could bring the journal back and roll an acknowledged charge back.
            # (In a new ledger the same sync makes the file's own name durable.)
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache
            yield connection  # closing without COMMIT rolls back
    except sqlite3.Error as error:
        raise LedgerError(_sqlite_problem(path, timeout, error)) from error
    except UnicodeDecodeError:  # SQLite quotes damaged bytes in its message
        raise LedgerError(f"{path} {_DAMAGED}.") from None


_DAMAGED = (
    "is damaged; restore it from a copy and verify that against the receipts in the releases' "
    "statements"
)


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: never create a file that is not there.
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def _sqlite_problem(path: Path, timeout: float, error: sqlite3.Error) -> str:
    # Extended codes carry the primary one in their low byte.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        if not path.exists():
            return f"{path} does not exist; start a ledger with `hushtable ledger init`."
        if path.is_dir():
            return f"{path} is a folder; name the ledger's file."
    explained = {
        sqlite3.SQLITE_BUSY: f"is in use by another process and was not free within {timeout:g} "
        "seconds; try again",
        sqlite3.SQLITE_READONLY: "is read-only, so nothing can be charged; make the file and its "
        "folder writable",
        sqlite3.SQLITE_FULL: "cannot grow: the disk is full; make room and try again",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened; make the file and its folder readable and "
        "writable for you",
        sqlite3.SQLITE_PERM: "may not be opened; make the file readable and writable for you",
        sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk",
        sqlite3.SQLITE_NOTADB: "is not a ledger; name the file that `hushtable ledger init` made",
        sqlite3.SQLITE_CORRUPT: _DAMAGED,
    }
    return f"{path} {explained.get(code, 'cannot be used')} ({error})."


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerError(
            f"{path} is not a ledger, or one whose start was interrupted; name the file that "
            "`hushtable ledger init` made."
        )
    if version != FORMAT:
        raise LedgerError(
            f"{path} has ledger format {version}, this version reads {FORMAT}; use the version of "
            "hushtable that wrote it, or a newer one."
        )


def _resolve(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{path!r} is not a path to a file: {error}.") from error


def _documents(guarantees: Sequence[Guarantee]) -> list[dict[str, Any]]:
    # A single guarantee is iterable too (over its fields), hence the check of both.
    if isinstance(guarantees, Guarantee) or not all(isinstance(g, Guarantee) for g in guarantees):
        raise ParameterError("guarantees must be a sequence of guarantees, such as [PureDP(...)].")
    if not guarantees:
        raise ParameterError("there is no guarantee; for a release without one give [NoGuarantee].")
    return [guarantee.to_dict() for guarantee in guarantees]


def _text(name: str, value: str, *, required: bool = True) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT or (required and not value.strip()):
        raise ParameterError(
            f"{name} must be text of 1 to {MAX_TEXT} characters; "
            + (f"{len(value)} were given." if isinstance(value, str) else f"{value!r} was given.")
        )
    return value


def _number(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(f"{name} must be a whole number, as `show` lists them; not {value!r}.")
    return value


def _now() -> str:
    # For people only: nothing is decided by the time, so a clock that jumps does no harm.
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _total(amounts: Iterable[Budget]) -> Budget:
    return sum(amounts, start=Budget())
