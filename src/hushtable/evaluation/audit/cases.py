"""The worst neighbors known for each method: every method registers its own in `CASES`.

A case gives a small schema that fits the parameters of a method, neighbors under that schema or any
other that fits, and how to run the method on an opened input. Where a mistake of one of the papers
lies behind a pair, its number in the errata is named.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.engine.base import Engine
from hushtable.evaluation.audit.events import Several, Within
from hushtable.evaluation.audit.inputs import GraphInput, Row, TableInput
from hushtable.evaluation.audit.neighbors import Pair, corner_cells, graph_pair, with_and_without
from hushtable.evaluation.audit.subject import Run
from hushtable.graph.read import Graph
from hushtable.methods.alpha_beta import AlphaBeta
from hushtable.methods.base import Method, Released
from hushtable.methods.baselines.mondrian import Mondrian
from hushtable.methods.columns import Columns
from hushtable.methods.degrees import Degrees
from hushtable.methods.noisy_counts import NoisyCounts
from hushtable.privacy.noise import Noise
from hushtable.schema import Categorical, Schema

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders made in it are the owner's alone
_MOST_TUPLES = 1000  # of a domain that alpha-beta is audited on: each run inserts some of them


def run_on_table(method: Method, engine: Engine, noise: Noise) -> Released:
    """Run a method as `publish` does."""
    return method.run(engine, noise)


@dataclass(frozen=True)
class Case:
    """Say on what a method is audited.

    Parameters
    ----------
    schema : callable
        Takes the method and gives a small schema that fits its parameters.
    pairs : callable
        Takes the method and a schema and gives the worst neighbors known.
    run : callable
        Takes the method, an opened input and noise, and gives what is published.
    plans_stay : bool
        Whether a plan is the same after a run, so that it need not be worked out for each.
    """

    schema: Callable[[Any], Schema]
    pairs: Callable[[Any, Schema], Iterator[Pair]]
    run: Run = run_on_table
    plans_stay: bool = True


def no_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Give none: what is promised is not about neighbors."""
    return iter(())


# --- schemas --------------------------------------------------------------------------------------


def _schema(columns: Mapping[str, Any], unit: Any = "row") -> Schema:
    return Schema.from_dict({"name": "audit", "unit": unit, "columns": columns})


def _whole(n_values: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "low": 0, "high": n_values - 1, **more}


def _words(*values: str, **more: Any) -> dict[str, Any]:
    return {"type": "categorical", "values": list(values), **more}


def _generalized(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Make numeric columns that each rule leaves at least two values of."""
    columns = {}
    for name, rule in rules.items():
        cuts = rule if isinstance(rule, list) else [0, rule]
        high = int(max(cuts)) + int(max(cuts) - min(cuts)) + 1
        columns[name] = {"type": "integer", "low": int(min(cuts)) - 1, "high": high}
    return columns


def counted_schema(method: Any) -> Schema:
    """Give six tuples, or the columns that are generalized."""
    rules = getattr(method, "generalize", {})
    return _schema(_generalized(rules) if rules else {"x": _whole(3), "sex": _words("F", "M")})


def predicted_schema(method: Any) -> Schema:
    """Give a number, a category and a class to predict."""
    target = getattr(method, "target", None) or "class"
    return _schema(
        {"x": _whole(4), "sex": _words("F", "M"), target: _words("Y", "N", role="target")}
    )


def cut_schema(method: Any) -> Schema:
    """Give three ordered values and a class: the example of erratum 001-3."""
    target = getattr(method, "target", None) or "class"
    return _schema(
        {
            "v": _words("v0", "v1", "v2", ordered=True),
            target: _words("+", "-", role="target"),
        }
    )


def paired_schema(method: Any) -> Schema:
    """Give two columns of two values, of which one may be the target."""
    return _schema({"x": _whole(2), getattr(method, "target", None) or "y": _whole(2)})


def set_schema(method: AlphaBeta) -> Schema:
    """Give a domain of some tuples, or the columns that have a source."""
    columns = {name: _whole(len(weights)) for name, weights in method.source.items()}
    if method.d is None:
        return _schema(columns or {"x": _whole(8)})
    # Large enough that knowing how many tuples there are gives none of them a chance above d.
    size = math.ceil((method.n_public or 1) / method.d)
    schema = _schema({"x": _whole(min(max(size, 8), _MOST_TUPLES))})
    return schema if method.n_public else schema.model_copy(update={"rows": 1})


def sparse_schema(method: Columns) -> Schema:
    """Give the attributes that the columns name, each of which may be missing; or the items."""
    names = list(dict.fromkeys(name for column in method.columns for name in column))
    if method.item is None or method.value is None:
        names = names or ["a0", "a1", "a2"]
        plain = _generalized(method.generalize)
        columns = {name: plain.get(name, _whole(2)) | {"missing": "category"} for name in names}
        return _schema(columns)
    items = names or ["m0", "m1", "m2"]
    return _schema(
        {
            "who": {"role": "identifier"},
            method.item: _words(*items),
            method.value: _whole(2),
        },
        {"kind": "person", "column": "who", "max_rows": min(len(items), method.max_values or 3)},
    )


def numeric_schema(method: Any) -> Schema:
    """Give a number on a grid, and what is carried or asks for its own k."""
    columns: dict[str, Any] = {name: _whole(20) for name in method.scales} or {"x": _whole(20)}
    columns |= {name: _words("F", "M") for name in method.carry}
    wanted = getattr(method, "k_column", None)
    if wanted is not None:
        columns[wanted] = {"type": "integer", "low": method.k, "high": method.k + 1}
    return _schema(columns)


# --- neighbors ------------------------------------------------------------------------------------


def copies(schema: Schema, counts: Sequence[int]) -> Iterator[Pair]:
    """Give some copies of one row, and one unit more."""
    row = corner_cells(schema)[0]
    for count in dict.fromkeys(max(0, count) for count in counts):
        yield with_and_without(
            schema, f"{count} copies of a row and one more", [row] * count, [row]
        )


def contingency_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Look at an empty cell, which must have noise like any other, and at a full one."""
    yield from copies(schema, (0, 5))


def noisy_counts_pairs(method: NoisyCounts, schema: Schema) -> Iterator[Pair]:
    """Look where tuples begin to be published, and where they are half of the time (000-4)."""
    if method.k is None:
        yield from copies(schema, (0, 5))
        return
    half = method.count_mechanism(schema).release_count(0.5)
    most = schema.unit.max_rows or 1
    appears = (Within("data rows", low=1),)
    for pair in copies(schema, (method.k - 1, method.k - most)):
        yield replace(pair, hints=appears, rare=True)
    yield from copies(schema, (half - 1, half, half + 2, half + 4))


def _rows_by_name(schema: Schema) -> Callable[[Mapping[str, int]], Row]:
    def row(codes: Mapping[str, int]) -> Row:
        return tuple(codes.get(name, 0) for name in schema.attributes)

    return row


def predicted_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Look at a new extreme value (003-1), an empty group (003-2), a choice that tips (003-5)."""
    target = str(getattr(method, "target", None) or schema.target)
    row, sizes = _rows_by_name(schema), schema.domain.sizes
    names = [name for name in schema.attributes if name != target]
    low, high = dict.fromkeys(names, 0), {name: sizes[name] - 1 for name in names}
    middle = {name: (sizes[name] - 1) // 2 for name in names}
    yes, no = {target: 0}, {target: 1}
    inner = [row(middle | yes)] * 3 + [row(low | no)] * 3
    hints = [
        Within(f"largest of columns.{name}.starts", low=middle[name] + 1)
        for name in names
        if not isinstance(schema.attributes[name], Categorical)
    ]
    yield with_and_without(schema, "a new extreme value (003-1)", inner, [row(high | yes)], *hints)
    full = [row(low | yes)] * 3 + [row(high | yes)] * 2 + [row(high | no)]
    yield with_and_without(schema, "a row in an empty group (003-2)", full, [row(low | no)])
    if len(names) > 1:
        far = {names[0]: sizes[names[0]] - 1}
        even = [row(low | yes)] * 4 + [row(low | {names[1]: sizes[names[1]] - 1} | yes)] * 4
        yield with_and_without(
            schema, "a row that tips the choice (003-5)", even, [row(low | far | no)]
        )


def cut_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Look at a choice between two cuts (001-3), and at two even halves (001-7, 001-8)."""
    target = method.target or schema.target
    row, sizes = _rows_by_name(schema), schema.domain.sizes
    first = next(name for name in schema.attributes if name != target)
    yes = {} if target is None else {target: 0}
    no = {} if target is None else {target: sizes[target] - 1}
    near, next_to, far = {first: 0}, {first: min(1, sizes[first] - 1)}, {first: sizes[first] - 1}
    yield with_and_without(
        schema, "a cut that tips (001-3)",
        [row(near | yes), row(next_to | no), row(next_to | no)], [row(near | yes)],
        Within("tree[0].cut", 2, 2),
    )  # fmt: skip
    # Of all tables with up to three rows of a kind, the one that shows the printed weights soonest.
    yield with_and_without(
        schema, "a cut that one more row makes rare (001-3)",
        [row(next_to | no), row(next_to | no), row(far | yes)], [row(far | yes)],
        Within("tree[0].cut", 1, 1),
    )  # fmt: skip
    for count in (method.stop_count, 3):
        even = [row(near | yes)] * max(0, count) + [row(far | no)] * max(0, count)
        yield with_and_without(schema, "even halves (001-7, 001-8)", even, [row(near | yes)])


def paired_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Look at empty and full tables, and at two columns that one more row makes dependent."""
    yield from copies(schema, (0, 5, 60))
    low, high, *others = corner_cells(schema)
    even = [low, high, *others] * 15
    for row in (low, *others[:1]):
        yield with_and_without(schema, "a pair of columns that tips", even, [row])


def set_pairs(method: AlphaBeta, schema: Schema) -> Iterator[Pair]:
    """Look at a tuple that is in the table or not; by itself and beside others (004-1).

    Of several views, it may be in all or in none (004-2).
    """
    one, *others = corner_cells(schema, 3)
    hints: list[Several] = []
    if method.views > 1:
        columns = schema.attributes.values()
        shown = ",".join(str(column.value(code)) for column, code in zip(columns, one, strict=True))
        seen = tuple(Within(f"data[{shown},{view}]") for view in range(1, method.views + 1))
        hints = [Several(method.views, seen), Several(1, seen)]
    for base in ([], others, [others[0]] * 5):
        yield with_and_without(schema, f"a tuple beside {len(base)} rows", base, [one], *hints)


def exchanged_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Look at a row in the place of another."""
    one, two, *_ = corner_cells(schema)
    for others in ((), (one, two)):
        yield Pair(
            f"a row exchanged beside {len(others)}",
            TableInput(schema, (one, *others)),
            TableInput(schema, (two, *others)),
        )


def sparse_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Look at records of one column (000-2), of all columns (000-3), and at a choice (000-1)."""
    if method.item is not None:
        yield from _listed_pairs(method, schema)
        return
    missing = [column.missing_code for column in schema.attributes.values()]
    names = list(schema.attributes)
    groups = [set(column) for column in method.columns] or [{name} for name in names]
    count = method.plan(schema).mechanism.release_count(0.5)

    def record(there: set[str]) -> Row:
        return tuple(
            0 if name in there or code is None else code
            for name, code in zip(names, missing, strict=True)
        )

    every = record(set(names))
    enough = [record(group) for group in groups for _ in range(count + 3)]
    # Records without a value in a column must not be counted there: if they are, then so many.
    nothing = ",".join(["None"] * len(names))
    own = ",".join("0" if name in groups[0] else "None" for name in names)
    hints = [
        Several(
            least,
            (
                Within(f"data[{own},0].count", low=count + 3 + more),
                *(
                    Within(f"data[{nothing},{group}].count", low=len(enough) - count - 3 + more)
                    for group in range(1, len(groups))
                ),
            ),
        )
        for least in range(len(groups) // 2, len(groups))
        for more in (-2, -1, 0, 1)
    ]
    yield with_and_without(
        schema, "a record of one column (000-2)", enough, [record(groups[0])], *hints
    )
    for n in (method.k - 1, count):
        of_all = with_and_without(
            schema, f"{n} records of all columns and one more (000-3)", [every] * n, [every],
            Within("data rows", low=1),
        )  # fmt: skip
        yield replace(of_all, rare=n < method.k)
    noise = method.plan(schema).pair_noise
    if noise is not None and len(names) > 2 and None not in missing:
        # Three attributes that agree equally often, and so often that noise does not hide it.
        alike = [(0, 0, 0), (1, 1, 1)] * math.ceil(8 * noise.std)
        patterns = [*alike, *itertools.product((0, 1), repeat=3)]
        even = [(*pattern, *every[3:]) for pattern in patterns]
        for pair in ({0, 1}, {0, 2}, {1, 2}):
            tips = record({names[at] for at in pair})
            yield with_and_without(schema, "a choice that tips (000-1)", even, [tips])


def _listed_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Do the same for persons with items in a long table."""
    assert method.item is not None  # noqa: S101 - long tables have items
    names = list(schema.attributes)
    item, value = names.index(str(method.item)), names.index(str(method.value))
    n_items = schema.attributes[method.item].n_values
    most = min(schema.unit.max_rows or 1, n_items)

    def rows_of(items: Sequence[int]) -> list[Row]:
        rows = []
        for number in items:
            codes = [0] * len(names)
            codes[item], codes[value] = number, 0
            rows.append(tuple(codes))
        return rows

    def people(owned: Sequence[Sequence[int]]) -> TableInput:
        rows = [(who, row) for who, items in enumerate(owned) for row in rows_of(items)]
        return TableInput(schema, tuple(r for _, r in rows), tuple(who for who, _ in rows))

    def pair(name: str, others: list[Sequence[int]], one: Sequence[int]) -> Pair:
        return Pair(name, people([*others, one]), people(others), (Within("data rows", low=1),))

    count = method.plan(schema).mechanism.release_count(0.5)
    everything = list(range(most))
    for n in (method.k - 1, count):
        of_all = pair(
            f"{n} persons of all items and one more (000-3)", [everything] * n, everything
        )
        yield replace(of_all, rare=n < method.k)
    alone: list[Sequence[int]] = [[i] for i in range(n_items) for _ in range(count + 3)]
    yield pair("a person of one item (000-2)", alone, [0])
    if method.clusters and most > 1 and n_items > 2:
        even: list[Sequence[int]] = [(0, 1), (0, 2)] * 20
        for tips in ((0, 1), (0, 2)):
            yield pair("a choice that tips (000-1)", even, tips)


def graph_pairs(method: Degrees, schema: Schema) -> Iterator[Pair]:
    """Look at hubs: above the bound (001-2), over the ends of regions (001-1), and matched ones."""
    bound = min(method.bounds[0], 16)
    listed = method.population == "listed"

    def pair(name: str, edges: list[tuple[str, str]]) -> Pair:
        nodes = tuple(dict.fromkeys(end for edge in edges for end in edge))
        return graph_pair(name, GraphInput(nodes, tuple(edges), listed), "hub")

    matched = [(f"left{i}", f"right{i}") for i in range(3 * bound)]
    matched += [("hub", f"left{i}") for i in range(bound)]
    yield pair("a hub of one end of many pairs", matched)
    crown = [(f"rim{i}", f"leaf{i}.{j}") for i in range(2 * bound) for j in range(bound)]
    yield pair("a hub of full nodes (001-2)", [*crown, *(("hub", f"rim{i}") for i in range(bound))])
    yield pair("a star (001-2)", [("hub", f"leaf{i}") for i in range(5 * bound)])
    steps = range(1, max(2, bound - 1), 2)
    ladder = [(f"step{i}", f"leaf{i}.{j}") for i in steps for j in range(i)]
    yield pair("a hub of one node of every degree (001-1)",
               [*ladder, *(("hub", f"step{i}") for i in steps)])  # fmt: skip


# --- runs -----------------------------------------------------------------------------------------


def run_views(method: AlphaBeta, engine: Engine, noise: Noise) -> Released:
    """Publish all views of a table that does not change, with a memory of their own."""
    if method.views == 1:
        return method.run(engine, noise)
    # Made-up coins need not survive a power cut: in memory, where the system has such a place.
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        remembering = replace(method, coins=Path(folder) / "coins")
        for _ in range(method.views):
            released = remembering.run(engine, noise)
        return released


def run_on_graph(method: Degrees, graph: Graph, noise: Noise) -> Released:
    """Measure: all that ever sees the graph. What follows is a function of its outcome alone."""
    noisy, measured = method.measure(graph, noise)
    return Released(tables={"noisy": noisy}, estimator=measured)


def run_groups(method: Mondrian, engine: Engine, noise: Noise) -> Released:
    """List the groups and how many rows each has."""
    sizes = method.groups(engine).counts.sum(axis=1)
    return Released(tables={"data": pa.table({"group": np.arange(len(sizes)), "count": sizes})})


CASES: dict[str, Case] = {
    "alpha-beta": Case(set_schema, set_pairs, run_views),
    "columns": Case(sparse_schema, sparse_pairs),
    "condensation": Case(numeric_schema, no_pairs),
    "contingency-table": Case(counted_schema, contingency_pairs),
    "degrees": Case(lambda method: method.schema("audit"), graph_pairs, run_on_graph),
    "diffgen": Case(predicted_schema, predicted_pairs),
    "frapp": Case(counted_schema, exchanged_pairs),
    "generalize-suppress": Case(counted_schema, no_pairs),
    "mondrian": Case(predicted_schema, no_pairs, run_groups),
    "noisy-counts": Case(counted_schema, noisy_counts_pairs),
    "partition": Case(cut_schema, cut_pairs),
    # The budget in its plan is used up by a run.
    "quilt": Case(paired_schema, paired_pairs, plans_stay=False),
    "top-down-specialization": Case(predicted_schema, no_pairs),
    "uncertain": Case(numeric_schema, no_pairs),
}
"""What each method is audited on, by the name it has on the command line."""
