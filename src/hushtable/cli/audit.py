"""``hushtable audit``: try to falsify what a method promises, on made-up tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from hushtable.cli.options import with_method_options
from hushtable.methods.parameters import Parameters
from hushtable.schema import Schema

if TYPE_CHECKING:  # the audit itself is imported by its command alone
    from hushtable.audit import Report

console = Console()

NOT_TESTED = 3
"""Exit code of an audit that found no violation and left a promise untested: no success."""


def audit_command(kind: type[Parameters]) -> Callable[..., None]:
    """Make the command that audits a method."""

    @with_method_options(kind)
    def audit_method(  # noqa: PLR0917 - the options of a command
        method: Parameters,
        schema: Annotated[
            Path | None,
            typer.Option(help="The schema of the made-up inputs; by default a small one."),
        ] = None,
        runs: Annotated[
            int, typer.Option(help="Runs on each of two neighbors, for each promise.", min=2)
        ] = 20_000,
        confidence: Annotated[
            float, typer.Option(help="One minus the chance that a right method is accused.")
        ] = 1 - 1e-6,
        seconds: Annotated[
            float | None, typer.Option(help="How long it may take; fewer runs if it must.")
        ] = None,
        largest: Annotated[
            int, typer.Option(help="Search all tables of so many rows, 0 to 5.")
        ] = 3,
        as_json: Annotated[
            bool, typer.Option("--json", help="Write JSON to standard output.")
        ] = False,
    ) -> None:
        public = None if schema is None else Schema.load(schema)
        report = _watched(
            method, public, runs=runs, confidence=confidence, seconds=seconds, largest=largest
        )
        if as_json:
            sys.stdout.write(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n")
        else:
            for line in report.lines():
                console.print(line, soft_wrap=True, highlight=False, markup=False)
        if report.verdict != "NO VIOLATION FOUND":
            raise typer.Exit(1 if report.verdict == "VIOLATION" else NOT_TESTED)

    return audit_method


def _watched(
    method: Parameters,
    schema: Schema | None,
    *,
    runs: int,
    confidence: float,
    seconds: float | None,
    largest: int,
) -> Report:
    """Run the audit; where standard error is a terminal, show there how far it has come."""
    from hushtable.audit import audit  # noqa: PLC0415 - only this command needs it

    errors = Console(stderr=True)
    errors.quiet = not errors.is_terminal  # before 14.3, rich ends a hidden bar with a line
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        console=errors, transient=True, disable=not errors.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("searching", total=1.0)
        return audit(
            method,
            schema,
            runs=runs,
            confidence=confidence,
            seconds=seconds,
            largest=largest,
            progress=lambda what, share: bar.update(task, description=what, completed=share),
        )
