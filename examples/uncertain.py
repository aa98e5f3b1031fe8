"""Example of uncertain: publish numeric records as noisy points, query them, run an attack.

Run it with ``python examples/uncertain.py``; it works on generated data in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from hushtable import Release, Schema, SecureNoise, publish
from hushtable.evaluation.risk.likelihood_linkage import likelihood_linkage
from hushtable.methods.uncertain.uncertain import Uncertain

SCHEMA = Schema.from_dict(
    {
        "name": "body measurements (generated)",
        "columns": {
            "height": {"type": "integer", "low": 140, "high": 210},
            "weight": {"type": "integer", "low": 40, "high": 140},
        },
    }
)


def people(n: int) -> pa.Table:
    """Generate heights and weights."""
    rng = np.random.default_rng(2008)
    height = np.clip(rng.normal(172, 10, n), 140, 210)
    weight = np.clip(22 * (height / 100) ** 2 + rng.normal(8, 10, n), 40, 140)
    return pa.table({"height": height.astype(np.int64), "weight": weight.astype(np.int64)})


def main() -> None:
    """Plan, publish, query, and measure a re-identification attack."""
    method = Uncertain(k=5)
    print("The promise, before any data is read:")
    for promise in method.guarantee(SCHEMA):
        print(" ", promise.explain())
        for sentence in promise.unprotected:
            print("  not:", sentence)

    table = people(600)
    with tempfile.TemporaryDirectory() as folder:
        publish(table, SCHEMA, method, out=Path(folder) / "release")
        release = Release.load(Path(folder) / "release")  # an analyst has only this folder
        print(release.frame().slice(0, 3).to_pylist())
        for question in ("height >= 180", "height < 165 AND weight < 65"):
            print(f"{question}: {release.count(question)}")

    values = np.column_stack([table["height"], table["weight"]]).astype(np.float64)
    for attacked in (Uncertain(k=5, levels="exact"), method):
        found = likelihood_linkage(attacked, values, SCHEMA, SecureNoise())
        print(f"levels={attacked.levels}: {found.top1_rate:.0%} of the records re-identified")


if __name__ == "__main__":
    main()
