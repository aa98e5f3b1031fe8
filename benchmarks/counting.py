"""Time of counting, compared with plain DuckDB SQL on the same Parquet file.

Run as ``python -m benchmarks.counting``. It prints ratios, which do not depend on the speed of the
machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from hushtable.engine import connect
from hushtable.schema import Schema

REPETITIONS = 7

NUMBERS = {
    # name: (low, high, SQL of a random value); shaped like the Adult census table
    "age": (17, 90, "17 + floor(74 * random() * random())"),
    # about 28,000 different values, as many as Adult has
    "fnlwgt": (12_000, 1_499_999, "12000 + 53 * floor(28000 * random())"),
    "education_years": (1, 16, "1 + floor(16 * random())"),
    "capital_gain": (0, 99_999, "if(random() < 0.08, floor(99999 * random()), 0)"),
    "capital_loss": (0, 4_999, "if(random() < 0.05, floor(4356 * random()), 0)"),
    "hours": (1, 99, "1 + floor(99 * random())"),
}
LISTS = {
    "workclass": 8, "education": 16, "marital_status": 7, "occupation": 14,
    "relationship": 6, "race": 5, "sex": 2, "country": 41,
}  # fmt: skip


def adult_like_schema() -> Schema:
    """Return the schema of a table with the 14 columns of Adult."""
    columns: dict[str, object] = {
        name: {"type": "integer", "low": low, "high": high}
        for name, (low, high, _) in NUMBERS.items()
    }
    for name, n_values in LISTS.items():
        values = [f"{name} {code}" for code in range(n_values)]
        columns[name] = {"type": "categorical", "values": values}
    return Schema.from_dict({"name": "adult-like", "columns": columns})


def write_rows(path: Path, rows: int) -> None:
    """Write generated rows."""
    drawn = [f"({how})::INTEGER AS {name}" for name, (*_, how) in NUMBERS.items()]
    drawn += [
        f"'{name} ' || floor({n_values} * random() * random())::INTEGER AS {name}"
        for name, n_values in LISTS.items()
    ]
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute(
        f"COPY (SELECT {', '.join(drawn)} FROM range({rows})) TO '{path}' (FORMAT parquet)"
    )


def plain_sql(connection: duckdb.DuckDBPyConnection, path: Path, columns: list[str]) -> None:
    """Count every column with plain SQL."""
    for name in columns:
        connection.sql(f"SELECT {name}, count(*) FROM '{path}' GROUP BY {name}").to_arrow_table()


def seconds(job: Callable[[], object]) -> float:
    """Return the seconds of one run."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def measure(rows: int, *, memory_limit: str | None = None) -> dict[str, float]:
    """Count all 14 columns of a generated Parquet file, by hushtable and by plain SQL.

    Both have the file open and take turns, so that a busy machine slows both.
    """
    schema = adult_like_schema()
    columns = list(schema.attributes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, rows)
        engine = connect(path, schema, memory_limit=memory_limit)
        duck = duckdb.connect()
        duck.execute("SET enable_progress_bar = false")

        def ours() -> None:
            histograms = engine.histograms(columns)
            assert all(counts.sum() == rows for counts in histograms.values())

        def theirs() -> None:
            plain_sql(duck, path, columns)

        ours()
        theirs()
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPETITIONS)]
        cells = seconds(lambda: engine.counts(list(LISTS)))
    return {
        "rows": rows,
        "histograms_seconds": statistics.median(own for own, _ in pairs),
        "plain_sql_seconds": statistics.median(plain for _, plain in pairs),
        "ratio": statistics.median(own / plain for own, plain in pairs),
        "cells_seconds": cells,
    }


def main() -> None:
    small, large = measure(1_000_000), measure(10_000_000)
    growth = large["histograms_seconds"] / small["histograms_seconds"]
    for result in (small, large):
        print(
            f"14 columns, {result['rows']:>10,} rows: hushtable "
            f"{result['histograms_seconds']:.3f} s, plain SQL {result['plain_sql_seconds']:.3f} s, "
            f"ratio {result['ratio']:.2f} (goal: at most 1.5)"
        )
    print(f"growth from 1M to 10M rows: {growth:.1f} times (goal: at most 12)")
    limited = measure(10_000_000, memory_limit="1GB")
    print(
        f"10M rows with 1 GB for DuckDB: histograms {limited['histograms_seconds']:.3f} s, "
        f"cells of 8 columns {limited['cells_seconds']:.1f} s"
    )


if __name__ == "__main__":
    main()
