"""Reproducible draws: those of `SecureNoise` depend only on a test's name and the seed shift.

Tests publish as users do, with the operating system's randomness. An assertion about the output
then fails by chance in rare runs, which cannot be reproduced. So within a test, and within each
fixture, the random words behind `SecureNoise` come from a seed instead. It differs for every test
and for every shift (see `seeds.py`). The samplers and the class stay the same. Processes that a
test starts or forks draw from the operating system.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator
from typing import Any

import pytest

from hushtable.privacy.noise import sources
from hushtable.privacy.noise.sources import SeededNoise
from seeds import shifted

_streams: list[SeededNoise] = []


class _System:
    """The part of `os` that `SecureNoise` uses."""

    @staticmethod
    def urandom(n: int) -> bytes:
        """Return bytes of the test's stream, or of the operating system outside of tests."""
        words = _streams[-1]._words(-(-n // 8)) if _streams else None
        return os.urandom(n) if words is None else words.astype("<u8").tobytes()[:n]


if sources.os is os:  # pytest imports this module twice: as a plugin, and to collect its doctests
    sources.os = _System  # type: ignore[attr-defined]
    if hasattr(os, "register_at_fork"):  # a child would repeat its parent's draws
        os.register_at_fork(after_in_child=_streams.clear)


def item_name(item: pytest.Item) -> str:
    """Return the id of a test without the group that pytest-xdist appends."""
    groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    return item.nodeid.removesuffix(f"@{'_'.join(groups)}")


def _drawing(name: str) -> Generator[None, Any, Any]:
    _streams.append(SeededNoise(shifted(zlib.crc32(name.encode()))))
    try:
        return (yield)
    finally:
        if _streams:  # none in a child
            _streams.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Seed the draws of a test, independently of the process that runs it."""
    return (yield from _drawing(item_name(item)))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Seed the draws of a fixture: several tests may share it, and any of them may run first."""
    name = (fixturedef.baseid, fixturedef.argname, str(getattr(request, "param_index", 0)))
    return (yield from _drawing(" ".join(name)))
