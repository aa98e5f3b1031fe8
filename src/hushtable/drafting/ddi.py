"""DDI Codebook (2.x), the XML format of data archives."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from hushtable.drafting.domains import Content, between, listed
from hushtable.errors import InvalidInput

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def read_ddi(file: Path) -> dict[str, Content]:
    """Return the variables that have categories or a range."""
    text = file.read_text(encoding="utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        # Entities can expand to gigabytes or include other files.
        raise InvalidInput(f"{file.name}: codebooks with a DOCTYPE are not supported; remove it.")
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
    values, codes = [], dict[int, str]()
    for category in _children(variable, "catgry"):
        value = "".join(_children(category, "catValu")[0].itertext()).strip()
        if category.get("missing", "").upper() in {"Y", "YES", "TRUE"}:
            label = "".join(
                text for part in _children(category, "labl") for text in part.itertext()
            )
            if _WHOLE.fullmatch(value):
                codes[int(value)] = label.strip() or f"code {value}"
        else:
            values.append(value)
    if values:
        return listed(values, ordered=variable.get("nature") == "ordinal")
    for ranges in _children(variable, "valrng"):
        for bounds in _children(ranges, "range"):
            low, high = bounds.get("min"), bounds.get("max")
            if low is not None and high is not None:
                return _with_codes(between(low, high), codes)
    return None


def _with_codes(content: Content | None, codes: dict[int, str]) -> Content | None:
    """Add codes outside the range as special values."""
    if content is None:
        return None
    apart = {n: name for n, name in codes.items() if not content["low"] <= n <= content["high"]}
    return content | ({"special": apart} if apart else {})
