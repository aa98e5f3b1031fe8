"""Method hay-degrees (Hay, Li, Miklau and Jensen 2009): noise on sorted degrees.

A baseline for comparison, followed by constrained inference. Guarantee and proof: ``hay.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal, get_args

import numpy as np

from hushtable.arrays import Integers
from hushtable.engine.graph import Graph, SealedGraph
from hushtable.engine.sealed_table import accounted
from hushtable.extras import needing
from hushtable.methods import parameters
from hushtable.methods.parameters import Parameters, parameter, whole
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.unit import Unit

with needing("science"):
    from scipy.optimize import isotonic_regression

Level = Literal["node", "edge"]


@dataclass(frozen=True, kw_only=True)
class HayDegrees(Parameters):
    """Return a degree sequence with noise on each sorted degree.

    Parameters
    ----------
    epsilon : number or str
        Epsilon, such as 1.
    level : {"node", "edge"}
        Unit of privacy: a node with all its edges, or a single edge.
    n_nodes : int
        Public length of the sequence. Shorter sequences are padded with zeros; longer ones lose
        their smallest degrees.
    max_degree : int, optional
        Public bound on degrees, for level ``node``.

    Examples
    --------
    >>> HayDegrees(epsilon=1, level="node", n_nodes=100, max_degree=10).scale
    Fraction(20, 1)
    >>> HayDegrees(epsilon=1, level="edge", n_nodes=100).scale
    Fraction(2, 1)
    """

    name: ClassVar[str] = "hay-degrees"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    level: Level = parameter()
    n_nodes: int = parameter(read=whole())
    max_degree: int | None = parameter(read=whole(), default=None)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that level node has a bound, and level edge none."""
        if self.level in get_args(Level) and (self.level == "node") != (
            self.max_degree is not None
        ):
            return ["max_degree is required for level node and not allowed for level edge."]
        return []

    @property
    def scale(self) -> Fraction:
        """Scale of the noise on each degree."""
        return (2 if self.max_degree is None else 2 * self.max_degree) / self.epsilon

    def guarantee(self) -> tuple[Guarantee, ...]:
        """Return differential privacy for one node, or for one edge (a row of the edge list)."""
        unit = Unit(kind="node" if self.level == "node" else "row")
        return (PureDP(epsilon=self.epsilon, unit=unit, neighbors="add-remove"),)

    def sequence(self, graph: Graph, noise: Noise) -> Integers:
        """Return the noisy degree sequence, in descending order."""
        account = RunAccount(SpendingLimit.among(self.guarantee()))
        return accounted(graph, account, partial(self._sequence, noise))

    def _sequence(self, noise: Noise, graph: SealedGraph) -> Integers:
        if self.max_degree is None:
            highest, falling = self.n_nodes - 1, graph.falling_degrees(self.n_nodes)
        else:
            degrees = graph.bounded(key=noise.integer_below(1 << 64))
            highest = self.max_degree
            falling = degrees.falling_degrees(self.n_nodes, self.max_degree)
        noisy = noise.open(falling, Laplace(self.scale), "sorted degrees")
        inferred = isotonic_regression(noisy.astype(np.float64), increasing=False).x
        whole: Integers = np.clip(np.rint(inferred), 0, highest).astype(np.int64)
        return whole
