"""Binning of wide numeric columns by a hierarchy of noisy counts.

A number with a million possible values cannot be counted value by value: noise would exceed all but
the largest counts. Equal-width bins would hide a value that half of the rows have, and would not
resolve dense ranges. So the range is first counted in `FIRST` intervals of equal width. Intervals
with many rows are split into `BRANCHES` parts and counted again, until parts have too few rows to
split, or are single values. A frequent value gets its own interval; an empty tail stays in long
intervals.

Privacy: every count is a table of all rows by disjoint intervals, so one row is in exactly one of
them, and each table is paid for. Noisy counts alone determine which intervals are counted next. See
``quilt.md``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hushtable.arrays import Integers
from hushtable.methods.quilt.binning import CUT_SHARE, CountedDomain
from hushtable.methods.quilt.budget import NoisyTable, PrivateMeasurer, as_share
from hushtable.schema.recoding import recode

FIRST = 256
"""Intervals that are counted first, in addition to the ends and zero."""

BRANCHES = 8
"""Number of parts into which an interval is split."""

WORTH_CUTTING = 3.0 * BRANCHES
"""Minimum count of an interval to split, in standard deviations of its noise."""

MAX_CUTS = 6
"""Maximum number of tables counted for binning."""


def bin_wide_column(
    measurer: PrivateMeasurer, place: int, values: CountedDomain, share: Fraction
) -> tuple[CountedDomain, list[tuple[NoisyTable, Integers]], Integers]:
    """Bin a wide column by noisy counts.

    Parameters
    ----------
    measurer : PrivateMeasurer
        Source of noisy tables.
    place : int
        Index of the column, which was read.
    values : CountedDomain
        How it was read.
    share : Fraction
        Budget of the column, including its binning.

    Returns
    -------
    CountedDomain
        How the column is counted from now on.
    list of (PaidTable, int array)
        The tables measured for binning, with the interval of each value of the first result.
    int array
        The interval of each value that was read.
    """
    starts = _first_starts(values)
    story: list[tuple[NoisyTable, Integers]] = []
    each = as_share(float(share) * CUT_SHARE / MAX_CUTS)
    for _ in range(MAX_CUTS):
        table = measurer.measure("cuts of wide columns", (place,), each, _cells(starts, values))
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


def _first_starts(values: CountedDomain) -> Integers:
    """Return starts of equal-width intervals; the ends and zero get their own."""
    n = values.n_values
    alone = {0, n - 1, *values.zero}
    starts = {*range(0, n, -(-n // FIRST)), *alone, *(place + 1 for place in alone)}
    return np.array(sorted(starts - {n}), np.int64)


def _cut_heavy(starts: Integers, table: NoisyTable, n_values: int) -> Integers:
    """Split the intervals with many rows."""
    widths = np.diff(np.append(starts, n_values))
    heavy = table.counts[: len(starts)] >= WORTH_CUTTING * table.noise.std
    parts = [starts]
    for start, width in zip(starts[heavy], widths[heavy], strict=True):
        parts.append(start + np.unique(np.arange(BRANCHES) * width // BRANCHES))
    return np.unique(np.concatenate(parts))


def _cells(starts: Integers, values: CountedDomain) -> Integers:
    """Return the interval of each value; special values and missing come last."""
    cells = np.zeros(values.size, np.int64)
    cells[starts[1:]] = 1
    cells[values.n_values :] = 1
    return np.cumsum(cells)


def _read_at(starts: Integers, values: CountedDomain) -> Integers:
    """Return the first value of each interval, then special values and missing."""
    return np.append(starts, np.arange(values.n_values, values.size))


def _recoded(values: CountedDomain, starts: Integers) -> CountedDomain:
    """Return how the column is counted in these intervals, in codes of the schema."""
    codes = starts if values.recoding is None else values.first_codes[starts]
    lowest = [values.column.value(int(code)) for code in codes]
    rule = [value for value in lowest if value is not None]
    return replace(values, rule=rule, recoding=recode(values.name, values.column, rule))
