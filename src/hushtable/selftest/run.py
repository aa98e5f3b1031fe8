"""Execution of all checks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hushtable.errors import HushtableError
from hushtable.files.progress import Progress, silent
from hushtable.selftest import families, ledgers, papers, samplers
from hushtable.selftest.verdict import CheckResult, CheckRow, SelfCheck

CHECKS: tuple[SelfCheck, ...] = (
    *samplers.CHECKS,
    *papers.CHECKS,
    *ledgers.CHECKS,
    *families.CHECKS,
)


def run_checks(
    checks: Sequence[SelfCheck] = CHECKS, *, progress: Progress = silent
) -> list[CheckRow]:
    """Run checks and return their results; an error counts as a failure."""
    rows = []
    for number, check in enumerate(checks):
        progress(check.name, number / len(checks))
        begun = time.monotonic()
        try:
            found = check.run()
        except HushtableError as error:
            found = CheckResult("FAILS", str(error))
        except Exception as error:  # any error is a failed check
            found = CheckResult("FAILS", f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - begun
        rows.append(CheckRow(check.group, check.name, found.word, found.said, seconds))
    progress("done", 1.0)
    return rows
