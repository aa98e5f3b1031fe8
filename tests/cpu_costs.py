"""Selection of the fast suite by measured CPU seconds.

`slow_tests.json` lists every test that takes more than `LIMIT` CPU seconds. ``pytest --fast`` runs
all others, so a new test is in the fast suite until it is measured; one that takes longer than the
limit is listed at the end of the run. Tests that start a server or a browser (`PROGRAMS`), whose
CPU time cannot be seen, are not in the fast suite either. ``pytest --record-costs`` runs everything
it selects and writes the file again. A test's cost includes processes that it started and waited
for, and its share of fixtures that several tests use: their cost is divided by the number of these
tests. ``pytest --part 2/4`` runs the second of four parts, by files.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from repeatable import item_name

RECORD = Path(__file__).with_name("slow_tests.json")
LIMIT = 0.5
"""CPU seconds of a test in the fast suite, at most."""

PROGRAMS = {"spark", "postgres", "browser"}
"""Groups of tests that need more than Python."""

PROPERTY = "cpu seconds"


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of children that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def costs(measured: dict[str, tuple[float, dict[str, float | None]]]) -> dict[str, float]:
    """Return the CPU seconds of each test with its share of the fixtures that it uses.

    Each test comes with its own seconds and the fixtures that it shares with others: their seconds
    if it was the first to use them, else None. Every process sets up its own fixtures, so their
    mean counts.
    """
    setups: dict[str, list[float]] = defaultdict(list)
    users: dict[str, int] = defaultdict(int)
    for _, fixtures in measured.values():
        for fixture, seconds in fixtures.items():
            users[fixture] += 1
            if seconds is not None:
                setups[fixture].append(seconds)
    shares = {name: sum(found) / len(found) / users[name] for name, found in setups.items()}
    return {
        test: own + sum(shares.get(fixture, 0.0) for fixture in fixtures)
        for test, (own, fixtures) in measured.items()
    }


def _needs_program(item: pytest.Item) -> bool:
    groups = {mark.args[0] for mark in item.iter_markers("xdist_group")}
    return bool(groups & PROGRAMS) or "in_a_browser" in item.path.stem


def part_of(item: pytest.Item, n_parts: int) -> int:
    """Return the part that a test belongs to, from 1: the same for all tests of a file."""
    return zlib.crc32(item.nodeid.partition("::")[0].encode()) % n_parts + 1


class CostPlugin:
    """Measurement of every test, and selection or record by what was measured."""

    def __init__(self, config: pytest.Config) -> None:
        self._fast = config.getoption("--fast")
        self._part = config.getoption("--part")
        self._recording = config.getoption("--record-costs")
        self._slow: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
        self._own: dict[str, float] = defaultdict(float)
        self._fixtures: dict[str, dict[str, float | None]] = defaultdict(dict)
        self._set_up: dict[str, float] = {}  # shared fixtures that the running test set up

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out slow tests, and those of other parts."""
        left_out: set[pytest.Item] = set()
        if self._fast:
            left_out |= {
                item for item in items if item_name(item) in self._slow or _needs_program(item)
            }
        if self._part:
            number, n_parts = map(int, self._part.split("/"))
            left_out |= {item for item in items if part_of(item, n_parts) != number}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Measure fixtures that several tests share."""
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._set_up[f"{fixturedef.baseid} {fixturedef.argname}"] = cpu_seconds() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Forget the fixtures of the test before."""
        self._set_up = {}
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure the setup."""
        return (yield from self._measured(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure the test."""
        return (yield from self._measured(item))

    def _measured(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before, shared_before = cpu_seconds(), sum(self._set_up.values())
        try:
            return (yield)
        finally:
            own = cpu_seconds() - before - (sum(self._set_up.values()) - shared_before)
            info = getattr(item, "_fixtureinfo", None)
            found = {} if info is None else info.name2fixturedefs
            shared = {
                f"{defs[-1].baseid} {name}": self._set_up.get(f"{defs[-1].baseid} {name}")
                for name, defs in found.items()
                if defs[-1].scope != "function"
            }
            item.user_properties[:] = [
                (name, value) for name, value in item.user_properties if name != PROPERTY
            ]
            spent = own + getattr(item, "_cpu_seconds", 0.0)
            item._cpu_seconds = spent  # type: ignore[attr-defined]
            item.user_properties.append((PROPERTY, [item_name(item), spent, shared]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what the processes measured."""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    test, own, shared = value  # type: ignore[misc]
                    self._own[test] = own
                    self._fixtures[test] = shared

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the record, or list tests that are slow and not on record."""
        found = costs({test: (own, self._fixtures[test]) for test, own in self._own.items()})
        slow = {test: round(cost, 1) for test, cost in found.items() if cost > LIMIT}
        if self._recording:
            # A test that did not run keeps its entry, so that parts can be measured.
            kept = {test: cost for test, cost in self._slow.items() if test not in found}
            RECORD.write_text(json.dumps(dict(sorted((kept | slow).items())), indent=0) + "\n")
            terminalreporter.write_line(
                f"{sum(found.values()):.0f} CPU s in {len(found):,} tests, of these "
                f"{sum(slow.values()):.0f} in {len(slow):,} slow ones ({RECORD.name})"
            )
        elif self._fast and slow:
            terminalreporter.section(f"more than {LIMIT} CPU s and not on record")
            for test, cost in sorted(slow.items(), key=lambda one: -one[1]):
                terminalreporter.write_line(f"{cost:6.1f} s  {test}")
            terminalreporter.write_line("make test-costs measures tests and records slow ones.")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fast suite."""
    group = parser.getgroup("hushtable")
    group.addoption("--fast", action="store_true", help="leave out slow tests")
    group.addoption("--part", metavar="N/M", help="run one of M parts of the tests")
    group.addoption("--record-costs", action="store_true", help="measure tests, record slow ones")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in every process that runs tests."""
    config.pluginmanager.register(CostPlugin(config), "cpu-costs")
