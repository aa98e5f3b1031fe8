"""What quilt spends, and the one place that opens its counts; proofs are in ``quilt.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from hushtable.engine.sealed import SealedTable
from hushtable.errors import Refused
from hushtable.methods.quilt.domains import Integers
from hushtable.methods.quilt.particles import Group
from hushtable.privacy.choices import TopChoices, distance_scores
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR, gaussian_share
from hushtable.privacy.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed
from hushtable.recoding import Recoding

_GRID = 2**32  # shares are multiples of 1 / _GRID

Accounting = Literal["pure", "concentrated", "gaussian"]
"""What is added up: epsilon, the rho of zero-concentrated, or mu**2/2 of Gaussian privacy."""


def budget_of(epsilon: Fraction, delta: Fraction, accounting: Accounting) -> Fraction:
    """Give what may be spent in all so that epsilon and delta hold, as it is added up.

    Examples
    --------
    >>> one, millionth = Fraction(1), Fraction(1, 10**6)
    >>> round(float(budget_of(one, millionth, "concentrated")), 4)
    0.0244
    >>> round(float(budget_of(one, millionth, "gaussian")), 4)
    0.028
    """
    if accounting == "pure":
        return epsilon
    if accounting == "concentrated":
        return concentrated_share(epsilon, delta)
    return gaussian_share(epsilon, delta) ** 2 / 2


def as_share(value: float) -> Fraction:
    """Turn a share that floats computed into a fraction that does not exceed it."""
    return Fraction(math.floor(value * _GRID), _GRID)


@dataclass(frozen=True)
class TableMechanism:
    """Noise for the cells of one table.

    Parameters
    ----------
    accounting : {"pure", "concentrated", "gaussian"}
        What its price is counted in. It is discrete Laplace noise, discrete Gaussian noise, or
        Gaussian noise that is rounded.
    parameter : Fraction
        The variance of the Gaussian, or the scale of the Laplace distribution.
    """

    accounting: Accounting
    parameter: Fraction

    @property
    def pure(self) -> bool:
        """Whether it is Laplace noise."""
        return self.accounting == "pure"

    @property
    def std(self) -> float:
        """Standard deviation of one count, as good as exact for variances of one and more."""
        return self.law.std

    @property
    def law(self) -> Laplace | Gaussian | RoundedGaussian:
        """The noise itself."""
        if self.accounting == "concentrated":
            return Gaussian(self.parameter)
        return Laplace(self.parameter) if self.pure else RoundedGaussian(self.parameter)


@dataclass
class Purse:
    """Hold the budget of one run and pay shares that never exceed it: a filter in fractions.

    A share s of the whole buys counts of s * total, or a choice.

    Parameters
    ----------
    total : Fraction
        What may be spent, see `budget_of`.
    accounting : {"pure", "concentrated", "gaussian"}
        What that is: epsilon, rho, or mu**2/2.
    reach : int
        Rows of one unit: every sensitivity is a multiple of it.

    Examples
    --------
    >>> purse = Purse(total=Fraction(1, 50), accounting="concentrated", reach=1)
    >>> purse.count_noise(Fraction(1, 4)).parameter  # 1 / (2 * 1/50 * 1/4)
    Fraction(100, 1)
    >>> purse.pay("one", Fraction(3, 4))
    >>> purse.pay("two", Fraction(3, 4))
    Traceback (most recent call last):
    ...
    hushtable.errors.Refused: two asks for 3/4 of the budget, and 1/4 is left.
    """

    total: Fraction
    accounting: Accounting
    reach: int
    payments: dict[str, Fraction] = field(default_factory=dict)  # by step

    @property
    def pure(self) -> bool:
        """Whether epsilon itself is added up."""
        return self.accounting == "pure"

    @property
    def left(self) -> Fraction:
        """What is not spent yet."""
        return 1 - sum(self.payments.values(), Fraction(0))

    def pay(self, step: str, share: Fraction) -> None:
        """Record spending, or refuse it."""
        if share <= 0 or share > self.left:
            raise Refused(f"{step} asks for {share} of the budget, and {self.left} is left.")
        self.payments[step] = self.payments.get(step, Fraction(0)) + share

    def spent(self) -> dict[str, Fraction]:
        """Give the payments by step."""
        return dict(self.payments)

    def count_noise(self, share: Fraction) -> TableMechanism:
        """Give the noise that a share buys for a table, rounded up to a simple number."""
        spend = share * self.total
        exact = self.reach / spend if self.pure else self.reach**2 / (2 * spend)
        # Simple fractions are drawn from quickly, and rounding up only adds privacy.
        grid = 1 if exact > 1000 else 64
        return TableMechanism(self.accounting, Fraction(math.ceil(exact * grid), grid))

    def choice_epsilon(self, share: Fraction) -> Fraction:
        """Give the epsilon of one exponential mechanism that a share buys, rounded down.

        In pure mode that is the share itself. Otherwise e with e**2 / 8 at most the share's rho,
        or with pi/16 e**2 at most its mu**2 / 2.
        """
        spend = share * self.total
        if self.pure:
            return spend
        of_one = Fraction(1, 8) if self.accounting == "concentrated" else CHOICE_FACTOR / 2
        return Fraction(math.isqrt(math.floor(spend / of_one * _GRID**2)), _GRID)


@dataclass(frozen=True)
class PaidTable:
    """A noisy table, paid for: public."""

    group: Group
    counts: Integers
    noise: TableMechanism


class Meter:
    """Hold sealed counts, and let out only noisy tables and private choices, each paid first.

    The shares of the purse say how much noise there is; what it costs is booked in the account of
    the run by the noise layer, from the noise and from how far one unit moves the counts.

    Parameters
    ----------
    source : SealedTable
        Where counts come from, sealed.
    noise : Noise
        What protects and opens them.
    purse : Purse
        What may be spent.
    """

    def __init__(self, source: SealedTable, noise: Noise, purse: Purse) -> None:
        self.purse = purse
        self._source, self._noise = source, noise
        self._names = list(source.schema.attributes)
        self._sealed: dict[Group, Sealed] = {}

    def read(self, groups: Sequence[Group], recode: Mapping[str, Recoding]) -> None:
        """Have groups of columns counted."""
        if not groups:
            return
        named = [[self._names[column] for column in group] for group in groups]
        tables = self._source.marginals(named, recode=recode)
        self._sealed.update(zip(groups, (table.ravel() for table in tables), strict=True))

    def row_count(self, share: Fraction) -> PaidTable:
        """Give a noisy number of rows."""
        rows = next(iter(self._sealed.values())).sum().reshape(1)
        return self._paid("number of rows", (), rows, share)

    def measure(
        self, step: str, group: Group, share: Fraction, cells: Integers | None = None
    ) -> PaidTable:
        """Give a noisy table, at a public resolution; one row changes one of its cells by one."""
        return self._paid(step, group, self._counts(group, cells), share)

    def _paid(self, step: str, group: Group, counts: Sealed, share: Fraction) -> PaidTable:
        self.purse.pay(step, share)
        count_noise = self.purse.count_noise(share)
        return PaidTable(group, self._noise.open(counts, count_noise.law, step), count_noise)

    def _counts(self, group: Group, cells: Integers | None) -> Sealed:
        """Add counts up to cells: a row that was in one place still is."""
        sealed = self._sealed[group]
        return sealed if cells is None else sealed.merged(cells, int(cells.max()) + 1)

    def choose(
        self,
        step: str,
        candidates: Sequence[Candidate],
        *,
        k: int,
        share: Fraction,
        may_stop: bool = False,
    ) -> list[int]:
        """Choose k candidates of high score, one after the other, each for `share`.

        The score of a candidate is weight * (sum over cells of abs(exact - expected) - penalty).
        With `may_stop`, an empty answer is possible: the choice to stop, of score 0. A candidate
        that was chosen leaves with all others of the same columns.
        """
        self.purse.pay(step, k * share)
        scores = distance_scores(
            [self._counts(candidate.group, candidate.cells) for candidate in candidates],
            [candidate.expected for candidate in candidates],
            weights=[candidate.weight for candidate in candidates],
            penalties=[candidate.penalty for candidate in candidates],
            beside=[0] if may_stop else [],
        )
        # Permute-and-flip errs less for the same epsilon, but its range is wider than what the
        # other ways of accounting take.
        choice = TopChoices(
            self.purse.choice_epsilon(share), k,
            "permute-and-flip" if self.purse.pure else "exponential",
            alike=tuple(candidate.group for candidate in candidates),
        )  # fmt: skip
        chosen: list[int] = self._noise.open(scores, choice, step)
        return chosen


@dataclass(frozen=True)
class Candidate:
    """A table that may be measured next; all of it follows from what is public by then.

    Parameters
    ----------
    group : tuple of int
        Its columns.
    expected : array of int
        The model's counts, rounded to whole numbers.
    penalty : int
        What measuring it would bring in noise.
    weight : int
        How much its error matters.
    cells : array of int, optional
        The cell of each combination of values, where the table is coarser than what was counted.
    """

    group: Group
    expected: Integers
    penalty: int
    weight: int
    cells: Integers | None = None

    def __post_init__(self) -> None:
        if self.expected.dtype != np.int64:
            raise TypeError(f"expected counts are {self.expected.dtype}; they must be int64")


def sensitivity(candidates: Sequence[Candidate], reach: int) -> int:
    """Bound how much one unit changes any score: its rows times the largest weight."""
    return reach * max(candidate.weight for candidate in candidates)
