"""Output of comparisons with the private table: HTML report, JSON file and terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushtable.cli.plain import print_json
from hushtable.cli.screen import console
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.evaluation.findings import Findings


def this_command() -> str:
    """Return the command line as given, for the report."""
    return shlex.join(["hushtable", *sys.argv[1:]])


def prints(numbers: Path | None) -> bool:
    """Return whether the JSON goes to standard output (``-``)."""
    return str(numbers) == "-"


def require_new_files(*, page: Path | None, numbers: Path | None) -> None:
    """Raise an error if an output file exists or the report does not end in .html."""
    from hushtable.files.whole_file import require_new  # noqa: PLC0415 - keeps help quick

    for path in (page, None if prints(numbers) else numbers):
        if path is not None:
            require_new(path)
    if page is not None and page.suffix != ".html":
        raise ParameterError(f"{str(page)!r} must end in .html.")


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
            console.print(f"Wrote {path}.", highlight=False)
    console.print("Internal: these results use the private table; do not publish them.")
