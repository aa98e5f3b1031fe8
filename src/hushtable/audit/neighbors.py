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
"""Different rows of which tables are searched."""


@dataclass(frozen=True)
class Pair:
    """Two neighbors, and events that are suspected to tell them apart.

    Parameters
    ----------
    name : str
        What they are.
    one, two : Input
        The inputs; where they differ by somebody who is there or not, `one` has them.
    hints : tuple of Event
        Events to try besides those that are found.
    rare : bool
        Whether they are told apart by what delta allows: too rarely for a search to notice.
    apart : bool
        Whether they are no neighbors at all: then nothing is promised but that, given the same
        outcomes of all draws, the same is published.
    """

    name: str
    one: Input
    two: Input
    hints: tuple[Event, ...] = ()
    rare: bool = False
    apart: bool = False


def with_and_without(
    schema: Schema, name: str, base: Sequence[Row], extra: Sequence[Row], *hints: Event
) -> Pair:
    """Make neighbors: a table, and the same with one unit more that has these rows.

    Where the unit is a person, everybody in the table has one row, and the one more has as many as
    may count: the rows given, again and again.
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
    """List rows that are far apart: lowest and highest codes in all combinations.

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
    # Single columns away from the lowest row: a list that ends, however many columns there are.
    steps = [(*low[:at], high[at], *low[at + 1 :]) for at in reversed(range(len(sizes)))]
    middle = tuple(size // 2 for size in sizes)
    return list(dict.fromkeys([low, high, *steps, middle]))[:n]


def searched_pairs(schema: Schema, relation: Neighbors, largest: int) -> Iterator[Pair]:
    """List all pairs of neighbors among the tables of at most `largest` rows over corner cells."""
    cells = corner_cells(schema)
    for n_others in range(largest):
        for base in itertools.combinations_with_replacement(cells, n_others):
            if relation == "replace":
                for one, two in itertools.combinations(cells, 2):
                    yield Pair(
                        f"one of {n_others + 1} rows exchanged",
                        TableInput(schema, (*base, one)),
                        TableInput(schema, (*base, two)),
                    )
                continue
            for cell in cells:
                yield with_and_without(schema, f"one more than {n_others} rows", base, [cell])
            if schema.unit.kind == "person" and len(cells) > 1:
                # Rows of a person that differ, and more of them than may count.
                most = schema.unit.max_rows or 1
                for rows in (cells, [cells[0]] * most + [cells[1]] * most):
                    yield with_and_without(
                        schema, f"a person of many rows beside {n_others}", base, rows
                    )


def searched_graphs(n_nodes: int, *, listed: bool) -> Iterator[Pair]:
    """List all graphs of so many nodes, each with and without each of its nodes.

    Graphs that differ only in the names of their nodes are listed once, and so are nodes that
    could be exchanged.
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
    """Make neighbors: a graph with and without one of its nodes."""
    if not graph.listed:  # only the ends of edges are in the data
        ends = {end for edge in graph.edges for end in edge}
        graph = GraphInput(tuple(n for n in graph.nodes if n in ends), graph.edges, listed=False)
    return Pair(name, graph, graph.without(node))
