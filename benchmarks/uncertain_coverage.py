"""Coverage and width of the 95% intervals of `uncertain`, on three kinds of data.

Run ``python -m benchmarks.uncertain_coverage [n_records]``. For each data set, model and kind of
levels, it makes one release with k = 10 and counts records in random boxes over one column, two
columns and all columns. The ends of a range are two records' values. It prints the coverage, the
mean true count, the mean error of the estimate and the mean width of the interval, in records. It
also prints the size of the noise, which shows the cost of safe levels.
"""

from __future__ import annotations

import sys

import numpy as np

from hushtable.errors import Refused
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.sources import SecureNoise
from hushtable_papers.aggarwal_2008 import DATA, STEPS, Floats, Table

N_BOXES = 60


def boxes(table: Table, n_columns: int, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Return random conditions on some columns, with their true counts."""
    asked = []
    for _ in range(N_BOXES):
        columns = rng.choice(len(table.names), n_columns, replace=False)
        inside = np.ones(len(table.values), np.bool_)
        parts = []
        for column in columns.tolist():
            values = table.values[:, column]
            low, high = np.sort(rng.choice(values, 2)) + np.array([-1e-6, 1e-6])
            inside &= (values >= low) & (values <= high)
            parts.append(f"{table.names[column]} BETWEEN {low:.7f} AND {high:.7f}")
        asked.append((" AND ".join(parts), int(inside.sum())))
    return asked


def measure(name: str, points: Floats, method: Uncertain) -> None:
    """Publish once, and print a line for each number of columns."""
    rng = np.random.default_rng(2008)
    table = Table(points, None)
    label = f"{name:9} {method.model:8} {method.levels:5}"
    try:
        released = method.run(table, SecureNoise())
    except Refused as refusal:
        print(f"{label} refused: {str(refusal)[:60]}...", flush=True)
        return
    reader = UncertainEstimator(
        table.schema, method.parameters(), released.settings, released.tables
    )
    data = released.tables["data"]
    ranges = table.step * STEPS
    stds = [data[f"{column}_std"].to_numpy().mean() for column in table.names] / ranges
    print(f"{label} mean std of the noise, as a share of the range: {stds.mean():.3f}")
    for n_columns in (1, 2, len(table.names)):
        asked = boxes(table, n_columns, rng)
        truths = np.asarray([true for _, true in asked])
        answers = [reader.count(where) for where, _ in asked]
        held = np.mean([a.low <= t <= a.high for a, t in zip(answers, truths, strict=True)])
        error = np.mean(np.abs([a.value for a in answers] - truths))
        width = np.mean([a.high - a.low for a in answers])
        print(
            f"{label} {n_columns} columns: held {held:6.1%}, true {truths.mean():6.0f}, "
            f"error {error:6.1f}, width {width:6.0f}",
            flush=True,
        )


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name, make in DATA.items():
        points = make(np.random.default_rng(2008))[0]
        rows = np.random.default_rng(1).permutation(len(points))[:n]
        points = points[rows][:, points[rows].std(axis=0) > 0]
        for model in ("gaussian", "uniform"):
            for levels in ("exact", "safe"):
                measure(name, points, Uncertain(k=10, model=model, levels=levels, edges="wrap"))


if __name__ == "__main__":
    main()
