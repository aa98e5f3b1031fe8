"""Figures 1 to 3 of the RPS paper: one attribute, clusters, and classifiers trained on Adult.

Run by ``hushtable reproduce qardaji-2012``. Figure 3 needs Adult.

Figure 1: earth mover's distance between 10,000 normal points and the release. The paper prints the
formula of W2 and writes W1; this is W1. Figure 2: purity of the regions, for 10,000 points from
three Gaussians in five dimensions. Figure 3: naive Bayes and a decision tree, with 5-fold cross
validation, on the 30,162 complete training rows of Adult with the paper's 10 predictors. All
settings except "default" are the paper's, with the corrected mechanism: tests on every level,
counts of leaves only, and in figure 3 one random attribute per split and depth 50.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from hushtable.engine import connect
from hushtable.engine.engine import Engine
from hushtable.methods.partition.mondrian import BoxEstimator, Mondrian, box_tables
from hushtable.methods.partition.partition import Partition
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Categorical, Schema
from hushtable_papers.adult import adult
from hushtable_papers.data_sets import folder
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

N_POINTS = 10_000
N_FOLDS = 5
N_RUNS = setting(5, 2)
N_MEASURED = setting(N_FOLDS, 2)
MEANS = f"mean of {N_RUNS} runs, with one standard error"
Settings = dict[str, dict[str, Any]]
PAPER: dict[str, Any] = {"test_from": 0, "column_share": 0, "consistent": False}
"""Parameters shared by all settings of the paper: no one-way counts, no consistency fit."""


def release(method: Partition, engine: Engine) -> tuple[pa.Table, pa.Table]:
    """Publish, and return the synthetic rows and the tree."""
    released = method.run(engine, SecureNoise())
    settings = {"kind": method.estimator_kind, **released.settings}
    estimator = estimator_for(settings, engine.schema, method.parameters(), released.tables)
    return estimator.frame(), released.tables["tree"]


# --- figure 1 -------------------------------------------------------------------------------------

LINE = Schema.from_dict(
    {"name": "line", "columns": {
        "x": {"type": "integer", "low": -100, "high": 200, "outside": "clip"}}}
)  # fmt: skip


def w1(one: np.ndarray, two: np.ndarray) -> float:
    """Return W1: the area between two distribution functions, of samples of any sizes."""
    grid = np.arange(-100, 201)
    shares = [np.searchsorted(np.sort(x), grid, "right") / max(len(x), 1) for x in (one, two)]
    return float(np.abs(shares[0] - shares[1]).sum())


def distance(epsilon: str, seed: int, **parameters: Any) -> float:
    """Publish normal points, and return the distance of the release from them."""
    points = np.random.default_rng(seed).normal(50, 25, N_POINTS).round().astype(np.int64)
    engine = connect(pa.table({"x": points}), LINE, engine="memory")
    frame, _ = release(Partition(epsilon=epsilon, **parameters), engine)
    return w1(points, frame["x"].to_numpy())


def panel(
    title: str, settings: Settings, epsilons: tuple[str, ...], run: Callable[..., float]
) -> Panel:
    """Measure every setting for every epsilon."""
    curves = [
        Curve(
            name,
            [
                Point.of_runs(
                    float(epsilon), [run(epsilon, seed, **parameters) for seed in range(N_RUNS)]
                )
                for epsilon in epsilons
            ],
        )
        for name, parameters in settings.items()
    ]
    return Panel(title, curves)


def figure_1() -> Figure:
    def setting(depth: int, stop: int = 5) -> dict[str, Any]:
        return {**PAPER, "max_depth": depth, "stop_count": stop}

    epsilons = ("0.01", "0.05", "0.1", "0.5", "1", "5")
    depths: Settings = {f"depth {d}, stop at 5": setting(d) for d in (5, 10, 20, 50, 100)}
    stops: Settings = {f"depth 50, stop at {n}": setting(50, n) for n in (3, 10)}
    panels = [
        panel("(a) by depth", {**depths, "default": {}}, epsilons, distance),
        panel("(b) by stopping count", stops, epsilons, distance),
    ]
    again = panels[0]["depth 50, stop at 5"]
    panels[1] = Panel(panels[1].title, [*panels[1].curves, again])
    return Figure(
        "1", "Distance of one attribute to the original", "epsilon", "W1", MEANS, N_RUNS, panels,
        x_log=True, y_log=True,
    )  # fmt: skip


# --- figure 2 -------------------------------------------------------------------------------------

CUBE = Schema.from_dict(
    {"name": "cube", "columns": {
        f"x{i}": {"type": "integer", "low": 0, "high": 99, "outside": "clip"} for i in range(5)}}
)  # fmt: skip


def clusters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample points from three Gaussians with different centers and covariances."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, N_POINTS)
    points = np.empty((N_POINTS, 5))
    for cluster in range(3):
        spread = rng.normal(0, 6, (5, 5))
        here = label == cluster
        points[here] = rng.multivariate_normal(
            rng.uniform(30, 70, 5), spread @ spread.T, int(here.sum())
        )
    return np.clip(points.round(), 0, 99).astype(np.int64), label


def leaf_of(points: np.ndarray, tree: pa.Table) -> np.ndarray:
    """Return the leaf of each point in a tree of ordered columns."""
    node = np.zeros(len(points), np.int64)
    left = tree["left"].fill_null(-1).to_numpy()
    cut = tree["cut"].fill_null(0).to_numpy()
    column = np.array([int(c[1:]) if c else 0 for c in tree["column"].to_pylist()])
    while True:
        inner = np.flatnonzero(left[node] >= 0)
        if not len(inner):
            return node
        at = node[inner]
        node[inner] = left[at] + (points[inner, column[at]] >= cut[at])


def purity(epsilon: str, seed: int, **parameters: Any) -> float:
    """Publish points of three clusters, and return the purity of the regions."""
    points, label = clusters(seed)
    table = pa.table({f"x{i}": points[:, i] for i in range(5)})
    engine = connect(table, CUBE, engine="memory")
    _, tree = release(Partition(epsilon=epsilon, **parameters), engine)
    leaf = leaf_of(points, tree)
    members = np.zeros((leaf.max() + 1, 3), np.int64)
    np.add.at(members, (leaf, label), 1)
    return float(members.max(axis=1).sum() / N_POINTS)


def figure_2() -> Figure:
    def setting(depth: int, stop: int = 5, split: str = "median") -> dict[str, Any]:
        return {**PAPER, "max_depth": depth, "stop_count": stop, "split": split}

    epsilons = ("0.05", "0.1", "0.5", "1", "5")
    depths: Settings = {f"depth {d}, stop at 5": setting(d) for d in (5, 10, 20, 50)}
    stops: Settings = {f"depth 10, stop at {n}": setting(10, n) for n in (1, 3, 10)}
    middle: Settings = {
        f"depth {d}, stop at 5, midpoint": setting(d, split="midpoint") for d in (10, 20)
    }
    parts = [
        panel("(a) by depth", {**depths, "default": {}}, epsilons, purity),
        panel("(b) by stopping count", stops, epsilons, purity),
        panel("(c) median and midpoint", middle, epsilons, purity),
    ]
    ten, twenty = (parts[0][f"depth {d}, stop at 5"] for d in (10, 20))
    parts[1] = Panel(parts[1].title, [*parts[1].curves, ten])
    parts[2] = Panel(parts[2].title, [*parts[2].curves, ten, twenty])
    return Figure(
        "2", "Purity of regions, three clusters in five dimensions", "epsilon",
        "share in the majority", MEANS, N_RUNS, parts, x_log=True,
    )  # fmt: skip


# --- figure 3 -------------------------------------------------------------------------------------

PREDICTORS = [
    "age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "hours-per-week", "native-country",
]  # fmt: skip


@cache
def adult_rows() -> tuple[pa.Table, Schema]:
    """Load the 30,162 complete training rows, 10 predictors and the class."""
    _, schema = adult(folder())
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(folder() / "adult" / "adult_all.csv.gz", convert_options=options)
    table = table.drop_null()
    table = table.filter(pa.compute.equal(table["split"], "train"))
    columns = schema.to_dict()["columns"]
    kept = [*PREDICTORS, "income"]
    return table.select(kept), Schema.from_dict(
        {"name": "Adult", "columns": {name: columns[name] for name in kept}}
    )


def codes_of(table: pa.Table, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Encode predictors and class."""
    found = []
    for name, column in schema.attributes.items():
        values = table[name].to_pylist()
        if isinstance(column, Categorical):
            code = {value: at for at, value in enumerate(column.values)}
            found.append([code[value] for value in values])
        else:
            found.append([value - column.low for value in values])  # type: ignore[union-attr]
    codes = np.array(found, np.int64).T
    return codes[:, :-1], codes[:, -1]


def accuracies(train: pa.Table, test: pa.Table, schema: Schema) -> tuple[float, float]:
    """Train naive Bayes and a tree (instead of C4.5), and return the accuracies on test rows."""
    (x, y), (x_test, y_test) = codes_of(train, schema), codes_of(test, schema)
    if len(set(y.tolist())) < 2:
        same = float(np.mean(y_test == (y[0] if len(y) else 0)))
        return same, same
    sizes = [schema.attributes[name].size for name in PREDICTORS]
    bayes = CategoricalNB(min_categories=sizes).fit(x, y)
    tree = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=50, random_state=0)
    return (
        float(np.mean(bayes.predict(x_test) == y_test)),
        float(np.mean(tree.fit(x, y).predict(x_test) == y_test)),
    )


Publish = Callable[[Engine], pa.Table]


def by_partition(**parameters: Any) -> Publish:
    return lambda engine: release(Partition(**parameters), engine)[0]


def by_mondrian(**parameters: Any) -> Publish:
    def publish(engine: Engine) -> pa.Table:
        method = Mondrian(**parameters)
        tables = box_tables(engine.schema, method.groups(engine))
        return BoxEstimator(engine.schema, method.parameters(), {}, tables).frame()

    return publish


def adult_accuracy(publish: Publish | None, folds: int = N_MEASURED) -> np.ndarray:
    """Return both accuracies in percent, a row for each fold; None trains on raw rows."""
    table, schema = adult_rows()
    order, found = np.random.default_rng(0).permutation(len(table)), []
    for fold in np.array_split(order, N_FOLDS)[:folds]:
        train, test = table.take(np.setdiff1d(order, fold)), table.take(fold)
        made = train
        if publish is not None:
            made = publish(connect(train, schema, engine="memory"))
        found.append(accuracies(made, test, schema))
    return 100 * np.array(found)


def figure_3() -> Figure:
    table, schema = adult_rows()
    _, y = codes_of(table, schema)
    fixed = {
        "original": adult_accuracy(None),
        "Mondrian k = 10": adult_accuracy(by_mondrian(k=10, relaxed=False, by_class=False)),
        "majority": np.full((N_MEASURED, 2), 100 * np.mean(y == 0)),
    }
    deep = {**PAPER, "split": "random-attribute", "max_depth": 50}
    settings: Settings = {
        "RPS as it is by default": {},
        "RPS, depth 50, stop at 5": {**deep, "stop_count": 5},
        "RPS, depth 50, stop at 0": {**deep, "stop_count": 0},
    }
    epsilons = ("0.05", "0.1", "0.5", "1", "2")
    found = {
        name: [adult_accuracy(by_partition(epsilon=e, **parameters)) for e in epsilons]
        for name, parameters in settings.items()
    }
    panels = [
        Panel(
            title,
            [
                Curve(
                    name,
                    [
                        Point.of_runs(float(e), runs[:, column])
                        for e, runs in zip(epsilons, points, strict=True)
                    ],
                )
                for name, points in found.items()
            ],
            {name: float(runs[:, column].mean()) for name, runs in fixed.items()},
        )
        for column, title in enumerate(("(a) naive Bayes", "(b) decision tree"))
    ]
    return Figure(
        "3", "Classifiers that learn from a release of Adult", "epsilon", "accuracy in percent",
        f"mean of {N_MEASURED} folds, with one standard error", N_MEASURED, panels,
        x_log=True,
    )  # fmt: skip


DATA_OF_FIGURES = {"3": "adult"}
FIGURES = {"1": figure_1, "2": figure_2, "3": figure_3}
