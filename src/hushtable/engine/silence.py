"""Nothing private on a screen or in a log while private rows are read.

Libraries below quote values when something goes wrong: PySpark's loggers print the cell that could
not be converted whatever the log level is, Spark logs the message of a failed task, NumPy and
pandas warn, and an error carries the errors before it along. So whatever reads private rows is
`silenced`: for that time nobody but hushtable warns or logs, and only errors of hushtable come out,
alone. Afterwards everything is as it was.

What executors on other machines write into logs of their own is out of reach from here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ParamSpec, TypeVar

from hushtable.errors import (
    HushtableError,
    HushtableWarning,
    InternalError,
    OwnNote,
    TooLarge,
)

P = ParamSpec("P")
R = TypeVar("R")


def silenced(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that reads private rows say nothing but what hushtable says itself.

    Errors of other libraries become an `InternalError` that names their kind and keeps their place.
    What was known in the functions that failed is forgotten, so that no error tracker finds a row
    there.

    Examples
    --------
    >>> @silenced
    ... def read() -> int:
    ...     return int("a private value")
    >>> read()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hushtable.errors.InternalError: internal error (ValueError); its message is withheld, since ...

    A call that does not fit the function is refused as ever: that names arguments, not values.

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
        # Raised here, where no error is being handled: it has no other one as its context.
        raise failure

    return quiet


def silence_also(quiet: contextlib.AbstractContextManager[Any]) -> None:
    """Keep something silent until the run that is under way is over; nothing where none is."""
    _SILENCE.also(quiet)


def is_logged(logger: logging.Logger, level: int) -> bool:
    """Say whether the user wants to see what a logger of hushtable says at a level.

    The silence is for all others, and must not be taken for a wish of the user's.
    """
    off = _LOGGING_OFF[-1] if _LOGGING_OFF else logging.root.manager.disable
    return off < level and logger.getEffectiveLevel() <= level


# --- errors ---------------------------------------------------------------------------------------


def _without_values(error: BaseException) -> BaseException:
    place = error.__traceback__
    if isinstance(error, Exception) and not isinstance(error, HushtableError | HushtableWarning):
        error = _in_own_words(error).with_traceback(place)
    _forget_others(error)
    traceback.clear_frames(place)  # rows are in the variables of functions
    return error


def _in_own_words(error: Exception) -> HushtableError:
    notes = [str(note) for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]
    if isinstance(error, MemoryError):
        return TooLarge(["the memory of this machine does not suffice.", *notes])
    told = f"internal error ({type(error).__name__}); its message is withheld, since it may quote "
    return InternalError([f"{told}private values.", *notes])


def _forget_others(error: BaseException) -> None:
    """Cut off the errors of other libraries that led to this one, and what they noted on it."""
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


# --- what speaks beside errors --------------------------------------------------------------------


class _Silence:
    """Silence this process from the first run that begins to the last one that ends.

    Runs may overlap in several threads; what they change is one thing for the whole process.
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


_SILENCE = _Silence()


_LOGGING_OFF: list[int] = []
"""The level up to which the user had switched logging off, while there is silence."""


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
    """Ignore the warnings of all others; what is to be done with hushtable's own stays."""
    with warnings.catch_warnings():
        filters: list[Any] = warnings.filters  # type: ignore[assignment] # which it is
        own = []
        for action, message, category, *place in filters:
            if issubclass(category, HushtableWarning):
                own.append((action, message, category, *place))
            elif issubclass(HushtableWarning, category):
                own.append((action, message, HushtableWarning, *place))
        # Where no filter is for them, the action that the filters end with is.
        own.append((warnings.defaultaction, None, HushtableWarning, None, 0))  # type: ignore[attr-defined]
        filters[:] = own
        warnings.simplefilter("ignore", append=True)
        yield


@contextlib.contextmanager
def _no_background() -> Iterator[None]:
    """Say of errors that nobody can catch only what kind they are."""
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
    """Silence the session of Spark that this process has, if any."""
    core = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    context = getattr(getattr(core, "SparkContext", None), "_active_spark_context", None)
    if context is None:
        yield
        return
    with quiet_spark(context):
        yield


@contextlib.contextmanager
def quiet_spark(context: Any) -> Iterator[None]:
    """Turn off what the driver's Java machine logs, loggers with a level of their own included."""
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
