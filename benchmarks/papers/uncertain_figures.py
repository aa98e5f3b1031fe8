"""Figures 1 to 8 of paper 002: query error and classification accuracy, by query size and by k.

Run ``python -m benchmarks.papers.uncertain_figures [quick]``. Query error is |S - S'| / S in
percent, averaged over random boxes whose true count S lies in a band (equation 22). Settings:

- ``exact``: the paper's own (a noise level per record, k in expectation), answered by (21);
- ``safe``: levels with cover, eta = 0.05, joined ends, answered by (21) and with the correction;
- condensation, answered by counting its pseudo-records.

As in the paper the data is scaled to unit variance and the ranges are those of the data; a release
would take both from the schema.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from hushtable.domain import Domain
from hushtable.engine.base import Cells
from hushtable.estimate.uncertain import UncertainEstimator
from hushtable.learn import UncertainNeighbors
from hushtable.methods.baselines.condensation import Condensation
from hushtable.methods.uncertain import Uncertain
from hushtable.privacy.noise import SecureNoise
from hushtable.schema import Schema

Floats = NDArray[np.float64]
BANDS = ((51, 100), (101, 200), (201, 300), (301, 400))
KS = (10, 20, 50, 100)
N_QUERIES = 100
STEPS = 1000  # grid points per column
LABELS = "label"


def u10k(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """10,000 records, evenly in five columns."""
    return rng.random((10_000, 5)), None


def g20(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """Twenty Gaussian clusters and 1 % outliers, with a label that follows the cluster by 90 %."""
    centers, radii = rng.random((20, 5)), rng.random((20, 5)) * 0.5
    sizes = rng.uniform(0.5, 1, 20)
    cluster = rng.choice(20, 9900, p=sizes / sizes.sum())
    points = centers[cluster] + rng.normal(size=(9900, 5)) * radii[cluster]
    labels = rng.integers(0, 2, 20)[cluster] ^ (rng.random(9900) > 0.9)
    outliers = rng.random((100, 5))
    return np.concatenate((points, outliers)), np.append(labels, rng.integers(0, 2, 100))


def adult(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """The six numeric columns of Adult, and whether the income is above 50K."""
    shared = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("HUSHTABLE_DATA", shared)) / "adult" / "adult_all.csv.gz"
    table = pa_csv.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())))
    names = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    points = np.stack([table[name].to_numpy() for name in names], axis=1).astype(np.float64)
    rows = rng.permutation(len(points))[:10_000]  # the size of the other sets
    return points[rows], (np.asarray(table["income"].to_pylist()) == ">50K").astype(int)[rows]


DATA = {"U10K": u10k, "G20.D10K": g20, "Adult": adult}


class Table:
    """Records on a grid with their schema; answers the one question the methods ask."""

    def __init__(self, points: Floats, labels: NDArray[np.int64] | None) -> None:
        points = points / points.std(axis=0)
        self.low = np.floor(points.min(axis=0) * 100) / 100
        self.step = np.ceil((points.max(axis=0) - self.low) / STEPS * 1e4) / 1e4
        self.codes = np.rint((points - self.low) / self.step).astype(np.int64)
        columns: dict[str, Any] = {
            f"x{i}": {"type": "number", "low": round(float(low), 2), "step": float(step),
                      "high": float(np.round(low + STEPS * step, 6))}
            for i, (low, step) in enumerate(zip(self.low, self.step, strict=True))
        }  # fmt: skip
        if labels is not None:
            columns[LABELS] = {"type": "categorical", "values": ["0", "1"], "role": "target"}
            self.codes = np.column_stack((self.codes, labels))
        self.schema = Schema.from_dict({"name": "figures", "columns": columns})
        self.names = [name for name in columns if name != LABELS]
        self.values = self.low + self.codes[:, : len(self.names)] * self.step

    def counts(self, columns: Any, *, recode: Any = None) -> Cells:
        places = [list(self.schema.attributes).index(name) for name in columns]
        codes, counts = np.unique(self.codes[:, places], axis=0, return_counts=True)
        return Cells(Domain(dict.fromkeys(columns, 1)), codes, counts)


def boxes(table: Table, rng: np.random.Generator, band: tuple[int, int], n: int) -> Iterator[Any]:
    """Draw boxes until n of them hold a number of records in the band.

    The ends of a range are two records' values, so that skewed columns get queries too.
    """
    columns = np.arange(table.values.shape[1])
    while n:
        ends = np.sort(
            table.values[rng.integers(0, len(table.values), (2, len(columns))), columns], axis=0
        )
        inside = np.all(
            (table.values >= ends[0] - 1e-9) & (table.values <= ends[1] + 1e-9), axis=1
        ).sum()
        if band[0] <= inside <= band[1]:
            n -= 1
            yield ends, int(inside)


def clause(table: Table, ends: Floats) -> str:
    return " AND ".join(
        f"{name} BETWEEN {ends[0, i] - 1e-6:.7f} AND {ends[1, i] + 1e-6:.7f}"
        for i, name in enumerate(table.names)
    )


def settings(table: Table, k: int, *, carry: bool) -> dict[str, Any]:
    """Name the methods that are compared."""
    same: dict[str, Any] = {
        "k": k,
        "scales": dict.fromkeys(table.names, 1.0),
        "carry": [LABELS] if carry else [],
    }
    return {
        "gaussian exact": Uncertain(model="gaussian", levels="exact", **same),
        "uniform exact": Uncertain(levels="exact", **same),
        "gaussian safe": Uncertain(model="gaussian", **same),
        "uniform safe": Uncertain(**same),
        "condensation": Condensation(**same),
    }


def query_errors(name: str, k: int, bands: Any, n: int, which: list[str]) -> None:
    rng = np.random.default_rng(2008)
    table = Table(DATA[name](rng)[0], None)
    asked = {band: list(boxes(table, rng, band, n)) for band in bands}
    for label, method in settings(table, k, carry=False).items():
        if label not in which:
            continue
        started = time.perf_counter()
        released = method.run(table, SecureNoise())
        seconds = time.perf_counter() - started
        reader = UncertainEstimator(
            table.schema, method.parameters(), released.estimator, released.tables
        )
        for rule in ("spread", "corrected") if label != "condensation" else ("spread",):
            errors = [
                np.mean([100 * abs(reader.count_by(clause(table, ends), rule) - true) / true
                         for ends, true in asked[band]])
                for band in bands
            ]  # fmt: skip
            shown = " ".join(f"{error:7.1f}" for error in errors)
            print(f"{name:9} k={k:<4} {label:15} {rule:10} {shown}   ({seconds:.1f} s)", flush=True)


def accuracies(name: str, k: int, which: list[str]) -> None:
    rng = np.random.default_rng(2008)
    points, labels = DATA[name](rng)
    assert labels is not None
    test = rng.random(len(points)) < 0.2
    table = Table(points, labels)
    train, tests, truth = table.codes[~test], table.values[test], labels[test]
    plain = KNeighborsClassifier(10).fit(table.values[~test], labels[~test])
    print(f"{name:9} exact nearest neighbors {plain.score(tests, truth):.3f}")
    table.codes = train
    for label, method in settings(table, k, carry=True).items():
        if label not in which:
            continue
        released = method.run(table, SecureNoise())
        data = released.tables["data"]
        z = np.stack([data[column].to_numpy() for column in table.names], axis=1)
        y = np.asarray(data[LABELS].to_pylist()).astype(int)
        if label == "condensation":
            learner: Any = KNeighborsClassifier(10).fit(z, y)
        else:
            std = np.stack([data[f"{column}_std"].to_numpy() for column in table.names], axis=1)
            period = table.step * (STEPS + 1) if "safe" in label else None
            learner = UncertainNeighbors(q=10, model=label.split()[0], period=period).fit(z, y, std)
        print(
            f"{name:9} k={k:<4} {label:15} accuracy {learner.score(tests, truth):.3f}", flush=True
        )


def main() -> None:
    quick = "quick" in sys.argv
    n = 40 if quick else N_QUERIES
    which = ["gaussian exact", "uniform exact", "condensation"]
    every = [*which, "gaussian safe", "uniform safe"]
    names = [name for name in DATA if name in sys.argv] or list(DATA)
    print("query error in percent; bands " + ", ".join(f"{a}-{b}" for a, b in BANDS))
    for name in names:  # figures 1, 3, 5
        query_errors(name, 10, BANDS, n, which if quick else every)
    print("query error in percent by k; band 101-200")
    for name in names:  # figures 2, 4, 6
        for k in KS[1:]:
            query_errors(name, k, BANDS[1:2], n, which if quick else every)
    for name in [name for name in names if name != "U10K"]:  # figures 7, 8
        for k in KS:
            accuracies(name, k, which if quick else every)


if __name__ == "__main__":
    main()
