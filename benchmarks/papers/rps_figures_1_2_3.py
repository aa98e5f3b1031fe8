"""Figures 1 to 3 of the RPS paper: one attribute, clusters, and classifiers that learn from Adult.

Run as ``python benchmarks/papers/rps_figures_1_2_3.py [--figure 1 2 3] [--runs 5]``. Figure 3 needs
Adult under ``$HUSHTABLE_DATA`` or ``../shared/data``. Writes JSON files and plots to
``benchmarks/results``; every number is a mean over runs with its standard error.

Figure 1: earth mover's distance between 10,000 normal points and the release. The paper prints the
formula of W2 and speaks of W1; this is W1. Figure 2: how pure the regions are, of 10,000 points
from three Gaussians in five dimensions. Figure 3: naive Bayes and a decision tree, 5-fold, on the
30,162 complete training rows of Adult with the paper's 10 predictors. "paper" is its setting (one
random attribute per split, tests on every level, depth 50) with the repaired mechanism.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from hushtable.datasets import adult
from hushtable.engine import connect
from hushtable.engine.base import Engine
from hushtable.methods.partition.estimator import draw_rows
from hushtable.methods.partition.mondrian import Mondrian
from hushtable.methods.partition.partition import Partition
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise import SecureNoise
from hushtable.schema import Categorical, Schema

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HUSHTABLE_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "benchmarks" / "results"
N_POINTS = 10_000
N_FOLDS = 5
Curves = dict[str, dict[str, tuple[float, float]]]
"""Name of a curve, epsilon, mean and standard error."""


def mean(values: Iterable[float]) -> tuple[float, float]:
    found = np.asarray(list(values))
    return float(found.mean()), float(
        found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0
    )


def release(method: Partition, engine: Engine) -> tuple[pa.Table, pa.Table]:
    """Publish; give the made rows and the tree."""
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
    """Give the area between the distribution functions, which works for unequal sizes."""
    grid = np.arange(-100, 201)
    shares = [np.searchsorted(np.sort(x), grid, "right") / max(len(x), 1) for x in (one, two)]
    return float(np.abs(shares[0] - shares[1]).sum())


def figure_1(runs: int) -> Curves:
    def run(epsilon: str, seed: int, **parameters: Any) -> float:
        points = np.random.default_rng(seed).normal(50, 25, N_POINTS).round().astype(np.int64)
        engine = connect(pa.table({"x": points}), LINE, engine="memory")
        frame, _ = release(Partition(epsilon=epsilon, **parameters), engine)
        return w1(points, frame["x"].to_numpy())

    settings: dict[str, dict[str, Any]] = {
        f"depth {depth}": {"max_depth": depth, "stop_count": 5, "test_from": 0}
        for depth in (5, 10, 20, 50, 100)
    }
    settings |= {
        f"depth 50, stop at {stop}": {"max_depth": 50, "stop_count": stop, "test_from": 0}
        for stop in (3, 10)
    }
    settings["default"] = {}
    return {
        name: {
            epsilon: mean(run(epsilon, seed, **parameters) for seed in range(runs))
            for epsilon in ("0.01", "0.05", "0.1", "0.5", "1", "5")
        }
        for name, parameters in settings.items()
    }


# --- figure 2 -------------------------------------------------------------------------------------

CUBE = Schema.from_dict(
    {"name": "cube", "columns": {
        f"x{i}": {"type": "integer", "low": 0, "high": 99, "outside": "clip"} for i in range(5)}}
)  # fmt: skip


def clusters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points of three Gaussians with their own centers and covariances."""
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
    """Walk points down a tree of ordered columns."""
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


def figure_2(runs: int) -> Curves:
    def run(epsilon: str, seed: int, **parameters: Any) -> float:
        points, label = clusters(seed)
        table = pa.table({f"x{i}": points[:, i] for i in range(5)})
        engine = connect(table, CUBE, engine="memory")
        _, tree = release(Partition(epsilon=epsilon, **parameters), engine)
        leaf = leaf_of(points, tree)
        members = np.zeros((leaf.max() + 1, 3), np.int64)
        np.add.at(members, (leaf, label), 1)
        return float(members.max(axis=1).sum() / N_POINTS)

    def setting(depth: int, stop: int = 5, split: str = "median") -> dict[str, Any]:
        return {"max_depth": depth, "stop_count": stop, "test_from": 0, "split": split}

    settings: dict[str, dict[str, Any]] = {f"depth {d}": setting(d) for d in (5, 10, 20, 50)}
    settings |= {f"depth 10, stop at {s}": setting(10, stop=s) for s in (1, 3, 10)}
    settings |= {f"depth {d}, midpoint": setting(d, split="midpoint") for d in (10, 20)}
    settings["default"] = {}
    return {
        name: {
            epsilon: mean(run(epsilon, seed, **parameters) for seed in range(runs))
            for epsilon in ("0.05", "0.1", "0.5", "1", "5")
        }
        for name, parameters in settings.items()
    }


# --- figure 3 -------------------------------------------------------------------------------------

PREDICTORS = [
    "age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "hours-per-week", "native-country",
]  # fmt: skip


@cache
def adult_rows() -> tuple[pa.Table, Schema]:
    """Load the 30,162 complete training rows, 10 predictors and the class."""
    _, schema = adult(DATA)
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(DATA / "adult" / "adult_all.csv.gz", convert_options=options)
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
    """Learn from rows by naive Bayes and by a tree in the place of C4.5; try on others."""
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
        found = Mondrian(**parameters).groups(engine)
        return draw_rows(
            engine.schema, found.axes, found.first, found.last,
            counts=found.counts, target=found.target, summarize="sample",
        )  # fmt: skip

    return publish


def adult_accuracy(publish: Publish | None, runs: int) -> dict[str, tuple[float, float]]:
    """Give both accuracies in percent; None learns from the rows themselves."""
    table, schema = adult_rows()
    found = []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(table))
        for fold in np.array_split(order, N_FOLDS):
            train, test = table.take(np.setdiff1d(order, fold)), table.take(fold)
            made = train
            if publish is not None:
                made = publish(connect(train, schema, engine="memory"))
            found.append(accuracies(made, test, schema))
    bayes, tree = 100 * np.array(found).T
    return {"naive Bayes": mean(bayes), "tree": mean(tree)}


def figure_3(runs: int, epsilons: tuple[str, ...] = ("0.05", "0.1", "0.5", "1", "2")) -> Curves:
    table, schema = adult_rows()
    _, y = codes_of(table, schema)
    majority = 100 * float(np.mean(y == 0))
    fixed = {"original": None}
    fixed |= {
        f"Mondrian k={k}{', relaxed' * relaxed}{', by class' * by}": by_mondrian(
            k=k, relaxed=relaxed, by_class=by
        )
        for k, relaxed, by in (
            (5, False, False), (10, False, False), (10, True, False), (10, False, True),
        )
    }  # fmt: skip
    curves: Curves = {}
    for name, publish in fixed.items():
        both = adult_accuracy(publish, 1)
        for kind, value in both.items():
            curves[f"{kind}: {name}"] = dict.fromkeys(epsilons, value)
        show(name, both)
    curves |= {f"{kind}: majority": dict.fromkeys(epsilons, (majority, 0.0))
               for kind in ("naive Bayes", "tree")}  # fmt: skip
    paper = {"split": "random-attribute", "max_depth": 50, "test_from": 0}
    settings: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
        "default": ({}, epsilons, runs),
        # The paper's depth costs minutes per point, so it is run once and not for every epsilon.
        "paper, stop at 5": ({**paper, "stop_count": 5}, ("0.1", "1"), 1),
        "paper, all splits at once": ({**paper, "split": "median"}, ("0.1", "1"), 1),
    }
    for name, (parameters, some, n) in settings.items():
        for epsilon in some:
            both = adult_accuracy(by_partition(epsilon=epsilon, **parameters), n)
            show(f"{name}, epsilon {epsilon}", both)
            for kind, value in both.items():
                curves.setdefault(f"{kind}: {name}", {})[epsilon] = value
    return curves


def show(name: str, both: dict[str, tuple[float, float]]) -> None:
    text = ", ".join(f"{kind} {m:.2f} ± {s:.2f}" for kind, (m, s) in both.items())
    sys.stdout.write(f"{name}: {text}\n")
    sys.stdout.flush()


# --- output ---------------------------------------------------------------------------------------


def write(name: str, curves: Curves, label: str) -> None:
    """Write the numbers and a plot."""
    import matplotlib.pyplot as plt

    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(curves, indent=1))
    figure, axes = plt.subplots(figsize=(7, 5))
    for curve, points in curves.items():
        at = [float(epsilon) for epsilon in points]
        middle, error = zip(*points.values(), strict=True)
        axes.errorbar(at, middle, error, label=curve, marker="o", markersize=3, capsize=2)
    axes.set(xscale="log", xlabel="epsilon", ylabel=label)
    axes.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.svg")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    labels = {1: "W1 to the original", 2: "purity of regions", 3: "accuracy, percent"}
    for number in given.figure:
        curves = {1: figure_1, 2: figure_2, 3: figure_3}[number](given.runs)
        write(f"rps_figure_{number}", curves, labels[number])
        if number < 3:
            for curve, points in curves.items():
                row = "  ".join(f"{e}: {m:.3f} ± {s:.3f}" for e, (m, s) in points.items())
                sys.stdout.write(f"figure {number}, {curve:24} {row}\n")


if __name__ == "__main__":
    main()
