"""Patterns of names and values by which drafts recognize columns, and tables of words."""

from __future__ import annotations

from typing import Any

from hushtable.files.yaml_text import read_packaged

NAMES: dict[str, Any] = read_packaged("hushtable.drafting", "names.yaml")


def say(text: str, **filled: object) -> str:
    """Return a remark or message with its words in braces filled in."""
    return str(NAMES["texts"][text].format(**filled))
