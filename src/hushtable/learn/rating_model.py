"""Rating prediction with biases and low-rank factors, by alternating least squares."""

# ruff: noqa: N803, N806 - X is scikit-learn's name

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushtable.arrays import Floats, Integers
from hushtable.errors import ParameterError, ReleaseError
from hushtable.extras import needing
from hushtable.methods.counts.column_table import COUNT, TUPLE
from hushtable.release.release import Release

with needing("publish"):
    from numba import njit
with needing("eval", "the model"):
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted


LEVEL_USERS = 20
"""Shrinkage constant: with this many new users, their level is half of their mean deviation."""


class RatingModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressor of ratings: mean + user bias + item bias + product of user and item factors.

    The sum of squared errors plus a penalty on the squares of all biases and factors is minimized
    alternately over users and items. The penalty of a user or item with n ratings is `prior` +
    `regularization` * n (the latter as in Zhou, Wilkinson, Schreiber and Pan 2008). Users who were
    not in `fit` are folded in: with the items fixed, their common level and then the bias and
    factors of each user are fitted to their known ratings. (The level matters for releases, in
    which the most frequent ratings of the most popular items survive.)

    Parameters
    ----------
    rank : int
        Number of factors; 0 uses only biases.
    regularization : float
        Penalty on squared biases and factors, per rating of the user or item.
    prior : float
        Constant penalty on squared biases and factors; it shrinks users and items with few ratings
        toward the mean.
    n_rounds : int
        Number of alternating rounds.
    random_state : int
        Seed of the initial factors.

    Attributes
    ----------
    mean_ : float
        Mean rating.
    items_ : array
        Items seen in `fit`, sorted.
    item_factors_ : array (items, 1 + rank)
        Bias and factors of each item.

    Examples
    --------
    >>> X = [["ann", "a"], ["ann", "b"], ["bob", "a"], ["bob", "b"], ["eve", "a"]]
    >>> model = RatingModel(rank=0, regularization=0, prior=0.1)
    >>> model.fit(X, [5, 3, 4, 2, 5]).predict([["eve", "b"]]).round(1).tolist()
    [3.1]
    """

    def __init__(
        self,
        *,
        rank: int = 8,
        regularization: float = 0.1,
        prior: float = 2.0,
        n_rounds: int = 15,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.regularization = regularization
        self.prior = prior
        self.n_rounds = n_rounds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to ratings.

        Parameters
        ----------
        X : array-like (n, 2)
            User and item of each rating.
        y : array-like (n,)
            The ratings.
        sample_weight : array-like (n,), optional
            Number of users with exactly these ratings; the same in all rows of a user. The result
            equals that of repeating the user this many times.

        Returns
        -------
        RatingModel
            The fitted model.
        """
        if self.rank < 0 or self.n_rounds < 1:
            raise ParameterError(
                f"rank is {self.rank} and n_rounds {self.n_rounds}; they must be at least 0 and 1."
            )
        users, items, ratings = _read(X, y)
        weights = np.ones(len(ratings))
        if sample_weight is not None:
            weights = np.asarray(sample_weight, np.float64)
        self.items_, item = np.unique(items, return_inverse=True)
        self._users, user = np.unique(users, return_inverse=True)
        total = weights.sum()
        self.mean_ = float(weights @ ratings / total) if total > 0 else 0.0
        width = 1 + self.rank
        draw = np.random.default_rng(self.random_state)  # initial values only; not private
        self.item_factors_ = draw.normal(0, 0.1, (len(self.items_), width))
        self.item_factors_[:, 0] = 0.0
        self._user_factors = np.zeros((len(self._users), width))
        by_user, by_item = _Order(user, len(self._users)), _Order(item, len(self.items_))
        ones, errors = np.ones(len(ratings)), ratings - self.mean_
        penalty = (self.prior, self.regularization)
        for _ in range(self.n_rounds):
            self._user_factors = by_user.solve(self.item_factors_, item, errors, ones, penalty)
            self.item_factors_ = by_item.solve(self._user_factors, user, errors, weights, penalty)
        return self

    def fit_release(self, release: Release) -> Self:
        """Fit the model to a release of method columns from a long table.

        Each copy of a published tuple counts as a user who rated only the items of that tuple (the
        padding in section 7 of the paper of method columns).
        """
        parameters = release.statement.parameters
        if release.statement.method != "columns" or "item" not in parameters:
            raise ReleaseError(
                f"this release was made by {release.statement.method!r}; a rating model needs one "
                "made by 'columns' from a long table."
            )
        table = release.table()
        X = np.stack(
            [table[TUPLE].to_numpy().astype(object), np.array(table[parameters["item"]].to_pylist(),
                                                              object)], axis=1
        )  # fmt: skip
        return self.fit(X, table[parameters["value"]].to_numpy(), table[COUNT].to_numpy())

    def predict(
        self, X: ArrayLike, *, known_X: ArrayLike | None = None, known_y: ArrayLike | None = None
    ) -> Floats:
        """Predict ratings.

        Parameters
        ----------
        X : array-like (n, 2)
            User and item.
        known_X, known_y : array-like, optional
            Known ratings of the users in `X`. If given, all users are folded in from them, and the
            users of `fit` are ignored.

        Returns
        -------
        float array
            Predicted ratings.
        """
        check_is_fitted(self)
        users, items, _ = _read(X, None)
        names, factors, level = self._users, self._user_factors, self.mean_
        if known_X is not None:
            names, factors, level = self._fold_in(known_X, known_y)
        item = _places(self.items_, items)
        user = _places(names, users)
        # An unseen item or user has no bias and no factors.
        item_side = self._with_unseen_item()[item]
        user_side = np.vstack([factors, np.zeros(1 + self.rank)])[user]
        crossed = np.einsum("ij,ij->i", item_side[:, 1:], user_side[:, 1:])
        return np.asarray(level + item_side[:, 0] + user_side[:, 0] + crossed)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        known_X: ArrayLike | None = None,
        known_y: ArrayLike | None = None,
    ) -> float:
        """Return the root mean squared error (lower is better)."""
        errors = self.predict(X, known_X=known_X, known_y=known_y) - np.asarray(y, np.float64)
        return float(np.sqrt(np.mean(errors**2)))

    def _fold_in(self, X: ArrayLike, y: ArrayLike | None) -> tuple[NDArray[Any], Floats, float]:
        users, items, ratings = _read(X, y)
        names, user = np.unique(users, return_inverse=True)
        # A rating of an unseen item still shows how high the user rates.
        items_side, item = self._with_unseen_item(), _places(self.items_, items)
        above = ratings - self.mean_ - items_side[item, 0]
        # The level is shrunk: only many users show a common level; a few may just differ.
        of_user = np.bincount(user, above) / np.maximum(np.bincount(user), 1)
        level = self.mean_ + float(of_user.sum()) / (len(of_user) + LEVEL_USERS)
        factors = _Order(user, len(names)).solve(
            items_side, item, ratings - level, np.ones(len(ratings)),
            (self.prior, self.regularization),
        )  # fmt: skip
        return names, factors, level

    def _with_unseen_item(self) -> Floats:
        """Return the factors of the items, followed by zeros for unseen items."""
        return np.vstack([self.item_factors_, np.zeros(1 + self.rank)])


class _Order:
    """Ratings sorted by user or by item, to solve for that side."""

    def __init__(self, side: Integers, size: int) -> None:
        self.order = np.argsort(side, kind="stable")
        self.starts = np.searchsorted(side[self.order], np.arange(size + 1))

    def solve(
        self,
        others: Floats,
        other: Integers,
        errors: Floats,
        weights: Floats,
        penalty: tuple[float, float],
    ) -> Floats:
        """Return the best biases and factors of this side, with those of the other side fixed."""
        order = self.order
        return np.asarray(
            _solve_sides(self.starts, others, other[order], errors[order], weights[order], *penalty)
        )


def _read(X: ArrayLike, y: ArrayLike | None) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    pairs = np.asarray(X, object) if not isinstance(X, np.ndarray) else X
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ParameterError(f"X has shape {pairs.shape}; it must have two columns: user and item.")
    ratings = np.zeros(len(pairs)) if y is None else np.asarray(y, np.float64)
    if len(ratings) != len(pairs):
        raise ParameterError(f"X has {len(pairs)} rows and y {len(ratings)}; they must match.")
    return _plain(pairs[:, 0]), _plain(pairs[:, 1]), ratings


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Convert a column of objects to the type of its values."""
    return np.array(column.tolist()) if column.dtype == object else column


def _places(known: NDArray[Any], asked: NDArray[Any]) -> Integers:
    """Find values in a sorted array; absent values get the position after the last."""
    if not len(known):
        return np.zeros(len(asked), np.int64)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, places, len(known))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _solve_sides(  # noqa: PLR0917 - kernels take arrays by position
    starts: Integers,
    others: Floats,
    other: Integers,
    errors: Floats,
    weights: Floats,
    prior: float,
    regularization: float,
) -> Floats:
    """Solve for the bias and the factors of each user (or item) with the other side fixed.

    Ratings ``starts[i]`` to ``starts[i + 1] - 1`` are those of user (or item) i. The model of an
    error (a rating minus the mean) is the sum of both biases and the product of both factors. The
    penalty on squared unknowns is `prior` plus `regularization` times the sum of weights.
    """
    n, width = len(starts) - 1, others.shape[1]
    solved = np.zeros((n, width))
    features = np.empty(width)
    for i in range(n):
        if starts[i] == starts[i + 1]:
            continue
        left = np.zeros((width, width))
        right = np.zeros(width)
        mass = 0.0
        for place in range(starts[i], starts[i + 1]):
            row = others[other[place]]
            features[0] = 1.0
            features[1:] = row[1:]
            target, weight = errors[place] - row[0], weights[place]
            mass += weight
            for a in range(width):
                right[a] += weight * features[a] * target
                for b in range(width):
                    left[a, b] += weight * features[a] * features[b]
        for a in range(width):
            left[a, a] += prior + regularization * mass + 1e-9
        solved[i] = np.linalg.solve(left, right)
    return solved
