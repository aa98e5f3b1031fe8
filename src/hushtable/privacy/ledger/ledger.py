"""Ledger: a record of privacy spending, one SQLite file per private data set.

The file contains a chain of records that only grows: the cap, charges, reservations, and their
later status. Each record's digest covers the record and the previous digest, so an edited, removed
or reordered record breaks the chain. The state (spent, reserved, remaining) is not stored. Each
time the file is used, it is computed by replaying the whole chain and checking every rule again.

The chain cannot reveal that a file was replaced as a whole, by an older copy or by one whose
digests were all recomputed. Receipts do: `Entry.receipt` is part of the release's statement, the
last one is stored beside the releases (`leave_receipt`), and a ledger that does not contain it is
refused. Each record contains a random salt, so a receipt does not reveal what was recorded, how
much, or after how many other records.

A ledger is always about the same people. It is bound to the table of the schema it was created
with, or of its first charge. To charge for another table, a person must confirm that it is about
the same people; the ledger records this.

Spending is composed in three ways: by basic composition, as zero-concentrated differential privacy
(zCDP) and as Gaussian differential privacy. A charge is admitted if one of them stays within its
limit. All are valid if charges are chosen after seeing earlier releases, up to a cap fixed
beforehand. The proof is in ``ledger.md``.

Keep the file on a local disk: many network file systems do not lock reliably.
"""

from __future__ import annotations

import gc
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Self

from hushtable.errors import CompositionError, HushtableError, LedgerError, ParameterError
from hushtable.files.html import html_list, html_table
from hushtable.files.writing import replace_whole, write_failures_as
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.budget import Budget, Loss
from hushtable.privacy.ledger.records import (
    FORMAT,
    MAX_TEXT,
    BoundTable,
    Decision,
    Entry,
    LedgerTable,
    Quote,
    Reservation,
    canonical,
    parse_table,
    table_document,
)
from hushtable.privacy.ledger.state import LedgerState
from hushtable.privacy.ledger.summary import RemainingBudget, left_of, summary
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import as_written

# Checks of arguments of ledger functions, before a file is opened or written.


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file; raise `LedgerError` if it is not a path."""
    try:
        return Path(path).resolve()
    except (OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{path!r} is not a path to a file: {error}.") from error


def guarantee_documents(guarantees: Sequence[Guarantee]) -> list[dict[str, Any]]:
    """Return guarantees as written in records."""
    # A single guarantee is iterable too (over its fields), hence the check of both.
    if isinstance(guarantees, Guarantee) or not all(isinstance(g, Guarantee) for g in guarantees):
        raise ParameterError("guarantees must be a sequence of guarantees, such as [PureDP(...)].")
    if not guarantees:
        raise ParameterError("guarantees is empty; for a release without one, pass [NoGuarantee].")
    return [guarantee.to_dict() for guarantee in guarantees]


def text(name: str, value: str, *, required: bool = True) -> str:
    """Return a text for a record; raise `ParameterError` if it is too long or empty."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or (required and not value.strip()):
        raise ParameterError(
            f"{name} must be text of 1 to {MAX_TEXT} characters; "
            + (f"{len(value)} were given." if isinstance(value, str) else f"{value!r} was given.")
        )
    return value


def require_schema(schema: object) -> None:
    """Raise `ParameterError` if the argument is not a schema."""
    if not hasattr(schema, "digest"):  # records contain only the digest of a schema
        raise ParameterError(f"schema is a {type(schema).__name__}; pass a Schema.")


def about(
    schema: LedgerTable | None, same_people: str | None, decision: Decision | None = None
) -> dict[str, Any]:
    """Return the part of a record about its table, the same-people reason and the decision."""
    if schema is not None:
        require_schema(schema)
    if same_people is not None:
        text("same_people", same_people)
    return {"table": table_document(schema), "same_people": same_people, **decided(decision)}


def decided(decision: Decision | None) -> dict[str, Any]:
    """Return the decision as part of a record; empty if nothing is stated."""
    if decision is not None and not isinstance(decision, Decision):
        raise ParameterError(f"decision is a {type(decision).__name__}; pass a Decision.")
    return {"decision": decision.to_dict()} if decision is not None and decision.is_stated else {}


def starting_from(prior: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the part of a record about the prior of a release; empty if there is none."""
    if prior is None:
        return {}
    return {"prior": {name: text(f"prior ({name})", said) for name, said in prior.items()}}


def number(name: str, value: int) -> int:
    """Return the number of a record; raise `ParameterError` if it is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(f"{name} must be an integer, as listed by `show`; not {value!r}.")
    return value


def now() -> str:
    """Return the time for a record."""
    # For information only: no rule depends on the time, so changes of the clock do no harm.
    return datetime.now(UTC).isoformat(timespec="microseconds")


def new_record(seq: int, kind: str) -> dict[str, Any]:
    """Return the part that all records have: number, kind, time and a random salt."""
    # Without the salt, someone with two receipts could guess the records between them.
    return {"seq": seq, "kind": kind, "time": now(), "salt": secrets.token_hex(16)}


# Last receipt of a ledger, stored in a small file beside the releases that it paid for.
#
# A ledger restored from an old copy looks intact, because its chain of records is valid. A later
# receipt, stored elsewhere, reveals the rollback. The file contains nothing else: the receipt is a
# digest of records with random salts, so it reveals nothing about them. It may be published with
# the releases.

_RECEIPT = re.compile(rb"([0-9a-f]{64})\n?")


def path_of(folder: Path, ledger: str) -> Path:
    """Return the path of the file with the last receipt of a ledger."""
    return folder / f"ledger-{ledger}.receipt"


def read(path: Path) -> str | None:
    """Return the stored receipt, or None if the file does not exist."""
    try:
        with path.open("rb") as file:
            found = _RECEIPT.fullmatch(file.read(100))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be read ({error.strerror}), so it is unknown whether the ledger is an "
            "old copy. Make the file readable for you."
        ) from error
    if found is None:
        raise LedgerError(
            f"{path} does not contain a receipt, so it is unknown whether the ledger is an old "
            "copy. Write the receipt of the last release into it, from its statement.json."
        )
    return found[1].decode()


def write(path: Path, receipt: str) -> None:
    """Replace the stored receipt atomically; the caller must exclude concurrent writers."""
    with write_failures_as(LedgerError, f"the receipt cannot be written to {path}"):
        replace_whole(path, f"{receipt}\n")


class Ledger:
    """Record of the privacy spending on one private data set, which enforces a cap.

    Use `create` once and `open` afterwards. Every call opens the file again, so threads and forked
    processes may share a ledger. Writers are serialized: two processes can never overspend
    together. When `charge` has returned, the charge is on disk.

    Examples
    --------
    >>> import tempfile
    >>> from hushtable.privacy.guarantee import PureDP
    >>> row = dict(unit=Unit(kind="row"), neighbors="add-remove")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(Path(folder) / "survey.ledger", epsilon=1, name="survey")
    ...     entry = ledger.charge([PureDP(epsilon=0.75, **row)], purpose="yearly table")
    ...     print(ledger.remaining().epsilon, ledger.verify() == entry.receipt)
    ...     print(ledger.quote([PureDP(epsilon=0.5, **row)]).problems[0])
    1/4 True
    epsilon 1/2 was requested, but 1/4 remains: the ledger's cap is 1, 3/4 is spent and 0 is ...
    """

    def __init__(self, path: Path, *, timeout: float, seen: str | None = None) -> None:
        self.path = path
        self._timeout = timeout
        self._seen = seen  # the last head seen by this object, which the file must still contain
        state = self._read()
        self.id = state.digests[0][:16]
        self.name = state.name
        self.cap = state.cap
        self.unit = state.unit
        self.neighbors: Neighbors = state.neighbors
        self.allow_uncounted = state.allow_uncounted

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: Any,
        delta: Any = 0,
        schema: LedgerTable | None = None,
        unit: Unit | None = None,
        neighbors: Neighbors = "add-remove",
        name: str = "",
        allow_uncounted: bool = False,
        decision: Decision | None = None,
        timeout: float = 30.0,
    ) -> Self:
        """Create a ledger in a new file that only its owner may read.

        Parameters
        ----------
        path : path
            A file that does not exist yet, in a folder that does.
        epsilon, delta : number
            The cap: all charges together never exceed it. It cannot be changed later.
        schema : Schema, optional
            Schema of the private table. It binds the ledger: charges for any other table are
            refused unless `same_people` is given. It also sets the unit, and the name unless given.
            Without it, the first charge with a schema binds the ledger.
        unit : Unit, optional
            Unit of privacy; by default one row.
        neighbors : {"add-remove", "replace"}
            The neighbor relation of all charges.
        name : str
            Name of the private data set.
        allow_uncounted : bool
            Whether to accept releases whose promises a ledger cannot count. This is recorded,
            cannot be changed later, and is mentioned in the statements of all releases.
        decision : Decision, optional
            Who is responsible for the cap, its justification, and when to review it.
        timeout : float
            Seconds to wait while other processes write.
        """
        target = resolved(path)
        if schema is not None:
            require_schema(schema)
            schema.require_confirmed()
            if unit is not None and unit != schema.unit:
                raise ParameterError("unit and schema disagree; leave out unit.")
            unit, name = schema.unit, name or schema.name
        unit = Unit(kind="row") if unit is None else unit
        if not isinstance(unit, Unit):
            raise ParameterError(f"unit is {unit!r}; pass a Unit, such as Unit(kind='row').")
        record = {
            **new_record(0, "init"),
            "format": FORMAT,
            "name": text("name", name, required=False),
            "epsilon": str(as_written(epsilon, name="epsilon")),
            "delta": str(as_written(delta, name="delta")),
            "unit": unit.model_dump(mode="json"),
            "neighbors": neighbors,
            "allow_uncounted": allow_uncounted,
            "table": table_document(schema),
            **decided(decision),
        }
        digest = LedgerState().apply(record)  # raises for an invalid cap before a file is created
        try:
            # O_EXCL: never open an existing file; 0o600: readable by the owner from the start.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise LedgerError(
                f"{target} exists already; a ledger is created once and never replaced. Open it, "
                "or choose another name."
            ) from None
        except OSError as error:
            raise LedgerError(
                f"{target} cannot be created: {error.strerror}. Choose an existing folder that you "
                "may write to."
            ) from error
        try:
            with file.connection_to(target, timeout) as connection:
                file.start(connection, record, digest)
        except BaseException:
            target.unlink(missing_ok=True)  # the file created above, still empty
            raise
        return cls(target, timeout=timeout, seen=digest)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Self:
        """Open a ledger and check its whole chain.

        Parameters
        ----------
        path : path
            A file that `create` made.
        timeout : float
            Seconds to wait while other processes write.
        """
        return cls(resolved(path), timeout=timeout)

    def quote(
        self,
        guarantees: Sequence[Guarantee],
        *,
        reservation: int | None = None,
        schema: LedgerTable | None = None,
        same_people: str | None = None,
    ) -> Quote:
        """Return what a charge would cost and leave; write nothing.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What one release promises, or several releases together.
        reservation : int, optional
            The reservation that the charge would draw on.
        schema, same_people
            As for `charge`.
        """
        state, asked, refusals = self._ask(guarantees, schema, same_people)
        problems = (*refusals, *state.problems(asked, reservation))
        remaining = state.remaining
        # ``remaining`` excludes reserved amounts, so drawing from a reservation does not change it.
        after = state.remaining_after(asked) if reservation is None else remaining
        return Quote(
            asked=asked.basic,
            spent=state.spent.basic,
            reserved=state.reserved.basic,
            remaining=remaining,
            remaining_after=after if problems else after.or_nothing,
            n_admitted=state.account_for(asked).remaining_charges(state.total, asked),
            problems=problems,
        )

    def charge(
        self,
        guarantees: Sequence[Guarantee],
        *,
        purpose: str,
        reservation: int | None = None,
        schema: LedgerTable | None = None,
        same_people: str | None = None,
        decision: Decision | None = None,
        prior: Mapping[str, str] | None = None,
    ) -> Entry:
        """Record spending, durably, before the data is read; or raise an error.

        A charge is never reversed automatically: it stays after a crash, since the release may have
        become visible. Releases without differential privacy cannot be counted, and are refused
        unless the ledger allows them.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What the release promises.
        purpose : str
            Purpose, in words that may be shown.
        reservation : int, optional
            Draw from this reservation; no more than is left in it.
        schema : Schema, optional
            Schema of the table that is published. It must be one that the ledger is bound to; if
            the ledger is not yet bound, this binds it.
        same_people : str, optional
            A person's confirmation, with the reason, that another table is about the same people,
            or that a release without a schema is (for example, one of another tool). It is
            recorded, and the schema is accepted from then on.
        decision : Decision, optional
            Who is responsible, the justification of the cost, and when to review it.
        prior : mapping of str to str, optional
            Description of the prior that the release starts from, with the reason why it is public
            (``public``) if one was given.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it.
        CompositionError
            If a promise has another unit or neighbor relation than the ledger, is about other
            people, or cannot be counted.
        LedgerError
            If the file cannot be written, or was changed.
        """
        documents = guarantee_documents(guarantees)
        if problems := self._other_unit(schema):
            raise CompositionError(problems)
        state, seq = self._write(
            "charge",
            purpose=text("purpose", purpose),
            guarantees=documents,
            reservation=None if reservation is None else number("reservation", reservation),
            **about(schema, same_people, decision),
            **starting_from(prior),
        )
        return state.entries[seq]

    def paid_for(self, receipt: str | None, digest: str) -> bool:
        """Return whether a charge paid for the release with this receipt and digest.

        A charge that is marked as released can no longer be voided, so the answer stays true.

        Parameters
        ----------
        receipt : str or None
            The receipt in the release's statement.
        digest : str
            The digest of its tables, as for `mark_released`.
        """
        return any(
            (entry.receipt, entry.status, entry.note) == (receipt, "released", digest)
            for entry in self.entries()
        )

    def require(
        self,
        guarantees: Sequence[Guarantee],
        *,
        reservation: int | None = None,
        schema: LedgerTable | None = None,
        same_people: str | None = None,
    ) -> None:
        """Raise what `charge` would raise; write nothing."""
        state, asked, refusals = self._ask(guarantees, schema, same_people)
        CompositionError.raise_if_any(refusals)
        state.afford(asked, reservation)

    def _ask(
        self, guarantees: Sequence[Guarantee], schema: LedgerTable | None, same_people: str | None
    ) -> tuple[LedgerState, Loss, list[str]]:
        """Return the state, the cost of guarantees, and the reasons why they would be refused."""
        guarantee_documents(guarantees)
        content = about(schema, same_people)
        state = self._read()
        asked = state.priced(guarantees)
        table = parse_table(content["table"], record=0)
        refusals = self._other_unit(schema) + state.refusals(asked, table, same_people)
        return state, asked.cost, refusals

    def _other_unit(self, schema: LedgerTable | None) -> list[str]:
        """Return a problem if the schema's unit is not the ledger's."""
        if schema is None or schema.unit == self.unit:
            return []
        return [
            f"the schema protects {schema.unit.describe()}, but the ledger counts for "
            f"{self.unit.describe()}. Use another ledger for it."
        ]

    def reserve(self, guarantees: Sequence[Guarantee], *, purpose: str) -> int:
        """Reserve budget for later charges, and return the reservation's number.

        Several charges may draw from one reservation, until it is used up or canceled.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            Differentially private promises; their sum is reserved.
        purpose : str
            Purpose, in words that may be shown.
        """
        documents = guarantee_documents(guarantees)
        _, seq = self._write("reserve", purpose=text("purpose", purpose), guarantees=documents)
        return seq

    def release_reservation(self, reservation: int) -> None:
        """Cancel a reservation: what is left in it becomes available again."""
        self._write("cancel", reservation=number("reservation", reservation))

    def mark_released(self, entry: int, digest: str) -> None:
        """Record that a charge's release is about to become visible. It can then never be voided.

        Call it before the release is moved into place. A crash in between is then safe, and an
        entry voided in the meantime stops the release.

        Parameters
        ----------
        entry : int
            Number of the charge.
        digest : str
            Digest of the tables of the release, which `paid_for` compares.
        """
        self._write("released", entry=number("entry", entry), digest=text("digest", digest))

    def void(self, entry: int, reason: str) -> None:
        """Reverse a charge, declaring that no person ever saw anything that was computed under it.

        This is a person's statement, recorded in the chain with its reason; the library never makes
        it on its own. It is refused for entries marked released.

        Parameters
        ----------
        entry : int
            Number of the charge.
        reason : str
            Who declares this and why.
        """
        self._write("void", entry=number("entry", entry), reason=text("reason", reason))

    def review(self, decision: Decision) -> None:
        """Record a review of the cap: what was decided, who is responsible now, the next review.

        Parameters
        ----------
        decision : Decision
            What changes; parts that are not given stay.
        """
        if not decision.is_stated:
            raise ParameterError(
                "a review needs content; state who is responsible, what was decided or the date of "
                "the next review."
            )
        self._write("review", **decided(decision))

    def entries(self) -> tuple[Entry, ...]:
        """Return all charges, oldest first, void ones included."""
        return tuple(self._read().entries.values())

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, oldest first, canceled ones included."""
        return tuple(self._read().reservations.values())

    def spent(self) -> Budget:
        """Return the sum of all charges that are not void."""
        return self._read().spent.basic

    def reserved(self) -> Budget:
        """Return the remaining amount of open reservations."""
        return self._read().reserved.basic

    def remaining(self) -> Budget:
        """Return what may still be charged or reserved under basic composition.

        zCDP composition may admit more; see `quote` and `left`.
        """
        return self._read().remaining

    def left(self) -> RemainingBudget:
        """Return how many more releases like the last are admitted, and the largest epsilon of one.

        Examples
        --------
        >>> import tempfile
        >>> from hushtable.privacy.guarantee import PureDP
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger.create(Path(folder) / "survey.ledger", epsilon=3)
        ...     promise = PureDP(epsilon="0.7", unit=Unit(kind="row"), neighbors="add-remove")
        ...     entry = ledger.charge([promise], purpose="yearly table")
        ...     print(ledger.left().in_words())
        3 more releases like the last one (epsilon 0.7), or one of its kind with epsilon 2.3.
        """
        return left_of(self._read())

    def verify(self, *, receipt: str | None = None) -> str:
        """Check the chain and every rule, and return the digest of the last record.

        Parameters
        ----------
        receipt : str, optional
            A digest stored earlier, such as `Entry.receipt` in a release's statement. The ledger
            must contain it; an older copy or another ledger does not.

        Raises
        ------
        LedgerError
            If the chain is not intact, a record breaks a rule, or the receipt is not in it.
        """
        state = self._read()
        if receipt is not None and receipt not in state.digests:
            raise LedgerError(
                f"{self.path} does not contain the receipt {receipt!r}: it is an older copy, "
                "another ledger, or was rewritten. Find the file that the receipt came from."
            )
        return state.head

    def leave_receipt(self, folder: str | os.PathLike[str]) -> None:
        """Store the digest of the last record in a small file in the folder of releases."""
        with file.connection_to(self.path, self._timeout) as connection:
            # Holds the write lock, so that of two publishers the later one writes last.
            connection.execute("BEGIN IMMEDIATE")
            write(path_of(resolved(folder), self.id), self._replay(connection).head)

    def require_receipt(self, folder: str | os.PathLike[str]) -> None:
        """Raise `LedgerError` if this ledger does not contain the receipt stored in the folder."""
        path = path_of(resolved(folder), self.id)
        # Read before the chain: its record was committed before the receipt was written.
        receipt = read(path)
        if receipt is not None and receipt not in self._read().digests:
            raise LedgerError(
                f"{self.path} is older than what was published from it: it does not contain the "
                f"receipt in {path}. Nothing was charged. Find the newest copy of the ledger. If "
                "it is lost, add up the spending in the statements of all releases, and create a "
                "new ledger whose cap is the remaining budget."
            )

    def tables(self) -> tuple[BoundTable, ...]:
        """Return the tables that the ledger is bound to, oldest first."""
        return tuple(self._read().tables.values())

    def holds_uncounted(self) -> bool:
        """Return whether some of its releases may not be counted in what is spent."""
        return self._read().holds_uncounted

    def _repr_html_(self) -> str:
        said = [f"Left: {self.left().in_words()}"]
        if self.holds_uncounted():
            said.append("It contains releases that it does not count.")
        entries = ([one.purpose, one.status, one.time] for one in self.entries())
        return (
            f"<h4>Ledger {escape(self.path.name)}</h4>{html_list(said)}"
            f"{html_table(['purpose', 'status', 'time (UTC)'], entries)}"
        )

    def show(self) -> dict[str, Any]:
        """Return the full summary, ready for JSON; numbers are exact, as text."""
        return {"id": self.id, **summary(self._read())}

    def _read(self) -> LedgerState:
        with file.connection_to(self.path, self._timeout) as connection:
            connection.execute("BEGIN")  # one snapshot for the records and the head
            return self._replay(connection)

    def _write(self, kind: str, **content: Any) -> tuple[LedgerState, int]:
        """Add a record if the rules allow it; return the new state and the record's number."""
        with file.connection_to(self.path, self._timeout) as connection:
            # Take the write lock before reading, so that no other process spends before the commit.
            connection.execute("BEGIN IMMEDIATE")
            state = self._replay(connection)
            seq = len(state.digests)
            record = state.completed({**new_record(seq, kind), **content})
            digest = state.apply(record)
            file.append(connection, record, digest)
            connection.execute("COMMIT")
        self._seen = digest
        return state, seq

    def _replay(self, connection: sqlite3.Connection) -> LedgerState:
        file.check_format(connection, self.path)
        rows = connection.execute("SELECT seq, body, digest FROM records ORDER BY seq").fetchall()
        head = connection.execute("SELECT id, seq, digest FROM head").fetchall()
        problems = file.chain_problems(rows, head)
        state = LedgerState()
        if not problems:
            problems = _apply_all(state, rows)
        if not problems and self._seen is not None and self._seen not in state.digests:
            problems.append("the file was replaced by another or an older one while in use.")
        if problems:
            raise LedgerError(
                [
                    f"{self.path} is not as hushtable wrote it; nothing is charged to it. Restore "
                    "the last intact copy of the file, and find out who changed it:",
                    *problems,
                ]
            )
        self._seen = state.head
        return state


# What a forged record may raise: hushtable's own errors, and errors from a wrong structure.
_BROKEN_RULES = (
    HushtableError, KeyError, TypeError, ValueError, AttributeError, RecursionError,
)  # fmt: skip

LONG = 1000
"""Smallest number of records for which disabling the garbage collector pays off."""


def _apply_all(state: LedgerState, rows: Sequence[tuple[int, str, str]]) -> list[str]:
    """Replay all records of an intact chain; return the first violation of a rule, if any."""
    with _without_collecting() if len(rows) >= LONG else nullcontext():
        for seq, body, digest in rows:
            try:
                record = json.loads(body)
                state.replay(record, digest)
            except _BROKEN_RULES as error:
                return [f"record {seq} breaks the ledger's rules: {error}"]
            # The digest may match although hushtable never writes this form.
            if canonical(record) != body:
                return [f"record {seq} is not in canonical form."]
    return []


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Disable the garbage collector, which saves a third of the time in long ledgers."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # no other code uses gc.freeze
                # Move everything to the oldest generation; otherwise the next allocation would
                # trigger a collection of all of it.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
