"""Small artificial inputs of a method: tables as codes, and graphs. None of them are private."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.audit.events import Event
from hushtable.engine.cells import ColumnGroups, Counts, OccupiedCells, Recodings
from hushtable.engine.coded_rows import Encoded
from hushtable.engine.edges import read_graph
from hushtable.engine.engine import Engine
from hushtable.engine.graph import Graph
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.engine.open_table import EngineName, connect
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.unit import Neighbors
from hushtable.schema import Schema

Row = tuple[int, ...]


@dataclass(frozen=True)
class TableInput:
    """A table as codes of the schema's published columns."""

    schema: Schema = field(compare=False, repr=False)
    rows: tuple[Row, ...]
    # person of each row, if the unit is a person; by default, each row has its own person
    persons: tuple[int, ...] | None = None
    # how often the first row is repeated in addition; only if the unit is a row
    n_more: int = 0

    @cached_property
    def is_crowded(self) -> bool:
        """True if a person has more rows than are used."""
        unit = self.schema.unit
        most = max(Counter(self.persons or ()).values(), default=1)
        return unit.kind == "person" and most > (unit.max_rows or 1)

    def open(self, noise: Noise) -> CodedEngine:
        """Return an engine that counts this table."""
        names = list(self.schema.attributes)
        codes = np.array(self.rows, np.int32).reshape(-1, len(names))
        codes = np.concatenate((np.repeat(codes[:1], self.n_more, axis=0), codes))
        persons = None
        if self.schema.unit.kind == "person":
            persons = np.array(self.persons or range(len(self.rows)), np.int32)
        columns = dict(zip(names, codes.T.copy(), strict=True))
        return CodedEngine.from_codes(self.schema, columns, noise, persons=persons)

    def describe(self) -> list[dict[str, Any]]:
        """Return the distinct rows as values, with their multiplicities."""
        columns = self.schema.attributes
        owners = self.persons or (None,) * len(self.rows)
        listed: list[dict[str, Any]] = []
        for (owner, row), times in Counter(zip(owners, self.rows, strict=True)).items():
            values = {
                name: columns[name].value(code) for name, code in zip(columns, row, strict=True)
            }
            whose = {} if owner is None else {"person": owner}
            listed.append({**whose, **values, "rows": times + self.n_more * (not listed)})
        return listed


class CodedEngine(MemoryEngine):
    """Engine on codes that caches counts; a new selection of rows clears the cache."""

    def __init__(self, read: Callable[[], Encoded], schema: Schema, noise: Noise) -> None:
        super().__init__(read, schema, noise)
        self._answers: dict[Any, Any] = {}

    def use_noise(self, noise: Noise, *, resample_rows: bool) -> None:
        """Select rows and tuples by this noise from now on; with `resample_rows`, select again."""
        super().use_noise(noise, resample_rows=resample_rows)
        if resample_rows:
            self._answers.clear()

    def _marginals(
        self, groups: ColumnGroups, shapes: Sequence[tuple[int, ...]], recode: Recodings
    ) -> list[Counts]:
        if recode:
            return super()._marginals(groups, shapes, recode)
        key = ("marginals", *map(tuple, groups))
        if key not in self._answers:
            self._answers[key] = super()._marginals(groups, shapes, recode)
        return [counts.copy() for counts in self._answers[key]]

    def _counts(self, columns: Sequence[str], recode: Recodings) -> OccupiedCells:
        if recode:
            return super()._counts(columns, recode)
        key = ("counts", *columns)
        if key not in self._answers:
            self._answers[key] = super()._counts(columns, recode)
        kept: OccupiedCells = self._answers[key]
        return OccupiedCells(kept.domain, kept.keys.copy(), kept.counts.copy())


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
        """Return the graph without a node, its edges, and unlisted nodes without other edges."""
        edges = tuple(edge for edge in self.edges if node not in edge)
        ends = {end for edge in edges for end in edge}
        stays = [one for one in self.nodes if one != node and (self.listed or one in ends)]
        return GraphInput(tuple(stays), edges, self.listed)

    def describe(self) -> list[dict[str, Any]]:
        """Return the nodes and edges."""
        return [{"nodes": list(self.nodes), "edges": [list(edge) for edge in self.edges]}]


@dataclass(frozen=True, eq=False)
class RawInput:
    """A table as a custodian has it, which every run reads and encodes again."""

    schema: Schema = field(repr=False)
    rows: list[dict[str, Any]]
    engine: EngineName

    def open(self, noise: Noise) -> Engine:
        """Return an engine that has read nothing yet."""
        names = [*self.schema.columns]
        table = pa.table({name: [row.get(name) for row in self.rows] for name in names})
        return connect(table, self.schema, engine=self.engine, noise=noise)

    def describe(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return self.rows


Input = TableInput | GraphInput | RawInput


# Neighbors: pairs of small inputs that differ in one unit of privacy.

MAX_CELLS = 4
"""Maximum number of distinct rows in the tables of the search."""


@dataclass(frozen=True)
class Pair:
    """Two inputs, and events that may distinguish them."""

    name: str
    one: Input  # if they differ by the presence of a unit, this input has it
    two: Input
    hints: tuple[Event, ...] = ()  # events to try in addition to those found by the search
    # distinguished only by an event allowed by delta, too rare for the search to find
    rare: bool = False
    # not neighbors: only equal outcomes of all draws must lead to equal releases
    distant: bool = False


def with_and_without(
    schema: Schema, name: str, base: Sequence[Row], extra: Sequence[Row], *hints: Event
) -> Pair:
    """Return neighbors: a table, and the same table with one more unit that has the rows `extra`.

    If the unit is a row, only the first row of `extra` is used. If the unit is a person, everyone
    else has one row. The additional person has all rows of `extra`, repeated cyclically if these
    are fewer than the maximum per person.
    """
    if schema.unit.kind != "person":
        return Pair(
            name, TableInput(schema, (*base, extra[0])), TableInput(schema, tuple(base)), hints
        )
    others = tuple(range(len(base)))
    n_rows = max(schema.unit.max_rows or 1, len(extra))
    rows = tuple(itertools.islice(itertools.cycle(extra), n_rows))
    return Pair(
        name,
        TableInput(schema, (*base, *rows), (*others, *[len(base)] * n_rows)),
        TableInput(schema, tuple(base), others),
        hints,
    )


def corner_cells(schema: Schema, n: int = MAX_CELLS) -> list[Row]:
    """Return up to `n` distant rows: combinations of lowest and highest codes, then the middle.

    Examples
    --------
    >>> content = {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 9},
    ...                                     "y": {"type": "integer", "low": 0, "high": 1}}}
    >>> corner_cells(Schema.from_dict(content))
    [(0, 0), (9, 1), (0, 1), (9, 0)]
    """
    sizes = schema.domain.shape
    ends = [sorted({0, size - 1}) for size in sizes]
    low, high = tuple(end[0] for end in ends), tuple(end[-1] for end in ends)
    # Each of these rows has one column at its highest code, so the list stays short.
    steps = [(*low[:at], high[at], *low[at + 1 :]) for at in reversed(range(len(sizes)))]
    middle = tuple(size // 2 for size in sizes)
    return list(dict.fromkeys([low, high, *steps, middle]))[:n]


def searched_pairs(schema: Schema, relation: Neighbors, largest: int) -> Iterator[Pair]:
    """Yield all neighbors among the tables of at most `largest` rows over corner cells."""
    cells = corner_cells(schema)
    for n_others in range(largest):
        for base in itertools.combinations_with_replacement(cells, n_others):
            if relation == "replace":
                for one, two in itertools.combinations(cells, 2):
                    yield Pair(
                        f"one of {n_others + 1} rows replaced",
                        TableInput(schema, (*base, one)),
                        TableInput(schema, (*base, two)),
                    )
                continue
            for cell in cells:
                yield with_and_without(schema, f"{n_others} rows and one more", base, [cell])
            if schema.unit.kind == "person" and len(cells) > 1:
                # A person with different rows, and with more rows than are used.
                most = schema.unit.max_rows or 1
                for rows in (cells, [cells[0]] * most + [cells[1]] * most):
                    yield with_and_without(
                        schema, f"{n_others} rows and a person with many", base, rows
                    )


def searched_graphs(n_nodes: int, *, listed: bool) -> Iterator[Pair]:
    """Yield all graphs with `n_nodes` nodes, each with and without each of its nodes.

    Isomorphic graphs and equivalent nodes are listed once.
    """
    names = [f"n{i}" for i in range(n_nodes)]
    places = list(itertools.combinations(range(n_nodes), 2))
    done = set()
    for n_edges in range(len(places) + 1):
        for edges in itertools.combinations(places, n_edges):
            for node in range(n_nodes):
                others = [at for at in range(n_nodes) if at != node]
                form = min(
                    tuple(sorted(tuple(sorted((order[a], order[b]))) for a, b in edges))
                    for order in (
                        {node: 0, **dict(zip(shuffled, range(1, n_nodes), strict=True))}
                        for shuffled in itertools.permutations(others)
                    )
                )
                if form in done or (not listed and not edges):
                    continue
                done.add(form)
                graph = GraphInput(
                    tuple(names), tuple((names[a], names[b]) for a, b in edges), listed
                )
                yield graph_pair(f"a graph of {n_nodes} nodes", graph, names[node])


def graph_pair(name: str, graph: GraphInput, node: str) -> Pair:
    """Return a graph with and without one of its nodes."""
    if not graph.listed:  # only the ends of edges are in the data
        ends = {end for edge in graph.edges for end in edge}
        graph = GraphInput(tuple(n for n in graph.nodes if n in ends), graph.edges, listed=False)
    return Pair(name, graph, graph.without(node))
