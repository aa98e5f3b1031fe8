"""Degrees: publish the degree sequence of a graph so that whole nodes are protected.

The promise, the algorithm and the proofs are in ``degrees.md`` beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.edges import Graph
from hushtable.errors import ParameterError
from hushtable.methods.base import CountError, Forecast, GraphMethod, Released
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.degrees.fit import (
    DegreeDistribution,
    as_projected,
    fit_counts,
    fit_regions,
    undo_projection,
)
from hushtable.methods.degrees.projection import OrderedEdges
from hushtable.privacy.guarantee import Guarantee, PureDP, Unit, check_epsilon
from hushtable.privacy.noise import Noise, add_noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema

Mechanism = Literal["cumulative", "partition"]
Population = Literal["listed", "endpoints"]
Fit = Literal["smooth", "isotonic"]
Tail = Literal["model", "bound"]

PRIVATE = "private"
SMALLEST_BOUND = 4
LARGEST_BOUND = 1 << 20
DOUBLINGS = 1
"""A private bound is this many doublings above the first one that few nodes reach."""

LEAST_VARIANCE = 1e-6  # noise that is almost surely 0 must not divide by 0
LARGEST_DEGREE = 16
"""Published degrees go up to this multiple of the bound; see `hushtable.methods.degrees.fit`."""


@dataclass(frozen=True)
class _Shares:
    """How epsilon is divided; a step that is not taken has 0."""

    bound: Fraction
    n_nodes: Fraction
    splits: Fraction
    counts: Fraction


@dataclass(frozen=True, kw_only=True)
class Degrees(GraphMethod):
    """Publish the degree sequence of a graph; one node with all its edges is protected.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss, for the whole release.
    max_degree : int or "private"
        Degrees are bounded by this before they are counted. A number must be public: it must not
        come from the graph. ``private`` chooses a power of two, paid for with `bound_share`.
    mechanism : {"cumulative", "partition"}
        ``cumulative`` counts the nodes up to each degree. ``partition`` cuts the degrees into
        regions as Qardaji and Li do, repaired, to compare with.
    population : {"listed", "endpoints"}
        Where nodes come from. ``listed``: a list of nodes is given beside the edges, and a node
        stays in it when its edges go. ``endpoints``: a node is in the data only through its edges;
        this costs twice the noise.
    n_nodes_share : number or str
        Share of epsilon for the number of nodes (``listed`` only).
    bound_share : number or str
        Share of epsilon for choosing the bound (``private`` only).
    largest_bound : int
        The largest bound that ``private`` may choose.
    n_levels : int
        How often ``partition`` cuts; public.
    fit : {"smooth", "isotonic"}
        How noise is taken off afterwards; ``smooth`` falls back to isotonic regression by itself.
    tail : {"model", "bound"}
        ``model`` estimates what bounding the degrees took away; ``bound`` leaves degrees bounded.

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
    estimator: ClassVar[str] = "degrees"

    epsilon: Fraction = field(
        metadata={"help": "Bound on the privacy loss of the whole release, such as 1."}
    )
    max_degree: int | str = field(
        default=PRIVATE,
        metadata={"help": "Public bound on degrees, or private: chosen with part of epsilon."},
    )
    mechanism: Mechanism = field(
        default="cumulative",
        metadata={"help": "cumulative is better; partition is the paper's tree, repaired."},
    )
    population: Population = field(
        default="listed",
        metadata={
            "help": "listed: a list of nodes is given; endpoints: nodes are the ends of edges, at "
            "twice the noise."
        },
    )
    n_nodes_share: Fraction = field(
        default=Fraction(1, 10),
        metadata={"help": "Share of epsilon for the number of nodes (listed)."},
    )
    bound_share: Fraction = field(
        default=Fraction(1, 5),
        metadata={"help": "Share of epsilon for choosing the bound (private)."},
    )
    largest_bound: int = field(
        default=1024, metadata={"help": "The largest bound that private may choose."}
    )
    n_levels: int = field(default=3, metadata={"help": "How often partition cuts the degrees."})
    fit: Fit = field(
        default="smooth",
        metadata={"help": "How noise is taken off: smooth, or isotonic regression alone."},
    )
    tail: Tail = field(
        default="model",
        metadata={"help": "model estimates what the bound took away; bound leaves it out."},
    )

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("epsilon", "n_nodes_share", "bound_share"):
            try:
                value = as_rational(getattr(self, name), name=name)
                object.__setattr__(self, name, value)
                if name == "epsilon":
                    check_epsilon(value)
                elif not 0 < value < 1:
                    problems.append(f"{name} is {value}; it must lie between 0 and 1.")
            except ParameterError as error:
                problems += error.problems
        for name, kind in (
            ("mechanism", Mechanism), ("population", Population), ("fit", Fit), ("tail", Tail),
        ):  # fmt: skip
            if getattr(self, name) not in get_args(kind):
                allowed = " or ".join(get_args(kind))
                problems.append(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")
        if isinstance(self.max_degree, str) and self.max_degree.isdecimal():
            object.__setattr__(self, "max_degree", int(self.max_degree))
        if self.max_degree != PRIVATE and not _whole(self.max_degree, 1, LARGEST_BOUND):
            problems.append(
                f"max_degree is {self.max_degree!r}; it must be 'private' or a whole number from 1 "
                f"to {LARGEST_BOUND:,}."
            )
        if not _whole(self.largest_bound, SMALLEST_BOUND, LARGEST_BOUND):
            problems.append(
                f"largest_bound is {self.largest_bound!r}; it must be a whole number from "
                f"{SMALLEST_BOUND} to {LARGEST_BOUND:,}."
            )
        if not _whole(self.n_levels, 1, 20):
            problems.append(
                f"n_levels is {self.n_levels!r}; it must be a whole number from 1 to 20."
            )
        if not problems and self._shares.counts <= 0:
            problems.append("n_nodes_share and bound_share leave nothing for the counts.")
        if problems:
            raise ParameterError(problems)

    # --- what is public ---------------------------------------------------------------------------

    @property
    def _listed(self) -> bool:
        return self.population == "listed"

    @property
    def _shares(self) -> _Shares:
        bound = self.epsilon * self.bound_share if self.max_degree == PRIVATE else Fraction(0)
        n_nodes = self.epsilon * self.n_nodes_share if self._listed else Fraction(0)
        rest = self.epsilon - bound - n_nodes
        splits = rest / 2 if self.mechanism == "partition" else Fraction(0)
        return _Shares(bound, n_nodes, splits, rest - splits)

    @property
    def bounds(self) -> list[int]:
        """The bounds that may come out: one where it is public, else powers of two.

        Examples
        --------
        >>> Degrees(epsilon=1, largest_bound=50).bounds
        [4, 8, 16, 32]
        """
        if isinstance(self.max_degree, int):
            return [self.max_degree]
        n_doublings = (self.largest_bound // SMALLEST_BOUND).bit_length()
        return [SMALLEST_BOUND << step for step in range(n_doublings)]

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
        return bound if self._listed else 2 * bound

    def counts_scale(self, bound: int) -> Fraction:
        """Give the scale of the noise on each count under a bound."""
        return self.sensitivity(bound) / self._shares.counts

    def guarantee(self) -> tuple[Guarantee, ...]:
        """Promise differential privacy for one added or removed node with all its edges."""
        return (PureDP(epsilon=self.epsilon, unit=Unit(kind="node"), neighbors="add-remove"),)

    def schema(self, name: str) -> Schema:
        """Describe the release as a table with one row per node and its degree."""
        lowest = 0 if self._listed else 1
        highest = self.bounds[-1] * (LARGEST_DEGREE if self.tail == "model" else 1)
        degree = {"type": "integer", "low": lowest, "high": highest}
        return Schema.from_dict({"name": name, "unit": "node", "columns": {"degree": degree}})

    def check_input(self, *, listed: bool) -> None:
        """Refuse a list of nodes where there must be none, and the other way round."""
        if self._listed and not listed:
            raise ParameterError(
                "population is 'listed', but there is no list of nodes. Give one (nodes), or use "
                "population 'endpoints' if nodes are in the data only through their edges; that "
                "costs twice the noise."
            )
        if listed and not self._listed:
            raise ParameterError(
                "population is 'endpoints', but a list of nodes is given. Leave it out, or use "
                "population 'listed', which needs half the noise."
            )

    def forecast(self, n_nodes: int | None = None) -> Forecast:
        """Say how noisy the counts will be, for each bound that may come out."""
        shares = self._shares
        split = {"counts": shares.counts}
        if shares.n_nodes:
            split["number of nodes"] = shares.n_nodes
        if shares.splits:
            split["splits"] = shares.splits
        if shares.bound:
            split["choice of the bound"] = shares.bound
        smallest, largest = self.bounds[0], self.bounds[-1]
        lines: dict[str, str | float | int] = {}
        for bound in dict.fromkeys((smallest, largest)):
            std = math.sqrt(2) * float(self.counts_scale(bound))
            lines[f"standard deviation of a count, degrees up to {bound:,}"] = std
        if shares.n_nodes:
            lines["standard deviation of the number of nodes"] = math.sqrt(2) / float(
                shares.n_nodes
            )
        if n_nodes is not None:
            std = math.sqrt(2) * float(self.counts_scale(smallest))
            lines["standard deviation of a share of nodes"] = std / max(n_nodes, 1)
            if std > n_nodes / 4:
                lines["warning"] = (
                    f"with {n_nodes:,} nodes the noise is as large as the counts; use a smaller "
                    "max_degree or a larger epsilon."
                )
        return Forecast(lines=lines, split=split, n_cells=largest + 1, memory_mb=largest * 1e-3 + 1)

    def count_error(self, *, share: float) -> CountError:
        """Say how far the number of nodes in a range of degrees will be off; sees no data.

        Fitting afterwards only takes noise off. What bounding the degrees changes is not noise and
        is not in it.

        Examples
        --------
        >>> round(Degrees(epsilon=1, max_degree=64).count_error(share=0.01).half_width)
        292
        """
        rate = 1 / self.counts_scale(self.bounds[-1])
        bound = f"Degrees are bounded by {self.bounds[-1]:,}, the largest that may be chosen."
        if self.mechanism == "cumulative":
            return laplace_error(rate, 2, f"{bound} A range is the difference of two counts.")
        n_regions = 2**self.n_levels + 1
        return laplace_error(
            rate, n_asked(share, n_regions),
            f"{bound} The question takes the same share of the regions as of the nodes.",
        )  # fmt: skip

    # --- the run ----------------------------------------------------------------------------------

    def run(self, graph: Graph, noise: Noise) -> Released:
        """Measure; the rest is post-processing."""
        return self._released(*self.measure(graph, noise))

    def measure(self, graph: Graph, noise: Noise) -> tuple[pa.Table, dict[str, Any]]:
        """Bound the degrees, count, add noise: all that ever sees the graph.

        Returns
        -------
        noisy, measured
            The table of noisy counts; the bound, and the noisy number of nodes or None.
        """
        self.check_input(listed=graph.listed)
        edges = OrderedEdges(graph, key=noise.integer_below(1 << 64))
        bound = self._choose_bound(edges, noise)
        histogram = np.bincount(edges.degrees(bound), minlength=bound + 1).astype(np.int64)
        if self.mechanism == "partition":
            noisy = self._partition(histogram, noise)
        else:
            noisy = self._cumulative(histogram, noise)
        n_nodes = None
        if self._listed:
            drawn = noise.discrete_laplace(1 / self._shares.n_nodes, size=1)
            n_nodes = int(add_noise(np.array([graph.n_nodes], np.int64), drawn)[0])
        return noisy, {"max_degree": bound, "n_nodes": n_nodes}

    def _choose_bound(self, edges: OrderedEdges, noise: Noise) -> int:
        """Take the first bound that leaves few nodes at it (sparse vector), doubled."""
        bounds, epsilon = self.bounds, self._shares.bound
        if not epsilon:
            return bounds[0]
        scale = 4 / epsilon
        few = scale + int(noise.discrete_laplace(scale / 2, size=1)[0])
        for place, bound in enumerate(bounds[:-1]):
            n_full = int(np.count_nonzero(edges.degrees(bound) == bound))
            drawn = int(noise.discrete_laplace(scale, size=1)[0])
            if Fraction(n_full, bound + 1) + drawn <= few:
                return bounds[min(place + DOUBLINGS, len(bounds) - 1)]
        return bounds[-1]

    def _cumulative(self, histogram: NDArray[np.int64], noise: Noise) -> pa.Table:
        bound = len(histogram) - 1
        drawn = noise.discrete_laplace(self.counts_scale(bound), size=bound)
        if self._listed:
            counts = np.cumsum(histogram)[:-1]
            names, degrees = "nodes_up_to_degree", np.arange(bound)
        else:
            counts = np.cumsum(histogram[::-1])[::-1][1:].copy()
            names, degrees = "nodes_from_degree", np.arange(1, bound + 1)
        return pa.table({"degree": degrees, names: add_noise(counts, drawn)})

    def _partition(self, histogram: NDArray[np.int64], noise: Noise) -> pa.Table:
        """Cut all regions once per level, in their middle as far as that can be seen privately."""
        bound = len(histogram) - 1
        lowest = 0 if self._listed else 1
        # Nodes at the bound are a region of their own: the model of the tail needs their number.
        regions = [(lowest, bound), (bound, bound + 1)] if bound > lowest else [(lowest, bound + 1)]
        per_level = self._shares.splits / self.n_levels
        for _ in range(self.n_levels):
            cut: list[tuple[int, int]] = []
            for begin, end in regions:
                if end - begin == 1:
                    cut.append((begin, end))
                    continue
                left = np.cumsum(histogram[begin : end - 1])
                scores = np.minimum(left, histogram[begin:end].sum() - left)
                # Not that scores are monotone: the loss is bounded through their range, which the
                # exponential mechanism (and only it) allows; see the proof.
                place = noise.choose(
                    scores,
                    epsilon=per_level,
                    sensitivity=Fraction(2 * bound + 1),
                    monotone=True,
                    rule="exponential",
                )
                cut += [(begin, begin + place + 1), (begin + place + 1, end)]
            regions = cut
        starts = np.array([begin for begin, _ in regions], np.int64)
        counts = np.add.reduceat(histogram, starts)
        drawn = noise.discrete_laplace(self.counts_scale(bound), size=len(starts))
        ends = np.array([end - 1 for _, end in regions], np.int64)
        return pa.table(
            {"first_degree": starts, "last_degree": ends, "nodes": add_noise(counts, drawn)}
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
        n_nodes_scale = 1 / self._shares.n_nodes if self._listed else Fraction(0)
        known: dict[str, Any] = {
            "variance": _variance(self.counts_scale(bound)),
            "n_nodes": None if n_nodes is None else float(n_nodes),
            "n_nodes_variance": _variance(n_nodes_scale) if n_nodes_scale else 0.0,
        }
        counts = noisy.column(noisy.num_columns - 1).to_numpy().astype(np.float64)
        if self.mechanism == "partition":
            starts = noisy.column("first_degree").to_numpy()
            survival = fit_regions(counts, starts, max_degree=bound, **known)
        else:
            rising = counts if self._listed else -counts
            survival = fit_counts(rising, smooth=self.fit == "smooth", **known)
        return undo_projection(survival) if self.tail == "model" else as_projected(survival)

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
            + (" and n_nodes." if self._listed else "."),
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
        return Released(tables={"data": pa.table(table), "noisy": noisy}, estimator=settings)


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _variance(scale: Fraction) -> float:
    """Give the variance of the two-sided geometric noise of that scale."""
    rate = float(1 / scale)
    return max(2 * math.exp(-rate) / math.expm1(-rate) ** 2, LEAST_VARIANCE)
