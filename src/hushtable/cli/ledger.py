"""``hushtable ledger``: what may be spent on a table, what has been, and what is left."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

import hushtable as ht
from hushtable.cli.findings import require_new_files
from hushtable.cli.options import AsJson, Reason, Responsible, ReviewBy, stated_decision
from hushtable.cli.plain import print_json, visible
from hushtable.cli.screen import console, tell
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
        typer.Option(help="Schema of what it pays for; it is then bound to it."),
    ] = None,
    allow_uncounted: Annotated[
        bool,
        typer.Option(
            "--allow-uncounted",
            help="Take releases too that it cannot count; every statement will say so.",
        ),
    ] = False,
    responsible: Responsible = "",
    reason: Reason = "",
    review_by: ReviewBy = "",
    as_json: AsJson = False,
) -> None:
    """Start a ledger with a cap on what may be spent."""
    from hushtable.schema.linked import load_persons  # noqa: PLC0415 - keeps other commands quick

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
    tell(f"Started {file}.", as_json=as_json, ledger=str(file))


@ledger_group.command("show")
def show(
    file: LedgerPath,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON to standard output; its numbers are exact.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="New .html file for the account.")
    ] = None,
) -> None:
    """Show what has been spent and what is left, after checking the chain."""
    from hushtable.cli.ledger_account import show_account  # noqa: PLC0415 - only for this command

    require_new_files(page=html, numbers=None)
    book = ht.Ledger.open(file)
    content = book.show()
    protects = f"{book.unit.describe()}, neighbors {book.neighbors}"
    if html is not None:
        from hushtable.evaluation.report.ledger_page import write_ledger  # noqa: PLC0415 - an extra

        write_ledger(html, content, protects=protects)
    if as_json:
        print_json(content)
        return
    show_account(content, protects=protects)
    if html is not None:
        console.print(f"Wrote {html}; it is for whoever keeps the ledger.", highlight=False)


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
