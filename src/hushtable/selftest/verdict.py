"""Checks and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["holds", "FAILS", "not tested"]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of a check, with the figures behind it."""

    word: Word
    said: str


@dataclass(frozen=True)
class SelfCheck:
    """A check; `run` runs it."""

    group: str
    name: str
    run: Callable[[], CheckResult]


@dataclass(frozen=True)
class CheckRow:
    """Result of a check, with its duration in seconds."""

    group: str
    name: str
    word: Word
    said: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)


def held(found: bool, said: str) -> CheckResult:
    """Return a verdict that a check holds or fails."""
    return CheckResult("holds" if found else "FAILS", said)
