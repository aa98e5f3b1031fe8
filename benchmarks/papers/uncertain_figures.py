"""Figures 1 to 8 of paper 002: query error and classification accuracy, by query size and by k.

Run ``python -m benchmarks.papers.uncertain_figures [quick] [data ...]``; numbers and drawing go to
``benchmarks/results``. Query error is |S - S'| / S in
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
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from hushtable.domain import Domain
from hushtable.engine.cells import Cells
from hushtable.errors import Refused
from hushtable.learn import UncertainNeighbors
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise import SecureNoise
from hushtable.schema import Schema

Floats = NDArray[np.float64]
BANDS = ((51, 100), (101, 200), (201, 300), (301, 400))
KS = (10, 20, 50, 100)
N_QUERIES = 100
STEPS = 1000  # grid points per column
LABELS = "label"
BAND_OF_K = "101-200"
EXACT_NEIGHBORS = "nearest neighbors in the private records"
RESULTS = Path(__file__).parents[1] / "results"
Row = dict[str, Any]


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
            f"x{i}": {
                "type": "number",
                "low": round(float(low), 2),
                "step": float(step),
                "high": float(np.round(low + STEPS * step, 6)),
            }
            for i, (low, step) in enumerate(zip(self.low, self.step, strict=True))
        }
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
        "uniform safe": Uncertain(edges="wrap", **same),
        "regions": Uncertain(**same),
        "condensation": Condensation(**same),
    }


def query_errors(name: str, k: int, bands: Any, n: int) -> Iterator[Row]:
    """Ask random boxes of every method's release: mean error in percent, per band."""
    rng = np.random.default_rng(2008)
    table = Table(DATA[name](rng)[0], None)
    asked = {band: list(boxes(table, rng, band, n)) for band in bands}
    for label, method in settings(table, k, carry=False).items():
        started = time.perf_counter()
        try:
            released = method.run(table, SecureNoise())
        except Refused as refusal:
            yield {"data": name, "k": k, "method": label, "refused": str(refusal)}
            continue
        seconds = round(time.perf_counter() - started, 1)
        reader = UncertainEstimator(
            table.schema, method.parameters(), released.settings, released.tables
        )
        for rule in ("spread", "corrected") if label != "condensation" else ("spread",):
            errors = {
                f"{band[0]}-{band[1]}": float(
                    np.mean(
                        [
                            100 * abs(reader.count_by(clause(table, ends), rule) - true) / true
                            for ends, true in asked[band]
                        ]
                    )
                )
                for band in bands
            }
            yield {
                "data": name,
                "k": k,
                "method": label,
                "rule": rule,
                "percent": errors,
                "seconds": seconds,
            }


def accuracies(name: str, k: int) -> Iterator[Row]:
    """Learn from every method's release, test on records that were not in it."""
    rng = np.random.default_rng(2008)
    points, labels = DATA[name](rng)
    assert labels is not None
    test = rng.random(len(points)) < 0.2
    table = Table(points, labels)
    train, tests, truth = table.codes[~test], table.values[test], labels[test]
    plain = KNeighborsClassifier(10).fit(table.values[~test], labels[~test])
    yield {"data": name, "k": k, "method": EXACT_NEIGHBORS, "accuracy": plain.score(tests, truth)}
    table.codes = train
    for label, method in settings(table, k, carry=True).items():
        try:
            released = method.run(table, SecureNoise())
        except Refused as refusal:
            yield {"data": name, "k": k, "method": label, "refused": str(refusal)}
            continue
        data = released.tables["data"]
        z = np.stack([data[column].to_numpy() for column in table.names], axis=1)
        y = np.asarray(data[LABELS].to_pylist()).astype(int)
        if label == "condensation":
            learner: Any = KNeighborsClassifier(10).fit(z, y)
        else:
            std = np.stack([data[f"{column}_std"].to_numpy() for column in table.names], axis=1)
            period = table.step * (STEPS + 1) if "safe" in label else None
            learner = UncertainNeighbors(q=10, model=label.split()[0], period=period).fit(z, y, std)
        started = time.perf_counter()
        accuracy = learner.score(tests, truth)
        seconds = round(time.perf_counter() - started, 2)
        yield {"data": name, "k": k, "method": label, "accuracy": accuracy, "seconds": seconds}


def draw(rows: list[Row], path: Path) -> None:
    """Draw the eight figures: error by band, error by k, accuracy by k; a row per data set."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(
        len(names), 3, figsize=(13, 3.6 * len(names)), squeeze=False, layout="constrained"
    )
    for line, name in enumerate(names):
        kept = [row for row in rows if row["data"] == name and "refused" not in row]
        by_band, by_k, by_accuracy = axes[line]
        for label in dict.fromkeys(row["method"] for row in kept):
            own = [row for row in kept if row["method"] == label]
            asked = [row for row in own if row.get("rule") == "spread"]
            for row in asked:
                if row["k"] == KS[0]:
                    by_band.plot(
                        list(row["percent"]), list(row["percent"].values()), "o-", label=label
                    )
            if asked:
                by_k.plot(
                    [row["k"] for row in asked],
                    [row["percent"][BAND_OF_K] for row in asked],
                    "o-",
                    label=label,
                )
            scored = [row for row in own if "accuracy" in row]
            if scored:
                by_accuracy.plot(
                    [row["k"] for row in scored],
                    [row["accuracy"] for row in scored],
                    "o-",
                    label=label,
                )
        by_band.set(title=f"{name}: query error, k = {KS[0]}", xlabel="true count", ylabel="%")
        by_k.set(title=f"{name}: query error, count {BAND_OF_K}", xlabel="k", ylabel="%")
        by_accuracy.set(title=f"{name}: accuracy", xlabel="k")
        for ax in (by_band, by_accuracy):
            if ax.lines:
                ax.legend(fontsize=7)
    figure.savefig(path)


def main() -> None:
    quick = "quick" in sys.argv
    n, ks = (40, KS[:2]) if quick else (N_QUERIES, KS)
    names = [name for name in DATA if name in sys.argv] or list(DATA)
    rows: list[Row] = []
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        for k in ks:
            # Figures 1 to 6, then 7 and 8 for the data sets that have labels.
            found = list(query_errors(name, k, BANDS if k == KS[0] else BANDS[1:2], n))
            found += [] if name == "U10K" else list(accuracies(name, k))
            for row in found:
                print(json.dumps(row), flush=True)
            rows += found
            (RESULTS / "uncertain_figures.json").write_text(json.dumps(rows, indent=1))
    draw(rows, RESULTS / "uncertain_figures.svg")


if __name__ == "__main__":
    main()
