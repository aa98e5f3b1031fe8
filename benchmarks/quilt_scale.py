"""Run time of quilt on a million rows of 13 columns, and on a hundred columns.

Run it with ``python -m benchmarks.quilt_scale [rows|columns]``. Times are CPU seconds. The
comparison is counting only: the engine's two passes for tables, including the encoding of rows.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.engine import EngineName, connect
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema

SIZES = (15, 7, 16, 7, 14, 6, 5, 2, 7, 6, 8, 41, 2)  # numbers of values of Adult's binned columns


def generated(n_rows: int, sizes: Sequence[int]) -> tuple[pa.Table, Schema]:
    """Generate a table in which each column depends on the previous one."""
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    described = {}
    before, size_before = np.zeros(n_rows, np.int64), 1
    for place, size in enumerate(sizes):
        chances = np.cumsum(draw.dirichlet(np.ones(size) * 0.5, size=size_before), axis=1)
        values = (draw.random(n_rows)[:, None] > chances[before]).sum(axis=1).clip(0, size - 1)
        columns[f"c{place}"] = values
        described[f"c{place}"] = {"type": "integer", "low": 0, "high": size - 1}
        before, size_before = values, size
    return pa.table(columns), Schema.from_dict({"name": "generated", "columns": described})


def measure(n_rows: int, sizes: Sequence[int], engine: EngineName) -> None:
    """Print the CPU seconds of counting only, and of the method."""
    table, schema = generated(n_rows, sizes)
    names = list(schema.attributes)
    noise = SecureNoise()
    start = time.process_time()
    counting = connect(table, schema, engine=engine, noise=noise)
    counting.marginals([[name] for name in names])
    counting.marginals(list(itertools.combinations(names, 2)))
    counted = time.process_time() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    made = Quilt(epsilon=1, delta="1e-9").run(
        connect(table, schema, engine=engine, noise=noise), noise
    )
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{n_rows:>10,} rows x {len(sizes):>3} columns, {engine:<6}: counting {counted:6.2f} s, "
        f"quilt {took:6.2f} s ({took / counted:4.1f} times), peak {peak:,.0f} MB (with the table "
        f"and counting {before:,.0f} MB), {len(made.settings['tables'])} tables, "
        f"{made.tables['data'].num_rows:,} rows out"
    )


def main() -> None:
    """Run the measurements of the command line."""
    asked = sys.argv[1:] or ["rows", "columns"]
    measure(2000, SIZES, "memory")  # compile
    if "rows" in asked:
        for engine in ("memory", "duckdb"):
            measure(1_000_000, SIZES, engine)
    if "columns" in asked:
        measure(30_000, (SIZES * 8)[:100], "memory")
    if "ten" in asked:
        measure(10_000_000, SIZES, "memory")


if __name__ == "__main__":
    main()
