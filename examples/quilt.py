"""Example of quilt: publish synthetic rows and the noisy tables behind them, and query both.

Run it with ``python examples/quilt.py``; it works on a generated table in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hushtable import Quilt, Release, publish, sample, sample_schema


def main() -> None:
    """Plan, publish, and query."""
    private, schema = sample(), sample_schema()  # 12,000 generated visits
    method = Quilt(epsilon=1, delta="1e-9")

    # The custodian reads the guarantee and the forecast before any row is read.
    for promise in method.guarantee(schema):
        print(promise.explain())
    for name, figure in method.forecast(schema, rows=12_000).lines.items():
        print(f"  {name}: {figure}")

    with tempfile.TemporaryDirectory() as folder:
        publish(private, schema, method, out=Path(folder) / "release")

        # The analyst has only the folder.
        release = Release.load(Path(folder) / "release")
        for note in release.statement.estimator["notes"]:
            print(f"- {note}")
        # Answers from measured tables are unbiased; other answers are model estimates.
        for where in (
            "age >= 40",
            "smoker = 'yes' AND diagnosis = 'asthma'",
            "age < 30 AND sex = 'F'",
        ):
            print(f"{where}: {release.count(where)}")
        print(release.frame().slice(0, 3).to_pylist())


if __name__ == "__main__":
    main()
