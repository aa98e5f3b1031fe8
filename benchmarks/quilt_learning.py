"""What telling quilt the target is worth: learning from its rows, told and untold.

Run it with ``python -m benchmarks.quilt_learning --data FOLDER [--tables ...] [--epsilons ...]
[--seeds N] [--file FILE]``. The tables are those of `benchmarks.peers.data`, with "adulthalf" for
the two thirds of Adult's rows to publish that constants may be tuned on. Each release (told or
untold, seeded) is an entry of the JSON file as soon as it is there, and is not made again. A tree
and boosting learn from the rows and are tried on rows that were not published; the last lines say
how much better they are where the target was told, with the standard error of the difference.
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
DELTA = "1e-9"


def table_of(name: str, folder: Path) -> Table:
    """Load a table, or the part of Adult that may be tuned on."""
    return half(load("adult", folder)) if name == "adulthalf" else load(name, folder)


def released(table: Table, epsilon: str, seed: int, *, told: bool) -> dict[str, float]:
    """Publish once and learn from the rows."""
    noise = SeededNoise(seed)
    target = table.columns[table.target].name if told else None
    start = time.process_time()
    engine = connect(table.arrow(table.train), table.schema, engine="memory", noise=noise)
    made = Quilt(epsilon=epsilon, delta=DELTA, target=target).run(engine, noise)
    took = time.process_time() - start
    rows = table.codes(made.tables["data"])
    return {**learned(table, rows), "tvd2": pairs_distance(table, rows), "cpu_s": took}


def differences(entries: Iterable[dict[str, Any]]) -> list[str]:
    """Print for each table and epsilon what telling the target brought, in points."""
    found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for entry in entries:
        runs = found.setdefault((entry["table"], entry["epsilon"]), {"told": [], "untold": []})
        runs[entry["method"]].append(entry)
    lines = ["| table | epsilon | runs | tree | boosting | auc | pairs |", "|" + " --- |" * 7]
    for (name, epsilon), runs in sorted(found.items()):
        if all(len(of_kind) > 1 for of_kind in runs.values()):
            figures = [_difference(runs, figure, 100) for figure in FIGURES]
            figures.append(_difference(runs, "tvd2", 1, digits=4))
            n = f"{len(runs['untold'])}, {len(runs['told'])}"
            lines.append(f"| {name} | {epsilon} | {n} | {' | '.join(figures)} |")
    return lines


def _difference(
    runs: dict[str, list[dict[str, Any]]], figure: str, scale: int, digits: int = 2
) -> str:
    untold, told = (
        scale * np.array([entry[figure] for entry in runs[kind]]) for kind in ("untold", "told")
    )
    error = np.sqrt(sum(of_kind.var(ddof=1) / len(of_kind) for of_kind in (untold, told)))
    gain = told.mean() - untold.mean()
    return f"{untold.mean():.{digits}f} {gain:+.{digits}f} ± {error:.{digits}f}"


def main(given: Sequence[str] | None = None) -> None:
    """Run what is not there yet, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quilt_learning")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the tables")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", default=["untold", "told"])
    parser.add_argument("--file", type=Path, default=Path("benchmarks/results/learning.json"))
    asked = parser.parse_args(given)
    results = Results(asked.file)
    tables = {name: table_of(name, asked.data) for name in asked.tables}
    for seed, name, epsilon, kind in product(
        range(asked.seeds), asked.tables, asked.epsilons, asked.kinds
    ):
        run = {"table": name, "epsilon": epsilon, "method": kind, "seed": seed}
        if run not in results:
            results.add(run | released(tables[name], epsilon, seed, told=kind == "told"))
    print("\n".join(differences(results)))


if __name__ == "__main__":
    main()
