"""Time and memory of publishing a million to a hundred million rows, on DuckDB and on Spark.

Run as ``python -m benchmarks.scale [--rows 1000000 10000000] [--engine duckdb spark]
[--method diffgen noisy-counts partition] [--folder DIR] [--against SRC]``. Rows with 14 columns are
generated, as Parquet files of at most ten million rows, which are kept and reused if ``--folder``
is given. Every publication is a separate process. Its peak memory includes that of the Java process
and the workers that it starts. DuckDB is limited to 4 GB, Spark's driver to
``spark.driver.memory``. With ``--against``, the folder `src` of another version, both versions run
three times in turn, and the medians and their ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

from hushtable import DiffGen, NoisyCounts, Partition, Quilt, Schema, publish
from hushtable.methods import Method

PART = 10_000_000  # rows of one file
LIMIT = "4GB"
REPEATS = 3  # of each version, if two are compared

NUMBERS = {
    # name: (low, high, SQL of a random value); shaped like the Adult census table
    "age": (17, 90, "17 + floor(74 * random() * random())"),
    "weight": (0, 27_999, "floor(28000 * random())"),
    "years": (1, 16, "1 + floor(16 * random())"),
    "gain": (0, 99_999, "if(random() < 0.08, floor(99999 * random()), 0)"),
    "hours": (1, 99, "1 + floor(99 * random())"),
}
LISTS = {
    "workclass": 8, "education": 16, "marital": 7, "occupation": 14, "kin": 6, "race": 5, "sex": 2,
    "country": 41,
}  # fmt: skip
TARGET = "income"

FEW = ("age", "sex", "education", "race", "workclass", TARGET)
"""Columns with at most 189,440 distinct tuples, for any number of rows."""

METHODS: dict[str, tuple[Method, tuple[str, ...] | None]] = {
    # name: (the method, the published columns; None: all 14)
    "diffgen": (DiffGen(epsilon=1, specializations=15), None),
    "noisy-counts": (NoisyCounts(epsilon=1, delta="1e-9", k=10), FEW),
    "noisy-counts, all columns": (NoisyCounts(epsilon=1, delta="1e-9", k=10), None),
    "quilt": (Quilt(epsilon=1, delta="1e-9"), FEW),
    "quilt, all columns": (Quilt(epsilon=1, delta="1e-9"), None),
    "partition": (Partition(epsilon=1), FEW),
    "partition, all columns": (Partition(epsilon=1), None),
}


def halved(values: list[str]) -> dict[str, object] | list[str]:
    """Return a taxonomy made by halving a list of values repeatedly."""
    if len(values) <= 2:
        return values
    middle = len(values) // 2
    return {f"{part[0]} to {part[-1]}": halved(part) for part in (values[:middle], values[middle:])}


def schema(published: tuple[str, ...] | None) -> Schema:
    """Return the schema of the generated table, with the published columns only."""
    columns: dict[str, object] = {
        name: {"type": "integer", "low": low, "high": high}
        for name, (low, high, _) in NUMBERS.items()
    }
    for name, n_values in LISTS.items():
        values = [f"{name} {code}" for code in range(n_values)]
        tree = {f"any {name}": halved(values)} if n_values > 2 else None
        columns[name] = {"type": "categorical", "values": values, "taxonomy": tree}
    columns[TARGET] = {"type": "categorical", "values": ["high", "low"], "role": "target"}
    for name in columns:
        if published is not None and name not in published:
            columns[name] = {"role": "identifier"}
    return Schema.from_dict({"name": "generated", "columns": columns})


def write_rows(folder: Path, rows: int) -> Path:
    """Write generated rows unless they exist; return the folder of the files."""
    there = folder / f"rows-{rows}"
    if there.exists():
        return there
    drawn = [f"({how})::INTEGER AS {name}" for name, (*_, how) in NUMBERS.items()]
    drawn += [
        f"'{name} ' || floor({n_values} * random() * random())::INTEGER AS {name}"
        for name, n_values in LISTS.items()
    ]
    income = f"if(random() < (age - 10) / 160 + years / 40, 'high', 'low') AS {TARGET}"
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET preserve_insertion_order = false")
    unfinished = folder / f"unfinished-{rows}"
    unfinished.mkdir(parents=True)
    for begin in range(0, rows, PART):
        some = min(PART, rows - begin)
        connection.execute(
            f"COPY (SELECT *, {income} FROM (SELECT {', '.join(drawn)} FROM range({some}))) "
            f"TO '{unfinished}/part-{begin // PART:03}.parquet' (FORMAT parquet)"
        )
    return unfinished.rename(there)


def used() -> tuple[float, float]:
    """Return peak memory in MB and seconds of CPU, of this process and those it started.

    On a machine that others use too, seconds of CPU can be compared and seconds cannot.
    """
    children: dict[int, list[int]] = {}
    peaks, seconds = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            times = status.with_name("stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        number = int(status.parent.name)
        children.setdefault(int(lines["PPid"]), []).append(number)
        peaks[number] = int(lines.get("VmHWM", "0 kB").split()[0]) / 1024
        seconds[number] = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    family = [os.getpid()]
    for number in family:
        family += children.get(number, [])
    there = [number for number in family if number in peaks]
    return sum(peaks[number] for number in there), sum(seconds[number] for number in there)


def publish_once(data: Path, engine: str, name: str) -> dict[str, Any]:
    """Publish once, and return seconds and MB, or the reason of a refusal."""
    method, published = METHODS[name]
    public = schema(published)
    limit = {"memory_limit": LIMIT} if engine == "duckdb" else {}
    spark = None
    if engine == "spark":  # do not measure its start, which does not depend on the rows
        from hushtable.engine.spark.session import session

        spark = session()
        spark.range(1).count()
    with tempfile.TemporaryDirectory() as folder:
        start, (_, cpu) = time.perf_counter(), used()
        try:
            publish(data, public, method, out=Path(folder) / "out", engine=engine, **limit)  # type: ignore[arg-type]
            refused = ""
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
        peak, cpu_after = used()
        return {
            "seconds": time.perf_counter() - start,
            "cpu": cpu_after - cpu,
            "peak_mb": peak,
            "refused": refused,
            "read": rows_read(spark) if spark else None,
        }


def rows_read(spark: Any) -> int:
    """Return the number of rows that all jobs of a Spark session read from files."""
    context = spark.sparkContext
    gateway = context._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    every = gateway.jvm.java.util.ArrayList()
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, every)
    return sum(stages.apply(at).inputRecords() for at in range(stages.size()))


def in_a_process(data: Path, engine: str, name: str, version: Path | None) -> dict[str, Any]:
    """Publish in a separate process, with this version of hushtable or another."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", "--one", str(data)]
    done = subprocess.run(
        [*command, engine, name],
        env=os.environ if version is None else {**os.environ, "PYTHONPATH": str(version)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def compare(data: Path, engine: str, name: str, version: Path) -> str:
    """Publish in turn with this version and another; return the medians and their ratios."""
    runs: dict[Path | None, list[dict[str, Any]]] = {version: [], None: []}
    for _ in range(REPEATS):
        for one, measured in runs.items():
            measured.append(in_a_process(data, engine, name, one))
    figures = []
    for what in ("cpu", "peak_mb"):
        other, this = (
            statistics.median(run[what] for run in measured) for measured in runs.values()
        )
        figures.append(f"{what} {other:,.1f} -> {this:,.1f} ({this / other - 1:+.0%})")
    refused = {run["refused"] for measured in runs.values() for run in measured} - {""}
    return ", ".join([*figures, *refused])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--engine", nargs="*", default=["duckdb", "spark"])
    parser.add_argument("--method", nargs="*", default=list(METHODS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--against", type=Path, help="folder src of another version")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        data, engine, name = given.one
        sys.stdout.write(json.dumps(publish_once(Path(data), engine, name)) + "\n")
        return
    with tempfile.TemporaryDirectory() as fallback:
        folder = given.folder or Path(fallback)
        for engine in given.engine:
            for name in given.method:
                before = None
                for rows in given.rows:
                    data = write_rows(folder, rows)
                    if given.against:
                        figures = compare(data, engine, name, given.against)
                        print(f"{engine:7} {name:26} {rows:>12,} rows: {figures}", flush=True)
                        continue
                    row = in_a_process(data, engine, name, None)
                    passes = f", {row['read'] / rows:.1f} passes" if row["read"] else ""
                    growth = f" ({row['cpu'] / before:.1f} times)" if before else ""
                    print(
                        f"{engine:7} {name:26} {rows:>12,} rows: {row['seconds']:7.1f} s, "
                        f"{row['cpu']:7.1f} s of CPU{growth}, peak {row['peak_mb']:,.0f} MB"
                        f"{passes} {row['refused']}",
                        flush=True,
                    )
                    before = None if row["refused"] else row["cpu"]


if __name__ == "__main__":
    main()
