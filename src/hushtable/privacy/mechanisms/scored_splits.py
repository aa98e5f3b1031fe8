"""Splits of an attribute's values, scored by class while sealed and selected privately.

One histogram (value, class) of an attribute serves all of its splits. A part of the values is split
into given children, or anywhere in an interval of a grid. Splits between the same two occupied
codes have the same score and form one run. The number and ends of runs are private; the number of
splits is public, and each of them can be selected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.accounting.sealed import SealedCounts, SealedValue, unseal
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.mechanisms.private_choice import Scores, SealedScores
from hushtable.privacy.noise.noise import Noise

# Scores of specializations: integers with proven sensitivities.
#
# A score depends only on the counts of the children by class, an array (..., children, classes).
# Scores are integers, so that the exponential mechanism can be sampled exactly; the sensitivity
# includes the rounding. The proofs are in ``methods/diffgen/diffgen.md``.

ScoreName = Literal["balanced-gain", "balanced-max", "max", "information-gain", "total-variation"]

BITS = 20
"""Information gain is rounded to multiples of 2**-20 bit."""

VOTES = (0.0, 0.5, 1.0)
"""Exponents of the class weights in the three votes of balanced-max: 0 ignores class sizes, 1
gives all classes the same total weight."""

WEIGHT = 256
"""Weight of a row of the rarest class in each vote; other classes have lower weights."""

LEAST_WEIGHT = 1 / 16
"""Smallest relative weight: a class counts as at most 16 times as large as the rarest one."""

_EXACT_ROWS = 2**31  # below this, 2 * rows**2 fits an int64


@dataclass(frozen=True)
class Score(ABC):
    """Score of the children of a part; higher is better."""

    name: ClassVar[ScoreName]
    monotone: ClassVar[bool]
    """True if adding a row never lowers any score."""
    unit: ClassVar[int]
    """Number of points of the score per unit of the paper's u."""
    divisible: ClassVar[bool] = True
    """True if a fraction of a unit's rows changes a score by at most that fraction of the bound."""

    def moved(self, counted: Sensitivity, n_classes: int) -> Sensitivity:
        """Return the sensitivity of differences between scores, from that of the counts."""
        most = self.sensitivity(n_classes=n_classes, max_rows=counted.rows)
        return Sensitivity(
            rows=1,
            step=most if self.monotone else 2 * most,
            divisible=self.divisible or counted.rows == 1,
        )

    @abstractmethod
    def of(self, children: Integers) -> NDArray[Any]:
        """Return the score of each table (children, classes), as integers."""

    @abstractmethod
    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Bound the change of a score by one unit of up to `max_rows` rows."""

    def sensitivity_of_paper(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return the sensitivity printed in the paper (``diffgen.md``), at least the true one."""
        return self.sensitivity(n_classes=n_classes, max_rows=max_rows)


@dataclass(frozen=True)
class Max(Score):
    """Sum over children of the largest class: rows that a majority vote classifies correctly.

    Examples
    --------
    >>> Max().of(np.array([[[4, 1], [0, 3]], [[2, 2], [2, 2]]])).tolist()
    [7, 4]
    """

    name: ClassVar[ScoreName] = "max"
    monotone: ClassVar[bool] = True
    unit: ClassVar[int] = 1

    def of(self, children: Integers) -> NDArray[Any]:
        """Return the number of rows in the majority class of their child."""
        return np.asarray(children.max(axis=-1).sum(axis=-1))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return `max_rows`: one row raises the score by 0 or 1."""
        return max_rows


@dataclass(frozen=True)
class BalancedMax(Score):
    """Sum over children of the weight that three weighted majority votes classify correctly.

    If one class is much larger than the others, it has the majority nearly everywhere, and `Max`
    cannot distinguish attributes. Here the classes vote by size, with equal total weight, and with
    weights in between.

    Parameters
    ----------
    weights : tuple of tuples of int
        Weight of a row in each vote by its class; public.

    Examples
    --------
    >>> score = BalancedMax.of_sizes(np.array([300, 100]))
    >>> score.weights
    ((256, 256), (148, 256), (85, 256))
    >>> useful, useless = np.array([[200, 10], [100, 90]]), np.array([[150, 50], [150, 50]])
    >>> (score.of(useful) > score.of(useless)).item(), (Max().of(useful) > Max().of(useless)).item()
    (True, False)
    """

    name: ClassVar[ScoreName] = "balanced-max"
    monotone: ClassVar[bool] = True
    unit: ClassVar[int] = len(VOTES) * WEIGHT

    weights: tuple[tuple[int, ...], ...]

    @classmethod
    def of_sizes(cls, sizes: Integers) -> Self:
        """Compute the weights from the published sizes of the classes."""
        positive = np.maximum(sizes, 1).astype(np.float64)
        share = np.maximum(positive.min() / positive, LEAST_WEIGHT)
        weights = np.rint(WEIGHT * share[None] ** np.array(VOTES)[:, None]).astype(np.int64)
        return cls(tuple(map(tuple, weights.tolist())))

    def of(self, children: Integers) -> NDArray[Any]:
        """Return the weight of rows in the majority class of their child, summed over votes."""
        votes = [(children * np.array(w)).max(axis=-1).sum(axis=-1) for w in self.weights]
        return np.asarray(sum(votes))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return the sum of the largest weights: one row raises each vote by at most its weight."""
        return max_rows * sum(map(max, self.weights))


@dataclass(frozen=True)
class BalancedGain(BalancedMax):
    """Increase of the weight that three weighted majority votes classify correctly by a split.

    The `BalancedMax` score of a part grows with its rows, so parts low in a taxonomy are rarely
    split; the increase by a split does not. It may decrease when a row is added.

    Examples
    --------
    >>> score = BalancedGain.of_sizes(np.array([300, 100]))
    >>> score.of(np.array([[[150, 50], [150, 50]], [[200, 10], [100, 90]]])).tolist()
    [0, 22680]
    """

    name: ClassVar[ScoreName] = "balanced-gain"
    monotone: ClassVar[bool] = False

    def of(self, children: Integers) -> NDArray[Any]:
        """Return the `BalancedMax` score of the children minus that of the undivided part."""
        whole = children.sum(axis=-2, keepdims=True)
        return np.asarray(super().of(children) - super().of(whole))


@dataclass(frozen=True)
class InformationGain(Score):
    """Mutual information of child and class, in units of 2**-20 bit.

    Examples
    --------
    >>> gain = InformationGain().of(np.array([[4, 1], [0, 3]]))
    >>> round(float(gain) / 2**20, 5)
    0.54879
    """

    name: ClassVar[ScoreName] = "information-gain"
    monotone: ClassVar[bool] = False
    unit: ClassVar[int] = 1 << BITS
    divisible: ClassVar[bool] = False

    def of(self, children: Integers) -> NDArray[Any]:
        """Return the mutual information of child and class, rounded."""
        n = children.sum(axis=(-2, -1))
        bits = (
            _x_log_x(n)
            - _x_log_x(children.sum(axis=-1)).sum(axis=-1)
            - _x_log_x(children.sum(axis=-2)).sum(axis=-1)
            + _x_log_x(children).sum(axis=(-2, -1))
        ) / np.maximum(n, 1)
        return np.asarray(np.floor(bits * (1 << BITS) + 0.5).astype(np.int64))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return 1 bit per row, at most the range log2(classes), plus 1 for rounding."""
        return min(max_rows << BITS, _range(n_classes)) + 1

    def sensitivity_of_paper(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return the range log2(classes), whatever the number of rows, plus 1 for rounding."""
        return _range(n_classes) + 1


@dataclass(frozen=True)
class TotalVariation(Score):
    """Distance of the counts from independence of child and class, in half rows.

    This is the sum over child and class of abs(count - rows of child * rows of class / rows),
    rounded down: twice the number of rows times the total variation distance between the joint
    distribution and the product of its marginals.

    Examples
    --------
    >>> TotalVariation().of(np.array([[[4, 1], [0, 3]], [[2, 2], [2, 2]]])).tolist()
    [6, 0]
    """

    name: ClassVar[ScoreName] = "total-variation"
    monotone: ClassVar[bool] = False
    unit: ClassVar[int] = 2

    def of(self, children: Integers) -> NDArray[Any]:
        """Return the sum of absolute deviations, rounded down; exact for any number of rows."""
        n = children.sum(axis=(-2, -1))
        if np.max(n, initial=0) >= _EXACT_ROWS:
            children = children.astype(object)
            n = children.sum(axis=(-2, -1))
        product = children.sum(axis=-1)[..., :, None] * children.sum(axis=-2)[..., None, :]
        # The terms sum to at most 2 n**2, so below 2**31 rows an int64 holds them exactly.
        off = np.abs(children * np.asarray(n)[..., None, None] - product).sum(axis=(-2, -1))
        return np.asarray(off // np.maximum(n, 1))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Return 4 per row: one row changes the score by less than 4 before rounding."""
        return 4 * max_rows


BALANCED: dict[str, type[BalancedMax]] = {
    "balanced-gain": BalancedGain, "balanced-max": BalancedMax,
}  # fmt: skip
"""Scores that need the sizes of the classes."""


def make_score(name: ScoreName, class_sizes: Integers | None) -> Score:
    """Return the score of that name; the balanced ones need the published sizes of the classes."""
    if name in BALANCED:
        assert class_sizes is not None  # noqa: S101 - callers have paid for the class sizes
        return BALANCED[name].of_sizes(class_sizes)
    return {"max": Max(), "information-gain": InformationGain()}.get(name, TotalVariation())


def exponent(score: Score, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> Fraction:
    """Return eta of exp(eta u), u in the paper's unit: bits for information gain, rows for max.

    Examples
    --------
    >>> exponent(Max(), epsilon=Fraction(1, 10), sensitivity=1, monotone=False)
    Fraction(1, 20)
    """
    return epsilon * score.unit / (sensitivity * (1 if monotone else 2))


def _range(n_classes: int) -> int:
    """Bound log2(classes) from above in units of 2**-BITS, with an error of at most 2**-10 bit."""
    # (x - 1).bit_length() is ceil(log2 x), and log2(c**1024) is 1024 log2 c.
    power: int = n_classes ** (1 << 10)
    return (power - 1).bit_length() << (BITS - 10)


def _x_log_x(x: Integers) -> Floats:
    values = x.astype(np.float64)
    return np.asarray(values * np.log2(np.maximum(values, 1.0)))


_FAR = 256  # a split this many levels below the best has at most e**-256 times its weight

_CHUNK = 1 << 22  # cells of child-by-class tables that are scored at a time


CodeSet = range | frozenset[int]
"""Some codes of an attribute: an interval of a grid, or a set of values."""


class ScoredSplits(NamedTuple):
    """Runs of splits with equal scores: the score, the number of splits, and the first of them.

    The only split of a set of values into given children has the start -1.
    """

    scores: Integers
    n_ways: Integers
    starts: Integers


class ClassTable:
    """Histogram (value, class) of one attribute, prepared for splitting.

    Parameters
    ----------
    histogram : array (codes, classes)
        Counts.
    n_values : int
        Number of values. Their codes come first, then those of special values and missing.
    ordered : bool
        Whether intervals of values are split; otherwise, given sets of values are.
    begins : array of int, optional
        The only codes at which intervals may be split, if the schema declares bins.
    """

    def __init__(
        self, histogram: Integers, n_values: int, ordered: bool, begins: Integers | None = None
    ) -> None:
        self.values, self.special = histogram[:n_values], list(histogram[n_values:])
        self.begins = begins
        if ordered:
            # Occupied cells, then distinct codes: several times faster than any().
            codes = np.flatnonzero(self.values) // self.values.shape[1]
            self.occupied = codes[np.diff(codes, prepend=-1) != 0]
            self.below = np.zeros((len(self.occupied) + 1, self.values.shape[1]), np.int64)
            np.cumsum(self.values[self.occupied], axis=0, out=self.below[1:])

    def score_groups(
        self, children: Sequence[Sequence[int]], score: Score, *, with_special: bool
    ) -> ScoredSplits:
        """Score the only split of a set of values into the given children."""
        counted = [self.values[list(codes)].sum(axis=0) for codes in children]
        scores = score.of(np.stack(counted + self._rest(with_special))[None])
        one = np.ones(1, np.int64)
        return ScoredSplits(np.asarray(scores, np.int64), one, -one)

    def score_halvings(
        self,
        codes: Sequence[int],
        halves: Sequence[Sequence[int]],
        score: Score,
        *,
        with_special: bool,
    ) -> ScoredSplits:
        """Score every split of a set of values in two: one of the halves, and the rest.

        A split is identified by the position of its half.
        """
        whole = self.values[list(codes)].sum(axis=0)
        one = np.stack([self.values[list(half)].sum(axis=0) for half in halves])
        rest = [np.broadcast_to(row, one.shape) for row in self._rest(with_special)]
        scores = score.of(np.stack([one, whole - one, *rest], axis=1))
        places = np.arange(len(halves))
        return ScoredSplits(np.asarray(scores, np.int64), np.ones_like(places), places)

    def score_spans(
        self, first: int, last: int, score: Score, *, with_special: bool
    ) -> ScoredSplits:
        """Score every split of an interval of values, both ends included, in two.

        A split is identified by the first code of its right half, or by the position of that code
        in `begins`.
        """
        begin = int(np.searchsorted(self.occupied, first))
        end = int(np.searchsorted(self.occupied, last, side="right"))
        within = self.occupied[begin:end]
        # The splits of a run follow one occupied code and precede the next one.
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
            rest = [np.broadcast_to(row, left.shape) for row in self._rest(with_special)]
            scores[chunk : chunk + step] = score.of(np.stack([left, right, *rest], axis=1))
        return ScoredSplits(scores, lasts[at] - starts[at] + 1, starts[at])

    def divided(self, parts: Sequence[CodeSet]) -> list[ClassTable]:
        """Return the table for each of several disjoint parts of the values."""
        return [self] * len(parts)

    def n_splits(self, first: int, last: int) -> int:
        """Return the number of splits of an interval; public, as it follows from the schema."""
        if self.begins is None:
            return last - first
        inside_of = np.searchsorted(self.begins, [first, last], side="right")
        return int(inside_of[1] - inside_of[0])

    def _rest(self, with_special: bool) -> list[Integers]:
        return self.special if with_special else []


class SealedSplits(SealedValue):
    """Sealed splits of one part; their number is public."""

    __slots__ = ("n_in_all",)

    def __init__(
        self, inside: ScoredSplits, sensitivity: Sensitivity, part: DataPart, n_in_all: int
    ) -> None:
        super().__init__(inside, sensitivity, part)
        self.n_in_all = n_in_all


class SealedClassTable(SealedValue):
    """Sealed histogram (value, class), restricted to some codes.

    Parameters
    ----------
    unseal : ClassTable
        The counts.
    sensitivity : Sensitivity
        How much one unit changes them.
    part : DataPart
        The part of the run's account that they belong to.
    codes : range, set or None
        The codes of this part; None for all, special values and missing included.
    n_classes : int
        Number of classes.
    """

    __slots__ = ("codes", "n_classes")

    def __init__(
        self,
        inside: ClassTable,
        sensitivity: Sensitivity,
        part: DataPart,
        *,
        codes: CodeSet | None,
        n_classes: int,
    ) -> None:
        super().__init__(inside, sensitivity, part)
        self.codes, self.n_classes = codes, n_classes

    @classmethod
    def of(
        cls, histogram: SealedCounts, n_values: int, ordered: bool, begins: Integers | None = None
    ) -> SealedClassTable:
        """Prepare a histogram in which one step changes one cell by 1."""
        require_counts(histogram.sensitivity)
        table = ClassTable(unseal(histogram), n_values, ordered, begins)
        return cls(
            table, histogram.sensitivity, histogram.part, codes=None, n_classes=histogram.shape[1]
        )

    def divided(self, parts: Sequence[CodeSet]) -> list[SealedClassTable]:
        """Divide the table into disjoint parts of its codes, for parallel composition."""
        for at, codes in enumerate(parts):
            if any(_overlap(codes, other) for other in parts[:at]) or not self._has(codes):
                raise SealedError("parts of a histogram must be disjoint and contained in it.")
        made = self.part.divided(map(str, range(len(parts))))
        return [
            SealedClassTable(
                unseal(self), self.sensitivity, part, codes=codes, n_classes=self.n_classes
            )
            for part, codes in zip(made, parts, strict=True)
        ]

    def score_groups(
        self, children: Sequence[Sequence[int]], score: Score, *, with_special: bool
    ) -> SealedSplits:
        """Score the only split of a set of values into the given children."""
        self._require([frozenset(codes) for codes in children], with_special)
        _require_each_once([code for codes in children for code in codes])
        ways = unseal(self).score_groups(children, score, with_special=with_special)
        return self._sealed(ways, score, 1)

    def score_halvings(
        self,
        codes: Sequence[int],
        halves: Sequence[Sequence[int]],
        score: Score,
        *,
        with_special: bool,
    ) -> SealedSplits:
        """Score every split of a set of values in two: one of the halves, and the rest."""
        self._require([frozenset(codes)], with_special)
        if not all(frozenset(half) <= frozenset(codes) for half in halves):
            raise SealedError("each half must be a subset of the values that are split.")
        for some in (codes, *halves):
            _require_each_once(some)
        ways = unseal(self).score_halvings(codes, halves, score, with_special=with_special)
        return self._sealed(ways, score, len(halves))

    def score_spans(
        self, first: int, last: int, score: Score, *, with_special: bool
    ) -> SealedSplits:
        """Score every split of an interval of values in two."""
        self._require([range(first, last + 1)], with_special)
        ways = unseal(self).score_spans(first, last, score, with_special=with_special)
        return self._sealed(ways, score, unseal(self).n_splits(first, last))

    def _require(self, parts: Sequence[CodeSet], with_special: bool) -> None:
        if (with_special and self.codes is not None) or not all(map(self._has, parts)):
            raise SealedError("these values do not belong to this part of the histogram.")

    def _has(self, codes: CodeSet) -> bool:
        if self.codes is None:
            return True
        if isinstance(codes, range) and isinstance(self.codes, range):
            return self.codes.start <= codes.start and codes.stop <= self.codes.stop
        return frozenset(codes) <= frozenset(self.codes)

    def _sealed(self, ways: ScoredSplits, score: Score, n_in_all: int) -> SealedSplits:
        moved = score.moved(self.sensitivity, self.n_classes)
        return SealedSplits(ways, moved, self.part, n_in_all)


def _require_each_once(codes: Sequence[int]) -> None:
    """Raise `SealedError` if a value is counted twice: its rows would change a score twice."""
    if len(set(codes)) < len(codes):
        raise SealedError("a value occurs twice; each value must be in one child, once.")


def _overlap(one: CodeSet, other: CodeSet) -> bool:
    if isinstance(one, range) and isinstance(other, range):
        return one.start < other.stop and other.start < one.stop
    return not frozenset(one).isdisjoint(other)


def require_counts(sensitivity: Sensitivity) -> None:
    """Raise `SealedError` unless one step changes one count by 1, as proofs of scores assume."""
    if sensitivity.cells != 1 or sensitivity.step != 1:
        raise SealedError(
            "scores are proved for counts in which each row is counted once; these are sums or "
            "multiples of such counts."
        )


class SealedSplitsOfParts(SealedValue):
    """Sealed splits of several parts, among which one is selected."""

    __slots__ = ()

    @classmethod
    def of(cls, each: Sequence[SealedSplits]) -> SealedSplitsOfParts:
        """Combine the splits of several parts."""
        return cls([unseal(ways) for ways in each], *_together(each))

    @classmethod
    def of_one(cls, ways: SealedSplits) -> SealedSplitsOfParts:
        """Return the splits of one part as the only part to choose from.

        If there is a single split, selecting it reveals nothing.
        """
        moved = ways.sensitivity if ways.n_in_all > 1 else Sensitivity(rows=0)
        return cls([unseal(ways)], moved, ways.part)


@dataclass(frozen=True)
class _ExponentialChoice(Mechanism):
    """Exponential mechanism whose scores have the factor `eta` in the exponent.

    One unit changes the difference of any two scores by at most the sensitivity.
    """

    eta: Fraction

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return eta times the sensitivity of score differences."""
        epsilon = self.eta * sensitivity.l1
        # The range of the privacy loss is at most epsilon (Cesar and Rogers 2021).
        return PrivacyCost(epsilon, rho=epsilon**2 / 8)


@dataclass(frozen=True)
class SplitChoice(_ExponentialChoice):
    """Selection of a part and a split of it, P proportional to weight * exp(eta * score).

    This is the exponential mechanism over single splits.
    """

    weights: tuple[int, ...]  # base measure of a single split of each part; public
    # Whether runs are grouped by levels first: the same distribution, faster for many runs.
    by_levels: bool = True

    def draw(self, exact: list[ScoredSplits], noise: Noise) -> tuple[int, int]:
        """Return the position of the selected part, and the selected split."""
        draw = _draw_by_levels if self.by_levels else _draw_at_once
        which, at = draw(exact, self.weights, self.eta, noise)
        start, n_ways = int(exact[which].starts[at]), int(exact[which].n_ways[at])
        # A negative start is the only split of its part, so nothing is drawn.
        return which, start if start < 0 else start + noise.integer_below(n_ways)


class ScoreChoice(_ExponentialChoice):
    """Selection of one of several candidates, P proportional to exp(eta * score)."""

    def draw(self, exact: Scores, noise: Noise) -> int:
        """Return the position of the selected candidate."""
        if not exact.monotone:
            raise SealedError(
                "the cost covers monotone scores only: differences of these scores change by twice "
                "as much as each score. Use TopChoices."
            )
        return noise.choose(exact.values, epsilon=self.eta, sensitivity=Fraction(1), monotone=True)


def scores_of_ways(ways: Sequence[tuple[SealedSplits, int]]) -> SealedScores:
    """Return the sealed scores of splits selected earlier, one of each part."""
    values = []
    for sealed, way in ways:
        exact: ScoredSplits = unseal(sealed)
        run = int(np.searchsorted(exact.starts, way, side="right")) - 1
        values.append(int(exact.scores[run]))
    moved, part = _together([sealed for sealed, _ in ways])
    return SealedScores(Scores(values, moved.l1, True), moved, part)


def _together(each: Sequence[SealedSplits]) -> tuple[Sensitivity, DataPart]:
    """Return the largest sensitivity of several splits, and the part that contains all of them."""
    most = max((ways.sensitivity for ways in each), key=lambda sensitivity: sensitivity.l1)
    return most, reduce(DataPart.common, (ways.part for ways in each))


def _draw_at_once(
    each: Sequence[ScoredSplits], weights: Sequence[int], eta: Fraction, noise: Noise
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
    each: Sequence[ScoredSplits], weights: Sequence[int], eta: Fraction, noise: Noise
) -> tuple[int, int]:
    """Sample exactly, processing levels instead of single splits.

    With gap the distance to the best score, splits are grouped by level = floor(eta * gap), all
    beyond `_FAR` on the last one. A level of a part is drawn with weight (its weighted number of
    splits) * exp(-level), then a split on it uniformly, which is accepted with probability
    exp(-(eta * gap - level)); otherwise everything is drawn again. The product of the three is the
    required weight.
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
    # A column has fewer than 2**32 splits, so their sums are exact in double precision.
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
