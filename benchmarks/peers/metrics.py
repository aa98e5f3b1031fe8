"""Accuracy of released rows: marginals, associations, and classifiers trained on them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.peers.data import Codes, Table

N_TRIPLES = 300
MAX_LEARNED = 60_000  # limit of training rows, to save time


def measure(table: Table, rows: Codes) -> dict[str, float]:
    """Return all accuracy measures of released rows."""
    d = len(table.columns)
    triples = list(combinations(range(d), 3))
    order = np.random.default_rng(0).permutation(len(triples))
    sampled = [triples[i] for i in order[:N_TRIPLES]]
    return {
        "tvd1": _distance(table, rows, ((i,) for i in range(d))),
        "tvd2": pairs_distance(table, rows),
        "tvd3": _distance(table, rows, sampled),
        **associations(table, rows),
        **learned(table, rows),
    }


def pairs_distance(table: Table, rows: Codes) -> float:
    """Return the mean total variation distance over all pairs of columns."""
    return _distance(table, rows, combinations(range(len(table.columns)), 2))


def _distance(table: Table, rows: Codes, groups: Iterable[tuple[int, ...]]) -> float:
    """Return the mean total variation distance of the marginals over groups of columns."""
    found = []
    for group in groups:
        shape = [table.sizes[i] for i in group]
        ours, theirs = _marginal(rows, group, shape), _marginal(table.train, group, shape)
        found.append(0.5 * float(np.abs(ours - theirs).sum()))
    return float(np.mean(found))


def associations(table: Table, rows: Codes) -> dict[str, float]:
    """Return mean absolute errors of the associations of pairs of columns.

    For two numbers: the correlation, and both regression slopes, scaled by the standard deviations
    of the private rows. For other pairs: Cramer's V.
    """
    ordered = [i for i, column in enumerate(table.columns) if column.ordered]
    correlations, slopes, cramers = [], [], []
    for i, j in combinations(range(len(table.columns)), 2):
        if i in ordered and j in ordered:
            ours, theirs = (np.cov(r[:, [i, j]].T.astype(float)) for r in (rows, table.train))
            correlations.append(_correlation(ours) - _correlation(theirs))
            scale = np.sqrt(np.diag(theirs))
            for x, y in ((0, 1), (1, 0)):
                slope = [both[x, y] / max(both[x, x], 1e-12) for both in (ours, theirs)]
                slopes.append((slope[0] - slope[1]) * scale[x] / max(scale[y], 1e-12))
        else:
            shape = [table.sizes[i], table.sizes[j]]
            found = [_marginal(r, (i, j), shape).reshape(shape) for r in (rows, table.train)]
            cramers.append(_cramer(found[0]) - _cramer(found[1]))
    gaps = {"correlation": correlations, "slope": slopes, "cramer": cramers}
    return {name: float(np.mean(np.abs(gap))) if gap else 0.0 for name, gap in gaps.items()}


def _correlation(covariance: NDArray[np.float64]) -> float:
    scale = float(np.sqrt(covariance[0, 0] * covariance[1, 1]))
    return float(covariance[0, 1]) / scale if scale else 0.0


def _cramer(joint: NDArray[np.float64]) -> float:
    """Return Cramer's V of a contingency table of shares."""
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    free = min(int((part > 0).sum()) for part in (joint.sum(axis=1), joint.sum(axis=0))) - 1
    seen = expected > 0
    square = float(np.sum((joint - expected)[seen] ** 2 / expected[seen]))
    return float(np.sqrt(square / free)) if free > 0 else 0.0


def _marginal(rows: Codes, group: tuple[int, ...], shape: list[int]) -> NDArray[np.float64]:
    cells = np.ravel_multi_index(tuple(rows[:, i] for i in group), shape)
    counted = np.bincount(cells, minlength=int(np.prod(shape)))
    return counted / max(1, len(rows))


def learned(table: Table, rows: Codes) -> dict[str, float]:
    """Train on released rows; return accuracies and area under the ROC curve on test rows."""
    if len(rows) > MAX_LEARNED:
        rows = rows[np.random.default_rng(0).permutation(len(rows))[:MAX_LEARNED]]
    truth, known = table.test[:, table.target], rows[:, table.target]
    if len(np.unique(known)) < 2:
        share = float(np.mean(truth == known[0])) if len(known) else 0.0
        return {"tree": share, "boosting": share, "auc": 0.5}
    tree = DecisionTreeClassifier(
        criterion="entropy", min_weight_fraction_leaf=0.001, ccp_alpha=1e-4, random_state=0
    ).fit(_indicators(table, rows), known)
    others = [i for i in range(len(table.columns)) if i != table.target]
    # A categorical column of a binary target is split by its values' rates either way, so the
    # codes of unordered columns are declared as categories.
    unordered = [not table.columns[i].ordered for i in others]
    boosting = HistGradientBoostingClassifier(
        max_iter=100, categorical_features=unordered, random_state=0, early_stopping=False
    )
    with threadpool_limits(1):  # idle threads would take CPU time from other runs
        boosting.fit(rows[:, others], known)
        chances = boosting.predict_proba(table.test[:, others])[:, 1]
    guessed = boosting.classes_[(chances > 0.5).astype(int)]
    return {
        "tree": float(np.mean(tree.predict(_indicators(table, table.test)) == truth)),
        "boosting": float(np.mean(guessed == truth)),
        "auc": float(roc_auc_score(truth, chances)),
    }


def _indicators(table: Table, rows: Codes) -> NDArray[np.float32]:
    columns = [
        rows[:, [i]] if column.ordered or column.size == 2 else np.eye(column.size)[rows[:, i]]
        for i, column in enumerate(table.columns)
        if i != table.target
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)
