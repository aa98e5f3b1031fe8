"""The command line; the options of a method are its fields."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from typer.main import get_command

# The names of the package are imported when they are first used: most commands need few of them.
import hushtable as ht
from hushtable.cli.compare import compare
from hushtable.cli.evaluate import evaluate
from hushtable.cli.lazy import as_command, lazy_group
from hushtable.cli.ledger import ledger_app
from hushtable.cli.options import with_method_options
from hushtable.cli.screen import console, print_json, visible
from hushtable.engine.silence import silenced
from hushtable.errors import (
    HushtableError,
    HushtableWarning,
    InternalError,
    OwnNote,
    ParameterError,
)

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(
    name="hushtable",
    help="Publish tables about people with a promise that is written down and checked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
schema_app = typer.Typer(no_args_is_help=True, help="Draft and check the public schema.")

SchemaPath = Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema, a YAML file.")]
DataPath = Annotated[str, typer.Argument(metavar="DATA", help="A CSV or Parquet file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"hushtable {ht.__version__}\n")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Take the options that stand before every command."""


# --- commands ------------------------------------------------------------------------------


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: what each does and which paper it is from."""
    if as_json:
        print_json({n: {"summary": m.summary, "paper": m.paper} for n, m in ht.METHODS.items()})
        return
    table = Table("method", "what it does", "from", box=None, header_style="bold")
    for name, method in ht.METHODS.items():
        table.add_row(name, method.summary, method.paper)
    console.print(table)


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
) -> None:
    """Publish the embedded sample and ask it a few questions."""
    from hushtable.cli.demo import run_demo  # noqa: PLC0415 - only this command needs it

    run_demo(out, Console())


_DRAFT_HEADER = """\
# Drafted from the private table, for the custodian's eyes. What stands under 'confirm' was taken
# from the data: check it against public knowledge, correct it, and delete the line. All of it must
# be what anybody could know, not what happens to occur: one person's row can change any of it.
# 'missing' and 'outside' say what a cell counts as that has no value or none of the column's:
# a category of its own (missing), the nearest bound (clip), or one of the values (other; the
# first, unless a line 'other: VALUE' names another).
"""


_FOR_THE_CUSTODIAN = (
    "These counts are exact, so keep them to yourself. They may show a mistake in the table or in "
    "the schema; choose the domain from public knowledge, never to let one row fit."
)


@schema_app.command("draft")
def schema_draft(
    data: DataPath,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
) -> None:
    """Propose a schema for a table; what it took from the data is marked `confirm`."""
    text = _DRAFT_HEADER + ht.draft(data).to_yaml()
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
    """Tell how many cells of a table do not fit, and what becomes of them (custodian only)."""
    from hushtable.fitting import misfits  # noqa: PLC0415 - keeps the other commands quick

    public = ht.Schema.load(schema)
    found = silenced(lambda: misfits(data, public))()
    unconfirmed = list(public.unconfirmed)
    if as_json:
        print_json(
            {
                "misfits": [dataclasses.asdict(misfit) for misfit in found],
                "unconfirmed": unconfirmed,
                "conditions": list(public.conditions),
            }
        )
    else:
        for misfit in found:
            console.print(str(misfit), soft_wrap=True, highlight=False)
        if found:
            console.print(_FOR_THE_CUSTODIAN, soft_wrap=True)
        for condition in public.conditions:
            console.print(condition, soft_wrap=True, highlight=False)
        if unconfirmed:
            console.print(f"Still to confirm: {', '.join(unconfirmed)}.")
        if not found and not unconfirmed:
            console.print("The table fits its schema.")
    if any(misfit.refused for misfit in found):
        raise typer.Exit(1)


@schema_app.command("spec")
def schema_spec() -> None:
    """Write the JSON Schema of schema files, for editors."""
    print_json(ht.Schema.model_json_schema())


def _plan_as_json(
    method: ht.Method, promised: tuple[ht.Guarantee, ...], forecast: ht.Forecast
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


def _plan_command(name: str) -> Any:
    kind = ht.METHODS[name]

    @with_method_options(kind, solved_by="want")
    def plan(  # noqa: PLR0917 - the options of a command
        method: ht.Method,
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
        from hushtable.cli import plan as plan_cli  # noqa: PLC0415 - only this command needs it

        public = ht.Schema.load(schema)
        answer = None
        if want is not None:
            method, answer = plan_cli.solve(method, public, want, rows=rows)
        promised = method.guarantee(public)
        forecast = method.forecast(public, public.rows if rows is None else rows)
        conditions = public.conditions
        curve = plan_cli.curve_or_reason(method, public, rows=rows, answer=answer)
        if plot is not None:
            plan_cli.write_drawing(plot, curve, answer, f"{method.name}: {public.name}")
        if as_json:
            content = _plan_as_json(method, promised, forecast)
            content["conditions"] = list(conditions)
            print_json({**content, **plan_cli.plan_to_dict(curve, answer)})
            return
        console.print("Promise", style="bold")
        for promise in promised:
            console.print(f"  {promise.explain()}")
        for condition in conditions:
            console.print(f"  {condition}", highlight=False)
        if forecast.split:  # empty where the ledger counts nothing
            table = Table("step", "epsilon", box=None, header_style="bold")
            for step, share in forecast.split.items():
                table.add_row(step, f"{float(share):g}")
            console.print(table)
        console.print("Expected", style="bold")
        for what, figure in forecast.lines.items():
            shown = figure if isinstance(figure, str) else f"{figure:,.6g}"
            console.print(f"  {what}: {shown}", highlight=False)
        console.print(f"  memory: about {forecast.memory_mb:,.0f} MB", highlight=False)
        plan_cli.show_plan(console, curve, answer)
        if plot is not None:
            console.print(f"Drew {plot}.")

    return as_command(name, plan)


def _publish_command(name: str) -> Any:
    kind = ht.METHODS[name]

    @with_method_options(kind)
    def publish(  # noqa: PLR0917 - the options of a command
        method: ht.Method,
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
        same_people: Annotated[
            str | None,
            typer.Option(
                metavar="REASON",
                help="Why another table than the ledger's is about the same people; on record.",
            ),
        ] = None,
        receipt: Annotated[
            str | None, typer.Option(help="A receipt that the ledger must contain.")
        ] = None,
        memory_limit: Annotated[
            str | None, typer.Option(help="Limit for counting, such as 1GB.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        release = ht.publish(
            data,
            ht.Schema.load(schema),
            method,
            out=out,
            ledger=ledger,
            reservation=reservation,
            engine=engine,
            noise=noise,
            purpose=purpose,
            same_people=same_people,
            receipt=receipt,
            memory_limit=memory_limit,
        )
        if as_json:
            print_json(release.statement.model_dump(mode="json", by_alias=True))
            return
        console.print(f"Published to {release.folder}.")
        for promise in release.statement.guarantees:
            console.print(f"  {promise.explain()}")

    return as_command(name, publish)


def _audit_command(name: str) -> Any:
    from hushtable.cli.audit import audit_command  # noqa: PLC0415 - only this command needs it

    kind = ht.Degrees if name == "degrees" else ht.METHODS[name]
    return as_command(name, audit_command(kind))


def _graph_commands() -> Mapping[str, Any]:
    from hushtable.cli.graph import graph_app  # noqa: PLC0415 - only these commands need it

    commands: Mapping[str, Any] = get_command(graph_app).commands  # type: ignore[attr-defined]
    return commands


@app.command()
def show(
    release: ReleasePath,
    as_json: AsJson = False,
) -> None:
    """Show the statement of a release, for people."""
    statement = ht.Release.load(release).statement
    if as_json:
        print_json(statement.model_dump(mode="json", by_alias=True))
    else:
        from rich.markdown import Markdown  # noqa: PLC0415 - slow to import

        console.print(Markdown(statement.for_people()))


def _public_tables(given: list[str]) -> dict[str, pa.Table]:
    """Read the analyst's own tables, given as NAME=FILE."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.csv as pa_csv  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables: dict[str, pa.Table] = {}
    problems = []
    for item in given:
        name, sign, file = item.partition("=")
        if not name or not sign:
            problems.append(f"{item!r} is not NAME=FILE.")
            continue
        if name in tables:
            problems.append(f"table {name!r} is given twice; give each name once.")
            continue
        try:
            tables[name] = (
                pq.read_table(file) if file.endswith(".parquet") else pa_csv.read_csv(file)
            )
        except (OSError, pa.ArrowInvalid) as error:
            problems.append(f"table {name!r}: cannot read {file!r}: {error}.")
    if problems:
        raise ParameterError(problems)
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
    estimate = ht.Release.load(release).count(where, tables=_public_tables(table or []))
    if as_json:
        print_json(estimate.to_dict())
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
    ht.Release.load(release).export(to)
    console.print(f"Wrote {to}.")


app.add_typer(schema_app, name="schema")
# The options of these commands are the fields of methods, which are slow to import.
for _group in (
    lazy_group(
        "plan",
        lambda: ht.METHODS,
        _plan_command,
        help_text="Promise, budget and expected error; no data.",
    ),
    lazy_group(
        "publish", lambda: ht.METHODS, _publish_command, help_text="Publish a private table."
    ),
    lazy_group(
        "audit",
        lambda: (*ht.METHODS, "degrees"),
        _audit_command,
        help_text="Try to falsify what a method promises; reads no data.",
    ),
    lazy_group(
        "graph",
        _graph_commands,
        lambda name: _graph_commands()[name],
        help_text="Degree sequences and synthetic graphs.",
    ),
):
    app.add_typer(_group)
app.add_typer(ledger_app, name="ledger")
app.command()(evaluate)
app.command()(compare)


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
    except InternalError as error:
        if debug:
            traceback.print_tb(error.__traceback__)
        _fail(f"{error}\nRun again with --debug to see where, and report it.", 1)
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
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]


def _show_warning(  # noqa: PLR0917 - as `warnings` calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    # Warnings of other libraries may quote values, and are for those who develop.
    if issubclass(category, HushtableWarning):
        sys.stderr.write(f"hushtable: {message}\n")


def _fail(message: str, code: int) -> None:
    # Names from files are quoted in messages, and a terminal must not obey them.
    sys.stderr.write(f"hushtable: {visible(message)}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
