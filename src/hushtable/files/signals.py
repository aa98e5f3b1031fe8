"""Signals that end a run: delayed while a charge or a release is recorded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block ends, so that what it records is known.

    Only handlers written in Python can be delayed; they run in the main thread alone.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     with signals_held():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("recorded")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    recorded
    interrupted
    >>> handler = signal.signal(signal.SIGINT, before)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in held:
            signal.signal(number, lambda received_number, _: received.append(received_number))
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
