"""What the comparisons with the private table hand out: a page, a file of numbers, the screen."""

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
    """Spell the command that was given, for those who want to repeat it."""
    return shlex.join(["hushtable", *sys.argv[1:]])


def prints(numbers: Path | None) -> bool:
    """Tell whether the numbers are printed, and nothing else."""
    return str(numbers) == "-"


def require_new_files(*, page: Path | None, numbers: Path | None) -> None:
    """Refuse files that exist, and a page that is none, before anything is worked out."""
    from hushtable.files.whole_file import require_new  # noqa: PLC0415 - keeps help quick

    for path in (page, None if prints(numbers) else numbers):
        if path is not None:
            require_new(path)
    if page is not None and page.suffix != ".html":
        raise ParameterError(f"{str(page)!r} is not an .html file.")


def hand_out(
    found: Findings,
    show: Callable[[dict[str, Any]], None],
    *,
    page: Path | None,
    numbers: Path | None,
) -> None:
    """Write the files that were asked for, show the rest, and say that none is for publication."""
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
    console.print("Internal: this compares with the private table; do not publish it.")
