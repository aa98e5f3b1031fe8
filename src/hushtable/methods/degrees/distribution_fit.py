"""Estimation of a degree distribution, with errors, from noisy counts (post-processing).

There are two steps, explained and evaluated in ``degrees.md``. `fit_counts` and `fit_regions`
reduce noise by shape constraints: a cumulative distribution is monotone, between 0 and the number
of nodes, and smooth unless the data show otherwise. `undo_projection` restores what bounding the
degrees removed, by a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.extras import needing

with needing("science"):
    from scipy import sparse
    from scipy.interpolate import BSpline
    from scipy.linalg import cholesky, eigh, solve_triangular
    from scipy.optimize import isotonic_regression, nnls


N_PIECES = 40
"""Number of pieces of the smooth curve: more than any tested release needed, and still fast."""

WARPS = (0.25, 16.0)
"""Values of warp that are tried. The curve uses the scale log(1 + degree/warp), which is fine for
small degrees and coarse for large ones."""

PENALTIES = 10.0 ** np.arange(-4, 7, 0.5)

STEP_PRICE = 3.0
"""Reduction of the residual that each step of the isotonic fit must achieve, in noise variances.

With 2, both fits would have the same expected risk (Mallows' Cp). But steps follow the heavy tails
of the noise, which the smooth curve does not.
"""

STEP = 0.5
"""Assumed size of undetected steps in one count, in standard deviations of its noise."""

SIGNIFICANT = 2.0  # standard deviations that the nodes at the bound must exceed
LEAST_FULL = 1e-9  # minimum number of nodes at the bound; avoids division by 0
SLOWEST = 0.5  # minimum decay rate of the tail, per multiple of the bound
LONGEST_TAIL = 16  # largest degree of the tail, as a multiple of the bound
_GRID = (np.arange(512) + 0.5) / 512


@dataclass(frozen=True, eq=False)
class Survival:
    """Estimated numbers of nodes of degree at least 0, 1, ..., bound."""

    values: Floats  # the estimates, descending
    basis: Any  # matrix: except for constraints, values are linear in some parameters
    noise: Floats  # covariance of the parameters from privacy noise; a vector is a diagonal
    total: Floats  # the same plus the expected squared bias of smoothing
    step: float  # size of a step in one count that would go undetected under the noise

    @property
    def max_degree(self) -> int:
        """Bound on degrees."""
        return len(self.values) - 1

    @property
    def sees_isolated(self) -> bool:
        """True if nodes without edges were counted and some are estimated to exist."""
        return bool(self.values[0] > self.values[1])

    def stds(self, rows: Any) -> tuple[Floats, Floats]:
        """Return the standard deviations of weighted sums: from noise, and from smoothing."""
        seen = sparse.csr_array(rows @ self.basis)
        noise, total = _variances(seen, self.noise), _variances(seen, self.total)
        # The first count is the number of nodes: measured separately, or equal to the second.
        steps = rows[:, 1:].power(2).sum(axis=1) * self.step**2
        return np.sqrt(noise), np.sqrt(np.maximum(total - noise, 0.0) + steps)


@dataclass(frozen=True, eq=False)
class DegreeDistribution:
    """Estimated number of nodes of each degree."""

    survival: Survival  # estimates for the graph with bounded degrees
    spread: Any  # sparse matrix: maps these to numbers of nodes of degree at least 0, 1, ...
    acceptance: float  # modeled share of edges kept below the bound; 1 if nothing is restored
    at_worst: Floats | None = None  # `at_least` if noise hides as many full nodes as it can

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
    def histogram(self) -> Integers:
        """Number of nodes of each degree, rounded to the right total."""
        whole = np.rint(self.cumulative).astype(np.int64)
        return np.diff(whole, prepend=0)

    def sequence(self) -> Integers:
        """Return the degree sequence in descending order."""
        return np.repeat(np.arange(len(self.histogram)), self.histogram)[::-1]

    def cumulative_stds(self) -> tuple[Floats, Floats]:
        """Return the standard deviations of `cumulative`: from noise, and from the model."""
        size = len(self.at_least)
        # Nodes of degree at most d are all nodes minus those of degree at least d + 1.
        everyone = sparse.csr_array(
            (np.ones(size), (np.arange(size), np.zeros(size, np.int64))), shape=(size, size)
        )
        return self._stds(sparse.csr_array(everyone - sparse.eye_array(size, k=1, format="csr")))

    def count(self, mask: Bools) -> tuple[float, float, float]:
        """Count the nodes of marked degrees; return value, std from noise, std from the model."""
        # A node of degree d is counted in "at least e" for e = 0, ..., d, so the weights are
        # differences.
        weights = np.diff(mask.astype(np.float64), prepend=0.0)
        noise, model = self._stds(sparse.csr_array(weights[None, :]))
        return float(weights @ self.at_least), float(noise[0]), float(model[0])

    def _stds(self, weights: Any) -> tuple[Floats, Floats]:
        noise, smoothing = self.survival.stds(sparse.csr_array(weights @ self.spread))
        if self.at_worst is None:
            return noise, smoothing
        # Model error: half of the change in the worst case.
        size = len(self.at_least)
        moved = (weights @ (_resized(self.at_worst, size) - self._before(size))) / 2
        model = smoothing**2 + moved**2
        if self.survival.sees_isolated:
            # A node without edges may also have lost them, whatever the model says.
            isolated = (self.at_least[0] - self.at_least[1]) / 2
            model += (weights[:, [1]].toarray()[:, 0] * isolated) ** 2
        return noise, np.sqrt(model)

    def _before(self, size: int) -> Floats:
        """Return the estimates for bounded degrees; 0 beyond the bound."""
        return _resized(self.survival.values, size)

    def power_law_exponent(self) -> float:
        """Estimate the exponent of a power law for degrees above 0; NaN if there are none.

        This is the maximum likelihood estimate 1 + n / sum(log(degree / (1/2))) of Clauset, Shalizi
        and Newman (2009).
        """
        number = self.histogram[1:]
        logs = float(number @ np.log(np.arange(1, len(self.histogram)) / 0.5))
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
    """Fit monotone counts C_0, ..., C_(bound - 1) to noisy ones.

    Parameters
    ----------
    noisy : float array
        With `n_nodes`: nodes of degree at most 0, ..., bound - 1. Without: minus the number of
        nodes of degree at least 1, ..., bound, so that the counts increase to at most 0.
    variance : float
        Variance of their noise.
    n_nodes, n_nodes_variance : float
        Noisy number of nodes, and the variance of its noise.
    smooth : bool
        Whether a smooth curve may be chosen; otherwise isotonic regression is used.
    """
    candidates = [_isotonic(noisy, variance)]
    if smooth and len(noisy) > 2:
        candidates += [_smooth(noisy, variance, warp, n_nodes, n_nodes_variance) for warp in WARPS]
    best = min(candidates, key=lambda candidate: candidate.cost)
    rising, size = best.values, len(noisy)
    if n_nodes is None:
        values = np.maximum(-rising, 0.0)
        values = np.concatenate((values[:1], values))  # every node has at least one edge
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
    starts: Integers,
    *,
    max_degree: int,
    variance: float,
    n_nodes: float | None = None,
    n_nodes_variance: float = 0.0,
) -> Survival:
    """Fit non-negative counts to noisy counts of regions; nodes are spread evenly inside a region.

    Region i contains the degrees from starts[i] to just before starts[i + 1], the last up to
    `max_degree`. The fit uses least squares; a noisy number of nodes gives one more equation.
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
    cost: float
    basis: Any
    noise: Floats
    total: Floats
    n_nodes: float | None = None


def _isotonic(noisy: Floats, variance: float) -> _Fitted:
    """Return the isotonic regression: averages over blocks."""
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
    """Return a monotone penalized spline with the penalty of smallest estimated risk.

    The variance of the noise is known, so residual + 2 * degrees of freedom (Mallows' Cp) estimates
    the risk from the noisy counts alone.
    """
    design = _splines(np.log1p(np.arange(len(noisy)) / warp))
    width = design.shape[1]
    bends = np.diff(np.eye(width), 2, axis=0)
    roughness, gram = bends.T @ bends, design.T @ design
    gram += 1e-9 * np.trace(gram) / width * np.eye(width)  # some splines cover no integer degree
    # In the basis of these vectors both matrices are diagonal: 1, and the roughness.
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
    # `total` is the Bayesian covariance of Wahba (1983): noise plus expected squared bias.
    noise = (directions * (variance * kept**2)) @ directions.T
    total = (directions * (variance * kept)) @ directions.T
    return _Fitted(design @ coefficients, price, sparse.csr_array(design), noise, total, top)


def _splines(places: Floats) -> Floats:
    """Evaluate evenly spaced cubic B-splines that cover the positions."""
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
    """Minimize the penalized squares over monotone coefficients from 0 to the number of nodes.

    Monotone coefficients give a monotone spline. They are sums of non-negative steps. The noisy
    number of nodes is the sum of all steps, which gives one more equation. Without it, the
    coefficients increase to at most 0.
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
    """Return the variance of each row's weighted sum of parameters."""
    if covariance.ndim == 1:
        variances: Floats = rows.power(2) @ covariance
    else:
        dense = rows.toarray()
        variances = np.einsum("ij,ij->i", dense @ covariance, dense)
    return np.maximum(variances, 0.0)


def _resized(values: Floats, size: int) -> Floats:
    """Truncate numbers, or pad them with zeros."""
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
    """Return the distribution of the bounded degrees."""
    size = survival.max_degree + 1
    return DegreeDistribution(survival, sparse.eye_array(size, format="csr"), 1.0)


def undo_projection(survival: Survival) -> DegreeDistribution:
    """Estimate the degrees before they were bounded, by a model.

    In the model, edges come in random order. A node below the bound keeps a share a of its edges,
    the same for all. Nodes at the bound have degrees beyond bound/a that decay exponentially, at
    the rate seen over the upper half of the range. The share follows from the model: when an edge
    comes, its other end is full with a probability that grows with the tail. Nothing is changed if
    the nodes at the bound may be only noise; errors allow for as many full nodes as noise can hide.
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
    """Return the matrix from counts of bounded degrees to unbounded ones, and the share a."""
    bound = survival.max_degree
    full, half = max(float(values[bound]), LEAST_FULL), float(values[bound // 2])
    rate = max(math.log(max(half / full, 1.0)) * bound / (bound - bound // 2), SLOWEST)
    below = float(np.sum(values[1:]) - bound * full)  # ends of edges at nodes below the bound
    mean_tail = 1 + 1 / rate
    share_full = full * bound * mean_tail / (below + full * bound * mean_tail)
    # Share of the ends at full nodes that belong to nodes of more than 1/u times the smallest full
    # degree.
    beyond = np.exp(-rate * (1 / _GRID - 1)) * (1 / _GRID + 1 / rate) / mean_tail
    acceptance = float(1 / np.mean(1 / (1 - share_full * beyond)))
    least_full = bound / acceptance
    longest = least_full * (1 + max(math.log(2 * full), 0.0) / rate)
    degrees = np.arange(1, math.ceil(min(longest, LONGEST_TAIL * bound)) + 1)
    # The shift by half a degree centers each integer in its rounding interval.
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
    if not survival.sees_isolated:  # nodes that lost all edges are not seen either
        spread[[0]] = spread[[1]]
    return spread.tocsr(), acceptance


def _with_lost(acceptance: float, bound: int) -> Any:
    """Return weights that count nodes of degree at least 1, including those that lost all edges.

    Keeping each edge with probability a turns the generating function G(z) of the degrees into
    ``G(1 - a + a z)``. So before, ``G(-r) = n_0 - r n_1 + r**2 n_2 - ...`` nodes had no edge, with
    ``r = (1 - a) / a``. If r is large, the series oscillates, so r is limited to 1/2.
    """
    ratio = min((1 - acceptance) / acceptance, 0.5)
    row = np.zeros((1, bound + 1))
    row[0, 1] = 1.0
    for degree in range(1, min(bound, 8)):
        lost = -((-ratio) ** degree)
        row[0, degree] += lost
        row[0, degree + 1] -= lost
    return row
