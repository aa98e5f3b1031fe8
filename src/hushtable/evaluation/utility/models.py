"""The models that learn from rows, and how rows are shown to them: as numbers, or as categories.

A model is a function of a `LearningTask` and a seed that predicts the class of each test row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.evaluation.rows import CodedRows, is_ordered
from hushtable.recoding import Intervals, Recoding, ValueGroups
from hushtable.schema import Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_MAX_CATEGORIES = 250  # gradient boosting takes at most 255 per column
_MAX_ONE_HOT = 30  # values of a column that get a column each for the tree


@dataclass(frozen=True)
class _Feature:
    """Say how a column is shown to models: as numbers, or as categories."""

    size: int
    ordered: bool
    missing: int | None


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Say how rows are shown to models.

    Parameters
    ----------
    features : mapping of str to _Feature
        The columns to learn from.
    bins : mapping of str to Recoding
        Their bins, for naive Bayes.
    recode : mapping of str to Recoding
        How original rows are written in released values.
    """

    features: Mapping[str, _Feature]
    bins: Mapping[str, Recoding]
    recode: Mapping[str, Recoding]

    @classmethod
    def plain(
        cls, schema: Schema, names: Sequence[str], bins: Mapping[str, Recoding]
    ) -> CodedTable:
        """Show values as they are."""
        columns = {name: schema.attributes[name] for name in names}
        features = {
            name: _Feature(column.size, is_ordered(column), column.missing_code)
            for name, column in columns.items()
        }
        return cls(features, bins, {})

    def recoded(self, recode: Mapping[str, Recoding]) -> CodedTable:
        """Show the values of generalized columns as released."""
        features, bins = dict(self.features), dict(self.bins)
        for name in [name for name in features if name in recode]:
            cut = recode[name]
            ordered = isinstance(cut, Intervals) or features[name].ordered
            features[name] = _Feature(cut.size, ordered, cut.missing_code)
            n = len(cut.labels)
            bins[name] = ValueGroups(
                cut.labels, n, cut.has_missing, tuple(range(n)), special=cut.special
            )
        return CodedTable(features, bins, recode)

    def write(self, rows: CodedRows) -> CodedRows:
        """Write original rows in released values."""
        codes = {
            name: self.recode[name].apply(codes.astype(np.int64)).astype(np.int32)
            if name in self.recode
            else codes
            for name, codes in rows.codes.items()
        }
        return CodedRows(rows.schema, codes, rows.n_rows)


@dataclass(frozen=True, eq=False)
class LearningTask:
    """Hold rows to learn from with their classes, and rows to predict."""

    table: CodedTable
    train: CodedRows
    y: Integers
    test: CodedRows

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to learn: no features, or not two classes."""
        return not self.table.features or len(np.unique(self.y)) < 2

    def lone_class(self) -> Integers:
        """Predict the only class there is, or the first."""
        return np.full(self.test.n_rows, self.y[0] if len(self.y) else 0)

    def common(self, most: int) -> dict[str, Integers]:
        """Find the most frequent values of each column that is not ordered."""
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
    """Ordered columns as numbers (missing: below all, and marked), others one column per value."""
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
    """Count binned values by class, each with one added (Laplace)."""
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
    """Ordered columns as numbers, others as places in the list of common values."""
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
                # Not all models bear a column without any value to learn from.
                is_empty = (task.train.codes[name] == feature.missing).all()
                columns.append(np.zeros(len(values)) if is_empty else values)
                continue
            place = np.full(feature.size, np.nan)  # a value that is not common is unknown
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
    # One thread: the sums are then the same on every machine, and on a busy one threads that wait
    # for each other take many times as long.
    with threadpool_limits(1, user_api="openmp"):
        boosting.fit(shown(task.train), task.y)
        return np.asarray(boosting.predict(shown(task.test)))


MODELS: dict[str, Callable[[LearningTask, int], Integers]] = {
    "decision tree": _tree,
    "naive Bayes": _naive_bayes,
    "gradient boosting": _boosting,
}
