"""Classifier by best-fitting uncertain records (Aggarwal, section II-E)."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushtable.arrays import Floats
from hushtable.errors import ParameterError
from hushtable.extras import needing
from hushtable.kernels.nearest import best_fits
from hushtable.release.release import Release
from hushtable.schema import Categorical

with needing("eval", "the model"):
    from scipy.special import logsumexp
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

STD, FROM, TO = "_std", "_from", "_to"


class UncertainNeighbors(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier by the q uncertain records that fit a point best, weighted by density.

    Compared with a narrow record, a wide one has a lower density at its center and a higher one far
    away; plain nearest neighbors ignore this. Densities are added in log space. If the model is
    uniform and no box contains the point, the q records with the nearest boxes vote equally.

    Parameters
    ----------
    q : int
        Number of best-fitting records that vote.
    model : {"gaussian", "uniform"}
        Distribution of records around their published points.
    period : array-like, optional
        Period of each column, for columns that wrap around; `from_release` sets it.

    Attributes
    ----------
    classes_ : array
        The labels.

    Examples
    --------
    >>> Z = [[0.0], [1.0], [5.0], [6.0]]
    >>> learner = UncertainNeighbors(q=2).fit(Z, ["a", "a", "b", "b"], Z_std=[[1.0]] * 4)
    >>> learner.predict([[0.4], [5.1]]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        *,
        q: int = 10,
        model: Literal["gaussian", "uniform"] = "gaussian",
        period: ArrayLike | None = None,
    ) -> None:
        self.q = q
        self.model = model
        self.period = period

    def fit(self, Z: ArrayLike, y: ArrayLike, Z_std: ArrayLike | None = None) -> Self:  # noqa: N803
        """Store the uncertain records.

        Parameters
        ----------
        Z : array-like (n, d)
            The published points.
        y : array-like (n,)
            Their labels.
        Z_std : array-like (n, d), optional
            Standard deviation of the noise of each value; 1 by default.

        Returns
        -------
        UncertainNeighbors
            The fitted model.
        """
        points, labels = validate_data(self, Z, y, dtype=np.float64)
        check_classification_targets(labels)
        problems = []
        if isinstance(self.q, bool) or not isinstance(self.q, int | np.integer) or self.q < 1:
            problems.append(f"q is {self.q!r}; it must be a whole number of at least 1.")
        if self.model not in ("gaussian", "uniform"):
            problems.append(f"model is {self.model!r}; it must be gaussian or uniform.")
        std = np.ones_like(points) if Z_std is None else np.asarray(Z_std, np.float64)
        if std.shape != points.shape:
            problems.append(f"Z_std has shape {std.shape}; it must match Z, {points.shape}.")
        elif not np.all(np.isfinite(std) & (std >= 0)):
            problems.append("Z_std has negative or non-finite values; all must be at least 0.")
        ParameterError.raise_if_any(problems)
        self.classes_, self._labels = np.unique(labels, return_inverse=True)
        self._points = points
        # A value without noise becomes a very narrow distribution, since width 0 has no density.
        floor = 1e-9 * np.maximum(np.ptp(points, axis=0), 1e-9)
        scale = 1.0 if self.model == "gaussian" else math.sqrt(3)
        self._noise_range = np.maximum(std, floor) * scale
        return self

    @classmethod
    def from_release(cls, release: Release, *, target: str | None = None, q: int = 10) -> Self:
        """Fit the model to a release of method ``uncertain`` that contains the target column.

        The default `target` is that of the schema.
        """
        settings = release.statement.estimator
        target = target or release.schema.target
        if settings.get("kind") != "uncertain" or target not in release.table().column_names:
            raise ParameterError(
                f"the release has no uncertain records with the column {target!r}; publish it with "
                "the method uncertain and name the target in carry."
            )
        table, noisy = release.table(), settings["noisy"]
        period = None
        if release.statement.parameters.get("edges") == "wrap":
            period = []
            for name in noisy:
                column = release.schema.attributes[name]
                assert not isinstance(column, Categorical)  # noqa: S101 - categorical columns have no noise
                period.append(float(column.exact_step) * column.n_values)
        points = np.stack([table.column(name).to_numpy() for name in noisy], axis=1)
        std = np.stack([table.column(name + STD).to_numpy() for name in noisy], axis=1)
        if release.statement.parameters.get("edges") == "region":
            # The original record is equally likely anywhere in its region, so the region's center
            # replaces the published point.
            first, last = (
                np.stack([table.column(name + end).to_numpy() for name in noisy], axis=1)
                for end in (FROM, TO)
            )
            points = (first + last) / 2
        labels = np.asarray(table.column(target).to_pylist())
        return cls(q=q, model=settings["model"], period=period).fit(points, labels, std)

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return each label's share of the density of the q best-fitting records."""
        logs = self._class_logs(X)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the label with the largest share."""
        return np.asarray(self.classes_[np.argmax(self._class_logs(X), axis=1)])

    def _class_logs(self, X: ArrayLike) -> Floats:  # noqa: N803
        check_is_fitted(self)
        tests = validate_data(self, X, dtype=np.float64, reset=False)
        rows, logs = best_fits(
            np.ascontiguousarray(tests),
            self._points,
            self._noise_range,
            q=min(self.q, len(self._points)),
            is_gaussian=self.model == "gaussian",
            period=None if self.period is None else np.asarray(self.period, np.float64),
        )
        nothing = np.isneginf(logs[:, 0])
        logs[nothing] = 0.0  # no box contains the point: the nearest boxes vote equally
        labels = self._labels[rows]
        out = np.empty((len(tests), len(self.classes_)))
        for label in range(len(self.classes_)):
            with np.errstate(divide="ignore"):
                out[:, label] = logsumexp(np.where(labels == label, logs, -np.inf), axis=1)
        return out
