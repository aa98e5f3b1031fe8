"""CPU time limit and progress of an audit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hushtable.files.progress import Progress, silent


@dataclass
class Clock:
    """CPU time limit of one test, and its share of the progress."""

    seconds: float | None = None  # CPU seconds that this test may take
    progress: Progress = silent
    done: float = 0.0  # share of the audit completed before this test
    share: float = 1.0  # share of the audit that this test is
    _start: float = field(default_factory=time.process_time)
    _most: float = 0.0

    def now(self) -> float:
        """Return the CPU seconds since the test started."""
        return time.process_time() - self._start

    def tell(self, what: str, part: float) -> None:
        """Report the progress of this test; it never decreases."""
        self._most = max(self._most, part)
        self.progress(what, self.done + self.share * self._most)

    def is_past(self, part: float) -> bool:
        """Return whether this part of the time is used up, 1 for all of it."""
        return self.seconds is not None and self.now() > self.seconds * part

    def affordable(self, wanted: int, n_sides: int, n_before: int, started: float) -> int:
        """Return the number of runs that fit the remaining time, judging by the runs so far.

        The number is fixed before the first of them, so that it cannot depend on their outcomes.
        """
        if self.seconds is None or n_before == 0:
            return wanted
        each = (self.now() - started) / n_before
        left = max(0.0, self.seconds - self.now())
        return max(1, min(wanted, int(left / (each * n_sides)))) if each > 0 else wanted
