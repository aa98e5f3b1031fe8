"""Texts that packages keep beside their code."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class Texts:
    """Texts of a package, from its `texts.yaml`, which is read on first use."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def _texts(self) -> dict[str, Any]:
        from hushtable.files.yaml_text import read_packaged  # noqa: PLC0415 - slow to import

        found: dict[str, Any] = read_packaged(self._package, "texts.yaml")
        return found

    def __getitem__(self, name: str) -> Any:
        """Return a text, or several, as written there."""
        return self._texts[name]

    def __call__(self, name: str, /, **filled: object) -> str:
        """Return a text with its words in braces filled in."""
        return str(self._texts[name].format(**filled))
