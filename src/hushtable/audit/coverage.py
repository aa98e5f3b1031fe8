"""Lines of code that a run executes, to find input sizes at which a method's behavior changes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import hushtable.methods
import hushtable.privacy

Lines = frozenset[tuple[str, int]]

_PACKAGES = tuple(
    str(Path(package.__file__ or "").parent) for package in (hushtable.methods, hushtable.privacy)
)

MOST_CHANGES = 4
"""Maximum number of changes that are narrowed down to a single row."""


def lines_of(act: Callable[[], Any], files: Sequence[str] = ()) -> Lines:
    """Run a function and return the lines of methods, the privacy layer and `files` it executes.

    Examples
    --------
    >>> from hushtable.privacy.noise.seeded_noise import SeededNoise
    >>> places = lines_of(lambda: SeededNoise(1).integer_below(3))
    >>> {Path(file).name for file, _ in places} >= {"index_draws.py", "seeded_noise.py"}
    True
    """
    found: set[tuple[str, int]] = set()
    traced = (*_PACKAGES, *files)

    def within(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return within

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return within if frame.f_code.co_filename.startswith(traced) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        act()
    finally:
        sys.settrace(before)
    return frozenset(found)


def changes(
    lines_at: Callable[[int], Lines],
    sizes: Sequence[int],
    *,
    enough: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Return sizes n such that runs on n and on n + 1 rows execute different lines.

    Between two sizes that differ, bisection finds one such n. Stop when `enough` returns True.

    Examples
    --------
    >>> changes(lambda n: frozenset({("a.py", n >= 700)}), [300, 512, 1024, 2048])
    [699]
    """
    found: list[int] = []
    known: dict[int, Lines] = {}

    def at(n: int) -> Lines:
        if n not in known:
            known[n] = lines_at(n)
        return known[n]

    for low, high in itertools.pairwise(sizes):
        if enough() or len(found) == MOST_CHANGES or at(low) == at(high):
            continue
        below, above = low, high
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (below, middle) if at(middle) != at(below) else (middle, above)
        found.append(below)
    return found
