"""Audit of every broken mechanism of the tests with the auditor's defaults, with CPU times.

python -m benchmarks.broken_mechanisms [part of a name ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from audit.broken import BROKEN
from hushtable.audit import Report, audit


def main(wanted: list[str]) -> None:
    caught, seconds = 0, 0.0
    chosen = [b for b in BROKEN if not wanted or any(part in b.name for part in wanted)]
    print("| broken | method | verdict | seen by | CPU s |")
    print("|---|---|---|---|---|")
    for broken in chosen:
        started = time.process_time()
        with pytest.MonkeyPatch.context() as patch:
            broken.breaks(patch)
            report = None if broken.is_refused else audit(broken.method)
        took = time.process_time() - started
        seconds += took
        verdict = "cannot be planned" if report is None else report.verdict
        caught += verdict in {"cannot be planned", "VIOLATION"}
        cells = (broken.name, broken.method.name, verdict, _seen(report), f"{took:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught, in {seconds:.0f} CPU s.")


def _seen(report: Report | None) -> str:
    for finding in report.findings if report else ():
        if finding.verdict == "VIOLATION":
            seen = finding.witness.event if finding.witness else finding.notes[0]
            return seen[:110]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
