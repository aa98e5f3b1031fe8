"""Failure rates of tests on other seeds: ``python -m benchmarks.flakiness FILE... --seeds 200``.

Every test that uses random numbers runs once for each shift of the seeds (tests/seeds.py), in this
process; other tests run once. The output is the number of failures of each test. A test of
statistical power must not fail on 200 shifts, a test of a privacy guarantee on any number. Other
arguments, such as ``-k power`` or ``-m long``, are passed to pytest.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

ROOT = Path(__file__).resolve().parents[1]


class Shifts:
    """Pytest plugin that runs the tests for each shift of the seeds, and counts failures."""

    def __init__(self, shifts: range, seconds: float, variable: str) -> None:
        self.shifts, self.limit, self.variable = shifts, seconds, variable
        self.failed: dict[str, list[int]] = defaultdict(list)
        self.runs: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.is_drawn = False
        for owner, name in (
            (SecureNoise, "_words"),
            (SeededNoise, "_words"),
            (np.random, "default_rng"),
        ):
            self._watch(owner, name)

    def _watch(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def watched(*arguments: Any, **more: Any) -> Any:
            self.is_drawn = True
            return real(*arguments, **more)

        setattr(owner, name, watched)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = list(session.items)
        for shift in self.shifts:
            if not items:
                break
            os.environ[self.variable] = str(shift)
            again = [
                item
                for item, following in zip(items, [*items[1:], None], strict=True)
                if self._run(item, following, shift) or _shares_fixtures(item)
            ]
            items = [item for item in again if self.seconds[item.nodeid] < self.limit]
        return True

    def _run(self, item: Any, following: Any, shift: int) -> bool:
        """Run a test; return whether it used random numbers."""
        if hasattr(item, "_initrequest"):
            item._initrequest()  # release the fixtures of the previous shift
        self.is_drawn, start = False, time.process_time()
        reports = runtestprotocol(item, log=False, nextitem=following)
        self.seconds[item.nodeid] += time.process_time() - start
        self.runs[item.nodeid] += 1
        for report in reports:
            if report.failed:
                self.failed[item.nodeid].append(shift)
                print(f"shift {shift}: {item.nodeid}: {_reason(report)}", flush=True)
        return self.is_drawn

    def show(self) -> None:
        """Print failures, runs, and CPU seconds per run; most failures first."""
        for name, n in sorted(self.runs.items(), key=lambda entry: -len(self.failed[entry[0]])):
            if n > 1 or self.failed[name]:
                bad, each = len(self.failed[name]), self.seconds[name] / n
                print(f"{bad:4d} of {n:4d}  {each:8.3f} s  {name}")


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(str(crash.message if crash else report.longrepr).split())[:200]


def _shares_fixtures(item: Any) -> bool:
    """Return whether a test uses a shared fixture, which may contain random numbers."""
    found = getattr(item, "_fixtureinfo", None)
    return found is not None and any(
        fixture.scope != "function" and str(fixture.baseid).startswith("tests")
        for fixtures in found.name2fixturedefs.values()
        for fixture in fixtures
    )


def main() -> int:
    from seeds import VARIABLE

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="number of shifts")
    parser.add_argument("--start", type=int, default=1, help="the first shift")
    parser.add_argument("--seconds", type=float, default=60, help="limit of CPU seconds per test")
    given, others = parser.parse_known_args()
    shifts = Shifts(range(given.start, given.start + given.seeds), given.seconds, VARIABLE)
    pytest.main([*others, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"], plugins=[shifts])
    shifts.show()
    return int(any(shifts.failed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
