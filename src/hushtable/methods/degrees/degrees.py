"""Method degrees: degree sequence of a graph with node-level privacy.

Guarantee, algorithm and proofs: ``degrees.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from hushtable.engine.graph import SealedGraph
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, GraphMethod, PurePlan, Released
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.degrees.distribution_fit import (
    DegreeDistribution,
    as_projected,
    fit_counts,
    fit_regions,
    undo_projection,
)
from hushtable.methods.parameters import parameter, part, said, whole
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.private_choice import HistogramCuts
from hushtable.privacy.noise.distributions import laplace_variance
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy

DegreesMechanism = Literal["cumulative", "partition"]
Population = Literal["listed", "endpoints"]
Fit = Literal["smooth", "isotonic"]
Tail = Literal["model", "bound"]

PRIVATE = "private"
SMALLEST_BOUND = 4
LARGEST_BOUND = 1 << 20
SURE = 0.975
"""Probability that a private bound is at least the h-index. In a regular graph, a smaller bound
would remove edges of every node."""
BEYOND = Fraction(3, 2)
"""A private bound is at least this multiple of the estimated h-index, to keep more of the tail."""

LEAST_VARIANCE = 1e-6  # avoids division by 0 if noise is almost surely 0
LARGEST_DEGREE = 16
"""Largest published degree, as a multiple of the bound; see `distribution_fit.LONGEST_TAIL`."""


@dataclass(frozen=True)
class Shares:
    """Epsilon of each step; 0 if a step is not taken."""

    bound: Fraction
    n_nodes: Fraction
    splits: Fraction
    counts: Fraction


def _public_or_private(name: str, given: Any) -> int | str:
    """Read a public bound on degrees, or "private" for one that is chosen privately."""
    if given == PRIVATE:
        return PRIVATE
    try:
        return int(whole(1, LARGEST_BOUND)(name, given))
    except ParameterError:
        raise ParameterError(
            said("degree bound", name=name, given=given, largest=LARGEST_BOUND)
        ) from None


@dataclass(frozen=True, kw_only=True)
class Degrees(GraphMethod):
    """Publish the degree sequence of a graph; one node with all its edges is protected.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1.
    max_degree : int or "private"
        Public bound on degrees, or ``private`` to choose it with part of epsilon. A number must not
        come from the graph. ``private`` follows the graph's h-index, paid from `bound_share`.
    mechanism : {"cumulative", "partition"}
        How to count: ``cumulative`` counts the nodes up to each degree and is more accurate,
        ``partition`` splits the degrees into regions as Qardaji and Li do (repaired; for
        comparison).
    population : {"listed", "endpoints"}
        Where nodes come from: a list beside the edges (``listed``), or only the edges
        (``endpoints``), with twice the noise. A listed node remains if its edges are removed.
    n_nodes_share : number or str
        Share of epsilon for the number of nodes (only with ``listed``).
    bound_share : number or str
        Share of epsilon for choosing the bound (only with ``private``).
    largest_bound : int
        Largest bound that ``private`` may choose.
    n_levels : int
        Number of times that ``partition`` splits the degrees; public.
    fit : {"smooth", "isotonic"}
        Post-processing that removes noise: ``smooth`` curve, with isotonic regression as a
        fallback, or ``isotonic`` regression only.
    tail : {"model", "bound"}
        Treatment of the edges that the bound removed: ``model`` estimates them, ``bound`` keeps
        degrees bounded.

    Examples
    --------
    >>> method = Degrees(epsilon=1, max_degree=64)
    >>> method.guarantee()[0].epsilon, method.guarantee()[0].unit.kind
    (Fraction(1, 1), 'node')
    >>> method.counts_scale(64)
    Fraction(640, 9)
    >>> Degrees(epsilon=0, max_degree=0)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: epsilon is 0; it must be above 0. Typical values are 0.1 to 5.
    max_degree is 0; it must be 'private' or a whole number from 1 to 1,048,576.
    """

    name: ClassVar[str] = "degrees"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    max_degree: int | str = parameter(read=_public_or_private, default=PRIVATE)
    mechanism: DegreesMechanism = parameter(default="cumulative")
    population: Population = parameter(default="listed")
    n_nodes_share: Fraction = parameter(read=part, default=Fraction(1, 10))
    bound_share: Fraction = parameter(read=part, default=Fraction(1, 10))
    largest_bound: int = parameter(read=whole(SMALLEST_BOUND, LARGEST_BOUND), default=1024)
    n_levels: int = parameter(read=whole(1, 20), default=3)
    fit: Fit = parameter(default="smooth")
    tail: Tail = parameter(default="model")

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that some epsilon is left for the counts."""
        if fields_are_right and self.shares.counts <= 0:
            return ["n_nodes_share and bound_share leave no epsilon for the counts; lower them."]
        return []

    @property
    def listed(self) -> bool:
        """True if nodes come from a list."""
        return self.population == "listed"

    @cached_property
    def shares(self) -> Shares:
        """Epsilon of each step."""
        bound = self.epsilon * self.bound_share if self.max_degree == PRIVATE else Fraction(0)
        n_nodes = self.epsilon * self.n_nodes_share if self.listed else Fraction(0)
        rest = self.epsilon - bound - n_nodes
        splits = rest / 2 if self.mechanism == "partition" else Fraction(0)
        return Shares(bound, n_nodes, splits, rest - splits)

    @property
    def bounds(self) -> list[int]:
        """Smallest and largest possible bound; equal if the bound is public.

        Examples
        --------
        >>> Degrees(epsilon=1, largest_bound=50).bounds
        [4, 50]
        """
        if isinstance(self.max_degree, int):
            return [self.max_degree, self.max_degree]
        return [SMALLEST_BOUND, self.largest_bound]

    def sensitivity(self, bound: int) -> int:
        """Return the sensitivity (L1) of the counts to one node, for a bound on degrees.

        Examples
        --------
        >>> Degrees(epsilon=1, max_degree=8).sensitivity(8)
        8
        >>> Degrees(epsilon=1, max_degree=8, population="endpoints").sensitivity(8)
        16
        >>> Degrees(epsilon=1, max_degree=8, mechanism="partition").sensitivity(8)
        17
        """
        if self.mechanism == "partition":
            return 2 * bound + 1
        return bound if self.listed else 2 * bound

    def counts_scale(self, bound: int) -> Fraction:
        """Return the noise scale of each count, for a bound on degrees."""
        return self.sensitivity(bound) / self.shares.counts

    def check_input(self, *, listed: bool) -> None:
        """Refuse a missing list of nodes, or one that is not allowed."""
        if self.listed and not listed:
            raise ParameterError(said["no list of nodes"])
        if listed and not self.listed:
            raise ParameterError(said["list of nodes"])

    def plan(self, name: str = "graph") -> DegreesPlan:
        """Return the plan; its schema has one row per node with its degree."""
        lowest = 0 if self.listed else 1
        highest = self.bounds[-1] * (LARGEST_DEGREE if self.tail == "model" else 1)
        degree = {"type": "integer", "low": lowest, "high": highest}
        content = {"name": name, "unit": "node", "columns": {"degree": degree}}
        return DegreesPlan(self, Schema.from_dict(content))


@dataclass(frozen=True)
class DegreesPlan(PurePlan[SealedGraph]):
    """Plan of method degrees: how degrees are bounded, counted, noised and published."""

    method: Degrees
    schema: Schema

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the noise of the counts, for the smallest and largest bound."""
        shares = self.method.shares
        split = {"counts": shares.counts}
        if shares.n_nodes:
            split["number of nodes"] = shares.n_nodes
        if shares.splits:
            split["splits"] = shares.splits
        if shares.bound:
            split["choice of the bound"] = shares.bound
        smallest, largest = self.method.bounds[0], self.method.bounds[-1]
        lines: dict[str, str | float | int] = {}
        for bound in dict.fromkeys((smallest, largest)):
            std = math.sqrt(2) * float(self.method.counts_scale(bound))
            lines[f"standard deviation of a count, degrees up to {bound:,}"] = std
        if shares.n_nodes:
            lines["standard deviation of the number of nodes"] = math.sqrt(2) / float(
                shares.n_nodes
            )
        if rows is not None:
            std = math.sqrt(2) * float(self.method.counts_scale(smallest))
            lines["standard deviation of a share of nodes"] = std / max(rows, 1)
            if std > rows / 4:
                lines["warning"] = said("noisy degrees", rows=rows)
        return Forecast(lines=lines, split=split, n_cells=largest + 1, memory_mb=largest * 1e-3 + 1)

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error of the number of nodes in a range of degrees.

        Fitting afterwards only reduces noise. The effect of bounding the degrees is not noise and
        is not included.

        Examples
        --------
        >>> plan = Degrees(epsilon=1, max_degree=64).plan()
        >>> round(plan.count_error(rows=None, share=0.01).half_width)
        292
        """
        rate = 1 / self.method.counts_scale(self.method.bounds[-1])
        bound = (
            f"Degrees are bounded by {self.method.bounds[-1]:,}, the largest that may be chosen."
        )
        if self.method.mechanism == "cumulative":
            return laplace_error(rate, 2, f"{bound} A range is the difference of two counts.")
        n_regions = 2**self.method.n_levels + 1
        return laplace_error(
            rate, n_asked(share, n_regions),
            f"{bound} The question selects the same share of the regions as of the nodes.",
        )  # fmt: skip

    # --- the run ----------------------------------------------------------------------------------

    def release(self, source: SealedGraph, noise: Noise) -> Released:
        """Measure the graph with noise, then post-process."""
        return self._released(*self.measure(source, noise))

    def measure(self, graph: SealedGraph, noise: Noise) -> tuple[pa.Table, dict[str, Any]]:
        """Bound the degrees, count, and add noise; nothing else uses the graph.

        Return the table of noisy counts, and a mapping with the bound and the noisy number of
        nodes, which is None unless nodes are listed.
        """
        self.method.check_input(listed=graph.listed)
        bound = self.choose_bound(graph, noise)
        degrees = graph.bounded(key=noise.integer_below(1 << 64))
        if self.method.mechanism == "partition":
            noisy = self._partition(degrees.histogram(bound), bound, noise)
        else:
            noisy = self._cumulative(degrees.cumulative(bound), bound, noise)
        n_nodes = None
        if self.method.listed:
            law = Laplace(1 / self.method.shares.n_nodes)
            n_nodes = int(noise.open(graph.n_nodes(), law, "number of nodes")[0])
        return noisy, {"max_degree": bound, "n_nodes": n_nodes}

    def choose_bound(self, graph: SealedGraph, noise: Noise) -> int:
        """Return the public bound, or choose one from a noisy h-index; see `private_bound`."""
        largest, epsilon = self.method.bounds[-1], self.method.shares.bound
        if not epsilon:
            return largest
        noisy = noise.open(graph.h_index(), Laplace(1 / epsilon), "choice of the bound")
        return private_bound(int(noisy[0]), float(1 / epsilon), largest)

    def _cumulative(self, counts: SealedCounts, bound: int, noise: Noise) -> pa.Table:
        noisy = noise.open(counts, Laplace(self.method.counts_scale(bound)), "counts")
        if self.method.listed:
            return pa.table({"degree": np.arange(bound), "nodes_up_to_degree": noisy})
        return pa.table({"degree": np.arange(1, bound + 1), "nodes_from_degree": noisy})

    def _partition(self, histogram: SealedCounts, bound: int, noise: Noise) -> pa.Table:
        """Split each region privately near its median, once per level; count regions with noise."""
        lowest = 0 if self.method.listed else 1
        last = bound - lowest  # positions of the histogram start at the lowest degree
        # Nodes at the bound are a separate region, because the model of the tail needs their
        # number.
        regions = [(0, last), (last, last + 1)] if last else [(0, 1)]
        rate = self.method.shares.splits / self.method.n_levels / self.method.sensitivity(bound)
        for _ in range(self.method.n_levels):
            regions = noise.open(histogram, HistogramCuts(tuple(regions), rate), "splits")
        of_region = np.repeat(np.arange(len(regions)), [end - begin for begin, end in regions])
        counts = histogram.merged(of_region, len(regions))
        law = Laplace(self.method.counts_scale(bound))
        return pa.table(
            {
                "first_degree": np.array([lowest + begin for begin, _ in regions], np.int64),
                "last_degree": np.array([lowest + end - 1 for _, end in regions], np.int64),
                "nodes": noise.open(counts, law, "counts"),
            }
        )

    # --- after the noise --------------------------------------------------------------------------

    def distribution(self, noisy: pa.Table, measured: Mapping[str, Any]) -> DegreeDistribution:
        """Estimate the degree distribution from published numbers only.

        `noisy` is the table of this name in a release; `measured` has ``max_degree`` and
        ``n_nodes`` from the statement.
        """
        bound, n_nodes = int(measured["max_degree"]), measured["n_nodes"]
        n_nodes_scale = 1 / self.method.shares.n_nodes if self.method.listed else Fraction(0)
        known: dict[str, Any] = {
            "variance": _variance(self.method.counts_scale(bound)),
            "n_nodes": None if n_nodes is None else float(n_nodes),
            "n_nodes_variance": _variance(n_nodes_scale) if n_nodes_scale else 0.0,
        }
        counts = as_numpy(noisy.column(noisy.num_columns - 1)).astype(np.float64)
        if self.method.mechanism == "partition":
            starts = as_numpy(noisy.column("first_degree"))
            survival = fit_regions(counts, starts, max_degree=bound, **known)
        else:
            rising = counts if self.method.listed else -counts
            survival = fit_counts(rising, smooth=self.method.fit == "smooth", **known)
        return undo_projection(survival) if self.method.tail == "model" else as_projected(survival)

    def _released(self, noisy: pa.Table, measured: dict[str, Any]) -> Released:
        found = self.distribution(noisy, measured)
        privacy_std, model_std = found.cumulative_stds()
        table = {
            "degree": np.arange(len(found.histogram)),
            "nodes": found.histogram,
            "nodes_up_to_degree": found.cumulative,
            "privacy_std": privacy_std,
            "model_std": model_std,
        }
        exponent = found.power_law_exponent()
        notes = [
            f"Degrees were bounded by {measured['max_degree']:,} before they were counted.",
            "The table 'data' is estimated from the measured table 'noisy'"
            + (" and n_nodes." if self.method.listed else "."),
        ]
        if found.acceptance < 1:
            notes.append(said("restored edges", kept=found.acceptance))
        settings = {
            **measured,
            "acceptance": found.acceptance,
            "power_law_exponent": None if math.isnan(exponent) else exponent,
            "notes": notes,
        }
        return Released(tables={"data": pa.table(table), "noisy": noisy}, settings=settings)


def private_bound(noisy: int, scale: float, largest: int) -> int:
    """Return a bound that is at least the h-index with probability `SURE`, or `largest`.

    The prior is uniform on the logarithm of the h-index. This shrinks estimates if noise is large,
    and handles negative ones. If noise is small, the factor `BEYOND` leaves a margin.

    Parameters
    ----------
    noisy : int
        The h-index with two-sided geometric noise.
    scale : float
        Scale of the noise.
    largest : int
        Public upper limit of the result; the lower limit is `SMALLEST_BOUND`.

    Examples
    --------
    >>> [private_bound(*noisy, 1024) for noisy in ((80, 5.0), (80, 40.0), (-90, 40.0))]
    [120, 156, 80]
    """
    sizes = np.arange(SMALLEST_BOUND, largest + 1)
    away = np.abs(sizes - noisy) / scale
    chances = np.cumsum(np.exp(away.min() - away) / sizes)
    likely, most = sizes[np.searchsorted(chances, chances[-1] * np.array([0.5, SURE]))]
    return min(max(int(most), math.ceil(BEYOND * int(likely))), largest)


def _variance(scale: Fraction) -> float:
    """Return the variance of two-sided geometric noise."""
    return max(float(laplace_variance(float(scale))), LEAST_VARIANCE)
