"""Scores of specializations: integers with proven sensitivities.

A score depends only on the counts of the children by class, an array (..., children, classes).
Scores are integers, so that the exponential mechanism can be sampled exactly; the sensitivity
includes the rounding. The proofs are in ``methods/diffgen/diffgen.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Integers
from hushtable.privacy.accounting.sensitivity import Sensitivity

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
    """True if a fraction of a unit's rows changes it by at most that fraction of the bound."""

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
        """Return the sensitivity printed in the paper; never below the true one."""
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


def _x_log_x(x: Integers) -> NDArray[np.float64]:
    values = x.astype(np.float64)
    return np.asarray(values * np.log2(np.maximum(values, 1.0)))
