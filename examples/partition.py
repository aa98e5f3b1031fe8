"""Example of partition: publish regions with noisy counts, query them, and generate rows.

Run it with ``python examples/partition.py``; it uses the embedded sample and a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hushtable import Partition, Release, publish, sample, sample_schema


def main() -> None:
    """Plan, publish, query, and generate rows."""
    schema = sample_schema()  # its target column is the diagnosis
    # Choose parameters without the private data, for example by the forecast.
    method = Partition(epsilon=1, max_depth=8, test_from=6)

    print("The promise, before any row is read:")
    for promise in method.guarantee(schema):
        print(" ", promise.explain())
    forecast = method.forecast(schema, rows=12_000)
    print("How epsilon is divided:")
    for step, share in forecast.split.items():
        print(f"  {step}: {share}")

    with tempfile.TemporaryDirectory() as folder:
        publish(sample(), schema, method, out=Path(folder) / "release")
        release = Release.load(Path(folder) / "release")  # an analyst has only this folder
        print(f"{release.table('tree')['left'].null_count} regions were published.")
        for where in ("TRUE", "diagnosis = 'diabetes'", "age >= 60 AND diagnosis = 'diabetes'"):
            print(f"  {where}: {release.count(where)}")
        print("Some rows sampled from them:")
        for row in release.frame().slice(0, 3).to_pylist():
            print(" ", row)


if __name__ == "__main__":
    main()
