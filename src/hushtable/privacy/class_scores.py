"""How good a specialization is: integer scores with proven sensitivities.

A score looks at the counts of the children by class, an array (..., children, classes), and at
nothing else. Every score is a whole number, so that the exponential mechanism can be drawn exactly;
what rounding to whole numbers costs is part of the sensitivity. The proofs are in
``methods/diffgen/diffgen.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.privacy.spending import Sensitivity

Integers = NDArray[np.int64]
ScoreName = Literal["balanced-gain", "balanced-max", "max", "information-gain", "total-variation"]

BITS = 20
"""Information gain is rounded to multiples of 2**-20 bit."""

VOTES = (0.0, 0.5, 1.0)
"""How far each vote of balanced-max makes up for the different sizes of the classes."""

WEIGHT = 256
"""The weight of a row of the rarest class in each vote; that of other classes is lower."""

LEAST_WEIGHT = 1 / 16
"""A class counts as at most 16 times as large as the rarest one."""

_EXACT_ROWS = 2**31  # below this, 2 * rows**2 fits an int64


@dataclass(frozen=True)
class Score(ABC):
    """Value the children of a part; higher is better."""

    name: ClassVar[ScoreName]
    monotone: ClassVar[bool]
    """Whether adding a row never lowers any score."""
    unit: ClassVar[int]
    """How many points of the score make one unit of what the paper calls u."""
    divisible: ClassVar[bool] = True
    """Whether some of a unit's rows move it by no more than that part of the sensitivity."""

    def moved(self, counted: Sensitivity, n_classes: int) -> Sensitivity:
        """Say how far one unit moves any score against any other, from how far it moves counts."""
        most = self.sensitivity(n_classes=n_classes, max_rows=counted.rows)
        return Sensitivity(
            rows=1,
            step=most if self.monotone else 2 * most,
            divisible=self.divisible or counted.rows == 1,
        )

    @abstractmethod
    def of(self, children: Integers) -> NDArray[Any]:
        """Give the score of each table (children, classes): whole numbers."""

    @abstractmethod
    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Bound how far one unit, of up to `max_rows` rows, moves a score."""

    def sensitivity_of_paper(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Give the sensitivity as the paper prints it; never below the true one."""
        return self.sensitivity(n_classes=n_classes, max_rows=max_rows)


@dataclass(frozen=True)
class Max(Score):
    """Add up the largest class of each child: the rows that a majority vote gets right.

    Examples
    --------
    >>> Max().of(np.array([[[4, 1], [0, 3]], [[2, 2], [2, 2]]])).tolist()
    [7, 4]
    """

    name: ClassVar[ScoreName] = "max"
    monotone: ClassVar[bool] = True
    unit: ClassVar[int] = 1

    def of(self, children: Integers) -> NDArray[Any]:
        """Give the rows in the majority of their child."""
        return np.asarray(children.max(axis=-1).sum(axis=-1))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """One row raises it by 0 or 1."""
        return max_rows


@dataclass(frozen=True)
class BalancedMax(Score):
    """Add up what three weighted majority votes in each child get right.

    Where one class is much larger, it has the majority nearly everywhere and `Max` cannot tell
    attributes apart. Here the classes vote with their size, with equal total weight, and halfway.

    Parameters
    ----------
    weights : tuple of tuples of int
        Weight of a row in each vote by its class; public.

    Examples
    --------
    >>> score = BalancedMax.of_sizes(np.array([300, 100]))
    >>> score.weights
    ((256, 256), (148, 256), (85, 256))
    >>> apart, alike = np.array([[200, 10], [100, 90]]), np.array([[150, 50], [150, 50]])
    >>> (score.of(apart) > score.of(alike)).item(), (Max().of(apart) > Max().of(alike)).item()
    (True, False)
    """

    name: ClassVar[ScoreName] = "balanced-max"
    monotone: ClassVar[bool] = True
    unit: ClassVar[int] = len(VOTES) * WEIGHT

    weights: tuple[tuple[int, ...], ...]

    @classmethod
    def of_sizes(cls, sizes: Integers) -> Self:
        """Make the weights from the sizes of the classes as they were published."""
        positive = np.maximum(sizes, 1).astype(np.float64)
        share = np.maximum(positive.min() / positive, LEAST_WEIGHT)
        weights = np.rint(WEIGHT * share[None] ** np.array(VOTES)[:, None]).astype(np.int64)
        return cls(tuple(map(tuple, weights.tolist())))

    def of(self, children: Integers) -> NDArray[Any]:
        """Give the weighted rows in the majority of their child, over all votes."""
        votes = [(children * np.array(w)).max(axis=-1).sum(axis=-1) for w in self.weights]
        return np.asarray(sum(votes))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """One row raises each vote by 0 up to its weight."""
        return max_rows * sum(map(max, self.weights))


@dataclass(frozen=True)
class BalancedGain(BalancedMax):
    """Say how much more three weighted majority votes get right after a split than before it.

    What `BalancedMax` gives a part grows with its rows, so parts low in a taxonomy are hardly ever
    split; what is gained by splitting does not. It may fall when a row is added.

    Examples
    --------
    >>> score = BalancedGain.of_sizes(np.array([300, 100]))
    >>> score.of(np.array([[[150, 50], [150, 50]], [[200, 10], [100, 90]]])).tolist()
    [0, 22680]
    """

    name: ClassVar[ScoreName] = "balanced-gain"
    monotone: ClassVar[bool] = False

    def of(self, children: Integers) -> NDArray[Any]:
        """Give the weighted rows in the majority of their child, less those of the whole part."""
        whole = children.sum(axis=-2, keepdims=True)
        return np.asarray(super().of(children) - super().of(whole))


@dataclass(frozen=True)
class InformationGain(Score):
    """Say how many bits the child tells about the class, in units of 2**-20 bit.

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
        """Give the mutual information of child and class, rounded."""
        n = children.sum(axis=(-2, -1))
        bits = (
            _x_log_x(n)
            - _x_log_x(children.sum(axis=-1)).sum(axis=-1)
            - _x_log_x(children.sum(axis=-2)).sum(axis=-1)
            + _x_log_x(children).sum(axis=(-2, -1))
        ) / np.maximum(n, 1)
        return np.asarray(np.floor(bits * (1 << BITS) + 0.5).astype(np.int64))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """One row moves it by at most 1 bit; it never leaves 0 to log2(classes); 1 for rounding."""
        return min(max_rows << BITS, _range(n_classes)) + 1

    def sensitivity_of_paper(self, *, n_classes: int, max_rows: int = 1) -> int:
        """Its range, log2(classes), whatever the number of rows; 1 for rounding."""
        return _range(n_classes) + 1


@dataclass(frozen=True)
class TotalVariation(Score):
    """Say how many rows, times two, are off what independence of child and class would give.

    It is the sum over child and class of abs(count - rows of child * rows of class / rows), rounded
    down: twice the number of rows times the total variation distance between the joint
    distribution and the product of its margins.

    Examples
    --------
    >>> TotalVariation().of(np.array([[[4, 1], [0, 3]], [[2, 2], [2, 2]]])).tolist()
    [6, 0]
    """

    name: ClassVar[ScoreName] = "total-variation"
    monotone: ClassVar[bool] = False
    unit: ClassVar[int] = 2

    def of(self, children: Integers) -> NDArray[Any]:
        """Give the sum of absolute deviations, rounded down; exact for any number of rows."""
        n = children.sum(axis=(-2, -1))
        if np.max(n, initial=0) >= _EXACT_ROWS:
            children = children.astype(object)
            n = children.sum(axis=(-2, -1))
        product = children.sum(axis=-1)[..., :, None] * children.sum(axis=-2)[..., None, :]
        # The terms add up to at most 2 n**2, so below 2**31 rows an int64 holds them exactly.
        off = np.abs(children * np.asarray(n)[..., None, None] - product).sum(axis=(-2, -1))
        return np.asarray(off // np.maximum(n, 1))

    def sensitivity(self, *, n_classes: int, max_rows: int = 1) -> int:
        """One row moves it by less than 4 before, so by at most 4 after rounding."""
        return 4 * max_rows


BALANCED: dict[str, type[BalancedMax]] = {
    "balanced-gain": BalancedGain, "balanced-max": BalancedMax,
}  # fmt: skip
"""Scores that need the sizes of the classes."""


def make_score(name: ScoreName, class_sizes: Integers | None) -> Score:
    """Make the score of that name; the balanced ones need the published sizes of the classes."""
    if name in BALANCED:
        assert class_sizes is not None  # noqa: S101 - whoever asks for it pays for them
        return BALANCED[name].of_sizes(class_sizes)
    return {"max": Max(), "information-gain": InformationGain()}.get(name, TotalVariation())


def exponent(score: Score, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> Fraction:
    """Give eta of exp(eta u), u in the paper's unit: bits for information gain, rows for max.

    Examples
    --------
    >>> exponent(Max(), epsilon=Fraction(1, 10), sensitivity=1, monotone=False)
    Fraction(1, 20)
    """
    return epsilon * score.unit / (sensitivity * (1 if monotone else 2))


def _range(n_classes: int) -> int:
    """Bound log2(classes) from above in units of 2**-BITS: 2**-10 bit too high at most."""
    # (x - 1).bit_length() is ceil(log2 x), and log2(c**1024) is 1024 log2 c.
    power: int = n_classes ** (1 << 10)
    return (power - 1).bit_length() << (BITS - 10)


def _x_log_x(x: Integers) -> NDArray[np.float64]:
    values = x.astype(np.float64)
    return np.asarray(values * np.log2(np.maximum(values, 1.0)))
