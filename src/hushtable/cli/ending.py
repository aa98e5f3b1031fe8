"""Endings of a command: signals, and failures after a release is complete."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from hushtable.cli.exit_codes import INTERRUPTED, TERMINATED
from hushtable.cli.plain import visible
from hushtable.errors import HushtableError, HushtableWarning, InternalError, OwnNote
from hushtable.files.signals import ENDING

if TYPE_CHECKING:
    from hushtable.files.progress import Progress

_received: list[int] = []


class Stopped(BaseException):
    """Stand-in for `KeyboardInterrupt`, which typer would turn into an exit without a message."""

    def __init__(self, error: KeyboardInterrupt) -> None:
        super().__init__()
        self.notes = own_notes(error)


def listen() -> None:
    """Have SIGTERM interrupt the command as Ctrl-C does; signals that are ignored stay so."""
    with suppress(ValueError):  # only the main thread may
        for number in ENDING:
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def stopped(error: BaseException) -> tuple[str, int] | None:
    """Return the message and exit code of a command that a signal ended; None if none did.

    Libraries may turn an interrupt into an error of their own, so the signal itself is looked for.
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
    """Return the notes of the pipeline; those of other libraries may quote values."""
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]


def warn(message: str) -> None:
    """Write a line to standard error, if that is possible."""
    with suppress(OSError, ValueError, AttributeError):  # closed, full, or not there at all
        # Names from files are quoted in messages, and a terminal must not obey them.
        sys.stderr.write(f"hushtable: {visible(message)}\n")
        sys.stderr.flush()


class Publishing:
    """Context of a command that publishes: it fails only as long as there is no release.

    Once the release is complete, whatever fails (a full disk behind standard output, memory, a
    signal) is a warning, and the command is done: a script that tries again would pay twice.
    """

    def __init__(self) -> None:
        self._phase = ""

    def heard(self, progress: Progress) -> Progress:
        """Return a listener that also notes the phase."""

        def hear(what: str, share: float) -> None:
            self._phase = what
            progress(what, share)

        return hear

    def __enter__(self) -> Publishing:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        if self._phase != "done":
            if isinstance(error, KeyboardInterrupt) and not own_notes(error):
                error.add_note(OwnNote("Nothing was charged and nothing was published."))
            return False
        try:
            sys.stdout.flush()
        except (OSError, ValueError, AttributeError) as failure:
            error = error or failure
        if error is not None:
            if isinstance(error, OSError):
                _discard_output()
            warn(
                f"the release is complete, but {_why(error)}. Any charge for it stands: do not "
                "publish it again. 'hushtable show' prints its statement."
            )
        return True


def _why(error: BaseException) -> str:
    """Return what failed after a release was complete; foreign messages may quote values."""
    if isinstance(error, KeyboardInterrupt):
        return "the command was stopped before its last line"
    if isinstance(error, OSError):
        return f"its summary could not be written ({error.strerror})"
    if isinstance(error, HushtableError | HushtableWarning):
        return f"a later step failed: {str(error).rstrip('.')}"
    return f"a later step failed ({type(error).__name__})"


def _discard_output() -> None:
    """Point standard output at nothing: what is left in its buffer would fail again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
