"""``hushtable reproduce``: figures of the papers, measured by the package `hushtable_papers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtable.cli.options import AsJson
from hushtable.extras import require


def reproduce(  # noqa: PLR0917 - the options of a command
    paper: Annotated[
        str | None, typer.Argument(help="A paper, such as mohammed-2011; without it, list them.")
    ] = None,
    figures: Annotated[
        list[str] | None, typer.Option(help="Number of a figure; default: all. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New folder; default: PAPER-figures.")] = None,
    full: Annotated[
        bool, typer.Option(help="Repeat measurements as often as for the saved points.")
    ] = False,
    download: Annotated[
        bool, typer.Option(help="First download the data whose license allows it (Adult).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a paper's figures again, and compare them with the saved points.

    Writes the drawings, the points and a report to a new folder. Real data are read from the folder
    in $HUSHTABLE_DATA; figures whose data are missing are skipped and named.
    """
    require("papers", "reproducing figures")
    from hushtable_papers.command import run  # noqa: PLC0415 - slow to import

    run(paper, figures, out=out, full=full, download=download, as_json=as_json)
