"""The progress bar of long commands: current step, share done and remaining time."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from hushtable.cli import screen


def test_it_says_phase_counts_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120, markup=False)
    monkeypatch.setattr(screen, "errors", terminal)
    ticks = iter([0.0, 10.0, 60.0])
    monkeypatch.setattr(screen, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with screen.one_bar("planning") as progress:
        progress("counting", 0.1)
        progress("counting · 12 noisy answers", 0.25)
    line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    assert "counting · 12 noisy answers" in line
    assert "25%" in line
    assert "3 min left" in line


def test_no_bar_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(screen, "errors", Console(file=shown, force_terminal=False))
    with screen.one_bar("planning") as progress:
        progress("counting", 0.5)
    assert not shown.getvalue()
