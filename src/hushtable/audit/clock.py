"""How long an audit may take, in seconds of a processor, and how far it has come."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hushtable.files.progress import Progress, silent


@dataclass
class Clock:
    """Keep the time of one claim out of several.

    Parameters
    ----------
    seconds : float, optional
        How long this claim may take.
    progress : Progress
        Who is told.
    done, share : float
        What part of the whole audit came before this claim, and what part the claim is.
    """

    seconds: float | None = None
    progress: Progress = silent
    done: float = 0.0
    share: float = 1.0
    _start: float = field(default_factory=time.process_time)
    _most: float = 0.0

    def now(self) -> float:
        """Give the seconds since the claim was taken up."""
        return time.process_time() - self._start

    def tell(self, what: str, part: float) -> None:
        """Say how far this claim has come; where a new search begins, it does not go back."""
        self._most = max(self._most, part)
        self.progress(what, self.done + self.share * self._most)

    def is_past(self, part: float) -> bool:
        """Tell whether so much of the time has gone, 1 for all of it."""
        return self.seconds is not None and self.now() > self.seconds * part

    def affordable(self, wanted: int, n_sides: int, n_before: int, started: float) -> int:
        """Say how many runs the rest of the time is enough for, by how long they took so far.

        The number is fixed before the first of them, so that it cannot depend on their outcomes.
        """
        if self.seconds is None or n_before == 0:
            return wanted
        each = (self.now() - started) / n_before
        left = max(0.0, self.seconds - self.now())
        return max(1, min(wanted, int(left / (each * n_sides)))) if each > 0 else wanted
