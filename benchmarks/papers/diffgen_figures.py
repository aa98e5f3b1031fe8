"""The figures of paper 003 on Adult, and the table of accuracies beside other calibrations.

Run as ``python -m benchmarks.papers.diffgen_figures [3a] [3b] [4] [5] [table]``; all of them by
default. See `benchmarks.papers.adult_accuracy` for the protocol. BA is a tree on raw rows, LA
the most frequent class. Means of ten runs with their standard errors, in percent.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.papers.adult_accuracy import (
    TARGET,
    baseline_accuracy,
    divisions,
    lower_accuracy,
    measure,
    summary,
    table_and_schema,
)

from hushtable import DiffGen, publish
from hushtable.methods import TopDownSpecialization
from hushtable.methods._scores import ScoreName
from hushtable.methods.baselines.dp_c45 import DpC45
from hushtable.methods.diffgen import Calibration
from hushtable.privacy.noise import SecureNoise

EPSILONS = ("0.1", "0.25", "0.5", "1")
ROUNDS = (4, 7, 10, 13, 16)
KINDS: tuple[tuple[ScoreName, Calibration], ...] = (
    ("max", "paper"),
    ("max", "tight"),
    ("information-gain", "tight"),
    ("total-variation", "tight"),
    ("balanced-max", "tight"),
)


def shown(found: tuple[float, float]) -> str:
    return f"{found[0]:6.2f} ±{found[1]:5.2f}"


def lines() -> str:
    made = divisions()
    return (
        f"BA {shown(summary(map(baseline_accuracy, made)))}, "
        f"LA {shown(summary(map(lower_accuracy, made)))}"
    )


def by_rounds(score: ScoreName, calibrations: Iterable[Calibration]) -> None:
    print(f"accuracy by h, score {score}; {lines()}")
    for calibration in calibrations:
        for epsilon in EPSILONS:
            cells = [
                measure(
                    DiffGen(
                        epsilon=epsilon, specializations=h, score=score, calibration=calibration
                    )
                )
                for h in ROUNDS
            ]
            row = "  ".join(f"h={h} {shown(c)}" for h, c in zip(ROUNDS, cells, strict=True))
            print(f"{calibration:>6} epsilon {epsilon:>4}: {row}", flush=True)


def figure_3a() -> None:
    by_rounds("max", ("paper", "tight"))


def figure_3b() -> None:
    by_rounds("information-gain", ("paper", "tight"))


def figure_4() -> None:
    """DiffGen with h = 15, DiffP-C4.5 and TDS with k = 5; ten folds, one run of them."""
    which = {"n": 1, "folds": 10}

    def of_tree(epsilon: str) -> Iterable[float]:
        for division in divisions(**which):
            tree = DpC45(epsilon=epsilon, depth=5).fit(division.private, SecureNoise())
            yield float(np.mean(tree.predict(division.test) == division.test[TARGET]))

    print(f"ten folds; TDS k=5 {shown(measure(TopDownSpecialization(k=5), **which))}")
    for epsilon in ("0.75", "1", "2", "3", "4"):
        paper = DiffGen(epsilon=epsilon, specializations=15, score="max", calibration="paper")
        tight = DiffGen(epsilon=epsilon, specializations=15, score="max")
        best = DiffGen(epsilon=epsilon)
        print(
            f"epsilon {epsilon:>4}: DiffGen paper {shown(measure(paper, **which))}, "
            f"tight {shown(measure(tight, **which))}, "
            f"balanced-max auto {shown(measure(best, **which))}, "
            f"DiffP-C4.5 {shown(summary(of_tree(epsilon)))}",
            flush=True,
        )


def blown_up(n_rows: int, path: Path) -> None:
    """Write copies of Adult's rows, each with one value in seven exchanged for another row's."""
    table, _ = table_and_schema()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(table), n_rows)
    columns = {}
    for name in table.column_names:
        exchanged = rng.random(n_rows) < 1 / 7
        taken = np.where(exchanged, rng.integers(0, len(table), n_rows), rows)
        columns[name] = table.column(name).take(pa.array(taken))
    pq.write_table(pa.table(columns), path)


def figure_5() -> None:
    """Run time of a whole publish, h = 15, epsilon = 1, from a Parquet file."""
    _, schema = table_and_schema()
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (200_000, 400_000, 600_000, 800_000, 1_000_000, 10_000_000):
            path = Path(folder) / f"{n_rows}.parquet"
            blown_up(n_rows, path)
            method = DiffGen(epsilon=1, specializations=15, score="max")
            start = time.perf_counter()
            publish(path, schema, method, out=Path(folder) / f"out{n_rows}")
            print(f"{n_rows:>10,} rows: {time.perf_counter() - start:.2f} s", flush=True)
            path.unlink()


def table() -> None:
    """Best of a few public h for every calibration and score."""
    print(f"best h of 6, 10, 14, and auto; {lines()}")
    for score, calibration in KINDS:
        for epsilon in EPSILONS:
            found = {
                h: measure(
                    DiffGen(
                        epsilon=epsilon, specializations=h, score=score, calibration=calibration
                    )
                )
                for h in (6, 10, 14, "auto")
            }
            row = "  ".join(f"h={h} {shown(cell)}" for h, cell in found.items())
            print(f"{score:>17} {calibration:>5} epsilon {epsilon:>4}: {row}", flush=True)


FIGURES: dict[str, Callable[[], None]] = {
    "3a": figure_3a, "3b": figure_3b, "4": figure_4, "5": figure_5, "table": table,
}  # fmt: skip


def main() -> None:
    for name in sys.argv[1:] or FIGURES:
        print(f"# {name}")
        FIGURES[name]()


if __name__ == "__main__":
    main()
