"""Budget of a quilt run, and the only code that opens its counts; proofs are in ``quilt.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from hushtable.arrays import Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import Refused
from hushtable.methods.quilt.particles import Group
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR, gaussian_share
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import TopChoices, distance_scores
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.recoding import Recoding

STEPS = (16, 8, 4)
"""Cells of a column at its coarser resolutions, without missing."""


_GRID = 2**32  # shares are multiples of 1 / _GRID

Accounting = Literal["pure", "concentrated", "gaussian"]
"""Quantity that composes: epsilon, rho of zCDP, or mu**2/2 of Gaussian differential privacy."""


def budget_of(epsilon: Fraction, delta: Fraction, accounting: Accounting) -> Fraction:
    """Return the largest budget that implies (epsilon, delta), in the units of `accounting`.

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
    """Round a float down to a fraction with denominator 2**32."""
    return Fraction(math.floor(value * _GRID), _GRID)


@dataclass(frozen=True)
class TableNoise:
    """Noise of the cells of one table.

    Laplace noise is discrete ("pure"), Gaussian noise discrete ("concentrated") or rounded
    ("gaussian").
    """

    accounting: Accounting
    parameter: Fraction  # variance of the Gaussian, or scale of the Laplace distribution

    @property
    def pure(self) -> bool:
        """True if it is Laplace noise."""
        return self.accounting == "pure"

    @property
    def std(self) -> float:
        """Standard deviation of one count, practically exact for variances of at least 1."""
        return self.law.std

    @property
    def law(self) -> Laplace | Gaussian | RoundedGaussian:
        """The noise distribution."""
        if self.accounting == "concentrated":
            return Gaussian(self.parameter)
        return Laplace(self.parameter) if self.pure else RoundedGaussian(self.parameter)


@dataclass
class BudgetFilter:
    """Privacy filter of one run: it pays shares of the budget, in fractions, and never exceeds it.

    A share s of the budget pays for noisy counts of cost s * total, or for a selection.

    Examples
    --------
    >>> budget = BudgetFilter(total=Fraction(1, 50), accounting="concentrated", rows_per_unit=1)
    >>> budget.count_noise(Fraction(1, 4)).parameter  # 1 / (2 * 1/50 * 1/4)
    Fraction(100, 1)
    >>> budget.pay("one", Fraction(3, 4))
    >>> budget.pay("two", Fraction(3, 4))
    Traceback (most recent call last):
    ...
    hushtable.errors.Refused: two needs 3/4 of the budget, but only 1/4 is left.
    """

    total: Fraction  # see `budget_of`
    accounting: Accounting
    rows_per_unit: int  # rows per unit: every sensitivity is a multiple of it
    payments: dict[str, Fraction] = field(default_factory=dict)  # by step

    @property
    def pure(self) -> bool:
        """True if epsilon itself composes."""
        return self.accounting == "pure"

    @property
    def left(self) -> Fraction:
        """Share of the budget that is not spent."""
        return 1 - sum(self.payments.values(), Fraction(0))

    def pay(self, step: str, share: Fraction) -> None:
        """Record a payment; raise `Refused` if it exceeds what is left."""
        if share <= 0 or share > self.left:
            raise Refused(f"{step} needs {share} of the budget, but only {self.left} is left.")
        self.payments[step] = self.payments.get(step, Fraction(0)) + share

    def spent(self) -> dict[str, Fraction]:
        """Return the payments by step."""
        return dict(self.payments)

    def count_noise(self, share: Fraction) -> TableNoise:
        """Return the noise of a table paid with a share, rounded up to a simple fraction."""
        spend = share * self.total
        exact = self.rows_per_unit / spend if self.pure else self.rows_per_unit**2 / (2 * spend)
        # Sampling is faster for simple fractions, and rounding up only adds privacy.
        grid = 1 if exact > 1000 else 64
        return TableNoise(self.accounting, Fraction(math.ceil(exact * grid), grid))

    def choice_epsilon(self, share: Fraction) -> Fraction:
        """Return the epsilon of one exponential mechanism paid with a share, rounded down.

        In pure mode, it is the share times the budget. Otherwise it is the largest e with e**2 / 8
        at most the share's rho, or with pi/16 e**2 at most its mu**2 / 2.
        """
        spend = share * self.total
        if self.pure:
            return spend
        of_one = Fraction(1, 8) if self.accounting == "concentrated" else CHOICE_FACTOR / 2
        return Fraction(math.isqrt(math.floor(spend / of_one * _GRID**2)), _GRID)


@dataclass(frozen=True)
class NoisyTable:
    """A noisy table that was paid for; public."""

    group: Group
    counts: Integers
    noise: TableNoise


class PrivateMeasurer:
    """Sealed counts that are opened only as noisy tables and private selections, each paid first.

    The shares paid from the budget determine the noise. The noise layer records the actual cost in
    the account of the run, from the noise and from the sensitivity of the counts.

    Parameters
    ----------
    source : SealedTable
        The sealed private table.
    noise : Noise
        Noise source, which opens sealed counts.
    budget : BudgetFilter
        Budget of the run.
    """

    def __init__(self, source: SealedTable, noise: Noise, budget: BudgetFilter) -> None:
        self.budget = budget
        self._source, self._noise = source, noise
        self._names = list(source.schema.attributes)
        self._sealed: dict[Group, SealedCounts] = {}

    def read(self, groups: Sequence[Group], recode: Mapping[str, Recoding]) -> None:
        """Count groups of columns; the counts stay sealed."""
        if not groups:
            return
        named = [[self._names[column] for column in group] for group in groups]
        tables = self._source.marginals(named, recode=recode)
        self._sealed.update(zip(groups, (table.ravel() for table in tables), strict=True))

    def row_count(self, share: Fraction) -> NoisyTable:
        """Measure the number of rows."""
        rows = next(iter(self._sealed.values())).sum().reshape(1)
        return self._paid("number of rows", (), rows, share)

    def measure(
        self, step: str, group: Group, share: Fraction, cells: Integers | None = None
    ) -> NoisyTable:
        """Measure a noisy table at a public resolution; one row changes one of its cells by 1."""
        return self._paid(step, group, self._counts(group, cells), share)

    def _paid(self, step: str, group: Group, counts: SealedCounts, share: Fraction) -> NoisyTable:
        self.budget.pay(step, share)
        count_noise = self.budget.count_noise(share)
        return NoisyTable(group, self._noise.open(counts, count_noise.law, step), count_noise)

    def _counts(self, group: Group, cells: Integers | None) -> SealedCounts:
        """Return sealed counts, merged to cells; a row still counts in exactly one cell."""
        sealed = self._sealed[group]
        return sealed if cells is None else sealed.merged(cells, int(cells.max()) + 1)

    def choose(
        self,
        step: str,
        candidates: Sequence[ScoredTable],
        *,
        k: int,
        share: Fraction,
        may_stop: bool = False,
    ) -> list[int]:
        """Select k candidates with high scores, one after the other, each for `share`.

        The score of a candidate is weight * (sum over cells of abs(exact - expected) - penalty).
        With `may_stop`, the result may be empty: stopping is an option with score 0. When a
        candidate is selected, all candidates with the same columns are removed.
        """
        self.budget.pay(step, k * share)
        scores = distance_scores(
            [self._counts(candidate.group, candidate.cells) for candidate in candidates],
            [candidate.expected for candidate in candidates],
            weights=[candidate.weight for candidate in candidates],
            penalties=[candidate.penalty for candidate in candidates],
            beside=[0] if may_stop else [],
        )
        # Permute-and-flip has smaller error for the same epsilon, but the other accountings bound
        # the range of the exponential mechanism's privacy loss, and that of permute-and-flip is
        # wider.
        choice = TopChoices(
            self.budget.choice_epsilon(share), k,
            "permute-and-flip" if self.budget.pure else "exponential",
            exclusive_groups=tuple(candidate.group for candidate in candidates),
        )  # fmt: skip
        chosen: list[int] = self._noise.open(scores, choice, step)
        return chosen


@dataclass(frozen=True)
class ScoredTable:
    """A table that may be measured next; all fields are functions of public values."""

    group: Group
    expected: Integers  # the model's counts, rounded
    penalty: int  # noise of its measurement, in the units of the score
    weight: int  # importance of its error
    cells: Integers | None = None  # cell of each combination of values, if the table is coarser

    def __post_init__(self) -> None:
        if self.expected.dtype != np.int64:
            raise TypeError(f"expected counts are {self.expected.dtype}; they must be int64")


def score_sensitivity(candidates: Sequence[ScoredTable], rows_per_unit: int) -> int:
    """Return a bound on the change of any score by one unit: its rows times the largest weight."""
    return rows_per_unit * max(candidate.weight for candidate in candidates)
