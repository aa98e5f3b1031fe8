"""Speed and memory as ratios against a peer measured in the same run: ``make bench``."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import counting, noise

PUBLISH = """
import resource, sys
from benchmarks.counting import adult_like_schema
from hushtable import NoisyCounts, publish
loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
method = NoisyCounts(epsilon=1, delta="1e-6", k=10)
publish(sys.argv[1], adult_like_schema(), method, out=sys.argv[2], memory_limit="1GB")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"imports {loaded / 1024:.0f} MB, peak {peak / 1024:.0f} MB")
"""


def publish_memory(rows: int) -> str:
    """Publish a generated file in a process of its own and tell its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        counting.write_rows(path, rows)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PUBLISH, path, Path(folder) / "release"],
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout.strip()


def main() -> None:
    print("# exact noise")
    noise.main()
    print("# counting")
    counting.main()
    print("# memory of publish noisy-counts, DuckDB limited to 1 GB")
    for rows in (100_000, 1_000_000):
        print(f"{rows:>10,} rows: {publish_memory(rows)}")
    print(f"this process: peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
