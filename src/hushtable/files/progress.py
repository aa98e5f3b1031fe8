"""How long work says how far it has come, and how long it will still take."""

from __future__ import annotations

from typing import Protocol

_BETWEEN = " · "
_ENOUGH = 0.2  # share of the work that must be done before its pace says anything


class Progress(Protocol):
    """Hear what is being done and what share of it is done, from 0 to 1.

    What is being done is a phase, which may say how much of it was done, see `counted`.
    """

    def __call__(self, what: str, share: float) -> None:
        """Take note."""


def silent(what: str, share: float) -> None:
    """Take no note."""


def counted(phase: str, done: str) -> str:
    """Say how much of a phase was done.

    Examples
    --------
    >>> counted("counting", "12 noisy answers")
    'counting · 12 noisy answers'
    """
    return f"{phase}{_BETWEEN}{done}"


def phase_of(what: str) -> tuple[str, str]:
    """Tell a phase from how much of it was done.

    Examples
    --------
    >>> phase_of("counting · 12 noisy answers"), phase_of("writing")
    (('counting', '12 noisy answers'), ('writing', ''))
    """
    phase, _, done = what.partition(_BETWEEN)
    return phase, done


def seconds_left(elapsed: float, share: float) -> float | None:
    """Guess how long work will still take that goes on as it did; None where it is too early.

    Examples
    --------
    >>> seconds_left(30, 0.5), seconds_left(30, 0.1)
    (30.0, None)
    """
    return elapsed * (1 - share) / share if share >= _ENOUGH else None


def duration(seconds: float) -> str:
    """Write a length of time as people say it.

    Examples
    --------
    >>> duration(12.3), duration(130), duration(8000)
    ('12 s', '2 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
