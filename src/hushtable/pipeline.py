"""The pipeline from private table to release: plan, charge, connect, run, write."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from hushtable import engine as engines
from hushtable.engine import EngineName
from hushtable.engine.header import is_in_spark
from hushtable.errors import HushtableError, ParameterError
from hushtable.methods.base import Method, Released
from hushtable.methods.parameters import Parameters
from hushtable.payment import Payment
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.ledger import Entry, Ledger
from hushtable.privacy.noise import Noise
from hushtable.privacy.noise_sources import make_noise
from hushtable.release import SEEDED, LedgerReceipt, Release, Statement
from hushtable.release_writer import ReleaseWriter
from hushtable.schema import Schema
from hushtable.silence import OwnNote, silenced


@silenced
def publish(
    data: Any,
    schema: Schema | str | Path,
    method: Method,
    *,
    out: str | Path,
    ledger: Ledger | str | Path | None = None,
    reservation: int | None = None,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    purpose: str = "",
    same_people: str | None = None,
    receipt: str | None = None,
    memory_limit: str | None = None,
) -> Release:
    """Publish a private table with a promise.

    Everything that can be refused without reading a row is refused first. Then the spending is
    recorded, and only then is the table read: whatever goes wrong later, the charge stands.

    Parameters
    ----------
    data : path, Arrow table, data frame of pandas, polars or Spark, or ibis table
        The private table.
    schema : Schema or path
        What is public about it.
    method : Method
        How to publish, with its parameters.
    out : path
        The folder to make; it must not exist.
    ledger : Ledger or path, optional
        Where the spending is recorded. It pays for one schema, and refuses any other. The last
        receipt of it is kept beside the release, and asked for by the next one.
    reservation : int, optional
        A reservation in the ledger that this release uses up.
    engine : {"auto", "memory", "duckdb", "spark"}
        What counts. With ``spark``, Spark itself reads a path.
    noise : {"secure", "opendp"} or Noise
        Where randomness comes from.
    purpose : str
        Why, for the ledger.
    same_people : str, optional
        Your word, with the reason, that this table is about the same people as those that the
        ledger pays for; it goes on record.
    receipt : str, optional
        A receipt that the ledger must contain, such as the last release's.
    memory_limit : str, optional
        Limit for DuckDB, or memory of a Spark session that is started here, such as ``"1GB"``.

    Returns
    -------
    Release
        The release, on disk and complete.
    """
    source = make_noise(noise)
    schema = Schema.load(schema) if isinstance(schema, str | Path) else schema
    _require_nouns(schema, method)
    schema.require_confirmed()
    promised, forecast = method.guarantee(schema), method.forecast(schema, schema.rows)
    payment = Payment(
        ledger=ledger,
        reservation=reservation,
        purpose=purpose,
        same_people=same_people,
        receipt=receipt,
    )
    promised = promise(promised, schema, noise=source, payment=payment, out=out)
    if method.one_machine and (engine == "spark" or is_in_spark(data)):
        raise ParameterError(method.one_machine)
    table = engines.open(data, engine=engine, memory_limit=memory_limit)
    table.check(schema)
    return carry_out(
        method,
        schema,
        promised=promised,
        split=forecast.split,
        run=lambda: method.run(table.connect(schema, noise=source), source),
        noise=source,
        out=out,
        payment=payment,
    )


def _require_nouns(schema: object, method: object) -> None:
    problems = []
    if not isinstance(schema, Schema):
        problems.append(
            f"schema is a {type(schema).__name__}; give a Schema or the path of a schema file."
        )
    if not isinstance(method, Method):
        problems.append(
            f"method is {method!r}; give a method with its parameters, such as "
            "NoisyCounts(epsilon=1, delta=1e-6, k=10)."
        )
    if problems:
        raise ParameterError(problems)


@silenced
def carry_out(
    method: Parameters,
    schema: Schema,
    *,
    promised: tuple[Guarantee, ...],
    split: Mapping[str, Fraction],
    run: Callable[[], Released],
    noise: Noise,
    out: str | Path,
    payment: Payment,
) -> Release:
    """Charge, then run, then write: the one place where private data may be read.

    `promised` and `payment` are those of `promise`. `run` is called once, after the spending was
    recorded. What it reads stays private; what it returns is published.
    """
    book = payment.book
    with ReleaseWriter(out, seeded=not noise.is_private) as writer:
        entry = payment.charge(promised, schema, method=method.name)
        with _telling(entry, _STANDS):
            if book:
                # Before anything can be published: what is out is never newer than the receipt.
                book.leave_receipt(writer.folder.parent)
            released = run()
            statement = Statement(
                method=method.name,
                paper=method.paper,
                parameters=method.parameters(),
                guarantee=_in_short(promised) if noise.is_private else SEEDED,
                guarantees=promised,
                unprotected=(
                    *dict.fromkeys(s for p in promised for s in p.unprotected),
                    *schema.conditions,
                ),
                split={step: str(share) for step, share in split.items()},
                public_schema=schema.to_dict(),
                estimator={"kind": method.estimator, **released.estimator},
                tables=writer.add_tables(released.tables, schema),
                attachments=writer.add_attachments(released.attachments),
                ledger=LedgerReceipt(receipt=entry.receipt, uncounted=book.holds_uncounted())
                if book and entry
                else None,
                versions=_versions(),
                created=datetime.datetime.now(datetime.UTC).date().isoformat(),
            )
            writer.add_statement(statement)
            writer.make_durable()
            if book and entry:
                # Before the folder appears: what is out must never be voidable.
                book.mark_released(entry.id, _digest(statement))
        with _telling(entry, _FINAL):
            writer.move_into_place()
    return Release(writer.folder, statement)


def _digest(statement: Statement) -> str:
    """Give one digest for all tables of the release."""
    files = sorted((name, table.sha256) for name, table in statement.tables.items())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


_STANDS = (
    "Entry {entry} of the ledger was charged before the table was read, and nothing was published. "
    "The charge stands until a person takes it back with 'hushtable ledger void'. For a table, "
    "'hushtable schema check' finds what does not fit without a charge."
)
_FINAL = (
    "Entry {entry} of the ledger was charged and marked as released before the folder was to "
    "appear, so the charge cannot be taken back."
)


@contextmanager
def _telling(entry: Entry | None, what: str) -> Iterator[None]:
    """Add to a failure what it means for the ledger, and what a person may do about it."""
    try:
        yield
    except BaseException as error:
        if entry is None:
            raise
        said = what.format(entry=entry.id)
        if isinstance(error, HushtableError):
            raise type(error)([*error.problems, said]) from error
        error.add_note(OwnNote(said))  # whatever else it is, Ctrl-C included
        raise


def _versions() -> dict[str, str]:
    names = ("hushtable", "numpy", "duckdb", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def promise(
    guarantees: tuple[Guarantee, ...],
    schema: Schema,
    *,
    noise: Noise,
    payment: Payment,
    out: str | Path,
) -> tuple[Guarantee, ...]:
    """Say what is promised with this noise, and refuse what the ledger will not take."""
    if not noise.is_private:
        seeded = "the noise was drawn from a seed, so anybody can subtract it"
        guarantees = (NoGuarantee(reason=seeded),)
    payment.require(guarantees, schema, beside=Path(out).parent)
    return guarantees


def _in_short(guarantees: tuple[Guarantee, ...]) -> str:
    return "; ".join(guarantee.explain().rstrip(".") for guarantee in guarantees)
