"""Expected error of counts from a release, computed from the distribution of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hushtable.errors import Refused
from hushtable.methods.base import CountError
from hushtable.numeric import CONFIDENCE, NORMAL, nearly_normal
from hushtable.privacy.mechanisms.single_counts import CountMechanism, TwoSidedGeometric
from hushtable.privacy.noise.distributions import laplace_mass
from hushtable.query.answers.cell_sums import ErrorLaw

_FAR = 40.0  # noise exceeds 40 scales with probability e**-40
_FINE = 1 / 100
"""Below this rate, discrete and continuous noise differ by less than 0.2%."""
_MAX_POINTS = 1 << 17
"""Maximum size of an exact convolution; sums that need more, of at least 17 counts, use a normal
approximation."""

WIDE = 1 / 8
"""Width of one-column intervals, as a share of the rows, above which rows are unreliable."""

WIDE_NOISE = 1 / 3
"""Noise above this share of a column's range hides associations between two columns."""

_OFF = 0.1
"""Sampling error of two-column counts, as a share of the rows, above which rows are called few."""

ROWS = "rows as published"
"""Label of the forecast line on the accuracy of published rows used without the estimator."""


def n_asked(share: float, n_cells: int) -> int:
    """Return the number of cells that hold a share of the rows, if all cells are equally full."""
    return max(1, round(share * n_cells))


def needed_rows(rows: int | None) -> int:
    """Return the number of rows; raise `Refused` if it is unknown."""
    if rows is None:
        raise Refused("the error depends on the number of rows; pass rows (--rows), or a guess.")
    return rows


def laplace_error(rate: Fraction, n_counts: int, assumes: str) -> CountError:
    """Return the error of a sum of counts with independent discrete Laplace noise of scale 1/rate.

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
    unit = coarse / float(rate)  # noise of a smaller rate is approximately a multiple of this noise
    reach = math.ceil(_FAR / coarse)
    values = np.arange(-reach, reach + 1)
    chances = laplace_mass(coarse, values)
    noise = ErrorLaw(values, chances)
    std = math.sqrt(n_counts * noise.variance)
    if n_counts * len(values) <= _MAX_POINTS:
        _, half = noise.quantiles(n_counts, CONFIDENCE)
    else:
        # The extra 0.5 is a continuity correction: counts are whole numbers.
        kurtosis = float(values**4 @ chances) / noise.variance**2 - 3
        half = nearly_normal(kurtosis / n_counts) * std + 0.5
    return CountError(half_width=half * unit, std=std * unit, assumes=assumes)


def gaussian_error(variance: Fraction, n_counts: int, assumes: str) -> CountError:
    """Return the error of a sum of counts with independent discrete Gaussian noise.

    The variance of the noise is at most its parameter (Canonne, Kamath and Steinke 2020). The sum
    is nearly normal; a continuity correction of 0.5 is added.

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
    """Return the error of a sum of noisy counts; suppressed counts count as 0.

    All cells are assumed to hold the same number of rows. Suppressed rows count as lost, although
    an estimator that knows the number of rows can recover some of them.
    """
    n_counts = n_asked(share, n_cells)
    if isinstance(mechanism, TwoSidedGeometric):
        return laplace_error(mechanism.epsilon, n_counts, assumes)
    per_cell = needed_rows(rows) // n_cells
    published, chances = mechanism.outcomes(per_cell)
    chance = float(chances.sum())
    if not len(published) or chance < 1e-9:
        lost = share * needed_rows(rows)
        assumes += (
            f" If all tuples are equally frequent, each has {per_cell:,} rows and is never "
            "published; generalize more."
        )
        return CountError(half_width=lost, std=0.0, assumes=assumes)
    first, last = min(0, int(published[0])), int(published[-1])
    mass = np.zeros(last - first + 1)
    mass[published - first] += chances
    mass[-first] += 1.0 - chance
    noise = ErrorLaw(np.arange(first, last + 1) - per_cell, mass)
    low, high = noise.quantiles(n_counts, CONFIDENCE)
    # Estimators subtract the known bias from each published count.
    shift = n_counts * chance * mechanism.bias
    return CountError(
        half_width=max(abs(low - shift), abs(high - shift)),
        std=math.sqrt(n_counts * noise.variance),
        assumes=assumes,
    )


def width_through_cells(
    *, n_cuts: int, sizes: Sequence[int], n_columns: int, error: CountError, rows: int
) -> float:
    """Return the expected width of an interval of a count by one column, as a share of the rows.

    A question about values up to a bound splits cells unless a cut is at that bound; of a split
    cell, all rows or none may qualify. There are `n_columns` columns. Those with `sizes` values are
    divided by `n_cuts` cuts, each by a column chosen uniformly; cells separate all values of the
    others. `error`, the error of a count of half of the cells, is added at both ends.

    Examples
    --------
    >>> few = CountError(half_width=10.0, std=5.0, assumes="")
    >>> round(width_through_cells(n_cuts=9, sizes=[2, 80], n_columns=3, error=few, rows=1000), 3)
    0.084
    """
    through = math.fsum(_cut_through(n_cuts, 1 / len(sizes), size) for size in sizes) / n_columns
    return through + 2 * error.half_width / max(rows, 1)


def _cut_through(n_cuts: int, chance: float, size: int) -> float:
    """Return the expected share of rows in the cell that a question splits.

    Each cut divides this column of `size` values with probability `chance`. Cuts, and the bound of
    the question, fall uniformly between values.
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
    """Return forecast lines on the expected width and on what it means for the rows."""
    wide = "as wide as all rows" if width >= 1 else f"about {width:.0%} of the rows wide"
    return {"interval of a count by one column, typically": wide, **rows_line(width)}


def rows_line(width: float) -> dict[str, str]:
    """Return a forecast line that warns of rows drawn inside wide cells, if cells are wide."""
    if width < WIDE:
        return {}
    return {
        ROWS: "drawn inside few, wide cells: two-column counts may be less accurate than if "
        "columns were published separately. Query counts, or publish fewer columns."
    }


def inside_cells(*, n_cells: float, sizes: Sequence[int], n_columns: int) -> dict[str, str]:
    """Return the warning of `rows_line`, if any, for `n_cells` cells with exact counts.

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
    """Return a forecast line that warns if up to `share` of the rows is suppressed as rare."""
    if share < WIDE:
        return {}
    return {
        ROWS: f"up to {min(share, 1):.0%} may be suppressed as rare tuples: two-column counts "
        "may be less accurate than if columns were published separately."
    }


def few_rows_line(n_rows: float, sizes: Sequence[int]) -> dict[str, str]:
    """Return a forecast line that warns if sampling error makes few rows unreliable.

    Each column is grouped into at most 10 equally frequent classes. Of n rows, a share p has a mean
    absolute error of about sqrt(2 p / (pi n)); the total variation distance over c cells is about
    sqrt(c / (2 pi n)).

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
        ROWS: f"about {n_rows:,.0f}: two-column counts may be off by {min(off, 1):.0%}, more "
        "than if columns were published separately, and a model trained on them may do "
        "no better than predicting the most frequent class."
    }


def blurred_line(share: float) -> dict[str, str]:
    """Return a forecast line that warns if noise takes a large share of a column's range.

    Examples
    --------
    >>> blurred_line(0.2), list(blurred_line(0.5))
    ({}, ['rows as published'])
    """
    if share < WIDE_NOISE:
        return {}
    return {
        ROWS: f"moved by at least {share:.0%} of a column's range: two-column counts may be "
        "less accurate than if columns were published separately. Publish fewer columns."
    }


def replaced_line(share: float) -> dict[str, str]:
    """Return a forecast line on a share of rows that are random, not rows of people."""
    return {
        ROWS: f"about {share:.0%} are random draws from the domain: answers correct for them, but "
        "results computed from the rows may be worse than one-column counts."
    }


def bernoulli_error(
    *, n_true: float, n_other: float, keep: float, insert: float, assumes: str
) -> CountError:
    """Return the error of a count of randomized rows.

    Each of the `n_true` rows that satisfy the question is counted with probability `keep`, each of
    the `n_other` others with probability `insert`. The estimate is
    (counted - insert * all) / (keep - insert).
    """
    alpha = keep - insert
    variance = n_true * keep * (1 - keep) + max(n_other, 0.0) * insert * (1 - insert)
    std = math.sqrt(variance) / alpha
    # Continuity correction: the number of counted rows is an integer.
    return CountError(half_width=NORMAL * std + 0.5 / alpha, std=std, assumes=assumes)
