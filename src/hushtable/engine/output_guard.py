"""Suppression of private values in terminal output and logs while private rows are read.

Libraries quote values when something fails: PySpark prints a cell that it cannot convert at any log
level, Spark logs the message of a failed task, NumPy and pandas warn, and an exception keeps the
exceptions before it. So functions that read private rows are `silenced`: while they run, only
hushtable may warn or log, and only hushtable's own errors are raised, without those of other
libraries as context. Afterwards all settings are restored.

Logs that executors write on other machines cannot be controlled from here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ParamSpec, TypeVar

from hushtable.errors import HushtableError, HushtableWarning, InternalError, OwnNote, TooLarge
from hushtable.files.progress import Progress, phase_of, silent

P = ParamSpec("P")
R = TypeVar("R")


def silenced(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose output is limited to hushtable's own errors, warnings and logs.

    Errors of other libraries become an `InternalError` with their type and traceback, and a
    `MemoryError` becomes `TooLarge`. The local variables of the failed functions are cleared, so
    that error trackers find no rows there.

    Examples
    --------
    >>> @silenced
    ... def read() -> int:
    ...     return int("a private value")
    >>> read()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hushtable.errors.InternalError: internal error (ValueError); its message is withheld, since ...

    Wrong arguments raise a `TypeError` as usual, since it contains names, not values.

    >>> read("a private value")
    Traceback (most recent call last):
    TypeError: too many positional arguments
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        signature.bind(*args, **kwargs)
        with _SILENCE:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                failure = _without_values(error)
        del args, kwargs
        # Raised outside the except block, so that it has no context.
        raise failure

    return quiet


def silence_also(quiet: contextlib.AbstractContextManager[Any]) -> None:
    """Keep a context manager active until the current run ends; no-op outside a run."""
    _SILENCE.also(quiet)


# --- errors ---------------------------------------------------------------------------------------


def _without_values(error: BaseException) -> BaseException:
    place = error.__traceback__
    if isinstance(error, Exception) and not isinstance(error, HushtableError | HushtableWarning):
        error = _in_own_words(error).with_traceback(place)
    _forget_others(error)
    traceback.clear_frames(place)  # local variables may contain rows
    return error


def _in_own_words(error: Exception) -> HushtableError:
    notes = [str(note) for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]
    if isinstance(error, MemoryError):
        return TooLarge(["the memory of this machine does not suffice.", *notes])
    told = f"internal error ({type(error).__name__}); its message is withheld, since it may quote "
    return InternalError([f"{told}private values.", *notes])


def _forget_others(error: BaseException) -> None:
    """Remove the causes and notes that other libraries attached to an error."""
    done: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in done:
        done.add(id(link))
        if hasattr(link, "__notes__") and not isinstance(link, HushtableError):
            link.__notes__ = [note for note in link.__notes__ if isinstance(note, OwnNote)]
        if isinstance(link, HushtableError):
            told = ("problems", "__notes__")
            link.__dict__ = {name: value for name, value in vars(link).items() if name in told}
        own = link.__cause__ if isinstance(link.__cause__, HushtableError) else None
        link.__cause__, link.__context__, link.__suppress_context__ = own, None, True
        link = own


# --- logs, warnings and uncaught errors -----------------------------------------------------------


class _OutputGuard:
    """Suppression for the whole process, from the start of the first run to the end of the last.

    Runs may overlap in several threads, but the settings are global.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._n_runs = 0
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._n_runs == 0:
                for quiet in (_no_logging, _no_warnings, _no_background, _no_spark):
                    self._stack.enter_context(quiet())
            self._n_runs += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_runs -= 1
            if self._n_runs == 0:
                self._stack.close()

    def also(self, quiet: contextlib.AbstractContextManager[Any]) -> None:
        with self._lock:
            if self._n_runs:
                self._stack.enter_context(quiet)


_SILENCE = _OutputGuard()


_LOGGING_OFF: list[int] = []
"""During a run, the level up to which the user had disabled logging; otherwise empty."""


@contextlib.contextmanager
def _no_logging() -> Iterator[None]:
    _LOGGING_OFF.append(logging.root.manager.disable)
    logging.disable(sys.maxsize)  # every logger, with every level
    try:
        yield
    finally:
        logging.disable(_LOGGING_OFF.pop())


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore warnings of other libraries; keep the filters for hushtable's own."""
    with warnings.catch_warnings():
        filters: list[Any] = warnings.filters  # type: ignore[assignment] # which it is
        own = []
        for action, message, category, *place in filters:
            if issubclass(category, HushtableWarning):
                own.append((action, message, category, *place))
            elif issubclass(HushtableWarning, category):
                own.append((action, message, HushtableWarning, *place))
        # If no filter matches, the default action applies.
        own.append((warnings.defaultaction, None, HushtableWarning, None, 0))  # type: ignore[attr-defined]
        filters[:] = own
        warnings.simplefilter("ignore", append=True)
        yield


@contextlib.contextmanager
def _no_background() -> Iterator[None]:
    """Print only the type of errors that cannot be caught."""
    thread, unraisable = threading.excepthook, sys.unraisablehook

    def tell(event: Any) -> None:
        if sys.stderr is not None and not issubclass(event.exc_type, SystemExit):
            sys.stderr.write(
                f"hushtable: an error in the background ({event.exc_type.__name__}); its message "
                "is withheld while private rows are read.\n"
            )

    threading.excepthook = sys.unraisablehook = tell
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = thread, unraisable


@contextlib.contextmanager
def _no_spark() -> Iterator[None]:
    """Turn off the logs of this process's Spark session, if any."""
    core = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    context = getattr(getattr(core, "SparkContext", None), "_active_spark_context", None)
    if context is None:
        yield
        return
    with quiet_spark(context):
        yield


@contextlib.contextmanager
def quiet_spark(context: Any) -> Iterator[None]:
    """Turn off the logs of the driver's JVM, including loggers with their own level."""
    before: list[tuple[Any, Any]] = []
    log4j = context._jvm.org.apache.logging.log4j
    with contextlib.suppress(Exception):  # a cluster that logs in another way
        levels = log4j.LogManager.getContext(False)
        for logger in levels.getConfiguration().getLoggers().values():
            before.append((logger, logger.getLevel()))
            logger.setLevel(log4j.Level.OFF)
        levels.updateLoggers()
    if not before:
        context.setLogLevel("OFF")
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # a session that was stopped meanwhile
            for logger, level in before:
                logger.setLevel(level)
            levels.updateLoggers()


# Logging of phases and their durations.
#
# Records go to the logger ``hushtable`` at level INFO, which is off by default. To see them, call
# ``logging.getLogger("hushtable").setLevel("INFO")``, or run ``hushtable -v``. A record has the
# fields ``work``, ``phase`` and ``seconds``. Phase names come from the code and contain nothing of
# a table, but durations depend on the private rows, so the log is for the custodian only.

LOG = logging.getLogger("hushtable")
LOG.addHandler(logging.NullHandler())  # a library is silent by default

DONE = "done"
FAILED = "failed"


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
    # The user's setting, not the suppression during a run.
    off = _LOGGING_OFF[-1] if _LOGGING_OFF else logging.root.manager.disable
    if off >= logging.INFO or LOG.getEffectiveLevel() > logging.INFO:
        return
    fields = {"work": work, "phase": phase, "seconds": round(seconds, 3)}
    # Not `LOG.info`: logging is disabled while private rows are read, except for these records.
    LOG.handle(
        LOG.makeRecord(
            LOG.name, logging.INFO, __file__, 0, f"{work}: {phase}, {seconds:.3f} s", (), None,
            extra=fields,
        )
    )  # fmt: skip
