"""Push cuts down, one specialization after the other, knowing only value-by-class histograms.

A cut divides the codes of one attribute into parts: nodes of its taxonomy, or intervals of its
public grid. The score of splitting a part depends on the class counts of its children alone, so
one histogram per attribute serves the whole search. What a search may choose from is laid down by
the schema; the histograms only decide how likely each choice is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.methods.diffgen.scores import Integers, Score
from hushtable.privacy.noise import Noise
from hushtable.recoding import Intervals, Recoding, ValueGroups
from hushtable.schema import Categorical, Column
from hushtable.taxonomy import Node, Taxonomy

_FAR = 256  # a way this many levels below the best has a chance of e**-256

_CHUNK = 1 << 22  # cells of child-by-class tables that are scored at a time


@dataclass(frozen=True, eq=False)  # a part is itself: told apart by identity
class Part(ABC):
    """One part of a cut; at the top it also holds what is apart, special values and missing."""

    attribute: str
    holds_apart: bool

    @property
    @abstractmethod
    def label(self) -> str:
        """What the part is called, without what is apart."""

    @property
    def apart(self) -> tuple[str, ...]:
        """What it holds that is apart, and that is split off first, each by itself."""
        return ("missing",) if self.holds_apart else ()

    @property
    def full_label(self) -> str:
        """What the part is called."""
        return " or ".join((self.label, *self.apart))

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """How often this part and what comes of it can be split: public."""


@dataclass(frozen=True, eq=False)
class Branch(Part):
    """A node of a taxonomy in which no node has a single child."""

    node: Node

    @property
    def label(self) -> str:
        """The node's label."""
        return self.node.label

    @property
    def children(self) -> tuple[Branch, ...]:
        """The parts it splits into, without what is apart."""
        below = self.node.children
        if not below and self.holds_apart:
            below = (self.node,)  # all there is to split off are the missing values
        return tuple(Branch(self.attribute, False, node) for node in below)

    @cached_property
    def n_rounds(self) -> int:
        """One for each node with children below, itself included."""
        return sum(child.n_rounds for child in self.children) + bool(self.children)


@dataclass(frozen=True, eq=False)
class Span(Part):
    """An interval of a line, by its first and last code."""

    column: Column
    first: int
    last: int

    @property
    def apart(self) -> tuple[str, ...]:
        """The special values, and missing."""
        names = map(self.column.name, range(self.column.n_values, self.column.size))
        return tuple(names) if self.holds_apart else ()

    @property
    def label(self) -> str:
        """Its first and last value."""
        low, high = self.column.value(self.first), self.column.value(self.last)
        return f"{low}" if self.first == self.last else f"{low} to {high}"

    @property
    def n_rounds(self) -> int:
        """One for each grid point, or public bin, but the first."""
        begins = bin_starts(self.column)
        if begins is None:
            return self.last - self.first
        inside = np.searchsorted(begins, [self.first, self.last], side="right")
        return int(inside[1] - inside[0])

    def halves(self, split: int) -> tuple[Span, Span]:
        """Split before a code."""
        return (
            Span(self.attribute, False, self.column, self.first, split - 1),
            Span(self.attribute, False, self.column, split, self.last),
        )


def is_span(column: Column) -> bool:
    """Say whether a column is cut along a line: numbers, moments, and categories with an order.

    A taxonomy says more than an order does.
    """
    return column.is_line and getattr(column, "taxonomy", None) is None


def bin_starts(column: Column) -> Integers | None:
    """Give the codes at which alone a column may be cut, if its schema declares bins."""
    starts = getattr(column, "bin_starts", None)
    return None if starts is None else np.asarray(starts, np.int64)


def top(attribute: str, column: Column) -> Part:
    """Give the one part of the topmost cut."""
    apart = column.n_apart > 0
    if is_span(column):
        return Span(attribute, apart, column, 0, column.n_values - 1)
    assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
    taxonomy = column.taxonomy or Taxonomy.from_nested(list(column.values))
    return Branch(attribute, apart, _without_single_children(taxonomy.root))


def largest_gains(part: Part, most: int) -> list[int]:
    """List by how many parts a cut may grow at each of up to `most` splits, largest first.

    Examples
    --------
    >>> color = Categorical(type="categorical", values=("red", "blue", "green"), missing="category")
    >>> largest_gains(top("color", color), 5)
    [3]
    """
    if isinstance(part, Span):
        gains = [1] * min(part.n_rounds, most)
        return [gains[0] + len(part.apart), *gains[1:]] if gains else []
    assert isinstance(part, Branch)  # noqa: S101 - there is no other kind
    below = [gain for child in part.children for gain in largest_gains(child, most)]
    own = [len(part.children) - 1 + len(part.apart)] if part.children else []
    return sorted(own + below, reverse=True)[:most]


def _without_single_children(node: Node) -> Node:
    """Leave out nodes that stand for the same values as their only child."""
    while len(node.children) == 1:
        node = node.children[0]
    return Node(node.label, tuple(map(_without_single_children, node.children)))


# --- counts ---------------------------------------------------------------------------------------


class ClassCounts:
    """Hold one attribute's value-by-class histogram, ready to be split.

    Parameters
    ----------
    column : Column
        The attribute's public description.
    histogram : array (codes, classes)
        Private counts.
    """

    def __init__(self, column: Column, histogram: Integers) -> None:
        self.column = column
        values = histogram[: column.n_values]
        self.apart = list(histogram[column.n_values :])
        if not is_span(column):
            assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
            self.rows_of = dict(zip(column.values, values, strict=True))
        else:
            # Cells that are not empty, then their codes once each: several times faster than any().
            codes = np.flatnonzero(values) // values.shape[1]
            self.occupied = codes[np.diff(codes, prepend=-1) != 0]
            self.below = np.zeros((len(self.occupied) + 1, values.shape[1]), np.int64)
            np.cumsum(values[self.occupied], axis=0, out=self.below[1:])

    def of_node(self, node: Node) -> Integers:
        """Count the classes below a node."""
        return np.asarray(sum(self.rows_of[value] for value in node.leaves()))


@dataclass(frozen=True)
class Choice(ABC):
    """The ways to split one part: equally good ways share a score and are counted together."""

    part: Part
    scores: NDArray[np.int64]
    n_ways: NDArray[np.int64]

    @abstractmethod
    def split(self, at: int, noise: Noise) -> tuple[Part, ...]:
        """Split in one of the ways behind a score, all of them equally likely."""


@dataclass(frozen=True)
class BranchChoice(Choice):
    """A node is split in one way only."""

    part: Branch

    def split(self, at: int, noise: Noise) -> tuple[Part, ...]:
        """Give the children."""
        return self.part.children


@dataclass(frozen=True)
class SpanChoice(Choice):
    """An interval is split at any grid point, both ends of the data's range included.

    Between two occupied codes all splits have the same score: they form a run. With public bins,
    the splits are the first codes of these, and `starts` counts them.
    """

    part: Span
    starts: NDArray[np.int64]

    def halves(self, at: int, further: int = 0) -> tuple[Span, Span]:
        """Split at a point of a run."""
        begins, place = bin_starts(self.part.column), int(self.starts[at]) + further
        return self.part.halves(place if begins is None else int(begins[place]))

    def split(self, at: int, noise: Noise) -> tuple[Part, ...]:
        """Split at a uniformly drawn point of a run."""
        return self.halves(at, noise.integer_below(int(self.n_ways[at])))


def choice_of(part: Part, counts: ClassCounts, score: Score) -> Choice | None:
    """Score every way to split a part; None if there is none, which the schema alone decides."""
    if part.n_rounds == 0:
        return None
    apart = counts.apart if part.holds_apart else []
    if isinstance(part, Branch):
        children = np.stack([counts.of_node(child.node) for child in part.children] + apart)
        scores = np.asarray(score.of(children[None]), np.int64)
        return BranchChoice(part, scores, np.ones(1, np.int64))
    assert isinstance(part, Span)  # noqa: S101 - the only other kind
    begin = int(np.searchsorted(counts.occupied, part.first))
    end = int(np.searchsorted(counts.occupied, part.last, side="right"))
    inside = counts.occupied[begin:end]
    # A run's splits come after one occupied code and not after the next one.
    starts = np.concatenate(([part.first + 1], inside + 1))
    lasts = np.concatenate((inside, [part.last]))
    begins = bin_starts(part.column)
    if begins is not None:
        starts = np.searchsorted(begins, starts)
        lasts = np.searchsorted(begins, lasts, side="right") - 1
    at = np.flatnonzero(lasts >= starts)
    scores = np.empty(len(at), np.int64)
    step = max(1, _CHUNK // (3 * counts.below.shape[1]))
    for chunk in range(0, len(at), step):
        here = begin + at[chunk : chunk + step]
        left = counts.below[here] - counts.below[begin]
        right = counts.below[end] - counts.below[here]
        rest = [np.broadcast_to(row, left.shape) for row in apart]
        scores[chunk : chunk + step] = score.of(np.stack([left, right, *rest], axis=1))
    return SpanChoice(part, scores, lasts[at] - starts[at] + 1, starts[at])


# --- the search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Specialization:
    """One round: a part and what took its place."""

    part: Part
    children: tuple[Part, ...]

    def plain(self) -> dict[str, Any]:
        """Write it as plain data for the statement."""
        children = [part.full_label for part in self.children]
        return {
            "column": self.part.attribute,
            "part": self.part.full_label,
            "into": [*children, *self.part.apart],
        }


@dataclass
class Cuts:
    """Hold the current cut of every attribute and what may be split next.

    Parameters
    ----------
    counts : mapping of str to ClassCounts
        The private histograms.
    score : Score
        What the splits are valued by.
    """

    counts: Mapping[str, ClassCounts]
    score: Score
    parts: dict[str, list[Part]] = field(init=False)
    rounds: list[Specialization] = field(init=False, default_factory=list)
    _choices: dict[Part, Choice] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        tops = [top(attribute, counts.column) for attribute, counts in self.counts.items()]
        self.parts = {part.attribute: [part] for part in tops}
        for part in tops:
            self._open(part)

    def _open(self, part: Part) -> None:
        choice = choice_of(part, self.counts[part.attribute], self.score)
        if choice is not None:
            self._choices[part] = choice

    def choices(self) -> Iterator[Choice]:
        """Go through what may be split, in the order of the attributes and of their cuts."""
        for parts in self.parts.values():
            for part in parts:
                if part in self._choices:
                    yield self._choices[part]

    def specialize(self, part: Part, children: tuple[Part, ...]) -> None:
        """Put children in the place of their parent."""
        cut = self.parts[part.attribute]
        at = cut.index(part)
        cut[at : at + 1] = children
        del self._choices[part]
        for child in children:
            self._open(child)
        self.rounds.append(Specialization(part, children))

    def recodings(self) -> dict[str, Recoding]:
        """Turn the cut of each attribute into a recoding."""
        return {
            name: recoding_of(counts.column, self.parts[name])
            for name, counts in self.counts.items()
        }


def specialize_jointly(
    cuts: Cuts, *, n_rounds: int, epsilon: Fraction, sensitivity: int, noise: Noise
) -> None:
    """Choose part and split together, `n_rounds` times, each time with `epsilon`.

    The base measure gives every attribute that can still be split the same weight, whatever the
    size of its domain: divided evenly over its parts, and over the splits of a part.
    """
    eta = epsilon / (sensitivity * (1 if cuts.score.monotone else 2))
    for _ in range(n_rounds):
        choices = list(cuts.choices())
        choice, at = choose_way(choices, base_measure(choices), eta=eta, noise=noise)
        cuts.specialize(choice.part, choice.split(at, noise))


def base_measure(choices: Sequence[Choice]) -> list[int]:
    """Weigh the ways to split each part, so that every attribute has the same weight in all.

    Examples
    --------
    >>> one = BranchChoice(Branch("a", False, Node("x")), np.zeros(1, int), np.ones(1, int))
    >>> from hushtable.schema import Integer
    >>> grid = Integer(type="integer", low=0, high=9)
    >>> two = SpanChoice(
    ...     Span("b", False, grid, 0, 9), np.zeros(2, int), np.array([3, 6]), np.array([1, 4])
    ... )
    >>> base_measure([one, two])  # b has 9 ways, each of weight 1
    [9, 1]
    """
    n_parts: dict[str, int] = {}
    for choice in choices:
        n_parts[choice.part.attribute] = n_parts.get(choice.part.attribute, 0) + 1
    shares = [n_parts[choice.part.attribute] * int(choice.n_ways.sum()) for choice in choices]
    whole = lcm(*shares)
    return [whole // share for share in shares]


def choose_way(
    choices: Sequence[Choice], weights: Sequence[int], *, eta: Fraction, noise: Noise
) -> tuple[Choice, int]:
    """Draw a score of a choice with probability proportional to weight * ways * exp(eta * score).

    The exponential mechanism over single ways, drawn exactly. With gap the distance to the best
    score, ways are put on levels, level = floor(eta * gap), all beyond `_FAR` on the last one. A
    level of a choice is drawn by (its weighted ways) * exp(-level), then a way on it evenly, and
    kept with probability exp(-(eta * gap - level)); otherwise all is drawn again. The product of
    the three is the weight wanted. Only levels are handled one by one, not ways.
    """
    scores = np.concatenate([choice.scores for choice in choices])
    n_ways = np.concatenate([choice.n_ways for choice in choices])
    owner = np.repeat(np.arange(len(choices)), [len(choice.scores) for choice in choices])
    scaled = scores.max() - scores
    if int(scaled.max()) * eta.numerator >= 1 << 62:
        scaled = scaled.astype(object)
    scaled = scaled * eta.numerator
    level = np.minimum(scaled // eta.denominator, _FAR).astype(np.int64)
    key = owner * (_FAR + 1) + level
    # Ways of one column are fewer than 2**32, so sums of them are exact in double precision.
    totals = np.bincount(key, weights=n_ways)
    occupied = np.flatnonzero(totals)
    base = [
        weights[at // (_FAR + 1)] * int(total)
        for at, total in zip(occupied.tolist(), totals[occupied].tolist(), strict=True)
    ]
    while True:
        drawn = noise.choose(
            -(occupied % (_FAR + 1)),
            epsilon=Fraction(1),
            sensitivity=Fraction(1),
            monotone=True,
            base=base,
        )
        members = np.flatnonzero(key == occupied[drawn])
        ends = np.cumsum(n_ways[members])
        pick = members[int(np.searchsorted(ends, noise.integer_below(int(ends[-1])), "right"))]
        above = int(scaled[pick]) - int(level[pick]) * eta.denominator
        if noise.bernoulli_exp(Fraction(above, eta.denominator), size=1)[0]:
            first = int(np.searchsorted(owner, owner[pick]))
            return choices[int(owner[pick])], int(pick) - first


def specialize_as_printed(
    cuts: Cuts, *, n_rounds: int, epsilon: Fraction, sensitivity: int, noise: Noise
) -> None:
    """Follow Algorithm 1 of the paper; `epsilon` is its epsilon', spent on every single choice.

    Lines 4 and 9: a new interval gets its split at once. Line 7: one part is chosen, all of them
    equally likely but for their score. The exponent is epsilon' / (2 sensitivity) throughout.
    """
    pending: dict[Part, tuple[int, tuple[Part, ...]]] = {}
    eta = epsilon / (2 * sensitivity)
    for _ in range(n_rounds):
        choices = list(cuts.choices())
        for choice in choices:
            if choice.part not in pending:
                _, at = choose_way([choice], [1], eta=eta, noise=noise)
                pending[choice.part] = int(choice.scores[at]), choice.split(at, noise)
        chosen = noise.choose(
            np.array([pending[choice.part][0] for choice in choices], np.int64),
            epsilon=epsilon,
            sensitivity=Fraction(sensitivity),
            monotone=False,
        )
        part = choices[chosen].part
        cuts.specialize(part, pending.pop(part)[1])


# --- the result -----------------------------------------------------------------------------------


def recoding_of(column: Column, cut: list[Part]) -> Recoding:
    """Turn a cut into a recoding.

    A cut that was never pushed down has one code for everything, what is apart included; in any
    other, special values and missing have their own codes, the last.

    Examples
    --------
    >>> sex = Categorical(type="categorical", values=("F", "M"), missing="category")
    >>> recoding_of(sex, [top("sex", sex)]).labels
    ('* or missing',)
    """
    whole = len(cut) == 1 and (cut[0].holds_apart or column.n_apart == 0)
    n_values = column.size if whole else column.n_values
    has_missing = not whole and column.missing_code is not None
    labels = tuple(_labels_apart(cut))
    if not is_span(column):
        assert isinstance(column, Categorical)  # noqa: S101 - all others are lines
        code_of = {
            value: code
            for code, part in enumerate(cut)
            if isinstance(part, Branch)
            for value in part.node.leaves()
        }
        groups = [0] * n_values if whole else [code_of[value] for value in column.values]
        return ValueGroups(labels, n_values, has_missing, tuple(groups))
    starts = tuple(part.first for part in cut if isinstance(part, Span))
    special = () if whole else column.special_names
    return Intervals(labels, n_values, has_missing, starts, special=special)


def plain_cut(recoding: Recoding) -> dict[str, Any]:
    """Write a cut as plain data for the statement."""
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


def _labels_apart(cut: list[Part]) -> Iterator[str]:
    """Name the parts; a name that two nodes of different levels share gets their values added."""
    labels = [part.full_label for part in cut]
    for part, label in zip(cut, labels, strict=True):
        if labels.count(label) > 1 and isinstance(part, Branch):
            yield f"{label} ({', '.join(part.node.leaves())})"
        else:
            yield label
