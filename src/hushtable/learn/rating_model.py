"""Predict ratings: biases and low-rank factors, by alternating least squares."""

# ruff: noqa: N803, N806 - X is what scikit-learn calls it

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushtable.errors import ParameterError, ReleaseError
from hushtable.extras import needing
from hushtable.kernels.ratings import solve_sides
from hushtable.methods.counts.column_table import COUNT, TUPLE
from hushtable.release import Release

with needing("eval", "the model"):
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted

Floats = NDArray[np.float64]

LEVEL_USERS = 20
"""With so many new users, half of how they differ from the mean is taken for a common level."""


class RatingModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict mean + bias of the user + bias of the item + factors of the user and the item.

    The sum of squared errors plus a penalty on the squares of all biases and factors is minimized
    for users and for items in turn. The penalty of a user or item with n ratings is `prior` +
    `regularization` n (the latter as in Zhou, Wilkinson, Schreiber and Pan 2008). Users who were
    not seen in `fit` are folded in: their common level, then the bias and the factors of each are
    fitted to the ratings that are known of them, with the items held fixed. (The level matters for
    releases, in which the most frequent ratings of the most popular items survive.)

    Parameters
    ----------
    rank : int
        Number of factors; 0 leaves the biases only.
    regularization : float
        What a squared bias or factor costs for each rating of the user or item.
    prior : float
        What it costs in any case; it pulls those with few ratings towards the mean.
    n_rounds : int
        How often users and items are solved for.
    random_state : int
        Where the factors start.

    Attributes
    ----------
    mean_ : float
        Mean rating.
    items_ : array
        The items that were seen, in order.
    item_factors_ : array (items, 1 + rank)
        The bias of each item and its factors.

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
        """Learn from ratings.

        Parameters
        ----------
        X : array-like (n, 2)
            User and item of each rating.
        y : array-like (n,)
            The ratings.
        sample_weight : array-like (n,), optional
            How many users gave exactly the ratings of this row's user: the same in all rows of a
            user. The result is that of repeating the user so often.
        """
        if self.rank < 0 or self.n_rounds < 1:
            raise ParameterError(
                f"rank is {self.rank} and n_rounds {self.n_rounds}; at least 0 and 1 are needed."
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
        draw = np.random.default_rng(self.random_state)  # not private: where a search starts
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
        """Learn from a release of columns of a long table.

        Each copy of a published tuple is a user who rated the items of that tuple only, which is
        the padding of section 7 of the paper.
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
            Ratings that are known of the users in `X`. If they are given, all users are folded in
            from them, and what `fit` learned of users is not used.
        """
        check_is_fitted(self)
        users, items, _ = _read(X, None)
        names, factors, level = self._users, self._user_factors, self.mean_
        if known_X is not None:
            names, factors, level = self._fold_in(known_X, known_y)
        item = _places(self.items_, items)
        user = _places(names, users)
        # An item or user that was never seen has no bias and no factors.
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
        """Give the root mean squared error: less is better."""
        errors = self.predict(X, known_X=known_X, known_y=known_y) - np.asarray(y, np.float64)
        return float(np.sqrt(np.mean(errors**2)))

    def _fold_in(self, X: ArrayLike, y: ArrayLike | None) -> tuple[NDArray[Any], Floats, float]:
        users, items, ratings = _read(X, y)
        names, user = np.unique(users, return_inverse=True)
        # A rating of an item that was never seen still tells how high the user rates.
        items_side, item = self._with_unseen_item(), _places(self.items_, items)
        above = ratings - self.mean_ - items_side[item, 0]
        # Only many users together tell a level; that of a few is their own.
        of_user = np.bincount(user, above) / np.maximum(np.bincount(user), 1)
        level = self.mean_ + float(of_user.sum()) / (len(of_user) + LEVEL_USERS)
        factors = _Order(user, len(names)).solve(
            items_side, item, ratings - level, np.ones(len(ratings)),
            (self.prior, self.regularization),
        )  # fmt: skip
        return names, factors, level

    def _with_unseen_item(self) -> Floats:
        """Give the items' side, and after it one for items without bias and factors."""
        return np.vstack([self.item_factors_, np.zeros(1 + self.rank)])


class _Order:
    """Put ratings in the order of one side, whose biases and factors are then solved for."""

    def __init__(self, side: NDArray[np.int64], size: int) -> None:
        self.order = np.argsort(side, kind="stable")
        self.starts = np.searchsorted(side[self.order], np.arange(size + 1))

    def solve(
        self,
        others: Floats,
        other: NDArray[np.int64],
        errors: Floats,
        weights: Floats,
        penalty: tuple[float, float],
    ) -> Floats:
        """Minimize over this side, with the other one fixed."""
        order = self.order
        return np.asarray(
            solve_sides(self.starts, others, other[order], errors[order], weights[order], *penalty)
        )


def _read(X: ArrayLike, y: ArrayLike | None) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    pairs = np.asarray(X, object) if not isinstance(X, np.ndarray) else X
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ParameterError(f"X has shape {pairs.shape}; it must have two columns: user and item.")
    ratings = np.zeros(len(pairs)) if y is None else np.asarray(y, np.float64)
    if len(ratings) != len(pairs):
        raise ParameterError(f"X has {len(pairs)} rows and y {len(ratings)}; they must be as many.")
    return _plain(pairs[:, 0]), _plain(pairs[:, 1]), ratings


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Give a column of objects the type that its values have."""
    return np.array(column.tolist()) if column.dtype == object else column


def _places(known: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.int64]:
    """Find values in a sorted array; what is not there gets the place after the last."""
    if not len(known):
        return np.zeros(len(asked), np.int64)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, places, len(known))
