"""Audit cases: the worst known neighbors of each built-in method, and how to run it.

`CASES` lists them by method name. The `MethodSpec` of a method of another package names its case.
If a pair tests a mistake in one of the papers, its name contains the number of the erratum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from hushtable.audit.events import Several, Within
from hushtable.audit.inputs import (
    GraphInput,
    Pair,
    Row,
    TableInput,
    corner_cells,
    graph_pair,
    searched_graphs,
    searched_pairs,
    with_and_without,
)
from hushtable.audit.recorder import observer_of, run_plan
from hushtable.audit.subject import Prepared, scratch
from hushtable.engine.engine import Engine
from hushtable.engine.graph import Graph
from hushtable.engine.sealed_table import accounted
from hushtable.methods.alpha_beta.alpha_beta import AlphaBeta
from hushtable.methods.alpha_beta.frapp import Frapp
from hushtable.methods.base import Method, Released
from hushtable.methods.counts.columns import Columns
from hushtable.methods.counts.generalize_suppress import GeneralizeSuppress
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.diffgen.contingency_table import ContingencyTable
from hushtable.methods.diffgen.diffgen import DiffGen
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.partition.partition import Partition
from hushtable.methods.quilt.quilt import Quilt
from hushtable.methods.quilt.workload import columns_of
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.unit import Neighbors
from hushtable.schema import Categorical, Schema

Audited = TypeVar("Audited")
"""Class of the audited method."""


def planned(method: Method, schema: Schema) -> Prepared:
    """Plan a method, as `publish` does; return its promises and a function that runs the plan."""
    plan = method.plan(schema)
    return Prepared(plan.guarantees, partial(run_plan, plan))


def small_tables(method: Any, schema: Schema, relation: Neighbors, largest: int) -> Iterator[Pair]:
    """Return all neighbors among the tables of at most `largest` rows over corner cells."""
    return searched_pairs(schema, relation, largest)


def no_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Return no neighbors, for promises that are not about neighbors."""
    return iter(())


@dataclass(frozen=True)
class Case(Generic[Audited]):
    """Audit case of a method.

    Parameters
    ----------
    schema : callable
        Function of the method that returns a small schema that fits its parameters.
    pairs : callable
        Function of the method and a schema (that of `schema`, or another that fits the method)
        that yields the worst known neighbors.
    prepare : callable
        Function of the method and the schema that returns a `Prepared`: the promises, and the
        function to run on opened inputs.
    search : callable
        Function of the method, the schema, the neighbor relation and a size that yields all
        neighbors up to that size.
    """

    schema: Callable[[Audited], Schema]
    pairs: Callable[[Audited, Schema], Iterator[Pair]]
    prepare: Callable[[Audited, Schema], Prepared]
    search: Callable[[Audited, Schema, Neighbors, int], Iterator[Pair]] = small_tables


# Schemas and neighbors that several audit cases share.


def made_schema(columns: Mapping[str, Any], unit: Any = "row") -> Schema:
    """Return the schema of an artificial table."""
    return Schema.from_dict({"name": "audit", "unit": unit, "columns": columns})


def whole(n_values: int, **more: Any) -> dict[str, Any]:
    """Return the definition of a column with this many integers."""
    return {"type": "integer", "low": 0, "high": n_values - 1, **more}


def words(*values: str, **more: Any) -> dict[str, Any]:
    """Return the definition of a categorical column."""
    return {"type": "categorical", "values": list(values), **more}


def generalized(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return numeric columns in which each generalization rule leaves at least two values."""
    columns = {}
    for name, rule in rules.items():
        cuts = rule if isinstance(rule, list) else [0, rule]
        high = int(max(cuts)) + int(max(cuts) - min(cuts)) + 1
        columns[name] = {"type": "integer", "low": int(min(cuts)) - 1, "high": high}
    return columns


def counted_schema(rules: Mapping[str, Any]) -> Schema:
    """Return a schema with six cells, or with the generalized columns."""
    return made_schema(generalized(rules) if rules else {"x": whole(3), "sex": words("F", "M")})


def predicted_schema(target: str | None) -> Schema:
    """Return a schema with a number, a category and a class to predict."""
    classes = words("Y", "N", role="target")
    return made_schema({"x": whole(4), "sex": words("F", "M"), target or "class": classes})


def copies(schema: Schema, counts: Sequence[int]) -> Iterator[Pair]:
    """Yield tables of copies of one row, with and without one more unit."""
    row = corner_cells(schema)[0]
    for count in dict.fromkeys(max(0, count) for count in counts):
        yield with_and_without(
            schema, f"{count} copies of a row and one more", [row] * count, [row]
        )


def rows_by_name(schema: Schema) -> Callable[[Mapping[str, int]], Row]:
    """Return a function that makes a row from named codes; other codes are 0."""

    def row(codes: Mapping[str, int]) -> Row:
        return tuple(codes.get(name, 0) for name in schema.attributes)

    return row


# Worst cases of noisy counts of tuples.


def tuples_schema(method: NoisyCounts | GeneralizeSuppress) -> Schema:
    """Return a schema with six cells, or with the generalized columns."""
    return counted_schema(method.generalize)


def noisy_counts_pairs(method: NoisyCounts, schema: Schema) -> Iterator[Pair]:
    """Yield copies of a tuple, near the counts at which it is published first or half the time.

    These counts test erratum li-2009-4. Without `k`, every count may be published; the tuple then
    has 0 or 5 copies.
    """
    if method.k is None:
        yield from copies(schema, (0, 5))
        return
    half = method.plan(schema).mechanism.release_count(0.5)
    most = schema.unit.max_rows or 1
    appears = (Within("data rows", low=1),)
    for pair in copies(schema, (method.k - 1, method.k - most)):
        yield replace(pair, hints=appears, rare=True)
    yield from copies(schema, (half - 1, half, half + 2, half + 4))


def sparse_schema(method: Columns) -> Schema:
    """Return a schema with the attributes of the columns, which may be missing, or with items."""
    names = list(dict.fromkeys(name for column in method.columns for name in column))
    if method.item is None or method.value is None:
        names = names or ["a0", "a1", "a2"]
        plain = generalized(method.generalize)
        columns = {name: plain.get(name, whole(2)) | {"missing": "category"} for name in names}
        return made_schema(columns)
    items = names or ["m0", "m1", "m2"]
    # A person has up to three rows, so that values are dropped if `max_values` is less.
    return made_schema(
        {
            "who": {"role": "identifier"},
            method.item: words(*items),
            method.value: whole(2),
        },
        {"kind": "person", "column": "who", "max_rows": min(len(items), 3)},
    )


def sparse_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Yield a record with one column (li-2009-2), with all (-3), or that changes a choice (-1)."""
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
    # Records without a value in a column must not be counted there; these hints detect it.
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
        schema, "a record with one column (li-2009-2)", enough, [record(groups[0])], *hints
    )
    for n in (method.k - 1, count):
        of_all = with_and_without(
            schema, f"{n} records with all columns and one more (li-2009-3)", [every] * n, [every],
            Within("data rows", low=1),
        )  # fmt: skip
        yield replace(of_all, rare=n < method.k)
    noise = method.plan(schema).pair_noise
    if noise is not None and len(names) > 2 and None not in missing:
        # Three attributes that agree equally often, and often enough to exceed the noise.
        alike = [(0, 0, 0), (1, 1, 1)] * math.ceil(8 * noise.std)
        patterns = [*alike, *itertools.product((0, 1), repeat=3)]
        even = [(*pattern, *every[3:]) for pattern in patterns]
        for pair in ({0, 1}, {0, 2}, {1, 2}):
            tips = record({names[at] for at in pair})
            yield with_and_without(schema, "a row that changes a choice (li-2009-1)", even, [tips])


def _listed_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Yield the cases of `sparse_pairs` for persons with items in a long table."""
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
            f"{n} persons with all items and one more (li-2009-3)", [everything] * n, everything
        )
        yield replace(of_all, rare=n < method.k)
    alone: list[Sequence[int]] = [[i] for i in range(n_items) for _ in range(count + 3)]
    yield pair("a person with one item (li-2009-2)", alone, [0])
    if method.clusters and most > 1 and n_items > 2:
        even: list[Sequence[int]] = [(0, 1), (0, 2)] * 20
        for tips in ((0, 1), (0, 2)):
            yield pair("a person who changes a choice (li-2009-1)", even, tips)


# Worst cases of the alpha-beta algorithm and of FRAPP.

_MOST_TUPLES = 1000  # maximum size of the domain, because each run inserts some of its tuples


def set_schema(method: AlphaBeta) -> Schema:
    """Return a schema with a small domain, or with the columns that have a source distribution."""
    columns = {name: whole(len(weights)) for name, weights in method.source.items()}
    if method.d is None:
        return made_schema(columns or {"x": whole(8)})
    # Large enough that, given the number of tuples, each has prior probability at most d.
    size = math.ceil((method.n_public or 1) / method.d)
    schema = made_schema({"x": whole(min(max(size, 8), _MOST_TUPLES))})
    return schema if method.n_public else schema.model_copy(update={"rows": 1})


def set_pairs(method: AlphaBeta, schema: Schema) -> Iterator[Pair]:
    """Yield tables with and without a tuple, alone and with others (rastogi-2007-1).

    With several views, the tuple may be in all or in none (rastogi-2007-2). If rows are counted,
    the table may already contain the tuple: `max_copies` times, or once less.
    """
    one, *others = corner_cells(schema, 3)
    hints: list[Several] = []
    if method.views > 1:
        columns = schema.attributes.values()
        shown = ",".join(str(column.value(code)) for column, code in zip(columns, one, strict=True))
        seen = tuple(Within(f"data[{shown},{view}]") for view in range(1, method.views + 1))
        hints = [Several(method.views, seen), Several(1, seen)]
    copies = [[one] * n for n in (method.max_copies - 1, method.max_copies) if n > 1]
    for base in ([], others, [others[0]] * 5, *copies):
        yield with_and_without(schema, f"a tuple and {len(base)} rows", base, [one], *hints)


def exchanged_pairs(method: Frapp, schema: Schema) -> Iterator[Pair]:
    """Yield tables in which one row replaces another."""
    one, two, *_ = corner_cells(schema)
    for others in ((), (one, two)):
        yield Pair(
            f"a replaced row and {len(others)} others",
            TableInput(schema, (one, *others)),
            TableInput(schema, (two, *others)),
        )


def all_views(method: AlphaBeta, schema: Schema) -> Prepared:
    """Prepare the publication of all views of one table, with random bits in a temporary folder."""
    plan = method.plan(schema)
    if method.views == 1:
        return planned(method, schema)

    def run(engine: Engine, noise: Noise) -> Released:
        # These random bits need not survive a power failure, so memory is used if possible.
        with scratch() as folder:
            stored = replace(plan, method=replace(method, view_history=folder / "views"))
            for _ in range(method.views):
                released = run_plan(stored, engine, noise)
            return released

    return Prepared(plan.guarantees, run)


# Worst cases of degree sequences.


def graph_pairs(method: Degrees, schema: Schema) -> Iterator[Pair]:
    """Yield graphs with and without a hub, which has pairs, full nodes or leaves as neighbors.

    A hub above the degree bound tests qardaji-2012-2; one with neighbors of every degree tests
    qardaji-2012-1.
    """
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
        "a hub of full nodes (qardaji-2012-2)",
        [*crown, *(("hub", f"rim{i}") for i in range(bound))],
    )
    yield pair("a star (qardaji-2012-2)", [("hub", f"leaf{i}") for i in range(5 * bound)])
    steps = range(1, max(2, bound - 1), 2)
    ladder = [(f"step{i}", f"leaf{i}.{j}") for i in steps for j in range(i)]
    yield pair("a hub connected to a node of every degree (qardaji-2012-1)",
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
        account = RunAccount(plan.promise, observer=observer_of(noise))
        noisy, settings = accounted(graph, account, lambda sealed: plan.measure(sealed, noise))
        return Released(tables={"noisy": noisy}, settings=settings)

    return Prepared(plan.guarantees, run)


# Worst cases of DiffGen and of its baselines.


def predicted_pairs(method: DiffGen | DpC45, schema: Schema) -> Iterator[Pair]:
    """Yield a new extreme value (mohammed-2011-1), an empty group (-2) and a decisive row (-5)."""
    target = str(method.target or schema.target)
    row, sizes = rows_by_name(schema), schema.domain.sizes
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
    yield with_and_without(
        schema, "a new extreme value (mohammed-2011-1)", inner, [row(high | yes)], *hints
    )
    full = [row(low | yes)] * 3 + [row(high | yes)] * 2 + [row(high | no)]
    yield with_and_without(
        schema, "a row in an empty group (mohammed-2011-2)", full, [row(low | no)]
    )
    if len(names) > 1:
        far = {names[0]: sizes[names[0]] - 1}
        even = [row(low | yes)] * 4 + [row(low | {names[1]: sizes[names[1]] - 1} | yes)] * 4
        yield with_and_without(
            schema, "a row that changes the choice (mohammed-2011-5)", even, [row(low | far | no)]
        )


def contingency_pairs(method: ContingencyTable, schema: Schema) -> Iterator[Pair]:
    """Yield an empty cell, which must have noise like any other, and a full one."""
    yield from copies(schema, (0, 5))


def grown(method: DpC45, schema: Schema) -> Prepared:
    """Prepare the fit of a tree, which is all that is published."""

    def run(engine: Engine, noise: Noise) -> Released:
        return Released(tables={}, settings={"tree": asdict(method.fit(engine, noise))})

    return Prepared(method.guarantee(schema), run)


# Worst cases of recursive partitioning and of Mondrian.

SIDE = 12
"""Number of rows with "low", and of "+" rows with "high", among the SIDE**2 of `telling_pair`."""


def cut_schema(method: Partition) -> Schema:
    """Return a schema with three ordered values and a class: the example of erratum qardaji-2012-3.

    For class splits, there are two columns, one with ten times as many splits.
    """
    target = method.target or "class"
    if method.split == "class":
        return made_schema(
            {
                "few": words("low", "high"),
                "many": words(*(f"m{i}" for i in range(11)), ordered=True),
                target: words("+", "-", role="target"),
            }
        )
    return made_schema(
        {
            "v": words("v0", "v1", "v2", ordered=True),
            target: words("+", "-", role="target"),
        }
    )


def cut_pairs(method: Partition, schema: Schema) -> Iterator[Pair]:
    """Yield a choice between two cuts (qardaji-2012-3) and equal halves (-7, -8)."""
    target = method.target or schema.target
    if method.split == "class" and {"few", "many"} <= set(schema.attributes):
        yield telling_pair(schema)
    row, sizes = rows_by_name(schema), schema.domain.sizes
    first = next(name for name in schema.attributes if name != target)
    yes = {} if target is None else {target: 0}
    no = {} if target is None else {target: sizes[target] - 1}
    near, next_to, far = {first: 0}, {first: min(1, sizes[first] - 1)}, {first: sizes[first] - 1}
    yield with_and_without(
        schema, "a row that changes the cut (qardaji-2012-3)",
        [row(near | yes), row(next_to | no), row(next_to | no)], [row(near | yes)],
        Within("tree[0].cut", 2, 2),
    )  # fmt: skip
    # Among all tables with up to three equal rows, this one detects the printed weights fastest.
    yield with_and_without(
        schema, "a cut that one more row makes rare (qardaji-2012-3)",
        [row(next_to | no), row(next_to | no), row(far | yes)], [row(far | yes)],
        Within("tree[0].cut", 1, 1),
    )  # fmt: skip
    for count in (method.stop_count, 3):
        even = [row(near | yes)] * max(0, count) + [row(far | no)] * max(0, count)
        yield with_and_without(
            schema, "even halves (qardaji-2012-7, qardaji-2012-8)", even, [row(near | yes)]
        )


def telling_pair(schema: Schema) -> Pair:
    """Return neighbors with one row that changes one split's score by nearly the maximum.

    The row lowers the score of the split of "few" by nearly the maximum and raises that of ten
    others: the side "low" has no row of the class without it, and the class is absent from the
    first value of "many".
    """
    _, many, classes = schema.domain.sizes.values()
    rows = [(0, many - 1, classes - 1)] * SIDE
    rows += [(1, many - 1, 0)] * SIDE
    rows += [(1, many - 1, classes - 1)] * (SIDE**2 - 2 * SIDE)
    return with_and_without(
        schema, "a row that lowers one score and raises others", rows, [(0, 0, 0)],
        Within("tree[0].column=few", 1, 1),
    )  # fmt: skip


# Worst cases of quilt.


def paired_schema(method: Quilt) -> Schema:
    """Return a schema of binary columns: two, one of them the target, and those of a workload."""
    named = [name for item in method.workload for name in columns_of(item)]
    return made_schema(dict.fromkeys(("x", method.target or "y", *named), whole(2)))


def paired_pairs(method: Quilt, schema: Schema) -> Iterator[Pair]:
    """Yield copies of one row, and independent columns that one more row makes dependent."""
    yield from copies(schema, (0, 5, 60))
    low, high, *others = corner_cells(schema)
    even = [low, high, *others] * 15
    for row in (low, *others[:1]):
        yield with_and_without(schema, "a pair of columns that becomes dependent", even, [row])


# Audit cases of noisy records and condensation; their promises are not about neighbors.


def numeric_schema(method: Uncertain | Condensation) -> Schema:
    """Return a schema with numbers on a grid, the `carry` columns and, if set, the `k_column`."""
    columns: dict[str, Any] = {name: whole(20) for name in method.scales} or {"x": whole(20)}
    columns |= {name: words("F", "M") for name in method.carry}
    if isinstance(method, Uncertain) and method.k_column is not None:
        columns[method.k_column] = {"type": "integer", "low": method.k, "high": method.k + 1}
    return made_schema(columns)


CASES: Mapping[str, Case[Any]] = {
    "alpha-beta": Case(set_schema, set_pairs, all_views),
    "columns": Case(sparse_schema, sparse_pairs, planned),
    "condensation": Case(numeric_schema, no_pairs, planned),
    "contingency-table": Case(lambda _: counted_schema({}), contingency_pairs, planned),
    "degrees": Case(lambda method: method.schema("audit"), graph_pairs, measured, small_graphs),
    "diffgen": Case(lambda method: predicted_schema(method.target), predicted_pairs, planned),
    "dp-c45": Case(lambda method: predicted_schema(method.target), predicted_pairs, grown),
    "frapp": Case(lambda _: counted_schema({}), exchanged_pairs, planned),
    "generalize-suppress": Case(tuples_schema, no_pairs, planned),
    "mondrian": Case(lambda method: predicted_schema(method.target), no_pairs, planned),
    "noisy-counts": Case(tuples_schema, noisy_counts_pairs, planned),
    "partition": Case(cut_schema, cut_pairs, planned),
    "quilt": Case(paired_schema, paired_pairs, planned),
    "random-sampling": Case(lambda _: counted_schema({}), no_pairs, planned),
    "top-down-specialization": Case(
        lambda method: predicted_schema(method.target), no_pairs, planned
    ),
    "uncertain": Case(numeric_schema, no_pairs, planned),
}
