"""Comparison of quilt with AIM, MST and PrivBayes of `dpmm`: accuracy, CPU time and memory.

``python -m benchmarks.peers --data FOLDER [--peers-python PYTHON] [--methods ...] [--tables ...]``

Every run is a separate process with one thread. The kernel reports its CPU time (user and system)
and its peak memory, which include the interpreter, imports, reading and writing. Each finished run
is saved as an entry of a JSON file (``benchmarks/results/peers.json``, ``--results``). Later calls
skip saved runs unless ``--again`` is given, so an interrupted benchmark can be continued. All runs
with the first seed come first, then those with the second.

"rows" is a bootstrap sample of the private rows, without privacy: a bound on what a synthesizer can
achieve. dpmm needs other library versions than hushtable. Install it into a separate environment,
and pass its interpreter (``--peers-python`` or ``$HUSHTABLE_PEERS_PYTHON``).

"aim" is AIM with its defaults: 16 rounds per column, 1,000 iterations and 80 MB, which take hours.
"aim-lite" has 40 rounds, 250 iterations and 4 MB. Neither the noise of dpmm nor that of hushtable
is seeded here: a seed only numbers an independent run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from benchmarks.peers.data import YES_NO, Codes, Table, load
from benchmarks.peers.metrics import measure
from benchmarks.peers.results import Results
from hushtable.release.release import Release

DELTA = "1e-9"
EPSILONS = ("0.1", "0.5", "1.0")
TABLES = ("nltcs", "br2000", "acs", "adult", "bank", "kdd", "german")
RUNS = {
    **{"rows": 10, "quilt": 10, "quilt-target": 10},
    **{"aim-lite": 3, "aim": 1, "mst": 3, "privbayes": 3},
}
USUAL = ("rows", "quilt", "aim-lite", "mst", "privbayes")
RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
SHARED = Path(__file__).parents[3] / "shared" / "data"
FIGURES = (
    *("tree", "boosting", "auc", "tvd1", "tvd2", "tvd3"),
    *("correlation", "slope", "cramer", "cpu_s", "peak_mb"),
)
_HERE = Path(__file__).parent
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def run_alone(command: Sequence[str]) -> dict[str, float]:
    """Run a command; return its CPU time and peak memory, children included."""
    environment = {**os.environ, **_ONE_THREAD}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have bytecode, too
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(_HERE / "alone.py"), *command],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    used: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if used.pop("status") != 0:
        raise RuntimeError(f"this failed: {' '.join(command)}")
    return used


def run(
    table: Table, method: str, epsilon: str, seed: int, peers_python: str
) -> tuple[Codes, dict[str, float]]:
    """Run one method on the training rows; return the released rows and the resources used."""
    if method == "rows":
        drawn = np.random.default_rng(seed).integers(len(table.train), size=len(table.train))
        return table.train[drawn], {"cpu_s": 0.0, "peak_mb": 0.0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if method.startswith("quilt"):
            return _run_quilt(table, method, epsilon, folder)
        return _run_peer(table, method, epsilon, seed, python=peers_python, folder=folder)


def _run_quilt(
    table: Table, method: str, epsilon: str, folder: Path
) -> tuple[Codes, dict[str, float]]:
    rows, schema, out = folder / "rows.parquet", folder / "schema.yaml", folder / "release"
    pa_parquet.write_table(table.arrow(table.train), rows)
    schema.write_text(table.schema.to_yaml())
    target = table.columns[table.target].name if method == "quilt-target" else ""
    given = [str(rows), str(schema), epsilon, DELTA, target, str(out)]
    used = run_alone([sys.executable, "-m", "benchmarks.peers.run_quilt", *given])
    return table.codes(Release.load(out).frame()), used


def _run_peer(
    table: Table, method: str, epsilon: str, seed: int, *, python: str, folder: Path
) -> tuple[Codes, dict[str, float]]:
    rows, out = folder / "rows.csv", folder / "out.csv"
    names = [f"c{i}" for i in range(len(table.columns))]
    np.savetxt(rows, table.train, fmt="%d", delimiter=",", header=",".join(names), comments="")
    sizes = ",".join(map(str, table.sizes))
    given = [method, str(rows), sizes, epsilon, DELTA, str(seed), str(out)]
    script = "run_smartnoise.py" if method.startswith("smartnoise") else "run_dpmm.py"
    used = run_alone([python, str(_HERE / script), *given])
    found = pa_csv.read_csv(out)
    return np.stack([found.column(name).to_numpy() for name in names], axis=1), used


def run_all(given: argparse.Namespace, results: Results) -> None:
    """Make the selected runs that are not saved yet."""
    tables = {}
    for name in given.tables:
        try:
            tables[name] = load(name, given.data)
        except FileNotFoundError as error:
            print(f"{name} is skipped: {error.filename} was not found.")
    warm = False
    seeds = range(given.runs or max(RUNS.values()))
    for seed, name, method, epsilon in product(seeds, tables, given.methods, given.epsilons):
        made = {"table": name, "method": method, "epsilon": epsilon, "seed": seed}
        if seed >= (given.runs or RUNS[method]) or (made in results and not given.again):
            continue
        table = tables[name]
        if method.startswith("quilt") and not warm:
            # The first run on a machine compiles loops and caches them on disk; do not count it.
            run(table, method, epsilon, seed, given.peers_python)
            warm = True
        rows, used = run(table, method, epsilon, seed, given.peers_python)
        made |= {"rows": len(rows), **used, **measure(table, rows)}
        results.add(made)
        print(line(made), flush=True)


def line(result: dict[str, Any]) -> str:
    """Return one run as a line of text."""
    figures = " ".join(f"{name} {result[name]:.4f}" for name in FIGURES)
    return f"{result['table']} {result['method']} {result['epsilon']} {figures}"


def summary(results: Iterable[dict[str, Any]]) -> str:
    """Return means and standard errors as a Markdown table."""
    lines = ["| table | epsilon | method | runs | " + " | ".join(FIGURES) + " |"]
    lines.append("|" + " --- |" * (4 + len(FIGURES)))
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for result in results:
        key = (result["table"], result["epsilon"], result["method"])
        groups.setdefault(key, []).append(result)
    order = {name: i for i, name in enumerate((*TABLES, *YES_NO, *RUNS))}
    for table, epsilon, method in sorted(groups, key=lambda k: (order[k[0]], k[1], order[k[2]])):
        runs = groups[table, epsilon, method]
        cells = [_mean(name, [run[name] for run in runs]) for name in FIGURES]
        lines.append(f"| {table} | {epsilon} | {method} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(name: str, values: list[float]) -> str:
    scale, digits = (100, 2) if name in {"tree", "boosting", "auc"} else (1, 4)
    if name in {"cpu_s", "peak_mb"}:
        digits = 2 if name == "cpu_s" else 0
    found = scale * np.asarray(values)
    mean = f"{found.mean():.{digits}f}"
    if len(found) < 2:
        return mean
    return f"{mean} ± {found.std(ddof=1) / np.sqrt(len(found)):.{digits}f}"


def main() -> None:
    """Parse the command line, make the runs, and print the summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    folder = Path(os.environ.get("HUSHTABLE_DATA", SHARED))
    parser.add_argument("--data", type=Path, default=folder, help="folder of the tables")
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HUSHTABLE_PEERS_PYTHON", sys.executable),
        help="interpreter that has dpmm",
    )
    parser.add_argument("--tables", nargs="+", choices=(*TABLES, *YES_NO), default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=list(RUNS), default=list(USUAL))
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--runs", type=int, help="runs of each kind (default: by method)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished runs")
    parser.add_argument("--again", action="store_true", help="repeat saved runs")
    parser.add_argument("--summary", action="store_true", help="only print the saved runs")
    given = parser.parse_args()
    results = Results(given.results)
    if not given.summary:
        run_all(given, results)
    print(summary(results))


if __name__ == "__main__":
    main()
