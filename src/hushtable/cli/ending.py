"""Handling of signals, and of failures after a release is complete."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from hushtable.cli.plain import INTERRUPTED, TERMINATED, visible
from hushtable.errors import HushtableError, HushtableWarning, InternalError, OwnNote
from hushtable.files.writing import ENDING

if TYPE_CHECKING:
    from hushtable.files.progress import Progress

_received: list[int] = []


class Stopped(BaseException):
    """Replacement for `KeyboardInterrupt`, which typer would turn into an exit without message."""

    def __init__(self, error: KeyboardInterrupt) -> None:
        super().__init__()
        self.notes = own_notes(error)


def listen() -> None:
    """Make SIGTERM interrupt the command as Ctrl-C does, unless the signal is ignored."""
    with suppress(ValueError):  # raised outside the main thread
        for number in ENDING:
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def stopped(error: BaseException) -> tuple[str, int] | None:
    """Return the message and exit code if a signal ended the command, else None.

    Libraries may convert an interrupt to their own exception, so received signals are checked too.
    """
    if not _received and not isinstance(error, Stopped | KeyboardInterrupt):
        return None
    if isinstance(error, HushtableError):
        said = list(error.problems[1:] if isinstance(error, InternalError) else error.problems)
    else:
        said = error.notes if isinstance(error, Stopped) else own_notes(error)
    if signal.SIGTERM in _received:
        return "\n".join(["terminated.", *said]), TERMINATED
    return "\n".join(["interrupted.", *said]), INTERRUPTED


def own_notes(error: BaseException) -> list[str]:
    """Return hushtable's own notes; those of other libraries may quote private values."""
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]


def warn(message: str) -> None:
    """Write a line to standard error; ignore failures."""
    with suppress(OSError, ValueError, AttributeError):  # closed, full or missing
        # Messages quote names from files, which may contain terminal control characters.
        sys.stderr.write(f"hushtable: {visible(message)}\n")
        sys.stderr.flush()


class Publishing:
    """Context manager for publishing commands: errors after the release is complete only warn.

    A failure at that point (full disk, memory, signal) must not make the command fail, since a
    script that tries again would pay twice.
    """

    def __init__(self) -> None:
        self._phase = ""

    def heard(self, progress: Progress) -> Progress:
        """Return a progress callback that also stores the phase, which shows whether it is done."""

        def hear(what: str, share: float) -> None:
            self._phase = what
            progress(what, share)

        return hear

    def __enter__(self) -> Publishing:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        if self._phase != "done":
            if isinstance(error, KeyboardInterrupt) and not own_notes(error):
                error.add_note(OwnNote("Nothing was charged or published."))
            return False
        try:
            sys.stdout.flush()
        except (OSError, ValueError, AttributeError) as failure:
            error = error or failure
        if error is not None:
            if isinstance(error, OSError):
                _discard_output()
            warn(
                f"the release is complete, but {_why(error)}. Its charge remains: do not publish "
                "it again. 'hushtable show' prints its statement."
            )
        return True


def _why(error: BaseException) -> str:
    """Return a description of the failure, without messages that may quote private values."""
    if isinstance(error, KeyboardInterrupt):
        return "the command was stopped before its last line"
    if isinstance(error, OSError):
        return f"its summary could not be written ({error.strerror})"
    if isinstance(error, HushtableError | HushtableWarning):
        return f"a later step failed: {str(error).rstrip('.')}"
    return f"a later step failed ({type(error).__name__})"


def _discard_output() -> None:
    """Redirect standard output to the null device, so that flushing at exit does not fail again."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
