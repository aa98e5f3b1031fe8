"""Accuracy of a decision tree trained on a release of Adult: as Mohammed et al. (2011).

The data are the 45,222 complete rows, in ten random divisions: two thirds are published, one third
is for the test. The tree is trained on the released rows, weighted by their published counts. It is
tested on the test rows, generalized to the released values. Instead of C4.5 it is scikit-learn's
tree with criterion entropy, leaves of at least 0.1% of the weight, and cost-complexity pruning with
alpha 0.0001. Intervals are encoded by their order, values of a taxonomy as indicators.

Other target columns, and the generated clinic sample, show whether choices made on Adult's income
generalize.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.methods import Method
from hushtable.methods.diffgen.estimator import GeneralizedEstimator
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import Recoding
from hushtable_papers.adult import adult
from hushtable_papers.data_sets import folder
from hushtable_papers.repetitions import setting

Codes = Mapping[str, NDArray[np.int64]]
TARGET = "income"


@dataclass(frozen=True)
class Division:
    """One division into training rows, which are published, and test rows."""

    target: str
    private: MemoryEngine
    train: Codes
    test: Codes


@cache
def table_and_schema() -> tuple[pa.Table, Schema]:
    """Load Adult."""
    return adult(folder())


@cache
def divisions(
    n: int = setting(10, 3),
    *,
    folds: int | None = None,
    most: int | None = None,
    target: str = TARGET,
    clinic: bool = False,
    first_seed: int = 0,
) -> tuple[Division, ...]:
    """Divide the rows at random, into two thirds and one third, or into folds.

    Each fold is the test part of one division; `most` limits their number.
    """
    table, schema = (sample(), sample_schema()) if clinic else table_and_schema()
    whole = connect(table, schema, engine="memory")
    codes = whole.codes(list(schema.attributes))
    made = []
    for seed in range(first_seed, first_seed + n):
        order = np.random.default_rng(seed).permutation(len(table))
        third = order[2 * len(order) // 3 :]
        cuts = [third] if folds is None else np.array_split(order, folds)
        for held_out in cuts[:most]:
            rest = np.setdiff1d(order, held_out)
            engine = connect(table.take(pa.array(rest)), schema, engine="memory")
            made.append(
                Division(
                    target,
                    engine,
                    {name: column[rest] for name, column in codes.items()},
                    {name: column[held_out] for name, column in codes.items()},
                )
            )
    return tuple(made)


def make_tree() -> DecisionTreeClassifier:
    """Return an untrained tree, used instead of C4.5."""
    return DecisionTreeClassifier(
        criterion="entropy", min_weight_fraction_leaf=0.001, ccp_alpha=1e-4, random_state=0
    )


def features(
    division: Division, recode: Mapping[str, Recoding], codes: Codes
) -> NDArray[np.float64]:
    """Encode generalized codes as numeric columns for a tree."""
    schema = division.private.schema
    columns = []
    for name, column in schema.attributes.items():
        if name == division.target or (name in recode and recode[name].size == 1):
            continue
        if isinstance(column, Categorical):
            size = recode[name].size if name in recode else column.size
            columns.append(np.eye(size)[codes[name]])
        else:
            columns.append(codes[name][:, None].astype(np.float64))
    return (
        np.concatenate(columns, axis=1) if columns else np.zeros((len(codes[division.target]), 1))
    )


def accuracy(method: Method, division: Division) -> float:
    """Publish, train on the release, and return the accuracy on the test rows."""
    schema, target = division.private.schema, division.target
    released = method.run(division.private, SecureNoise())
    settings = {"kind": method.estimator_kind, **released.settings}
    release = estimator_for(settings, schema, method.parameters(), released.tables)
    assert isinstance(release, GeneralizedEstimator)
    weights = released.tables["data"].column("count").to_numpy()
    seen = weights > 0
    if not seen.any():
        return float(np.mean(division.test[target] == 0))
    tree = make_tree().fit(
        features(division, release.recode, release.codes)[seen],
        release.codes[target][seen],
        sample_weight=weights[seen],
    )
    mapped = {
        name: release.recode[name].apply(codes) if name in release.recode else codes
        for name, codes in division.test.items()
    }
    found = tree.predict(features(division, release.recode, mapped))
    return float(np.mean(found == division.test[target]))


def baseline_accuracy(division: Division) -> float:
    """Return the accuracy of a tree trained on the raw rows: the paper's BA."""
    target = division.target
    tree = make_tree().fit(features(division, {}, division.train), division.train[target])
    found = tree.predict(features(division, {}, division.test))
    return float(np.mean(found == division.test[target]))


def lower_accuracy(division: Division) -> float:
    """Return the accuracy of the most frequent class of the raw rows: the paper's LA."""
    majority = np.bincount(division.train[division.target]).argmax()
    return float(np.mean(division.test[division.target] == majority))


def summary(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and its standard error, in percent."""
    found = 100 * np.asarray(list(values))
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


def measure(method: Method, **which: Any) -> tuple[float, float]:
    """Return the mean accuracy and its standard error, in percent."""
    return summary(accuracy(method, division) for division in divisions(**which))
