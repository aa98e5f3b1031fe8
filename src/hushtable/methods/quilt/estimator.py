"""Count from a quilt: rows sewn from overlapping noisy tables, and the tables themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import as_numpy
from hushtable.estimate.base import Estimate, Estimator
from hushtable.methods.quilt.domains import Integers
from hushtable.methods.quilt.field_error import FieldError, Missed
from hushtable.methods.quilt.measured_tables import LinearAnswer, MeasuredTable, MeasuredTables
from hushtable.predicate import Predicate, parse
from hushtable.recoding import recode

MAX_ENUMERATED = 2_000_000  # combinations of values that are looked at one by one

N_LAST = 6
"""How many of the groups measured last tell how far those never measured are off."""

MODELED_REACH = 2.5
"""Half of the 95 % interval of a modeled count, in standard deviations.

More than the normal 1.96: what is missed differs from pair to pair and is known on average only,
so errors have heavier tails (2.57 is right for Student's t with five degrees of freedom).
"""

_MEASURED = "The condition lies in measured tables: the answer is unbiased, its error is noise."
_MODELED = (
    "No measured table decides the condition: the answer is the model's, and the interval allows "
    "for dependence that was not measured."
)


class QuiltEstimator(Estimator):
    """Answer counts from a quilt.

    A condition that measured tables decide is answered by them: unbiased (but for a count below
    zero, which is given as zero), with an interval from the noise alone. Any other is counted in
    the rows, with an interval that allows for what the model does not know.
    """

    def frame(self) -> pa.Table:
        """Give the rows."""
        return self.table

    # --- what was released ----------------------------------------------------------------------

    @cached_property
    def bins(self) -> dict[str, Integers]:
        """For each code of a column the value that it was counted as."""
        found = {}
        for name, column in self.schema.attributes.items():
            codes = np.arange(column.size)
            rule = self.settings["columns"][name]["bins"]
            found[name] = codes if rule is None else recode(name, column, rule).apply(codes)
        return found

    @cached_property
    def measured(self) -> MeasuredTables:
        """The noisy tables."""
        merged = self.tables["buckets"]
        buckets = np.split(
            as_numpy(merged.column("bucket")).astype(np.int64),
            np.flatnonzero(np.diff(as_numpy(merged.column("column")))) + 1,
        )
        counts = as_numpy(self.tables["measured"].column("count")).astype(np.float64)
        made, start = [], 0
        for table in self.settings["tables"]:
            shape = tuple(table["shape"])
            part = counts[start : start + math.prod(shape)]
            start += len(part)
            cells = tuple(
                np.arange(size) if places is None else np.asarray(places, np.int64)
                for places, size in zip(table["cells"], shape, strict=True)
            )
            made.append(
                MeasuredTable(tuple(table["columns"]), part.reshape(shape), table["std"], cells)
            )
        return MeasuredTables(
            made,
            dict(zip(self.schema.attributes, buckets, strict=True)),
            kurtosis=3.0 if self.settings["noise"] == "laplace" else 0.0,
            n_rows=self.schema.counted_rows if self.settings["total_std"] == 0 else None,
        )

    @cached_property
    def weight(self) -> float:
        """What one row counts for."""
        n_rows: int = self.table.num_rows
        return max(0.0, self.measured.total.value) / max(1, n_rows)

    @cached_property
    def error(self) -> FieldError:
        """What is known about the error of counts over the rows."""
        return FieldError(
            self.codes,
            self.bins,
            self.weight,
            self.measured,
            shrinkage=float(self.settings["fit"]["shrinkage"]),
            missed=missed(self.settings["rounds"], self.measured),
        )

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        return self.answer(parse(where, self.schema))

    def answer(self, predicate: Predicate) -> Estimate:
        """Estimate how many rows satisfy a condition that was read already."""
        columns, truth = self._decided(predicate)
        if truth is not None:
            found = self._from_tables(columns, truth)
            if found is not None:
                return _estimate(found)
        return self._from_rows(columns, predicate)

    def _decided(self, predicate: Predicate) -> tuple[tuple[str, ...], NDArray[np.bool_] | None]:
        """Find the columns that decide, and for which of their values the condition holds."""
        columns = predicate.columns
        domain = self.schema.domain.project(columns)
        if domain.size > MAX_ENUMERATED:
            return columns, None
        grid = domain.grid() if columns else np.zeros((1, 0), np.int64)
        codes = {name: grid[:, i] for i, name in enumerate(columns)}
        if not columns:
            codes = {next(iter(self.schema.attributes)): np.zeros(1, np.int64)}
        truth = predicate.mask(codes).reshape(domain.shape)
        for axis in reversed(range(truth.ndim)):
            if (truth == truth.take([0], axis)).all():
                truth = np.asarray(truth.take(0, axis))
                columns = columns[:axis] + columns[axis + 1 :]
        return columns, truth

    def _from_tables(
        self, columns: tuple[str, ...], truth: NDArray[np.bool_]
    ) -> LinearAnswer | None:
        """Answer from measured tables, where they decide the condition."""
        if not columns:
            return self.measured.total if truth else LinearAnswer(0.0, 0.0, 0.0)
        if not self.measured.has(frozenset(columns)):
            return None
        alone = len(columns) == 1
        for axis, name in enumerate(columns):
            bins = self.bins[name]
            found = _merged(truth, axis, bins if alone else self.measured.buckets[name][bins])
            if found is None:
                return None
            truth = found
        if alone:
            return self.measured.of_column(columns[0], truth)
        return self.measured.of_cells(columns, truth)

    def _from_rows(self, columns: tuple[str, ...], predicate: Predicate) -> Estimate:
        """Answer from the rows, with what may be wrong with them."""
        mask = predicate.mask(self.codes)
        value = self.weight * float(np.count_nonzero(mask))
        spread = self.error.of(columns, mask, predicate)
        half = MODELED_REACH * (spread.privacy + spread.model) ** 0.5
        total = self.measured.total
        most = max(0.0, total.value + total.reach)
        return Estimate(
            value=value,
            low=max(0.0, value - half),
            high=min(value + half, max(most, value)),
            privacy_std=spread.privacy**0.5,
            model_std=spread.model**0.5,
            notes=(_MODELED,),
        )


def _merged(truth: NDArray[np.bool_], axis: int, places: Integers) -> NDArray[np.bool_] | None:
    """Write a condition on values as one on places; None where values of one place differ."""
    first = np.unique(places, return_index=True)[1]
    merged = truth.take(first, axis)
    return merged if (merged.take(places, axis) == truth).all() else None


def _estimate(found: LinearAnswer) -> Estimate:
    value = max(0.0, found.value)
    return Estimate(
        value=value,
        low=max(0.0, found.value - found.reach),
        high=value + found.reach,  # around what can be: an answer below zero is not sure of zero
        privacy_std=found.std,
        model_std=0.0,
        notes=(_MEASURED,),
    )


def missed(rounds: Sequence[Mapping[str, Any]], measured: MeasuredTables) -> Missed:
    """Say how far cells were off in the groups measured last.

    Before a group was measured the model had an answer for it: at first that columns are
    independent, in the rounds the field's. The squared distance between the two, less that of the
    noise, is that between model and truth; here it is a share of the model's own squares, as far
    as they are free to differ: tables of fewer columns are known. Its standard error is added,
    since the groups are few, and so is the noise of the choice.
    """
    groups = [table for table in measured.tables if len(table.columns) > 1]
    stories = [
        pair
        for made in rounds
        for pair in zip(made["missed_squares"], made["expected_squares"], strict=True)
    ]
    stories = [*map(measured.distance_from_independence, groups), *stories][-len(groups) :]
    last = list(zip(groups, stories, strict=True))[-N_LAST:]
    if not last:
        return Missed(1.0, 1.0)
    distance = sum(story[0] for _, story in last)
    noise = sum(table.counts.size * table.std**2 for table, _ in last)
    spread = sum(2 * table.counts.size * table.std**4 for table, _ in last) ** 0.5
    free = [_free(table.counts.shape) for table, _ in last]
    squares = sum(story[1] * part for (_, story), part in zip(last, free, strict=True))
    share = ((max(0.0, distance - noise) + spread) / max(squares, 1.0)) ** 0.5
    slack = _choice_noise(rounds[-1]) if rounds else 0.0
    rows = max(1.0, measured.total.value) * sum(free)
    share = math.hypot(share, slack * len(free) / ((2 / math.pi) ** 0.5 * rows))
    return Missed(share, share**2 * squares / rows)


def _choice_noise(made: Mapping[str, Any]) -> float:
    """Give the standard deviation of the difference that decides between two candidates.

    A choice is the best after Gumbel noise of scale 2 * sensitivity / epsilon was added to each
    score, so a candidate that was missed by this much more than the chosen one may be left. It is
    in absolute differences added up over a table.
    """
    scale = 2 * float(made["sensitivity"]) / (float(made["choice_epsilon"]) * min(made["weights"]))
    return float(scale * math.pi / 3**0.5)


def _free(shape: tuple[int, ...]) -> float:
    """Give the share of a table that is free to differ when smaller tables are kept."""
    return math.prod((size - 1) / size for size in shape)
