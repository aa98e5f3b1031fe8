"""Axes of a partition: how regions may be split along one attribute.

A region is a product of parts, one per attribute. The possible splits of a part depend only on the
schema and the part, never on the values in the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Integers
from hushtable.schema import Categorical, Column, GridColumn

MAX_SUBSET_VALUES = 8
"""An unordered column with at most this many codes is split into any two subsets."""


@dataclass(frozen=True)
class PartitionAxis:
    """One attribute with its codes in a public order; missing is last.

    A part of the axis is a pair of integers. On an ordered axis, these are the first and the last
    position. On an axis of subsets, the first is a bit mask of positions and the second is 0.

    Examples
    --------
    >>> column = Categorical(type="categorical", values=("a", "b", "c"), missing="category")
    >>> axis = axis_of("x", column)
    >>> axis.subsets, axis.whole, int(axis.n_splits(np.array([0b1111]), np.array([0]))[0])
    (True, (15, 0), 7)
    >>> axis.codes_of(0b1001, 0).tolist()
    [0, 3]
    """

    name: str  # name of the attribute
    codes: tuple[int, ...] | None  # code at each position; None if positions are codes
    size: int  # number of positions
    subsets: bool  # whether any subset may be a part
    starts: tuple[int, ...] | None = None  # first code of each position, for public bins
    n_special: int = 0  # number of special values and missing, which are the last positions

    @property
    def whole(self) -> tuple[int, int]:
        """The part that contains all positions."""
        return ((1 << self.size) - 1, 0) if self.subsets else (0, self.size - 1)

    @cached_property
    def _position_of(self) -> Integers | None:
        if self.codes is None:
            return None
        return np.argsort(np.asarray(self.codes, np.int64))

    def positions(self, codes: Integers) -> NDArray[np.int32]:
        """Convert codes of the schema to positions."""
        if self.starts is not None:
            return np.searchsorted(self.starts, codes, side="right").astype(np.int32) - 1
        places = codes if self._position_of is None else self._position_of[codes]
        return places.astype(np.int32)

    def n_codes(self, first: Integers, last: Integers) -> Integers:
        """Return the number of positions of parts."""
        return np.bitwise_count(first).astype(np.int64) if self.subsets else last - first + 1

    def share(self, first: int, last: int) -> Fraction:
        """Return the share of all positions that a part has."""
        n_codes = first.bit_count() if self.subsets else last - first + 1
        return Fraction(n_codes, self.size)

    def n_splits(self, first: Integers, last: Integers) -> Integers:
        """Return the number of ways to split parts into two non-empty sides."""
        n_codes = self.n_codes(first, last)
        return (1 << (n_codes - 1)) - 1 if self.subsets else n_codes - 1

    def middle(self, first: int, last: int) -> int:
        """Return the split of a part into halves by position; the left half may have one more."""
        if not self.subsets:
            return first + (last - first) // 2 + 1
        inside = [position for position in range(self.size) if first >> position & 1]
        return sum(1 << position for position in inside[: (len(inside) + 1) // 2])

    def halves(self, first: int, last: int, cut: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Split a part at a position (the first of the right half), or into a mask and the rest.

        Examples
        --------
        >>> PartitionAxis("age", None, 100, False).halves(20, 39, 30)
        ((20, 29), (30, 39))
        """
        if self.subsets:
            return (cut, 0), (first & ~cut, 0)
        return (first, cut - 1), (cut, last)

    def code_bounds(self, parts: Integers) -> Integers:
        """Return the first and last code of parts (n, 2), for an axis in code order."""
        if self.starts is None:
            return parts
        starts = np.asarray(self.starts, np.int64)
        return np.stack((starts[parts[:, 0]], starts[1:][parts[:, 1]] - 1), axis=1)

    def codes_of(self, first: int, last: int) -> Integers:
        """Return the codes of a part, ascending."""
        if self.starts is not None:
            (bounds,) = self.code_bounds(np.array([[first, last]])).tolist()
            return np.arange(bounds[0], bounds[1] + 1)
        if self.subsets:
            places = np.flatnonzero([first >> position & 1 for position in range(self.size)])
        else:
            places = np.arange(first, last + 1)
        if self.codes is None:
            return places.astype(np.int64)
        return np.sort(np.asarray(self.codes, np.int64)[places])


def axis_of(name: str, column: Column) -> PartitionAxis:
    """Return the axis of a column.

    Numbers and ordered categories are split in their order; categories with a taxonomy in the order
    of its leaves. Other categories are split into any two subsets if there are few; otherwise in
    the order of the schema. Missing is one more value, at the end.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> axis_of("age", Integer(type="integer", low=0, high=9, missing="category")).size
    11
    """
    ordered = column.is_line or getattr(column, "taxonomy", None) is not None
    if ordered or column.size > MAX_SUBSET_VALUES:
        return ordered_axis_of(name, column)
    return PartitionAxis(name, None, column.size, True)


def ordered_axis_of(name: str, column: Column) -> PartitionAxis:
    """Return an axis with the codes in a public order, split only between neighbors."""
    if not isinstance(column, Categorical):
        return _line(name, column)
    if column.ordered or column.taxonomy is None:
        return PartitionAxis(name, None, column.size, False)
    code_of = {value: code for code, value in enumerate(column.values)}
    codes = [code_of[value] for value in column.taxonomy.values]
    return PartitionAxis(name, (*codes, *range(column.n_values, column.size)), column.size, False)


def _line(name: str, column: GridColumn) -> PartitionAxis:
    """Return an axis of numbers, dates or times, split between neighbors or public bins."""
    n_special = len(column.special_names)
    apart = column.n_special if n_special else 0  # missing alone is one more value at the end
    if column.bin_starts is None:
        return PartitionAxis(name, None, column.size, False, n_special=apart)
    # The last start is the end of the last position.
    starts = (*column.bin_starts, *range(column.n_values, column.size + 1))
    return PartitionAxis(name, None, len(starts) - 1, False, starts, apart)
