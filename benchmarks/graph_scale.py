"""Time of publishing a graph, compared with reading its edge list with DuckDB or pyarrow.

Run as ``python -m benchmarks.graph_scale [--large]``. The first part uses UNC (766,800 edges) if it
is under ``$HUSHTABLE_DATA`` or ``../shared/data``. The second part uses generated graphs of up to a
million edges, or ten million with ``--large``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from hushtable.methods.degrees.degrees import Degrees
from hushtable.publishing.publish import publish_graph

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HUSHTABLE_DATA", ROOT.parent / "shared" / "data")) / "graphs"
GOAL = 5.0


def seconds(act: Callable[[], object], *, runs: int = 5) -> float:
    """Return the shortest time of `act`, after one run for compilation."""
    act()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times)


def read_times(path: Path) -> dict[str, float]:
    """Return the times of reading two columns of text with DuckDB and pyarrow."""
    query = f"SELECT * FROM read_csv('{path}', delim=' ', header=false)"
    options = {
        "read_options": pa_csv.ReadOptions(column_names=["source", "target"]),
        "parse_options": pa_csv.ParseOptions(delimiter=" "),
    }
    return {
        "duckdb": seconds(lambda: duckdb.sql(query).to_arrow_table()),
        "pyarrow": seconds(lambda: pa_csv.read_csv(path, **options)),
    }


def publish_time(path: Path, folder: Path, *, runs: int = 5, **parameters: object) -> float:
    """Return the time from the file to the release folder."""
    method = Degrees(epsilon=1, population="endpoints", **parameters)
    count = iter(range(1000))
    return seconds(
        lambda: publish_graph(path, method, out=folder / f"{path.stem}-{next(count)}"), runs=runs
    )


def write_edges(path: Path, n_edges: int) -> None:
    """Write a graph with heavy-tailed degrees: nodes are sampled with unequal weights."""
    rng = np.random.default_rng(1)
    n_nodes = n_edges // 10
    ends = (n_nodes * rng.random((2, n_edges)) ** 2).astype(np.int64)
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ")
    pa_csv.write_csv(pa.table({"a": ends[0], "b": ends[1]}), path, write_options=options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="up to ten million edges")
    sizes = [100_000, 1_000_000] + ([10_000_000] if parser.parse_args().large else [])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unc = DATA / "fb100_UNC28.edges.txt.gz"
        if unc.is_file():
            reading = read_times(unc)
            for label, bound in (("public bound 256", 256), ("private bound", "private")):
                ours = publish_time(unc, folder, max_degree=bound)
                ratios = {peer: ours / peers for peer, peers in reading.items()}
                verdict = "met" if max(ratios.values()) <= GOAL else "MISSED"
                shown = ", ".join(
                    f"{ratio:.1f} times {peer} ({reading[peer]:.3f} s)"
                    for peer, ratio in ratios.items()
                )
                print(f"UNC, {label}: {ours:.3f} s, {shown} (goal {GOAL:.0f}): {verdict}")
                folder = Path(tempfile.mkdtemp(dir=name))
        before = None
        for n_edges in sizes:
            path = folder / f"edges-{n_edges}.txt"
            write_edges(path, n_edges)
            ours = publish_time(path, folder, runs=3 if n_edges < 10**7 else 2, max_degree=256)
            growth = f", {ours / before:.1f} times the size before" if before else ""
            print(f"{n_edges:>11,} edges: {ours:.2f} s, {ours / n_edges * 1e6:.2f} us each{growth}")
            before = ours


if __name__ == "__main__":
    main()
