"""How far a count from a release will be off, worked out from its noise before it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hushtable.errors import Refused
from hushtable.estimate.base import CONFIDENCE
from hushtable.estimate.error_law import ErrorLaw
from hushtable.estimate.quantiles import NORMAL, nearly_normal
from hushtable.methods.base import CountError
from hushtable.privacy.count_mechanisms import CountMechanism, TwoSidedGeometric
from hushtable.privacy.distributions import laplace_mass

_FAR = 40.0  # noise beyond 40 scales has probability e**-40
_FINE = 1 / 100
"""Below this rate, noise in whole numbers and continuous noise differ by less than 0.2 %."""
_MAX_POINTS = 1 << 17
"""Longer sums, always of 16 counts or more, are approximated."""

WIDE = 1 / 8
"""Rows drawn inside cells say little where counts by one column have wider intervals."""

WIDE_NOISE = 1 / 3
"""Rows say little of two columns together where noise is a larger share of a column's range."""

_OFF = 0.1
"""Rows that are further off by chance alone are said to be few."""

ROWS = "rows as published"
"""The line of a forecast that says what rows are worth by themselves."""


def n_asked(share: float, n_cells: int) -> int:
    """Count the cells of a question that asks for a share of the rows, if all hold equally many."""
    return max(1, round(share * n_cells))


def needed_rows(rows: int | None) -> int:
    """Refuse where the error depends on how many rows there are, and that is not known."""
    if rows is None:
        raise Refused("the error depends on the number of rows: give rows (--rows), or a guess.")
    return rows


def laplace_error(rate: Fraction, n_counts: int, assumes: str) -> CountError:
    """Give the error of a sum of counts that each have discrete Laplace noise of scale 1/rate.

    Examples
    --------
    >>> one = laplace_error(Fraction(1, 10), 1, "")
    >>> one.half_width, round(one.std, 2)
    (30.0, 14.14)
    >>> many = laplace_error(Fraction(1, 10**6), 100, "")
    >>> round(many.half_width / many.std, 2)
    1.96
    """
    coarse = max(float(rate), _FINE)
    unit = coarse / float(rate)  # noise of a smaller rate is the same, wider
    reach = math.ceil(_FAR / coarse)
    values = np.arange(-reach, reach + 1)
    chances = laplace_mass(coarse, values)
    noise = ErrorLaw(values, chances)
    std = math.sqrt(n_counts * noise.variance)
    if n_counts * len(values) <= _MAX_POINTS:
        _, half = noise.quantiles(n_counts, CONFIDENCE)
    else:
        # Half a step is for whole numbers.
        kurtosis = float(values**4 @ chances) / noise.variance**2 - 3
        half = nearly_normal(kurtosis / n_counts) * std + 0.5
    return CountError(half_width=half * unit, std=std * unit, assumes=assumes)


def gaussian_error(variance: Fraction, n_counts: int, assumes: str) -> CountError:
    """Give the error of a sum of counts that each have discrete Gaussian noise.

    Its variance is at most the parameter (Canonne, Kamath and Steinke 2020), and a sum of them is
    normal but for being whole, for which half a step is added.

    Examples
    --------
    >>> gaussian_error(Fraction(25), 4, "").std
    10.0
    """
    std = math.sqrt(n_counts * variance)
    return CountError(half_width=NORMAL * std + 0.5, std=std, assumes=assumes)


def mechanism_error(
    mechanism: CountMechanism, *, rows: int | None, n_cells: int, share: float, assumes: str
) -> CountError:
    """Give the error of a sum of counts, some of which may be suppressed and so count as 0.

    All cells are taken to hold equally many rows. What is suppressed counts as lost, although an
    estimator that knows the number of rows can make up for some of it.
    """
    n_counts = n_asked(share, n_cells)
    if isinstance(mechanism, TwoSidedGeometric):
        return laplace_error(mechanism.epsilon, n_counts, assumes)
    per_cell = needed_rows(rows) // n_cells
    published, chances = mechanism.outcomes(per_cell)
    chance = float(chances.sum())
    if not len(published) or chance < 1e-9:
        lost = share * needed_rows(rows)
        return CountError(half_width=lost, std=0.0, assumes=f"{assumes} {_all_lost(per_cell)}")
    first, last = min(0, int(published[0])), int(published[-1])
    mass = np.zeros(last - first + 1)
    mass[published - first] += chances
    mass[-first] += 1.0 - chance
    noise = ErrorLaw(np.arange(first, last + 1) - per_cell, mass)
    low, high = noise.quantiles(n_counts, CONFIDENCE)
    # Estimators take the known bias off each published count.
    shift = n_counts * chance * mechanism.bias
    return CountError(
        half_width=max(abs(low - shift), abs(high - shift)),
        std=math.sqrt(n_counts * noise.variance),
        assumes=assumes,
    )


def _all_lost(per_cell: int) -> str:
    return (
        f"Spread evenly, a tuple has {per_cell:,} rows, which are never published: generalize more."
    )


def width_through_cells(
    *, n_cuts: int, sizes: Sequence[int], n_columns: int, error: CountError, rows: int
) -> float:
    """Expect the width of an interval of a count by one column, as a share of the rows.

    A question that asks for values up to some bound cuts through cells unless a cut is at that
    bound, and then knows nothing of them: none or all of their rows may be meant. Of `n_columns`,
    those of so many values (`sizes`) are divided by `n_cuts` cuts, each of which may be by any; the
    others are told apart in every cell. The noise of half of the cells, `error`, comes on top.

    Examples
    --------
    >>> few = CountError(half_width=10.0, std=5.0, assumes="")
    >>> round(width_through_cells(n_cuts=9, sizes=[2, 80], n_columns=3, error=few, rows=1000), 3)
    0.084
    """
    through = math.fsum(_cut_through(n_cuts, 1 / len(sizes), size) for size in sizes) / n_columns
    return through + 2 * error.half_width / max(rows, 1)


def _cut_through(n_cuts: int, chance: float, size: int) -> float:
    """Expect so large a cell to be cut by a question, if each cut is by its column with a chance.

    Cuts fall on any of the places between its values, and so does the bound that is asked for.
    """
    if size == 1:
        return 0.0
    return math.fsum(
        math.comb(n_cuts, n)
        * chance**n
        * (1 - chance) ** (n_cuts - n)
        * (1 - n / (size - 1))
        / (n + 1)
        for n in range(min(n_cuts, size - 1) + 1)
    )


def width_line(width: float) -> dict[str, str]:
    """Write the width to expect as a line of a forecast, and what it means for the rows."""
    wide = "as wide as the table" if width >= 1 else f"about {width:.0%} of the rows wide"
    return {"interval of a count by one column, typically": wide, **rows_line(width)}


def rows_line(width: float) -> dict[str, str]:
    """Say what rows are worth that are drawn inside cells through which so much is cut."""
    if width < WIDE:
        return {}
    return {
        ROWS: "drawn inside few, wide cells: two columns together may come out further off than "
        "columns that are counted one by one. Ask for counts, or publish fewer columns."
    }


def inside_cells(*, n_cells: float, sizes: Sequence[int], n_columns: int) -> dict[str, str]:
    """Say what rows are worth that are drawn inside so many cells, counted without noise.

    Examples
    --------
    >>> inside_cells(n_cells=100_000, sizes=[5, 8], n_columns=2)
    {}
    >>> list(inside_cells(n_cells=100, sizes=[30] * 12, n_columns=12))
    ['rows as published']
    """
    n_cuts = int(math.log2(max(n_cells, 1)))
    exact = CountError(half_width=0.0, std=0.0, assumes="")
    return rows_line(
        width_through_cells(n_cuts=n_cuts, sizes=sizes, n_columns=n_columns, error=exact, rows=1)
    )


def left_out_line(share: float) -> dict[str, str]:
    """Say what rows are worth of which up to such a share is left out with rare tuples."""
    if share < WIDE:
        return {}
    return {
        ROWS: f"up to {min(share, 1):.0%} may be left out with rare tuples: two columns together "
        "may come out further off than columns that are counted one by one."
    }


def few_rows_line(n_rows: float, sizes: Sequence[int]) -> dict[str, str]:
    """Say what so few rows are worth: how far off two columns are in them, by chance alone.

    Each column is taken in tenths, with rows spread evenly: of n rows a share p is off by about
    sqrt(2 p / (pi n)), and half of the sum over c cells is sqrt(c / (2 pi n)).

    Examples
    --------
    >>> few_rows_line(10_000, [2, 5, 80])
    {}
    >>> list(few_rows_line(100, [2, 5, 80]))
    ['rows as published']
    """
    cells = np.mean([math.sqrt(min(size, 10)) for size in sizes]) ** 2
    off = cells / math.sqrt(2 * math.pi * max(n_rows, 1))
    if off < _OFF:
        return {}
    return {
        ROWS: f"about {n_rows:,.0f}: two columns together may be off by {min(off, 1):.0%}, further "
        "than columns that are counted one by one, and what is learned from so few rows may do "
        "no better than naming the most frequent class."
    }


def blurred_line(share: float) -> dict[str, str]:
    """Say what rows are worth whose noise takes such a share of a column's range.

    Examples
    --------
    >>> blurred_line(0.2), list(blurred_line(0.5))
    ({}, ['rows as published'])
    """
    if share < WIDE_NOISE:
        return {}
    return {
        ROWS: f"moved by {share:.0%} of a column's range and more: two columns together may come "
        "out further off than columns that are counted one by one. Publish fewer columns."
    }


def replaced_line(share: float) -> dict[str, str]:
    """Say what rows are worth of which so large a share is of nobody."""
    return {
        ROWS: f"about {share:.0%} are drawn at random over the domain: counts allow for them, but "
        "rows taken as they are may tell less than columns that are counted one by one."
    }


def coins_error(
    *, n_true: float, n_other: float, keep: float, insert: float, assumes: str
) -> CountError:
    """Give the error of a count behind coins: true ones seen with `keep`, others with `insert`.

    The estimate is (seen - insert * all) / (keep - insert).
    """
    alpha = keep - insert
    variance = n_true * keep * (1 - keep) + max(n_other, 0.0) * insert * (1 - insert)
    std = math.sqrt(variance) / alpha
    # Seen numbers are whole: half a step allows for it.
    return CountError(half_width=NORMAL * std + 0.5 / alpha, std=std, assumes=assumes)
