"""``hushtable ledger``: what may be spent on a table, what has been, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.screen import console, print_json, print_whole, tell, visible
from hushtable.errors import ParameterError

ledger_group = typer.Typer(
    name="ledger", no_args_is_help=True, help="Keep account of what has been spent."
)

LedgerPath = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.")]


@ledger_group.command("init")
def init(  # noqa: PLR0917 - the options of a command
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on epsilon.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on delta.")] = "0",
    schema: Annotated[
        Path | None,
        typer.Option(help="Schema of the table that it pays for; it is then bound to it."),
    ] = None,
    allow_uncounted: Annotated[
        bool,
        typer.Option(
            "--allow-uncounted",
            help="Take releases too that it cannot count; every statement will say so.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a ledger with a cap on what may be spent."""
    public = ht.Schema.load(schema) if schema is not None else None
    cap = _promise(epsilon, delta, unit=ht.Unit(kind="row"), neighbors="add-remove")
    ht.Ledger.create(
        file,
        epsilon=cap.epsilon,
        delta=cap.delta,
        schema=public,
        allow_uncounted=allow_uncounted,
    )
    tell(f"Started {file}.", as_json=as_json, ledger=str(file))


@ledger_group.command("show")
def show(
    file: LedgerPath,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON to standard output; its numbers are exact.")
    ] = False,
) -> None:
    """Show what has been spent and what is left, after checking the chain."""
    book = ht.Ledger.open(file)
    book.verify()
    content = book.show()
    if as_json:
        print_json(content)
        return
    _show_summary(content, protects=f"{book.unit.describe()}, neighbors {book.neighbors}")
    for what, became in (("entries", _entry_became), ("reservations", _reservation_became)):
        if content[what]:
            console.print(what.capitalize(), style="bold")
            print_whole(_table(content[what], became))
    if not content["entries"]:
        console.print("Nothing has been charged.")


@ledger_group.command("reserve")
def reserve(
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Epsilon to set aside.")],
    purpose: Annotated[str, typer.Option(help="What for.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Delta to set aside.")] = "0",
    as_json: AsJson = False,
) -> None:
    """Set budget aside; `publish --reservation` draws from it, `cancel` frees it."""
    book = ht.Ledger.open(file)
    promise = _promise(epsilon, delta, unit=book.unit, neighbors=book.neighbors)
    number = book.reserve([promise], purpose=purpose)
    tell(f"Reservation {number}.", as_json=as_json, reservation=number)


@ledger_group.command("cancel")
def cancel(
    file: LedgerPath,
    reservation: Annotated[int, typer.Argument(help="The reservation's number.")],
    as_json: AsJson = False,
) -> None:
    """Free what is left in a reservation; what was charged to it stays charged."""
    ht.Ledger.open(file).release_reservation(reservation)
    tell(f"Reservation {reservation} is canceled.", as_json=as_json, canceled=reservation)


@ledger_group.command("verify")
def verify(
    file: LedgerPath,
    receipt: Annotated[
        str | None, typer.Option(help="Digest from a statement that must be in the ledger.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that nobody changed the ledger, or exchanged it for an older copy."""
    ht.Ledger.open(file).verify(receipt=receipt)
    tell("The ledger is intact.", as_json=as_json, intact=True)


@ledger_group.command("upgrade")
def upgrade(file: LedgerPath, as_json: AsJson = False) -> None:
    """Count what is left of an old ledger's cap in both accounts; on record, for good."""
    ht.Ledger.open(file).upgrade()
    said = f"{visible(str(file))} has both accounts now. What was spent stays spent."
    tell(said, as_json=as_json, ledger=str(file))


@ledger_group.command("void")
def void(
    file: LedgerPath,
    entry: Annotated[int, typer.Argument(help="The entry's number.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    as_json: AsJson = False,
) -> None:
    """Give back a charge for which nothing was released: a person's decision, on record."""
    ht.Ledger.open(file).void(entry, reason)
    tell(f"Entry {entry} is void.", as_json=as_json, void=entry)


def _promise(epsilon: str, delta: str, **protects: Any) -> ht.PureDP | ht.ApproxDP:
    """Make the promise that costs so much, or name all that is wrong with the two numbers."""
    from hushtable.privacy.guarantee import check_delta, check_epsilon  # noqa: PLC0415 - slow
    from hushtable.privacy.rational import as_rational  # noqa: PLC0415

    amounts: dict[str, Fraction] = {}
    problems: list[str] = []
    for name, given, check in (("epsilon", epsilon, check_epsilon), ("delta", delta, check_delta)):
        try:
            amounts[name] = as_rational(given, name=name)
            if amounts[name] or name == "epsilon":
                check(amounts[name])
        except ParameterError as error:
            problems += error.problems
    if problems:
        raise ParameterError(problems)
    if amounts["delta"]:
        return ht.ApproxDP(**amounts, **protects)
    return ht.PureDP(epsilon=amounts["epsilon"], **protects)


# --- for people -----------------------------------------------------------------------------------


def _show_summary(content: Mapping[str, Any], *, protects: str) -> None:
    name = f"{_one_line(content['name'])}: " if content["name"] else ""
    console.print(
        f"{name}started {_time(content['created'])} UTC, counts for {visible(protects)}.",
        highlight=False,
    )
    for about in content["tables"]:
        since = f", since entry {about['record']}" if about["record"] else ""
        reason = f": {_one_line(about['reason'])}" if about["reason"] else ""
        console.print(
            f"Pays for {_one_line(about['name'])} (schema {about['digest'][:16]}){since}{reason}.",
            highlight=False,
        )
    if not content["tables"]:
        console.print("Not bound to a table yet; the first charge for one binds it.")
    if content["holds_uncounted"]:
        allowed = "It was started to take" if content["allow_uncounted"] else "It holds"
        console.print(
            f"WARNING: {allowed} releases that it does not count: {content['n_uncounted']} so far. "
            "What is spent says nothing about them, and no longer describes what is out.",
            style="bold red",
            highlight=False,
        )
    table = Table(box=None, header_style="bold")
    table.add_column("", no_wrap=True)
    for number in ("epsilon", "delta"):
        table.add_column(number, justify="right", no_wrap=True)
    for what in ("cap", "spent", "reserved", "remaining"):
        style = "bold" if what == "remaining" else None
        table.add_row(what, *_amounts(content[what]), style=style)
    print_whole(table)
    if content["concentrated"]:
        _show_concentrated(content["concentrated"])
    more = content["more_like_last"]
    if more is not None:
        releases = "release" if more == 1 else "releases"
        console.print(f"{more or 'No'} more {releases} like the last one fit.", highlight=False)


def _show_concentrated(account: Mapping[str, Any]) -> None:
    """Show the other account; a charge needs room in one of them."""
    table = Table(box=None, header_style="bold")
    table.add_column("or concentrated", no_wrap=True)
    for number in ("rho", "delta"):
        table.add_column(number, justify="right", no_wrap=True)
    for what in ("cap", "spent", "reserved", "remaining"):
        amounts = (_decimal(Fraction(account[what][number])) for number in ("rho", "delta"))
        table.add_row(what, *amounts, style="bold" if what == "remaining" else None)
    print_whole(table)
    console.print(
        f"Of the cap's delta, {_decimal(Fraction(account['basic_delta']))} is for basic "
        "composition. A release must fit one of the two accounts.",
        highlight=False,
    )


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
    """Say what became of a charge: where it was drawn from, and why it is void."""
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
    return _decimal(Fraction(budget["epsilon"])), _decimal(Fraction(budget["delta"]))


def _decimal(amount: Fraction) -> str:
    """Write an exact number as a decimal if it is a short one, and else what it is about.

    Examples
    --------
    >>> [_decimal(Fraction(text)) for text in ("3", "1/4", "1/1000000000", "2/3")]
    ['3', '0.25', '1e-9', 'about 0.6667']
    """
    with localcontext(prec=12):
        near = Decimal(amount.numerator) / Decimal(amount.denominator)
    exact = Fraction(near) == amount
    return str(near).lower() if exact else f"about {near:.4g}"
