"""Review of a draft: unconfirmed columns in groups that one public reason can confirm together."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hushtable.drafting.names import NAMES
from hushtable.schema import Identifier, Schema
from hushtable.schema.column import RECOGNIZED

TABLE = ""
"""Stands for the whole table among the names of columns."""

_LISTED = ("categorical", "boolean")
_MOST_SHOWN = 8


@dataclass(frozen=True)
class ReviewGroup:
    """Unconfirmed columns of one kind that were proposed for the same reason."""

    title: str
    question: str
    columns: tuple[str, ...]


_GROUPS = NAMES["groups"]


def review_groups(schema: Schema) -> list[ReviewGroup]:
    """Return the groups of a schema that are not confirmed, in a fixed order.

    Examples
    --------
    >>> text = "{name: t, columns: {a: {type: integer, low: 0, high: 9, confirm: [low]}}}"
    >>> [(group.title, group.columns) for group in review_groups(Schema.parse(text))]
    [('numbers between the lowest and the highest of the table', ('a',))]
    """
    members: dict[str, list[str]] = {key: [] for key in _GROUPS}
    if schema.confirm:
        members["table"].append(TABLE)
    for name, column in schema.columns.items():
        if column.confirm:
            members[group_of(column)].append(name)
    found = [(_GROUPS[key], names) for key, names in members.items() if names]
    return [ReviewGroup(title, question, tuple(names)) for (title, question), names in found]


def group_of(column: Any) -> str:
    """Return the key of a column's group."""
    if isinstance(column, Identifier):
        return "hidden"
    if RECOGNIZED in column.confirm:
        return RECOGNIZED
    if column.type in _LISTED:
        return "lists"
    return "numbers" if column.type in ("integer", "number", "decimal") else "times"


def described(schema: Schema, name: str) -> str:
    """Return the domain of a column, or the settings of the whole table, on one line."""
    if name == TABLE:
        content = schema.to_dict()
        words = ", ".join(word.strip() or "(empty)" for word in schema.missing_values)
        reading = ", ".join(f"{key} {value}" for key, value in content.get("reading", {}).items())
        return f"protects {schema.unit.describe()}; missing: {words}; file: {reading or 'as found'}"
    column: Any = schema.columns[name]
    if isinstance(column, Identifier):
        return f"not published ({column.role})"
    if column.type in _LISTED:
        more = f", ... ({column.n_values} values)" if column.n_values > _MOST_SHOWN else ""
        return ", ".join(map(str, column.values[:_MOST_SHOWN])) + more
    step = f" by {column.step:g}" if isinstance(getattr(column, "step", None), float) else ""
    named = [f"{code} = {said}" for code, said in column.special_codes.items()]
    apart = f"; special: {', '.join(named)}" if named else ""
    return f"{column.type} {column.bounds}{step}{apart}"


def source_of(remarks: Sequence[str]) -> str:
    """Return the public source that a remark of a draft names, or an empty text."""
    found = re.search(rf"{RECOGNIZED} as (.*); public source: (.*)\.$", "\n".join(remarks), re.M)
    return f"{found[1]}: {found[2]}" if found else ""


def rounded_outward(column: Any) -> dict[str, str]:
    """Return bounds that do not show the lowest and highest values; empty if there are none.

    Numbers are rounded to one significant digit, dates to whole years.

    Examples
    --------
    >>> from hushtable.schema import Date, Integer
    >>> rounded_outward(Integer(type="integer", low=17, high=9412))
    {'low': '10', 'high': '10000'}
    >>> rounded_outward(Date(type="date", low="1919-10-14", high="2023-03-02"))
    {'low': '1919-01-01', 'high': '2023-12-31'}
    """
    kind = getattr(column, "type", "")
    if kind == "date":
        first, last = (datetime.date.fromisoformat(str(end)) for end in (column.low, column.high))
        return {"low": f"{first.year:04}-01-01", "high": f"{last.year:04}-12-31"}
    if kind not in ("integer", "number", "decimal"):
        return {}
    step = Decimal(str(getattr(column, "step", 1)))
    low, high = (
        _outward(Decimal(str(end)), step, way) for end, way in ((column.low, -1), (column.high, 1))
    )
    return {"low": f"{low:f}", "high": f"{high:f}"}


def _outward(bound: Decimal, step: Decimal, way: int) -> Decimal:
    """Round away from the values to one significant digit that is on the grid of the step."""
    if bound == 0:
        return bound
    unit = Decimal(1).scaleb(bound.adjusted())
    unit = max(unit, step) if unit % step == 0 or unit < step else step
    return Decimal(math.floor(bound / unit) if way < 0 else math.ceil(bound / unit)) * unit


def fields_of(text: str) -> Mapping[str, str]:
    r"""Return the fields that an answer in the terminal sets: two bounds, or a list of values.

    Examples
    --------
    >>> fields_of("0 120"), fields_of("yes, no")
    ({'low': '0', 'high': '120'}, {'values': 'yes\nno'})
    """
    bounds = re.fullmatch(r"\s*(-?[0-9][-0-9.:]*)(?:\s+to)?\s+(-?[0-9][-0-9.:]*)\s*", text)
    if bounds:
        return {"low": bounds[1], "high": bounds[2]}
    return {"values": "\n".join(part.strip() for part in text.split(",") if part.strip())}
