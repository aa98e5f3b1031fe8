"""Search for cuts by repeated specialization, from value-by-class histograms.

A cut divides the codes of one attribute into parts: nodes of its taxonomy, intervals of its public
grid, or sets of listed values that are split off one at a time. The score of splitting a part
depends only on the class counts of its children, so one histogram per attribute suffices for the
whole search. The schema determines the possible choices; the histograms only determine their
probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm, prod
from typing import Any

import numpy as np

from hushtable.arrays import Integers
from hushtable.files import svg
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.scored_splits import (
    ClassTable,
    CodeSet,
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
from hushtable.schema import Categorical, Column
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups
from hushtable.schema.taxonomy import ROOT, Taxonomy, TaxonomyNode

# Parts of a cut: taxonomy nodes, intervals of a public grid, or sets of listed values.
#
# The schema alone determines how a part may be split; this module does not use data.


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


# --- counts ---------------------------------------------------------------------------------------


Table = ClassTable | SealedClassTable


class ClassCounts:
    """Value-by-class histogram of one attribute, ready to be split.

    `histogram` (codes, classes) is sealed, or an array for methods that see exact counts.
    """

    def __init__(self, column: Column, histogram: SealedCounts | Integers) -> None:
        self.column = column
        values = column.n_values, is_span(column), bin_starts(column)
        self.table: Table = (
            SealedClassTable.of(histogram, *values)
            if isinstance(histogram, SealedCounts)
            else ClassTable(histogram, *values)
        )
        if isinstance(column, Categorical):
            self._code_of = {value: code for code, value in enumerate(column.values)}

    def codes_below(self, node: TaxonomyNode) -> list[int]:
        """Return the codes of the values below a node."""
        return [self._code_of[value] for value in node.leaves()]

    def codes_of(self, part: CutPart) -> CodeSet:
        """Return the codes of the values of a part."""
        if isinstance(part, IntervalPart):
            return range(part.first, part.last + 1)
        if isinstance(part, ValueSetPart):
            return frozenset(part.codes)
        assert isinstance(part, TaxonomyPart)  # noqa: S101 - the only other kind
        return frozenset(self.codes_below(part.node))


@dataclass(frozen=True)
class Choice:
    """The possible splits of one part; splits of equal score are counted together."""

    part: CutPart
    ways: ScoredSplits | SealedSplits

    @property
    def n_in_all(self) -> int:
        """Number of possible splits. Public."""
        if isinstance(self.part, ValueSetPart):
            return len(self.part.halves)
        return self.part.n_rounds if isinstance(self.part, IntervalPart) else 1

    def split(self, way: int) -> tuple[CutPart, ...]:
        """Split a node into its children, or an interval before a code or a public bin."""
        if isinstance(self.part, ValueSetPart):
            return self.part.split(way)
        if isinstance(self.part, IntervalPart):
            begins = bin_starts(self.part.column)
            return self.part.halves(way if begins is None else int(begins[way]))
        assert isinstance(self.part, TaxonomyPart)  # noqa: S101 - the only other kind
        return self.part.children


def choice_of(
    part: CutPart, counts: ClassCounts, score: Score, table: Table | None = None
) -> Choice | None:
    """Score every split of a part; None if there is none, which depends on the schema only.

    `table` is the part's own table if it exists; by default that of the whole attribute.
    """
    if part.n_rounds == 0:
        return None
    table = counts.table if table is None else table
    if isinstance(part, TaxonomyPart):
        children = [counts.codes_below(child.node) for child in part.children]
        ways = table.score_groups(children, score, with_special=part.holds_special)
        return Choice(part, ways)
    if isinstance(part, ValueSetPart):
        ways = table.score_halvings(part.codes, part.halves, score, with_special=part.holds_special)
        return Choice(part, ways)
    assert isinstance(part, IntervalPart)  # noqa: S101 - the only other kind
    between = table.score_spans(part.first, part.last, score, with_special=part.holds_special)
    return Choice(part, between)


# --- the search -----------------------------------------------------------------------------------


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

    counts: Mapping[str, ClassCounts]  # private histograms
    score: Score  # score of splits
    one_by_one: bool = False  # whether values of a list without taxonomy are split off singly
    parts: dict[str, list[CutPart]] = field(init=False)
    rounds: list[Specialization] = field(init=False, default_factory=list)
    _choices: dict[CutPart, Choice] = field(init=False, default_factory=dict)
    _tables: dict[CutPart, Table] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        tops = [
            top(attribute, counts.column, one_by_one=self.one_by_one)
            for attribute, counts in self.counts.items()
        ]
        self.parts = {part.attribute: [part] for part in tops}
        for part in tops:
            self._open(part, self.counts[part.attribute].table)

    def _open(self, part: CutPart, table: Table) -> None:
        choice = choice_of(part, self.counts[part.attribute], self.score, table)
        if choice is not None:
            self._choices[part], self._tables[part] = choice, table

    def choices(self, most_groups: int | None = None) -> Iterator[Choice]:
        """Yield the possible splits, in the order of the attributes and of their cuts.

        Splits that would make more groups than `most_groups` are left out; this number follows from
        the schema and the splits so far.
        """
        sizes = {name: _n_codes(self.counts[name].column, cut) for name, cut in self.parts.items()}
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
        counts = self.counts[part.attribute]
        tables: Sequence[Table] = self._tables.pop(part).divided(
            [counts.codes_of(child) for child in children]
        )
        for child, table in zip(children, tables, strict=True):
            self._open(child, table)
        self.rounds.append(Specialization(part, children))

    def recodings(self) -> dict[str, Recoding]:
        """Return the cut of each attribute as a recoding."""
        return {
            name: recoding_of(counts.column, self.parts[name])
            for name, counts in self.counts.items()
        }


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
        cuts.specialize(choice.part, choice.split(way))


def base_measure(choices: Sequence[Choice]) -> list[int]:
    """Return a weight for the splits of each part, such that every attribute has the same total.

    Examples
    --------
    >>> import numpy as np
    >>> some = ScoredSplits(np.zeros(1, int), np.ones(1, int), np.zeros(1, int))
    >>> from hushtable.schema import Integer
    >>> grid = Integer(type="integer", low=0, high=9)
    >>> one = Choice(TaxonomyPart("a", False, TaxonomyNode("x")), some)
    >>> two = Choice(IntervalPart("b", False, grid, 0, 9), some)
    >>> base_measure([one, two])  # b has 9 ways, each of weight 1
    [9, 1]
    """
    n_parts: dict[str, int] = {}
    for choice in choices:
        n_parts[choice.part.attribute] = n_parts.get(choice.part.attribute, 0) + 1
    shares = [n_parts[choice.part.attribute] * choice.n_in_all for choice in choices]
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

    Lines 4 and 9: a new interval gets its split at once. Line 7: one part is chosen, with equal
    base probabilities. The exponent is epsilon' / (2 sensitivity) throughout.
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
        cuts.specialize(chosen.part, chosen.split(pending.pop(chosen.part)))


# --- the result -----------------------------------------------------------------------------------


def recoding_of(column: Column, cut: list[CutPart]) -> Recoding:
    """Return a cut as a recoding.

    A cut that was never split has one code for everything, including special values and missing. In
    any other cut, special values and missing have their own codes, which come last.

    Examples
    --------
    >>> sex = Categorical(type="categorical", values=("F", "M"), missing="category")
    >>> recoding_of(sex, [top("sex", sex)]).labels
    ('* or missing',)
    """
    whole = _is_whole(column, cut)
    n_values = column.size if whole else column.n_values
    has_missing = not whole and column.missing_code is not None
    labels = tuple(_special_labels(column, cut))
    if not is_span(column):
        assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
        code_of = {
            value: code for code, part in enumerate(cut) for value in _values_of(column, part)
        }
        groups = [0] * n_values if whole else [code_of[value] for value in column.values]
        return ValueGroups(labels, n_values, has_missing, tuple(groups))
    starts = tuple(part.first for part in cut if isinstance(part, IntervalPart))
    special = () if whole else column.special_names
    return Intervals(labels, n_values, has_missing, starts, special=special)


def _is_whole(column: Column, cut: list[CutPart]) -> bool:
    """Return whether a cut was never split, so that one code represents everything."""
    return len(cut) == 1 and (cut[0].holds_special or column.n_special == 0)


def _n_codes(column: Column, cut: list[CutPart]) -> int:
    return 1 if _is_whole(column, cut) else len(cut) + column.n_special


def _values_of(column: Categorical, part: CutPart) -> Iterator[str]:
    """Yield the values of a part of a categorical column."""
    if isinstance(part, ValueSetPart):
        return (column.values[code] for code in part.codes)
    assert isinstance(part, TaxonomyPart)  # noqa: S101 - the only other kind that is listed
    return part.node.leaves()


def plain_cut(recoding: Recoding) -> dict[str, Any]:
    """Return a cut as plain data for the statement."""
    codes: dict[str, Any] = {}
    if isinstance(recoding, Intervals):
        codes["starts"] = list(recoding.starts)
    elif isinstance(recoding, ValueGroups):
        codes["groups"] = list(recoding.groups)
    return {
        "labels": list(recoding.labels),
        "n_values": recoding.n_values,
        "has_missing": recoding.has_missing,
        **({"special": list(recoding.special)} if recoding.special else {}),
        **codes,
    }


def _special_labels(column: Column, cut: list[CutPart]) -> Iterator[str]:
    """Yield the names of the parts; names that occur twice get their values added."""
    labels = [part.full_label for part in cut]
    for part, label in zip(cut, labels, strict=True):
        if labels.count(label) > 1 and isinstance(column, Categorical):
            values = _values_of(column, part)
            if isinstance(part, ValueSetPart):  # a composed name could equal that of a value
                values = map(repr, values)
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
    tops = [done.part for done in rounds if not _is_child(done.part, rounds)]
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


def _is_child(part: CutPart, rounds: Sequence[Specialization]) -> bool:
    return any(part is child for done in rounds for child in done.children)


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
