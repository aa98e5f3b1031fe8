"""Table descriptions in JSON: Frictionless (Data Package, Table Schema) and CSVW."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hushtable.drafting.domains import MISSING, Content, between, listed


def read_descriptor(described: Mapping[str, Any]) -> dict[str, Content]:
    """Return the fields that have a list of values or a range."""
    found = {}
    for field in _fields(described):
        content = _field(field)
        if field["name"] and content is not None:
            found[field["name"]] = content
    return found


def _fields(described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield name, type and constraints of each field, from either format."""
    for resource in described.get("resources", []):
        yield from _fields(resource)
    for table in described.get("tables", []):
        yield from _fields(table)
    if isinstance(described.get("schema"), Mapping):
        yield from _fields(described["schema"])
    for field in described.get("fields", []):
        yield {
            "name": field.get("name", ""), "type": field.get("type", ""),
            "constraints": field.get("constraints") or {},
            "categories": field.get("categories") or [],
        }  # fmt: skip
    for column in (described.get("tableSchema") or {}).get("columns", []):
        kind = column.get("datatype", "")
        kind = kind if isinstance(kind, Mapping) else {"base": kind}
        titles = column.get("titles", "")
        title = titles[0] if isinstance(titles, list) and titles else titles
        low = kind.get("minimum", kind.get("minInclusive"))
        high = kind.get("maximum", kind.get("maxInclusive"))
        pattern = str(kind.get("format", ""))
        plain = "|" in pattern and not any(sign in pattern for sign in "[]()*+?.\\^$")
        yield {
            "name": column.get("name") or title, "type": kind.get("base", ""),
            "constraints": {"minimum": low, "maximum": high},
            "categories": pattern.split("|") if plain else [],
        }  # fmt: skip


def _field(field: Mapping[str, Any]) -> Content | None:
    limits = field["constraints"]
    values = limits.get("enum") or [
        item.get("value") if isinstance(item, Mapping) else item for item in field["categories"]
    ]
    if values:
        return listed(values)
    if field["type"] == "boolean":
        return {"type": "boolean", **MISSING}
    if limits.get("minimum") is None or limits.get("maximum") is None:
        return None
    step = 1 if field["type"] == "integer" else None
    return between(limits["minimum"], limits["maximum"], step)
