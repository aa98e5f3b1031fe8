"""Small artificial inputs of a method: tables as codes, and graphs. None of them are private."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushtable.engine.cells import Counts, OccupiedCells
from hushtable.engine.edges import read_graph
from hushtable.engine.graph import Graph
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

Row = tuple[int, ...]


@dataclass(frozen=True)
class TableInput:
    """A table as codes of the schema's published columns."""

    schema: Schema = field(compare=False, repr=False)
    rows: tuple[Row, ...]
    # owner of each row if the unit is a person; by default one row each
    persons: tuple[int, ...] | None = None

    def open(self, noise: Noise) -> CodedEngine:
        """Return an engine that counts this table."""
        return CodedEngine(self, noise)

    def describe(self) -> list[dict[str, Any]]:
        """Return the distinct rows as values, with their multiplicities."""
        columns = self.schema.attributes
        owners = self.persons or (None,) * len(self.rows)
        listed = []
        for (owner, row), times in Counter(zip(owners, self.rows, strict=True)).items():
            values = {
                name: columns[name].value(code) for name, code in zip(columns, row, strict=True)
            }
            whose = {} if owner is None else {"person": owner}
            listed.append({**whose, **values, "rows": times})
        return listed


class CodedEngine(MemoryEngine):
    """Engine on a table that is given as codes.

    Results that are the same in every run are cached; `renew` clears those that are not.
    """

    def __init__(self, table: TableInput, noise: Noise) -> None:
        self._schema, self._noise, self._source = table.schema, noise, None
        names = list(table.schema.attributes)
        codes = np.array(table.rows, np.int32).reshape(len(table.rows), len(names))
        persons = None
        self._is_random = False
        if table.schema.unit.kind == "person":
            owners = table.persons or tuple(range(len(table.rows)))
            persons = np.array(owners, np.int32)
            most = max(Counter(owners).values(), default=0)
            self._is_random = most > (table.schema.unit.max_rows or 1)
        columns = {name: codes[:, place].copy() for place, name in enumerate(names)}
        self.__dict__["_encoded"] = (columns, persons)  # replaces the cached property
        self._answers: dict[Any, Any] = {}

    def renew(self, noise: Noise) -> None:
        """Select rows again, if a person has more rows than are used."""
        self._noise = noise
        if self._is_random:
            self.__dict__.pop("_rows_and_persons", None)
            self._answers.clear()

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        """Return the cached histogram of each column."""
        key = ("histograms", tuple(columns), by)
        if key not in self._answers:
            self._answers[key] = super().histograms(columns, by=by)
        answer: dict[str, Counts] = self._answers[key]
        return {name: counts.copy() for name, counts in answer.items()}

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> OccupiedCells:
        """Return the occupied cells, cached if nothing is recoded."""
        if recode:
            return super().counts(columns, recode=recode)
        key = ("counts", tuple(columns))
        if key not in self._answers:
            self._answers[key] = super().counts(columns)
        kept: OccupiedCells = self._answers[key]
        return OccupiedCells(kept.domain, kept.codes.copy(), kept.counts.copy())


@dataclass(frozen=True)
class GraphInput:
    """A small graph; `listed` if a list of nodes is given in addition to the edges."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    listed: bool = True

    def open(self, noise: Noise) -> Graph:
        """Return the graph."""
        return read_graph(list(self.edges), nodes=list(self.nodes) if self.listed else None)

    def without(self, node: str) -> GraphInput:
        """Remove a node with its edges, and unlisted nodes that have no other edges."""
        edges = tuple(edge for edge in self.edges if node not in edge)
        ends = {end for edge in edges for end in edge}
        stays = [one for one in self.nodes if one != node and (self.listed or one in ends)]
        return GraphInput(tuple(stays), edges, self.listed)

    def describe(self) -> list[dict[str, Any]]:
        """Return the nodes and edges."""
        return [{"nodes": list(self.nodes), "edges": [list(edge) for edge in self.edges]}]


Input = TableInput | GraphInput
