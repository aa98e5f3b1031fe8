"""Coverage of lines and branches by package, from the JSON report of coverage.py."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path, PurePath

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_package(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> dict[str, list[int]]:
    """Add up statements and branches, all and covered, of each package of hushtable."""
    found: dict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for name, content in report["files"].items():
        inside = PurePath(name).parts
        inside = inside[inside.index("hushtable") + 1 :]
        package = "/".join(inside[: min(2, len(inside) - 1)]) or "(modules)"
        for at, count in enumerate(COUNTS):
            found[package][at] += content["summary"][count]
    return dict(sorted(found.items()))


def main() -> None:
    packages = by_package(json.loads(Path(sys.argv[1]).read_text()))
    packages["all"] = [sum(counts) for counts in zip(*packages.values(), strict=True)]
    print(f"{'package':30} {'lines':>7} {'covered':>8} {'branches':>9} {'covered':>8}")
    for name, (n_lines, lines, n_branches, branches) in packages.items():
        shares = [f"{n / n_all:.0%}" if n_all else "-" for n, n_all in
                  ((lines, n_lines), (branches, n_branches))]  # fmt: skip
        print(f"{name:30} {n_lines:7,} {shares[0]:>8} {n_branches:9,} {shares[1]:>8}")


if __name__ == "__main__":
    main()
