"""Functions of a numeric column that a question may name, such as ``log(income)``.

A function is known at every value of the column's public range, so its sums are answered as those
of the column itself. Text is matched with one pattern; no code is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats
from hushtable.errors import ParameterError
from hushtable.schema import Column, Integer, Number

NAME = r'(?:"(?:[^"]|"")+"|[^\W\d][\w.-]*)'
"""Pattern of a column's name, in double quotes if it has special characters."""

_CALL = re.compile(rf"(log|log1p|sqrt)\(\s*({NAME})\s*\)")
_POWER = re.compile(rf"({NAME})\s*\*\*\s*([234])")
_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
}  # fmt: skip

FUNCTIONS = "log(x), log1p(x), sqrt(x), I(x**2), I(x**3) and I(x**4)"
"""The functions that questions may use, for messages."""


@dataclass(frozen=True, eq=False)
class FunctionOfColumn:
    """A number for each value of a column; NaN where it is undefined or missing.

    It replaces a numeric column in `row_sums.power` and `moments.NumericQuery`.
    """

    numbers: Floats  # one per code of the column
    is_smooth: bool = False  # nearly linear inside public bins

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.numbers)

    @property
    def n_values(self) -> int:
        """Number of codes that may have a number; here, all."""
        return len(self.numbers)

    @property
    def is_defined(self) -> bool:
        """Whether all codes have a number."""
        return not np.isnan(self.numbers).any()


def values_of(column: Integer | Number) -> Floats:
    """Return the number of each code; NaN for missing and special values."""
    numbers = np.full(column.size, np.nan)
    codes = np.arange(column.n_values)
    numbers[: column.n_values] = float(column.exact_low) + float(column.exact_step) * codes
    return numbers


def unquoted(name: str) -> str:
    """Return a column's name without the quotes around it."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def read_function(
    text: str, columns: Mapping[str, Column]
) -> tuple[str, Integer | Number | FunctionOfColumn] | None:
    """Return the column that a function takes, and the function; None if the text is no function.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> columns = {"x": Integer(type="integer", low=0, high=3)}
    >>> name, squares = read_function("I(x**2)", columns)
    >>> name, squares.numbers.tolist()
    ('x', [0.0, 1.0, 4.0, 9.0])
    """
    text = text.strip()
    inner = text[2:-1].strip() if text.startswith("I(") and text.endswith(")") else text
    call, power = _CALL.fullmatch(text), _POWER.fullmatch(inner)
    if call is None and power is None:
        return None
    name = unquoted(call[2] if call else power[1])  # type: ignore[index]
    column = columns.get(name)
    if not isinstance(column, Integer | Number):
        said = "is not a number" if name in columns else "is not published"
        raise ParameterError(f"column {name!r} {said}; {text} takes a published numeric column.")
    values = values_of(column)
    if power:
        return name, FunctionOfColumn(values ** int(power[2]), is_smooth=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = _FUNCTIONS[call[1]](values)  # type: ignore[index]
    found[~np.isfinite(found)] = np.nan
    if np.isnan(found).all():
        raise ParameterError(f"{text} is not defined for any value of {name!r}; change it.")
    return name, FunctionOfColumn(found)


def clipped(column: Integer | Number | FunctionOfColumn, clip: object) -> FunctionOfColumn:
    """Return a number whose values below and above two bounds are replaced by these bounds."""
    ends = tuple(clip) if isinstance(clip, list | tuple) else ()
    if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends) or (
        not ends[0] < ends[1]
    ):  # fmt: skip
        raise ParameterError(f"clip is {clip!r}; give two numbers, the lower one first.")
    if isinstance(column, FunctionOfColumn):
        return FunctionOfColumn(np.clip(column.numbers, *ends), column.is_smooth)
    return FunctionOfColumn(np.clip(values_of(column), *ends), is_smooth=True)
