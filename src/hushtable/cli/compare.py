"""``hushtable compare``: several releases of one table, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from hushtable.cli.findings import hand_out, require_new_files, this_command
from hushtable.cli.options import ControlPath, NumbersPath, Questions, Repeats, Target
from hushtable.cli.plain import visible
from hushtable.cli.screen import bar_for_each_part, console, print_whole

LABELS = 28  # least width of what the figures are called
WORD = 24  # letters of a word in a release's column; the rest goes to the next line


def compare(  # noqa: PLR0917 - the options of a command
    data: Annotated[str, typer.Argument(metavar="DATA", help="The private table.")],
    releases: Annotated[
        list[Path], typer.Argument(metavar="RELEASE...", help="Release folders of that table.")
    ],
    control: ControlPath = None,
    target: Target = None,
    out: Annotated[Path | None, typer.Option(help="New .html file for table and plots.")] = None,
    json_file: NumbersPath = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The releases' ledger, to show how long publishing took.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes the comparison repeatable.", min=0)] = 0,
    repeats: Repeats = 5,
    questions: Questions = 20,
) -> None:
    """Compare releases of one table: promise, error, accuracy, risk, size, time (internal)."""
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
    hand_out(found, _show, page=out, numbers=json_file)


def _show(content: Mapping[str, Any], screen: Console = console) -> None:
    """Print figures as rows and releases as columns, in as many tables as the screen needs."""
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
        screen.print(said, highlight=False, soft_wrap=True)
    for note in content["notes"]:
        screen.print(f"  {note}", highlight=False)


def _width(name: str, figures: Sequence[Mapping[str, Any]], place: int) -> int:
    """Say how wide a release's column is: all numbers fit, and all but the longest words."""
    numbers, words = [0], name.split()
    for figure in figures:
        written = _written(figure["values"][place], figure["kind"])
        if figure["kind"] == "text":
            words += written.split()
        else:
            numbers.append(len(written))
    return max(*numbers, min(max(map(len, words), default=0), WORD))


def _that_fit(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Divide columns over tables, beside the labels; each has a space on either side.

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
    """Write a number for the terminal.

    Examples
    --------
    >>> _written({"value": 0.1234}, "share"), _written(None, "share")
    ('12.3 %', '–')
    """
    if value is None:
        return "–"
    number = value["value"]
    if kind == "text":
        return str(number)
    if kind == "share":
        return f"{100 * number:.3g} %"
    if kind == "distance":
        return f"{number:.3f}"
    return f"{number:,.0f}" if number >= 100 or float(number).is_integer() else f"{number:.3g}"
