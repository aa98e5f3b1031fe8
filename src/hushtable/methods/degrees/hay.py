"""Hay, Li, Miklau and Jensen (2009): noise on the sorted degrees, then constrained inference.

A baseline to compare with. The promise and its proof are in ``hay.md`` beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from hushtable.engine.edges import Graph
from hushtable.errors import ParameterError
from hushtable.methods.degrees.projection import OrderedEdges
from hushtable.privacy.guarantee import Guarantee, PureDP, Unit, check_epsilon
from hushtable.privacy.noise import Noise, add_noise
from hushtable.privacy.rational import as_rational

Level = Literal["node", "edge"]


@dataclass(frozen=True, kw_only=True)
class HayDegrees:
    """Give a degree sequence with noise on each sorted degree.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss.
    level : {"node", "edge"}
        What is protected: a node with all its edges, or a single edge.
    n_nodes : int
        Public length of the sequence: shorter ones are filled up with zeros, of longer ones the
        smallest degrees are cut off.
    max_degree : int, optional
        Public bound on degrees, for level ``node``.

    Examples
    --------
    >>> HayDegrees(epsilon=1, level="node", n_nodes=100, max_degree=10).scale
    Fraction(20, 1)
    >>> HayDegrees(epsilon=1, level="edge", n_nodes=100).scale
    Fraction(2, 1)
    """

    epsilon: Fraction = field(metadata={"help": "Bound on the privacy loss, such as 1."})
    level: Level = field(metadata={"help": "node or edge: what is protected."})
    n_nodes: int = field(metadata={"help": "Public length of the sequence."})
    max_degree: int | None = field(
        default=None, metadata={"help": "Public bound on degrees, for level node."}
    )

    def __post_init__(self) -> None:
        problems: list[str] = []
        try:
            object.__setattr__(
                self, "epsilon", check_epsilon(as_rational(self.epsilon, name="epsilon"))
            )
        except ParameterError as error:
            problems += error.problems
        if self.level not in get_args(Level):
            problems.append(f"level is {self.level!r}; it must be node or edge.")
        elif (self.level == "node") != (self.max_degree is not None):
            problems.append("max_degree is needed for level node, and for that alone.")
        if self.max_degree is not None and self.max_degree < 1:
            problems.append(f"max_degree is {self.max_degree}; it must be at least 1.")
        if self.n_nodes < 1:
            problems.append(f"n_nodes is {self.n_nodes}; it must be at least 1.")
        if problems:
            raise ParameterError(problems)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on each degree."""
        return (2 if self.max_degree is None else 2 * self.max_degree) / self.epsilon

    def guarantee(self) -> tuple[Guarantee, ...]:
        """Promise differential privacy for one node, or for one edge (a row of the edge list)."""
        unit = Unit(kind="node" if self.level == "node" else "row")
        return (PureDP(epsilon=self.epsilon, unit=unit, neighbors="add-remove"),)

    def sequence(self, graph: Graph, noise: Noise) -> NDArray[np.int64]:
        """Give the noisy degree sequence, from the largest down."""
        highest = self.n_nodes - 1
        degrees = graph.degrees()
        if self.max_degree is not None:
            edges = OrderedEdges(graph, key=noise.integer_below(1 << 64))
            degrees, highest = edges.degrees(self.max_degree), self.max_degree
        falling = np.zeros(self.n_nodes, np.int64)
        kept = np.sort(degrees)[::-1][: self.n_nodes]
        falling[: len(kept)] = kept
        noisy = add_noise(falling, noise.discrete_laplace(self.scale, size=self.n_nodes))
        inferred = isotonic_regression(noisy.astype(np.float64), increasing=False).x
        whole: NDArray[np.int64] = np.clip(np.rint(inferred), 0, highest).astype(np.int64)
        return whole
