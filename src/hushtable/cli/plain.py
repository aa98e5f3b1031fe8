"""What is printed as it is: data for programs, and texts that a terminal must not obey.

Consoles are slow to import; a command that answers in one line goes without them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from typing import Any


def print_json(content: Any) -> None:
    """Print plain data, for programs."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """Print a text, however wide."""
    sys.stdout.write(f"{visible(text)}\n")


def print_folded(text: str) -> None:
    """Print a text, in as many lines as the terminal needs."""
    width = shutil.get_terminal_size().columns
    print_line(textwrap.fill(text, width, break_on_hyphens=False))


def visible(text: str) -> str:
    r"""Replace what a terminal would obey: names from files may hold anything.

    Examples
    --------
    >>> visible("yearly\x1b[2Jtable")
    'yearly�[2Jtable'
    """
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)
