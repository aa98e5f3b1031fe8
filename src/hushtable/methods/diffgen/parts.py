"""Parts of a cut: taxonomy nodes, intervals of a public grid, or sets of listed values.

The schema alone determines how a part may be split; this module does not use data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushtable.arrays import Integers
from hushtable.schema import Categorical, Column
from hushtable.schema.taxonomy import ROOT, Taxonomy, TaxonomyNode


@dataclass(frozen=True, eq=False)  # parts are compared by identity
class CutPart(ABC):
    """One part of a cut; the top part also contains special values and missing."""

    attribute: str
    holds_special: bool

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the part, without special values and missing."""

    @cached_property
    def special_labels(self) -> tuple[str, ...]:
        """Special values and missing in this part; the first split separates each of them."""
        return ("missing",) if self.holds_special else ()

    @property
    def full_label(self) -> str:
        """Name of the part."""
        return " or ".join((self.label, *self.special_labels))

    @cached_property
    def fan_out(self) -> int:
        """Number of parts after a split, including special values and missing."""
        return 2 + len(self.special_labels)

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Number of possible splits of this part and its descendants. Public."""


@dataclass(frozen=True, eq=False)
class TaxonomyPart(CutPart):
    """A node of a taxonomy in which no node has a single child."""

    node: TaxonomyNode

    @property
    def label(self) -> str:
        """Label of the node."""
        return self.node.label

    @cached_property
    def children(self) -> tuple[TaxonomyPart, ...]:
        """Parts after a split, without special values and missing."""
        below = self.node.children
        if not below and self.holds_special:
            below = (self.node,)  # only missing can be split off
        return tuple(TaxonomyPart(self.attribute, False, node) for node in below)

    @cached_property
    def fan_out(self) -> int:
        """Number of children, plus special values and missing."""
        return len(self.children) + len(self.special_labels)

    @cached_property
    def n_rounds(self) -> int:
        """One for each node with children, including this one."""
        return sum(child.n_rounds for child in self.children) + bool(self.children)


@dataclass(frozen=True, eq=False)
class IntervalPart(CutPart):
    """An interval of an ordered column, by its first and last code."""

    column: Column
    first: int
    last: int

    @cached_property
    def special_labels(self) -> tuple[str, ...]:
        """The special values, and missing."""
        names = map(self.column.name, range(self.column.n_values, self.column.size))
        return tuple(names) if self.holds_special else ()

    @property
    def label(self) -> str:
        """First and last value."""
        low, high = self.column.value(self.first), self.column.value(self.last)
        return f"{low}" if self.first == self.last else f"{low} to {high}"

    @cached_property
    def n_rounds(self) -> int:
        """One for each grid point, or public bin, except the first."""
        begins = bin_starts(self.column)
        if begins is None:
            return self.last - self.first
        inside = np.searchsorted(begins, [self.first, self.last], side="right")
        return int(inside[1] - inside[0])

    def halves(self, split: int) -> tuple[IntervalPart, IntervalPart]:
        """Split before a code."""
        return (
            IntervalPart(self.attribute, False, self.column, self.first, split - 1),
            IntervalPart(self.attribute, False, self.column, split, self.last),
        )


@dataclass(frozen=True, eq=False)
class ValueSetPart(CutPart):
    """Some values of a list without order and taxonomy, by their codes."""

    column: Categorical
    codes: tuple[int, ...]

    @property
    def label(self) -> str:
        """The values, or the absent values if these are fewer."""
        names = self.column.values
        lacks = sorted(set(range(len(names))).difference(self.codes))
        if not lacks and len(names) > 1:
            return ROOT
        if 0 < len(lacks) < len(self.codes):
            return "all but " + ", ".join(names[code] for code in lacks)
        return ", ".join(names[code] for code in self.codes)

    @cached_property
    def fan_out(self) -> int:
        """A value and the others, plus special values and missing."""
        return min(len(self.codes), 2) + len(self.special_labels)

    @cached_property
    def n_rounds(self) -> int:
        """One for each value except the first; one if only special values can be split off."""
        return max(len(self.codes) - 1, int(self.holds_special))

    @cached_property
    def halves(self) -> tuple[tuple[int, ...], ...]:
        """Values that may be split off: each one, or for two values only the first."""
        return tuple((code,) for code in (self.codes if len(self.codes) > 2 else self.codes[:1]))

    def split(self, way: int) -> tuple[ValueSetPart, ...]:
        """Split a value off the others; a single value only from special values and missing."""
        half = self.halves[way]
        rest = tuple(code for code in self.codes if code not in half)
        return tuple(
            ValueSetPart(self.attribute, False, self.column, codes)
            for codes in (half, rest)
            if codes
        )


def is_span(column: Column) -> bool:
    """Return whether a column is split along an order: numbers, dates, times, ordered categories.

    A taxonomy takes precedence over an order.
    """
    return column.is_line and getattr(column, "taxonomy", None) is None


def bin_starts(column: Column) -> Integers | None:
    """Return the codes at which a column may be split if its schema declares bins, else None."""
    starts = getattr(column, "bin_starts", None)
    return None if starts is None else np.asarray(starts, np.int64)


def top(attribute: str, column: Column, *, one_by_one: bool = False) -> CutPart:
    """Return the single part of the topmost cut.

    A list without taxonomy is one part that splits into all its values at once, or, with
    `one_by_one`, into one of them and the others.
    """
    apart = column.n_special > 0
    if is_span(column):
        return IntervalPart(attribute, apart, column, 0, column.n_values - 1)
    assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
    if one_by_one and column.taxonomy is None:
        return ValueSetPart(attribute, apart, column, tuple(range(column.n_values)))
    taxonomy = column.taxonomy or Taxonomy.from_nested(list(column.values))
    return TaxonomyPart(attribute, apart, _without_single_children(taxonomy.root))


def largest_gains(part: CutPart, most: int) -> list[int]:
    """Return the number of parts that each of up to `most` splits may add, largest first.

    Examples
    --------
    >>> color = Categorical(type="categorical", values=("red", "blue", "green"), missing="category")
    >>> largest_gains(top("color", color), 5)
    [3]
    >>> largest_gains(top("color", color, one_by_one=True), 5)
    [2, 1]
    """
    if not isinstance(part, TaxonomyPart):
        gains = [1] * min(part.n_rounds, most)
        return [part.fan_out - 1, *gains[1:]] if gains else []
    below = [gain for child in part.children for gain in largest_gains(child, most)]
    own = [part.fan_out - 1] if part.children else []
    return sorted(own + below, reverse=True)[:most]


def _without_single_children(node: TaxonomyNode) -> TaxonomyNode:
    """Remove nodes that represent the same values as their only child."""
    while len(node.children) == 1:
        node = node.children[0]
    return TaxonomyNode(node.label, tuple(map(_without_single_children, node.children)))
