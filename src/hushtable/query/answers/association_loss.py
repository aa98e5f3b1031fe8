"""Association between columns that is lost in published rows: figures and notes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.schema import Numeric, Schema
from hushtable.schema.codes import as_numpy, to_codes
from hushtable.schema.recoding import Recoding

KeptShares = Mapping[tuple[str, str], float]
"""Share of the association that rows kept, by pair of columns."""

KEPT_SETTING = "association_kept"
_SAME = 0.98  # no note is added if all pairs keep at least this share


def as_plain(kept: KeptShares) -> list[dict[str, Any]]:
    """Return the shares as plain data, smallest share first."""
    return [
        {"columns": list(pair), "kept": round(share, 3)}
        for pair, share in sorted(kept.items(), key=lambda item: item[1])
    ]


def in_words(kept: KeptShares) -> str | None:
    """Return a note on weaker associations; None if every pair kept at least 98%.

    Examples
    --------
    >>> print(in_words({("age", "pay"): 0.5, ("age", "sex"): 0.9}))
    Correlations are weaker in the rows than in the original. Between 50% (age and pay) and 90% of \
the association remains (median of 2 pairs: 70%), estimated from noise and shrinkage. \
`mean`, `regression` and other answers take this into account; results computed from the rows \
do not.
    """
    if not kept or min(kept.values()) >= _SAME:
        return None
    (one, two), least = min(kept.items(), key=lambda item: item[1])
    most, middle = max(kept.values()), median(kept.values())
    left = f"About {_percent(least)} of the association remains"
    if most - least > 1 - _SAME:
        left = (
            f"Between {_percent(least)} ({one} and {two}) and {_percent(most)} of the association "
            f"remains (median of {len(kept)} pairs: {_percent(middle)})"
        )
    return (
        f"Correlations are weaker in the rows than in the original. {left}, estimated from noise "
        "and shrinkage. `mean`, `regression` and other answers take this into account; results "
        "computed from the rows do not."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def uniform_loss(schema: Schema, share: float) -> dict[tuple[str, str], float]:
    """Return the same kept share for all pairs of columns."""
    return dict.fromkeys(combinations(schema.attributes, 2), share)


def kept_in_cells(
    schema: Schema, recode: Mapping[str, Recoding], table: pa.Table, count: str, bias: float = 0.0
) -> dict[tuple[str, str], float]:
    """Return the share of association kept in rows sampled from the cells of a table, by pair.

    `count` is the column with the counts, and `bias` the expectation of their noise.
    """
    codes = {
        name: to_codes(column, table.column(name), recode.get(name))
        for name, column in schema.attributes.items()
    }
    counts = as_numpy(table.column(count)).astype(np.float64) - bias
    return after_cuts(schema, recode, codes, counts)


def after_cuts(
    schema: Schema,
    recode: Mapping[str, Recoding],
    codes: Mapping[str, Integers],
    counts: Floats,
) -> dict[tuple[str, str], float]:
    """Return the share of association kept after sampling uniformly from generalized numbers.

    A number keeps the share of its variance that is between its intervals. If the association is
    linear, a pair keeps the product of both shares. The result has only pairs with a generalized
    column, and none with a generalized column that is not a number.
    """
    left: dict[str, float] = {}
    weights = np.maximum(counts, 0.0)
    for name, column in schema.attributes.items():
        if name not in recode:
            left[name] = 1.0
        elif isinstance(column, Numeric):
            new = recode[name].apply(np.arange(column.n_values))
            n = np.maximum(np.bincount(new, minlength=recode[name].size), 1)
            middle = np.bincount(new, np.arange(column.n_values), recode[name].size) / n
            inside = (np.bincount(new, minlength=recode[name].size) ** 2 - 1) / 12
            rows = np.bincount(codes[name], weights, recode[name].size)
            rows[recode[name].apply(np.arange(column.n_values, column.size))] = 0.0
            total = max(float(rows.sum()), 1.0)
            mean = float(rows @ middle) / total
            between = float(rows @ (middle - mean) ** 2) / total
            left[name] = between / max(between + float(rows @ np.maximum(inside, 0)) / total, 1e-12)
    return {
        (one, two): left[one] * left[two]
        for one, two in combinations(left, 2)
        if one in recode or two in recode
    }
