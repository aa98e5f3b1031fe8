"""``hushtable ledger``: the privacy budget of a table: cap, charges and remainder."""

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
    name="ledger", no_args_is_help=True, help="Manage the privacy budget of a table."
)

LedgerPath = Annotated[Path, typer.Argument(metavar="FILE", help="Ledger file.")]


@ledger_group.command("init")
def init(  # noqa: PLR0917 - the options of a command
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on epsilon.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on delta.")] = "0",
    schema: Annotated[
        Path | None,
        typer.Option(help="Bind the ledger to the table with this schema."),
    ] = None,
    allow_uncounted: Annotated[
        bool,
        typer.Option(
            "--allow-uncounted",
            help="Also accept releases whose cost cannot be counted; every statement will say so.",
        ),
    ] = False,
    responsible: Responsible = "",
    reason: Reason = "",
    review_by: ReviewBy = "",
    as_json: AsJson = False,
) -> None:
    """Create a ledger with a cap on the total privacy budget."""
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
def show(
    file: LedgerPath,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON with exact numbers to standard output.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the account to a new .html file."),
    ] = None,
) -> None:
    """Verify the ledger, then show charges and the remaining budget."""
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
        console.print(f"Wrote {html}. Internal: for the ledger's custodian.", highlight=False)


@ledger_group.command("reserve")
def reserve(
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Epsilon to reserve.")],
    purpose: Annotated[str, typer.Option(help="Purpose, recorded in the ledger.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Delta to reserve.")] = "0",
    as_json: AsJson = False,
) -> None:
    """Reserve budget; `publish --reservation` charges it, `cancel` frees it."""
    book = ht.Ledger.open(file)
    promise = _promise(epsilon, delta, unit=book.unit, neighbors=book.neighbors)
    number = book.reserve([promise], purpose=purpose)
    tell(f"Reservation {number}.", as_json=as_json, reservation=number)


@ledger_group.command("cancel")
def cancel(
    file: LedgerPath,
    reservation: Annotated[int, typer.Argument(help="Number of the reservation.")],
    as_json: AsJson = False,
) -> None:
    """Cancel a reservation and free its remainder; charges to it remain."""
    ht.Ledger.open(file).release_reservation(reservation)
    tell(f"Reservation {reservation} is canceled.", as_json=as_json, canceled=reservation)


@ledger_group.command("verify")
def verify(
    file: LedgerPath,
    receipt: Annotated[
        str | None, typer.Option(help="Receipt from a statement; it must be in the ledger.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the ledger was not modified or, with --receipt, replaced by an older copy."""
    ht.Ledger.open(file).verify(receipt=receipt)
    tell("The ledger is intact.", as_json=as_json, intact=True)


@ledger_group.command("upgrade")
def upgrade(file: LedgerPath, as_json: AsJson = False) -> None:
    """Add the concentrated account to an old ledger, with its remaining budget; permanent."""
    ht.Ledger.open(file).upgrade()
    said = f"{visible(str(file))} now has both accounts. Earlier charges remain."
    tell(said, as_json=as_json, ledger=str(file))


@ledger_group.command("void")
def void(
    file: LedgerPath,
    entry: Annotated[int, typer.Argument(help="Number of the entry.")],
    reason: Annotated[str, typer.Option(help="Justification, recorded in the ledger.")],
    as_json: AsJson = False,
) -> None:
    """Refund a charge for which nothing was released; the decision is recorded."""
    ht.Ledger.open(file).void(entry, reason)
    tell(f"Entry {entry} is void.", as_json=as_json, void=entry)


def _promise(epsilon: str, delta: str, **protects: Any) -> ht.PureDP | ht.ApproxDP:
    """Return the promise with this epsilon and delta; report the problems of both together."""
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
