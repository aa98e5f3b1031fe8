"""Time and memory of `partition` by number of rows and depth.

Run as ``python -m benchmarks.partition_scale [--rows 100000 1000000] [--depth 10 50]``. Rows are
generated, with ten columns similar to Adult's. Each run is a separate process, to measure its peak
memory. The output compares memory with the forecast, and time with one count of the table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

from hushtable.engine import connect
from hushtable.methods.partition.partition import Partition
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema

SIZES = {"age": 74, "hours": 99, "gain": 100_000}
CATEGORIES = {"work": 8, "school": 16, "marital": 7, "job": 14, "kin": 6, "country": 41, "sex": 2}


def schema() -> Schema:
    columns: dict[str, object] = {
        name: {"type": "integer", "low": 0, "high": size - 1} for name, size in SIZES.items()
    }
    columns |= {
        name: {"type": "categorical", "values": [f"{name}{i}" for i in range(size)]}
        for name, size in CATEGORIES.items()
    }
    columns["income"] = {"type": "categorical", "values": ["low", "high"], "role": "target"}
    return Schema.from_dict({"name": "generated", "columns": columns})


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {name: (rng.beta(2, 4, rows) * size).astype(int) for name, size in SIZES.items()}
    texts = {}
    for name, size in CATEGORIES.items():
        chances = 1 / np.arange(1, size + 1)
        codes = rng.choice(size, rows, p=chances / chances.sum())
        values = pa.array([f"{name}{i}" for i in range(size)])
        texts[name] = values.take(pa.array(codes))
    high = rng.random(rows) < columns["age"] / 150
    return pa.table({**columns, **texts, "income": np.where(high, "high", "low")})


def measure(rows: int, depth: int) -> dict[str, float]:
    """Publish once, and measure seconds and MB."""
    engine = connect(table(rows), schema(), engine="memory")
    method = Partition(epsilon=1, max_depth=depth)
    Partition(epsilon=1, max_depth=2).run(connect(table(100), schema()), SecureNoise())  # compile
    start = time.perf_counter()
    engine.counts(list(schema().attributes))
    counted = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = method.run(engine, SecureNoise())
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "rows": rows,
        "depth": depth,
        "seconds to encode and count once": counted - start,
        "seconds in all after that": end - counted,
        "regions": made.tables["tree"]["left"].null_count,
        "peak MB above encoding": (peak - before) / 1024,
        "forecast MB": method.forecast(schema(), rows).memory_mb,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--depth", type=int, nargs="*", default=[10, 50])
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(measure(*given.one)) + "\n")
        return
    for rows in given.rows:
        for depth in given.depth:
            command = [sys.executable, "-W", "ignore", __file__, "--one", str(rows), str(depth)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
