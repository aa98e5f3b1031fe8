"""Audit of every method with the auditor's defaults: no violation may be found.

python -m benchmarks.audit_all [part of a name ...]

Randomness comes from the operating system, as in a release, so runs are independent. A method that
satisfies its guarantees is accused of a violation with probability at most 1e-6.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from audit.real import REAL, label
from hushtable.audit import Report, audit


def main(wanted: list[str]) -> None:
    chosen = [m for m in REAL if not wanted or any(part in label(m) for part in wanted)]
    accused, seconds = 0, 0.0
    print(
        "| configuration | verdict | runs | smallest violation that would have been seen | CPU s |"
    )
    print("|---|---|---|---|---|")
    for method in chosen:
        started = time.process_time()
        report = audit(method)
        took = time.process_time() - started
        seconds += took
        accused += report.verdict == "VIOLATION"
        cells = (label(method), report.verdict, f"{report.n_runs:,}", _seen(report), f"{took:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)
        if report.verdict == "VIOLATION":
            print("\n".join(report.lines()), flush=True)
    print(f"\n{accused} of {len(chosen)} accused, in {seconds:.0f} CPU s.")


def _seen(report: Report) -> str:
    """Return the smallest detectable violation of each guarantee, or why it was not tested."""
    said = [
        finding.would_see or f"not tested: {finding.reason}"
        for finding in report.findings
        if finding.verdict != "VIOLATION"
    ]
    return "; ".join(dict.fromkeys(said))


if __name__ == "__main__":
    main(sys.argv[1:])
