"""How long work says how far it has come."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Hear what is being done and what share of it is done, from 0 to 1."""

    def __call__(self, what: str, share: float) -> None:
        """Take note."""


def silent(what: str, share: float) -> None:
    """Take no note."""
