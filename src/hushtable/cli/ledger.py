"""``hushtable ledger``: the privacy budget of a table: cap, charges and remainder.

Parameters
----------
file : FILE
    Ledger file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import (
    AsJson,
    CommandGroup,
    stated_decision,
)
from hushtable.cli.plain import print_json, visible
from hushtable.cli.screen import bars, console, print_whole, require_new_files, tell, text
from hushtable.errors import ParameterError
from hushtable.privacy.values import rounded

ledger_group = CommandGroup(
    name="ledger", no_args_is_help=True, help="Manage the privacy budget of a table."
)


@ledger_group.command("init")
def init(
    file: Path,
    *,
    epsilon: str,
    delta: str = "0",
    schema: Path | None = None,
    allow_uncounted: bool = False,
    responsible: str = "",
    reason: str = "",
    review_by: str = "",
    as_json: AsJson = False,
) -> None:
    """Create a ledger with a cap on the total privacy budget.

    Parameters
    ----------
    epsilon : NUMBER
        Cap on epsilon.
    delta : NUMBER
        Cap on delta.
    schema
        Bind the ledger to the table with this schema.
    allow_uncounted
        Also accept releases whose cost cannot be counted; every statement will say so.
    """
    from hushtable.schema.linked_schema import load_persons  # noqa: PLC0415 - keeps other commands quick

    public = load_persons(schema) if schema is not None else None
    cap = _promise(epsilon, delta, unit=ht.Unit(kind="row"), neighbors="add-remove")
    ht.Ledger.create(
        file,
        epsilon=cap.epsilon,
        delta=cap.delta,
        schema=public,
        allow_uncounted=allow_uncounted,
        decision=stated_decision(responsible, reason, review_by),
    )
    tell(f"Created {file}.", as_json=as_json, ledger=str(file))


@ledger_group.command("show")
def show(file: Path, *, as_json: AsJson = False, html: Path | None = None) -> None:
    """Verify the ledger, then show charges and the remaining budget.

    Parameters
    ----------
    as_json
        Write JSON with exact numbers to standard output.
    html : FILE
        Write the account to a new .html file.
    """
    require_new_files(page=html, numbers=None)
    book = ht.Ledger.open(file)
    content = book.show()
    protects = f"{book.unit.describe()}, neighbors {book.neighbors}"
    if html is not None:
        from hushtable.evaluation.report.pages import write_ledger  # noqa: PLC0415 - an extra

        write_ledger(html, content, protects=protects)
    if as_json:
        print_json(content)
        return
    show_account(content, protects=protects)
    if html is not None:
        console.print(f"Wrote {html}. Internal: for the ledger's custodian.")


@ledger_group.command("reserve")
def reserve(
    file: Path,
    *,
    epsilon: str,
    purpose: str,
    delta: str = "0",
    composition: Literal["basic", "zcdp", "gaussian"] = "basic",
    as_json: AsJson = False,
) -> None:
    """Reserve budget; `publish --reservation` charges it, `cancel` frees it.

    Parameters
    ----------
    epsilon : NUMBER
        Epsilon to reserve.
    purpose
        Purpose, recorded in the ledger.
    delta : NUMBER
        Delta to reserve.
    composition
        What to reserve: gaussian for quilt and linked, zcdp for a series.
    """
    from hushtable.privacy.composition import concentrated_share  # noqa: PLC0415 - slow to import
    from hushtable.privacy.gaussian_dp import gaussian_share  # noqa: PLC0415

    book = ht.Ledger.open(file)
    promise = _promise(epsilon, delta, unit=book.unit, neighbors=book.neighbors)
    if composition != "basic":
        if not isinstance(promise, ht.ApproxDP):
            raise ParameterError(f"--composition {composition} needs a delta, such as 1e-6.")
        name, share = {"zcdp": ("rho", concentrated_share), "gaussian": ("mu", gaussian_share)}[
            composition
        ]
        cost = share(promise.epsilon, promise.delta)
        promise = ht.ApproxDP.model_validate(dict(promise) | {name: cost})
    number = book.reserve([promise], purpose=purpose)
    tell(f"Reservation {number}.", as_json=as_json, reservation=number)


@ledger_group.command("review")
def review(
    file: Path,
    *,
    responsible: str = "",
    reason: str = "",
    review_by: str = "",
    as_json: AsJson = False,
) -> None:
    """Record a review or a change of the responsible person; what is not given stays."""
    ht.Ledger.open(file).review(stated_decision(responsible, reason, review_by) or ht.Decision())
    tell("Recorded the review.", as_json=as_json, ledger=str(file))


@ledger_group.command("cancel")
def cancel(file: Path, reservation: int, *, as_json: AsJson = False) -> None:
    """Cancel a reservation and free its remainder; charges to it remain.

    Parameters
    ----------
    reservation
        Number of the reservation.
    """
    ht.Ledger.open(file).release_reservation(reservation)
    tell(f"Reservation {reservation} is canceled.", as_json=as_json, canceled=reservation)


@ledger_group.command("verify")
def verify(file: Path, *, receipt: str | None = None, as_json: AsJson = False) -> None:
    """Check that the ledger was not modified or, with --receipt, replaced by an older copy.

    Parameters
    ----------
    receipt
        Receipt from a statement; it must be in the ledger.
    """
    ht.Ledger.open(file).verify(receipt=receipt)
    tell("The ledger is intact.", as_json=as_json, intact=True)


@ledger_group.command("void")
def void(file: Path, entry: int, *, reason: str, as_json: AsJson = False) -> None:
    """Refund a charge for which nothing was released; the decision is recorded.

    Parameters
    ----------
    entry
        Number of the entry.
    reason
        Justification, recorded in the ledger.
    """
    ht.Ledger.open(file).void(entry, reason)
    tell(f"Entry {entry} is void.", as_json=as_json, void=entry)


def _promise(epsilon: str, delta: str, **protects: Any) -> ht.PureDP | ht.ApproxDP:
    """Return the promise with this epsilon and delta; report the problems of both together."""
    from hushtable.privacy.rational import as_rational  # noqa: PLC0415
    from hushtable.privacy.values import check_delta, check_epsilon  # noqa: PLC0415 - slow

    amounts: dict[str, Fraction] = {}
    problems: list[str] = []
    for name, given, check in (("epsilon", epsilon, check_epsilon), ("delta", delta, check_delta)):
        try:
            amounts[name] = as_rational(given, name=name)
            if amounts[name] or name == "epsilon":
                check(amounts[name])
        except ParameterError as error:
            problems += error.problems
    ParameterError.raise_if_any(problems)
    if amounts["delta"]:
        return ht.ApproxDP(**amounts, **protects)
    return ht.PureDP(epsilon=amounts["epsilon"], **protects)


# Terminal output of ``hushtable ledger show``.

MOST_BARS = 60


def show_account(content: Mapping[str, Any], *, protects: str) -> None:
    """Print the content that `Ledger.show` returns."""
    _show_what_it_is_for(content, protects=protects)
    _show_accounts(content)
    _show_history(content["history"])
    console.print(Text.assemble(("Left", "bold"), f": {content['left']['in_words']}"))
    for what, became in (("entries", _entry_became), ("reservations", _reservation_became)):
        if content[what]:
            console.print(what.capitalize(), style="bold")
            print_whole(_table(content[what], became))
    for entry in content["entries"]:
        _show_decision(f"Entry {entry['id']}", entry["decision"])
        if entry["prior"]:
            _show_prior(f"Entry {entry['id']}", entry["prior"])
    if not content["entries"]:
        console.print("Nothing has been charged.")


def _show_what_it_is_for(content: Mapping[str, Any], *, protects: str) -> None:
    name = f"{_one_line(content['name'])}: " if content["name"] else ""
    epsilon, delta = _amounts(content["cap"])
    console.print(
        text(
            "ledger_for",
            name=name,
            created=_time(content["created"]),
            protects=visible(protects),
            epsilon=epsilon,
            delta=delta,
        )
    )
    _show_decision("The cap", content["decision"])
    for one in content["reviews"]:
        said = "; ".join(_one_line(text) for name, text in one.items() if name != "time")
        console.print(f"Reviewed {_time(one['time'])} UTC: {said}.")
    for about in content["tables"]:
        since = f", since entry {about['record']}" if about["record"] else ""
        reason = f": {_one_line(about['reason'])}" if about["reason"] else ""
        console.print(
            f"Pays for {_one_line(about['name'])} (schema {about['digest'][:16]}){since}{reason}."
        )
    if not content["tables"]:
        console.print("Not bound to a table yet; the first charge for one binds it.")
    if content["holds_uncounted"]:
        allowed = "This ledger accepts" if content["allow_uncounted"] else "This ledger contains"
        console.print(
            text("uncounted", allowed=allowed, n=content["n_uncounted"]),
            style="bold red",
        )


def _show_decision(what: str, stated: Mapping[str, str]) -> None:
    """Print the recorded decision, and whether its review is overdue."""
    if not stated:
        return
    said = [
        f"{words} {_one_line(stated[name])}"
        for name, words in (
            ("responsible", "responsible:"),
            ("reason", "reason:"),
            ("review_by", "review by"),
        )
        if name in stated
    ]
    console.print(f"{what}: {'; '.join(said)}.")
    if ht.Decision(**stated).is_overdue(datetime.now(UTC).date()):
        console.print(f"{what}: the review is overdue.", style="bold red")


def _show_prior(what: str, prior: Mapping[str, str]) -> None:
    """Print the prior of a release, and the reason that it is public, if stated."""
    reason = f"; public, because: {_one_line(prior['public'])}" if "public" in prior else ""
    name = f"{prior['kind']} {_one_line(prior['name'])} ({prior['sha256'][:16]})"
    console.print(f"{what}: starts from the {name}{reason}.")


def _show_accounts(content: Mapping[str, Any]) -> None:
    """Print what each account in use has spent of its limit, in one table."""
    from hushtable.privacy.ledger.summary import ACCOUNTS  # noqa: PLC0415 - keeps help quick

    table = Table(box=None, header_style="bold")
    for name in ("account", "counts"):
        table.add_column(name, no_wrap=True)
    parts = ("limit", "spent", "reserved")
    for name in parts:
        table.add_column(name, justify="right", no_wrap=True)
    used = [account for account in ACCOUNTS if content[account]]
    for account in used:
        label = account
        for number, symbol in ACCOUNTS[account].items():
            amounts = (rounded(Fraction(content[account][part][number])) for part in parts)
            table.add_row(label, symbol, *amounts)
            label = ""
    print_whole(table)
    if len(used) > 1:
        console.print("A release must fit one of the accounts; they share delta.")


def _show_history(history: Sequence[Mapping[str, Any]]) -> None:
    """Draw the used share of each account over time."""
    from hushtable.privacy.ledger.summary import ACCOUNTS  # noqa: PLC0415 - keeps help quick

    if len(history) < 2:
        return
    times = [datetime.fromisoformat(step["time"]) for step in history]
    width = max(2, min(MOST_BARS, console.width - 24))
    first, last = min(times), max(times)  # a clock may have been set back
    spans = _spans(times, width) if last > first else [range(i, i + 1) for i in range(len(times))]
    console.print(
        Text.assemble(
            ("Spent over time", "bold"),
            f", {_time(first.isoformat())} to {_time(last.isoformat())} UTC",
        )
    )
    for account in ACCOUNTS:
        if history[-1][account] is None:
            continue
        shares = [max(history[step][account] or 0 for step in span) for span in spans[-width:]]
        full = history[-1][account]
        now = f"{100 * full:.3g}%" if full <= 1 else "full"
        console.print(f"  {account:<12}  {bars(shares)}  {now}")


def _spans(times: Sequence[datetime], width: int) -> list[range]:
    """Return, for each of `width` equally spaced times, the steps in force since the previous one.

    Examples
    --------
    >>> day = [datetime(2020, 1, n) for n in (1, 2, 3, 9)]
    >>> [list(span) for span in _spans(day, 3)]  # short steps are not skipped
    [[0], [0, 1, 2], [2, 3]]
    """
    ordered = sorted(times)
    span = ordered[-1] - ordered[0]
    last = [
        bisect_right(ordered, ordered[0] + span * column / (width - 1)) - 1
        for column in range(width)
    ]
    return [range(before, at + 1) for before, at in zip([0, *last], last, strict=False)]


def _table(records: list[dict[str, Any]], became: Callable[[Mapping[str, Any]], str]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("number", "time (UTC)"):
        table.add_column(name, no_wrap=True)
    has_receipts = any("receipt" in record for record in records)
    if has_receipts:
        table.add_column("receipt", no_wrap=True)
    table.add_column("purpose", min_width=12, overflow="fold")
    for name in ("epsilon", "delta"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", min_width=8, overflow="fold")
    for record in records:
        amounts = _amounts(record["cost" if "cost" in record else "amount"])
        if not record.get("counted", True):
            amounts = ("not counted", "")
        purpose, time = _one_line(record["purpose"]), _time(record["time"])
        receipt = (record["receipt"][:16],) if has_receipts else ()
        table.add_row(str(record["id"]), time, *receipt, purpose, *amounts, became(record))
    return table


def _entry_became(entry: Mapping[str, Any]) -> str:
    """Return the status of a charge, with its reservation and the reason if it is void."""
    source = f", from reservation {entry['reservation']}" if entry["reservation"] else ""
    reason = f": {_one_line(entry['note'])}" if entry["status"] == "void" else ""
    return f"{entry['status']}{source}{reason}"


def _reservation_became(reservation: Mapping[str, Any]) -> str:
    if reservation["left"] == reservation["amount"] or reservation["status"] != "open":
        return str(reservation["status"])
    epsilon, delta = _amounts(reservation["left"])
    return f"open, epsilon {epsilon} and delta {delta} left"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _time(written: str) -> str:
    return written[:16].replace("T", " ")


def _amounts(budget: Mapping[str, str]) -> tuple[str, str]:
    return rounded(Fraction(budget["epsilon"])), rounded(Fraction(budget["delta"]))
