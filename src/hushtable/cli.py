"""The command line; the options of a method are its fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from hushtable.errors import HushtableError, ParameterError
from hushtable.graph_cli import graph_app
from hushtable.methods import METHODS
from hushtable.methods.base import Forecast, Method
from hushtable.pipeline import publish as publish_table
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.rational import as_rational
from hushtable.release import Release
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

SchemaPath = Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema, a YAML file.")]
DataPath = Annotated[str, typer.Argument(metavar="DATA", help="A CSV or Parquet file.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")]
LedgerPath = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]

console = Console()


def _print_json(content: Any) -> None:
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


# --- the methods' own fields as options -----------------------------------------------------


def _option(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """Turn a field of a method into a command-line option."""
    help_text = str(field.metadata.get("help", ""))
    flag = f"--{field.name.replace('_', '-')}"
    alternatives = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint) and len(alternatives) == 1:
        hint = alternatives[0]
    if hint is bool:  # what is on by default can be turned off, too
        flag = f"{flag}/--no-{flag[2:]}"
    kind: Any = str
    if hint is int or hint is bool or get_origin(hint) is Literal:
        kind = hint
    elif get_origin(hint) is not None and issubclass(_class_of(hint), Mapping | tuple):
        kind = list[str]
    default: Any = inspect.Parameter.empty
    if field.default_factory is not dataclasses.MISSING or field.default == ():
        default = None
    elif field.default is not dataclasses.MISSING:
        default = str(field.default) if isinstance(field.default, Fraction) else field.default
    if default is None:
        kind |= None
    metavar = "NUMBER" if Fraction in (hint, *get_args(hint)) else None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(flag, help=help_text, metavar=metavar)],
    )


def _class_of(hint: Any) -> type:
    origin = get_origin(hint)
    return origin if isinstance(origin, type) else object


def _rules(items: list[str]) -> dict[str, int | float | list[float]]:
    """Read ``column=level``, ``column=width`` and ``column=cut,cut,...``."""
    rules: dict[str, int | float | list[float]] = {}
    problems = []
    for item in items:
        column, sign, text = item.rpartition("=")
        try:
            numbers = [float(part) if "." in part else int(part) for part in text.split(",")]
            if not sign:
                raise ValueError
            rules[column] = numbers[0] if len(numbers) == 1 else numbers
        except ValueError:
            problems.append(f"{item!r} is not COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT,...")
    if problems:
        raise ParameterError(problems)
    return rules


def _make_method(kind: type[Method], options: Mapping[str, Any]) -> Method:
    values = {}
    for field in dataclasses.fields(kind):
        value = options[field.name]
        if value is not None:
            # Repeated options are rules of a mapping, or the entries of a tuple.
            is_rules = isinstance(value, list) and field.default != ()
            values[field.name] = _rules(value) if is_rules else value
    return kind(**values)


def _with_method_options(
    kind: type[Method],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a method's fields to a command, which gets them back as ``method``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            fields = {field.name for field in dataclasses.fields(kind)}
            own = {name: value for name, value in arguments.items() if name not in fields}
            options = {name: value for name, value in arguments.items() if name in fields}
            command(method=_make_method(kind, options), **own)

        hints = get_type_hints(kind)
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.items()
            if name != "method"
        ]
        parameters += [_option(field, hints[field.name]) for field in dataclasses.fields(kind)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__doc__ = f"{kind.summary}\n\n{kind.paper}"
        return run

    return decorate


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

    run_demo(out, console)


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
    from hushtable.draft import draft  # noqa: PLC0415 - only this command needs it

    text = _DRAFT_HEADER + draft(data).to_yaml()
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists():
        raise ParameterError(f"{str(output)!r} exists; choose another file or remove it.")
    try:
        output.write_text(text, encoding="utf-8")
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
    @_with_method_options(kind)
    def plan(
        method: Method,
        schema: SchemaPath,
        rows: Annotated[int | None, typer.Option(help="Rows to expect.", min=0)] = None,
        as_json: AsJson = False,
    ) -> None:
        public = Schema.load(schema)
        promised = method.guarantee(public)
        forecast = method.forecast(public, public.rows if rows is None else rows)
        if as_json:
            _print_json(_plan_as_json(method, promised, forecast))
            return
        console.print("[bold]Promise[/bold]")
        for promise in promised:
            console.print(f"  {promise.explain()}")
        if forecast.split:  # empty where the ledger counts nothing
            table = Table("step", "epsilon", box=None, header_style="bold")
            for step, share in forecast.split.items():
                table.add_row(step, f"{float(share):g}")
            console.print(table)
        console.print("[bold]Expected[/bold]")
        for name, figure in forecast.lines.items():
            shown = figure if isinstance(figure, str) else f"{figure:,.6g}"
            console.print(f"  {name}: {shown}", highlight=False)
        console.print(f"  memory: about {forecast.memory_mb:,.0f} MB", highlight=False)

    @publish_app.command(kind.name)
    @_with_method_options(kind)
    def publish(  # noqa: PLR0917 - the options of a command
        method: Method,
        data: DataPath,
        schema: SchemaPath,
        out: Annotated[Path, typer.Option(help="Folder to make for the release.")],
        ledger: Annotated[Path | None, typer.Option(help="Ledger that pays.")] = None,
        reservation: Annotated[int | None, typer.Option(help="Reservation to use up.")] = None,
        engine: Annotated[
            Literal["auto", "memory", "duckdb"], typer.Option(help="What counts.")
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
    try:
        app()
    except ParameterError as error:
        _fail(str(error), 2)
    except HushtableError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted.", 130)
    except Exception as error:
        # The message of a foreign error may quote private values, so only its kind is shown.
        if debug:
            traceback.print_tb(error.__traceback__)
        _fail(
            f"internal error ({type(error).__name__}); nothing was published. Run again with "
            "--debug to see where, and report it.",
            1,
        )


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"hushtable: {message}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
