"""What every graph method is: a frozen set of parameters with a promise, a forecast and a run."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from hushtable.graph.read import Graph
from hushtable.methods.base import Forecast, Parameters, Released
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class GraphMethod(Parameters):
    """Publish something about a graph; subclasses are frozen keyword-only dataclasses."""

    @abstractmethod
    def guarantee(self) -> tuple[Guarantee, ...]:
        """Say what is promised; sees no data."""

    @abstractmethod
    def forecast(self, n_nodes: int | None = None) -> Forecast:
        """Say what to expect; sees no data."""

    @abstractmethod
    def schema(self, name: str) -> Schema:
        """Describe what is published as a table with one row per node."""

    @abstractmethod
    def check_input(self, *, listed: bool) -> None:
        """Refuse an input of the wrong kind: with a list of nodes, or without."""

    @abstractmethod
    def run(self, graph: Graph, noise: Noise) -> Released:
        """Count, add noise, hand out the result."""
