"""``hushtable reproduce``: figures of the papers, measured by the package `hushtable_papers`."""

from __future__ import annotations

from pathlib import Path

from hushtable.cli.options import AsJson
from hushtable.extras import require


def reproduce(
    paper: str | None = None,
    *,
    figures: list[str] | None = None,
    out: Path | None = None,
    full: bool = False,
    download: bool = False,
    as_json: AsJson = False,
) -> None:
    """Measure a paper's figures again, and compare them with the saved points.

    Writes the drawings, the points and a report to a new folder. Real data are read from the folder
    in $HUSHTABLE_DATA; figures whose data are missing are skipped and named.

    Parameters
    ----------
    paper
        A paper, such as mohammed-2011; without it, list them.
    figures
        Number of a figure; default: all. Repeatable.
    out
        New folder; default: PAPER-figures.
    full
        Repeat measurements as often as for the saved points.
    download
        First download the data whose license allows it (Adult).
    """
    require("papers", "reproducing figures")
    from hushtable_papers.command import run  # noqa: PLC0415 - slow to import

    run(paper, figures, out=out, full=full, download=download, as_json=as_json)
