"""Least squares over a tree of noisy counts.

The cells (classes of leaves) are measured, and so are some of the nodes above them. With
independent noise of known variance, least squares gives the best linear unbiased estimate
(Gauss-Markov theorem). Its normal equations have the matrix

    A = diag(1 / cell variance) + sum over measured nodes v of (1 / variance of v) 1_v 1_v',

where 1_v marks the cells below v. A is solved by one pass up the tree and one down (each step is
the Sherman-Morrison formula), and its inverse is the covariance of the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.privacy.noise.distributions import laplace_kurtosis, laplace_variance


@dataclass(frozen=True)
class NoisyTree:
    """Measurements of a tree and their noise.

    Examples
    --------
    >>> pair = NoisyTree(np.array([1, -1, -1]), np.array([0, 1, 1]), np.full((2, 1), 1e6),
    ...                  np.array([1e6, np.inf, np.inf]))
    >>> pair.fit(np.array([[40.0], [40.0]]), np.array([110.0, 0.0, 0.0])).ravel().round(6).tolist()
    [50.0, 50.0]
    """

    left: Integers  # first child of each node, the second follows; -1 for a leaf; level order
    levels: Integers  # level of each node, ascending
    cell_scale: Floats  # scale of the discrete Laplace noise on each cell (leaves, classes)
    node_scale: Floats  # scale of the noise on a node's count; infinite if not measured
    total: int | None = None  # number of rows, if known

    @cached_property
    def _leaves(self) -> Integers:
        return np.flatnonzero(self.left < 0)

    @cached_property
    def _by_level(self) -> list[tuple[Integers, Integers]]:
        """Inner nodes of each level, and their first children."""
        ends = np.searchsorted(self.levels, np.arange(int(self.levels[-1]) + 2))
        found = []
        for begin, end in pairwise(ends.tolist()):
            inner = begin + np.flatnonzero(self.left[begin:end] >= 0)
            found.append((inner, self.left[inner]))
        return found

    @cached_property
    def _cell_variance(self) -> Floats:
        return laplace_variance(self.cell_scale)

    @cached_property
    def _weight(self) -> Floats:
        """1 / variance of a node's count; 0 if it was not measured."""
        weight = np.zeros(len(self.left))
        measured = np.isfinite(self.node_scale)
        weight[measured] = 1.0 / laplace_variance(self.node_scale[measured])
        return weight

    @cached_property
    def _spread(self) -> Floats:
        """Sum of the covariance of the cells below each node, given the measurements below it."""
        return self._upward(self._cell_variance.sum(axis=1))

    def _upward(self, of_leaves: Floats, below: Floats | None = None) -> Floats:
        values = np.zeros(len(self.left))
        values[self._leaves] = of_leaves
        spread = np.zeros(len(self.left)) if below is None else below
        for inner, left in [(self._leaves, None), *reversed(self._by_level)]:
            if left is not None:
                values[inner] = values[left] + values[left + 1]
            if below is None:  # the covariance sum, reduced by the node's own measurement
                spread[inner] = values[inner] / (1.0 + self._weight[inner] * values[inner])
                values[inner] = spread[inner]
            else:
                values[inner] *= 1.0 - self._weight[inner] * spread[inner]
        return values

    def _solve(self, cells: Floats) -> tuple[Floats, Floats]:
        """Solve A x = cells; return x and the sum of x below each node."""
        sums = self._upward((self._cell_variance * cells).sum(axis=1), self._spread)
        pull = np.zeros(len(self.left))  # subtracted from the right side by measurements above
        for inner, left in self._by_level:
            sums[inner] -= pull[inner] * self._spread[inner]
            pull[left] = pull[left + 1] = pull[inner] + self._weight[inner] * sums[inner]
        leaves = self._leaves
        sums[leaves] -= pull[leaves] * self._spread[leaves]
        pull[leaves] += self._weight[leaves] * sums[leaves]
        return self._cell_variance * (cells - pull[leaves][:, None]), sums

    @cached_property
    def _of_ones(self) -> tuple[Floats, Floats]:
        return self._solve(np.ones(self.cell_scale.shape))

    def fit(self, cells: Floats, nodes: Floats) -> Floats:
        """Estimate the cells from their noisy counts and those of the measured nodes."""
        pull = np.where(self._weight > 0, self._weight * nodes, 0.0)
        for inner, left in self._by_level:
            pull[left] += pull[inner]
            pull[left + 1] += pull[inner]
        fitted, _ = self._solve(cells / self._cell_variance + pull[self._leaves][:, None])
        if self.total is not None:
            ones, _ = self._of_ones
            fitted = fitted + ones * ((self.total - fitted.sum()) / ones.sum())
        return fitted

    def error(self, weights: Floats) -> tuple[float, float, float]:
        """Return the error of a weighted sum of the fitted cells.

        Return its standard deviation, its excess kurtosis, and the largest weight of a single
        integer noise variable.
        """
        factors, scales = self._noise_of(weights)
        variances = factors**2 * laplace_variance(scales)
        variance = float(variances.sum())
        if variance <= 0.0:
            return 0.0, 0.0, 0.0
        kurtosis = float((variances**2) @ laplace_kurtosis(scales)) / variance**2
        return variance**0.5, kurtosis, float(np.abs(factors).max())

    def covariance(self, weights: Sequence[Floats]) -> Floats:
        """Return the covariance of the errors of several weighted sums of the fitted cells."""
        found = [self._noise_of(one) for one in weights]
        factors = np.stack([factor for factor, _ in found])
        return np.asarray((factors * laplace_variance(found[0][1])) @ factors.T)

    def _noise_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the error of a weighted sum as weights and scales of independent noise."""
        solved, sums = self._solve(weights)
        if self.total is not None:
            ones, sums_of_ones = self._of_ones
            part = solved.sum() / ones.sum()
            solved, sums = solved - part * ones, sums - part * sums_of_ones
        measured = self._weight > 0
        factors = np.concatenate(
            ((solved / self._cell_variance).ravel(), (self._weight * sums)[measured])
        )
        return factors, np.concatenate((self.cell_scale.ravel(), self.node_scale[measured]))
