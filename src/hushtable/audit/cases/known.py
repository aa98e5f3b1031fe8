"""Worst cases of the methods that publish noisy counts of tuples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hushtable.audit.cases.case import Case, no_pairs, planned
from hushtable.audit.cases.made_up import (
    copies,
    counted_schema,
    generalized,
    made_schema,
    whole,
    words,
)
from hushtable.audit.events import Several, Within
from hushtable.audit.inputs import Row, TableInput
from hushtable.audit.neighbors import Pair, with_and_without
from hushtable.methods.counts.columns import Columns
from hushtable.methods.counts.generalize_suppress import GeneralizeSuppress
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.schema import Schema


def tuples_schema(method: NoisyCounts | GeneralizeSuppress) -> Schema:
    """Return a schema with six cells, or with the generalized columns."""
    return counted_schema(method.generalize)


def noisy_counts_pairs(method: NoisyCounts, schema: Schema) -> Iterator[Pair]:
    """Yield counts at which tuples appear first, or in half of the releases (000-4)."""
    if method.k is None:
        yield from copies(schema, (0, 5))
        return
    half = method.count_mechanism(schema).release_count(0.5)
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
    # More than `max_values`, so that someone loses a value if that is a bound.
    return made_schema(
        {
            "who": {"role": "identifier"},
            method.item: words(*items),
            method.value: whole(2),
        },
        {"kind": "person", "column": "who", "max_rows": min(len(items), 3)},
    )


def sparse_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Yield records of one column (000-2), of all columns (000-3), and a decisive one (000-1)."""
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
        schema, "a record with one column (000-2)", enough, [record(groups[0])], *hints
    )
    for n in (method.k - 1, count):
        of_all = with_and_without(
            schema, f"{n} records with all columns and one more (000-3)", [every] * n, [every],
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
            yield with_and_without(schema, "a row that changes a choice (000-1)", even, [tips])


def _listed_pairs(method: Columns, schema: Schema) -> Iterator[Pair]:
    """Yield the same cases for persons with items in a long table."""
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
            f"{n} persons with all items and one more (000-3)", [everything] * n, everything
        )
        yield replace(of_all, rare=n < method.k)
    alone: list[Sequence[int]] = [[i] for i in range(n_items) for _ in range(count + 3)]
    yield pair("a person with one item (000-2)", alone, [0])
    if method.clusters and most > 1 and n_items > 2:
        even: list[Sequence[int]] = [(0, 1), (0, 2)] * 20
        for tips in ((0, 1), (0, 2)):
            yield pair("a person who changes a choice (000-1)", even, tips)


NOISY_COUNTS = Case(tuples_schema, noisy_counts_pairs, planned)
COLUMNS = Case(sparse_schema, sparse_pairs, planned)
GENERALIZE_SUPPRESS = Case(tuples_schema, no_pairs, planned)
RANDOM_SAMPLING = Case(lambda _: counted_schema({}), no_pairs, planned)
