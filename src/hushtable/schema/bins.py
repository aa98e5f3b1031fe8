"""Bins of an ordered column: of equal width, by lowest values, or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from hushtable.errors import ParameterError

LOG = "log"
_PER_DECADE = (1, 2, 5)


class Line(Protocol):
    """Values on an evenly spaced grid."""

    @property
    def n_values(self) -> int:
        """Number of values."""
        ...

    @property
    def exact_low(self) -> Fraction:
        """Lowest value."""
        ...

    @property
    def exact_step(self) -> Fraction:
        """Distance between adjacent values."""
        ...

    @property
    def bounds(self) -> str:
        """Lowest and highest value, in words."""
        ...

    def exact(self, value: Any) -> Fraction:
        """Parse a value of the schema; raise `ValueError` if it is invalid."""
        ...


def starts_of(line: Line, rule: Any) -> tuple[int, ...]:
    """Return the first code of each bin; raise `ParameterError` if the rule does not fit the grid.

    The rule is the width of all bins, a list of the lowest value of each bin, or ``log``: bins
    that start at 1, 2, 5, 10, 20, 50, ... steps above zero, the same below it, and zero alone.
    """
    if rule == LOG:
        return _logarithmic(line)
    if isinstance(rule, bool) or not isinstance(rule, int | float | Sequence):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points.")
    if isinstance(rule, str):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points, nor log.")
    if isinstance(rule, int | float):
        if not math.isfinite(rule):
            raise ParameterError(f"bin width {rule} is not a finite number.")
        width = _steps(Fraction(str(rule)), line, f"bin width {rule}")
        if width < 1:
            least = float(line.exact_step)
            raise ParameterError(f"bin width {rule} is below the step; use at least {least:g}.")
        return tuple(range(0, line.n_values, width))
    cuts = []
    for cut in rule:
        try:
            exact = line.exact(cut)
        except ValueError:
            raise ParameterError(f"cut point {cut} is not one of the column's values.") from None
        cuts.append(_steps(exact - line.exact_low, line, f"cut point {cut}"))
    if sorted(set(cuts)) != cuts:
        raise ParameterError(f"cut points {list(rule)} must be in increasing order.")
    outside = [cut for cut, code in zip(rule, cuts, strict=True) if not 0 <= code < line.n_values]
    if outside:
        raise ParameterError(f"cut points {outside} are outside the range {line.bounds}.")
    return tuple(cuts) if cuts and cuts[0] == 0 else (0, *cuts)


def _steps(distance: Fraction, line: Line, what: str) -> int:
    steps = distance / line.exact_step
    if steps.denominator != 1:
        raise ParameterError(f"{what} is not on the grid of step {float(line.exact_step):g}.")
    return int(steps)


def _logarithmic(line: Line) -> tuple[int, ...]:
    low, step = line.exact_low / line.exact_step, Fraction(1)
    high = low + line.n_values - 1
    starts, decade = {0}, 1
    while decade <= max(abs(low), abs(high)):
        for times in _PER_DECADE:
            away = times * decade
            # First value at least `away` above zero, and first value less than `away` below it.
            starts |= {_ceil(away - low), _ceil(step - away - low)}
        decade *= 10
    starts.add(_ceil(-low))
    return tuple(sorted(start for start in starts if 0 <= start < line.n_values))


def _ceil(number: Fraction) -> int:
    return -((-number.numerator) // number.denominator)
