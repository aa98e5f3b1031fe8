"""Surrogate tables: made-up rows that follow a schema, to try a plan without private rows.

Values are drawn from the public domain alone, so a surrogate table contains no row, count or
frequency of the private table. Values early in a list are more frequent, and columns are
associated, so that a report on it has something to show.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats
from hushtable.schema import Categorical, Column, Schema

USUAL_ROWS = 10_000
"""Rows of the surrogate table if no number is given."""

MAX_ROWS = 200_000
_MISSING = 0.03

_VARIANTS: tuple[tuple[float, float, float, Callable[[Floats], Floats]], ...] = (
    # shares of values that follow the previous column, and that follow the row's class; skew of
    # categories; place of a number in its range, from its rank: widely spread, exponential, and
    # bell-shaped
    (0.5, 0.0, 0.7, lambda rank: rank**1.3),
    (0.05, 0.3, 1.2, lambda rank: -np.log1p(-rank) / 10),
    (0.0, 0.7, 2.0, lambda rank: 0.4 + 0.07 * np.log((rank + 1e-9) / (1 - rank))),
)
N_CLASSES = 12
"""Number of classes of rows, whose values in all columns resemble each other."""

N_VARIANTS = len(_VARIANTS)
"""Number of structures of surrogate tables; the first is that of a dry run."""


def surrogate_schema(schema: Schema) -> Schema:
    """Return the schema of the surrogate table, with a name that identifies it as one."""
    return schema.model_copy(
        update={"name": f"{schema.name} (surrogate, made-up rows)", "rows": None}
    )


def make_surrogate(schema: Schema, rows: int, variant: int = 0) -> pa.Table:
    """Return a surrogate table drawn from the schema alone; it is the same each time.

    The table has at least 1 row and at most `MAX_ROWS`. Variants below `N_VARIANTS` differ in the
    skew and the dependence of columns.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> table = make_surrogate(sample_schema(), 500)
    >>> table.num_rows, table.column_names == list(sample_schema().columns)
    (500, True)
    """
    rng = np.random.default_rng(variant)
    together, in_class, skew, place = _VARIANTS[variant]
    rows = min(max(rows, 1), MAX_ROWS)
    mood = rng.random(rows)
    classes = rng.integers(0, N_CLASSES, rows) if in_class else np.zeros(rows, np.int64)
    columns: dict[str, pa.Array] = {}
    for name in schema.columns:
        if name not in schema.attributes:
            # A person may have several rows.
            n_units = max(rows // 2, 1) if schema.unit.column == name else rows
            columns[name] = pa.array([str(n) for n in rng.integers(0, n_units, rows)])
            continue
        own = rng.random(rows)
        if in_class:
            near = rng.random(N_CLASSES)[classes] + 0.15 * (own - 0.5)
            own = np.where(rng.random(rows) < in_class, np.clip(near, 0, 1 - 1e-9), own)
        mood = np.where(rng.random(rows) < together, mood, own)
        columns[name] = _values(schema.attributes[name], mood, skew, place, rng)
    return pa.table(columns)


def _values(
    column: Column,
    mood: Floats,
    skew: float,
    place: Callable[[Floats], Floats],
    rng: np.random.Generator,
) -> pa.Array:
    if isinstance(column, Categorical):
        weights = 1.0 / (1.0 + np.arange(column.n_values)) ** skew
        codes = np.searchsorted(np.cumsum(weights) / weights.sum(), mood)
    else:
        codes = (place(mood) * column.n_values).astype(np.int64)
    codes = np.clip(codes, 0, column.n_values - 1)
    values = [column.value(int(code)) for code in codes]
    if column.missing == "category":
        gone = rng.random(len(values)) < _MISSING
        values = [None if none else value for value, none in zip(values, gone, strict=True)]
    return pa.array(values)
