"""Release explorer in one HTML file: answers computed in advance, shown without server or network.

The page only looks answers up, so they equal those of the library: counts by one and by two
columns, and means and medians by one column.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from itertools import combinations
from typing import Any, cast

from hushtable.errors import HushtableError, Refused
from hushtable.query.answers import Estimate
from hushtable.query.answers.estimator import written
from hushtable.release.release import Release
from hushtable.release.statement import NOT_PRIVATE
from hushtable.schema import Integer, Number
from hushtable.schema.column import with_label
from hushtable.web.questions import ValueGroup, parts_of

MAX_CELLS = 3000
"""Maximum number of cells of all tables of two columns, which take most of the time."""

MAX_VALUES = 1000
"""Maximum number of values of a column with medians; others would take minutes."""


FEW_CELLS = 500
"""Maximum number of cells of tables of two columns whose answers take seconds."""


def is_quick(release: Release) -> bool:
    """Return whether the answers of the page take seconds."""
    columns = release.schema.attributes
    sizes = [len(parts_of(name, column)) for name, column in columns.items()]
    n_cells = sum(one * other for one, other in combinations(sizes, 2))
    return n_cells <= FEW_CELLS and max(column.size for column in columns.values()) <= MAX_VALUES


def explorer_page(release: Release, progress: Callable[[str, float], None]) -> str:
    """Return the explorer of a release as an HTML page with all answers that it shows."""
    content = json.dumps(_content(release, progress), separators=(",", ":"), allow_nan=False)
    folder = files("hushtable.web") / "explorer"
    page, style, script = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "explorer.css", "explorer.js")
    )
    parts = {
        "title": escape(_title(release)),
        "style-digest": _digest(style),
        "script-digest": _digest(script),
        "style": style,
        "script": script,
        "content": content.replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda mark: parts[mark[1]], page)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(release: Release) -> str:
    return str(release.statement.public_schema.get("name", "")) or release.folder.name


def _content(release: Release, progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Compute all answers of the page."""
    answers = _Answers()
    columns = release.schema.attributes
    groups = {name: parts_of(name, column) for name, column in columns.items()}
    pairs = sorted(combinations(groups, 2), key=lambda two: math.prod(map(len, _of(groups, two))))
    counts = {
        name: [answers.add(partial(release.count, group.clause)) for group in parts]
        for name, parts in groups.items()
    }
    n_cells = 0
    left_out = []
    for place, (one, other) in enumerate(pairs):
        n_cells += len(groups[one]) * len(groups[other])
        if n_cells > MAX_CELLS:
            left_out.append([one, other])
            continue
        counts[f"{one}\n{other}"] = [
            answers.add(partial(release.count, f"{a.clause} AND {b.clause}"))
            for a in groups[one]
            for b in groups[other]
        ]
        progress("counting", 0.8 * place / len(pairs))
    numbers = [n for n, column in columns.items() if isinstance(column, Integer | Number)]
    figures: dict[str, dict[str, Any]] = {}
    for place, number in enumerate(numbers):
        for figure in ("mean", "median") if columns[number].size <= MAX_VALUES else ("mean",):
            ask = partial(getattr(release, figure), number)
            figures[f"{figure} of {number}"] = {"": [answers.add(ask)]} | {
                name: [answers.add(partial(ask, group.clause)) for group in parts]
                for name, parts in groups.items()
            }
        progress("computing means", 0.8 + 0.2 * (place + 1) / len(numbers))
    statement = release.statement
    return {
        "title": _title(release),
        "method": statement.method,
        "promises": [promise.explain() for promise in statement.guarantees],
        "warning": NOT_PRIVATE if statement.seeded else "",
        "folder": release.folder.name,
        "columns": [
            {
                "name": name,
                "title": with_label(name, {name: column.label}),
                "type": column.type,
                "values": column.in_short,
                "groups": [[g.label, g.clause] for g in groups[name]],
            }
            for name, column in columns.items()
        ],
        "total": answers.add(release.count),
        "counts": counts,
        "figures": figures,
        "leftOut": left_out,
        "notes": list(answers.notes),
    }


def _of(groups: dict[str, list[ValueGroup]], names: Sequence[str]) -> list[list[ValueGroup]]:
    return [groups[name] for name in names]


class _Answers:
    """Answers in short: the three texts, the three numbers (null if unbounded), and the notes."""

    def __init__(self) -> None:
        self.notes: dict[str, int] = {}

    def add(self, ask: Callable[[], Any]) -> list[Any]:
        """Ask a question, and return its answer, or the reason why it is refused."""
        try:
            found = cast("Estimate", ask())
        except HushtableError as error:
            problems = error.problems if isinstance(error, Refused) else (str(error),)
            return [written(math.nan, 0)] * 3 + [None] * 3 + [self._placed(problems)]
        numbers = (found.value, found.low, found.high)
        short = [float(f"{number:.9g}") if math.isfinite(number) else None for number in numbers]
        return [*found.figures(), *short, self._placed(found.notes)]

    def _placed(self, notes: Sequence[str]) -> list[int]:
        return [self.notes.setdefault(note, len(self.notes)) for note in notes]
