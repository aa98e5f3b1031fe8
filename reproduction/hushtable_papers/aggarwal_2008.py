"""Figures 1 to 8 of Aggarwal (2008): query error and accuracy, by query size and by k.

Run by ``hushtable reproduce aggarwal-2008``. Query error is |S - S'| / S in percent,
averaged over random boxes whose true count S is in a band (equation 22). Settings:

- ``exact``: the paper's (a noise level per record, k in expectation), answered by (21);
- ``safe``: shared levels with cover, eta = 0.05, uniform noise, joined ends, answered with the
  correction. The search for levels takes most of the time, so `SAFE` lists the values of k and the
  number of seeds, and no classifier is trained on these releases;
- ``regions``: the default, uniform noise over a region of k records;
- condensation, answered by counting its pseudo-records.

Each seed has its own data (generated, or different rows of Adult), its own boxes or division, and
one release of each method. Error bars are standard errors over seeds. As in the paper, the data are
scaled to unit variance and the ranges are those of the data; a release must take both from the
schema.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from hushtable.domain import Domain
from hushtable.engine.cells import OccupiedCells
from hushtable.errors import Refused
from hushtable.learn import UncertainNeighbors
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from hushtable_papers.data_sets import folder
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

Floats = NDArray[np.float64]
BANDS = ((51, 100), (101, 200), (201, 300), (301, 400))
KS = setting((10, 30, 100), (10, 100))
N_QUERIES = 100
STEPS = 1000  # grid points per column
LABELS = "label"
ENDS = ("from", "to")
BAND_OF_K = (101, 200)
RAW, MAJORITY = "raw records", "majority"
# Of data, boxes and divisions; noise is not seeded.
SEEDS: tuple[int, ...] = setting((2008, 2009, 2010), (2008,))
SAFE: dict[str, dict[int, int]] = setting(
    {"U10K": {10: 3, 100: 1}, "G20.D10K": {10: 3, 100: 1}, "Adult": {10: 2, 100: 1}},
    {"U10K": {}, "G20.D10K": {}, "Adult": {}},
)
OF_BOXES = f"mean of {len(SEEDS)} sets with {N_QUERIES} boxes each, with one standard error"
OF_TESTS = f"mean of {len(SEEDS)} divisions of 2,000 tests each, with one standard error"
Band = tuple[int, int]


def u10k(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """Generate 10,000 records, uniform in five columns."""
    return rng.random((10_000, 5)), None


def g20(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """Generate twenty Gaussian clusters and 1% outliers; 90% of the labels follow the cluster."""
    centers, radii = rng.random((20, 5)), rng.random((20, 5)) * 0.5
    sizes = rng.uniform(0.5, 1, 20)
    cluster = rng.choice(20, 9900, p=sizes / sizes.sum())
    points = centers[cluster] + rng.normal(size=(9900, 5)) * radii[cluster]
    labels = rng.integers(0, 2, 20)[cluster] ^ (rng.random(9900) > 0.9)
    outliers = rng.random((100, 5))
    return np.concatenate((points, outliers)), np.append(labels, rng.integers(0, 2, 100))


def adult(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """Read the six numeric columns of Adult, and whether the income is above 50K."""
    path = folder() / "adult" / "adult_all.csv.gz"
    table = pa_csv.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())))
    names = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    points = np.stack([table[name].to_numpy() for name in names], axis=1).astype(np.float64)
    rows = rng.permutation(len(points))[:10_000]  # the size of the other data sets
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

    def counts(self, columns: Any, *, recode: Any = None) -> OccupiedCells:
        places = [list(self.schema.attributes).index(name) for name in columns]
        codes, counts = np.unique(self.codes[:, places], axis=0, return_counts=True)
        sizes = (codes.max(axis=0, initial=0) + 1).tolist()
        domain = Domain(dict(zip(columns, sizes, strict=True)))
        return OccupiedCells(domain, domain.pack(codes), counts)


def boxes(table: Table, rng: np.random.Generator, band: tuple[int, int], n: int) -> Iterator[Any]:
    """Yield n random boxes that contain a number of records in the band, with this number.

    The ends of a range are two records' values, so that skewed columns get queries, too.
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
    """Return the methods to compare, by label."""
    same: dict[str, Any] = {
        "k": k,
        "scales": dict.fromkeys(table.names, 1.0),
        "carry": [LABELS] if carry else [],
    }
    return {
        "gaussian exact": Uncertain(model="gaussian", levels="exact", **same),
        "uniform exact": Uncertain(levels="exact", **same),
        "uniform safe": Uncertain(edges="wrap", **same),
        "regions": Uncertain(**same),
        "condensation": Condensation(**same),
    }


def tried(label: str, name: str, k: int, seed: int, *, carry: bool) -> bool:
    """Return whether a setting is measured on a data set for this k and seed."""
    return "safe" not in label or (seed in SEEDS[: SAFE[name].get(k, 0)] and not carry)


@cache
def query_errors(name: str, k: int, seed: int) -> dict[str, dict[Band, float]]:
    """Return the mean query error of every method in percent, for each band of counts."""
    rng = np.random.default_rng(seed)
    table = Table(DATA[name](rng)[0], None)
    bands = BANDS if k == KS[0] else (BAND_OF_K,)
    asked = {band: list(boxes(table, rng, band, N_QUERIES)) for band in bands}
    return {
        label: box_errors(table, label, method, asked)
        for label, method in settings(table, k, carry=False).items()
        if tried(label, name, k, seed, carry=False)
    }


def box_errors(
    table: Table, label: str, method: Any, asked: dict[Band, list[Any]]
) -> dict[Band, float]:
    """Publish once, and return the mean query errors by band; empty if the method refuses."""
    try:
        released = method.run(table, SecureNoise())
    except Refused as refusal:
        print(f"{label}, k = {method.k}: refused. {refusal}", flush=True)
        return {}
    reader = UncertainEstimator(
        table.schema, method.parameters(), released.settings, released.tables
    )
    return {
        band: float(
            np.mean(
                [
                    100 * abs(reader.count(clause(table, ends)).value - true) / true
                    for ends, true in questions
                ]
            )
        )
        for band, questions in asked.items()
    }


@cache
def accuracies(name: str, k: int, seed: int, only: str = "") -> dict[str, float]:
    """Return test accuracies in percent, of classifiers trained on every method's release.

    `only` selects one method. The majority class and raw data are included.
    """
    rng = np.random.default_rng(seed)
    points, labels = DATA[name](rng)
    assert labels is not None
    test = rng.random(len(points)) < 0.2
    table = Table(points, labels)
    tests, truth = table.values[test], labels[test]
    plain = KNeighborsClassifier(10).fit(table.values[~test], labels[~test])
    learners = {RAW: plain}
    table.codes = table.codes[~test]
    for label, method in settings(table, k, carry=True).items():
        if only not in ("", label) or not tried(label, name, k, seed, carry=True):
            continue
        if (learner := learned(table, label, method)) is not None:
            learners[label] = learner
    found = {label: learner.predict(tests) == truth for label, learner in learners.items()}
    found[MAJORITY] = truth == np.bincount(labels[~test]).argmax()
    return {label: float(100 * np.mean(right)) for label, right in found.items()}


def learned(table: Table, label: str, method: Any) -> Any:
    """Publish once, and return a classifier trained on the release; None if the method refuses."""
    try:
        released = method.run(table, SecureNoise())
    except Refused as refusal:
        print(f"{label}, k = {method.k}: refused. {refusal}", flush=True)
        return None
    data = released.tables["data"]
    z = np.stack([data[column].to_numpy() for column in table.names], axis=1)
    y = np.asarray(data[LABELS].to_pylist()).astype(int)
    if label == "condensation":
        return KNeighborsClassifier(10).fit(z, y)
    std = np.stack([data[f"{column}_std"].to_numpy() for column in table.names], axis=1)
    if label == "regions":  # a record may be anywhere in its region
        ends = [[data[f"{column}_{end}"].to_numpy() for column in table.names] for end in ENDS]
        z = np.mean(ends, axis=0).T
    model = "gaussian" if label.startswith("gaussian") else "uniform"
    return UncertainNeighbors(q=10, model=model).fit(z, y, std)


def gathered(found: Iterable[tuple[str, float, float]]) -> list[Curve]:
    """Return a curve for each label, with means over seeds."""
    runs: dict[str, dict[float, list[float]]] = {}
    for label, place, value in found:
        runs.setdefault(label, {}).setdefault(place, []).append(value)
    return [
        Curve(label, [Point.of_runs(place, values) for place, values in places.items()])
        for label, places in runs.items()
    ]


def by_size(number: str, name: str) -> Figure:
    """Return figure 1, 3 or 5: the error by query size at the smallest k."""
    curves = gathered(
        (label, sum(band) / 2, error)
        for seed in SEEDS
        for label, bands in query_errors(name, KS[0], seed).items()
        for band, error in bands.items()
    )
    return Figure(
        number, f"Error by size of the query, {name}, k = {KS[0]}",
        "true count, middle of its band", "error in percent", OF_BOXES, len(SEEDS),
        [Panel(f"{name}, k = {KS[0]}", curves)], y_log=True,
    )  # fmt: skip


def by_k(number: str, name: str) -> Figure:
    """Return figure 2, 4 or 6: the error of queries of 101 to 200 records by k."""
    curves = gathered(
        (label, k, bands[BAND_OF_K])
        for k in KS
        for seed in SEEDS
        for label, bands in query_errors(name, k, seed).items()
        if bands
    )
    return Figure(
        number, f"Error by k, {name}, 101 to 200 records", "k", "error in percent", OF_BOXES,
        len(SEEDS),
        [Panel(f"{name}, 101 to 200 records", curves)], x_log=True, y_log=True,
    )  # fmt: skip


def by_accuracy(number: str, name: str) -> Figure:
    """Return figure 7 or 8: accuracy of nearest neighbors by k."""
    curves = gathered(
        (label, k, percent)
        for k in KS
        for seed in SEEDS
        for label, percent in accuracies(name, k, seed).items()
    )
    levels = {curve.name: curve.points[0].y for curve in curves if curve.name in (RAW, MAJORITY)}
    curves = [curve for curve in curves if curve.name not in levels]
    return Figure(
        number, f"Accuracy of nearest neighbors, {name}", "k", "accuracy in percent", OF_TESTS,
        len(SEEDS),
        [Panel(name, curves, levels)], x_log=True,
    )  # fmt: skip


DATA_OF_FIGURES = dict.fromkeys(("5", "6", "8"), "adult")
FIGURES: dict[str, Callable[[], Figure]] = {
    "1": partial(by_size, "1", "U10K"),
    "2": partial(by_k, "2", "U10K"),
    "3": partial(by_size, "3", "G20.D10K"),
    "4": partial(by_k, "4", "G20.D10K"),
    "5": partial(by_size, "5", "Adult"),
    "6": partial(by_k, "6", "Adult"),
    "7": partial(by_accuracy, "7", "G20.D10K"),
    "8": partial(by_accuracy, "8", "Adult"),
}
