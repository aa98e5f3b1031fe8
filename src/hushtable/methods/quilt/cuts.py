"""Wide numeric columns are cut where people are: by a hierarchy of noisy counts.

What it does. A number of a million possible values cannot be counted value by value: noise would
cover all but the largest counts, and equal bins lose a value that half of the table has, or cut
nothing where everybody is. So the range is first counted in `FIRST` intervals of one width. Those
in which many are found are cut into `BRANCHES` parts and counted again, and so on, until parts hold
too few people to be worth cutting, or are single values. A value that stands out ends up alone; an
empty tail stays in long intervals.

How it is private. Every count is a table of all rows by disjoint intervals, so that one row is in
exactly one of them, and it is paid for like any other table. Which intervals are counted next
follows from noisy counts alone. See ``quilt.md``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hushtable.methods.quilt.domains import Integers, Values
from hushtable.methods.quilt.meter import Meter, PaidTable, as_share
from hushtable.recoding import recode
from hushtable.schema import Categorical

WIDE = 512
"""A numeric column with more values is cut."""

FIRST = 256
"""Intervals that are counted first, beside the ends and zero."""

BRANCHES = 8
"""Parts that an interval is cut into."""

WORTH_CUTTING = 3.0 * BRANCHES
"""An interval is cut if it holds this many standard deviations of its noise."""

MAX_CUTS = 6
"""How often intervals are cut, at most."""

CUT_SHARE = 0.3
"""What cutting may cost, in parts of what the column gets."""


def is_wide(values: Values) -> bool:
    """Say whether a column is cut."""
    return not isinstance(values.column, Categorical) and values.n_values > WIDE


def planned_size(values: Values) -> int:
    """Say how many values a column counts as when the budget is divided."""
    return min(values.size, WIDE) if is_wide(values) else values.size


def cut(
    meter: Meter, place: int, values: Values, share: Fraction
) -> tuple[Values, list[tuple[PaidTable, Integers]], Integers]:
    """Cut a wide column.

    Parameters
    ----------
    meter : Meter
        What lets out noisy tables.
    place : int
        The column, which was read.
    values : Values
        How it was read.
    share : Fraction
        What the column gets, cutting included.

    Returns
    -------
    Values
        How it is counted from now on.
    list of (PaidTable, int array)
        What was measured on the way, with the interval of each value of the first.
    int array
        The interval of each value that was read.
    """
    starts = _first_starts(values)
    story: list[tuple[PaidTable, Integers]] = []
    each = as_share(float(share) * CUT_SHARE / MAX_CUTS)
    for _ in range(MAX_CUTS):
        table = meter.measure("cuts of wide columns", (place,), each, _cells(starts, values))
        story.append((table, starts))
        finer = _cut_heavy(starts, table, values.n_values)
        if len(finer) == len(starts):
            break
        starts = finer
    found = _recoded(values, starts)
    return (
        found,
        [(table, _cells(before, values)[_read_at(starts, values)]) for table, before in story],
        _cells(starts, values),
    )


def _first_starts(values: Values) -> Integers:
    """Give intervals of one width, with the ends and zero, where values pile up, apart."""
    n = values.n_values
    alone = {0, n - 1, *values.zero}
    starts = {*range(0, n, -(-n // FIRST)), *alone, *(place + 1 for place in alone)}
    return np.array(sorted(starts - {n}), np.int64)


def _cut_heavy(starts: Integers, table: PaidTable, n_values: int) -> Integers:
    """Cut the intervals in which many are."""
    widths = np.diff(np.append(starts, n_values))
    heavy = table.counts[: len(starts)] >= WORTH_CUTTING * table.noise.std
    parts = [starts]
    for start, width in zip(starts[heavy], widths[heavy], strict=True):
        parts.append(start + np.unique(np.arange(BRANCHES) * width // BRANCHES))
    return np.unique(np.concatenate(parts))


def _cells(starts: Integers, values: Values) -> Integers:
    """Give the interval of each value; missing is the last."""
    cells = np.zeros(values.size, np.int64)
    cells[starts[1:]] = 1
    cells[values.n_values :] = 1
    return np.cumsum(cells)


def _read_at(starts: Integers, values: Values) -> Integers:
    """Give the first value of each interval, and missing."""
    return np.append(starts, np.arange(values.n_values, values.size))


def _recoded(values: Values, starts: Integers) -> Values:
    """Say how the column is counted in these intervals, in codes of the schema."""
    codes = starts if values.recoding is None else values.first_codes[starts]
    lowest = [values.column.value(int(code)) for code in codes]
    rule = [value for value in lowest if value is not None]
    return replace(values, rule=rule, recoding=recode(values.name, values.column, rule))
