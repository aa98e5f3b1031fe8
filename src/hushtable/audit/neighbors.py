"""Neighbors: pairs of small inputs that differ in one unit of privacy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hushtable.audit.events import Event
from hushtable.audit.inputs import GraphInput, Input, Row, TableInput
from hushtable.privacy.guarantee import Neighbors
from hushtable.schema import Schema

MAX_CELLS = 4
"""Number of distinct rows from which tables are built in the search."""


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

    If the unit is a person, everyone else has one row, and the additional person has as many rows
    as may be used: `extra` repeated cyclically.
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
    """Return distant rows: combinations of lowest and highest codes.

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
    # One column at its highest code each: the list stays short for many columns.
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
