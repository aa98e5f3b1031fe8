"""DDI Codebook (2.x): the XML that data archives describe their files with."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hushtable.engine.codebook.domains import Content, between, listed
from hushtable.errors import InvalidInput


def read_ddi(file: Path) -> dict[str, Content]:
    """Read variables with their categories or ranges; others are left out."""
    text = file.read_text(encoding="utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        # A few lines of entities can stand for gigabytes, or for other files.
        raise InvalidInput(f"{file.name}: a codebook with a DOCTYPE is not read; remove it.")
    root = ElementTree.fromstring(text)  # noqa: S314 - without entities there is nothing to expand
    found = {}
    for variable in root.iter():
        name = variable.get("name")
        if _tag(variable) != "var" or not name:
            continue
        content = _variable(variable)
        if content is not None:
            found[name] = content
    return found


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _children(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return [child for child in element if _tag(child) == tag]


def _variable(variable: ElementTree.Element) -> Content | None:
    values, has_missing = [], False
    for category in _children(variable, "catgry"):
        value = "".join(_children(category, "catValu")[0].itertext()).strip()
        if category.get("missing", "").upper() in {"Y", "YES", "TRUE"}:
            has_missing = True
        else:
            values.append(value)
    if values:
        return listed(values, ordered=variable.get("nature") == "ordinal", has_missing=has_missing)
    for ranges in _children(variable, "valrng"):
        for bounds in _children(ranges, "range"):
            low, high = bounds.get("min"), bounds.get("max")
            if low is not None and high is not None:
                return between(low, high, has_missing=has_missing)
    return None
