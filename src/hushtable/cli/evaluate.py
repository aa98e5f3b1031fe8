"""``hushtable evaluate``: utility and risk of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import ControlPath, NumbersPath, Questions, Repeats, Target
from hushtable.cli.screen import (
    bar_for_each_part,
    console,
    prints,
    require_new_files,
    this_command,
    write_findings,
)
from hushtable.errors import ParameterError


def evaluate(  # noqa: PLR0917 - the options of a command
    release: Annotated[
        str,
        typer.Argument(
            metavar="RELEASE", help="Release folder, or any CSV or Parquet file with --schema."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="Private table (CSV or Parquet), or edge list of a graph."
        ),
    ] = None,
    control: ControlPath = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema of RELEASE, if it is a plain table.")
    ] = None,
    target: Target = None,
    nodes: Annotated[
        Path | None, typer.Option(help="List of all nodes, if the graph was published with one.")
    ] = None,
    source_column: Annotated[
        str, typer.Option(help="Edge list column of the first node.")
    ] = "source",
    target_column: Annotated[
        str, typer.Option(help="Edge list column of the second node.")
    ] = "target",
    out: Annotated[Path | None, typer.Option(help="Write the report to a new .html file.")] = None,
    json_file: NumbersPath = None,
    seed: Annotated[
        int, typer.Option(help="Random seed, for a reproducible evaluation.", min=0)
    ] = 0,
    draws: Annotated[int, typer.Option(help="Draws of values within cells.", min=1)] = 3,
    repeats: Repeats = 5,
    questions: Questions = 20,
    hold_back: Annotated[
        bool,
        typer.Option(
            help="Without --control: run the method again on part of DATA; the rest is the control."
        ),
    ] = True,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="k=5,l=3,t=0.2",
            help="Only check RELEASE for k-anonymity, l-diversity or t-closeness; needs no DATA.",
        ),
    ] = None,
    quasi: Annotated[
        list[str] | None,
        typer.Option(help="With --check: a quasi-identifier; default: all others. Repeatable."),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(help="With --check: a sensitive column; default: the target. Repeatable."),
    ] = None,
) -> None:
    """Compare a release with the original table: utility and attack risk (internal)."""
    from hushtable.evaluation.evaluate import evaluate as run  # noqa: PLC0415 - slow to import

    if check:
        from hushtable.cli.check import check_table  # noqa: PLC0415 - only for --check

        check_table(
            release,
            check,
            quasi=quasi or (),
            sensitive=sensitive or (),
            schema=None if schema is None else ht.Schema.load(schema),
            as_json=prints(json_file),
        )
        return
    if data is None:
        raise ParameterError("DATA is missing; give the private table to compare with.")
    require_new_files(page=out, numbers=json_file)
    with bar_for_each_part() as progress:
        found = run(
            release,
            data,
            schema=None if schema is None else ht.Schema.load(schema),
            control=control,
            target=target,
            nodes=nodes,
            edge_columns=(source_column, target_column),
            seed=seed,
            n_draws=draws,
            n_repeats=repeats,
            questions=questions,
            hold_back=hold_back,
            command=this_command(),
            progress=progress,
        )
    write_findings(found, _show, page=out, numbers=json_file)


def _show(content: dict[str, Any]) -> None:
    from hushtable.evaluation.report.pages import headlines  # noqa: PLC0415 - needs an extra

    table = Table(box=None, show_header=False)
    for line in headlines(content):
        table.add_row(line["what"], Text(line["value"], "bold"), line["note"])
    console.print(table)
