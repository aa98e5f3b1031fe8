"""Terminal output: the two consoles, tables and progress bars."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from hushtable.cli.plain import print_json
from hushtable.files.texts import Texts

if TYPE_CHECKING:
    import rich.progress

    from hushtable.evaluation.findings import Findings
    from hushtable.files.progress import Progress


text = Texts("hushtable.cli")
"""Texts of commands."""

# Markup and highlights are off in both, since they print names and texts from files.
console = Console(markup=False, emoji=False, highlight=False)
errors = Console(markup=False, emoji=False, highlight=False, stderr=True)


def tell(said: str, *, as_json: bool, **content: Any) -> None:
    """Print the result of a command: `content` as JSON, or the text `said`."""
    if as_json:
        print_json(content)
    else:
        console.print(said, soft_wrap=True)


def print_lines(lines: Iterable[object]) -> None:
    """Print each item on its own line, without wrapping."""
    for line in lines:
        console.print(str(line), soft_wrap=True)


def print_whole(table: Table, screen: Console = console) -> None:
    """Print a table without truncating numbers, even if it is wider than the screen.

    Columns of numbers must set ``no_wrap`` or a width; all others fold.
    """
    unbounded = screen.options.update(width=10_000)
    for column in table.columns:
        if column.no_wrap:  # rich would truncate even these
            parts = (column.header, *column.cells)
            column.min_width = max(screen.measure(p, options=unbounded).maximum for p in parts)
    least = screen.measure(table, options=unbounded).minimum
    if least > screen.width:
        table.width = least
    screen.print(table, crop=False)


_BARS = "▁▂▃▄▅▆▇█"


def bars(shares: Iterable[float | None]) -> str:
    """Draw shares as bar characters: blank for None and 0, full height from 1 on.

    Examples
    --------
    >>> bars([0, 0.01, 0.5, 1, None, 3])
    ' ▁▅█ █'
    """
    return "".join(
        _BARS[round(min(share, 1) * (len(_BARS) - 1))] if share else " " for share in shares
    )


@contextmanager
def one_bar(first: str) -> Iterator[Progress]:
    """Show one progress bar with the current phase and the remaining time."""
    from rich.progress import TaskProgressColumn, TextColumn  # noqa: PLC0415 - slow to import

    from hushtable.files.progress import duration, seconds_left  # noqa: PLC0415

    with _bars(
        "{task.description}", TaskProgressColumn(), TextColumn("{task.fields[left]}")
    ) as bars:
        task, begun = bars.add_task(first, total=1.0, left=""), time.monotonic()

        def progress(what: str, share: float) -> None:
            seconds = seconds_left(time.monotonic() - begun, share)
            left = "" if seconds is None else f"{duration(seconds)} left"
            bars.update(task, description=what, completed=share, left=left)

        yield progress


@contextmanager
def bar_for_each_part() -> Iterator[Progress]:
    """Show one progress bar for each part of the work."""
    with _bars("{task.description:16}") as bars:
        tasks: dict[str, Any] = {}

        def progress(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=1.0)
            bars.update(tasks[what], completed=share)

        yield progress


@contextmanager
def _bars(text: str, *columns: Any) -> Iterator[rich.progress.Progress]:
    """Show progress bars on standard error, only if it is a terminal."""
    from rich.progress import (  # noqa: PLC0415 - slow to import
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    hidden = not errors.is_terminal
    errors.quiet = hidden  # before 14.3, rich ends a hidden bar with a line
    shown = (TextColumn(text, markup=False), BarColumn(), *columns, TimeElapsedColumn())
    with Progress(*shown, console=errors, disable=hidden, transient=True) as bars:
        yield bars


# Output of comparisons with the private table: HTML report, JSON file and terminal.


def this_command() -> str:
    """Return the command line as given, for the report."""
    return shlex.join(["hushtable", *sys.argv[1:]])


def prints(numbers: Path | None) -> bool:
    """Return whether the JSON goes to standard output (``-``)."""
    return str(numbers) == "-"


def require_new_files(*, page: Path | None, numbers: Path | None) -> None:
    """Raise an error if an output file exists or the report does not end in .html."""
    from hushtable.files.writing import require_new  # noqa: PLC0415 - keeps help quick

    if page is not None:
        require_new(page, ".html")
    if numbers is not None and not prints(numbers):
        require_new(numbers)


def write_findings(
    found: Findings,
    show: Callable[[dict[str, Any]], None],
    *,
    page: Path | None,
    numbers: Path | None,
) -> None:
    """Write the requested files and print the results, with a note that they are internal."""
    if page is not None:
        found.write_html(page)
    if prints(numbers):
        print_json(found.to_dict())
        return
    if numbers is not None:
        found.write_json(numbers)
    show(found.to_dict())
    for path in (page, numbers):
        if path is not None:
            console.print(f"Wrote {path}.")
    console.print("Internal: these results use the private table; do not publish them.")
