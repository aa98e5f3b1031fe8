"""What hushtable logs: which phase work was in, and how long it took.

Records go to the logger ``hushtable`` at the level INFO, so that nobody sees them who did not ask:
``logging.getLogger("hushtable").setLevel("INFO")``, or ``hushtable -v`` on the command line. Beside
its message a record has the fields ``work``, ``phase`` and ``seconds``. It names phases, which are
words of this code, and nothing of a table. How long a phase took does depend on the private rows:
such a log is for the custodian, like everything that tells the time of a run.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hushtable.engine.silence import is_logged
from hushtable.files.progress import Progress, phase_of, silent

LOG = logging.getLogger("hushtable")
LOG.addHandler(logging.NullHandler())  # a library is quiet unless it is asked

DONE = "done"
FAILED = "failed"

P = ParamSpec("P")
R = TypeVar("R")


def logged(work: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Log the phases of a function that tells its `Progress`, and what it took in all."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            phases = _Phases(work, kwargs.get("progress", silent))
            kwargs["progress"] = phases
            ended = FAILED
            try:
                result = function(*args, **kwargs)
                ended = DONE
            finally:
                phases.end(ended)
            return result

        return run

    return decorate


class _Phases:
    """Log a phase when it is over, and pass on what was said of it."""

    def __init__(self, work: str, progress: Any) -> None:
        self._work = work
        self._progress: Progress = progress
        self._phase = ""
        self._begun = self._since = time.monotonic()

    def __call__(self, what: str, share: float) -> None:
        """Hear what is being done."""
        phase, _ = phase_of(what)
        if phase != self._phase:
            self._close()
            self._phase = phase
        self._progress(what, share)

    def end(self, ended: str) -> None:
        """Log the last phase, and the whole."""
        self._close()
        _log(self._work, ended, time.monotonic() - self._begun)

    def _close(self) -> None:
        now = time.monotonic()
        if self._phase and self._phase != DONE:
            _log(self._work, self._phase, now - self._since)
        self._since = now


def _log(work: str, phase: str, seconds: float) -> None:
    if not is_logged(LOG, logging.INFO):
        return
    fields = {"work": work, "phase": phase, "seconds": round(seconds, 3)}
    # Not `LOG.info`: while private rows are read, nothing else than this may be logged.
    LOG.handle(
        LOG.makeRecord(
            LOG.name, logging.INFO, __file__, 0, f"{work}: {phase}, {seconds:.3f} s", (), None,
            extra=fields,
        )
    )  # fmt: skip
