"""Progress reports of long tasks, and estimates of the remaining time."""

from __future__ import annotations

from typing import Protocol

_BETWEEN = " · "
_ENOUGH = 0.2  # share of the work after which the remaining time is estimated


class Progress(Protocol):
    """Callback that receives the current phase and the share of the work done, from 0 to 1.

    The phase may include a count of what was done; see `counted`.
    """

    def __call__(self, what: str, share: float) -> None:
        """Report progress."""


def silent(what: str, share: float) -> None:
    """Ignore a progress report."""


def counted(phase: str, done: str) -> str:
    """Add a count of what was done to a phase.

    Examples
    --------
    >>> counted("counting", "12 noisy answers")
    'counting · 12 noisy answers'
    """
    return f"{phase}{_BETWEEN}{done}"


def phase_of(what: str) -> tuple[str, str]:
    """Split a report into the phase and the count of what was done.

    Examples
    --------
    >>> phase_of("counting · 12 noisy answers"), phase_of("writing")
    (('counting', '12 noisy answers'), ('writing', ''))
    """
    phase, _, done = what.partition(_BETWEEN)
    return phase, done


def seconds_left(elapsed: float, share: float) -> float | None:
    """Estimate the remaining time at the same pace; None if less than 20% is done.

    Examples
    --------
    >>> seconds_left(30, 0.5), seconds_left(30, 0.1)
    (30.0, None)
    """
    return elapsed * (1 - share) / share if share >= _ENOUGH else None


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit.

    Examples
    --------
    >>> duration(12.3), duration(130), duration(8000)
    ('12 s', '2 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
