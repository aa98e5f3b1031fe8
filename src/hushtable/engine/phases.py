"""Logging of phases and their durations.

Records go to the logger ``hushtable`` at level INFO, which is off by default. To see them, call
``logging.getLogger("hushtable").setLevel("INFO")``, or run ``hushtable -v``. A record has the
fields ``work``, ``phase`` and ``seconds``. Phase names come from the code and contain nothing of a
table, but durations depend on the private rows, so the log is for the custodian only.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hushtable.engine.output_guard import is_logged
from hushtable.files.progress import Progress, phase_of, silent

LOG = logging.getLogger("hushtable")
LOG.addHandler(logging.NullHandler())  # a library is silent by default

DONE = "done"
FAILED = "failed"

P = ParamSpec("P")
R = TypeVar("R")


def logged(work: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that logs the phases and total duration of a function with progress."""

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
    """Progress callback that logs each phase at its end and forwards every call."""

    def __init__(self, work: str, progress: Any) -> None:
        self._work = work
        self._progress: Progress = progress
        self._phase = ""
        self._begun = self._since = time.monotonic()

    def __call__(self, what: str, share: float) -> None:
        """Record the current phase and forward the call."""
        phase, _ = phase_of(what)
        if phase != self._phase:
            self._close()
            self._phase = phase
        self._progress(what, share)

    def end(self, ended: str) -> None:
        """Log the last phase and the total duration."""
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
    # Not `LOG.info`: logging is disabled while private rows are read, except for these records.
    LOG.handle(
        LOG.makeRecord(
            LOG.name, logging.INFO, __file__, 0, f"{work}: {phase}, {seconds:.3f} s", (), None,
            extra=fields,
        )
    )  # fmt: skip
