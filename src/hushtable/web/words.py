"""Texts of the workbench and the release explorer, by name; they are in ``words.yaml``."""

from __future__ import annotations

from typing import Any

from hushtable.files.yaml_text import read_packaged

TEXTS: dict[str, Any] = read_packaged("hushtable.web", "words.yaml")


def __getattr__(name: str) -> Any:
    if name not in TEXTS:
        raise AttributeError(f"words.yaml has no text {name!r}")
    return TEXTS[name]
