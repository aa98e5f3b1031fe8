"""Sensitivity of counts and cost of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)  # without slots, its __dict__ could be changed
class Sensitivity:
    """Bound on how much one unit changes counts: in `rows` steps of up to `cells` counts each.

    Parameters
    ----------
    rows : int
        Steps from a table without the unit to one with it, such as a person's rows.
    cells : int
        Number of counts that one step changes.
    step : int
        Amount by which a step changes each of them.
    exchanged : bool
        Whether neighbors differ in one unit replaced by another, so that the number of rows is
        public. Half of the steps then remove rows.
    divisible : bool
        Whether a fraction of the steps changes counts by at most that fraction of the bounds.

    Examples
    --------
    >>> three_rows = Sensitivity(rows=3)
    >>> three_rows.l1, three_rows.l2_squared
    (3, 9)
    >>> Sensitivity(rows=1, cells=4).l2_squared, Sensitivity(rows=1, cells=4).merged().l2_squared
    (4, 16)
    """

    rows: int
    cells: int = 1
    step: int = 1
    exchanged: bool = False
    divisible: bool = True

    @property
    def l1(self) -> int:
        """Bound of the sum of absolute changes."""
        return self.rows * self.cells * self.step

    @property
    def l2_squared(self) -> int:
        """Bound of the sum of squared changes (each step is a vector of bounded length)."""
        return (self.rows * self.step) ** 2 * self.cells

    @property
    def most(self) -> int:
        """Bound of the change of a single count."""
        return self.rows * self.step

    def merged(self) -> Sensitivity:
        """Return the sensitivity of disjoint sums: one may contain all cells of a step."""
        return replace(self, cells=1, step=self.cells * self.step)

    def times(self, factor: int) -> Sensitivity:
        """Return the sensitivity of a multiple."""
        return replace(self, step=self.step * abs(factor))

    def plus(self, other: Sensitivity) -> Sensitivity:
        """Return the sensitivity of the sum or difference of two sealed values."""
        return Sensitivity(
            rows=max(self.rows, other.rows),
            step=self.cells * self.step + other.cells * other.step,
            exchanged=self.exchanged,
            divisible=self.divisible and other.divisible,
        )

    def of_one_row(self) -> Sensitivity:
        """Return the sensitivity to a single step."""
        return replace(self, rows=1)


@dataclass(frozen=True)
class PrivacyCost:
    """Privacy cost of one query, in each definition for which it is known."""

    epsilon: Fraction | None = None  # with delta: the query is (epsilon, delta)-DP
    delta: Fraction = _NOTHING
    rho: Fraction | None = None  # the query is rho-zCDP
    mu_squared: Fraction | None = None  # the query is mu-GDP

    @classmethod
    def pure(cls, epsilon: Fraction) -> Self:
        """Return the cost of an epsilon-DP query, which is also epsilon**2/2-zCDP."""
        return cls(epsilon, rho=epsilon**2 / 2)
