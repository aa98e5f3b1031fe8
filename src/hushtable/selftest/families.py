"""Short audits of one method per family.

Only tests that need few runs: sources of randomness, recorded costs, and certain differences
between neighbors. Promises other than differential privacy have no account, so their loss is
measured. `hushtable audit` measures the loss of all methods, which takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hushtable.methods import (
    AlphaBeta,
    Degrees,
    DiffGen,
    NoisyCounts,
    Partition,
    Quilt,
    Uncertain,
)
from hushtable.methods.parameters import Parameters
from hushtable.selftest.verdict import CheckResult, SelfCheck

SECONDS = 3.0
"""Approximate CPU seconds of each audit."""

TESTS = ("generator", "account", "elsewhere", "differences")
MEASURED = ("uncertain",)

METHODS: dict[str, Callable[[], Parameters]] = {
    "counts": lambda: NoisyCounts(epsilon=1, delta="1e-3", k=3),
    "partition": lambda: Partition(epsilon=1),
    "degrees": lambda: Degrees(epsilon=1, max_degree=2),
    "uncertain": lambda: Uncertain(k=2),
    "diffgen": lambda: DiffGen(epsilon=1, specializations=2),
    "alpha_beta": lambda: AlphaBeta(alpha="9/20", beta="1/20"),
    "quilt": lambda: Quilt(epsilon=1, delta="1e-6", particles=1000),
}


def _check(family: str) -> CheckResult:
    from hushtable.audit import audit  # noqa: PLC0415 - slow to import

    method = METHODS[family]()
    tests = (*TESTS, "loss") if family in MEASURED else TESTS
    report = audit(method, seconds=SECONDS, tests=tests)
    if report.verdict == "VIOLATION":
        return CheckResult("FAILS", f"{method.name}: see hushtable audit {method.name}")
    tested = f"{method.name}: {report.n_runs:,} runs"
    if report.verdict == "NOT TESTED":
        left = [one for one in report.findings if one.verdict == "NOT TESTED"]
        return CheckResult(
            "not tested", f"{tested}, {len(left)} of {len(report.findings)} tests not run"
        )
    return CheckResult("holds", f"{tested}, no violation found")


CHECKS = tuple(SelfCheck("promises", f"audit of {name}", partial(_check, name)) for name in METHODS)
