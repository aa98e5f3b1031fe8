"""Numeric columns on a public grid, and durations, which are integer numbers of steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal as Digits
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hushtable.errors import ParameterError, shown
from hushtable.privacy.rational import parse_number
from hushtable.schema.column import (
    MAX_COLUMN_SIZE,
    BaseColumn,
    Outside,
    Text,
    Value,
)

# Bins of an ordered column: of equal width, by lowest values, or logarithmic.

LOG = "log"
_PER_DECADE = (1, 2, 5)


def starts_of(column: GridColumn, rule: Any) -> tuple[int, ...]:
    """Return the first code of each bin; raise `ParameterError` if the rule does not fit the grid.

    The rule is the width of all bins, a list of the lowest value of each bin, or ``log``: bins
    that start at 1, 2, 5, 10, 20, 50, ... steps above zero, the same below it, and zero alone.
    """
    if rule == LOG:
        return _logarithmic(column)
    if isinstance(rule, bool) or not isinstance(rule, int | float | Sequence):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points.")
    if isinstance(rule, str):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points, nor log.")
    if isinstance(rule, int | float):
        if not math.isfinite(rule):
            raise ParameterError(f"bin width {rule} is not a finite number.")
        width = _steps(Fraction(str(rule)), column, f"bin width {rule}")
        if width < 1:
            least = float(column.exact_step)
            raise ParameterError(f"bin width {rule} is below the step; use at least {least:g}.")
        return tuple(range(0, column.n_values, width))
    cuts = []
    for cut in rule:
        try:
            exact = column.exact(cut)
        except ValueError:
            raise ParameterError(f"cut point {cut} is not one of the column's values.") from None
        cuts.append(_steps(exact - column.exact_low, column, f"cut point {cut}"))
    if sorted(set(cuts)) != cuts:
        raise ParameterError(f"cut points {list(rule)} must be in increasing order.")
    outside = [cut for cut, code in zip(rule, cuts, strict=True) if not 0 <= code < column.n_values]
    if outside:
        raise ParameterError(f"cut points {outside} are outside the range {column.bounds}.")
    return tuple(cuts) if cuts and cuts[0] == 0 else (0, *cuts)


def _steps(distance: Fraction, column: GridColumn, what: str) -> int:
    steps = distance / column.exact_step
    if steps.denominator != 1:
        raise ParameterError(f"{what} is not on the grid of step {float(column.exact_step):g}.")
    return int(steps)


def _logarithmic(column: GridColumn) -> tuple[int, ...]:
    low, step = column.exact_low / column.exact_step, Fraction(1)
    high = low + column.n_values - 1
    starts, decade = {0}, 1
    while decade <= max(abs(low), abs(high)):
        for times in _PER_DECADE:
            away = times * decade
            # First value at least `away` above zero, and first value less than `away` below it.
            starts |= {_ceil(away - low), _ceil(step - away - low)}
        decade *= 10
    starts.add(_ceil(-low))
    return tuple(sorted(start for start in starts if 0 <= start < column.n_values))


def _ceil(number: Fraction) -> int:
    return -((-number.numerator) // number.denominator)


def _bins(given: Any) -> Any:
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    single = given == "log" or isinstance(given, int | float)
    if isinstance(given, bool) or not (
        single or (listed and all(isinstance(edge, int | float) for edge in given))
    ):
        raise ValueError(
            f"bins {shown(given)} is not valid; use a width, a list of the lowest values, or log"
        )
    return given


Bins = Annotated[int | float | Literal["log"] | tuple[int | float, ...], BeforeValidator(_bins)]


def exact_number(value: Any) -> Fraction:
    """Return the decimal number that the custodian wrote, not its binary approximation."""
    number = parse_number(str(value).strip())
    if number is None:
        raise ValueError(f"{shown(value)} is not a number")
    return number


class GridColumn(BaseColumn):
    """Column of evenly spaced values, and possibly special values.

    Parameters
    ----------
    outside
        Replacement for out-of-domain values: the nearest bound (clip), the value `other`, or
        missing. With refuse, a table with such a value is refused.
    other
        The value that replaces out-of-domain values; by default low.
    special
        Codes that are not numbers, such as 999 for never: each is a special value with a name, and
        is published as the code.
    """

    outside: Outside = "clip"

    if TYPE_CHECKING:  # each subclass declares these with its own type
        low: Any
        high: Any
        bins: Any

    def __hash__(self) -> int:
        """Hash most fields; the mapping of special values is not hashable."""
        return hash((type(self), self.bounds, self.n_values, self.missing, self.outside))

    @property
    @abstractmethod
    def exact_low(self) -> Fraction:
        """Lowest value; for dates and times, the number of the first period."""

    @cached_property
    def exact_step(self) -> Fraction:
        """Distance between adjacent values; 1 for integers, periods and durations."""
        return Fraction(1)

    @cached_property
    def bounds(self) -> str:
        """Lowest and highest value, in words."""
        return f"{self.low} to {self.high}"

    @abstractmethod
    def exact(self, value: Any) -> Fraction:
        """Parse a value of the schema or of a table; raise `ValueError` if it is invalid."""

    @property
    @abstractmethod
    def special_codes(self) -> Mapping[Any, str]:
        """Names of the special values, by the value used in the table."""

    @property
    def is_line(self) -> bool:
        """True: numbers, dates and times are ordered."""
        return True

    @cached_property
    def special_names(self) -> tuple[str, ...]:
        """Names of the special values, in the order of their codes."""
        return tuple(self.special_codes.values())

    @cached_property
    def special_places(self) -> dict[Fraction, int]:
        """Code of each special value, by the value used in the table."""
        return {self.exact(key): self.n_values + i for i, key in enumerate(self.special_codes)}

    @cached_property
    def bin_starts(self) -> tuple[int, ...] | None:
        """First code of each public bin, or None."""
        return None if self.bins is None else starts_of(self, self.bins)

    def code_of(self, value: Any) -> int:
        """Return the code of a value in a published table; None is missing."""
        if value is None:
            return cast(int, self.missing_code)
        exact = self.exact(value)
        special = self.special_places.get(exact)
        return round((exact - self.exact_low) / self.exact_step) if special is None else special

    @property
    def other_code(self) -> int:
        """Code of the value `other`; by default that of the low bound."""
        return 0 if self.other is None else int(self._place_of(self.other))

    def _place_of(self, value: Any) -> Fraction:
        return (self.exact(value) - self.exact_low) / self.exact_step

    def _has(self, value: str) -> bool:
        try:
            place = self._place_of(value)
        except ValueError:
            return False
        return place.denominator == 1 and 0 <= place < self.n_values

    def _special(self, code: int) -> Value:
        """Return what a table contains for the code of a special value or missing."""
        return cast(Value, (*self.special_codes, None)[code - self.n_values])

    @property
    def most_steps(self) -> int:
        """Largest number of values that the column may have, without special values."""
        return MAX_COLUMN_SIZE - len(self.special_codes)

    def _checked(self) -> Self:
        """Check `other`, special values and bins; the caller has checked the bounds."""
        problems = []
        if self.other is not None:
            place = self._place_of(self.other)
            if place.denominator != 1 or not 0 <= place < self.n_values:
                problems.append(f"other {self.other} is not one of the column's values")
        names = list(self.special_codes.values())
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            problems.append(f"special values have the same name: {', '.join(twice)}")
        problems += [
            f"labels has {value}, which is neither a value nor the name of a special value"
            for value in self.labels.keys() - set(names)
            if not self._has(value)
        ]
        try:
            _ = self.bin_starts
        except ParameterError as error:
            problems += [f"bins: {problem.rstrip('.')}" for problem in error.problems]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class Numeric(GridColumn):
    """Column of numbers.

    Parameters
    ----------
    bins
        Public bins in which every method counts: their width, the lowest value of each, or log
        (1, 2, 5, 10, 20, 50 and so on in both directions from zero).
    """

    special: dict[int | float, Text] = Field(default_factory=dict)
    bins: Bins | None = None

    @field_validator("special", mode="before")
    @classmethod
    def _of_numbers(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("special must map codes to names, such as 999: never")
        for key in given:
            try:
                if isinstance(key, bool) or not math.isfinite(float(key)):
                    raise ValueError
            except (ValueError, TypeError):
                raise ValueError(f"special value {shown(key)} is not a number") from None
        return given

    @property
    def special_codes(self) -> Mapping[Any, str]:
        """Names of the special values, by number."""
        return self.special

    def exact(self, value: Any) -> Fraction:
        """Return a number exactly as written in decimal."""
        return exact_number(value)

    @abstractmethod
    def place(self, real: Any) -> Any:
        """Return the position of a number on the grid; the code is its integer part.

        Computed in double precision. A number is rounded to the nearest grid point (halfway: up)
        and is within bounds if its position is at least 0 and below `n_values`. All engines use
        this one expression: `real` may be a float, an array, or a column expression of a database.

        Examples
        --------
        >>> weight = Number(type="number", low=40, high=42, step=0.5)
        >>> [weight.place(kg) for kg in (39.75, 40.0, 41.5)]
        [0.0, 0.5, 3.5]
        """


class Integer(Numeric):
    """Column of integers between public bounds, both included.

    Examples
    --------
    >>> contact = Integer(type="integer", low=0, high=30, special={999: "never"})
    >>> contact.size, contact.value(31), contact.name(31)
    (32, 999, 'never')
    """

    arrow_name: ClassVar[str] = "int64"

    type: Literal["integer"]
    low: int
    high: int
    other: int | None = None
    special: dict[int, Text] = Field(default_factory=dict)  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if self.high - self.low >= self.most_steps:
            raise ValueError(
                f"{self.high - self.low + 1} values are too many; use type: number "
                "with a coarser step"
            )
        return self._checked()

    @cached_property
    def n_values(self) -> int:
        """Number of integers between the bounds."""
        return self.high - self.low + 1

    @cached_property
    def exact_low(self) -> Fraction:
        """Lowest value."""
        return Fraction(self.low)

    def place(self, real: Any) -> Any:
        """Return the position of a number on the grid."""
        return real - float(self.low) + 0.5

    def value(self, code: int) -> int | None:
        """Return the integer of a code, or a special value; None for missing."""
        if code >= self.n_values:
            return cast("int | None", self._special(code))
        return self.low + int(code)


class Number(Numeric):
    """Column of numbers, rounded to a public grid between public bounds."""

    arrow_name: ClassVar[str] = "float64"

    type: Literal["number"]
    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    step: float = Field(gt=0, allow_inf_nan=False)
    other: float | None = Field(None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        cells = (exact_number(self.high) - exact_number(self.low)) / exact_number(self.step)
        if cells.denominator != 1:
            raise ValueError(
                f"step {self.step} does not divide the range from {self.low} to {self.high}"
            )
        if cells >= self.most_steps:
            raise ValueError(f"{int(cells) + 1} grid points are too many; use a coarser step")
        return self._checked()

    @cached_property
    def n_values(self) -> int:
        """Number of grid points."""
        width = exact_number(self.high) - exact_number(self.low)
        return int(width / exact_number(self.step)) + 1

    @cached_property
    def exact_low(self) -> Fraction:
        """Lowest grid point."""
        return exact_number(self.low)

    @cached_property
    def exact_step(self) -> Fraction:
        """Distance between grid points."""
        return exact_number(self.step)

    def place(self, real: Any) -> Any:
        """Return the position of a number on the grid."""
        return (real - self.low) / self.step + 0.5

    def value(self, code: int) -> float | None:
        """Return the grid point of a code, or a special value; None for missing."""
        if code >= self.n_values:
            found = self._special(code)
            return None if found is None else float(found)
        return float(self.exact_low + int(code) * self.exact_step)


class Decimal(Number):
    """Column of numbers written with as many decimals as its step, such as amounts of money.

    Examples
    --------
    >>> price = Decimal(type="decimal", low=0, high=10, step=0.05)
    >>> price.n_digits
    2
    """

    type: Literal["decimal"]  # type: ignore[assignment]

    @model_validator(mode="after")
    def _has_digits(self) -> Self:
        written = [self.low, self.step, *self.special]
        if max(-_exponent(number) for number in written) > MAX_DIGITS:
            raise ValueError(f"step {self.step} needs more than {MAX_DIGITS} decimals")
        return self

    @staticmethod
    def stored(value: Any) -> Any:
        """Return the exact decimal number."""
        return Digits(str(value))

    @cached_property
    def n_digits(self) -> int:
        """Number of digits after the decimal point."""
        return max(0, *(-_exponent(number) for number in (self.low, self.step, *self.special)))


MAX_DIGITS = 15


def _exponent(number: float) -> int:
    return int(Digits(str(number)).normalize().as_tuple().exponent)


SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


class Duration(Integer):
    """Column of durations, as integer numbers of steps.

    Durations in the table are rounded down to whole steps; a plain number is a number of steps.
    WHERE clauses and published rows use the number of steps.
    """

    type: Literal["duration"]  # type: ignore[assignment]
    step: Literal["second", "minute", "hour", "day", "week"]

    @property
    def step_seconds(self) -> int:
        """Length of a step in seconds."""
        return SECONDS[self.step]
