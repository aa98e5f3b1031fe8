"""Search for cuts by repeated specialization, from value-by-class histograms.

A cut divides the codes of one attribute into parts: nodes of its taxonomy, intervals of its public
grid, or sets of listed values that are split off one at a time. The score of splitting a part
depends only on the class counts of its children, so one histogram per attribute suffices for the
whole search. The schema determines the possible choices; the histograms only determine their
probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from math import lcm, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hushtable.arrays import Integers
from hushtable.files import svg
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.scored_splits import (
    ClassTable,
    Score,
    ScoreChoice,
    ScoredSplits,
    SealedClassTable,
    SealedSplits,
    SealedSplitsOfParts,
    SplitChoice,
    scores_of_ways,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups
from hushtable.schema.taxonomy import ROOT, Taxonomy, TaxonomyNode

# Parts of a cut: taxonomy nodes, intervals of a public grid, or sets of listed values.
#
# The schema alone determines how a part may be split.

Table = ClassTable | SealedClassTable
Histogram = SealedCounts | Integers
"""Counts by value and class: sealed, or exact for methods that see exact counts."""


@dataclass(frozen=True, eq=False)  # parts are compared by identity
class CutPart(ABC):
    """One part of a cut; the top part also contains special values and missing."""

    attribute: str
    holds_special: bool
    column: Column
    codes: range | tuple[int, ...]  # the values of the part

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the part, without special values and missing."""

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Number of possible splits of this part and its descendants. Public."""

    @property
    @abstractmethod
    def n_ways(self) -> int:
        """Number of ways to split this part. Public."""

    @abstractmethod
    def scored(self, table: Table, score: Score) -> ScoredSplits | SealedSplits:
        """Score every way to split this part; ways of equal score are counted together."""

    @abstractmethod
    def split(self, way: int) -> tuple[CutPart, ...]:
        """Return the parts after a split, without special values and missing."""

    @cached_property
    def special_labels(self) -> tuple[str, ...]:
        """Special values and missing in this part; the first split separates each of them."""
        special = map(self.column.name, range(self.column.n_values, self.column.size))
        return tuple(special) if self.holds_special else ()

    @property
    def full_label(self) -> str:
        """Name of the part."""
        return " or ".join((self.label, *self.special_labels))

    @cached_property
    def fan_out(self) -> int:
        """Number of parts after a split, including special values and missing."""
        return min(len(self.codes), 2) + len(self.special_labels)


@dataclass(frozen=True, eq=False)
class TaxonomyPart(CutPart):
    """A node of a taxonomy in which no node has a single child; codes in the order of leaves."""

    node: TaxonomyNode
    n_ways: ClassVar[int] = 1

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
        left = iter(self.codes)
        parts = [tuple(islice(left, sum(1 for _ in node.leaves()))) for node in below]
        return tuple(
            replace(self, holds_special=False, codes=codes, node=node)
            for codes, node in zip(parts, below, strict=True)
        )

    @cached_property
    def fan_out(self) -> int:
        """Number of children, plus special values and missing."""
        return len(self.children) + len(self.special_labels)

    @cached_property
    def n_rounds(self) -> int:
        """Number of possible splits: one per node with children, including this one."""
        return sum(child.n_rounds for child in self.children) + bool(self.children)

    def scored(self, table: Table, score: Score) -> ScoredSplits | SealedSplits:
        """Score the only split, into all children."""
        children = [list(child.codes) for child in self.children]
        return table.score_groups(children, score, with_special=self.holds_special)

    def split(self, way: int) -> tuple[CutPart, ...]:
        """Return the children."""
        return self.children


@dataclass(frozen=True, eq=False)
class IntervalPart(CutPart):
    """An interval of an ordered column."""

    @property
    def label(self) -> str:
        """First and last value."""
        low, high = self.column.value(self.codes[0]), self.column.value(self.codes[-1])
        return f"{low}" if len(self.codes) == 1 else f"{low} to {high}"

    @cached_property
    def n_rounds(self) -> int:
        """Number of possible splits: one per grid point, or public bin, except the first."""
        begins = bin_starts(self.column)
        if begins is None:
            return len(self.codes) - 1
        inside = np.searchsorted(begins, [self.codes[0], self.codes[-1]], side="right")
        return int(inside[1] - inside[0])

    @property
    def n_ways(self) -> int:
        """Number of splits to choose from: one per round."""
        return self.n_rounds

    def scored(self, table: Table, score: Score) -> ScoredSplits | SealedSplits:
        """Score every split in two."""
        first, last = self.codes[0], self.codes[-1]
        return table.score_spans(first, last, score, with_special=self.holds_special)

    def split(self, way: int) -> tuple[CutPart, ...]:
        """Split before a code, or before a public bin."""
        begins = bin_starts(self.column)
        at = (way if begins is None else int(begins[way])) - self.codes[0]
        halves = self.codes[:at], self.codes[at:]
        return tuple(replace(self, holds_special=False, codes=codes) for codes in halves)


@dataclass(frozen=True, eq=False)
class ValueSetPart(CutPart):
    """Some values of a list without order and taxonomy."""

    column: Categorical

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
    def n_rounds(self) -> int:
        """Number of splits: one per value except the first, and at least 1 with special values."""
        return max(len(self.codes) - 1, int(self.holds_special))

    @property
    def n_ways(self) -> int:
        """Number of splits to choose from: one per value that may be split off."""
        return len(self._halves)

    @cached_property
    def _halves(self) -> list[list[int]]:
        """Values that may be split off: each one, or for two values only the first."""
        return [[code] for code in (self.codes if len(self.codes) > 2 else self.codes[:1])]

    def scored(self, table: Table, score: Score) -> ScoredSplits | SealedSplits:
        """Score every split of one value from the others."""
        halves, special = self._halves, self.holds_special
        return table.score_halvings(self.codes, halves, score, with_special=special)

    def split(self, way: int) -> tuple[CutPart, ...]:
        """Split a value off the others; a single value only from special values and missing."""
        half = self._halves[way]
        rest = [code for code in self.codes if code not in half]
        return tuple(
            replace(self, holds_special=False, codes=tuple(codes))
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
    special, codes = column.n_special > 0, range(column.n_values)
    if is_span(column):
        return IntervalPart(attribute, special, column, codes)
    assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
    if one_by_one and column.taxonomy is None:
        return ValueSetPart(attribute, special, column, tuple(codes))
    root = (column.taxonomy or Taxonomy.from_nested(list(column.values))).root
    code_of = dict(zip(column.values, codes, strict=True))
    by_leaf = tuple(code_of[value] for value in root.leaves())
    return TaxonomyPart(attribute, special, column, by_leaf, _without_single_children(root))


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


# --- the search -----------------------------------------------------------------------------------


def class_table(column: Column, histogram: Histogram) -> Table:
    """Prepare the histogram (codes, classes) of an attribute for splitting."""
    values = column.n_values, is_span(column), bin_starts(column)
    if isinstance(histogram, SealedCounts):
        return SealedClassTable.of(histogram, *values)
    return ClassTable(histogram, *values)


class Choice(NamedTuple):
    """A part and its scored splits."""

    part: CutPart
    ways: ScoredSplits | SealedSplits


@dataclass(frozen=True)
class Specialization:
    """One round: a part and its replacement."""

    part: CutPart
    children: tuple[CutPart, ...]

    def plain(self) -> dict[str, Any]:
        """Return plain data for the statement."""
        children = [part.full_label for part in self.children]
        return {
            "column": self.part.attribute,
            "part": self.part.full_label,
            "into": [*children, *self.part.special_labels],
        }


@dataclass
class CutSet:
    """Current cut of every attribute, and the possible splits."""

    schema: Schema
    histograms: Mapping[str, Histogram]  # private counts, by attribute
    score: Score  # score of splits
    one_by_one: bool = False  # whether values of a list without taxonomy are split off singly
    parts: dict[str, list[CutPart]] = field(init=False, default_factory=dict)
    rounds: list[Specialization] = field(init=False, default_factory=list)
    _choices: dict[CutPart, Choice] = field(init=False, default_factory=dict)
    _tables: dict[CutPart, Table] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, histogram in self.histograms.items():
            column = self.schema.attributes[name]
            self.parts[name] = [top(name, column, one_by_one=self.one_by_one)]
            self._open(self.parts[name][0], class_table(column, histogram))

    def _open(self, part: CutPart, table: Table) -> None:
        """Score the splits of a part, if there are any, which depends on the schema only."""
        if part.n_rounds:
            self._choices[part] = Choice(part, part.scored(table, self.score))
            self._tables[part] = table

    def choices(self, most_groups: int | None = None) -> Iterator[Choice]:
        """Yield the possible splits, in the order of the attributes and of their cuts.

        Splits that would make more groups than `most_groups` are left out; this number follows from
        the schema and the splits so far.
        """
        sizes = {name: _n_codes(cut) for name, cut in self.parts.items()}
        n_groups = prod(sizes.values())
        for name, cut in self.parts.items():
            for part in cut:
                after = n_groups // sizes[name] * (sizes[name] + part.fan_out - 1)
                if part in self._choices and (most_groups is None or after <= most_groups):
                    yield self._choices[part]

    def specialize(self, part: CutPart, children: tuple[CutPart, ...]) -> None:
        """Replace a part by its children."""
        cut = self.parts[part.attribute]
        at = cut.index(part)
        cut[at : at + 1] = children
        del self._choices[part]
        codes = [c.codes if isinstance(c.codes, range) else frozenset(c.codes) for c in children]
        tables: Sequence[Table] = self._tables.pop(part).divided(codes)
        for child, table in zip(children, tables, strict=True):
            self._open(child, table)
        self.rounds.append(Specialization(part, children))

    def recodings(self) -> dict[str, Recoding]:
        """Return the cut of each attribute as a recoding."""
        return {name: recoding_of(cut) for name, cut in self.parts.items()}


def specialize_jointly(
    cuts: CutSet,
    *,
    n_rounds: int,
    epsilon: Fraction,
    sensitivity: int,
    noise: Noise,
    most_groups: int | None = None,
) -> None:
    """Choose part and split together, at most `n_rounds` times, each time with `epsilon`.

    Stop if every split would make more than `most_groups`; this check costs nothing. The base
    measure gives every attribute that can still be split the same weight, whatever the size of its
    domain, divided evenly over its parts and over the splits of a part.
    """
    eta = epsilon / (sensitivity * (1 if cuts.score.monotone else 2))
    for _ in range(n_rounds):
        choices = list(cuts.choices(most_groups))
        if not choices:
            return
        choice, way = choose_way(choices, base_measure(choices), eta=eta, noise=noise)
        cuts.specialize(choice.part, choice.part.split(way))


def base_measure(choices: Sequence[Choice]) -> list[int]:
    """Return a weight for the splits of each part, such that every attribute has the same total.

    Examples
    --------
    >>> import numpy as np
    >>> some = ScoredSplits(np.zeros(1, int), np.ones(1, int), np.zeros(1, int))
    >>> from hushtable.schema import Integer
    >>> grid = Integer(type="integer", low=0, high=9)
    >>> one = Choice(TaxonomyPart("a", False, grid, (0,), TaxonomyNode("x")), some)
    >>> two = Choice(IntervalPart("b", False, grid, range(10)), some)
    >>> base_measure([one, two])  # b has 9 ways, each of weight 1
    [9, 1]
    """
    n_parts = Counter(choice.part.attribute for choice in choices)
    shares = [n_parts[choice.part.attribute] * choice.part.n_ways for choice in choices]
    whole = lcm(*shares)
    return [whole // share for share in shares]


def choose_way(
    choices: Sequence[Choice], weights: Sequence[int], *, eta: Fraction, noise: Noise
) -> tuple[Choice, int]:
    """Sample a split with probability proportional to weight * exp(eta * score)."""
    ways = SealedSplitsOfParts.of([_sealed(choice) for choice in choices])
    which, way = noise.open(ways, SplitChoice(eta, tuple(weights)), "cuts")
    return choices[which], way


def _sealed(choice: Choice) -> SealedSplits:
    assert isinstance(choice.ways, SealedSplits)  # noqa: S101 - unsealed ones are not sampled
    return choice.ways


def specialize_as_printed(
    cuts: CutSet, *, n_rounds: int, epsilon: Fraction, sensitivity: int, noise: Noise
) -> None:
    """Follow Algorithm 1 of the paper; `epsilon` is its epsilon', spent on every single choice.

    As in lines 4 and 9, the split of a new interval is chosen at once. As in line 7, one part is
    then chosen, with equal base probabilities. The exponent is epsilon' / (2 sensitivity)
    throughout.
    """
    pending: dict[CutPart, int] = {}
    eta = epsilon / (2 * sensitivity)
    for _ in range(n_rounds):
        choices = list(cuts.choices())
        for choice in choices:
            if choice.part not in pending:
                ways = SealedSplitsOfParts.of_one(_sealed(choice))
                _, pending[choice.part] = noise.open(ways, SplitChoice(eta, (1,)), "splits")
        scores = scores_of_ways([(_sealed(choice), pending[choice.part]) for choice in choices])
        chosen = choices[noise.open(scores, ScoreChoice(eta), "parts")]
        cuts.specialize(chosen.part, chosen.part.split(pending.pop(chosen.part)))


# --- the result -----------------------------------------------------------------------------------


def recoding_of(cut: Sequence[CutPart]) -> Recoding:
    """Return a cut as a recoding.

    A cut that was never split has one code for everything, including special values and missing. In
    any other cut, special values and missing have their own codes, which come last.

    Examples
    --------
    >>> sex = Categorical(type="categorical", values=("F", "M"), missing="category")
    >>> recoding_of([top("sex", sex)]).labels
    ('* or missing',)
    """
    column, whole = cut[0].column, _is_whole(cut)
    n_values = column.size if whole else column.n_values
    has_missing = not whole and column.missing_code is not None
    labels = tuple(_distinct_labels(cut))
    if is_span(column):
        starts = tuple(part.codes[0] for part in cut)
        special = () if whole else column.special_names
        return Intervals(labels, n_values, has_missing, starts, special=special)
    groups = np.zeros(n_values, np.int64)
    for at, part in enumerate(cut):
        groups[list(part.codes)] = at
    return ValueGroups(labels, n_values, has_missing, tuple(groups.tolist()))


def _is_whole(cut: Sequence[CutPart]) -> bool:
    """Return whether a cut was never split, so that one code represents everything."""
    return len(cut) == 1 and (cut[0].holds_special or cut[0].column.n_special == 0)


def _n_codes(cut: Sequence[CutPart]) -> int:
    return 1 if _is_whole(cut) else len(cut) + cut[0].column.n_special


def _distinct_labels(cut: Sequence[CutPart]) -> Iterator[str]:
    """Yield the names of the parts; names that occur twice get their values added."""
    labels = [part.full_label for part in cut]
    for part, label in zip(cut, labels, strict=True):
        if labels.count(label) > 1 and isinstance(part.column, Categorical):
            values = [part.column.values[code] for code in part.codes]
            if isinstance(part, ValueSetPart):  # a composed name could equal that of a value
                values = list(map(repr, values))
            yield f"{label} ({', '.join(values)})"
        else:
            yield label


# --- drawing: one tree per attribute --------------------------------------------------------------

_ROW, _INDENT, _WIDTH, _MARGIN = 20, 24, 720, 14


def draw_cuts(rounds: Sequence[Specialization], title: str) -> str:
    """Draw the specializations as trees; each split has the number of its round.

    `rounds` are the specializations in order; `title` is the name of the table.
    """
    number = {done.part: (at, done) for at, done in enumerate(rounds, start=1)}
    below = {child for done in rounds for child in done.children}
    tops = [done.part for done in rounds if done.part not in below]
    lines = [line for part in tops for line in _lines(part, number, 0)]
    heading = f"{title}: {len(rounds)} specializations"
    parts = [svg.text(_MARGIN, _MARGIN + 8, heading, "strong")]
    heights: dict[int, int] = {}
    for at, (depth, name, is_top) in enumerate(lines, start=1):
        x, y = _MARGIN + _INDENT * depth, _MARGIN + 8 + _ROW * at
        if depth:
            trunk = x - _INDENT + 5
            corners = [(trunk, heights[depth - 1] + 5), (trunk, y - 4), (x - 4, y - 4)]
            parts.append(svg.line(corners, "branch"))
        heights[depth] = y
        parts.append(svg.text(x, y, name, "strong" if is_top else ""))
    return svg.document(_WIDTH, 2 * _MARGIN + _ROW * (len(lines) + 1), parts)


def _lines(
    part: CutPart, number: dict[CutPart, tuple[int, Specialization]], depth: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines of the tree of one attribute: depth, text, and whether it is the top."""
    name = f"{part.attribute}: {part.full_label}" if depth == 0 else part.full_label
    if part not in number:
        yield depth, name, False
        return
    at, done = number[part]
    yield depth, f"{name}  (split {at})", depth == 0
    for child in done.children:
        yield from _lines(child, number, depth + 1)
    for name in part.special_labels:
        yield depth + 1, name, False
