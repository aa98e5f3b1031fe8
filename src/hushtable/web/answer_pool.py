"""Worker processes that answer queries of a release within a time limit.

A computation cannot be canceled inside a process, so queries run in workers that can be killed. A
query that needs longer than `QUICK` seconds continues as a slow one, and another worker takes its
place: short queries wait for short ones only. If `SLOW` slow queries run already, it is canceled.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hushtable.errors import HushtableError, HushtableWarning, InternalError, Refused
from hushtable.files.memory import physical_memory
from hushtable.release.release import Release
from hushtable.web import words

AT_ONCE = 2  # short queries
SLOW = 2  # slow queries
QUICK = 2.0  # seconds of a short query
LIMIT = 20.0  # seconds of any query
_START = 600.0  # seconds until a worker has started

Answer = Callable[[Release, Any], Any]
"""Function of a release and a query; workers import it by name."""


class Busy(Refused):
    """Query that was not answered because others are running; it may be asked again."""


class TooSlow(Refused):
    """Query that was canceled at the time limit."""


class AnswerPool:
    """Workers of one release; each is started when it is needed, and loads the release once.

    Parameters
    ----------
    folder : Path
        The release.
    answer : callable
        Function that answers a query.
    """

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._arguments = (folder, answer)
        self._short = threading.BoundedSemaphore(AT_ONCE)
        self._slow = threading.BoundedSemaphore(SLOW)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] | None = set()  # None once the pool is closed

    def ask(self, query: Any) -> Any:
        """Return the answer to a query, or raise the error that it ended with."""
        if not self._short.acquire(timeout=LIMIT):
            raise Busy(words.BUSY)
        held, worker = self._short, None
        try:
            worker = self._free_worker()
            worker.wait_until_ready()
            worker.connection.send(query)
            if not worker.connection.poll(QUICK):
                if not self._slow.acquire(blocking=False):
                    raise Busy(words.BUSY)
                self._short.release()
                held = self._slow
                if not worker.connection.poll(LIMIT - QUICK):
                    raise TooSlow(words.TOO_SLOW.format(seconds=round(LIMIT)))
            found = worker.connection.recv()
            with self._lock:
                self._idle.append(worker)
        except (EOFError, OSError, Busy, TooSlow) as error:
            if worker is not None:
                self._discard(worker)
            if isinstance(error, Refused):
                raise
            raise Refused(words.WORKER_ENDED) from None  # killed, such as for its memory
        finally:
            held.release()
        if isinstance(found, HushtableError):
            raise found
        return found

    def _free_worker(self) -> _Worker:
        with self._lock:
            if self._workers is None:
                raise Busy(words.BUSY)
            # Starting takes seconds: the next query finds a worker that has started, even if this
            # one is slow.
            while len(self._idle) < 2 and len(self._workers) < AT_ONCE + SLOW:
                self._workers.add(started := _Worker(*self._arguments))
                self._idle.insert(0, started)
            return self._idle.pop()

    def _discard(self, worker: _Worker) -> None:
        worker.kill()
        with self._lock:
            if self._workers is not None:
                self._workers.discard(worker)

    def close(self) -> None:
        """Kill all workers; queries that are running end with an error."""
        with self._lock:
            workers, self._workers, self._idle = self._workers or set(), None, []
        for worker in workers:
            worker.kill()


class _Worker:
    """A process and the connection to it."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks of other threads
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, folder, answer), daemon=True)
        self.process.start()
        theirs.close()
        self._ready = False

    def wait_until_ready(self) -> None:
        """Wait until the release is loaded; raise `EOFError` if it cannot be."""
        if not self._ready and not self.connection.poll(_START):
            raise EOFError
        self._ready = self._ready or self.connection.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _work(connection: Connection, folder: Path, answer: Answer) -> None:
    """Answer queries until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_DATA, (physical_memory() // 4,) * 2)
    with contextlib.suppress(EOFError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", HushtableWarning)  # the server has shown it
        release = Release.load(folder)
        connection.send(True)
        while True:
            query = connection.recv()
            try:
                found = answer(release, query)
            except HushtableError as error:
                found = error
            except Exception as error:
                found = InternalError(words.INTERNAL_ERROR.format(kind=type(error).__name__))
            connection.send(found)
