"""A check, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["holds", "FAILS", "not tested"]


@dataclass(frozen=True)
class Verdict:
    """Say what a check found.

    Parameters
    ----------
    word : {"holds", "FAILS", "not tested"}
        The outcome.
    said : str
        By which figures.
    """

    word: Word
    said: str


@dataclass(frozen=True)
class Check:
    """Name something that can be checked.

    Parameters
    ----------
    group : str
        What it is about.
    name : str
        What is checked.
    look : callable
        Does it.
    """

    group: str
    name: str
    look: Callable[[], Verdict]


@dataclass(frozen=True)
class Row:
    """Hold a check that was made, for people and programs.

    Parameters
    ----------
    group, name : str
        What was checked.
    word, said : str
        See `Verdict`.
    seconds : float
        How long it took.
    """

    group: str
    name: str
    word: Word
    said: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return asdict(self)


def held(found: bool, said: str) -> Verdict:
    """Say that something holds or fails."""
    return Verdict("holds" if found else "FAILS", said)
