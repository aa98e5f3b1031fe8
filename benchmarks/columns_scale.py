"""Time and memory of publishing ratings with `columns`, compared with a group count in DuckDB.

Run it with ``python -m benchmarks.columns_scale [--rows 20000000] [--data FOLDER]``. Without
``--rows``, MovieLens 1M is published (1,000,209 ratings), or the same number of generated ratings
if it is not found. Each publication runs in a separate process, whose peak memory is printed. Times
do not include imports and compilation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_MOVIES = 3952
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

PUBLISH = """
import json, sys, time
import pyarrow as pa
from benchmarks.columns_scale import peak_mb, schema_of
from hushtable import Columns, publish
path, out, parameters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
method = Columns(epsilon="ln(5)", delta="1e-5", k=10, item="movie", value="rating", **parameters)
# Import and compile before the measurement: both do not depend on the data.
warm = Columns(epsilon=1, delta="1e-5", k=1, item="movie", value="rating", max_columns=1,
               max_values=1, columns=[["1", "2"]])
few = pa.table({"user": ["a", "a", "b"], "movie": ["1", "2", "1"], "rating": [1, 2, 3]})
publish(few, schema_of(), warm, out=out + "-warm", engine="duckdb")
start = time.perf_counter()
release = publish(path, schema_of(), method, out=out, memory_limit="600MB")
print(json.dumps({"seconds": time.perf_counter() - start, "peak MB": peak_mb(),
                  "rows": release.statement.tables["data"].rows}))
"""


def schema_of() -> object:
    """Return the schema of the ratings."""
    from hushtable import Schema

    return Schema.from_dict(
        {
            "name": "ratings",
            "unit": {"kind": "person", "column": "user", "max_rows": N_MOVIES},
            "columns": {
                "user": {"role": "identifier"},
                "movie": {
                    "type": "categorical", "values": [str(i) for i in range(1, N_MOVIES + 1)]
                },
                "rating": {"type": "integer", "low": 1, "high": 5},
            },
        }
    )  # fmt: skip


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def write_ratings(path: Path, rows: int) -> None:
    """Generate ratings in parts: about 170 per person, with a skewed popularity of movies."""
    draw = np.random.default_rng(1)
    fame = 1 / (10 + np.arange(N_MOVIES))
    ends = np.cumsum(fame / fame.sum())
    with pq.ParquetWriter(path, pa.schema([("user", pa.int32()), ("movie", pa.int32()),
                                           ("rating", pa.int8())])) as writer:  # fmt: skip
        for first in range(0, rows, 1_000_000):
            n = min(1_000_000, rows - first)
            user = first // 170 + np.sort(draw.integers(0, max(1, n // 170), n))
            movie = 1 + np.minimum(np.searchsorted(ends, draw.random(n)), N_MOVIES - 1)
            rating = draw.integers(1, 6, n)
            writer.write_table(
                pa.table({"user": user.astype(np.int32), "movie": movie.astype(np.int32),
                          "rating": rating.astype(np.int8)})
            )  # fmt: skip


def count_in_duckdb(path: Path) -> float:
    """Read the ratings and count them by movie and rating; return the seconds."""
    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    start = time.perf_counter()
    with duckdb.connect() as connection:
        query = f"SELECT movie, rating, count(*) FROM {reader}('{path}') GROUP BY ALL"
        connection.execute(query).fetchall()
    return time.perf_counter() - start


def run(path: Path, parameters: dict[str, object]) -> dict[str, float]:
    """Publish in a separate process; return its measurements."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PUBLISH, path, Path(folder) / "release",
             json.dumps(parameters)], capture_output=True, text=True, check=True,
        )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--data", type=Path, default=os.environ.get("HUSHTABLE_DATA", SHARED))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.data) / "ratings" / "ml-1m_ratings.csv.gz"
        if options.rows is not None or not path.is_file():
            path = Path(folder) / "ratings.parquet"
            write_ratings(path, options.rows or 1_000_209)
        items = [str(i) for i in range(1, N_MOVIES + 1)]
        public = [items[i::50] for i in range(50)]
        tries: dict[str, dict[str, object]] = {
            "50 public columns": {"columns": public, "max_columns": 6, "max_values": 20},
            "50 public columns, all values": {"columns": public, "max_columns": 6},
            "65 columns chosen privately": {
                "clusters": [5, 10, 50], "max_columns": 8, "max_values": 20
            },
        }  # fmt: skip
        for name, parameters in tries.items():
            base = min(count_in_duckdb(path) for _ in range(3))
            found = run(path, parameters)
            print(
                f"{name}: {found['seconds']:.1f} s, {found['seconds'] / base:.1f} times DuckDB's "
                f"{base:.2f} s, peak {found['peak MB']:.0f} MB, {found['rows']:.0f} rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
