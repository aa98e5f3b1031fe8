"""Where a line of values is cut into bins: by widths, by edges, or as a logarithm would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from hushtable.errors import ParameterError

LOG = "log"
_PER_DECADE = (1, 2, 5)


class Line(Protocol):
    """What has its values on a line, in steps of one size."""

    @property
    def n_values(self) -> int:
        """Number of values."""
        ...

    @property
    def exact_low(self) -> Fraction:
        """The lowest value."""
        ...

    @property
    def exact_step(self) -> Fraction:
        """The distance between neighbors."""
        ...

    @property
    def bounds(self) -> str:
        """The lowest and the highest value, in words."""
        ...

    def exact(self, value: Any) -> Fraction:
        """Read a value that the custodian wrote; raises `ValueError`."""
        ...


def starts_of(line: Line, rule: Any) -> tuple[int, ...]:
    """Give the first code of each bin.

    Parameters
    ----------
    line : Line
        The values.
    rule : number, sequence or "log"
        The width of all bins, the lowest value of each, or ``log``: 1, 2, 5, 10, 20, 50 steps and
        so on away from zero, which is a bin of its own.

    Raises
    ------
    ParameterError
        If the rule does not cut this line.
    """
    if rule == LOG:
        return _logarithmic(line)
    if isinstance(rule, bool) or not isinstance(rule, int | float | Sequence):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points.")
    if isinstance(rule, str):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points, nor log.")
    if isinstance(rule, int | float):
        if not math.isfinite(rule):
            raise ParameterError(f"bin width {rule} is not a number.")
        width = _steps(Fraction(str(rule)), line, f"bin width {rule}")
        if width < 1:
            least = float(line.exact_step)
            raise ParameterError(f"bin width {rule} must be at least the step {least:g}.")
        return tuple(range(0, line.n_values, width))
    cuts = []
    for cut in rule:
        try:
            exact = line.exact(cut)
        except ValueError:
            raise ParameterError(f"cut point {cut} is not one of the column's values.") from None
        cuts.append(_steps(exact - line.exact_low, line, f"cut point {cut}"))
    if sorted(set(cuts)) != cuts:
        raise ParameterError(f"cut points {list(rule)} must rise.")
    outside = [cut for cut, code in zip(rule, cuts, strict=True) if not 0 <= code < line.n_values]
    if outside:
        raise ParameterError(f"cut points {outside} lie outside {line.bounds}.")
    return tuple(cuts) if cuts and cuts[0] == 0 else (0, *cuts)


def _steps(distance: Fraction, line: Line, what: str) -> int:
    steps = distance / line.exact_step
    if steps.denominator != 1:
        raise ParameterError(f"{what} does not lie on the grid of step {float(line.exact_step):g}.")
    return int(steps)


def _logarithmic(line: Line) -> tuple[int, ...]:
    low, step = line.exact_low / line.exact_step, Fraction(1)
    high = low + line.n_values - 1
    starts, decade = {0}, 1
    while decade <= max(abs(low), abs(high)):
        for times in _PER_DECADE:
            away = times * decade
            # The first value at least so far above zero, and the first less far below it.
            starts |= {_ceil(away - low), _ceil(step - away - low)}
        decade *= 10
    starts.add(_ceil(-low))
    return tuple(sorted(start for start in starts if 0 <= start < line.n_values))


def _ceil(number: Fraction) -> int:
    return -((-number.numerator) // number.denominator)
