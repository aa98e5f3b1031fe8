"""Cost of sealed counts: CPU time and memory of whole runs, compared with another checkout.

Runs of the two checkouts alternate, each in a separate process, so that changes in the speed of the
machine affect both::

    python -m benchmarks.sealed_cost OTHER_CHECKOUT/src [--rounds 7]

The table is the embedded sample, repeated twenty times (240,000 rows). The output shows, for each
method, the minimum CPU time of all rounds (least affected by other load), the median peak memory,
and the ratios of this checkout to the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

METHODS = {
    "quilt": 'Quilt(epsilon=1, delta="1e-9", particles=10_000)',
    "noisy-counts": 'NoisyCounts(epsilon=1, delta="1e-6", k=10, row_count_share="1/20")',
    "diffgen": "DiffGen(epsilon=1, specializations=10)",
    "partition": "Partition(epsilon=1)",
}
REPEATS = {"quilt": 3, "noisy-counts": 20, "diffgen": 20, "partition": 5}

_RUN = """
import json, resource, sys, time
import pyarrow as pa
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.methods import DiffGen, NoisyCounts, Partition, Quilt
from hushtable.privacy.noise.sources import SeededNoise
method = {method}
engine = connect(pa.concat_tables([sample()] * 20), sample_schema(), engine="memory")
plan = method.plan(sample_schema())
plan.run(engine, SeededNoise(0))  # compile
taken = []
for seed in range({repeats}):
    started = time.process_time()
    plan.run(engine, SeededNoise(seed))
    taken.append(time.process_time() - started)
print(json.dumps([min(taken), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measured(source: Path, name: str) -> tuple[float, float]:
    """Run a method of a checkout several times; return minimum CPU seconds and peak MB."""
    script = _RUN.format(method=METHODS[name], repeats=REPEATS[name])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(source), "NUMBA_NUM_THREADS": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    cpu, memory = json.loads(done.stdout)
    return cpu, memory


def main() -> None:
    """Print the table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the source folder of the other checkout")
    parser.add_argument("--this", type=Path, default=Path(__file__).resolve().parents[1] / "src")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print("method            CPU s    other   ratio     MB  other   ratio")
    for name in METHODS:
        pairs = [
            (measured(given.this, name), measured(given.other, name)) for _ in range(given.rounds)
        ]
        cpu, other_cpu = (min(pair[i][0] for pair in pairs) for i in (0, 1))
        memory, other_memory = (statistics.median(pair[i][1] for pair in pairs) for i in (0, 1))
        print(
            f"{name:14} {cpu:8.4f} {other_cpu:8.4f} {cpu / other_cpu:7.3f} "
            f"{memory:6.0f} {other_memory:6.0f} {memory / other_memory:7.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
