"""The figures of paper 003 on Adult, and what other scores and tables add to them.

Run as ``python -m benchmarks.papers.diffgen_figures [3a] [3b] [4] [5] [table] [elsewhere]``; all of
them by default. Each writes ``benchmarks/results/diffgen_<name>.json`` and a plot beside it. See
`benchmarks.papers.adult_accuracy` for the protocol. BA is a tree on raw rows, LA the most frequent
class. Means of ten runs with their standard errors, in percent.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.papers.adult_accuracy import (
    baseline_accuracy,
    divisions,
    lower_accuracy,
    measure,
    summary,
    table_and_schema,
)

from hushtable import DiffGen, publish
from hushtable.methods import TopDownSpecialization
from hushtable.methods.diffgen.diffgen import Calibration
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.privacy.class_scores import ScoreName
from hushtable.privacy.noise import SecureNoise

mpl.use("svg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parents[1] / "results"
EPSILONS = ("0.1", "0.25", "0.5", "1")
ROUNDS = (4, 7, 10, 13, 16)
KINDS: tuple[tuple[ScoreName, Calibration], ...] = (
    ("max", "paper"),
    ("max", "tight"),
    ("information-gain", "tight"),
    ("total-variation", "tight"),
    ("balanced-max", "tight"),
    ("balanced-gain", "tight"),
)

Found = tuple[float, float]
Curves = dict[str, dict[str, Found]]


def shown(found: Found) -> str:
    return f"{found[0]:6.2f} ±{found[1]:5.2f}"


def ends(**which: Any) -> dict[str, Found]:
    """Give BA and LA."""
    made = divisions(**which)
    return {
        "BA": summary(map(baseline_accuracy, made)),
        "LA": summary(map(lower_accuracy, made)),
    }


def curve(name: str, points: Mapping[Any, Callable[[], Found]]) -> dict[str, Found]:
    """Measure one line of a figure and print it."""
    found = {str(x): point() for x, point in points.items()}
    print(f"  {name}: " + "  ".join(f"{x}: {shown(y)}" for x, y in found.items()), flush=True)
    return found


def plot(panels: Mapping[str, Curves], lines: Mapping[str, Found], xlabel: str, file: Path) -> None:
    """Draw accuracies with standard errors, one panel beside the other."""
    _, axes = plt.subplots(1, len(panels), figsize=(1 + 4.5 * len(panels), 4), sharey=True)
    for axis, (title, curves) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        for name, points in curves.items():
            y, error = zip(*points.values(), strict=True)
            axis.errorbar(list(points), y, error, marker="o", markersize=3, capsize=2, label=name)
        for name, (value, _) in lines.items():
            axis.axhline(value, linestyle=":", color="black")
            axis.annotate(name, (0, value), (0, 2), textcoords="offset points", fontsize=7)
        axis.set(title=title, xlabel=xlabel, ylabel="accuracy in percent")
        axis.legend(fontsize=7)
    plt.tight_layout()
    plt.savefig(file)
    plt.close()


def accuracies(
    name: str, panels: Mapping[str, Curves], lines: Mapping[str, Found], xlabel: str
) -> None:
    """Write what was measured, and draw it."""
    content = {"x": xlabel, "lines": lines, "panels": panels}
    (RESULTS / f"diffgen_{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    plot(panels, lines, xlabel, RESULTS / f"diffgen_{name}.svg")


def by_rounds(name: str, score: ScoreName) -> None:
    panels: dict[str, Curves] = {}
    kinds: tuple[Calibration, ...] = ("paper", "tight")
    for calibration in kinds:
        panels[f"{score}, {calibration}"] = {
            f"epsilon {epsilon}": curve(
                f"{calibration}, epsilon {epsilon}",
                {
                    h: lambda h=h, c=calibration, e=epsilon: measure(
                        DiffGen(epsilon=e, specializations=h, score=score, calibration=c)
                    )
                    for h in ROUNDS
                },
            )
            for epsilon in EPSILONS
        }
    accuracies(name, panels, ends(), "specializations")


def figure_3a() -> None:
    by_rounds("figure_3a", "max")


def figure_3b() -> None:
    by_rounds("figure_3b", "information-gain")


def figure_4() -> None:
    """DiffGen with h = 15, DiffP-C4.5 and TDS with k = 5; ten folds, one run of them."""
    which = {"n": 1, "folds": 10}

    def of_tree(epsilon: str) -> Iterable[float]:
        for division in divisions(**which):
            tree = DpC45(epsilon=epsilon, depth=5).fit(division.private, SecureNoise())
            yield float(np.mean(tree.predict(division.test) == division.test[division.target]))

    def of_method(**parameters: Any) -> Callable[[str], Found]:
        return lambda epsilon: measure(DiffGen(epsilon=epsilon, **parameters), **which)

    lines = {**ends(**which), "TDS, k = 5": measure(TopDownSpecialization(k=5), **which)}
    kinds: dict[str, Callable[[str], Found]] = {
        "DiffGen, h = 15, max, paper": of_method(
            specializations=15, score="max", calibration="paper"
        ),
        "DiffGen, h = 15, max, tight": of_method(specializations=15, score="max"),
        "DiffGen as it is by default": of_method(),
        "DiffP-C4.5": lambda epsilon: summary(of_tree(epsilon)),
    }
    epsilons = ("0.75", "1", "2", "3", "4")
    curves = {
        name: curve(name, {e: lambda e=e, kind=kind: kind(e) for e in epsilons})
        for name, kind in kinds.items()
    }
    accuracies("figure_4", {"ten folds": curves}, lines, "epsilon")


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
    method = DiffGen(epsilon=1, specializations=15, score="max")
    found: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (200_000, 400_000, 600_000, 800_000, 1_000_000, 10_000_000):
            path = Path(folder) / f"{n_rows}.parquet"
            blown_up(n_rows, path)
            if not found:  # the first run pays for imports
                publish(path, schema, method, out=Path(folder) / "first")
            start, start_cpu = time.perf_counter(), time.process_time()
            publish(path, schema, method, out=Path(folder) / f"out{n_rows}")
            found[n_rows] = {
                "seconds": time.perf_counter() - start,
                "CPU seconds": time.process_time() - start_cpu,
            }
            print(f"  {n_rows:>10,} rows: {found[n_rows]}", flush=True)
            path.unlink()
    (RESULTS / "diffgen_figure_5.json").write_text(json.dumps(found, indent=1) + "\n")
    _, axis = plt.subplots(figsize=(6, 4))
    for kind in ("seconds", "CPU seconds"):
        axis.plot(list(found), [times[kind] for times in found.values()], marker="o", label=kind)
    axis.set(xlabel="rows", ylabel="seconds of a publish", xscale="log", yscale="log")
    axis.legend()
    plt.tight_layout()
    plt.savefig(RESULTS / "diffgen_figure_5.svg")
    plt.close()


def by_epsilon(
    tried: Iterable[int | str], epsilons: Iterable[str] = EPSILONS, **which: Any
) -> Curves:
    """Measure every score and calibration, with the best of a few public h."""
    curves: Curves = {}
    target = which.get("target")
    for score, calibration in KINDS:
        best: dict[str, Found] = {}
        for epsilon in epsilons:
            found = {
                h: measure(
                    DiffGen(
                        epsilon=epsilon,
                        specializations=h,
                        score=score,
                        calibration=calibration,
                        target=target,
                    ),
                    **which,
                )
                for h in tried
            }
            best[epsilon] = max(found.values())
            row = "  ".join(f"h={h} {shown(cell)}" for h, cell in found.items())
            print(f"  {score:>17} {calibration:>5} epsilon {epsilon:>4}: {row}", flush=True)
        curves[f"{score}, {calibration}"] = best
    return curves


def table() -> None:
    """Best of a few public h for every calibration and score."""
    accuracies("table", {"Adult": by_epsilon((4, 10, 14, "auto"))}, ends(), "epsilon")


ELSEWHERE: dict[str, dict[str, Any]] = {
    "Adult, fresh divisions": {"first_seed": 500},
    "Adult, sex": {"target": "sex"},
    "Adult, relationship": {"target": "relationship"},
    "clinic sample, diagnosis": {"target": "diagnosis", "clinic": True},
}


def elsewhere() -> None:
    """Other divisions, other columns to predict, another table: `auto` for every score."""
    for number, (title, which) in enumerate(ELSEWHERE.items()):
        print(f"  {title}")
        curves = by_epsilon(("auto",), ("0.1", "1"), **which)
        accuracies(f"elsewhere_{number}", {title: curves}, ends(**which), "epsilon")


FIGURES: dict[str, Callable[[], None]] = {
    "3a": figure_3a, "3b": figure_3b, "4": figure_4, "5": figure_5, "table": table,
    "elsewhere": elsewhere,
}  # fmt: skip


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        print(f"# {name}")
        FIGURES[name]()


if __name__ == "__main__":
    main()
