"""Comparison of correlations and regression slopes between original and published rows.

A model fitted to published rows inherits the attenuation from noise and shrinkage. For pairs of
numeric columns (at most `MAX_PAIRS` per block), the correlation and the slope are computed from
both tables: for all rows and, if some column has at most `MAX_GROUPS` values, for each value of the
column with the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hushtable.arrays import Bools
from hushtable.evaluation.findings import Plain, metric_named
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.marginals import OriginalAndPublished
from hushtable.schema import Numeric

MAX_PAIRS = 200
MAX_GROUPS = 6
LEAST_ROWS = 30
"""Minimum number of original rows of a group."""

CORRELATION = metric_named("correlation kept")
_CLEAR = 0.05  # smaller correlations are not used as divisors


@dataclass(frozen=True, kw_only=True)
class SlopeComparison(Plain):
    """Correlation and slope of two columns, each in the original and in the published rows."""

    names: tuple[str, str]  # the slope is that of the second column on the first
    group: str  # empty for all rows
    correlation: OriginalAndPublished
    slope: OriginalAndPublished

    @property
    def kept(self) -> float | None:
        """The share of the correlation that remains; None if the original is below 0.05."""
        both = self.correlation
        return both.published / both.original if abs(both.original) >= _CLEAR else None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return super().to_dict() | {"kept": self.kept}


def compare_slopes(
    originals: Sequence[CodedRows], draws: Sequence[Sequence[CodedRows]]
) -> tuple[SlopeComparison, ...]:
    """Compare pairs of numeric columns that are published together, in each block's first draw."""
    found: dict[tuple[str, str, str], SlopeComparison] = {}
    for original, drawn in zip(originals, draws, strict=True):
        published = drawn[0]
        names = [
            name
            for name, column in published.schema.attributes.items()
            if isinstance(column, Numeric)
        ]
        pairs = list(combinations(names, 2))[:MAX_PAIRS]
        for label, masks in _groups(original, published):
            for one, two in pairs:
                key = (one, two, label)
                if key not in found and int(masks[0].sum()) >= LEAST_ROWS:
                    before = _line(original, one, two, masks[0])
                    after = _line(published, one, two, masks[1])
                    found[key] = SlopeComparison(
                        names=(one, two),
                        group=label,
                        correlation=OriginalAndPublished(before[0], after[0]),
                        slope=OriginalAndPublished(before[1], after[1]),
                    )
    return tuple(found.values())


Masks = tuple[Bools, Bools]


def _groups(original: CodedRows, published: CodedRows) -> list[tuple[str, Masks]]:
    """Return masks for all rows, and for each value of the column with the fewest, if few."""
    all_rows = (np.ones(original.n_rows, np.bool_), np.ones(published.n_rows, np.bool_))
    groups: list[tuple[str, Masks]] = [("", all_rows)]
    columns = published.schema.attributes
    few = [
        (column.n_values, name)
        for name, column in columns.items()
        if 2 <= column.n_values <= MAX_GROUPS
    ]
    if few:
        _, name = min(few)
        column = columns[name]
        for code in range(column.n_values):
            masks = (original.codes[name] == code, published.codes[name] == code)
            groups.append((f"{name} = {column.value(code)}", masks))
    return groups


def _line(rows: CodedRows, one: str, two: str, mask: Bools) -> tuple[float, float]:
    """Return the correlation of two columns and the slope of the second on the first."""
    values = []
    for name in (one, two):
        column = rows.schema.attributes[name]
        assert isinstance(column, Numeric)  # noqa: S101 - chosen so
        codes = rows.codes[name]
        mask = mask & (codes < column.n_values)
        values.append(float(column.exact_low) + float(column.exact_step) * codes)
    x, y = (of[mask].astype(np.float64) for of in values)
    if len(x) < 2 or not x.std() or not y.std():
        return 0.0, 0.0
    covariance = float(np.mean((x - x.mean()) * (y - y.mean())))
    return covariance / float(x.std() * y.std()), covariance / float(x.var())


def in_short(compared: Sequence[SlopeComparison]) -> dict[str, Any] | None:
    """Summarize the comparisons as plain data; None if there are none."""
    if not compared:
        return None
    kept = [one.kept for one in compared if one.kept is not None and not one.group]
    return {
        "n": len(compared),
        "median_kept": float(np.median(kept)) if kept else None,
        "each": [one.to_dict() for one in compared],
    }


def weakest(slopes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the 20 comparisons whose correlation changed most, for a table."""
    changed = sorted(
        slopes["each"],
        key=lambda one: -abs(one["correlation"]["original"] - one["correlation"]["published"]),
    )
    return changed[:20]
