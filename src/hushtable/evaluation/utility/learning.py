"""Machine learning utility: train on the release, test on rows of the original.

Three models predict the target column from the others: a decision tree, naive Bayes and gradient
boosting. In each repetition, each model is trained twice: on the published rows, and on rows of the
original. Both are tested on the same rows, of the control table or of the original, which were not
used to train the latter. The majority baseline always predicts the most frequent class. Generalized
columns are used as published, and test rows are converted to the same values first, as an analyst
would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.evaluation.findings import TEXTS, MetricValue, Plain, metric_named, over_repeats
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.marginals import coarse_bins
from hushtable.files.progress import Progress
from hushtable.query.answers.published import Block
from hushtable.schema import Column
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups

# Classification models, and the encoding of rows as their features.

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
    def plain(cls, original: CodedRows, names: Sequence[str]) -> ModelFeatures:
        """Return the encoding of original values."""
        columns = {name: original.schema.attributes[name] for name in names}
        features = {
            name: _Feature(column.size, column.is_line, column.missing_code)
            for name, column in columns.items()
        }
        bins = {name: coarse_bins(columns[name], original.codes[name]) for name in names}
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
        codes = dict(rows.codes)
        for name in codes.keys() & self.recode.keys():
            codes[name] = self.recode[name].apply(codes[name].astype(np.int64)).astype(np.int32)
        return CodedRows(rows.schema, codes, rows.n_rows)


@dataclass(frozen=True, eq=False)
class LearningTask:
    """Training rows with their classes, and test rows."""

    table: ModelFeatures
    train: CodedRows
    y: Integers
    test: CodedRows

    def predicted(self, predict: Model, seed: int) -> Integers:
        """Return predictions; without features or with one class, the class of the first row.

        Without training rows, class 0 is predicted.
        """
        if self.table.features and len(np.unique(self.y)) > 1:
            return predict(self, seed)
        return np.full(self.test.n_rows, self.y[0] if len(self.y) else 0)

    def common(self, most: int) -> dict[str, Integers]:
        """Return the most frequent values of each unordered column."""
        found = {}
        for name, feature in self.table.features.items():
            if not feature.ordered:
                counts = np.bincount(self.train.codes[name], minlength=feature.size)
                found[name] = np.argsort(-counts, kind="stable")[:most].astype(np.int64)
        return found


Model = Callable[[LearningTask, int], Integers]
"""Function of a task and a seed that predicts the class of each test row."""


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


MODELS: dict[str, Model] = {
    "decision tree": _tree,
    "naive Bayes": _naive_bayes,
    "gradient boosting": _boosting,
}


MAX_TRAIN = 50_000
MAX_TEST = 20_000
TEST_SHARE = 0.25
_MAX_CLASSES = 30

ACCURACY = metric_named("accuracy")
BALANCED = metric_named("balanced accuracy")


@dataclass(frozen=True, eq=False)
class LearningLine(Plain):
    """Accuracy of one model."""

    model: str  # "majority" for the baseline
    trained_on: str  # "release", "original" or "nothing"
    accuracy: MetricValue
    balanced_accuracy: MetricValue


@dataclass(frozen=True, kw_only=True, eq=False)
class Learning(Plain):
    """Results of all models."""

    target: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    lines: list[LearningLine]
    n_train_original: int
    n_train_release: int
    n_test: int
    n_repeats: int
    test: str  # origin of the test rows, in a sentence
    notes: tuple[str, ...] = ()


WITH_CONTROL = TEXTS["models tested on the control table"]
WITHOUT_CONTROL = TEXTS["models tested without a control table"]


def learn(
    target: str,
    original: CodedRows,
    control: CodedRows | None,
    block: Block,
    rng: np.random.Generator,
    *,
    n_repeats: int,
    progress: Progress,
) -> Learning:
    """Train models on published rows and on the original, and test both on original rows."""
    class_of, released_class_of, labels, notes = _classes(target, block, original)
    features = tuple(name for name in block.names if name != target)
    raw = ModelFeatures.plain(original, features)
    cut = raw.recoded(block.recode)
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    n_train = n_release = n_test = 0
    for repeat in range(n_repeats):
        train, test = _split(original, control, rng)
        release = _some(CodedRows.of(block.schema, block.cells(rng)), MAX_TRAIN, rng)
        n_train, n_release, n_test = train.n_rows, release.n_rows, test.n_rows
        truth, known = class_of[test.codes[target]], class_of[train.codes[target]]
        released = released_class_of[release.codes[target]]
        sources = {
            "release": LearningTask(cut, release, released, cut.write(test)),
            "original": LearningTask(raw, train, known, test),
        }
        majority = np.full(test.n_rows, np.bincount(known, minlength=1).argmax())
        scores.setdefault(("majority", "nothing"), []).append(_scores(truth, majority))
        seed = int(rng.integers(2**31))
        for number, (model, predict) in enumerate(MODELS.items()):
            for where, task in sources.items():
                guess = task.predicted(predict, seed)
                scores.setdefault((model, where), []).append(_scores(truth, guess))
            progress("learning", (repeat + (number + 1) / len(MODELS)) / n_repeats)
    lines = []
    for (model, where), values in scores.items():
        measured = []
        for metric, shares in zip((ACCURACY, BALANCED), zip(*values, strict=True), strict=True):
            mean = float(np.mean(shares))
            error = math.sqrt(max(mean * (1 - mean), 0.0) / max(n_test, 1))
            measured.append(over_repeats(metric, f"{model}, {where}", shares, extra_std=error))
        lines.append(LearningLine(model, where, *measured))
    if n_release == 0:
        notes.append("The release has no rows to train on: its models predict the first class.")
    return Learning(
        target=target,
        features=features,
        classes=labels,
        lines=lines,
        n_train_original=n_train,
        n_train_release=n_release,
        n_test=n_test,
        n_repeats=n_repeats,
        test=WITHOUT_CONTROL if control is None else WITH_CONTROL,
        notes=tuple(notes),
    )


# --- classes --------------------------------------------------------------------------------------


def _classes(
    target: str, block: Block, original: CodedRows
) -> tuple[Integers, Integers, tuple[str, ...], list[str]]:
    """Choose the classes: the released values of the target, or two if there are more than 30.

    Return the class of each original code and of each released code, labels, and notes.
    """
    column = original.schema.attributes[target]
    recoding, notes = block.recode.get(target), list[str]()
    codes = np.arange(column.size)
    released = codes if recoding is None else recoding.apply(codes)
    named: Column | Recoding = column if recoding is None else recoding
    size = named.size
    if size <= _MAX_CLASSES:
        if recoding is not None:
            notes.append(f"{target} is published in {size} groups; models predict the group.")
        return released, np.arange(size), tuple(_label(named, code) for code in range(size)), notes
    present = original.codes[target][original.codes[target] < column.n_values]
    if column.is_line:
        middle = int(np.median(present)) if len(present) else 0
        # A released group that contains the median counts as not above it, for all models.
        yes = np.arange(size) > released[middle]
        wanted = f"above {column.value(middle)}"
    else:
        middle = int(np.bincount(present, minlength=1).argmax())
        yes = np.arange(size) == released[middle]
        wanted = str(_label(named, int(released[middle])))
    if column.missing_code is not None:
        yes[-1] = False
    notes.append(f"{target} has {size:,} values; models predict whether it is {wanted}.")
    classes = yes.astype(np.int64)
    return classes[released], classes, (f"not {wanted}", wanted), notes


def _label(named: Column | Recoding, code: int) -> str:
    value = named.value(code) if not isinstance(named, Recoding) else named.label(code)
    return "missing" if value is None else str(value)


# --- rows -----------------------------------------------------------------------------------------


def _split(
    original: CodedRows, control: CodedRows | None, rng: np.random.Generator
) -> tuple[CodedRows, CodedRows]:
    if control is not None:
        return _some(original, MAX_TRAIN, rng), _some(control, MAX_TEST, rng)
    order = rng.permutation(original.n_rows)
    n_test = min(int(original.n_rows * TEST_SHARE), MAX_TEST)
    return original.take(order[n_test : n_test + MAX_TRAIN]), original.take(order[:n_test])


def _some(rows: CodedRows, most: int, rng: np.random.Generator) -> CodedRows:
    if rows.n_rows <= most:
        return rows
    return rows.take(np.sort(rng.choice(rows.n_rows, most, replace=False)))


def _scores(truth: Integers, guess: Integers) -> tuple[float, float]:
    """Return accuracy and balanced accuracy."""
    right = truth == guess
    sizes = np.bincount(truth)
    hits = np.bincount(truth, right.astype(np.float64), len(sizes))
    return float(right.mean()), float((hits[sizes > 0] / sizes[sizes > 0]).mean())
