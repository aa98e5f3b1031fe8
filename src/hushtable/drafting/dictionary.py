"""Data dictionaries in CSV: one line per column, as agencies publish them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hushtable.drafting.domains import Content, between, listed

_HEADINGS: Mapping[str, Sequence[str]] = {
    "name": ("name", "variable", "column", "field", "variable name", "column name", "field name"),
    "values": ("values", "codes", "categories", "levels", "allowed values", "value labels"),
    "low": ("low", "min", "minimum", "lower"),
    "high": ("high", "max", "maximum", "upper"),
    "step": ("step", "precision"),
    "range": ("range",),
    "role": ("role",),
}
_RANGE = re.compile(r"\s*(-?[0-9.]+)\s*(?:-|to|\.\.|–)\s*(-?[0-9.]+)\s*", re.IGNORECASE)


def is_dictionary(file: Path) -> bool:
    """Return whether the first line of a CSV file has the headings of a data dictionary."""
    places = _places(_lines(file)[0])
    return "name" in places and len(places) > 1


def read_dictionary(file: Path) -> dict[str, Content]:
    """Return the columns that have a list of values, a range or the role identifier."""
    first, *lines = _lines(file)
    places, found = _places(first), {}
    for line in lines:
        said = {key: line[place].strip() for key, place in places.items() if place < len(line)}
        content = _content(said)
        if said.get("name") and content is not None:
            found[said["name"]] = content
    return found


def _lines(file: Path) -> list[list[str]]:
    text = file.read_text(encoding="utf-8-sig")
    delimiter = max((",", ";", "\t"), key=text.partition("\n")[0].count)
    return [line for line in csv.reader(text.splitlines(), delimiter=delimiter) if line] or [[]]


def _places(first: Sequence[str]) -> dict[str, int]:
    headings = [heading.strip().lower().replace("_", " ") for heading in first]
    return {
        key: headings.index(known)
        for key, names in _HEADINGS.items()
        for known in names[::-1]
        if known in headings
    }


def _content(said: Mapping[str, str]) -> Content | None:
    if said.get("role", "").lower() == "identifier":
        return {"role": "identifier"}
    content = None
    if said.get("low") and said.get("high"):
        content = between(said["low"], said["high"], said.get("step"))
    elif spread := _RANGE.fullmatch(said.get("range", "")):
        content = between(spread[1], spread[2], said.get("step"))
    elif values := said.get("values"):
        if spread := _RANGE.fullmatch(values):
            content = between(spread[1], spread[2], said.get("step"))
        else:
            content = listed(_values(values))
    if content is not None and said.get("role", "").lower() == "target":
        content["role"] = "target"
    return content


def _values(text: str) -> list[str]:
    """Split a list of values, with labels or without.

    Examples
    --------
    >>> _values("1=male; 2=female"), _values("F|M|other"), _values("a, b")
    (['1', '2'], ['F', 'M', 'other'], ['a', 'b'])
    """
    sign = next((sign for sign in ("|", ";", "\n", ",") if sign in text), ",")
    parts = [part.strip() for part in text.split(sign) if part.strip()]
    if all(re.match(r"[^=:\s]+\s*[=:]\s*\S", part) for part in parts):
        parts = [re.split(r"\s*[=:]", part, maxsplit=1)[0] for part in parts]
    return parts
