"""The run of a release: refuse, open, charge, release, settle, write."""

from __future__ import annotations

import datetime
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hushtable.engine.cells import WrittenParts
from hushtable.engine.output_guard import silenced
from hushtable.errors import HushtableError, HushtableWarning, OwnNote, Refused
from hushtable.files.progress import Progress, counted, silent
from hushtable.files.signals import signals_held
from hushtable.methods.base import SUPPOSED_ROWS, Forecast, Plan, Released
from hushtable.methods.registry import estimator_for
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.ledger.ledger import Entry, Ledger
from hushtable.privacy.ledger.payment import Payment, PaymentOptions
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.association_loss import KEPT_SETTING, as_plain, in_words
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED, LedgerReceipt, Statement, digest_of
from hushtable.release.writer import ReleaseWriter
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.engine.sealed_table import Counting


EXACT_COUNTS_NOTE = "This method sees exact counts: {}"
"""Sentence of a statement for methods that see exact counts."""


def publish_plan(
    plan: Plan[Any],
    ready: Callable[[], Callable[[], Counting]],
    *,
    noise: Noise,
    out: str | Path,
    paying: PaymentOptions,
    rows: int | None = None,
    anyway: bool = False,
    on_forecast: Callable[[Forecast], None] | None = None,
    progress: Progress = silent,
    whole: Schema | None = None,
) -> Release:
    """Publish a plan in the only allowed order: refuse, prepare, charge, read.

    `ready` is called after all public checks. It opens the private data, checks that it can be
    read, and returns the function that reads it after the charge. Other arguments are as for
    `publish`, and `whole` as for `carry_out`.
    """
    if not anyway:
        _require_worth(plan, rows)
    payment = Payment.of(paying)
    promised = _promise(plan, noise=noise, payment=payment, out=out, whole=whole)
    return carry_out(
        plan,
        ready(),
        promised=promised,
        noise=noise,
        out=out,
        payment=payment,
        progress=progress,
        whole=whole,
        before_charge=None
        if on_forecast is None
        else lambda: on_forecast(plan.forecast(plan.schema.expected_rows(rows))),
    )


def _require_worth(plan: Plan[Any], rows: int | None) -> None:
    """Raise `Refused` if the release would be uninformative, by public numbers alone."""
    known = plan.schema.expected_rows(rows)
    expected = SUPPOSED_ROWS if known is None else known
    why = plan.uninformative(expected)
    if not why:
        return
    said = (
        ""
        if known is not None
        else (", because the schema states no number; give an approximate one (rows, --rows)")
    )
    max_rows = plan.schema.unit.max_rows or 1
    lower = f", or lower max_rows (it is {max_rows})" if max_rows > 1 else ""
    raise Refused(
        [
            f"This release would be empty: every count would be mostly noise. Forecast: {why}",
            f"The forecast is for {expected:,} rows{said}. Nothing was charged and nothing read. "
            f"Raise epsilon, publish fewer columns (--columns){lower}; 'hushtable plan' shows what "
            "to expect. To publish all the same, pass --anyway (anyway=True).",
        ]
    )


@silenced
def carry_out(
    plan: Plan[Any],
    open_source: Callable[[], Counting],
    *,
    promised: tuple[Guarantee, ...],
    noise: Noise,
    out: str | Path,
    payment: Payment,
    progress: Progress = silent,
    whole: Schema | None = None,
    before_charge: Callable[[], None] | None = None,
) -> Release:
    """Charge, run and write: the only function that reads private data.

    `promised` and `payment` are those of `publish_plan`. The source is opened once, after the
    charge was recorded. What is read stays private; only the output of the plan is published. If
    the plan covers only some columns, `whole` is the schema of the table that the ledger
    identifies. `before_charge` is called right before the charge, when all checks have passed.
    """
    method, schema, book = plan.method, plan.schema, payment.opened_ledger
    split = plan.step_epsilons(schema.rows)
    with _Outcome() as outcome, ReleaseWriter(out, seeded=not noise.is_private) as writer:
        if before_charge is not None:
            before_charge()
        progress("charging", 0.05)
        with signals_held():
            entry = payment.charge(
                promised, whole or schema, method=method.name, prior=_recorded_prior(plan)
            )
            outcome.reached(_STANDS, entry)
        if book:
            # Before anything can be published: what is out is never newer than the receipt.
            book.leave_receipt(writer.folder.parent)
        progress("counting", 0.1)
        # Before a byte is written: what was looked at must have cost what was promised.
        released = plan.accounted(
            open_source(), noise, on_query=_reporting_queries(progress)
        ).released
        released = _keeping_rules(released, schema, noise)
        progress("writing", 0.9)
        statement = _statement(
            plan, released, writer, promised=promised, split=split, noise=noise,
            payment=payment, entry=entry,
        )  # fmt: skip
        writer.add_statement(statement)
        writer.make_durable()
        with signals_held():
            if book and entry:
                # Before the folder appears: a published release must never be voidable.
                book.mark_released(entry.id, digest_of(statement))
            outcome.reached(_FINAL, entry)
            writer.move_into_place()
            outcome.reached(_COMPLETE)
        progress("done", 1.0)
        for warning in released.warnings:
            # Now that nothing can be lost any more: a user may have made errors of warnings.
            warnings.warn(warning, HushtableWarning, stacklevel=2)
    return Release(writer.folder, statement)


def _statement(
    plan: Plan[Any],
    released: Released,
    writer: ReleaseWriter,
    *,
    promised: tuple[Guarantee, ...],
    split: Mapping[str, Fraction],
    noise: Noise,
    payment: Payment,
    entry: Entry | None,
) -> Statement:
    """Write the tables and return the statement of the release."""
    method, schema, book = plan.method, plan.schema, payment.opened_ledger
    return Statement(
        method=method.name,
        paper=method.paper,
        parameters=method.parameters(),
        guarantee=_in_short(promised) if noise.is_private else SEEDED,
        guarantees=promised,
        unprotected=(
            *dict.fromkeys(s for p in promised for s in p.unprotected),
            *plan.conditions,
            *(
                [EXACT_COUNTS_NOTE.format(method.sees_exact_counts)]
                if method.sees_exact_counts
                else []
            ),
        ),
        split={step: str(share) for step, share in split.items()},
        public_schema=schema.to_dict(),
        estimator=_add_association_note(
            {"kind": method.estimator_kind, **_warned(released)},
            schema,
            method.parameters(),
            released.tables,
        ),
        tables=writer.add_tables(released.tables, schema),
        attachments=writer.add_attachments(released.attachments),
        ledger=LedgerReceipt(receipt=entry.receipt, uncounted=book.holds_uncounted())
        if book and entry
        else None,
        decision=payment.stated,
        versions=_versions(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _reporting_queries(progress: Progress) -> Callable[[int, float], None]:
    """Return a callback that reports noisy answers; the share spent measures progress."""
    furthest = 0.0

    def on_query(n_queries: int, share: float) -> None:
        nonlocal furthest
        furthest = min(max(furthest, share), 1.0)  # parallel parts report their own shares
        drawn = f"{n_queries:,} noisy answer{'s' * (n_queries != 1)}"
        progress(counted("counting", drawn), 0.1 + 0.8 * furthest)

    return on_query


def _keeping_rules(released: Released, schema: Schema, noise: Noise) -> Released:
    """Replace published rows that break a rule by rows that satisfy all (`rules.md`)."""
    rows = released.tables.get("data")
    if not schema.rules or not isinstance(rows, pa.Table):
        return released
    if rows.column_names != list(schema.attributes):
        return released  # cells or regions with counts, which the release expands to rows
    from hushtable.query.where.rules import keep_rules  # noqa: PLC0415 - slow to import

    kept = keep_rules(rows, schema, noise=noise)
    return replace(released, tables={**released.tables, "data": kept})


def _warned(released: Released) -> dict[str, Any]:
    """Return the settings with the warnings as first notes."""
    settings = dict(released.settings)
    if released.warnings:
        settings["notes"] = [*released.warnings, *settings.get("notes", [])]
    return settings


def _add_association_note(
    settings: dict[str, Any],
    schema: Schema,
    parameters: Mapping[str, Any],
    tables: Mapping[str, pa.Table | WrittenParts],
) -> dict[str, Any]:
    """Add a note on association lost in the rows, estimated from the release."""
    here = {name: table for name, table in tables.items() if isinstance(table, pa.Table)}
    if len(here) < len(tables):
        return settings  # there are too many rows for one machine
    try:
        kept = estimator_for(settings, schema, parameters, here).association_kept()
    except Exception:  # the release is paid for; a missing note must not prevent it
        kept = {}
    told = in_words(kept)
    notes = [*settings.get("notes", []), *([told] if told else [])]
    return {**settings, KEPT_SETTING: as_plain(kept), "notes": notes}


_STANDS = (
    "Entry {entry} of the ledger was charged before the table was read, and nothing was published. "
    "The charge remains until it is voided with 'hushtable ledger void'. For a table, "
    "'hushtable schema check' finds out-of-domain values without a charge."
)

_FINAL = (
    "Entry {entry} of the ledger was charged and marked as released before the folder was "
    "renamed, so the charge cannot be voided."
)

_COMPLETE = "The release is complete, and any charge for it stands: do not publish it again."


class _Outcome:
    """State of charge and release, which is added to any error that ends a run."""

    def __init__(self) -> None:
        self._said = ""

    def reached(self, said: str, entry: Entry | None = None) -> None:
        """Note how far the run has come; without a ledger nothing is charged."""
        self._said = said.format(entry=entry.id) if entry else said if said == _COMPLETE else ""

    def __enter__(self) -> _Outcome:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is None or not self._said:
            return
        if isinstance(error, HushtableError):
            raise type(error)([*error.problems, self._said]) from error
        error.add_note(OwnNote(self._said))  # whatever else it is, Ctrl-C included


def _versions() -> dict[str, str]:
    names = ("hushtable", "numpy", "duckdb", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def _promise(
    plan: Plan[Any],
    *,
    noise: Noise,
    payment: Payment,
    out: str | Path,
    whole: Schema | None = None,
) -> tuple[Guarantee, ...]:
    """Return the guarantees with this noise; raise if the ledger does not admit them."""
    promised = plan.guarantees
    if not noise.is_private:
        seeded = "the noise was drawn from a seed, so anyone can subtract it"
        promised = (NoGuarantee(reason=seeded),)
    payment.require(promised, whole or plan.schema, beside=Path(out).parent)
    _require_paid_prior(plan, payment.opened_ledger)
    return promised


def _require_paid_prior(plan: Plan[Any], book: Ledger | None) -> None:
    """Refuse a prior whose cost the ledger does not contain, unless a person says it is public."""
    prior = plan.starts_from
    if book is None or prior is None or plan.why_public is not None:
        return
    unpaid = [one for one in prior.releases if not book.paid_for(one.receipt, one.digest)]
    if unpaid:
        raise Refused(
            [
                *(
                    f"prior {one.name!r} is a release that this ledger did not pay for; its cost "
                    f"({one.cost_in_words}) would be missing from the ledger."
                    for one in unpaid
                ),
                "Use a release that this ledger paid for, leave out the prior, or say in words why "
                "it is public (prior_public, --prior-public): the reason is recorded in the ledger "
                "and in the statement. Nothing was charged.",
            ]
        )


def _recorded_prior(plan: Plan[Any]) -> dict[str, str] | None:
    """Return what the ledger records about the prior."""
    prior, reason = plan.starts_from, plan.why_public
    if prior is None:
        return None
    return prior.described | ({} if reason is None else {"public": reason})


def _in_short(guarantees: tuple[Guarantee, ...]) -> str:
    return "; ".join(guarantee.explain().rstrip(".") for guarantee in guarantees)
