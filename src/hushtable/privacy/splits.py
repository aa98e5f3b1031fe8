"""Ways to split values by what they tell about a class: scored while sealed, chosen for a price.

One histogram (value, class) of an attribute serves all splits of it. A part of the values is split
into given children, or anywhere in an interval of a grid. Splits between the same two occupied
codes score alike: they are one run, and how many runs there are is private, as are their ends. The
number of ways to split is public, and every one of them can be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import SealedError
from hushtable.privacy.choices import Scores, SealedScores
from hushtable.privacy.class_scores import Integers, Score
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Seal, Sealed, inside
from hushtable.privacy.spending import Part, Price, Sensitivity

_FAR = 256  # a way this many levels below the best has a chance of e**-256

_CHUNK = 1 << 22  # cells of child-by-class tables that are scored at a time


Codes = range | frozenset[int]
"""Some codes of an attribute: an interval of a grid, or a group of values."""


class Ways(NamedTuple):
    """Hold runs of ways that score alike: the score, how many ways there are, the first of them.

    The one way to split a group of values has no number, and -1 stands there.
    """

    scores: NDArray[np.int64]
    n_ways: NDArray[np.int64]
    starts: NDArray[np.int64]


class ClassTable:
    """Hold one attribute's histogram (value, class), ready to be split.

    Parameters
    ----------
    histogram : array (codes, classes)
        Counts.
    n_values : int
        The first codes are values, the others are apart: special values, and missing.
    ordered : bool
        Whether intervals of values are split, else given groups of them.
    begins : array of int, optional
        The codes at which alone intervals may be split, where the schema declares bins.
    """

    def __init__(
        self, histogram: Integers, n_values: int, ordered: bool, begins: Integers | None = None
    ) -> None:
        self.values, self.apart = histogram[:n_values], list(histogram[n_values:])
        self.begins = begins
        if ordered:
            # Cells that are not empty, then their codes once each: several times faster than any().
            codes = np.flatnonzero(self.values) // self.values.shape[1]
            self.occupied = codes[np.diff(codes, prepend=-1) != 0]
            self.below = np.zeros((len(self.occupied) + 1, self.values.shape[1]), np.int64)
            np.cumsum(self.values[self.occupied], axis=0, out=self.below[1:])

    def group_ways(
        self, children: Sequence[Sequence[int]], score: Score, *, with_apart: bool
    ) -> Ways:
        """Score the one way to split a group of values: into these children."""
        counted = [self.values[list(codes)].sum(axis=0) for codes in children]
        scores = score.of(np.stack(counted + self._rest(with_apart))[None])
        one = np.ones(1, np.int64)
        return Ways(np.asarray(scores, np.int64), one, -one)

    def halving_ways(
        self,
        codes: Sequence[int],
        halves: Sequence[Sequence[int]],
        score: Score,
        *,
        with_apart: bool,
    ) -> Ways:
        """Score every way to split a group of values in two: one of the halves, and what is left.

        A way is named by the place of its half.
        """
        whole = self.values[list(codes)].sum(axis=0)
        one = np.stack([self.values[list(half)].sum(axis=0) for half in halves])
        rest = [np.broadcast_to(row, one.shape) for row in self._rest(with_apart)]
        scores = score.of(np.stack([one, whole - one, *rest], axis=1))
        places = np.arange(len(halves))
        return Ways(np.asarray(scores, np.int64), np.ones_like(places), places)

    def span_ways(self, first: int, last: int, score: Score, *, with_apart: bool) -> Ways:
        """Score every way to split an interval of values in two, both ends included.

        A way is named by the first code of its right half, or by the place of that code among
        those at which intervals may be split.
        """
        begin = int(np.searchsorted(self.occupied, first))
        end = int(np.searchsorted(self.occupied, last, side="right"))
        within = self.occupied[begin:end]
        # A run's splits come after one occupied code and not after the next one.
        starts = np.concatenate(([first + 1], within + 1))
        lasts = np.concatenate((within, [last]))
        if self.begins is not None:
            starts = np.searchsorted(self.begins, starts)
            lasts = np.searchsorted(self.begins, lasts, side="right") - 1
        at = np.flatnonzero(lasts >= starts)
        scores = np.empty(len(at), np.int64)
        step = max(1, _CHUNK // (3 * self.below.shape[1]))
        for chunk in range(0, len(at), step):
            here = begin + at[chunk : chunk + step]
            left = self.below[here] - self.below[begin]
            right = self.below[end] - self.below[here]
            rest = [np.broadcast_to(row, left.shape) for row in self._rest(with_apart)]
            scores[chunk : chunk + step] = score.of(np.stack([left, right, *rest], axis=1))
        return Ways(scores, lasts[at] - starts[at] + 1, starts[at])

    def divided(self, parts: Sequence[Codes]) -> list[ClassTable]:
        """Give the table that each of some disjoint parts of the values is split by."""
        return [self] * len(parts)

    def n_splits(self, first: int, last: int) -> int:
        """Count the ways to split an interval: public, the schema says it."""
        if self.begins is None:
            return last - first
        inside_of = np.searchsorted(self.begins, [first, last], side="right")
        return int(inside_of[1] - inside_of[0])

    def _rest(self, with_apart: bool) -> list[Integers]:
        return self.apart if with_apart else []


class SealedWays(Seal):
    """Hold the ways to split one part, sealed; how many there are is public."""

    __slots__ = ("n_in_all",)

    def __init__(self, inside: Ways, sensitivity: Sensitivity, part: Part, n_in_all: int) -> None:
        super().__init__(inside, sensitivity, part)
        self.n_in_all = n_in_all


class SealedClassTable(Seal):
    """Hold a histogram (value, class), sealed, of which some codes are to be split.

    Parameters
    ----------
    inside : ClassTable
        The counts.
    sensitivity : Sensitivity
        How far one unit moves them.
    part : Part
        What they are a part of.
    codes : range, set or None
        Which codes it speaks of; None for all, those apart included.
    n_classes : int
        Number of classes.
    """

    __slots__ = ("codes", "n_classes")

    def __init__(
        self,
        inside: ClassTable,
        sensitivity: Sensitivity,
        part: Part,
        *,
        codes: Codes | None,
        n_classes: int,
    ) -> None:
        super().__init__(inside, sensitivity, part)
        self.codes, self.n_classes = codes, n_classes

    @classmethod
    def of(
        cls, histogram: Sealed, n_values: int, ordered: bool, begins: Integers | None = None
    ) -> SealedClassTable:
        """Make ready a histogram of which one step moves one cell by one."""
        require_counts(histogram.sensitivity)
        table = ClassTable(inside(histogram), n_values, ordered, begins)
        return cls(
            table, histogram.sensitivity, histogram.part, codes=None, n_classes=histogram.shape[1]
        )

    def divided(self, parts: Sequence[Codes]) -> list[SealedClassTable]:
        """Divide it by disjoint parts of its codes: what is paid in one is not paid in others."""
        for at, codes in enumerate(parts):
            if any(_overlap(codes, other) for other in parts[:at]) or not self._has(codes):
                raise SealedError("parts of a histogram must be disjoint, and parts of it.")
        made = self.part.divided(map(str, range(len(parts))))
        return [
            SealedClassTable(
                inside(self), self.sensitivity, part, codes=codes, n_classes=self.n_classes
            )
            for part, codes in zip(made, parts, strict=True)
        ]

    def group_ways(
        self, children: Sequence[Sequence[int]], score: Score, *, with_apart: bool
    ) -> SealedWays:
        """Score the one way to split a group of values: into these children."""
        self._require([frozenset(codes) for codes in children], with_apart)
        _require_each_once([code for codes in children for code in codes])
        ways = inside(self).group_ways(children, score, with_apart=with_apart)
        return self._sealed(ways, score, 1)

    def halving_ways(
        self,
        codes: Sequence[int],
        halves: Sequence[Sequence[int]],
        score: Score,
        *,
        with_apart: bool,
    ) -> SealedWays:
        """Score every way to split a group of values in two: a half of them, and what is left."""
        self._require([frozenset(codes)], with_apart)
        if not all(frozenset(half) <= frozenset(codes) for half in halves):
            raise SealedError("a half of some values must be some of them.")
        for some in (codes, *halves):
            _require_each_once(some)
        ways = inside(self).halving_ways(codes, halves, score, with_apart=with_apart)
        return self._sealed(ways, score, len(halves))

    def span_ways(self, first: int, last: int, score: Score, *, with_apart: bool) -> SealedWays:
        """Score every way to split an interval of values in two."""
        self._require([range(first, last + 1)], with_apart)
        ways = inside(self).span_ways(first, last, score, with_apart=with_apart)
        return self._sealed(ways, score, inside(self).n_splits(first, last))

    def _require(self, parts: Sequence[Codes], with_apart: bool) -> None:
        if (with_apart and self.codes is not None) or not all(map(self._has, parts)):
            raise SealedError("these values are no part of the histogram, or of another part.")

    def _has(self, codes: Codes) -> bool:
        if self.codes is None:
            return True
        if isinstance(codes, range) and isinstance(self.codes, range):
            return self.codes.start <= codes.start and codes.stop <= self.codes.stop
        return frozenset(codes) <= frozenset(self.codes)

    def _sealed(self, ways: Ways, score: Score, n_in_all: int) -> SealedWays:
        moved = score.moved(self.sensitivity, self.n_classes)
        return SealedWays(ways, moved, self.part, n_in_all)


def _require_each_once(codes: Sequence[int]) -> None:
    """Refuse values that are counted twice: a row of them would move a score twice as far."""
    if len(set(codes)) < len(codes):
        raise SealedError("each value is in one child, once.")


def _overlap(one: Codes, other: Codes) -> bool:
    if isinstance(one, range) and isinstance(other, range):
        return one.start < other.stop and other.start < one.stop
    return not frozenset(one).isdisjoint(other)


def require_counts(sensitivity: Sensitivity) -> None:
    """Refuse to score what one step does not move in one place by one: scores are about rows."""
    if sensitivity.cells != 1 or sensitivity.step != 1:
        raise SealedError(
            "scores are proved for counts of rows, each row in one of them; these are sums or "
            "multiples of such."
        )


class SealedWaysOfParts(Seal):
    """Hold the ways to split several parts, to choose one of all of them."""

    __slots__ = ()

    @classmethod
    def of(cls, each: Sequence[SealedWays]) -> SealedWaysOfParts:
        """Put the ways of several parts side by side."""
        moved, part = each[0].sensitivity, each[0].part
        for ways in each[1:]:
            part = part.common(ways.part)
            moved = moved if moved.l1 >= ways.sensitivity.l1 else ways.sensitivity
        return cls([inside(ways) for ways in each], moved, part)

    @classmethod
    def of_one(cls, ways: SealedWays) -> SealedWaysOfParts:
        """Take the ways of one part; if there is but one, nothing is told by drawing it."""
        moved = ways.sensitivity if ways.n_in_all > 1 else Sensitivity(rows=0)
        return cls([inside(ways)], moved, ways.part)


@dataclass(frozen=True)
class WayChoice(Mechanism):
    """Choose a part and a way to split it, P proportional to weight * exp(eta * score).

    One unit moves any score against any other by at most the sensitivity, so the exponential
    mechanism over single ways loses at most eta times that.

    Parameters
    ----------
    eta : Fraction
        What one point of the score adds to the exponent.
    weights : tuple of int
        Base measure of a single way of each part; public.
    by_levels : bool
        Whether runs are put on levels first: faster where they are many. The distribution is the
        same.
    """

    eta: Fraction
    weights: tuple[int, ...]
    by_levels: bool = True

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give eta times how far scores move against each other."""
        return _exponential_price(self.eta * sensitivity.l1)

    def draw(self, exact: list[Ways], noise: Noise) -> tuple[int, int]:
        """Give the place of the part and the way that are chosen."""
        draw = _draw_by_levels if self.by_levels else _draw_at_once
        which, at = draw(exact, self.weights, self.eta, noise)
        start, n_ways = int(exact[which].starts[at]), int(exact[which].n_ways[at])
        # A group is split in one way, and nothing is drawn to find that out.
        return which, start if start < 0 else start + noise.integer_below(n_ways)


@dataclass(frozen=True)
class ScoreChoice(Mechanism):
    """Choose one of several candidates, P proportional to exp(eta * score).

    Parameters
    ----------
    eta : Fraction
        What one point of the score adds to the exponent.
    """

    eta: Fraction

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give eta times how far scores move against each other."""
        return _exponential_price(self.eta * sensitivity.l1)

    def draw(self, exact: Scores, noise: Noise) -> int:
        """Give the place of the candidate that is chosen."""
        if not exact.monotone:
            raise SealedError(
                "these scores move against each other by twice what each of them moves, and that "
                "was not paid; choose by them with TopChoices."
            )
        return noise.choose(exact.values, epsilon=self.eta, sensitivity=Fraction(1), monotone=True)


def scores_of_ways(ways: Sequence[tuple[SealedWays, int]]) -> SealedScores:
    """Give the scores of ways that were chosen before, one of each part, still sealed."""
    values, (moved, part) = [], (ways[0][0].sensitivity, ways[0][0].part)
    for sealed, way in ways:
        exact: Ways = inside(sealed)
        run = int(np.searchsorted(exact.starts, way, side="right")) - 1
        values.append(int(exact.scores[run]))
        part = part.common(sealed.part)
        moved = moved if moved.l1 >= sealed.sensitivity.l1 else sealed.sensitivity
    return SealedScores(Scores(values, moved.l1, True), moved, part)


def _exponential_price(epsilon: Fraction) -> Price:
    # The loss of the exponential mechanism spans at most epsilon (Cesar and Rogers 2021).
    return Price(epsilon, rho=epsilon**2 / 8)


def _draw_at_once(
    each: Sequence[Ways], weights: Sequence[int], eta: Fraction, noise: Noise
) -> tuple[int, int]:
    base = np.concatenate(
        [ways.n_ways * weight for ways, weight in zip(each, weights, strict=True)]
    )
    chosen = noise.choose(
        np.concatenate([ways.scores for ways in each]),
        epsilon=eta,
        sensitivity=Fraction(1),
        monotone=True,
        base=base.tolist(),
    )
    ends = np.cumsum([len(ways.scores) for ways in each])
    which = int(np.searchsorted(ends, chosen, side="right"))
    return which, chosen - int(ends[which]) + len(each[which].scores)


def _draw_by_levels(
    each: Sequence[Ways], weights: Sequence[int], eta: Fraction, noise: Noise
) -> tuple[int, int]:
    """Draw exactly, handling levels one by one and not ways.

    With gap the distance to the best score, ways are put on levels, level = floor(eta * gap), all
    beyond `_FAR` on the last one. A level of a part is drawn by (its weighted ways) * exp(-level),
    then a way on it evenly, and kept with probability exp(-(eta * gap - level)); otherwise all is
    drawn again. The product of the three is the weight wanted.
    """
    scores = np.concatenate([ways.scores for ways in each])
    n_ways = np.concatenate([ways.n_ways for ways in each])
    owner = np.repeat(np.arange(len(each)), [len(ways.scores) for ways in each])
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
            return int(owner[pick]), int(pick) - first
