"""Capture of what a run prints or warns, in its own thread and the threads that it starts.

An audit may share its process with a server, a notebook or a second audit, whose output must go
where it always goes. So the standard streams are replaced while any capture is active, and each
thread writes to its own capture or to the original stream.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from hushtable.errors import HushtableWarning

_listening: dict[int, io.StringIO] = {}
"""By thread ID: the buffer of its captured output."""


class _Stream:
    """A standard stream that redirects captured threads to their buffers."""

    def __init__(self, real: Any) -> None:
        self.real = io.StringIO() if real is None else real

    def __getattr__(self, name: str) -> Any:
        return getattr(_listening.get(threading.get_ident(), self.real), name)


class _OutputCapture:
    """Replacement of the standard streams and of thread starting, while any capture is active."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_listening = 0
        self._before: tuple[Any, Any, Any, Any] = (None, None, None, None)
        self._streams: tuple[Any, Any] = (None, None)
        self._shown: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_listening == 0:
                self._before = (sys.stdout, sys.stderr, threading.Thread.start,
                                warnings.showwarning)  # fmt: skip
                self._streams = _Stream(sys.stdout), _Stream(sys.stderr)
                sys.stdout, sys.stderr = self._streams
                threading.Thread.start = _starting(self._before[2])  # type: ignore[assignment, method-assign]
                warnings.showwarning = self._shown = _warned(self._before[3])
                warnings.filters.insert(0, _ALWAYS)  # type: ignore[attr-defined] # a list
            self._n_listening += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_listening -= 1
            if self._n_listening:
                return
            # Keep a stream that other code has installed in the meantime.
            if sys.stdout is self._streams[0]:
                sys.stdout = self._before[0]
            if sys.stderr is self._streams[1]:
                sys.stderr = self._before[1]
            threading.Thread.start = self._before[2]  # type: ignore[method-assign]
            if warnings.showwarning is self._shown:
                warnings.showwarning = self._before[3]
            with contextlib.suppress(ValueError):
                warnings.filters.remove(_ALWAYS)  # type: ignore[attr-defined] # a list


_ALWAYS = ("always", None, HushtableWarning, None, 0)
"""Warning filter: by default, Python shows a repeated warning only once per line."""


def _warned(show: Callable[..., None]) -> Callable[..., None]:
    """Return a function that writes warnings of captured threads to their buffers."""

    def shown(message: Any, category: Any, *given: Any, **named: Any) -> None:
        heard = _listening.get(threading.get_ident())
        if heard is None:
            show(message, category, *given, **named)
        else:
            heard.write(f"{category.__name__}: {message}\n")

    return shown


_EARS = _OutputCapture()


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Return a function that starts threads and captures the children of captured threads."""

    def started(thread: threading.Thread) -> None:
        heard = _listening.get(threading.get_ident())
        if heard is not None:
            run = thread.run

            def listened() -> None:
                with _kept_in(heard):
                    run()

            thread.run = listened  # type: ignore[method-assign]
        start(thread)

    return started


@contextlib.contextmanager
def _kept_in(heard: io.StringIO) -> Iterator[None]:
    mine = threading.get_ident()
    before = _listening.get(mine)
    _listening[mine] = heard
    try:
        yield
    finally:
        if before is None:
            del _listening[mine]
        else:
            _listening[mine] = before


@contextlib.contextmanager
def capture_output() -> Iterator[io.StringIO]:
    r"""Capture what this thread and the threads that it starts print, until the block ends.

    Examples
    --------
    >>> with capture_output() as heard:
    ...     print("read 12 rows")
    >>> heard.getvalue()
    'read 12 rows\n'
    """
    heard = io.StringIO()
    with _EARS, _kept_in(heard):
        yield heard
