"""From noisy counts to a degree distribution with error bars: all of it is post-processing.

Two steps, both explained and measured in ``degrees.md``. `fit_counts` and `fit_regions` take the
noise off as far as shape allows: a distribution function rises, stays between 0 and the number of
nodes, and is smooth where the data does not say otherwise. `undo_projection` puts back
what bounding the degrees took away, by a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("science"):
    from scipy import sparse
    from scipy.interpolate import BSpline
    from scipy.linalg import cholesky, eigh, solve_triangular
    from scipy.optimize import isotonic_regression, nnls

Floats = NDArray[np.float64]

N_PIECES = 40
"""Pieces of the smooth curve: more than any release has shown to need, few enough to be quick."""

WARPS = (0.25, 16.0)
"""Degrees are seen on the scale log(1 + degree/warp): fine at the bottom, coarse at the top."""

PENALTIES = 10.0 ** np.arange(-4, 7, 0.5)

STEP_PRICE = 3.0
"""Residual that a step of the isotonic fit must save, in units of the noise variance.

Two would make both fits equally likely in the mean (Mallows' Cp); but the steps follow the heavy
tails of the noise, which the smooth curve does not.
"""

STEP = 0.5
"""A step in one count may hide under this many standard deviations of its noise."""

SIGNIFICANT = 2.0  # standard deviations of the number of nodes at the bound
LEAST_FULL = 1e-9  # nodes at the bound; with none, nothing would be left to divide by
SLOWEST = 0.5  # the tail falls off at least so fast over one length of the bound
LONGEST_TAIL = 16  # the tail beyond the bound ends at this multiple of it
_GRID = (np.arange(512) + 0.5) / 512


@dataclass(frozen=True, eq=False)
class Survival:
    """Hold estimates of the number of nodes of degree at least 0, 1, ..., bound.

    Parameters
    ----------
    values : float array
        The estimates; they fall.
    basis : matrix
        The values are linear in some unknowns, but for the constraints.
    noise : float array
        Covariance of the unknowns that comes from the noise added for privacy; a vector stands for
        a diagonal.
    total : float array
        The same with what smoothing may have got wrong on the whole.
    step : float
        A step of this size, in any one count, would not have been noticed under the noise.
    """

    values: Floats
    basis: Any
    noise: Floats
    total: Floats
    step: float

    @property
    def max_degree(self) -> int:
        """The bound on degrees."""
        return len(self.values) - 1

    @property
    def sees_isolated(self) -> bool:
        """Whether nodes without edges were counted."""
        return bool(self.values[0] > self.values[1])

    def stds(self, rows: Any) -> tuple[Floats, Floats]:
        """Give the standard deviations of weighted sums: from noise, and from smoothing.

        Parameters
        ----------
        rows : sparse matrix
            One row of weights for each sum.
        """
        seen = sparse.csr_array(rows @ self.basis)
        noise, total = _variances(seen, self.noise), _variances(seen, self.total)
        # The first count is the number of nodes: measured apart, or the same as the second.
        steps = rows[:, 1:].power(2).sum(axis=1) * self.step**2
        return np.sqrt(noise), np.sqrt(np.maximum(total - noise, 0.0) + steps)


@dataclass(frozen=True, eq=False)
class DegreeDistribution:
    """Hold the estimated number of nodes of each degree.

    Parameters
    ----------
    survival : Survival
        The estimates for the graph whose degrees were bounded.
    spread : sparse matrix
        Turns those into the number of nodes of degree at least 0, 1, ... of the graph as it was.
    acceptance : float
        Share of the edges of a node below the bound that bounding the degrees has kept, by the
        model; 1 where nothing was put back.
    at_worst : float array, optional
        Number of nodes of degree at least 0, 1, ... if as many nodes were full as noise can hide.
    """

    survival: Survival
    spread: Any
    acceptance: float
    at_worst: Floats | None = None

    @cached_property
    def at_least(self) -> Floats:
        """Number of nodes of degree at least 0, 1, ..."""
        values = np.asarray(self.spread @ self.survival.values)
        return np.minimum.accumulate(np.maximum(values, 0.0))

    @property
    def n_nodes(self) -> float:
        """Number of nodes."""
        return float(self.at_least[0])

    @cached_property
    def cumulative(self) -> Floats:
        """Number of nodes of degree at most 0, 1, ..."""
        return self.n_nodes - np.append(self.at_least[1:], 0.0)

    @cached_property
    def histogram(self) -> NDArray[np.int64]:
        """Number of nodes of each degree, rounded so that the total is right."""
        whole = np.rint(self.cumulative).astype(np.int64)
        return np.diff(whole, prepend=0)

    def sequence(self) -> NDArray[np.int64]:
        """Give the degree sequence, from the largest down."""
        return np.repeat(np.arange(len(self.histogram)), self.histogram)[::-1]

    def cumulative_stds(self) -> tuple[Floats, Floats]:
        """Give the standard deviations of `cumulative`: from noise, and from the model."""
        size = len(self.at_least)
        # A node of degree at most d is one of all that is not of degree at least d + 1.
        everyone = sparse.csr_array(
            (np.ones(size), (np.arange(size), np.zeros(size, np.int64))), shape=(size, size)
        )
        return self._stds(sparse.csr_array(everyone - sparse.eye_array(size, k=1, format="csr")))

    def count(self, mask: NDArray[np.bool_]) -> tuple[float, float, float]:
        """Count the nodes whose degree is marked: value, std from noise, std from the model."""
        # A node of degree d is in "at least e" for e = 0, ..., d: the weights are differences.
        weights = np.diff(mask.astype(np.float64), prepend=0.0)
        noise, model = self._stds(sparse.csr_array(weights[None, :]))
        return float(weights @ self.at_least), float(noise[0]), float(model[0])

    def _stds(self, weights: Any) -> tuple[Floats, Floats]:
        noise, smoothing = self.survival.stds(sparse.csr_array(weights @ self.spread))
        if self.at_worst is None:
            return noise, smoothing
        # How far the model may be off is taken to be half of what it would move at worst.
        size = len(self.at_least)
        moved = (weights @ (_resized(self.at_worst, size) - self._before(size))) / 2
        model = smoothing**2 + moved**2
        if self.survival.sees_isolated:
            # And a node without edges may be one that has lost them, whatever the model says.
            isolated = (self.at_least[0] - self.at_least[1]) / 2
            model += (weights[:, [1]].toarray()[:, 0] * isolated) ** 2
        return noise, np.sqrt(model)

    def _before(self, size: int) -> Floats:
        """Give the estimates for bounded degrees; there are none beyond the bound."""
        return _resized(self.survival.values, size)

    def power_law_exponent(self, *, minimum: int = 1) -> float:
        """Estimate the exponent of a power law for degrees from `minimum` on.

        This is the maximum likelihood estimate 1 + n / sum(log(degree / (minimum - 1/2))) of
        Clauset, Shalizi and Newman (2009). NaN where no such degree is left.
        """
        degrees = np.arange(len(self.histogram))
        chosen = degrees >= max(minimum, 1)
        number = self.histogram[chosen]
        logs = float(number @ np.log(degrees[chosen] / (max(minimum, 1) - 0.5)))
        return 1 + float(number.sum()) / logs if logs > 0 else math.nan


# --- noise ------------------------------------------------------------------------------------


def fit_counts(
    noisy: Floats,
    *,
    variance: float,
    n_nodes: float | None = None,
    n_nodes_variance: float = 0.0,
    smooth: bool = True,
) -> Survival:
    """Fit rising counts C_0, ..., C_(bound - 1) to noisy ones.

    Parameters
    ----------
    noisy : float array
        With `n_nodes`: nodes of degree at most 0, ..., bound - 1. Without: minus the number of
        nodes of degree at least 1, ..., bound, so that the counts rise to at most 0.
    variance : float
        Variance of their noise.
    n_nodes, n_nodes_variance : float
        A noisy number of nodes, and the variance of its noise.
    smooth : bool
        Whether a smooth curve may be chosen; otherwise it is the isotonic regression.
    """
    candidates = [_isotonic(noisy, variance)]
    if smooth and len(noisy) > 2:
        candidates += [_smooth(noisy, variance, warp, n_nodes, n_nodes_variance) for warp in WARPS]
    best = min(candidates, key=lambda candidate: candidate.price)
    rising, size = best.values, len(noisy)
    if n_nodes is None:
        values = np.maximum(-rising, 0.0)
        values = np.concatenate((values[:1], values))  # every node has an edge
        shown = sparse.csr_array(-best.basis)
        basis = sparse.vstack((shown[[0]], shown), format="csr")
        return Survival(values, basis, best.noise, best.total, math.sqrt(variance) * STEP)
    top = max(best.n_nodes if best.n_nodes is not None else n_nodes, 0.0)
    rising = np.clip(rising, 0.0, top)
    values = np.concatenate(([top], top - rising))
    basis = sparse.hstack(
        (
            sparse.csr_array(np.ones((size + 1, 1))),
            sparse.vstack((sparse.csr_array((1, best.basis.shape[1])), -best.basis)),
        ),
        format="csr",
    )
    return Survival(
        values,
        basis,
        _block_diagonal(n_nodes_variance, best.noise),
        _block_diagonal(n_nodes_variance, best.total),
        math.sqrt(variance) * STEP,
    )


def fit_regions(
    noisy: Floats,
    starts: NDArray[np.int64],
    *,
    max_degree: int,
    variance: float,
    n_nodes: float | None = None,
    n_nodes_variance: float = 0.0,
) -> Survival:
    """Fit non-negative counts to noisy counts of regions of degrees, spread evenly inside.

    Region i holds the degrees from starts[i] to just before starts[i + 1], the last up to
    `max_degree`. Least squares, with the noisy number of nodes as one more equation.
    """
    weight = math.sqrt(variance)
    rows, wanted = np.eye(len(noisy)), noisy.astype(np.float64)
    if n_nodes is not None:
        pull = weight / math.sqrt(n_nodes_variance)
        rows = np.vstack((rows, np.full(len(noisy), pull)))
        wanted = np.append(wanted, n_nodes * pull)
    counts, _ = nnls(rows, wanted, maxiter=100 * len(noisy))
    widths = np.diff(starts, append=max_degree + 1)
    region = np.repeat(np.arange(len(starts)), widths)
    degrees = np.arange(int(starts[0]), max_degree + 1)
    shares = sparse.csr_array(
        (1.0 / widths[region], (degrees, region)), shape=(max_degree + 1, len(starts))
    )
    basis = np.cumsum(shares.toarray()[::-1], axis=0)[::-1]
    noise = np.asarray(variance * np.linalg.inv(rows.T @ rows), np.float64)
    return Survival(
        basis @ counts, sparse.csr_array(basis), noise, noise, math.sqrt(variance) * STEP
    )


@dataclass(frozen=True, eq=False)
class _Fitted:
    values: Floats
    price: float
    basis: Any
    noise: Floats
    total: Floats
    n_nodes: float | None = None


def _isotonic(noisy: Floats, variance: float) -> _Fitted:
    """Take the rising sequence next to the noisy one: averages over blocks."""
    found = isotonic_regression(noisy)
    sizes = np.diff(found.blocks)
    block = np.repeat(np.arange(len(sizes)), sizes)
    basis = sparse.csr_array((np.ones(len(noisy)), (np.arange(len(noisy)), block)))
    covariance = variance / sizes
    residual = float(np.sum((noisy - found.x) ** 2)) / variance
    return _Fitted(found.x, residual + STEP_PRICE * len(sizes), basis, covariance, covariance)


def _smooth(
    noisy: Floats, variance: float, warp: float, n_nodes: float | None, n_nodes_variance: float
) -> _Fitted:
    """Take a rising penalized spline; the penalty is the one of least estimated risk.

    The variance of the noise is known, so residual + 2 * degrees of freedom (Mallows' Cp)
    estimates the risk without looking anywhere else.
    """
    design = _splines(np.log1p(np.arange(len(noisy)) / warp))
    width = design.shape[1]
    bends = np.diff(np.eye(width), 2, axis=0)
    roughness, gram = bends.T @ bends, design.T @ design
    gram += 1e-9 * np.trace(gram) / width * np.eye(width)  # some splines touch no whole number
    # In the directions of these vectors both matrices are diagonal: 1, and the roughness.
    rough, directions = eigh(roughness, gram)
    rough = rough.clip(min=0.0)
    seen, square = design.T @ noisy, float(noisy @ noisy)
    best: tuple[float, float, Floats, float | None] | None = None
    for penalty in PENALTIES:
        coefficients, top = _rising(
            gram + penalty * roughness, seen, variance, n_nodes, n_nodes_variance
        )
        residual = square + float(coefficients @ (gram @ coefficients - 2 * seen))
        price = residual / variance + 2 * float(np.sum(1 / (1 + penalty * rough)))
        if best is None or price < best[0]:
            best = price, penalty, coefficients, top
    assert best is not None  # noqa: S101 - PENALTIES is not empty
    price, penalty, coefficients, top = best
    kept = 1 / (1 + penalty * rough)
    # The second is the Bayesian covariance of Wahba (1983): noise and expected bias together.
    noise = (directions * (variance * kept**2)) @ directions.T
    total = (directions * (variance * kept)) @ directions.T
    return _Fitted(design @ coefficients, price, sparse.csr_array(design), noise, total, top)


def _splines(places: Floats) -> Floats:
    """Evaluate evenly spaced cubic B-splines that cover the places."""
    low, high = float(places[0]), float(places[-1])
    n_pieces = min(N_PIECES, len(places))
    step = (high - low) / n_pieces
    knots = low + step * np.arange(-3, n_pieces + 4)
    inside = np.clip(places, low, high - 1e-9 * (high - low))
    design: Floats = BSpline.design_matrix(inside, knots, 3).toarray()
    return design


def _rising(
    gram: Floats, seen: Floats, variance: float, n_nodes: float | None, n_nodes_variance: float
) -> tuple[Floats, float | None]:
    """Minimize the penalized squares over rising coefficients between 0 and the number of nodes.

    Rising coefficients make a rising spline. They are sums of non-negative steps, and with the
    number of nodes known up to noise, that is the sum of all steps and one more equation. Without
    it they rise to at most 0.
    """
    width = len(gram)
    root = cholesky(gram, lower=True)
    wanted = solve_triangular(root, seen, lower=True)
    if n_nodes is None:
        sums = -np.triu(np.ones((width, width)))
        steps, _ = nnls(root.T @ sums, wanted, maxiter=100 * width)
        return sums @ steps, None
    sums = np.tril(np.ones((width, width + 1)))
    pull = math.sqrt(variance / n_nodes_variance)
    rows = np.vstack((root.T @ sums, np.full(width + 1, pull)))
    steps, _ = nnls(rows, np.append(wanted, n_nodes * pull), maxiter=100 * width)
    return sums @ steps, float(steps.sum())


def _variances(rows: Any, covariance: Floats) -> Floats:
    """Give the variance of each row's weighted sum of unknowns."""
    if covariance.ndim == 1:
        variances: Floats = rows.power(2) @ covariance
    else:
        dense = rows.toarray()
        variances = np.einsum("ij,ij->i", dense @ covariance, dense)
    return np.maximum(variances, 0.0)


def _resized(values: Floats, size: int) -> Floats:
    """Cut numbers off, or go on with zeros."""
    return np.append(values[:size], np.zeros(max(size - len(values), 0)))


def _block_diagonal(first: float, rest: Floats) -> Floats:
    if rest.ndim == 1:
        return np.append(first, rest)
    out = np.zeros((len(rest) + 1, len(rest) + 1))
    out[0, 0] = first
    out[1:, 1:] = rest
    return out


# --- projection --------------------------------------------------------------------------------


def as_projected(survival: Survival) -> DegreeDistribution:
    """Take the degrees as they were bounded."""
    size = survival.max_degree + 1
    return DegreeDistribution(survival, sparse.eye_array(size, format="csr"), 1.0)


def undo_projection(survival: Survival) -> DegreeDistribution:
    """Estimate the degrees before they were bounded, by a model.

    The model: edges come in random order; a node below the bound keeps a share a of its edges,
    the same for all; nodes at the bound have degrees beyond bound/a that fall off exponentially,
    at the rate seen over the upper half of the range. The share follows from the model itself:
    when a node's edges come, the other end is full with a probability that grows with the tail.
    Nothing is done where the number of nodes at the bound may be nothing but noise; error bars
    allow for as many as noise can hide.
    """
    bound, values = survival.max_degree, survival.values
    if bound < 2:
        return as_projected(survival)
    full, half = float(values[bound]), float(values[bound // 2])
    noise, _ = survival.stds(sparse.csr_array(np.eye(1, bound + 1, bound)))
    hidden = SIGNIFICANT * float(noise[0])
    found = as_projected(survival)
    if full > hidden and half > full:
        found = DegreeDistribution(survival, *_unbounded(survival, values))
    most = np.append(values[0], np.maximum(values[1:], min(full + hidden, float(values[0]))))
    at_worst = np.maximum(_unbounded(survival, most)[0] @ most, 0.0)
    return replace(found, at_worst=np.minimum.accumulate(at_worst))


def _unbounded(survival: Survival, values: Floats) -> tuple[Any, float]:
    """Give what turns numbers of nodes of bounded degrees into those as they were, and a."""
    bound = survival.max_degree
    full, half = max(float(values[bound]), LEAST_FULL), float(values[bound // 2])
    rate = max(math.log(max(half / full, 1.0)) * bound / (bound - bound // 2), SLOWEST)
    below = float(np.sum(values[1:]) - bound * full)  # ends of edges at nodes that are not full
    mean_tail = 1 + 1 / rate
    share_full = full * bound * mean_tail / (below + full * bound * mean_tail)
    # Of the ends at full nodes, those at nodes of more than 1/u times the least degree.
    beyond = np.exp(-rate * (1 / _GRID - 1)) * (1 / _GRID + 1 / rate) / mean_tail
    acceptance = float(1 / np.mean(1 / (1 - share_full * beyond)))
    least_full = bound / acceptance
    longest = least_full * (1 + max(math.log(2 * full), 0.0) / rate)
    degrees = np.arange(1, math.ceil(min(longest, LONGEST_TAIL * bound)) + 1)
    # Half a degree more keeps whole numbers in the middle of what they stand for.
    before = np.clip((degrees - 0.5) * acceptance + 0.5, 1.0, bound)
    left = np.minimum(before.astype(np.int64), bound - 1)
    fraction = before - left
    in_tail = degrees >= least_full
    fade = np.exp(-rate * (degrees / least_full - 1))
    low = np.where(in_tail, 0.0, 1 - fraction)
    high = np.where(in_tail, fade, fraction)
    spread = sparse.lil_array((len(degrees) + 1, bound + 1))
    spread[degrees, left] = low
    spread[degrees, np.where(in_tail, bound, left + 1)] = high
    spread[[1]] = _with_lost(acceptance, bound)
    spread[0, 0] = 1.0
    if not survival.sees_isolated:  # nodes without edges are not seen, so those that lost theirs
        spread[[0]] = spread[[1]]
    return spread.tocsr(), acceptance


def _with_lost(acceptance: float, bound: int) -> Any:
    """Count nodes of degree at least 1, those that have lost all their edges included.

    Keeping each edge with probability a turns the generating function G(z) of the degrees into
    G(1 - a + a z); so before, G(-r) = n_0 - r n_1 + r**2 n_2 - ... nodes had no edge, with
    r = (1 - a)/a. Far from the model (r large) the series swings, and r is kept below 1/2.
    """
    ratio = min((1 - acceptance) / acceptance, 0.5)
    row = np.zeros((1, bound + 1))
    row[0, 1] = 1.0
    for degree in range(1, min(bound, 8)):
        lost = -((-ratio) ** degree)
        row[0, degree] += lost
        row[0, degree + 1] -= lost
    return row
