"""Figures 3a, 3b, 4 and 5 of Mohammed et al. on Adult: accuracy of DiffGen, and its run time.

Run by ``hushtable reproduce mohammed-2011``. See `hushtable_papers.adult_accuracy` for the
protocol. BA is a tree on raw rows, LA the most frequent class.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable import DiffGen, publish
from hushtable.methods import Method, TopDownSpecialization
from hushtable.methods.diffgen.diffgen import Calibration
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.privacy.mechanisms.scored_splits import ScoreName
from hushtable.privacy.noise.sources import SecureNoise
from hushtable_papers.adult_accuracy import (
    Division,
    accuracy,
    baseline_accuracy,
    divisions,
    lower_accuracy,
    table_and_schema,
)
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

EPSILONS = ("0.1", "0.25", "0.5", "1")
ROUNDS = setting((4, 7, 10, 13, 16), (4, 10, 16))
RUNS = setting(10, 3)
FOLDS = {"n": 1, "folds": 10, "most": setting(10, 3)}
SIZES = setting((200_000, 400_000, 600_000, 800_000, 1_000_000), (200_000, 1_000_000))
TIMED = setting(3, 2)
MEANS = "with one standard error"

PRINTED = {
    "0.1": [Point.exact(10, 78.0)],
    "0.5": [Point(10, 81.1, 80.5, 81.73)],
    "1": [Point.exact(10, 75.5 + 6.74)],
}
"""Values from section 5 on figure 3a: the maximum at epsilon 0.1, and the range over h at 0.5."""


def percent(values: Iterable[float], x: float = 0.0) -> Point:
    return Point.of_runs(x, [100 * value for value in values])


def ends(**which: Any) -> dict[str, float]:
    """Return BA and LA."""
    made = divisions(**which)
    return {
        "BA": percent(map(baseline_accuracy, made)).y,
        "LA": percent(map(lower_accuracy, made)).y,
    }


def accuracy_at(x: float, method: Method, **which: Any) -> Point:
    """Measure one point."""
    return percent((accuracy(method, division) for division in divisions(**which)), x)


def by_rounds(number: str, score: ScoreName, printed: dict[str, list[Point]]) -> Figure:
    kinds: tuple[Calibration, ...] = ("paper", "tight")
    levels, panels = ends(), []
    for calibration in kinds:
        curves = [
            Curve(
                f"epsilon {epsilon}",
                [
                    accuracy_at(
                        h,
                        DiffGen(
                            epsilon=epsilon,
                            specializations=h,
                            score=score,
                            calibration=calibration,
                        ),
                    )
                    for h in ROUNDS
                ],
            )
            for epsilon in EPSILONS
        ]
        curves += [
            Curve(f"printed, epsilon {epsilon}", points, printed=True)
            for epsilon, points in printed.items()
        ]
        panels.append(Panel(f"{score}, {calibration}", curves, levels))
    return Figure(
        number, f"Accuracy of a tree that learns from DiffGen, score {score}", "specializations",
        "accuracy in percent", f"mean of {RUNS} divisions, {MEANS}", RUNS, panels,
    )  # fmt: skip


def figure_3a() -> Figure:
    return by_rounds("3a", "max", PRINTED)


def figure_3b() -> Figure:
    return by_rounds("3b", "information-gain", {})


def tree_accuracy(epsilon: str, division: Division) -> float:
    """Train DiffP-C4.5, and return its accuracy."""
    tree = DpC45(epsilon=epsilon, depth=5).fit(division.private, SecureNoise())
    return float(np.mean(tree.predict(division.test) == division.test[division.target]))


def figure_4() -> Figure:
    """Compare DiffGen with h = 15, DiffP-C4.5, and TDS with k = 5, in one run of ten folds."""

    def of_method(**parameters: Any) -> Callable[[str], Point]:
        return lambda epsilon: accuracy_at(
            float(epsilon), DiffGen(epsilon=epsilon, **parameters), **FOLDS
        )

    kinds: dict[str, Callable[[str], Point]] = {
        "DiffGen, h = 15, max, paper": of_method(
            specializations=15, score="max", calibration="paper"
        ),
        "DiffGen, h = 15, max, tight": of_method(specializations=15, score="max"),
        "DiffGen as it is by default": of_method(),
        "DiffP-C4.5, depth 5": lambda epsilon: percent(
            (tree_accuracy(epsilon, division) for division in divisions(**FOLDS)), float(epsilon)
        ),
    }
    curves = [
        Curve(name, [kind(epsilon) for epsilon in ("0.75", "1", "2", "3", "4")])
        for name, kind in kinds.items()
    ]
    tds = accuracy_at(0, TopDownSpecialization(k=5), **FOLDS).y
    return Figure(
        "4", "DiffGen, DiffP-C4.5 and TDS", "epsilon", "accuracy in percent",
        f"mean of {FOLDS['most']} folds, {MEANS}", FOLDS["most"],
        [Panel("ten folds", curves, {**ends(**FOLDS), "TDS, k = 5": tds})],
    )  # fmt: skip


def blown_up(n_rows: int, path: Path) -> None:
    """Write copies of Adult's rows; one value in seven is replaced by that of another row."""
    table, _ = table_and_schema()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(table), n_rows)
    columns = {}
    for name in table.column_names:
        exchanged = rng.random(n_rows) < 1 / 7
        taken = np.where(exchanged, rng.integers(0, len(table), n_rows), rows)
        columns[name] = table.column(name).take(pa.array(taken))
    pq.write_table(pa.table(columns), path)


def publish_seconds(n_rows: int, folder: Path, runs: int) -> list[float]:
    """Publish several times from a Parquet file; return the CPU seconds of each run."""
    _, schema = table_and_schema()
    method = DiffGen(epsilon=1, specializations=15, score="max")
    path, found = folder / f"{n_rows}.parquet", []
    blown_up(n_rows, path)
    for run in range(runs + 1):
        start = time.process_time()
        publish(path, schema, method, out=folder / f"{n_rows}-{run}")
        found.append(time.process_time() - start)
    path.unlink()
    return found[1:]  # the first run includes imports


def figure_5() -> Figure:
    """Measure the run time of a whole publication with h = 15 and epsilon = 1."""
    with tempfile.TemporaryDirectory() as folder:
        points = [
            Point.of_runs(n_rows, publish_seconds(n_rows, Path(folder), TIMED)) for n_rows in SIZES
        ]
    return Figure(
        "5", "Run time of DiffGen on copies of Adult", "rows", "seconds of CPU",
        f"mean of {TIMED} publications, {MEANS}", 0,
        [Panel("h = 15, epsilon 1", [Curve("publish, seconds of CPU", points)])],
    )  # fmt: skip


DATA_OF_FIGURES = dict.fromkeys(("3a", "3b", "4", "5"), "adult")
FIGURES = {"3a": figure_3a, "3b": figure_3b, "4": figure_4, "5": figure_5}
