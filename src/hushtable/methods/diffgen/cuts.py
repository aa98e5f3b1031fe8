"""Search for cuts by repeated specialization, from value-by-class histograms.

A cut divides the codes of one attribute into parts: nodes of its taxonomy, intervals of its public
grid, or sets of listed values that are split off one at a time. The score of splitting a part
depends only on the class counts of its children, so one histogram per attribute suffices for the
whole search. The schema determines the possible choices; the histograms only determine their
probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm, prod
from typing import Any

from hushtable.arrays import Integers
from hushtable.methods.diffgen.parts import (
    CutPart,
    IntervalPart,
    TaxonomyPart,
    ValueSetPart,
    bin_starts,
    is_span,
    top,
)
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.class_scores import Score
from hushtable.privacy.mechanisms.scored_splits import (
    ClassTable,
    CodeSet,
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
from hushtable.schema.taxonomy import TaxonomyNode

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
