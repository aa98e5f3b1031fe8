"""Speed and memory as ratios against a peer measured in the same run: ``make bench``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import counting, noise

PUBLISH = """
import sys
from benchmarks.__main__ import peak_mb
from benchmarks.counting import adult_like_schema
from hushtable import NoisyCounts, publish
loaded = peak_mb()
method = NoisyCounts(epsilon=1, delta="1e-6", k=10)
publish(sys.argv[1], adult_like_schema(), method, out=sys.argv[2], memory_limit="1GB")
print(f"imports {loaded:.0f} MB, peak {peak_mb():.0f} MB")
"""


def peak_mb() -> float:
    """Return the peak memory of this process in MB; unlike ru_maxrss, without its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def publish_memory(rows: int) -> str:
    """Publish a generated file in a separate process; return a line on its peak memory."""
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


if __name__ == "__main__":
    main()
