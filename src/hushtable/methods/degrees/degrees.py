"""Degrees: publish the degree sequence of a graph so that whole nodes are protected.

The promise, the algorithm and the proofs are in ``degrees.md`` beside this file.
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

from hushtable.codes import as_numpy
from hushtable.engine.sealed_graph import SealedGraph
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, GraphMethod, Plan, Released
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.degrees.fit import (
    DegreeDistribution,
    as_projected,
    fit_counts,
    fit_regions,
    undo_projection,
)
from hushtable.methods.parameters import parameter, part, whole
from hushtable.privacy.degree_mechanisms import MiddleCuts
from hushtable.privacy.distributions import laplace_variance
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanism import Laplace
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed
from hushtable.schema import Schema

Mechanism = Literal["cumulative", "partition"]
Population = Literal["listed", "endpoints"]
Fit = Literal["smooth", "isotonic"]
Tail = Literal["model", "bound"]

PRIVATE = "private"
SMALLEST_BOUND = 4
LARGEST_BOUND = 1 << 20
SURE = 0.975
"""How sure a private bound is to reach the h-index: below it, a graph of even degrees is lost."""
BEYOND = Fraction(3, 2)
"""It is at least so many times what the h-index likely is: few nodes of a long tail reach it."""

LEAST_VARIANCE = 1e-6  # noise that is almost surely 0 must not divide by 0
LARGEST_DEGREE = 16
"""Published degrees go up to this multiple of the bound; see `hushtable.methods.degrees.fit`."""


@dataclass(frozen=True)
class Shares:
    """Say how epsilon is divided; a step that is not taken has 0."""

    bound: Fraction
    n_nodes: Fraction
    splits: Fraction
    counts: Fraction


def _public_or_private(name: str, given: Any) -> int | str:
    """Read a public bound on degrees, or the word for one that is chosen privately."""
    if given == PRIVATE:
        return PRIVATE
    try:
        return int(whole(1, LARGEST_BOUND)(name, given))
    except ParameterError:
        raise ParameterError(
            f"{name} is {given!r}; it must be 'private' or a whole number from 1 to "
            f"{LARGEST_BOUND:,}."
        ) from None


@dataclass(frozen=True, kw_only=True)
class Degrees(GraphMethod):
    """Publish the degree sequence of a graph; one node with all its edges is protected.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, such as 1.
    max_degree : int or "private"
        Public bound on degrees, or ``private``: chosen with part of epsilon. A number must not come
        from the graph. ``private`` follows the graph's h-index, paid for with `bound_share`.
    mechanism : {"cumulative", "partition"}
        How to count: ``cumulative`` counts the nodes up to each degree and is better, ``partition``
        cuts the degrees into regions as Qardaji and Li do, repaired, to compare with.
    population : {"listed", "endpoints"}
        Where nodes come from: a list beside the edges (``listed``), or their edges alone
        (``endpoints``), at twice the noise. A node that is listed stays when its edges go.
    n_nodes_share : number or str
        Share of epsilon for the number of nodes (``listed`` only).
    bound_share : number or str
        Share of epsilon for choosing the bound (``private`` only).
    largest_bound : int
        The largest bound that ``private`` may choose.
    n_levels : int
        How often ``partition`` cuts the degrees; public.
    fit : {"smooth", "isotonic"}
        How noise is taken off afterwards: ``smooth``, which falls back to isotonic regression by
        itself, or ``isotonic`` regression alone.
    tail : {"model", "bound"}
        What becomes of the edges that the bound took away: ``model`` estimates them, ``bound``
        leaves degrees bounded.

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
    paper: ClassVar[str] = (
        "Qardaji and Li, recursive partitioning and summarization (section 5), repaired; "
        "edge addition after Day, Li and Lyu."
    )
    summary: ClassVar[str] = "Publish the degree sequence of a graph, protecting whole nodes."
    estimator_kind: ClassVar[str] = "degrees"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    max_degree: int | str = parameter(read=_public_or_private, default=PRIVATE)
    mechanism: Mechanism = parameter(default="cumulative")
    population: Population = parameter(default="listed")
    n_nodes_share: Fraction = parameter(read=part, default=Fraction(1, 10))
    bound_share: Fraction = parameter(read=part, default=Fraction(1, 10))
    largest_bound: int = parameter(read=whole(SMALLEST_BOUND, LARGEST_BOUND), default=1024)
    n_levels: int = parameter(read=whole(1, 20), default=3)
    fit: Fit = parameter(default="smooth")
    tail: Tail = parameter(default="model")

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Say where nothing is left for the counts."""
        if fields_are_right and self.shares.counts <= 0:
            return ["n_nodes_share and bound_share leave nothing for the counts."]
        return []

    @property
    def listed(self) -> bool:
        """Whether nodes come from a list of their own."""
        return self.population == "listed"

    @cached_property
    def shares(self) -> Shares:
        """How epsilon is divided."""
        bound = self.epsilon * self.bound_share if self.max_degree == PRIVATE else Fraction(0)
        n_nodes = self.epsilon * self.n_nodes_share if self.listed else Fraction(0)
        rest = self.epsilon - bound - n_nodes
        splits = rest / 2 if self.mechanism == "partition" else Fraction(0)
        return Shares(bound, n_nodes, splits, rest - splits)

    @property
    def bounds(self) -> list[int]:
        """The smallest and the largest bound that may come out; the public one is both.

        Examples
        --------
        >>> Degrees(epsilon=1, largest_bound=50).bounds
        [4, 50]
        """
        if isinstance(self.max_degree, int):
            return [self.max_degree, self.max_degree]
        return [SMALLEST_BOUND, self.largest_bound]

    def sensitivity(self, bound: int) -> int:
        """Say by how much one node changes the counts under a bound, in all.

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
        """Give the scale of the noise on each count under a bound."""
        return self.sensitivity(bound) / self.shares.counts

    def check_input(self, *, listed: bool) -> None:
        """Refuse a list of nodes where there must be none, and the other way round."""
        if self.listed and not listed:
            raise ParameterError(
                "population is 'listed', but there is no list of nodes. Give one (nodes), or use "
                "population 'endpoints' if nodes are in the data only through their edges; that "
                "costs twice the noise."
            )
        if listed and not self.listed:
            raise ParameterError(
                "population is 'endpoints', but a list of nodes is given. Leave it out, or use "
                "population 'listed', which needs half the noise."
            )

    def plan(self, name: str = "graph") -> DegreesPlan:
        """Say what is published: a table with one row per node and its degree."""
        lowest = 0 if self.listed else 1
        highest = self.bounds[-1] * (LARGEST_DEGREE if self.tail == "model" else 1)
        degree = {"type": "integer", "low": lowest, "high": highest}
        content = {"name": name, "unit": "node", "columns": {"degree": degree}}
        return DegreesPlan(self, Schema.from_dict(content))


@dataclass(frozen=True)
class DegreesPlan(Plan[SealedGraph]):
    """Hold how degrees are bounded, counted and noised, and what is published of them."""

    method: Degrees
    schema: Schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed node with all its edges."""
        return (PureDP(epsilon=self.method.epsilon, unit=self.schema.unit, neighbors="add-remove"),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say how noisy the counts will be, for each bound that may come out."""
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
                lines["warning"] = (
                    f"with {rows:,} nodes the noise is as large as the counts; use a smaller "
                    "max_degree or a larger epsilon."
                )
        return Forecast(lines=lines, split=split, n_cells=largest + 1, memory_mb=largest * 1e-3 + 1)

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Say how far the number of nodes in a range of degrees will be off.

        Fitting afterwards only takes noise off. What bounding the degrees changes is not noise and
        is not in it.

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
            f"{bound} The question takes the same share of the regions as of the nodes.",
        )  # fmt: skip

    # --- the run ----------------------------------------------------------------------------------

    def release(self, source: SealedGraph, noise: Noise) -> Released:
        """Measure; the rest is post-processing."""
        return self._released(*self.measure(source, noise))

    def measure(self, graph: SealedGraph, noise: Noise) -> tuple[pa.Table, dict[str, Any]]:
        """Bound the degrees, count, add noise: all that ever sees the graph.

        Returns
        -------
        noisy, measured
            The table of noisy counts; the bound, and the noisy number of nodes or None.
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
        """Take a bound beyond the h-index, as far as that can be told from a noisy one."""
        largest, epsilon = self.method.bounds[-1], self.method.shares.bound
        if not epsilon:
            return largest
        noisy = noise.open(graph.h_index(), Laplace(1 / epsilon), "choice of the bound")
        return private_bound(int(noisy[0]), float(1 / epsilon), largest)

    def _cumulative(self, counts: Sealed, bound: int, noise: Noise) -> pa.Table:
        noisy = noise.open(counts, Laplace(self.method.counts_scale(bound)), "counts")
        if self.method.listed:
            return pa.table({"degree": np.arange(bound), "nodes_up_to_degree": noisy})
        return pa.table({"degree": np.arange(1, bound + 1), "nodes_from_degree": noisy})

    def _partition(self, histogram: Sealed, bound: int, noise: Noise) -> pa.Table:
        """Cut all regions once per level, in their middle as far as that can be seen privately."""
        lowest = 0 if self.method.listed else 1
        last = bound - lowest  # places of the histogram, whose first is that of the lowest degree
        # Nodes at the bound are a region of their own: the model of the tail needs their number.
        regions = [(0, last), (last, last + 1)] if last else [(0, 1)]
        rate = self.method.shares.splits / self.method.n_levels / self.method.sensitivity(bound)
        for _ in range(self.method.n_levels):
            regions = noise.open(histogram, MiddleCuts(tuple(regions), rate), "splits")
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
        """Estimate the degree distribution from what was published, and nothing else.

        Parameters
        ----------
        noisy : Arrow table
            The table ``noisy`` of a release.
        measured : mapping
            ``max_degree`` and ``n_nodes`` from the statement.
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
            "The table 'data' is estimated from what was measured: the table 'noisy'"
            + (" and n_nodes." if self.method.listed else "."),
        ]
        if found.acceptance < 1:
            notes.append(
                "A model put back what the bound took away: it takes nodes below the bound to have "
                f"kept {found.acceptance:.1%} of their edges, and degrees beyond it to fall off "
                "exponentially."
            )
        settings = {
            **measured,
            "acceptance": found.acceptance,
            "power_law_exponent": None if math.isnan(exponent) else exponent,
            "notes": notes,
        }
        return Released(tables={"data": pa.table(table), "noisy": noisy}, settings=settings)


def private_bound(noisy: int, scale: float, largest: int) -> int:
    """Give a bound that is beyond the h-index, of which this is known, with the certainty `SURE`.

    All orders of size are as likely before. Noise as large as the number is taken back this way,
    and a negative one makes sense. Where noise is small, there is room beyond (`BEYOND`).

    Parameters
    ----------
    noisy : int
        A number with two-sided geometric noise.
    scale : float
        The scale of the noise.
    largest : int
        It is at most this, and at least `SMALLEST_BOUND`: both are public.

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
    """Give the variance of the two-sided geometric noise of that scale."""
    return max(float(laplace_variance(float(scale))), LEAST_VARIANCE)
