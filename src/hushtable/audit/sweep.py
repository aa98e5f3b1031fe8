"""Inputs of many sizes: neighbors that grow row by row, with several variants of the schema.

A method whose behavior changes at some count (a threshold, a cap, a power of two) shows it at the
pair of neighbors that crosses this count. All sizes up to a limit are tried and, beyond it, those
around every number in the method's plan or code.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from types import CellType, CodeType, FunctionType
from typing import Any

from hushtable.audit.inputs import (
    GraphInput,
    Pair,
    Row,
    TableInput,
    corner_cells,
    graph_pair,
    with_and_without,
)
from hushtable.errors import HushtableError
from hushtable.privacy.guarantee import Neighbors
from hushtable.schema import Schema

MOST_ROWS = 300
"""All tables with fewer rows are tried, in every shape."""

LARGEST_CONSTANT = 5_000
"""Largest number of a plan that is tried as a size in every shape."""

MOST_LARGE, MOST_NAMED = 300_000, 6
"""Largest number tried on copies of one row, and how many such numbers are tried."""

TANGLED = 8
"""Random graphs of each size."""

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
    sizes = schema.domain.shape
    cells = itertools.product(*(range(size) for size in sizes))
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


def constants(plan: Any, limit: int = LARGEST_CONSTANT) -> list[int]:
    """Return the integers in a plan and in its code, up to a limit.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Plan:
    ...     threshold: int = 40
    ...     share: Fraction = Fraction(1, 7)
    >>> {7, 40} <= set(constants(Plan()))
    True
    """
    found: set[int] = set()
    met: set[int] = set()
    _collect(plan, found, limit, met)
    for kind in type(plan).__mro__:
        if kind.__module__ in {"builtins", "abc", "typing"}:
            continue
        for value in vars(sys.modules[kind.__module__]).values():
            _collect(value, found, limit, met)
        for value in vars(kind).values():
            _collect(value.fget if isinstance(value, property) else value, found, limit, met)
    return sorted(found)


def _collect(value: Any, found: set[int], limit: int, met: set[int]) -> None:
    if id(value) in met or len(met) > 10_000:
        return
    met.add(id(value))
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        if 1 < abs(value) <= limit:
            found.add(abs(value))
        return
    if isinstance(value, FunctionType):
        _named(value.__code__, found, limit)
    for part in _parts(value):
        _collect(part, found, limit, met)


def _parts(value: Any) -> Iterable[Any]:
    """Return the fields or elements of an object, or the closure variables of a function."""
    if isinstance(value, Fraction):
        return value.numerator, value.denominator
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Schema):
        return [getattr(value, part.name, None) for part in dataclasses.fields(value)]
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else ()


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the cell is empty
        return False


def _named(code: CodeType, found: set[int], limit: int) -> None:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            _named(value, found, limit)
        elif isinstance(value, int) and not isinstance(value, bool) and 1 < value <= limit:
            found.add(value)


def large_sizes(plan: Any) -> list[int]:
    """Return up to six large sizes that a plan or its code contains, each with its predecessor.

    Examples
    --------
    >>> large_sizes(None)
    []
    """
    named = [n for n in constants(plan, MOST_LARGE) if n > LARGEST_CONSTANT]
    return sorted({n - step for n in named[:MOST_NAMED] for step in (0, 1)})


def sizes_of(plan: Any) -> list[int]:
    """Return the sizes to sweep: all below `MOST_ROWS`, then near constants and powers of two."""
    around = {n + step for n in (*constants(plan), 512, 1024, 2048, 4096) for step in (-2, -1, 0)}
    return sorted({*range(MOST_ROWS), *(n for n in around if n >= MOST_ROWS)})


# --- schemas --------------------------------------------------------------------------------------


def variants(schema: Schema, fits: Callable[[Schema], Any]) -> Iterator[tuple[str, Schema]]:
    """Yield variants of a schema: persons with two rows, missing values, a taxonomy, more columns.

    Variants for which `fits` raises are skipped.
    """
    document = schema.to_dict()
    columns: dict[str, dict[str, Any]] = document["columns"]
    persons = {"unit": {"kind": "person", "column": "who-it-is", "max_rows": 2}}
    taxonomy = {"all": {"left": ["l1", "l2"], "right": ["r1", "r2"]}}
    values = ["l1", "l2", "r1", "r2"]
    year = {"type": "date", "low": "2020-01-01", "high": "2021-12-31", "step": "year"}
    changed: dict[str, dict[str, Any]] = {
        "persons with two rows": {"who-it-is": {"role": "identifier"}},
        "missing values": {
            name: {**column, "missing": "category"}
            for name, column in columns.items()
            if column.get("role") not in {"identifier", "target"}
        },
        "a column with a taxonomy": {
            "kind-of": {"type": "categorical", "values": values, "taxonomy": taxonomy},
        },
        "a column with many values": {"how-many": {"type": "integer", "low": 0, "high": 599}},
        "columns of every type": {
            "how-much": {"type": "number", "low": 0, "high": 1, "step": 0.5},
            "which-year": year,
            "one-of-two": {"type": "boolean"},
            "two-of-two": {"type": "boolean"},
        },
    }
    for name, others in changed.items():
        added = {column: others[column] for column in others if column not in columns}
        content = {
            **document,
            **(persons if "who-it-is" in added else {}),
            "columns": added | {column: others.get(column, columns[column]) for column in columns},
        }
        try:
            other = Schema.from_dict(content)
            fits(other)
        except (HushtableError, ValueError, KeyError):
            continue
        yield name, other
