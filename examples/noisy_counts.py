"""Example of noisy counts: publish the counts of common tuples, and query the release.

Run it with ``python examples/noisy_counts.py``; it works on generated data in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hushtable import NoisyCounts, Release, publish, sample, sample_schema


def main() -> None:
    """Plan, publish, and query."""
    schema = sample_schema()
    method = NoisyCounts(
        epsilon=1,
        delta="1e-6",
        k=10,
        generalize={"age": 20, "region": 1, "diagnosis": 1},  # public rules, not from the data
        row_count_share="1/20",
    )

    print("The promise, before any data is read:")
    for promise in method.guarantee(schema):
        print(" ", promise.explain())

    print("What to expect for about 12,000 rows:")
    for name, figure in method.forecast(schema, 12_000).lines.items():
        print(f"  {name}: {figure}")

    print("A tuple held by 30 rows is published as")
    for published, chance in method.of_one_row.mass(30).items():
        if chance > 0.01:
            print(f"  {published or 'nothing'} with probability {chance:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        publish(sample(), schema, method, out=Path(folder) / "release")
        release = Release.load(Path(folder) / "release")  # an analyst has only this folder
        for question in ("sex = 'F'", "age >= 40", "smoker IS NULL"):
            print(f"{question}: {release.count(question)}")


if __name__ == "__main__":
    main()
