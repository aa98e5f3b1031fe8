"""Choice between full and reduced measurements, made before a module of figures is imported."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

_REDUCED = False


def reduce_repetitions() -> None:
    """Make modules of figures that are imported from now on use their reduced settings."""
    global _REDUCED  # noqa: PLW0603 - the modules state their settings as constants
    _REDUCED = True


def setting(full: T, reduced: T) -> T:
    """Return the setting of a full or of a reduced measurement."""
    return reduced if _REDUCED else full
