"""Patterns of names and values by which drafts recognize columns, and tables of words."""

from __future__ import annotations

from typing import Any

from hushtable.files.yaml_text import read_packaged

NAMES: dict[str, Any] = read_packaged("hushtable.drafting", "names.yaml")
