"""Inputs of many sizes: neighbors that grow row by row, with several variants of the schema.

A method whose behavior changes at some count (a threshold, a cap, a power of two) shows it at the
pair of neighbors that crosses this count. All sizes up to a limit are tried and, beyond it, those
around every number in the method's plan or code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hushtable.audit.cases import whole, words
from hushtable.audit.code_constants import CodeConstants
from hushtable.audit.inputs import (
    GraphInput,
    Pair,
    RawInput,
    Row,
    TableInput,
    corner_cells,
    graph_pair,
    with_and_without,
)
from hushtable.engine.open_table import EngineName
from hushtable.errors import HushtableError
from hushtable.privacy.unit import Neighbors
from hushtable.schema import Schema

MOST_ROWS = 300
"""All tables with fewer rows are tried, in every shape."""

LARGEST_CONSTANT = 5_000
"""Largest number of a plan that is tried as a size in every shape."""

MOST_LARGE, MOST_NAMED = 2_000_000, 12
"""Largest number tried on copies of one row, and how many such numbers are tried."""

MOST_NAMES, PER_SCHEMA = 160, 40
"""Names of columns that are tried, and how many of them a schema has at once."""

TANGLED = 8
"""Random graphs of each size."""

CLIMBING = 6
"""Tables from which a search continues."""

RAW_ROWS = 20
"""Usual rows of raw tables."""

FAR_OUT: dict[str, Any] = {"integer": 10**6, "number": -math.inf}
"""Values beyond the bounds of a column, by its type."""

ENGINES: tuple[EngineName, ...] = ("memory", "duckdb")

Rows = Callable[[int], Sequence[Row]]


def shapes(schema: Schema) -> dict[str, Rows]:
    """Return ways to grow a table: the rows of size n are the first rows of size n + 1."""
    corners = corner_cells(schema)
    first, second = corners[0], corners[min(1, len(corners) - 1)]

    def different(n: int) -> Sequence[Row]:
        return list(itertools.islice(itertools.cycle(_grid(schema)), n))

    return {
        "copies of a row": lambda n: [first] * n,
        "rows, evenly over corners": lambda n: list(itertools.islice(itertools.cycle(corners), n)),
        "different rows": different,
        "rows of two kinds": lambda n: [second, *[first, second] * (n // 2 + 1)][:n],
    }


def _grid(schema: Schema) -> list[Row]:
    """Return the first cells of a domain, the last column varying fastest."""
    cells = itertools.product(*map(range, schema.domain.shape))
    return [tuple(cell) for cell in itertools.islice(cells, MOST_ROWS)]


def swept(schema: Schema, relation: Neighbors, sizes: Iterable[int]) -> Iterator[Pair]:
    """Yield neighbors of these sizes, in every shape."""
    listed = list(sizes)
    for shape, rows_of in shapes(schema).items():
        corners = corner_cells(schema)
        for n in listed:
            base = tuple(rows_of(n))
            name = f"{n} {shape} and one more"
            if relation == "replace":
                one, two = corners[0], corners[-1]
                yield Pair(
                    f"{n} {shape} and one of two others",
                    TableInput(schema, (*base, one)),
                    TableInput(schema, (*base, two)),
                )
            elif schema.unit.kind == "person":
                rows = _of_a_person(rows_of(n + 1)[-1], corners, schema.unit.max_rows or 1, n)
                yield with_and_without(schema, name, base, rows)
            else:
                yield Pair(name, TableInput(schema, tuple(rows_of(n + 1))),
                           TableInput(schema, base))  # fmt: skip


def _of_a_person(row: Row, corners: Sequence[Row], most: int, n: int) -> list[Row]:
    """Return, in turn, one row, several different rows, or more rows than are used."""
    others = [corner for corner in corners if corner != row] or [row]
    return ([row], [row, *others][: max(most, 2)], [row] * most + others[:1] * most)[n % 3]


def climbing_pairs(
    schema: Schema, relation: Neighbors, n: int, *, tightness: Callable[[], float]
) -> Iterator[Pair]:
    """Yield neighbors at which scores move more and more, as measured by `tightness`.

    Each pair is one of the best so far with some rows added or removed.
    """
    rng = np.random.default_rng(2)
    pool: list[tuple[float, list[Row], list[Row]]] = []
    sizes = schema.domain.shape
    for number in range(n):
        if number == n // 10 and not any(best[0] for best in pool):
            return  # the method does not select by scores
        base, extra = [], [tuple(map(int, rng.integers(sizes))) for _ in range(2)]
        if number < n // 4 or not pool:
            cells = rng.integers(sizes, size=(12, len(sizes))).tolist()
            base = [tuple(cells[at]) for at in rng.integers(12, size=rng.integers(2, 30))]
        else:
            _, rows, was = pool[int(rng.integers(len(pool)))]
            base = [*rows, *(tuple(map(int, rng.integers(sizes))) for _ in range(rng.integers(3)))]
            kept = rng.permutation(len(base))[: len(base) - int(rng.integers(min(3, len(base))))]
            base, extra = [base[at] for at in kept], was if rng.integers(3) else extra
        name = f"{len(base)} rows, chosen by a search, and one more"
        if relation == "replace":
            one, two = (TableInput(schema, (*base, row)) for row in extra)
            yield Pair(name, one, two)
        else:
            yield with_and_without(schema, name, base, extra)
        pool = sorted([*pool, (tightness(), base, extra)], key=lambda one: -one[0])[:CLIMBING]


def distant_pairs(schema: Schema, relation: Neighbors, sizes: Sequence[int]) -> Iterator[Pair]:
    """Yield pairs of very different tables, and one pair that differs only in the order of rows.

    If neighbors differ by a replaced row, both tables have the same (public) number of rows, and
    there is no reordered pair.
    """
    corners, shaped = corner_cells(schema), list(shapes(schema).values())
    middle = tuple(size // 2 for size in schema.domain.shape)
    for n in sizes:
        tables: list[Sequence[Row]] = [[corners[0]] * n, [corners[-1]] * n]
        if relation != "replace":
            tables = [shaped[2](n), [], [corners[-1]] * (n // 3), [middle] * n]
        for one, two in itertools.pairwise(tables):
            yield Pair(
                f"{len(one)} rows and {len(two)} different ones",
                TableInput(schema, tuple(one)),
                TableInput(schema, tuple(two)),
                distant=True,
            )
    if relation != "replace":
        # The order of rows must not matter.
        rows = tuple(shaped[2](max(sizes)))
        yield Pair(
            "rows in another order",
            TableInput(schema, rows),
            TableInput(schema, rows[::-1]),
            distant=True,
        )


def swept_graphs(sizes: Iterable[int], *, listed: bool) -> Iterator[Pair]:
    """Yield graphs of these sizes, with and without one of their nodes."""
    for n in sizes:
        star = tuple(("hub", f"leaf{i}") for i in range(n))
        pairs = tuple((f"left{i}", f"right{i}") for i in range(n))
        line = tuple((f"node{i}", f"node{i + 1}") for i in range(n))
        for shape, edges, node in (
            ("leaves of a star", star, f"leaf{n - 1}"),
            ("leaves of a star, without its hub", star, "hub"),
            ("pairs", pairs, f"left{n - 1}"),
            ("edges in a row", line, f"node{n}"),
            *(("edges of few nodes", tuple(_tangled(n, seed)), "node0") for seed in range(TANGLED)),
        ):
            nodes = tuple(dict.fromkeys(end for edge in edges for end in edge))
            if node in nodes:
                yield graph_pair(f"{n} {shape}", GraphInput(nodes, edges, listed), node)


def _tangled(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield edges among few nodes, so that degree bounds remove many of them."""
    n_nodes = max(4, 3 * n // 4)
    state, seen = 1000 * n + seed, set[tuple[int, int]]()
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ends = (state >> 33) % n_nodes, (state >> 13) % n_nodes
        edge = min(ends), max(ends)
        if edge[0] != edge[1] and edge not in seen:
            seen.add(edge)
            yield f"node{edge[0]}", f"node{edge[1]}"


# --- sizes ----------------------------------------------------------------------------------------


def large_sizes(constants: CodeConstants) -> list[int]:
    """Return large sizes that the code contains, its own first, each with its predecessor.

    Examples
    --------
    >>> from hushtable.audit.code_constants import constants_of
    >>> large_sizes(constants_of(None))[-1] <= MOST_LARGE
    True
    """
    own = constants.whole(LARGEST_CONSTANT + 1, MOST_LARGE, all_compared=False)
    others = constants.whole(LARGEST_CONSTANT + 1, MOST_LARGE)
    named = list(dict.fromkeys([*own, *others]))[:MOST_NAMED]
    return [n - step for n in named for step in (0, 1)]


def named_sizes(constants: CodeConstants) -> list[int]:
    """Return the sizes that the method's own code contains, each with its predecessor."""
    own = constants.whole(2, LARGEST_CONSTANT, all_compared=False)
    return sorted({n - step for n in own for step in (0, 1)})


def sizes_of(constants: CodeConstants) -> list[int]:
    """Return the sizes to sweep: all below `MOST_ROWS`, then near constants and powers of two."""
    own = constants.whole(2, LARGEST_CONSTANT, all_compared=False)
    around = {n + step for n in (*own, 512, 1024, 2048, 4096) for step in (-2, -1, 0)}
    return sorted({*range(MOST_ROWS), *(n for n in around if n >= MOST_ROWS)})


def large_pairs(schema: Schema, sizes: Iterable[int]) -> Iterator[Pair]:
    """Yield tables of many copies of one row with and without one more; the unit is a row."""
    first, *others = corner_cells(schema)
    for n in sizes:
        for row in (first, *others[:1]):
            one = TableInput(schema, (first, row), n_more=n - 1)
            yield Pair(f"{n} copies of a row and one more", one, replace(one, rows=(first,)))


def huge_pair(schema: Schema, n: int) -> Pair:
    """Return a table of many copies of one row, and one with that row alone; no neighbors."""
    few = TableInput(schema, tuple(corner_cells(schema)[:1]))
    return Pair(f"{n} copies of a row and a single one", replace(few, n_more=n), few, distant=True)


# --- random tables --------------------------------------------------------------------------------


def random_pairs(schema: Schema, relation: Neighbors, n: int, seed: int = 1) -> Iterator[Pair]:
    """Yield neighbors with a few kinds of rows, equally or unequally frequent.

    Scores and choices depend most on one row where frequencies are equal or nearly equal.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array(schema.domain.shape)
    most = schema.unit.max_rows or 1
    for number in range(n):
        n_kinds = 16 if number % 3 == 2 else rng.integers(2, 7)
        kinds = [tuple(map(int, rng.integers(sizes))) for _ in range(n_kinds)]
        times = rng.integers(0, (3, 6, 12, 30)[number % 4], size=len(kinds))
        if number % 2:  # ties
            times[:] = rng.choice([times.max(), times.max() + 1, 0], size=len(kinds))
        base = tuple(kind for kind, n_times in zip(kinds, times, strict=True)
                     for _ in range(n_times))  # fmt: skip
        extra = [kinds[int(at)] for at in rng.integers(len(kinds), size=max(2, most))]
        name = f"{len(base)} random rows and one more"
        if relation == "replace":
            yield Pair(name, TableInput(schema, (*base, extra[0])),
                       TableInput(schema, (*base, extra[1])))  # fmt: skip
        else:
            yield with_and_without(schema, name, base, extra)


# --- raw tables -----------------------------------------------------------------------------------


def raw_pairs(schema: Schema) -> Iterator[Pair]:
    """Yield raw tables with and without missing values, out-of-domain values and unowned rows.

    Rows without a person must not count at all, so any number of them may differ.
    """
    who, columns = schema.unit.column, schema.attributes
    usual = [
        {name: column.value(at % column.size) for name, column in columns.items()}
        for at in range(RAW_ROWS)
    ]
    far = {name: FAR_OUT[c.type] for name, c in columns.items() if c.type in FAR_OUT}
    gone = dict.fromkeys(name for name, c in columns.items() if c.missing_code is not None)
    strange = [{**row, **other} for row in usual for other in (far, gone)]
    unowned: list[dict[str, Any]] = []
    if who is not None:
        unowned = usual
        usual = [{**row, who: f"usual {at}"} for at, row in enumerate(usual)]
        strange = [{**row, who: f"strange {at}"} for at, row in enumerate(strange)]
    for engine in ENGINES:
        for more in (strange, strange[:1], strange[1:2], unowned):
            one, two = (RawInput(schema, rows, engine) for rows in ([*usual, *more], usual))
            name = f"raw rows and {len(more)} others ({engine})"
            yield Pair(name, one, two, distant=more is strange)


# --- schemas --------------------------------------------------------------------------------------


def variants(
    schema: Schema, fits: Callable[[Schema], Any], constants: CodeConstants | None = None
) -> Iterator[tuple[str, Schema]]:
    """Yield variants of a schema: other units, columns of other types, names and features.

    With `constants`, bounds per person, names, values and numbers of columns come from the code,
    too. Variants for which `fits` raises are skipped.
    """
    document = schema.to_dict()
    columns: dict[str, dict[str, Any]] = document["columns"]
    for name, added, more in _variations(document, constants or CodeConstants()):
        # A variant may change columns or add some before the others.
        new = {column: added[column] for column in added if column not in columns}
        content = {
            **document,
            **more,
            "columns": new | {column: added.get(column, columns[column]) for column in columns},
        }
        if more and schema.unit.kind == "person" and "unit" in more:
            continue
        try:
            other = Schema.from_dict(content)
            fits(other)
        except (HushtableError, ValueError, KeyError):
            continue
        yield name, other


Variation = tuple[str, dict[str, dict[str, Any]], dict[str, Any]]
"""Name of a variant, its changed or additional columns, and other parts of the schema."""


def _variations(document: dict[str, Any], constants: CodeConstants) -> Iterator[Variation]:
    columns: dict[str, dict[str, Any]] = document["columns"]
    published = {
        name: column for name, column in columns.items()
        if column.get("role") not in {"identifier", "target"}
    }  # fmt: skip
    missing = {name: {**column, "missing": "category"} for name, column in published.items()}
    taxonomy = {"all": {"left": ["l1", "l2"], "right": ["r1", "r2"]}}
    values = ["l1", "l2", "r1", "r2"]
    year = {"type": "date", "low": "2020-01-01", "high": "2021-12-31", "step": "year"}
    special: dict[str, Any] = {
        "how-often": whole(2, special={"-9": "unknown"}),
        "how-dear": {"type": "decimal", "low": 0, "high": 1, "step": 0.5},
        "how-late": {"type": "duration", "low": 0, "high": 1, "step": "hour"},
    }
    many = max([600, *constants.whole(600, LARGEST_CONSTANT, all_compared=False)])
    yield _persons(2, "two")
    yield "missing values", missing, {}
    yield "a column with a taxonomy", {"kind-of": words(*values, taxonomy=taxonomy)}, {}
    yield "a column with many values", {"how-many": whole(many + 1)}, {}
    every: dict[str, dict[str, Any]] = {
        "how-much": {"type": "number", "low": 0, "high": 1, "step": 0.5},
        "which-year": year,
        "one-of-two": {"type": "boolean", "label": "Choice"},
        "two-of-two": {"type": "boolean"},
    }
    yield "columns of every type", every, {}
    _, who, unit = _persons(3, "three")
    yield "persons, columns of every type", {**missing, **every, **who}, unit
    moment = {"type": "timestamp", "low": "2024-02-29T22:00:00", "high": "2024-03-01T01:00:00",
              "step": "hour"}  # fmt: skip
    yield "times", {"which-hour": moment, "what-time": {"type": "time", "step": "hour"}}, {}
    yield "special values", special, {}
    ruled = {"how-few": whole(3), "how-long": whole(2), "which-year": year}
    rules = ['"how-few" >= "how-long"', '"how-few" <> 2']
    rest = {"rules": rules, "derived": {"of-year": "year(which-year)"}}
    yield "rules and derived columns", ruled, rest
    several = {**missing, **who, **ruled, **special, "alike": whole(1)}
    yield "persons and more", several, {**unit, **rest}  # for conditions on several features
    yield "texts for missing values", missing, {"missing_values": ["", "NA", "-9"]}
    yield "ordered values and bins", {
        "how-good": words(*values, ordered=True, other="l2"),
        "how-far": whole(10, bins=[0, 2, 5]),
    }, {}  # fmt: skip
    counts = {5, 8, 16, 40, *constants.whole(2, 64)[:MOST_NAMED]}
    for n in sorted({n + step for n in counts for step in (0, 1)} - {*range(len(columns) + 1)}):
        more = {f"column-{at}": whole(1) for at in range(n - len(columns))}
        yield f"{n} columns", more, {}
    for most in dict.fromkeys([6, 3, 11, *constants.whole(2, 64, all_compared=False)]):
        yield _persons(most, str(most))
    names = constants.names(columns)[:MOST_NAMES]
    for at in range(0, min(len(names), 24), 3):  # the most likely names, with two values each
        yield f"names {names[at]} ...", {name: whole(2) for name in names[at : at + 3]}, {}
    for at in range(0, len(names), PER_SCHEMA):
        some = names[at : at + PER_SCHEMA]
        yield f"names {some[0]} ...", {name: whole(1) for name in some}, {}
        values = list(dict.fromkeys([*some, *map(str.lower, some)]))
        yield f"values {some[0]} ...", {"which": words(*values)}, {}


def _persons(most: int, number: str) -> Variation:
    unit = {"kind": "person", "column": "who-it-is", "max_rows": most}
    return f"persons with {number} rows", {"who-it-is": {"role": "identifier"}}, {"unit": unit}
