"""Worst cases of degree sequences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hushtable.audit.cases.case import Case
from hushtable.audit.inputs import GraphInput
from hushtable.audit.neighbors import Pair, graph_pair, searched_graphs
from hushtable.audit.subject import Prepared
from hushtable.engine.graph import Graph
from hushtable.engine.sealed_table import accounted
from hushtable.methods.base import Released
from hushtable.methods.degrees.degrees import Degrees
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.guarantee import Neighbors
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema


def graph_pairs(method: Degrees, schema: Schema) -> Iterator[Pair]:
    """Yield hubs: above the bound (001-2), across the ends of regions (001-1), and of matchings."""
    bound = min(method.bounds[0], 16)
    listed = method.population == "listed"

    def pair(name: str, edges: list[tuple[str, str]]) -> Pair:
        nodes = tuple(dict.fromkeys(end for edge in edges for end in edge))
        return graph_pair(name, GraphInput(nodes, tuple(edges), listed), "hub")

    matched = [(f"left{i}", f"right{i}") for i in range(3 * bound)]
    matched += [("hub", f"left{i}") for i in range(bound)]
    yield pair("a hub connected to one end of many pairs", matched)
    crown = [(f"rim{i}", f"leaf{i}.{j}") for i in range(2 * bound) for j in range(bound)]
    yield pair(
        "a hub of full nodes (001-2)",
        [*crown, *(("hub", f"rim{i}") for i in range(bound))],
    )
    yield pair("a star (001-2)", [("hub", f"leaf{i}") for i in range(5 * bound)])
    steps = range(1, max(2, bound - 1), 2)
    ladder = [(f"step{i}", f"leaf{i}.{j}") for i in steps for j in range(i)]
    yield pair("a hub connected to a node of every degree (001-1)",
               [*ladder, *(("hub", f"step{i}") for i in steps)])  # fmt: skip


def small_graphs(
    method: Degrees, schema: Schema, relation: Neighbors, largest: int
) -> Iterator[Pair]:
    """Return the neighbors among all small graphs."""
    listed = method.population == "listed"
    return itertools.chain.from_iterable(
        searched_graphs(n, listed=listed) for n in range(2, largest + 1)
    )


def measured(method: Degrees, schema: Schema) -> Prepared:
    """Prepare only the measurement: no other step reads the graph."""
    plan = method.plan(schema.name)

    def run(graph: Graph, noise: Noise) -> Released:
        account = RunAccount(plan.promise)
        noisy, settings = accounted(graph, account, lambda sealed: plan.measure(sealed, noise))
        return Released(tables={"noisy": noisy}, settings=settings)

    return Prepared(plan.guarantees, run)


DEGREES: Case[Degrees] = Case(
    lambda method: method.schema("audit"), graph_pairs, measured, small_graphs
)
