"""The rating model: against closed forms, and on a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from hushtable import Columns, NoisyCounts, Schema, publish, sample, sample_schema
from hushtable.errors import ParameterError, ReleaseError
from hushtable.learn import RatingModel
from seeds import shifted


def low_rank(n_users: int = 300, n_items: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(shifted(seed))
    table = (
        3.5 + draw.normal(0, 0.5, (n_users, 1)) + draw.normal(0, 0.5, n_items)
        + draw.normal(0, 1, (n_users, 2)) @ draw.normal(0, 0.6, (2, n_items))
    )  # fmt: skip
    user, item = np.nonzero(draw.random(table.shape) < 0.5)
    return np.stack([user, item], axis=1), table[user, item] + draw.normal(0, 0.2, len(user))


def test_biases_alone_are_the_ridge_solution() -> None:
    X, y = low_rank(20, 6)
    model = RatingModel(rank=0, regularization=0.05, prior=0.7, n_rounds=500)
    model.fit(X, y)
    design = np.zeros((len(y), 26))
    design[np.arange(len(y)), X[:, 0]] = 1
    design[np.arange(len(y)), 20 + X[:, 1]] = 1
    penalty = np.diag(0.7 + 0.05 * design.sum(axis=0))
    exact = np.linalg.solve(design.T @ design + penalty, design.T @ (y - y.mean()))
    assert model.predict(X) == pytest.approx(y.mean() + design @ exact, abs=1e-5)


def test_factors_find_low_rank_structure() -> None:
    X, y = low_rank()
    train = np.random.default_rng(shifted(1)).random(len(y)) < 0.8
    scores = {
        rank: RatingModel(rank=rank, regularization=0.02, prior=0.2)
        .fit(X[train], y[train])
        .score(X[~train], y[~train])
        for rank in (0, 2)
    }
    assert scores[2] < 0.4
    assert scores[0] > 0.6


def test_new_users_are_folded_in_as_fit_would() -> None:
    X, y = low_rank()
    model = RatingModel(rank=2, n_rounds=60).fit(X, y)
    mine = X[:, 0] == 7
    stranger = X[mine].copy()
    stranger[:, 0] = 10_000
    folded = model.predict(stranger, known_X=stranger, known_y=y[mine])
    assert folded == pytest.approx(model.predict(X[mine]), abs=0.15)
    unknown = model.predict([[10_000, 3], [10_000, 999]])
    assert unknown == pytest.approx([model.mean_ + model.item_factors_[3, 0], model.mean_])


def test_a_weight_is_that_many_equal_users() -> None:
    X, y = low_rank(40, 8)
    weights = 1 + X[:, 0] % 3
    repeated = [
        (X[i, 0] * 10 + copy, X[i, 1], y[i]) for i in range(len(y)) for copy in range(weights[i])
    ]
    users, items, ratings = (np.array(part) for part in zip(*repeated, strict=True))
    model = RatingModel(rank=2, n_rounds=5)
    once = clone(model).fit(X, y, sample_weight=weights)
    often = clone(model).fit(np.stack([users, items], axis=1).astype(np.int64), ratings)
    assert once.item_factors_ == pytest.approx(often.item_factors_, abs=1e-8)


def test_a_release_of_columns_is_learned_from(tmp_path: Path) -> None:
    draw = np.random.default_rng(shifted(2))
    likes = draw.random(4000) < 0.5
    rows = [(u, m, int(4 + like if (m < 2) == like else 1 + like))
            for u, like in enumerate(likes.tolist()) for m in range(4)]  # fmt: skip
    table = pa.table({"user": [r[0] for r in rows], "movie": [f"m{r[1]}" for r in rows],
                      "rating": [r[2] for r in rows]})  # fmt: skip
    schema = Schema.from_dict(
        {
            "name": "ratings",
            "unit": {"kind": "person", "column": "user", "max_rows": 4},
            "columns": {
                "user": {"role": "identifier"},
                "movie": {"type": "categorical", "values": ["m0", "m1", "m2", "m3"]},
                "rating": {"type": "integer", "low": 1, "high": 5},
            },
        }
    )
    method = Columns(epsilon=1, delta="1e-5", k=5, max_columns=1, item="movie", value="rating",
                     columns=[["m0", "m1", "m2", "m3"]])  # fmt: skip
    release = publish(table, schema, method, out=tmp_path / "out")
    model = RatingModel(rank=1, prior=0.1).fit_release(release)
    known, asked = [["new", "m0"], ["new", "m1"]], [["new", "m3"]]
    assert model.predict(asked, known_X=known, known_y=[5, 5]) < 3
    assert model.predict(asked, known_X=known, known_y=[1, 1]) > 3
    assert model.score(asked, [2], known_X=known, known_y=[5, 5]) < 1


def test_other_releases_are_refused(tmp_path: Path) -> None:
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10)
    release = publish(sample(), sample_schema(), method, out=tmp_path / "out")
    with pytest.raises(ReleaseError, match="made by 'noisy-counts'"):
        RatingModel().fit_release(release)


def test_an_empty_release_predicts_the_mean() -> None:
    model = RatingModel().fit(np.empty((0, 2), np.int64), [])
    assert model.predict([[1, 2]]).tolist() == [0.0]


def test_wrong_input_is_named() -> None:
    with pytest.raises(ParameterError, match="two columns"):
        RatingModel().fit([[1, 2, 3]], [1])
    with pytest.raises(ParameterError, match="must match"):
        RatingModel().fit([[1, 2]], [1, 2])
    with pytest.raises(ParameterError, match="rank is -1"):
        RatingModel(rank=-1).fit([[1, 2]], [1])
