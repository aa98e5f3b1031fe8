"""Printing without rich, which is slow to import: JSON, and texts without control characters."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from typing import Any


def print_json(content: Any) -> None:
    """Print JSON to standard output."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """Print a text without wrapping."""
    sys.stdout.write(f"{visible(text)}\n")


def print_folded(text: str) -> None:
    """Print a text, wrapped to the width of the terminal."""
    width = shutil.get_terminal_size().columns
    print_line(textwrap.fill(text, width, break_on_hyphens=False))


def visible(text: str) -> str:
    r"""Replace terminal control characters, which names from files may contain.

    Examples
    --------
    >>> visible("yearly\x1b[2Jtable")
    'yearly�[2Jtable'
    """
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


# Exit codes of commands that do not succeed; docs/command-line.md explains them.

REFUSED = 1
WRONG_USAGE = 2
NOT_TESTED = 3
INTERRUPTED = 130
TERMINATED = 143
