"""Random questions about any table: counts, cells, means, medians and slopes.

Columns are sampled from the schema. Values in conditions are sampled from the rows, so that most
conditions are true for some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushtable.query.answers.questions import quoted
from hushtable.schema import Column, Integer, Number, Schema

FEW = 12  # maximum number of values of a column in cross tables
WIDE = 500  # minimum number of values of a column that is counted in bins
RARE = 0.05  # maximum share of rows that satisfy a rare condition
GROUPS = 4  # maximum number of values of a categorical column in regressions


@dataclass
class Questions:
    """Questions to a release, by kind."""

    counts: list[str] = field(default_factory=list)  # conditions
    cells: list[tuple[str, ...]] = field(default_factory=list)  # columns of cross tables
    means: list[tuple[str, str | None]] = field(default_factory=list)  # column, condition
    medians: list[tuple[str, str | None]] = field(default_factory=list)  # column, condition
    slopes: list[str] = field(default_factory=list)  # regression formulas
    ranges: list[str] = field(default_factory=list)  # ranges of wide columns
    rare: list[str] = field(default_factory=list)  # conditions that few rows satisfy


def drawn(
    table: pa.Table, schema: Schema, seed: int, *, counts: int = 8, numbers: int = 4
) -> Questions:
    """Return random questions about a table."""
    rng = np.random.default_rng(seed)
    columns = schema.attributes
    few = [name for name, column in columns.items() if 2 <= column.size <= FEW]
    numeric = [name for name, column in columns.items() if _is_number(column)]
    found = Questions()
    for place in range(counts):
        among = _some(rng, list(columns), 1 + place % 3)
        found.counts.append(" AND ".join(_condition(rng, table, n, columns[n]) for n in among))
    for _ in range(2 if len(few) > 2 else min(1, len(few) // 2)):
        pair = tuple(_some(rng, few, 2))
        if pair not in found.cells:
            found.cells.append(pair)
    for name in _some(rng, numeric, numbers):
        others = [other for other in columns if other != name]
        where = _condition(rng, table, other := _some(rng, others, 1)[0], columns[other])
        found.means += [(name, None), (name, where)]
        found.medians += [(name, None), (name, where)]
    for _ in range(3 if len(numeric) > 1 else 0):
        among = _some(rng, numeric, int(rng.integers(2, 4)))
        terms = [quoted(name) for name in among[1:]]
        small = [name for name in few if columns[name].size <= GROUPS and name not in among]
        if small and rng.random() < 0.5:
            terms.append(f"C({quoted(_some(rng, small, 1)[0])})")
        found.slopes.append(f"{quoted(among[0])} ~ {' + '.join(terms)}")
    return found


def ranges(table: pa.Table, schema: Schema, seed: int, n: int) -> list[str]:
    """Return random ranges of columns with many values, every other one with a second condition."""
    rng = np.random.default_rng(seed)
    columns = schema.attributes
    wide = [name for name, column in columns.items() if _is_number(column) and column.size >= WIDE]
    found: list[str] = []
    for place in range(n if wide else 0):
        name, other = wide[place % len(wide)], _some(rng, list(columns), 1)[0]
        known = pc.drop_null(table.column(name))
        low, high = sorted(known.take(rng.integers(0, len(known), 2)).to_pylist())
        where = f"{quoted(name)} BETWEEN {low!r} AND {high!r}"
        if place % 2 and other != name:
            where += f" AND {_condition(rng, table, other, columns[other])}"
        found.append(where)
    return found


def rare(
    table: pa.Table,
    schema: Schema,
    seed: int,
    n: int,
    mask: Callable[[str], NDArray[np.bool_]],
) -> list[str]:
    """Return random conditions on two or three columns that few rows or none satisfy.

    `mask` returns the rows that satisfy a condition.
    """
    rng = np.random.default_rng(seed)
    columns = schema.attributes
    found: list[str] = []
    for _ in range(50 * n):  # a table may have few
        among = _some(rng, list(columns), int(rng.integers(2, 4)))
        where = " AND ".join(_condition(rng, table, name, columns[name]) for name in among)
        if mask(where).mean() <= RARE:
            found.append(where)
        if len(found) == n:
            break
    return found


def _some(rng: np.random.Generator, names: Sequence[str], n: int) -> list[str]:
    return [names[at] for at in rng.permutation(len(names))[:n].tolist()]


def _is_number(column: Column) -> bool:
    return isinstance(column, Integer | Number) and column.n_values > 2


def _condition(rng: np.random.Generator, table: pa.Table, name: str, column: Column) -> str:
    """Return a condition that compares a column with values of random rows."""
    taken = [table.column(name)[int(place)].as_py() for place in rng.integers(0, table.num_rows, 3)]
    values = [value for value in taken if value is not None]
    if not values:
        return f"{quoted(name)} IS NULL"
    if _is_number(column):
        low, high = min(values), max(values)
        if rng.random() < 0.5:
            return f"{quoted(name)} >= {values[0]!r}"
        return f"{quoted(name)} BETWEEN {low!r} AND {high!r}"
    if not isinstance(values[0], str):
        return f"{quoted(name)} = {values[0]!r}"
    listed = ", ".join("'" + v.replace("'", "''") + "'" for v in dict.fromkeys(values))
    return f"{quoted(name)} IN ({listed})"
