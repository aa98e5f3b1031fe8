"""Count from one published column: its tuples, and what is known of records it does not show.

A column is a table of cells like any other (`CellEstimator`), but for two things:

- *Records without any value in it are not counted there*, and they may be many. A condition that
  such records may satisfy cannot be answered from the column; its opposite can.
- *Records may have been taken out of it at random*, those with values in more columns than the
  bound. Where every record has a value in every column, each is kept with the same known chance and
  answers are scaled up. Else only the least such chance is known, and the interval goes from
  everybody having been kept to everybody with that chance (`Thinning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.estimate.base import Estimate
from hushtable.estimate.error_law import ErrorLaw
from hushtable.estimate.quantiles import NORMAL
from hushtable.estimate.sums import Sums
from hushtable.methods.counts.cell_estimator import CellEstimator, Hidden, Interval
from hushtable.methods.counts.hidden_rows import HiddenRows
from hushtable.predicate import Predicate
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Schema

MANY = 10**15
"""Stands for more cells than could matter."""


Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Hold a condition on the generalized codes of some attributes, as a table of shares."""

    columns: tuple[str, ...]
    table: Floats
    domain: Domain

    def shares(self, _: object, codes: Mapping[str, Integers]) -> Floats:
        """Look cells up."""
        return np.asarray(self.table[tuple(codes[name] for name in self.columns)])

    def count(self) -> int:
        """Count the cells of the whole column that may satisfy it."""
        others = prod(size for name, size in self.domain.sizes.items() if name not in self.columns)
        return int(np.count_nonzero(self.table)) * others

    def opposite(self) -> Projection:
        """Give the condition that holds where this one does not."""
        return replace(self, table=np.asarray(1.0 - self.table))


class ColumnView(CellEstimator):
    """Answer from the tuples of one column.

    Parameters
    ----------
    schema : Schema
        The attributes of the column.
    recode : mapping of str to Recoding
        How they were made coarser.
    codes : mapping of str to array
        The published tuples.
    counts : array of int
        Their published counts.
    noise : ErrorLaw
        The noise of one count.
    suppressed : array
        The chance that a tuple of 0, 1, 2, ... records is suppressed.
    total : Interval or None
        How many records may have been counted in the column, where that is known.
    """

    where_total_is_told: ClassVar[str] = "a release with count_share"

    def __init__(
        self,
        schema: Schema,
        recode: Mapping[str, Recoding],
        *,
        codes: dict[str, Integers],
        counts: Integers,
        noise: ErrorLaw,
        suppressed: Floats,
        total: Interval | None,
    ) -> None:
        self.schema, self.recode = schema, dict(recode)
        self.domain = recoded_domain(schema, list(schema.attributes), self.recode)
        self.codes, self._published_counts = codes, counts
        self.noise, self.suppressed = noise, suppressed
        self.suppresses, self.total = True, total

    @cached_property
    def counts(self) -> Floats:
        """Published counts with the known bias of their noise taken off."""
        return self._published_counts.astype(np.float64) - self.noise.mean

    @cached_property
    def null_cell(self) -> dict[str, Integers] | None:
        """The cell of records without any value here, if there may be such records."""
        missing = {
            name: (self.recode.get(name) or column).missing_code
            for name, column in self.schema.attributes.items()
        }
        if any(code is None for code in missing.values()):
            return None
        return {name: np.array([code], np.int64) for name, code in missing.items()}

    def accepts_nothing(self, predicate: Predicate | Projection) -> bool:
        """Tell whether records without any value here may satisfy the condition."""
        if self.null_cell is None:
            return False
        return bool(predicate.shares(self.recode, self.null_cell)[0] > 0)

    @cached_property
    def hidden_rows(self) -> HiddenRows | None:
        """Where suppressed records are likely to be; None where some are not counted at all."""
        return None if self.null_cell is not None else super().hidden_rows

    def _hidden(self, predicate: Predicate, shares: Floats) -> Hidden:
        hidden = super()._hidden(predicate, shares)
        if self.null_cell is None:
            return Hidden(
                n_inside=min(hidden.n_inside, MANY),
                n_outside=min(hidden.n_outside, MANY),
                share=hidden.share,
            )
        # The records without a value are uncounted and may be many, unlike suppressed ones; how
        # many of the uncounted are suppressed cannot be told.
        inside = max(0, hidden.n_inside)
        return Hidden(n_inside=min(inside, MANY), n_outside=MANY, share=0.0)

    def marginal(self, names: tuple[str, ...], n_records: float) -> Floats:
        """Estimate how some attributes are distributed, those who have none of them included."""
        shape = self.domain.project(names).shape
        places = np.ravel_multi_index(tuple(self.codes[name] for name in names), shape)
        mass = np.bincount(places, np.maximum(self.counts, 0.0), prod(shape))
        if self.null_cell is not None:
            nothing = np.ravel_multi_index(tuple(self.null_cell[n][0] for n in names), shape)
            mass[nothing] += max(0.0, n_records - mass.sum())
        return np.asarray(mass / max(mass.sum(), 1.0)).reshape(shape)


@dataclass(frozen=True)
class Thinning:
    """Know how records were taken out of columns, and allow for it.

    Parameters
    ----------
    max_columns : int
        In how many columns a record was counted at most.
    n_columns : int
        How many columns there are.
    n_reached : int
        In how many of them a record may have values.
    all_alike : bool
        Whether every record has a value in every column.

    Examples
    --------
    >>> Thinning(max_columns=1, n_columns=4, n_reached=4, all_alike=True).least_kept
    0.25
    """

    max_columns: int
    n_columns: int
    n_reached: int
    all_alike: bool

    @property
    def least_kept(self) -> float:
        """The least chance that a record with values in a column was counted there."""
        return min(1.0, self.max_columns / self.n_reached)

    def of_total(self, total: Interval | None) -> Interval | None:
        """Say how many records one column may have counted, if there are so many in all."""
        if total is None or not self.all_alike:
            return total
        kept = self.least_kept
        spread = NORMAL * sqrt(total.high * kept * (1 - kept))
        return Interval(
            value=total.value * kept,
            low=max(0.0, total.low * kept - spread),
            high=total.high * kept + spread,
            privacy_std=total.privacy_std * kept,
        )

    def undone(self, seen: Estimate) -> Estimate:
        """Turn an answer about the records that a column counted into one about all."""
        kept = self.least_kept
        if kept == 1.0:
            return seen
        if self.all_alike:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; the answer is scaled up, and its interval allows for the chance."
            )
            value, low = seen.value / kept, _unthinned(seen.low, kept, -1)
        else:
            note = (
                f"Records with values in more than {self.max_columns} columns were counted in a "
                "random part of them; how many there are is not known, and the interval allows for "
                "none up to all."
            )
            value, low = seen.value, seen.low
        high = _unthinned(seen.high, kept, 1)
        spread = sqrt(max(seen.value, 0.0) * (1 - kept)) / kept
        unknown = 0.0 if self.all_alike else seen.value * (1 / kept - 1) / sqrt(12)
        return Estimate(
            value=float(np.clip(value, low, high)),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / kept,
            model_std=float(np.hypot(seen.model_std / kept, np.hypot(spread, unknown))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: Sums) -> Sums:
        """Do the same for sums over records; what a sum of functions from -1 to 1 may gain."""
        kept = self.least_kept
        if kept == 1.0:
            return seen
        chance = np.diag(np.abs(seen.values)) * (1 - kept)
        if self.all_alike:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; sums are scaled up, and intervals allow for the chance."
            )
            chosen = replace(seen, model=seen.model + chance, notes=(*seen.notes, note))
            return chosen.divided(kept)
        note = (
            f"Records with values in more than {self.max_columns} columns were counted in a random "
            "part of them; all are taken to be alike in what is asked."
        )
        unknown = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2 / 12
        return replace(
            seen,
            model=seen.model + chance + unknown,
            notes=(*seen.notes, note),
        )


def _unthinned(seen: float, kept: float, sign: int) -> float:
    """Give the end of the interval for n if a Binomial(n, kept) variable was seen."""
    if seen <= 0:
        return 0.0  # only a condition that nobody can satisfy has an end at 0
    spread = NORMAL * sqrt(kept * (1 - kept))
    # n kept -+ spread sqrt(n) = seen, solved for sqrt(n)
    root = (sign * spread + sqrt(spread**2 + 4 * kept * seen)) / (2 * kept)
    return root**2
