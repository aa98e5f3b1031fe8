"""Texts of the workbench and the release explorer, by name; they are in ``words.yaml``."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from hushtable.files.yaml_text import read_yaml

TEXTS: dict[str, Any] = read_yaml((files(__package__) / "words.yaml").read_text(encoding="utf-8"))


def __getattr__(name: str) -> Any:
    if name not in TEXTS:
        raise AttributeError(f"words.yaml has no text {name!r}")
    return TEXTS[name]
