"""Time of publishing with DiffGen, compared with plain DuckDB SQL on the same Parquet file.

The rows are copies of Adult's with some values exchanged, as for figure 5 of Mohammed et al.
(2011): 13 attributes and the class, 15 specializations.

Run as ``python -m benchmarks.diffgen_scale``. Both are measured alternately in the same run, so the
ratio does not depend on the speed of the machine. Peak memory is measured in a separate process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.counting import seconds
from hushtable import DiffGen, publish
from hushtable_papers.adult_accuracy import TARGET, table_and_schema
from hushtable_papers.mohammed_2011 import blown_up

REPETITIONS = 5
METHOD = DiffGen(epsilon=1, specializations=15)

PUBLISH = """
import sys
from benchmarks.__main__ import peak_mb
from benchmarks.diffgen_scale import METHOD
from hushtable_papers.adult_accuracy import table_and_schema
from hushtable import publish
loaded = peak_mb()
publish(sys.argv[1], table_and_schema()[1], METHOD, out=sys.argv[2])
print(f"imports {loaded:.0f} MB, peak {peak_mb():.0f} MB")
"""


def plain_sql(path: Path) -> None:
    """Count the 13 value-by-class histograms with plain SQL."""
    connection = duckdb.connect()
    for name in table_and_schema()[1].attributes:
        if name != TARGET:
            connection.sql(
                f'SELECT "{name}", {TARGET}, count(*) FROM \'{path}\' GROUP BY "{name}", {TARGET}'
            ).to_arrow_table()


def measure(rows: int, repetitions: int = REPETITIONS) -> tuple[float, float, str]:
    """Return the seconds of a publication, their ratio to plain SQL, and the memory."""
    _, schema = table_and_schema()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        blown_up(rows, path)
        fresh = (Path(folder) / f"out{i}" for i in range(100))

        def ours() -> None:
            publish(path, schema, METHOD, out=next(fresh))

        ours(), plain_sql(path)  # the first run of each includes imports
        pairs = [(seconds(ours), seconds(lambda: plain_sql(path))) for _ in range(repetitions)]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PUBLISH, path, next(fresh)],
            capture_output=True,
            text=True,
            check=True,
        )
    return (
        statistics.median(mine for mine, _ in pairs),
        statistics.median(mine / theirs for mine, theirs in pairs),
        done.stdout.strip(),
    )


def main() -> None:
    small, ratio, memory = measure(1_000_000)
    print(
        f" 1,000,000 rows: publish {small:.2f} s, {ratio:.2f} times the 13 histograms by plain SQL "
        f"(goal: at most 3); {memory}"
    )
    large, ratio, memory = measure(10_000_000, repetitions=2)
    print(
        f"10,000,000 rows: publish {large:.2f} s, {ratio:.2f} times plain SQL, "
        f"{large / small:.1f} times 1,000,000 rows (goal: at most 12); {memory}"
    )


if __name__ == "__main__":
    main()
