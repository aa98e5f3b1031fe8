"""The command line; the options of a method are its fields."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from hushtable.audit_cli import audit_app
from hushtable.compare_cli import compare
from hushtable.errors import HushtableError, ParameterError
from hushtable.evaluate_cli import evaluate
from hushtable.graph_cli import graph_app
from hushtable.method_options import with_method_options
from hushtable.methods import METHODS
from hushtable.methods.base import Forecast, Method
from hushtable.pipeline import publish as publish_table
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.rational import as_rational
from hushtable.release import Release, SeededReleaseWarning
from hushtable.schema import Schema

app = typer.Typer(
    name="hushtable",
    help="Publish tables about people with a promise that is written down and checked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
schema_app = typer.Typer(no_args_is_help=True, help="Draft and check the public schema.")
plan_app = typer.Typer(no_args_is_help=True, help="Promise, budget and expected error; no data.")
publish_app = typer.Typer(no_args_is_help=True, help="Publish a private table.")
ledger_app = typer.Typer(no_args_is_help=True, help="Keep account of what has been spent.")
app.add_typer(schema_app, name="schema")
app.add_typer(plan_app, name="plan")
app.add_typer(publish_app, name="publish")
app.add_typer(ledger_app, name="ledger")
app.add_typer(graph_app, name="graph")
app.add_typer(audit_app, name="audit")
app.command()(evaluate)
app.command()(compare)

SchemaPath = Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema, a YAML file.")]
DataPath = Annotated[str, typer.Argument(metavar="DATA", help="A CSV or Parquet file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")]
LedgerPath = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]

# Names and texts from files must not be taken for markup.
console = Console(markup=False, emoji=False)


def _print_json(content: Any) -> None:
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


# --- commands ------------------------------------------------------------------------------


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: what each does and which paper it is from."""
    if as_json:
        _print_json({n: {"summary": m.summary, "paper": m.paper} for n, m in METHODS.items()})
        return
    table = Table("method", "what it does", "from", box=None, header_style="bold")
    for name, method in METHODS.items():
        table.add_row(name, method.summary, method.paper)
    console.print(table)


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
) -> None:
    """Publish the embedded sample and ask it a few questions."""
    from hushtable.demo import run_demo  # noqa: PLC0415 - only this command needs it

    run_demo(out, Console())


_DRAFT_HEADER = """\
# Drafted from the private table, for the custodian's eyes. What stands under 'confirm' was taken
# from the data: check it against public knowledge, correct it, and delete the mark. Lists and
# bounds must be what anybody could know, not what happens to occur.
"""


@schema_app.command("draft")
def schema_draft(
    data: DataPath,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
) -> None:
    """Propose a schema for a table; what it took from the data is marked `confirm`."""
    from hushtable.drafting import draft  # noqa: PLC0415 - only this command needs it

    text = _DRAFT_HEADER + draft(data).to_yaml()
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists():
        raise ParameterError(f"{str(output)!r} exists; choose another file or remove it.")
    try:
        # What it took from the data is not public yet, so the file is the owner's alone.
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ParameterError(f"cannot write {str(output)!r}: {error.strerror}.") from None
    console.print(
        f"Wrote {output}. Check every line marked 'confirm' against public knowledge, correct it "
        "and delete the mark; publish refuses until then."
    )


@schema_app.command("check")
def schema_check(schema: SchemaPath, data: DataPath, as_json: AsJson = False) -> None:
    """Tell every way in which a table breaks its schema (for the custodian's eyes)."""
    from hushtable.engine import connect  # noqa: PLC0415 - keeps the other commands quick

    public = Schema.load(schema)
    engine = connect(data, public)
    breaks = engine.rule_breaks()
    unconfirmed = [name for name, column in public.attributes.items() if column.confirm]
    if as_json:
        _print_json(
            {
                "rule_breaks": [dataclasses.asdict(problem) for problem in breaks],
                "unconfirmed": unconfirmed,
            }
        )
    else:
        for problem in breaks:
            console.print(str(problem), soft_wrap=True, highlight=False)
        if unconfirmed:
            console.print(f"Still to confirm: {', '.join(unconfirmed)}.")
        if not breaks and not unconfirmed:
            console.print("The table fits its schema.")
    if breaks:
        raise typer.Exit(1)


@schema_app.command("spec")
def schema_spec() -> None:
    """Write the JSON Schema of schema files, for editors."""
    _print_json(Schema.model_json_schema())


def _plan_as_json(
    method: Method, promised: tuple[Guarantee, ...], forecast: Forecast
) -> dict[str, Any]:
    return {
        "method": method.name,
        "parameters": method.parameters(),
        "guarantees": [promise.to_dict() for promise in promised],
        "split": {step: str(share) for step, share in forecast.split.items()},
        "forecast": dict(forecast.lines),
        "n_cells": forecast.n_cells,
        "memory_mb": forecast.memory_mb,
    }


def _add_method_commands(kind: type[Method]) -> None:
    @plan_app.command(kind.name)
    @with_method_options(kind, solved_by="want")
    def plan(  # noqa: PLR0917 - the options of a command
        method: Method,
        schema: SchemaPath,
        rows: Annotated[int | None, typer.Option(help="Rows to expect.", min=0)] = None,
        want: Annotated[
            str | None,
            typer.Option(
                help='Solve for epsilon: "count error 50 at 1%" is, with 95 % confidence, at most '
                "50 rows off when 1 % of the rows are counted."
            ),
        ] = None,
        plot: Annotated[
            Path | None, typer.Option(help="Draw error against epsilon to a new .svg file.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        from hushtable import plan_cli  # noqa: PLC0415 - only this command needs it

        public = Schema.load(schema)
        answer = None
        if want is not None:
            method, answer = plan_cli.solve(method, public, want, rows=rows)
        promised = method.guarantee(public)
        forecast = method.forecast(public, public.rows if rows is None else rows)
        curve = plan_cli.curve_or_reason(method, public, rows=rows, answer=answer)
        if plot is not None:
            plan_cli.write_drawing(plot, curve, answer, f"{method.name}: {public.name}")
        if as_json:
            content = _plan_as_json(method, promised, forecast)
            _print_json({**content, **plan_cli.plan_to_dict(curve, answer)})
            return
        console.print("Promise", style="bold")
        for promise in promised:
            console.print(f"  {promise.explain()}")
        if forecast.split:  # empty where the ledger counts nothing
            table = Table("step", "epsilon", box=None, header_style="bold")
            for step, share in forecast.split.items():
                table.add_row(step, f"{float(share):g}")
            console.print(table)
        console.print("Expected", style="bold")
        for name, figure in forecast.lines.items():
            shown = figure if isinstance(figure, str) else f"{figure:,.6g}"
            console.print(f"  {name}: {shown}", highlight=False)
        console.print(f"  memory: about {forecast.memory_mb:,.0f} MB", highlight=False)
        plan_cli.show_plan(console, curve, answer)
        if plot is not None:
            console.print(f"Drew {plot}.")

    @publish_app.command(kind.name)
    @with_method_options(kind)
    def publish(  # noqa: PLR0917 - the options of a command
        method: Method,
        data: DataPath,
        schema: SchemaPath,
        out: Annotated[Path, typer.Option(help="Folder to make for the release.")],
        ledger: Annotated[Path | None, typer.Option(help="Ledger that pays.")] = None,
        reservation: Annotated[int | None, typer.Option(help="Reservation to use up.")] = None,
        engine: Annotated[
            Literal["auto", "memory", "duckdb", "spark"], typer.Option(help="What counts.")
        ] = "auto",
        noise: Annotated[
            Literal["secure", "opendp"], typer.Option(help="Whose samplers draw the noise.")
        ] = "secure",
        purpose: Annotated[str, typer.Option(help="Why, for the ledger.")] = "",
        memory_limit: Annotated[
            str | None, typer.Option(help="Limit for counting, such as 1GB.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        release = publish_table(
            data,
            Schema.load(schema),
            method,
            out=out,
            ledger=ledger,
            reservation=reservation,
            engine=engine,
            noise=noise,
            purpose=purpose,
            memory_limit=memory_limit,
        )
        if as_json:
            _print_json(release.statement.model_dump(mode="json", by_alias=True))
            return
        console.print(f"Published to {release.folder}.")
        for promise in release.statement.guarantees:
            console.print(f"  {promise.explain()}")


for _kind in METHODS.values():
    _add_method_commands(_kind)


@app.command()
def show(
    release: ReleasePath,
    as_json: AsJson = False,
) -> None:
    """Show the statement of a release, for people."""
    statement = Release.load(release).statement
    if as_json:
        _print_json(statement.model_dump(mode="json", by_alias=True))
    else:
        console.print(Markdown(statement.for_people()))


def _public_tables(given: list[str]) -> dict[str, pa.Table]:
    """Read the analyst's own tables, given as NAME=FILE."""
    tables = {}
    for item in given:
        name, sign, file = item.partition("=")
        if not name or not sign:
            raise ParameterError(f"{item!r} is not NAME=FILE.")
        try:
            tables[name] = (
                pq.read_table(file) if file.endswith(".parquet") else pa_csv.read_csv(file)
            )
        except (OSError, pa.ArrowInvalid) as error:
            raise ParameterError(f"table {name!r}: cannot read {file!r}: {error}.") from None
    return tables


@app.command()
def query(
    release: ReleasePath,
    where: Annotated[str, typer.Argument(metavar="WHERE", help="A SQL WHERE clause.")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Public CSV or Parquet file of yours, for IN (SELECT column FROM name ...).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many people satisfy a condition, with a 95 % interval."""
    estimate = Release.load(release).count(where, tables=_public_tables(table or []))
    if as_json:
        _print_json(estimate.to_dict())
        return
    console.print(str(estimate), highlight=False)
    for note in estimate.notes:
        console.print(f"  {note}", highlight=False)


@app.command()
def export(
    release: ReleasePath,
    to: Annotated[Path, typer.Option(help="A new .csv or .parquet file.")],
) -> None:
    """Write the microdata rows of a release to a file."""
    Release.load(release).export(to)
    console.print(f"Wrote {to}.")


@ledger_app.command("init")
def ledger_init(
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on epsilon.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Cap on delta.")] = "0",
    schema: Annotated[
        Path | None, typer.Option(help="Schema whose name and unit the ledger is for.")
    ] = None,
) -> None:
    """Start a ledger with a cap on what may be spent."""
    public = Schema.load(schema) if schema is not None else None
    Ledger.create(
        file,
        epsilon=epsilon,
        delta=delta,
        unit=public.unit if public else None,
        name=public.name if public else "",
    )
    console.print(f"Started {file}.")


@ledger_app.command("show")
def ledger_show(file: LedgerPath, as_json: AsJson = False) -> None:
    """Show what has been spent and what is left, after checking the chain."""
    book = Ledger.open(file)
    book.verify()
    content = book.show()
    if as_json:
        _print_json(content)
        return
    console.print_json(data=content)


@ledger_app.command("reserve")
def ledger_reserve(
    file: LedgerPath,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Epsilon to set aside.")],
    purpose: Annotated[str, typer.Option(help="What for.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Delta to set aside.")] = "0",
) -> None:
    """Set budget aside; `publish --reservation` draws from it."""
    book = Ledger.open(file)
    protects = {"unit": book.unit, "neighbors": book.neighbors}
    promise = (
        PureDP(epsilon=epsilon, **protects)
        if as_rational(delta, name="delta") == 0
        else ApproxDP(epsilon=epsilon, delta=delta, **protects)
    )
    console.print(f"Reservation {book.reserve([promise], purpose=purpose)}.")


@ledger_app.command("verify")
def ledger_verify(
    file: LedgerPath,
    receipt: Annotated[
        str | None, typer.Option(help="Digest from a statement that must be in the ledger.")
    ] = None,
) -> None:
    """Check that nobody changed the ledger, or exchanged it for an older copy."""
    Ledger.open(file).verify(receipt=receipt)
    console.print("The ledger is intact.")


@ledger_app.command("void")
def ledger_void(
    file: LedgerPath,
    entry: Annotated[int, typer.Argument(help="The entry's number.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
) -> None:
    """Give back a charge for which nothing was released: a person's decision, on record."""
    Ledger.open(file).void(entry, reason)
    console.print(f"Entry {entry} is void.")


def main() -> None:
    """Run the command line; every refusal is one message and an exit code."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    warnings.showwarning = _show_warning
    try:
        app()
    except ParameterError as error:
        _fail(str(error), 2)
    except HushtableError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt as error:
        _fail("\n".join(["interrupted.", *_notes(error)]), 130)
    except Exception as error:
        # The message of a foreign error may quote private values, so only its kind is shown.
        if debug:
            traceback.print_tb(error.__traceback__)
        told = f"internal error ({type(error).__name__}). Run again with --debug to see where, and "
        _fail("\n".join([f"{told}report it.", *_notes(error)]), 1)


def _notes(error: BaseException) -> list[str]:
    """Give what the pipeline added to an error; notes of other libraries may quote values."""
    return [note for note in getattr(error, "__notes__", ()) if note.startswith("Entry ")]


def _show_warning(  # noqa: PLR0917 - as `warnings` calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    # Warnings of other libraries may quote values, and are for those who develop.
    if issubclass(category, SeededReleaseWarning):
        sys.stderr.write(f"hushtable: {message}\n")


def _fail(message: str, code: int) -> None:
    # Names from files are quoted in messages, and a terminal must not obey them.
    visible = re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", message)
    sys.stderr.write(f"hushtable: {visible}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
