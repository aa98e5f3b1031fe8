"""The run of a release: refuse, open, charge, release, write, finish."""

from __future__ import annotations

import datetime
import platform
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hushtable.engine.output_guard import silenced
from hushtable.errors import HushtableError, HushtableWarning, OwnNote, Refused
from hushtable.files.progress import Progress, counted, silent
from hushtable.files.writing import signals_held
from hushtable.methods.base import SUPPOSED_ROWS, Forecast, Plan, Released
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.ledger.payment import Payment, PaymentOptions
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.association_loss import KEPT_SETTING, as_plain, in_words
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED, LedgerReceipt, Statement, digest_of
from hushtable.release.writer import ReleaseWriter
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.engine.sealed_table import Counting
    from hushtable.privacy.ledger.records import Entry


_CHARGED = (
    "Entry {entry} of the ledger was charged before the table was read, and nothing was published. "
    "The charge remains until it is voided with 'hushtable ledger void'. For a table, "
    "'hushtable schema check' finds out-of-domain values without a charge."
)

_FINAL = (
    "Entry {entry} of the ledger was charged and marked as released before the folder was "
    "renamed, so the charge cannot be voided."
)

_COMPLETE = "The release is complete, and any charge for it stands: do not publish it again."


class PublishRun:
    """One publication of a plan; only its method `publish` reads private data.

    The caller calls `refuse`, then opens the source and checks it without reading a row, then calls
    `publish`. The order of the steps protects the custodian and the people in the table:

    - everything that can be refused from public inputs is refused before the charge;
    - the ledger records the charge before the source is read;
    - the receipt is stored before anything can be published, so that no release is newer than it;
    - the ledger marks the charge as released before the folder appears, so that the charge of a
      published release cannot be voided.

    Parameters
    ----------
    plan : Plan
        Plan of the release.
    noise : Noise
        Source of randomness.
    out : path
        Folder to create; it must not exist.
    paying : PaymentOptions, optional
        Payment and responsibility; without a ledger, nothing is recorded.
    progress : Progress
        Called with the current phase and the approximate share of work done.
    whole : Schema, optional
        Schema of the table that the ledger identifies, if the plan covers only some columns.
    series : mapping, optional
        Place of the release in a series, for the settings of the estimator. Its `conditions` are
        added to those of the promise.
    """

    def __init__(
        self,
        plan: Plan[Any],
        *,
        noise: Noise,
        out: str | Path,
        paying: PaymentOptions | None = None,
        progress: Progress = silent,
        whole: Schema | None = None,
        series: Mapping[str, Any] | None = None,
    ) -> None:
        self._series = dict(series or {})
        self._plan, self._noise, self._out, self._progress = plan, noise, Path(out), progress
        self._charged_schema = whole or plan.schema
        self._payment = Payment.of(paying or {})
        self._ledger = self._payment.opened_ledger
        self._entry: Entry | None = None  # entry of the ledger, set by the charge
        self._outcome = ""  # state of charge and release, which is added to errors
        self._promised: tuple[Guarantee, ...] = plan.guarantees
        if not noise.is_private:
            seeded = "the noise was drawn from a seed, so anyone can subtract it"
            self._promised = (NoGuarantee(reason=seeded),)

    def refuse(self, *, rows: int | None = None, anyway: bool = False) -> None:
        """Raise if public inputs rule out the release: it is uninformative, or not paid for."""
        if not anyway:
            _require_informative(self._plan, rows)
        self._payment.require(self._promised, self._charged_schema, beside=self._out.parent)
        self._require_paid_prior()

    @silenced
    def publish(
        self,
        read: Callable[[], Counting],
        *,
        rows: int | None = None,
        on_forecast: Callable[[Forecast], None] | None = None,
    ) -> Release:
        """Charge, read, write and publish.

        `read` reads the private data; it is called once, after the charge. `on_forecast` is called
        with the forecast when all checks have passed, right before the charge.
        """
        try:
            with ReleaseWriter(self._out, seeded=not self._noise.is_private) as writer:
                if on_forecast is not None:
                    plan = self._plan
                    on_forecast(plan.forecast(plan.schema.expected_rows(rows)))
                # Compute this before the run: after it, a method that allows a limited number of
                # views may refuse.
                split = self._plan.step_epsilons(self._plan.schema.rows)
                self._charge()
                released = self._release(read)
                statement = self._write(released, writer, split)
                self._finish(statement, writer)
                for warning in released.warnings:
                    # Last, since users may turn warnings into errors.
                    warnings.warn(warning, HushtableWarning, stacklevel=2)
        except HushtableError as error:
            if not self._outcome:
                raise
            raise type(error)([*error.problems, self._outcome]) from error
        except BaseException as error:
            if self._outcome:
                error.add_note(OwnNote(self._outcome))  # for every other error, including Ctrl-C
            raise
        return Release(self._out, statement)

    # --- steps ------------------------------------------------------------------------------------

    def _charge(self) -> None:
        """Record the cost in the ledger, and store the receipt where the release will be."""
        self._progress("charging", 0.05)
        plan = self._plan
        with signals_held():
            self._entry = self._payment.charge(
                self._promised,
                self._charged_schema,
                method=plan.method.name,
                prior=_recorded_prior(plan),
            )
            if self._entry:
                self._outcome = _CHARGED.format(entry=self._entry.id)
        if self._ledger:
            self._ledger.leave_receipt(self._out.parent)

    def _release(self, read: Callable[[], Counting]) -> Released:
        """Read the source, run the plan, check its cost against the promise, and enforce rules."""
        self._progress("counting", 0.1)
        furthest = 0.0

        def on_query(n_queries: int, share: float) -> None:
            nonlocal furthest
            furthest = min(max(furthest, share), 1.0)  # parallel parts report their own shares
            drawn = f"{n_queries:,} noisy answer{'s' * (n_queries != 1)}"
            self._progress(counted("counting", drawn), 0.1 + 0.8 * furthest)

        released = self._plan.accounted(read(), self._noise, on_query=on_query).released
        return _keeping_rules(released, self._plan.schema, self._noise)

    def _write(
        self, released: Released, writer: ReleaseWriter, split: Mapping[str, Fraction]
    ) -> Statement:
        """Write tables and statement to a hidden folder, and flush it to disk."""
        self._progress("writing", 0.9)
        plan, entry = self._plan, self._entry
        method, schema = plan.method, plan.schema
        unprotected = [sentence for one in self._promised for sentence in one.unprotected]
        unprotected = [*dict.fromkeys(unprotected), *plan.conditions]
        unprotected += self._series.get("conditions", ())
        place = {name: told for name, told in self._series.items() if name != "conditions"}
        if method.sees_exact_counts:
            unprotected.append(f"This method sees exact counts: {method.sees_exact_counts}")
        promises = "; ".join(promise.explain().rstrip(".") for promise in self._promised)
        receipt = None
        if self._ledger and entry:
            receipt = LedgerReceipt(receipt=entry.receipt, uncounted=self._ledger.holds_uncounted())
        statement = Statement(
            method=method.name,
            paper=method.paper,
            parameters=method.parameters(),
            guarantee=promises if self._noise.is_private else SEEDED,
            guarantees=self._promised,
            unprotected=tuple(unprotected),
            split={step: str(share) for step, share in split.items()},
            public_schema=schema.to_dict(),
            estimator={
                "kind": method.estimator_kind,
                **_settings(plan, released),
                **({"series": place} if place else {}),
            },
            tables=writer.add_tables(released.tables, schema),
            attachments=writer.add_attachments(released.attachments),
            ledger=receipt,
            decision=self._payment.stated,
            versions=_versions(),
            created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        )
        writer.add_statement(statement)
        writer.make_durable()
        return statement

    def _finish(self, statement: Statement, writer: ReleaseWriter) -> None:
        """Mark the charge as released, then rename the folder to its final name."""
        with signals_held():
            if self._ledger and self._entry:
                self._ledger.mark_released(self._entry.id, digest_of(statement))
                self._outcome = _FINAL.format(entry=self._entry.id)
            writer.move_into_place()
            self._outcome = _COMPLETE
        self._progress("done", 1.0)

    def _require_paid_prior(self) -> None:
        """Refuse a prior that the ledger did not pay for, unless it is stated why it is public."""
        prior, ledger = self._plan.starts_from, self._ledger
        if ledger is None or prior is None or self._plan.why_public is not None:
            return
        unpaid = [one for one in prior.releases if not ledger.paid_for(one.receipt, one.digest)]
        if unpaid:
            raise Refused(
                [
                    *(
                        f"prior {one.name!r} is a release that this ledger did not pay for; its "
                        f"cost ({one.cost_in_words}) would be missing from the ledger."
                        for one in unpaid
                    ),
                    "Use a release that this ledger paid for, leave out the prior, or say in words "
                    "why it is public (prior_public, --prior-public): the reason is recorded in "
                    "the ledger and in the statement. Nothing was charged.",
                ]
            )


def _require_informative(plan: Plan[Any], rows: int | None) -> None:
    """Raise `Refused` if the release would be uninformative, by public numbers alone.

    For the calibration of a paper, only warn, so that its experiments can be repeated.
    """
    known = plan.schema.expected_rows(rows)
    expected = SUPPOSED_ROWS if known is None else known
    why = plan.uninformative(expected)
    if not why:
        return
    assumed = ""
    if known is None:
        assumed = ", because the schema states no number; give an approximate one (rows, --rows)"
    max_rows = plan.schema.unit.max_rows or 1
    lower = f", or lower max_rows (it is {max_rows})" if max_rows > 1 else ""
    if plan.follows_paper:
        warnings.warn(f"Forecast: {why}", HushtableWarning, stacklevel=2)
        return
    raise Refused(
        [
            f"This release would be empty: every count would be mostly noise. Forecast: {why}",
            f"The forecast is for {expected:,} rows{assumed}. Nothing was charged and nothing "
            f"read. Raise epsilon, publish fewer columns (--columns){lower}; 'hushtable plan' "
            "shows what to expect. To publish all the same, pass --anyway (anyway=True).",
        ]
    )


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


def _settings(plan: Plan[Any], released: Released) -> dict[str, Any]:
    """Return the estimator's settings, with notes on warnings and on association lost in rows."""
    settings, notes = dict(released.settings), list(released.warnings)
    notes += settings.get("notes", [])
    kept: dict[tuple[str, str], float] = {}
    # Tables that executors write have too many rows for one machine.
    if all(isinstance(table, pa.Table) for table in released.tables.values()):
        # The release is paid for; a missing note must not prevent it.
        with suppress(ArithmeticError, np.linalg.LinAlgError):
            kept = plan.association_kept(released)
    note = in_words(kept)
    notes += [] if note is None else [note]
    return {**settings, KEPT_SETTING: as_plain(kept), "notes": notes}


def _versions() -> dict[str, str]:
    names = ("hushtable", "numpy", "duckdb", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def _recorded_prior(plan: Plan[Any]) -> dict[str, str] | None:
    """Return what the ledger records about the prior."""
    prior, reason = plan.starts_from, plan.why_public
    if prior is None:
        return None
    return prior.described | ({} if reason is None else {"public": reason})
