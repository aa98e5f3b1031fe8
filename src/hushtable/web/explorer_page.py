"""Release explorer as one HTML page, for a file or for a server.

In a file, all answers are computed in advance, and the page looks them up: it needs no server or
network. On a server, the page asks for each answer (`hushtable.web.pages.explore`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from functools import partial
from html import escape
from importlib.resources import files
from itertools import combinations
from typing import Any

from hushtable.release.release import Release
from hushtable.release.statement import NOT_PRIVATE
from hushtable.schema import Column, Numeric
from hushtable.schema.column import with_label
from hushtable.web.questions import ShortAnswers, figure_of, parts_of

MAX_CELLS = 3000
"""Maximum number of cells of all tables of two columns, which take most of the time."""

MAX_VALUES = 1000
"""Maximum number of values of a column with medians; others would take minutes."""

MAX_SETS = 3000
"""Maximum number of counts with a condition on several values, if time does not matter."""

MAX_LISTED = 5
"""Maximum number of values of a list of which all sets are answered; of others, only pairs."""

FEW_CELLS = 500
"""Maximum number of cells of tables of two columns whose answers take seconds."""


def is_quick(release: Release) -> bool:
    """Return whether the answers of the page take seconds."""
    columns = release.schema.attributes
    sizes = [len(parts_of(name, column)) for name, column in columns.items()]
    n_cells = sum(one * other for one, other in combinations(sizes, 2))
    return n_cells <= FEW_CELLS and max(column.size for column in columns.values()) <= MAX_VALUES


def explorer_page(
    release: Release, progress: Callable[[str, float], None], *, max_sets: int = 0
) -> str:
    """Return the explorer as a page with all answers that it shows.

    `max_sets` is the maximum number of counts with a condition on several values of a column.
    """
    return _page(_described(release) | _answers(release, progress, max_sets))[0]


def served_page(release: Release, *, under: str = "", back: str = "") -> tuple[str, str]:
    """Return the explorer as a page that asks its server, and its content security policy.

    `under` is the folder of the release in commands, `back` the address of a page to return to.
    """
    content = _described(release) | {"server": True, "back": back}
    content["folder"] = f"{under}{content['folder']}"
    content["whats"] = [
        (what, name)
        for name, column in release.schema.attributes.items() if isinstance(column, Numeric)
        for what in ("mean", "median")
    ]  # fmt: skip
    return _page(content, connect="; connect-src 'self'")


def _page(content: dict[str, Any], connect: str = "") -> tuple[str, str]:
    """Return the page and its content security policy."""
    folder = files("hushtable.web") / "explorer"
    page, style, script = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "explorer.css", "explorer.js")
    )
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": escape(content["title"]),
        "style-digest": _digest(style),
        "script-digest": _digest(script),
        "connect": connect,
        "style": style,
        "script": script,
        "content": data,
    }
    filled = re.sub(r"\{\{([a-z-]+)\}\}", lambda mark: parts[mark[1]], page)
    policy = filled.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    return filled, f"{policy}; frame-ancestors 'none'"  # which a page cannot set itself


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _described(release: Release) -> dict[str, Any]:
    """Return what the page shows besides answers."""
    statement = release.statement
    return {
        "title": str(statement.public_schema.get("name", "")) or release.folder.name,
        "method": statement.method,
        "created": statement.created,
        "promises": [promise.explain() for promise in statement.guarantees],
        "unprotected": statement.unprotected,
        "warning": NOT_PRIVATE if statement.seeded else "",
        "folder": release.folder.name,
        "columns": [
            {
                "name": name,
                "title": with_label(name, {name: column.label}),
                "type": column.type,
                "values": column.in_short,
                "groups": [[group.label, group.clause] for group in parts_of(name, column)],
            }
            for name, column in release.schema.attributes.items()
        ],
        "leftOut": [],
    }


def _sets(column: Column, n_groups: int) -> list[tuple[int, ...]]:
    """Return the sets of several groups of a column that the page answers: ranges, or all sets.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> _sets(sample_schema().attributes["smoker"], 3)
    [(0, 1), (0, 2), (1, 2)]
    """
    if column.is_line:
        return [tuple(range(a, b)) for a, b in combinations(range(n_groups + 1), 2)
                if 1 < b - a < n_groups]  # fmt: skip
    sizes = range(2, n_groups if n_groups <= MAX_LISTED else 3)
    return [one for size in sizes for one in combinations(range(n_groups), size)]


def _answers(
    release: Release, progress: Callable[[str, float], None], max_sets: int
) -> dict[str, Any]:
    """Compute all answers of the page: tables of answers by their columns.

    A column with an asterisk stands for its sets of several groups.
    """
    answers = ShortAnswers()
    columns = release.schema.attributes
    clauses = {n: [part.clause for part in parts_of(n, c)] for n, c in columns.items()}
    sets = {name: _sets(column, len(clauses[name])) for name, column in columns.items()}
    any_of = {
        f"{name}*": [
            "(" + " OR ".join(clauses[name][place] for place in one) + ")" for one in found
        ]
        for name, found in sets.items()
    }
    every = {**clauses, **any_of}

    def size(*names: str) -> int:
        return math.prod(len(every[name]) for name in names)

    def crossed(one: str, other: str) -> list[Any]:
        return [
            answers.add(partial(release.count, f"{a} AND {b}"))
            for a in every[one] for b in every[other]
        ]  # fmt: skip

    pairs = sorted(combinations(clauses, 2), key=lambda two: size(*two))

    def table(ask: Callable[..., Any]) -> dict[str, list[Any]]:
        """Return the answer for all rows, and those by one column."""
        each: dict[str, list[Any]] = {"": [None], **clauses}
        return {
            name: [answers.add(partial(ask, clause)) for clause in asked]
            for name, asked in each.items()
        }

    counts, n_cells, left_out = table(release.count), 0, []
    for place, (one, other) in enumerate(pairs):
        n_cells += size(one, other)
        if n_cells > MAX_CELLS:
            left_out.append([one, other])
            continue
        counts[f"{one}\n{other}"] = crossed(one, other)
        progress("counting", 0.4 * place / len(pairs))
    for name in any_of:
        if size(name) <= max_sets:
            max_sets -= size(name)
            counts[name] = [answers.add(partial(release.count, clause)) for clause in every[name]]
    several = [two for a, b in pairs for two in ((f"{a}*", b), (a, f"{b}*")) if size(*two)]
    for place, two in enumerate(sorted(several, key=lambda two: size(*two))):
        if size(*two) <= max_sets:
            max_sets -= size(*two)
            counts["\n".join(two)] = crossed(*two)
            progress("counting", 0.4 + 0.4 * place / len(several))
    whats = [
        (what, name)
        for name, column in columns.items() if isinstance(column, Numeric)
        for what in (("mean", "median") if column.size <= MAX_VALUES else ("mean",))
    ]  # fmt: skip
    figures = {}
    for place, (what, name) in enumerate(whats):
        figures[f"{what} of {name}"] = table(figure_of(release, what, name))
        progress("computing means", 0.8 + 0.2 * (place + 1) / len(whats))
    return {
        "counts": counts,
        "figures": figures,
        "whats": whats,
        "leftOut": left_out,
        "sets": sets if any_of.keys() & counts.keys() else {},
        "notes": list(answers.notes),
    }
