"""What has been spent: one SQLite file per private data set.

The file holds a chain of records that only grows: the cap, charges, reservations, and what became
of them. Each record's digest covers the record and the digest before it, so an edited, removed or
reordered record breaks the chain. The state (spent, reserved, remaining) is stored nowhere; it is
replayed from the whole chain, with every rule checked again, each time the file is used.

What the chain cannot see is a file that was replaced as a whole, by an older copy or by one whose
digests were all computed anew. For that there are receipts: `Entry.receipt` goes into the release's
statement, the last one is kept beside the releases (`leave_receipt`), and a ledger that does not
contain it is refused. A record holds a random number, so a receipt tells nobody what was recorded,
how much, or after how many others.

A ledger is about the same people all the time. It is bound to the table of the schema it was
started with, or else of its first charge; another table needs a person's word, on record.

Spending adds up in two accounts, by basic composition and as concentrated differential privacy; a
charge is allowed while one of them has room. Both hold when each charge is chosen after seeing
earlier releases, up to a cap fixed beforehand. The proof is in ``ledger.md``.

Keep the file on a local disk: many network file systems do not lock reliably.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hushtable.errors import CompositionError, HushtableError, LedgerError, ParameterError
from hushtable.files.notebook import html_list, html_table
from hushtable.privacy import ledger_arguments as told
from hushtable.privacy import ledger_file as file
from hushtable.privacy import ledger_receipt as on_file
from hushtable.privacy.account import Budget, Loss
from hushtable.privacy.decision import Decision
from hushtable.privacy.guarantee import Guarantee, Neighbors, Unit, as_written
from hushtable.privacy.ledger_records import FORMAT, Entry, Quote, Reservation, canonical
from hushtable.privacy.ledger_state import State
from hushtable.privacy.ledger_summary import Left, left_of, summary
from hushtable.privacy.ledger_tables import BoundTable, parse_table, table_document

if TYPE_CHECKING:
    from hushtable.schema import Schema

__all__ = ["BoundTable", "Budget", "Entry", "Ledger", "Left", "Quote", "Reservation"]


class Ledger:
    """Record what has been spent on one private data set, and refuse what its cap does not allow.

    Use `create` once and `open` afterwards. Every call opens the file anew, so a ledger may be
    shared by threads and forked processes. Writers take turns: two processes can never overspend
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
    epsilon 1/2 was asked for, but 1/4 remains: the ledger's cap is 1, 3/4 is spent and 0 is ...
    """

    def __init__(self, path: Path, *, timeout: float, seen: str | None = None) -> None:
        self.path = path
        self._timeout = timeout
        self._seen = seen  # the last head this object saw: the file must still contain it
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
        schema: Schema | None = None,
        unit: Unit | None = None,
        neighbors: Neighbors = "add-remove",
        name: str = "",
        allow_uncounted: bool = False,
        decision: Decision | None = None,
        timeout: float = 30.0,
    ) -> Self:
        """Start a ledger in a new file that only its owner may read.

        Parameters
        ----------
        path : path
            A file that does not exist yet, in a folder that does.
        epsilon, delta : number
            The cap: all charges together never exceed it. It cannot be changed later.
        schema : Schema, optional
            Of the private table, to which the ledger is then bound: charges for any other are
            refused. It gives the unit, and the name unless told. Without it, the first charge
            that has a schema binds the ledger.
        unit : Unit, optional
            Who is protected; one row unless told.
        neighbors : {"add-remove", "replace"}
            The relation all charges must be for.
        name : str
            What the private data set is called.
        allow_uncounted : bool
            Take releases too that promise nothing a ledger can add up. It is on record and cannot
            be changed later, and the statements of all releases say it.
        decision : Decision, optional
            Who answers for the cap, why it is so large, and when to look at it again.
        timeout : float
            How many seconds to wait while other processes write.
        """
        target = told.resolved(path)
        if schema is not None:
            told.require_schema(schema)
            schema.require_confirmed()
            if unit is not None and unit != schema.unit:
                raise ParameterError("unit and schema disagree; leave out unit.")
            unit, name = schema.unit, name or schema.name
        unit = Unit(kind="row") if unit is None else unit
        if not isinstance(unit, Unit):
            raise ParameterError(f"unit is {unit!r}; give a Unit, such as Unit(kind='row').")
        record = {
            "seq": 0,
            "kind": "init",
            "time": told.now(),
            "format": FORMAT,
            "name": told.text("name", name, required=False),
            "epsilon": str(as_written(epsilon, name="epsilon")),
            "delta": str(as_written(delta, name="delta")),
            "unit": unit.model_dump(mode="json"),
            "neighbors": neighbors,
            "allow_uncounted": allow_uncounted,
            "table": table_document(schema),
            "salt": told.salt(),
            **told.decided(decision),
        }
        digest = State().apply(record)  # refuses a bad cap before there is a file
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
            with file.connection_to(target, timeout) as connection:
                file.start(connection, record, digest)
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
        return cls(told.resolved(path), timeout=timeout)

    def quote(
        self,
        guarantees: Sequence[Guarantee],
        *,
        reservation: int | None = None,
        schema: Schema | None = None,
        same_people: str | None = None,
    ) -> Quote:
        """Say what a charge would cost and leave; write nothing.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What one release promises, or several releases together.
        reservation : int, optional
            The reservation the charge would draw from.
        schema, same_people
            As for `charge`.
        """
        state, asked, refusals = self._ask(guarantees, schema, same_people)
        problems = (*refusals, *state.problems(asked, reservation))
        remaining = state.remaining
        # What a reservation holds is no longer in ``remaining``, so drawing from it is free.
        after = state.remaining_after(asked) if reservation is None else remaining
        return Quote(
            asked=asked.basic,
            spent=state.spent.basic,
            reserved=state.reserved.basic,
            remaining=remaining,
            remaining_after=after if problems else after.or_nothing,
            problems=problems,
        )

    def charge(
        self,
        guarantees: Sequence[Guarantee],
        *,
        purpose: str,
        reservation: int | None = None,
        schema: Schema | None = None,
        same_people: str | None = None,
        decision: Decision | None = None,
        prior: Mapping[str, str] | None = None,
    ) -> Entry:
        """Record spending, durably, before the data is read; or refuse.

        A charge is never taken back by itself: after a crash it stays, since the release may have
        got out. Releases that promise nothing of differential privacy cannot be counted, and are
        refused unless the ledger was started to allow them.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What the release promises.
        purpose : str
            What it is for, in words that may be shown.
        reservation : int, optional
            Draw from this reservation; no more than is left in it.
        schema : Schema, optional
            Of the table that is published. It must be one that the ledger is bound to; a ledger
            that is not bound yet is bound by it.
        same_people : str, optional
            A person's word, with the reason, that another table is about the same people, or
            that a release without a schema is (one of another tool, say). It is recorded, and the
            schema is accepted from then on.
        decision : Decision, optional
            Who answers for it, why it may cost so much, and when to look at it again.
        prior : mapping of str to str, optional
            Description of the prior that the release starts from, with the reason why it is public
            (``public``) if one was given.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it.
        CompositionError
            If a promise is for another unit or relation than the ledger's, or for other people,
            or cannot be counted.
        LedgerError
            If the file cannot be written, or is not what it was.
        """
        documents = told.documents(guarantees)
        if problems := self._other_unit(schema):
            raise CompositionError(problems)
        state, seq = self._write(
            "charge",
            purpose=told.text("purpose", purpose),
            guarantees=documents,
            reservation=None if reservation is None else told.number("reservation", reservation),
            **told.about(schema, same_people, decision),
            **told.starting_from(prior),
        )
        return state.entry(seq)

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
        schema: Schema | None = None,
        same_people: str | None = None,
    ) -> None:
        """Raise what `charge` would raise, and write nothing."""
        state, asked, refusals = self._ask(guarantees, schema, same_people)
        if refusals:
            raise CompositionError(refusals)
        state.afford(asked, reservation)

    def _ask(
        self, guarantees: Sequence[Guarantee], schema: Schema | None, same_people: str | None
    ) -> tuple[State, Loss, list[str]]:
        """Read the ledger; say what promises cost, and why it would not count them."""
        told.documents(guarantees)
        content = told.about(schema, same_people)
        state = self._read()
        asked = state.priced(guarantees)
        table = parse_table(content["table"], record=0)
        refusals = self._other_unit(schema) + state.refusals(asked, table, same_people)
        return state, asked.cost, refusals

    def _other_unit(self, schema: Schema | None) -> list[str]:
        """Refuse a table that counts something else: what is not counted says no unit itself."""
        if schema is None or schema.unit == self.unit:
            return []
        return [
            f"the schema protects {schema.unit.describe()}, the ledger counts for "
            f"{self.unit.describe()}. Keep another ledger for it."
        ]

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
        documents = told.documents(guarantees)
        _, seq = self._write("reserve", purpose=told.text("purpose", purpose), guarantees=documents)
        return seq

    def release_reservation(self, reservation: int) -> None:
        """Cancel a reservation: what is left in it becomes available again."""
        self._write("cancel", reservation=told.number("reservation", reservation))

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
        self._write(
            "released", entry=told.number("entry", entry), digest=told.text("digest", digest)
        )

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
        self._write("void", entry=told.number("entry", entry), reason=told.text("reason", reason))

    def upgrade(self) -> None:
        """Start the concentrated account in a ledger of an older format; it is on record.

        What was spent stays spent, by basic composition; from here on the rest of the cap is
        counted in both accounts. What was charged before can no longer be voided. Older versions
        of hushtable refuse the file afterwards.
        """
        self._write("upgrade")

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
        """Return what open reservations still hold."""
        return self._read().reserved.basic

    def remaining(self) -> Budget:
        """Return what may still be charged or reserved by basic composition.

        More may fit, since a charge is also allowed while the concentrated account has room;
        `quote` knows, and `left`.
        """
        return self._read().remaining

    def left(self) -> Left:
        """Return what is left in the words people think in: how many more releases, or how large.

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

    def leave_receipt(self, folder: str | os.PathLike[str]) -> None:
        """Keep the digest of the last record in a small file in the folder that holds releases."""
        with file.connection_to(self.path, self._timeout) as connection:
            # Holding the write lock, so that of two publishers the later one writes last.
            connection.execute("BEGIN IMMEDIATE")
            on_file.write(
                on_file.path_of(told.resolved(folder), self.id), self._replay(connection).head
            )

    def require_receipt(self, folder: str | os.PathLike[str]) -> None:
        """Refuse to go on if the receipt kept in the folder is not in this ledger."""
        path = on_file.path_of(told.resolved(folder), self.id)
        # Read before the chain: whoever put it there had committed the record by then.
        receipt = on_file.read(path)
        if receipt is not None and receipt not in self._read().digests:
            raise LedgerError(
                f"{self.path} is older than what was published from it: it does not contain the "
                f"receipt in {path}. Nothing was charged. Find the newest copy of the ledger. If "
                "it is lost, add up what the statements of all releases say was spent, and start a "
                "new ledger whose cap is what is left."
            )

    def tables(self) -> tuple[BoundTable, ...]:
        """Return the tables that the ledger is bound to, in the order in which they came."""
        return tuple(self._read().tables.values())

    def holds_uncounted(self) -> bool:
        """Tell whether releases may be among its own that add nothing to what is spent."""
        return self._read().holds_uncounted

    def _repr_html_(self) -> str:
        said = [f"Left: {self.left().in_words()}"]
        if self.holds_uncounted():
            said.append("It holds releases that it does not count.")
        entries = ([one.purpose, one.status, one.time] for one in self.entries())
        return (
            f"<h4>Ledger {escape(self.path.name)}</h4>{html_list(said)}"
            f"{html_table(['purpose', 'status', 'time (UTC)'], entries)}"
        )

    def show(self) -> dict[str, Any]:
        """Return all there is to know, ready for JSON; numbers are exact, as text."""
        return {"id": self.id, **summary(self._read())}

    def _read(self) -> State:
        with file.connection_to(self.path, self._timeout) as connection:
            connection.execute("BEGIN")  # one snapshot for the records and the head
            return self._replay(connection)

    def _write(self, kind: str, **content: Any) -> tuple[State, int]:
        """Add a record if the rules allow it, and return the state after it with its number."""
        with file.connection_to(self.path, self._timeout) as connection:
            # Takes the write lock before reading, so nobody can spend between check and commit.
            connection.execute("BEGIN IMMEDIATE")
            state = self._replay(connection)
            seq = len(state.digests)
            record = state.completed(
                {"seq": seq, "kind": kind, "time": told.now(), "salt": told.salt(), **content}
            )
            digest = state.apply(record, new=True)
            file.append(connection, record, digest)
            if kind == "upgrade":
                file.note_format(connection)
            connection.execute("COMMIT")
        self._seen = digest
        return state, seq

    def _replay(self, connection: sqlite3.Connection) -> State:
        version = file.check_format(connection, self.path)
        rows = connection.execute("SELECT seq, body, digest FROM records ORDER BY seq").fetchall()
        head = connection.execute("SELECT id, seq, digest FROM head").fetchall()
        problems = file.chain_problems(rows, head)
        state = State()
        if not problems:
            problems = _apply_all(state, rows)
        if not problems and state.format != version:
            problems.append(f"the file says format {version}, its first record {state.format}.")
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


# What a record that was made up may raise: our own refusals, and parts of another shape.
_BROKEN_RULES = (
    HushtableError, KeyError, TypeError, ValueError, AttributeError, RecursionError,
)  # fmt: skip

LONG = 1000
"""Records from which on it pays not to look for garbage meanwhile."""


def _apply_all(state: State, rows: Sequence[tuple[int, str, str]]) -> list[str]:
    """Take in all records of a sound chain, in order; say which is the first to break a rule."""
    with _without_collecting() if len(rows) >= LONG else nullcontext():
        for seq, body, digest in rows:
            try:
                record = json.loads(body)
                state.take_in(record, digest)
            except _BROKEN_RULES as error:
                return [f"record {seq} breaks the ledger's rules: {error}"]
            if canonical(record) != body:  # the digest fits it, but hushtable writes it otherwise
                return [f"record {seq} is not in the ledger's own spelling."]
    return []


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Spare a third of the time of long ledgers: all that is made stays, so none is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # nobody else keeps things frozen
                # All of it counts as old now; else the next object made would have it looked at.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
