"""Sensitivity of counts and cost of a query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from hushtable.arrays import Floats

_NOTHING = Fraction(0)

_MAX_VECTORS = 1000  # changes by one row that are compared to find the largest
_MAX_COMBINED = 20_000


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
    norms : tuple of int, optional
        Bounds of the L1 norm and of the squared L2 norm of a step, if these are smaller than
        ``cells * step`` and ``cells * step**2``.

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
    norms: tuple[int, int] | None = None

    @property
    def _of_step(self) -> tuple[int, int]:
        """Bounds of the L1 norm and of the squared L2 norm of a step."""
        return self.norms or (self.cells * self.step, self.cells * self.step**2)

    @property
    def l1(self) -> int:
        """Bound of the sum of absolute changes."""
        return self.rows * self._of_step[0]

    @property
    def l2_squared(self) -> int:
        """Bound of the sum of squared changes (each step is a vector of bounded length)."""
        return self.rows**2 * self._of_step[1]

    @property
    def most(self) -> int:
        """Bound of the change of a single count."""
        return self.rows * self.step

    def merged(self) -> Sensitivity:
        """Return the sensitivity of disjoint sums: one may contain all cells of a step."""
        return replace(self, cells=1, step=self._of_step[0], norms=None)

    def times(self, factor: int) -> Sensitivity:
        """Return the sensitivity of a multiple."""
        l1, l2_squared = self._of_step
        norms = None if self.norms is None else (l1 * abs(factor), l2_squared * factor**2)
        return replace(self, step=self.step * abs(factor), norms=norms)

    def plus(self, other: Sensitivity) -> Sensitivity:
        """Return the sensitivity of the sum or difference of two sealed values."""
        return Sensitivity(
            rows=max(self.rows, other.rows),
            step=self._of_step[0] + other._of_step[0],
            exchanged=self.exchanged,
            divisible=self.divisible and other.divisible,
        )

    def of_sums(
        self, functions: Sequence[Mapping[str, Floats]], sizes: Mapping[str, int], scale: int
    ) -> Sensitivity:
        """Return the sensitivity of sums of `scale` times functions of a row, each rounded.

        `self` is that of a table. A function is a product of factors of single columns, given by
        code; `sizes` has the number of codes of all columns, and a row may have any of them. All
        norms increase with the absolute value of each factor, so only codes matter whose factors
        are not all at most those of another code. If these have too many combinations, the largest
        factors of a column are combined instead, which are no smaller.

        Examples
        --------
        >>> import numpy as np
        >>> half = {"x": np.array([0.5, -1.0])}
        >>> moved = Sensitivity(rows=1).of_sums([half, {}], {"x": 2}, 100)
        >>> moved.l1, moved.l2_squared, moved.most
        (202, 20736, 102)
        """
        import numpy as np  # noqa: PLC0415 - a ledger needs no NumPy

        n, found = len(functions), np.ones((1, len(functions)))
        for name, size in sizes.items():
            factors = [one.get(name) for one in functions]
            distinct = {id(factor): factor for factor in factors}
            known = [np.ones(size) if one is None else np.abs(one) for one in distinct.values()]
            own = _largest(np.stack(known, axis=1))
            own = own[:, [list(distinct).index(id(factor)) for factor in factors]]
            if len(found) * len(own) > _MAX_COMBINED:
                own = own.max(axis=0)[None]
            found = _largest((found[:, None] * own).reshape(-1, n))
        # Each number is rounded by at most a half; one more covers rounding errors of floats.
        l1 = math.ceil(scale * float(found.sum(axis=1).max()) + n / 2) + 1
        l2 = math.ceil(scale * float((found**2).sum(axis=1).max()) ** 0.5 + n**0.5 / 2) + 1
        most = math.ceil(scale * float(found.max()) + 0.5) + 1
        return replace(self, rows=self.l1, cells=n, step=most, norms=(l1, l2**2))

    def of_one_row(self) -> Sensitivity:
        """Return the sensitivity to a single step."""
        return replace(self, rows=1)


def _largest(vectors: Floats) -> Floats:
    """Return the vectors that no other one exceeds in every entry; if they are many, a bound."""
    left = vectors
    found: list[Floats] = []
    while len(left) and len(found) < _MAX_VECTORS:
        found.append(left[left.sum(axis=1).argmax()][None])
        left = left[(left > found[-1]).any(axis=1)]
    if len(left):
        found = [vectors.max(axis=0)[None]]
    import numpy as np  # noqa: PLC0415 - a ledger needs no NumPy

    return np.concatenate(found)


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
