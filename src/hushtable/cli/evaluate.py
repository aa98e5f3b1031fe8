"""``hushtable evaluate``: utility and risk of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import AtLeastOne, NumbersPath
from hushtable.cli.screen import (
    bar_for_each_part,
    console,
    prints,
    require_new_files,
    this_command,
    write_findings,
)
from hushtable.errors import ParameterError


def evaluate(
    release: str,
    data: str | None = None,
    *,
    control: str | None = None,
    schema: Path | None = None,
    target: str | None = None,
    nodes: Path | None = None,
    source_column: str = "source",
    target_column: str = "target",
    out: Path | None = None,
    json_file: NumbersPath = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    draws: Annotated[int, typer.Option(min=1)] = 3,
    repeats: AtLeastOne = 5,
    questions: AtLeastOne = 20,
    hold_back: bool = True,
    check: list[str] | None = None,
    quasi: list[str] | None = None,
    sensitive: list[str] | None = None,
) -> None:
    """Compare a release with the original table: utility and attack risk (internal).

    Parameters
    ----------
    release : RELEASE
        Release folder, or any CSV or Parquet file with --schema.
    data : DATA
        Private table (CSV or Parquet), or edge list of a graph.
    schema
        Schema of RELEASE, if it is a plain table.
    nodes
        List of all nodes, if the graph was published with one.
    source_column
        Edge list column of the first node.
    target_column
        Edge list column of the second node.
    out
        Write the report to a new .html file.
    seed
        Random seed, for a reproducible evaluation.
    draws
        Draws of values within cells.
    hold_back
        Without --control: run the method again on part of DATA; the rest is the control.
    check : k=5,l=3,t=0.2
        Only check RELEASE for k-anonymity, l-diversity or t-closeness; needs no DATA.
    quasi
        With --check: a quasi-identifier; default: all others. Repeatable.
    sensitive
        With --check: a sensitive column; default: the target. Repeatable.
    """
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
