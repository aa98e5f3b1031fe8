"""Estimator of one published column, with records that the column does not show.

A column is a table of cells (`CellEstimator`) with two differences:

- *Records without any value in it are not counted there*, and they may be many. The column cannot
  answer a condition that such records may satisfy, but it can answer the opposite.
- *Records may have been left out at random*: those with values in more columns than the limit. If
  every record has a value in every column, each is included with the same known probability, and
  answers are scaled up. Otherwise only the smallest such probability is known, and the interval
  ranges from all records included to all with that probability (`Thinning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt
from typing import ClassVar

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.domain import Domain
from hushtable.methods.counts.cell_estimator import CellEstimator, NumberInterval, SuppressedShare
from hushtable.methods.counts.hidden_rows import HiddenRows
from hushtable.numeric import NORMAL
from hushtable.query.answers.error_law import ErrorLaw
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.sums import SumEstimates
from hushtable.query.where import Predicate
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, recoded_domain

MANY = 10**15
"""Upper limit of cell counts; larger numbers are treated as unbounded."""


@dataclass(frozen=True)
class Projection:
    """A condition on the generalized codes of some attributes, as a table of shares."""

    columns: tuple[str, ...]
    table: Floats
    domain: Domain

    def shares(self, _: object, codes: Mapping[str, Integers]) -> Floats:
        """Return the share of each cell."""
        return np.asarray(self.table[tuple(codes[name] for name in self.columns)])

    def count(self) -> int:
        """Count the cells of the whole column that may satisfy the condition."""
        others = prod(size for name, size in self.domain.sizes.items() if name not in self.columns)
        return int(np.count_nonzero(self.table)) * others

    def opposite(self) -> Projection:
        """Return the negated condition."""
        return replace(self, table=np.asarray(1.0 - self.table))


class ColumnView(CellEstimator):
    """Answer from the tuples of one column.

    `codes` and `counts` are the published tuples and their counts; `suppressed` is the probability
    that a tuple of 0, 1, 2, ... records is suppressed; `total` is the number of records that may
    have been counted in the column, if known.
    """

    total_is_published: ClassVar[str] = "a release with count_share"

    def __init__(
        self,
        schema: Schema,
        recode: Mapping[str, Recoding],
        *,
        codes: dict[str, Integers],
        counts: Integers,
        noise: ErrorLaw,
        suppressed: Floats,
        total: NumberInterval | None,
    ) -> None:
        self.schema, self.recode = schema, dict(recode)
        self.domain = recoded_domain(schema, list(schema.attributes), self.recode)
        self.codes, self._published_counts = codes, counts
        self.noise, self.suppressed = noise, suppressed
        self.suppresses, self.total = True, total

    @cached_property
    def counts(self) -> Floats:
        """Published counts minus the known bias of their noise."""
        return self._published_counts.astype(np.float64) - self.noise.mean

    @cached_property
    def null_cell(self) -> dict[str, Integers] | None:
        """Cell of records without any value here; None if there are no such records."""
        missing = {
            name: (self.recode.get(name) or column).missing_code
            for name, column in self.schema.attributes.items()
        }
        if any(code is None for code in missing.values()):
            return None
        return {name: np.array([code], np.int64) for name, code in missing.items()}

    def accepts_nothing(self, predicate: Predicate | Projection) -> bool:
        """Return whether records without any value here may satisfy the condition."""
        if self.null_cell is None:
            return False
        return bool(predicate.shares(self.recode, self.null_cell)[0] > 0)

    @cached_property
    def hidden_rows(self) -> HiddenRows | None:
        """Model of the positions of suppressed records; None if some are not counted at all."""
        return None if self.null_cell is not None else super().hidden_rows

    def _hidden(self, predicate: Predicate, shares: Floats) -> SuppressedShare:
        hidden = super()._hidden(predicate, shares)
        if self.null_cell is None:
            return SuppressedShare(
                n_inside=min(hidden.n_inside, MANY),
                n_outside=min(hidden.n_outside, MANY),
                share=hidden.share,
            )
        # Records without a value are not counted and may be many, unlike suppressed ones; their
        # numbers cannot be separated.
        inside = max(0, hidden.n_inside)
        return SuppressedShare(n_inside=min(inside, MANY), n_outside=MANY, share=0.0)

    def marginal(self, names: tuple[str, ...], n_records: float) -> Floats:
        """Estimate the distribution of some attributes, including records without a value."""
        shape = self.domain.project(names).shape
        places = np.ravel_multi_index(tuple(self.codes[name] for name in names), shape)
        mass = np.bincount(places, np.maximum(self.counts, 0.0), prod(shape))
        if self.null_cell is not None:
            nothing = np.ravel_multi_index(tuple(self.null_cell[n][0] for n in names), shape)
            mass[nothing] += max(0.0, n_records - mass.sum())
        return np.asarray(mass / max(mass.sum(), 1.0)).reshape(shape)


@dataclass(frozen=True)
class Thinning:
    """Inclusion of records in columns at random, and its correction.

    Examples
    --------
    >>> Thinning(max_columns=1, n_columns=4, n_reached=4, is_uniform=True).least_kept
    0.25
    """

    max_columns: int  # maximum number of columns in which a record was counted
    n_columns: int  # number of columns
    n_reached: int  # maximum number of columns in which a record has values
    is_uniform: bool  # whether every record has a value in every column

    @property
    def least_kept(self) -> float:
        """Smallest probability that a record with values in a column was counted there."""
        return min(1.0, self.max_columns / self.n_reached)

    def of_total(self, total: NumberInterval | None) -> NumberInterval | None:
        """Return the number of records that one column may have counted, given the total."""
        if total is None or not self.is_uniform:
            return total
        kept = self.least_kept
        spread = NORMAL * sqrt(total.high * kept * (1 - kept))
        return NumberInterval(
            value=total.value * kept,
            low=max(0.0, total.low * kept - spread),
            high=total.high * kept + spread,
            privacy_std=total.privacy_std * kept,
        )

    def undone(self, seen: Estimate) -> Estimate:
        """Convert an answer about the records that a column counted into one about all records."""
        kept = self.least_kept
        if kept == 1.0:
            return seen
        if self.is_uniform:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; the answer is scaled up, and its interval allows for this."
            )
            value, low = seen.value / kept, _unthinned(seen.low, kept, -1)
        else:
            note = (
                f"Records with values in more than {self.max_columns} columns were counted in a "
                "random subset of them. Their number is unknown; the interval allows for "
                "none up to all."
            )
            value, low = seen.value, seen.low
        high = _unthinned(seen.high, kept, 1)
        spread = sqrt(max(seen.value, 0.0) * (1 - kept)) / kept
        unknown = 0.0 if self.is_uniform else seen.value * (1 / kept - 1) / sqrt(12)
        return Estimate(
            value=float(np.clip(value, low, high)),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / kept,
            model_std=float(np.hypot(seen.model_std / kept, np.hypot(spread, unknown))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: SumEstimates) -> SumEstimates:
        """Correct sums over records in the same way, for functions from -1 to 1."""
        kept = self.least_kept
        if kept == 1.0:
            return seen
        chance = np.diag(np.abs(seen.values)) * (1 - kept)
        if self.is_uniform:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; sums are scaled up, and intervals allow for this."
            )
            chosen = replace(seen, model=seen.model + chance, notes=(*seen.notes, note))
            return chosen.divided(kept)
        note = (
            f"Records with values in more than {self.max_columns} columns were counted in a random "
            "subset of them; this is assumed to be unrelated to the question."
        )
        unknown = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2 / 12
        return replace(
            seen,
            model=seen.model + chance + unknown,
            notes=(*seen.notes, note),
        )


def _unthinned(seen: float, kept: float, sign: int) -> float:
    """Return the end of the interval for n, given an observation of Binomial(n, kept)."""
    if seen <= 0:
        return 0.0  # only an unsatisfiable condition has an end at 0
    spread = NORMAL * sqrt(kept * (1 - kept))
    # Solves n kept -+ spread sqrt(n) = seen for sqrt(n).
    root = (sign * spread + sqrt(spread**2 + 4 * kept * seen)) / (2 * kept)
    return root**2
