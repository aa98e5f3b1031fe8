"""How the commands print, for people and for programs."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

# Names and texts from files must not be taken for markup.
console = Console(markup=False, emoji=False)


def print_json(content: Any) -> None:
    """Print plain data, for programs."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_whole(table: Table, screen: Console = console) -> None:
    """Print a table; on a screen too narrow for its figures it runs over, and none is cut.

    Columns of figures must say ``no_wrap`` or their width; all others fold.
    """
    unbounded = screen.options.update(width=10_000)
    for column in table.columns:
        if column.no_wrap:  # rich would cut even these
            parts = (column.header, *column.cells)
            column.min_width = max(screen.measure(p, options=unbounded).maximum for p in parts)
    least = screen.measure(table, options=unbounded).minimum
    if least > screen.width:
        table.width = least
    screen.print(table, crop=False, highlight=False)


def visible(text: str) -> str:
    r"""Replace what a terminal would obey: names from files may hold anything.

    Examples
    --------
    >>> visible("yearly\x1b[2Jtable")
    'yearly�[2Jtable'
    """
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)
