"""Captured output of a run: its own threads only."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from hushtable.audit.features import Features, capture_output, seen_of


def beside(speak: Callable[[], None]) -> None:
    """Start a thread before the run that prints on request."""
    asked, done = threading.Event(), threading.Event()

    def other() -> None:
        asked.wait()
        speak()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with capture_output() as heard:
        asked.set()
        done.wait()
    thread.join()
    assert not heard.getvalue()


def test_output_of_other_threads_is_not_captured(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that logs a request is not part of a run, and its output is not lost."""
    beside(lambda: print("GET /release 200", file=sys.stderr))
    beside(lambda: print("done"))
    assert capsys.readouterr() == ("done\n", "GET /release 200\n")


def test_threads_started_by_others_are_not_captured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def serve() -> None:
        answering = threading.Thread(target=lambda: print("answered"))
        answering.start()
        answering.join()

    beside(serve)
    assert capsys.readouterr().out == "answered\n"


def test_threads_of_the_run_are_captured() -> None:
    def run() -> Features:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda number: print(f"part {number}"), range(1)))
        return {"rows": 3.0}

    assert seen_of(run)["what is printed, number 1"] == 0.0


def test_concurrent_runs_capture_their_own_output(capsys: pytest.CaptureFixture[str]) -> None:
    """They end in another order than they started, and everything is restored."""
    before = sys.stdout, sys.stderr, threading.Thread.start
    first_in, second_in = threading.Event(), threading.Event()
    heard: dict[str, str] = {}

    def first() -> None:
        with capture_output() as mine:
            first_in.set()
            second_in.wait()
            print("first")
        heard["first"] = mine.getvalue()

    def second(thread: threading.Thread) -> None:
        first_in.wait()
        with capture_output() as mine:
            second_in.set()
            thread.join()
            print("second")
        heard["second"] = mine.getvalue()

    one = threading.Thread(target=first)
    two = threading.Thread(target=second, args=(one,))
    two.start()
    one.start()
    two.join()
    assert heard == {"first": "first\n", "second": "second\n"}
    assert (sys.stdout, sys.stderr, threading.Thread.start) == before
    print("after")
    assert capsys.readouterr().out == "after\n"


def test_a_stream_replaced_in_the_meantime_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine:
        def write(self, text: str) -> None: ...

    other = Mine()
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    with capture_output():
        sys.stdout = other  # type: ignore[assignment]
    assert sys.stdout is other


def test_a_warning_shown_once_is_not_a_difference() -> None:
    """A release silences it; here only the first of two runs would show it."""

    def run() -> Features:
        warnings.warn("numbers are divided by zero", RuntimeWarning, stacklevel=2)
        return {"rows": 3.0}

    assert seen_of(run) == seen_of(run) == {"rows": 3.0}


def test_an_error_of_a_library_is_observed_as_published() -> None:
    """A release withholds the message, so it does not distinguish neighbors."""

    def run(value: str) -> Features:
        return {"rows": float(int(value))}

    one, two = (seen_of(lambda value=value: run(value)) for value in ("b24", "c25"))  # type: ignore[misc]
    assert one == two
    assert one["refused: InternalError"] == 1.0
