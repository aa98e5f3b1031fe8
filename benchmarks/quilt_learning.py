"""Accuracy of classifiers trained on quilt's rows, with and without the parameter `target`.

Run it with ``python -m benchmarks.quilt_learning --data FOLDER [--tables ...] [--epsilons ...]
[--seeds N] [--file FILE]``. The tables are those of `benchmarks.peers.data`; "adulthalf" consists
of Adult's training rows only and may be used for tuning. Each seeded release is saved as an entry
of the JSON file when it is finished, and later runs skip it. A tree and a boosting model are
trained on the published rows and tested on rows that were not published. The last lines show the
gain from naming the target, with the standard error of the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.data import Table, half, load
from benchmarks.peers.metrics import learned, pairs_distance
from benchmarks.peers.results import Results
from hushtable.engine import connect
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise

TABLES = ("adult", "acs", "bank", "br2000", "german")
EPSILONS = ("0.1", "0.5", "1")
FIGURES = ("tree", "boosting", "auc")
KINDS = ("untargeted", "targeted")  # without and with the parameter `target`
DELTA = "1e-9"


def table_of(name: str, folder: Path) -> Table:
    """Load a table, or the part of Adult that may be used for tuning."""
    return half(load("adult", folder)) if name == "adulthalf" else load(name, folder)


def released(table: Table, epsilon: str, seed: int, *, targeted: bool) -> dict[str, float]:
    """Publish once, and return the accuracy of the rows and of models trained on them."""
    noise = SeededNoise(seed)
    target = table.columns[table.target].name if targeted else None
    start = time.process_time()
    engine = connect(table.arrow(table.train), table.schema, engine="memory", noise=noise)
    made = Quilt(epsilon=epsilon, delta=DELTA, target=target).run(engine, noise)
    took = time.process_time() - start
    rows = table.codes(made.tables["data"])
    return {**learned(table, rows), "tvd2": pairs_distance(table, rows), "cpu_s": took}


def differences(entries: Iterable[dict[str, Any]]) -> list[str]:
    """Return a table of the gains from naming the target, in percentage points."""
    found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for entry in entries:
        runs = found.setdefault((entry["table"], entry["epsilon"]), {kind: [] for kind in KINDS})
        runs[entry["method"]].append(entry)
    lines = ["| table | epsilon | runs | tree | boosting | auc | pairs |", "|" + " --- |" * 7]
    for (name, epsilon), runs in sorted(found.items()):
        if all(len(of_kind) > 1 for of_kind in runs.values()):
            figures = [_difference(runs, figure, 100) for figure in FIGURES]
            figures.append(_difference(runs, "tvd2", 1, digits=4))
            n = ", ".join(str(len(runs[kind])) for kind in KINDS)
            lines.append(f"| {name} | {epsilon} | {n} | {' | '.join(figures)} |")
    return lines


def _difference(
    runs: dict[str, list[dict[str, Any]]], figure: str, scale: int, digits: int = 2
) -> str:
    without, with_target = (
        scale * np.array([entry[figure] for entry in runs[kind]]) for kind in KINDS
    )
    error = np.sqrt(sum(of_kind.var(ddof=1) / len(of_kind) for of_kind in (without, with_target)))
    gain = with_target.mean() - without.mean()
    return f"{without.mean():.{digits}f} {gain:+.{digits}f} ± {error:.{digits}f}"


def main(given: Sequence[str] | None = None) -> None:
    """Make the releases that are not in the file, and print the gains."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quilt_learning")
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--file", type=Path, default=Path("benchmarks/results/learning.json"))
    asked = parser.parse_args(given)
    results = Results(asked.file)
    tables = {name: table_of(name, asked.data) for name in asked.tables}
    for seed, name, epsilon, kind in product(
        range(asked.seeds), asked.tables, asked.epsilons, asked.kinds
    ):
        run = {"table": name, "epsilon": epsilon, "method": kind, "seed": seed}
        if run not in results:
            results.add(run | released(tables[name], epsilon, seed, targeted=kind == "targeted"))
    print("\n".join(differences(results)))


if __name__ == "__main__":
    main()
