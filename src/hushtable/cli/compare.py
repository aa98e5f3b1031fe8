"""``hushtable compare``: comparison of several releases of one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from hushtable.cli.options import AtLeastOne, NumbersPath
from hushtable.cli.plain import visible
from hushtable.cli.screen import (
    bar_for_each_part,
    console,
    print_whole,
    require_new_files,
    this_command,
    write_findings,
)

LABELS = 28  # minimum width of the labels
WORD = 24  # longer words in a release's column are folded


def compare(
    data: str,
    releases: list[Path],
    *,
    control: str | None = None,
    target: str | None = None,
    out: Path | None = None,
    json_file: NumbersPath = None,
    ledger: Path | None = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    repeats: AtLeastOne = 5,
    questions: AtLeastOne = 20,
) -> None:
    """Compare releases of one table: promise, error, accuracy, risk, size and time (internal).

    Parameters
    ----------
    data : DATA
        Private table.
    releases : RELEASE...
        Release folders of that table.
    out
        Write tables and plots to a new .html file.
    ledger
        Ledger of the releases, to show the time that publishing took.
    seed
        Random seed, for a reproducible comparison.
    """
    from hushtable.evaluation.compare import compare as run  # noqa: PLC0415 - slow to import

    require_new_files(page=out, numbers=json_file)
    with bar_for_each_part() as progress:
        found = run(
            data,
            releases,
            control=control,
            target=target,
            seed=seed,
            n_repeats=repeats,
            questions=questions,
            ledger=ledger,
            command=this_command(),
            progress=progress,
        )
    write_findings(found, _show, page=out, numbers=json_file)


def _show(content: Mapping[str, Any], screen: Console = console) -> None:
    """Print one row per figure and one column per release, in as many tables as needed."""
    names = [visible(release["name"]) for release in content["releases"]]
    widths = [_width(name, content["figures"], place) for place, name in enumerate(names)]
    for places in _that_fit(widths, screen.width):
        table = Table(box=None, header_style="bold")
        table.add_column("", min_width=LABELS)
        for place in places:
            table.add_column(names[place], justify="right", width=widths[place], overflow="fold")
        for group, figures in groupby(content["figures"], key=lambda figure: figure["group"]):
            table.add_row(group, style="bold")
            for figure in figures:
                better = {"lower": " ↓", "higher": " ↑", "neither": ""}[figure["better"]]
                written = [_written(figure["values"][place], figure["kind"]) for place in places]
                label = Padding(f"{figure['name']}{better}", (0, 0, 0, 2))
                table.add_row(label, *written)
        print_whole(table, screen)
        screen.print()
    for release in content["releases"]:
        said = f"{visible(release['name'])}: {release['verdict']}."
        screen.print(said, soft_wrap=True)
    for note in content["notes"]:
        screen.print(f"  {note}")


def _width(name: str, figures: Sequence[Mapping[str, Any]], place: int) -> int:
    """Return the width of a release's column: numbers fit, words above `WORD` letters fold."""
    numbers, words = [0], name.split()
    for figure in figures:
        written = _written(figure["values"][place], figure["kind"])
        if figure["kind"] == "text":
            words += written.split()
        else:
            numbers.append(len(written))
    return max(*numbers, min(max(map(len, words), default=0), WORD))


def _that_fit(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Divide columns into tables that fit the screen beside the labels.

    Examples
    --------
    >>> list(_that_fit([19, 19, 12], width=80))
    [[0, 1], [2]]
    """
    taken: list[int] = []
    for place in range(len(widths)):
        if taken and LABELS + 2 + sum(widths[one] + 2 for one in (*taken, place)) > width:
            yield taken
            taken = []
        taken.append(place)
    yield taken


def _written(value: Mapping[str, Any] | None, kind: str) -> str:
    """Format a value for the terminal.

    Examples
    --------
    >>> _written({"value": 0.1234}, "share"), _written(None, "share")
    ('12.3%', '–')
    """
    if value is None:
        return "–"
    number = value["value"]
    if kind == "text":
        return str(number)
    if kind == "share":
        return f"{100 * number:.3g}%"
    if kind == "distance":
        return f"{number:.3f}"
    return f"{number:,.0f}" if number >= 100 or float(number).is_integer() else f"{number:.3g}"
