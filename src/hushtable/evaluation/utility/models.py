"""Classification models, and the encoding of rows as their features.

A model is a function of a `LearningTask` and a seed that predicts the class of each test row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.evaluation.rows import CodedRows, is_ordered
from hushtable.schema import Schema
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups

_MAX_CATEGORIES = 250  # gradient boosting supports at most 255 per column
_MAX_ONE_HOT = 30  # one-hot columns per feature of the tree


@dataclass(frozen=True)
class _Feature:
    """Encoding of a column: as numbers or as categories."""

    size: int
    ordered: bool
    missing: int | None


@dataclass(frozen=True, eq=False)
class ModelFeatures:
    """Encoding of rows as features of models."""

    features: Mapping[str, _Feature]
    bins: Mapping[str, Recoding]  # bins of each column, for naive Bayes
    recode: Mapping[str, Recoding]  # from original to released values

    @classmethod
    def plain(
        cls, schema: Schema, names: Sequence[str], bins: Mapping[str, Recoding]
    ) -> ModelFeatures:
        """Return the encoding of original values."""
        columns = {name: schema.attributes[name] for name in names}
        features = {
            name: _Feature(column.size, is_ordered(column), column.missing_code)
            for name, column in columns.items()
        }
        return cls(features, bins, {})

    def recoded(self, recode: Mapping[str, Recoding]) -> ModelFeatures:
        """Return the encoding of generalized columns in their released values."""
        features, bins = dict(self.features), dict(self.bins)
        for name in [name for name in features if name in recode]:
            cut = recode[name]
            ordered = isinstance(cut, Intervals) or features[name].ordered
            features[name] = _Feature(cut.size, ordered, cut.missing_code)
            n = len(cut.labels)
            bins[name] = ValueGroups(
                cut.labels, n, cut.has_missing, tuple(range(n)), special=cut.special
            )
        return ModelFeatures(features, bins, recode)

    def write(self, rows: CodedRows) -> CodedRows:
        """Convert original rows to released values."""
        codes = {
            name: self.recode[name].apply(codes.astype(np.int64)).astype(np.int32)
            if name in self.recode
            else codes
            for name, codes in rows.codes.items()
        }
        return CodedRows(rows.schema, codes, rows.n_rows)


@dataclass(frozen=True, eq=False)
class LearningTask:
    """Training rows with their classes, and test rows."""

    table: ModelFeatures
    train: CodedRows
    y: Integers
    test: CodedRows

    @property
    def is_trivial(self) -> bool:
        """Whether there are no features or fewer than two classes."""
        return not self.table.features or len(np.unique(self.y)) < 2

    def lone_class(self) -> Integers:
        """Predict the first training class for all rows; used if the task is trivial."""
        return np.full(self.test.n_rows, self.y[0] if len(self.y) else 0)

    def common(self, most: int) -> dict[str, Integers]:
        """Return the most frequent values of each unordered column."""
        found = {}
        for name, feature in self.table.features.items():
            if not feature.ordered:
                counts = np.bincount(self.train.codes[name], minlength=feature.size)
                found[name] = np.argsort(-counts, kind="stable")[:most].astype(np.int64)
        return found


def _numbers(codes: NDArray[np.int32], feature: _Feature) -> Floats:
    values = codes.astype(np.float64)
    if feature.missing is not None:
        values[codes == feature.missing] = np.nan
    return values


# --- models ---------------------------------------------------------------------------------------


def _tree(task: LearningTask, seed: int) -> Integers:
    """Fit a tree on numbers (missing: -1, plus an indicator) and one-hot categories."""
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 - an extra

    common = task.common(_MAX_ONE_HOT)

    def shown(rows: CodedRows) -> Floats:
        columns: list[Floats] = []
        for name, feature in task.table.features.items():
            codes = rows.codes[name]
            if not feature.ordered:
                columns += [(codes == code).astype(np.float64) for code in common[name].tolist()]
                continue
            values = _numbers(codes, feature)
            if feature.missing is not None:
                columns.append(np.isnan(values).astype(np.float64))
            columns.append(np.nan_to_num(values, nan=-1.0))
        return np.column_stack(columns)

    tree = DecisionTreeClassifier(
        min_samples_leaf=max(5, task.train.n_rows // 1000), max_depth=12, random_state=seed
    )
    tree.fit(shown(task.train), task.y)
    return np.asarray(tree.predict(shown(task.test)))


def _naive_bayes(task: LearningTask, _: int) -> Integers:
    """Fit naive Bayes on binned values, with Laplace smoothing."""
    n_classes = int(task.y.max()) + 1
    sizes = np.bincount(task.y, minlength=n_classes).astype(np.float64)
    with np.errstate(divide="ignore"):  # a class without rows is never predicted
        score = np.tile(np.log(sizes), (task.test.n_rows, 1))
    for name, recoding in task.table.bins.items():
        codes = recoding.apply(task.train.codes[name].astype(np.int64))
        counts = np.bincount(codes * n_classes + task.y, minlength=recoding.size * n_classes)
        table = counts.reshape(recoding.size, n_classes) + 1.0
        log_share = np.log(table / (sizes + recoding.size))
        score += log_share[recoding.apply(task.test.codes[name].astype(np.int64))]
    return np.asarray(score.argmax(axis=1))


def _boosting(task: LearningTask, seed: int) -> Integers:
    """Fit gradient boosting on numbers and on the indices of common categories."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - an extra
    from threadpoolctl import (  # type: ignore[import-untyped]  # noqa: PLC0415 - scikit-learn's
        threadpool_limits,
    )

    common = task.common(_MAX_CATEGORIES)

    def shown(rows: CodedRows) -> Floats:
        columns = []
        for name, feature in task.table.features.items():
            if feature.ordered:
                values = _numbers(rows.codes[name], feature)
                # Some versions fail on a column without any value.
                is_empty = (task.train.codes[name] == feature.missing).all()
                columns.append(np.zeros(len(values)) if is_empty else values)
                continue
            place = np.full(feature.size, np.nan)  # rare values are treated as missing
            place[common[name]] = np.arange(len(common[name]))
            columns.append(place[rows.codes[name]])
        return np.column_stack(columns)

    boosting = HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.15,
        early_stopping=False,
        categorical_features=[not one.ordered for one in task.table.features.values()],
        random_state=seed,
    )
    # One thread makes sums reproducible, and is much faster on a busy machine, where threads wait
    # for each other.
    with threadpool_limits(1, user_api="openmp"):
        boosting.fit(shown(task.train), task.y)
        return np.asarray(boosting.predict(shown(task.test)))


MODELS: dict[str, Callable[[LearningTask, int], Integers]] = {
    "decision tree": _tree,
    "naive Bayes": _naive_bayes,
    "gradient boosting": _boosting,
}
