"""Estimator of quilt releases: counts and sums from the noisy tables, else from synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.answers import QuiltRows, TableSums, association_kept, redrawn_weights
from hushtable.methods.quilt.measurements import (
    LinearAnswer,
    MeasuredTable,
    MeasuredTables,
    range_in_bins,
)
from hushtable.methods.quilt.model_error import ModelError, UnmeasuredError, ValueOf
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.moments import count_of
from hushtable.query.answers.published import Generator
from hushtable.query.answers.row_sums import (
    RowFunction,
    SumEstimates,
    joined,
    no_less,
    of_predicate,
)
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy
from hushtable.schema.recoding import recode

MAX_ENUMERATED = 2_000_000  # combinations of values that are enumerated

N_LAST = 6
"""Number of groups, measured last, that are used to estimate the error in unmeasured groups."""

MODEL_Z = 2.5
"""Half-width of the 95% interval for model error, in standard deviations.

It exceeds the normal 1.96: model error varies from pair to pair and only its average is known, so
errors have heavier tails (2.57 is the value for Student's t with five degrees of freedom).
"""

_MEASURED = "This answer comes from measured tables: it is unbiased, and noise is its only error."
_MERGED = (
    "This answer comes from measured tables in which values were merged. It assumes that merged "
    "values depend on other columns as their neighbors do."
)
_MODELED = (
    "This combination was not measured directly; the answer is a model estimate, and the interval "
    "allows for unmeasured dependence."
)
_CUT = (
    "The condition selects part of a public bin. The interval allows for all rows of the bin to "
    "satisfy it, or none."
)


class QuiltEstimator(Estimator):
    """Estimates from a quilt release.

    If measured tables determine a condition, the answer is computed from them: unbiased (but
    negative counts are reported as 0), with an interval from the noise alone. Otherwise the
    synthetic rows are counted, with an interval that includes model error.
    """

    counts_are_sums = True

    def frame(self) -> pa.Table:
        """Return the synthetic rows."""
        return self.table

    # --- released tables ------------------------------------------------------------------------

    @cached_property
    def bins(self) -> dict[str, Integers]:
        """The counted value of each code, by column."""
        found = {}
        for name, column in self.schema.attributes.items():
            rule = self.settings["columns"][name]["bins"]
            is_own = rule is None
            found[name] = np.arange(column.size) if is_own else recode(name, column, rule).of_all
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
        """Number of original rows that one synthetic row represents."""
        n_rows: int = self.table.num_rows
        return max(0.0, self.measured.total.value) / max(1, n_rows)

    @cached_property
    def table_sums(self) -> TableSums:
        """Estimates of sums over rows from the noisy tables."""
        return TableSums(self.measured, self.bins)

    @cached_property
    def _missed(self) -> UnmeasuredError:
        return missed(self.settings["rounds"], self.measured)

    def error(self, columns: Sequence[str]) -> ModelError:
        """Return the error model for sums over the rows that depend on some columns."""
        key = frozenset(columns)
        if key not in self._errors:
            self._errors.clear()  # successive questions are often about the same columns
            self._errors[key] = self._error(columns)
        return self._errors[key]

    @cached_property
    def _errors(self) -> dict[frozenset[str], ModelError]:
        return {}

    def _error(self, columns: Sequence[str]) -> ModelError:
        codes, times = self._distinct(columns)
        return ModelError(
            codes,
            self.bins,
            self.weight,
            self.measured,
            shrinkage=float(self.settings["fit"]["shrinkage"]),
            missed=self._missed,
            times=times,
            ordered=frozenset(
                name for name, column in self.schema.attributes.items() if column.is_line
            ),
        )

    def _distinct(self, columns: Sequence[str]) -> tuple[dict[str, Integers], Floats]:
        """Return the distinct rows of some columns and their frequencies."""
        names = list(columns) or [next(iter(self.schema.attributes))]
        keys = np.zeros(self.table.num_rows, np.int64)
        size = math.prod(self.schema.attributes[name].size for name in names)
        if size >= 2**62 or not len(keys):
            return {name: self.codes[name] for name in names}, np.ones(len(keys))
        for name in names:
            keys = keys * self.schema.attributes[name].size + self.codes[name]
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.diff(keys[order], prepend=-1))
        times = np.diff(first, append=len(keys)).astype(np.float64)
        rows = order[first]
        return {name: self.codes[name][rows] for name in names}, times

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        return self.answer(parse(where, self.schema))

    def answer(self, predicate: Predicate) -> Estimate:
        """Estimate how many rows satisfy a parsed condition."""
        columns, truth = self._decided(predicate)
        if truth is not None:
            found = self._from_tables(columns, truth)
            if found is not None:
                return _estimate(found)
        function = of_predicate(predicate)
        linear = None
        if columns and self.measured.has(frozenset(columns)):
            linear = self.table_sums.linear(function)
        if linear is not None:  # the condition splits buckets or public bins of the tables
            told = replace(self.table_sums.sums([linear], together=False), notes=(_MERGED,))
            cut = self._with_heaps(told, [function], together=False)
            return count_of(cut, 0, max(1.0, self.measured.total.value), scope="people")
        return self._from_rows(columns, predicate, function)

    def answer_from_tables(self, predicate: Predicate) -> LinearAnswer | None:
        """Answer from the noisy tables alone, not clipped at 0; None if they do not suffice."""
        columns, truth = self._decided(predicate)
        return None if truth is None else self._from_tables(columns, truth)

    def _decided(self, predicate: Predicate) -> tuple[tuple[str, ...], NDArray[np.bool_] | None]:
        """Return the columns that the condition depends on, and its truth for each combination."""
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
        """Answer from measured tables; None if they do not determine the condition."""
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

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the share of each pair's dependence that remains in the rows."""
        return association_kept(
            self.table_sums,
            {name: self.bins[name][codes] for name, codes in self.codes.items()},
            weight=self.weight,
            shrinkage=float(self.settings["fit"]["shrinkage"]),
        )

    def redrawn(self, rng: Generator) -> tuple[dict[str, Integers], Floats]:
        """Draw weights of the rows from the uncertainty of the tables."""
        values = {name: self.bins[name][codes] for name, codes in self.codes.items()}
        rows = QuiltRows(self.schema, self.codes, values)
        return self.codes, redrawn_weights(self.table_sums, rows, rng)

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows, from measured tables where they determine them, else from rows.

        The errors of the two kinds are assumed to be uncorrelated.
        """
        linear = [self.table_sums.linear(function) for function in functions]
        told = [place for place, one in enumerate(linear) if one is not None]
        rest = [place for place, one in enumerate(linear) if one is None]
        parts = []
        if told:
            found = self.table_sums.sums([one for one in linear if one], together=together)
            note = _MEASURED if not found.model.any() else _MERGED
            # One statistic uses sums of both kinds, so only the weaker note is true of it.
            parts.append((told, replace(found, notes=() if rest else (note,))))
        if rest:
            parts.append((rest, self._sums_of_rows([functions[p] for p in rest], together)))
        return self._with_heaps(joined(len(functions), parts), functions, together=together)

    def _with_heaps(
        self, sums: SumEstimates, functions: Sequence[RowFunction], *, together: bool
    ) -> SumEstimates:
        """Add an allowance for heaping: all rows of a bin may satisfy the condition, or none."""
        if not any(range_in_bins(function, self.bins) for function in functions):
            return sums
        columns = tuple(dict.fromkeys(name for one in functions for name in one.columns))
        heaped = self.error(columns).heaped(functions, together=together)
        model = sums.model + heaped / sums.model_z**2
        notes = [_MERGED if note == _MEASURED else note for note in sums.notes]  # not only noise
        return replace(sums, model=model, notes=(*notes, _CUT))

    def _sums_of_rows(self, functions: Sequence[RowFunction], together: bool) -> SumEstimates:
        """Sum over the rows; covariances are derived from variances of sums of two functions."""
        columns = tuple(dict.fromkeys(name for one in functions for name in one.columns))
        error = self.error(columns)
        added = [function.values(error.codes) for function in functions]
        values = self.weight * np.array([one @ error.times for one in added])
        n = len(functions)
        privacy, model = np.zeros((n, n)), np.zeros((n, n))
        for i, one in enumerate(functions):
            spread = error.of(one.columns, added[i], one.values)
            privacy[i, i], model[i, i] = spread.privacy, spread.model
        for i, j in combinations(range(n), 2) if together else ():
            one, two = functions[i], functions[j]
            names = tuple(dict.fromkeys((*one.columns, *two.columns)))
            both = error.of(names, added[i] + added[j], _added(one, two))
            privacy[i, j] = privacy[j, i] = (both.privacy - privacy[i, i] - privacy[j, j]) / 2
            model[i, j] = model[j, i] = (both.model - model[i, i] - model[j, j]) / 2
        if together:
            privacy, model = no_less(privacy), no_less(model)
        return SumEstimates(values, privacy, model, NORMAL, MODEL_Z, notes=(_MODELED,))

    def _from_rows(
        self, columns: tuple[str, ...], predicate: Predicate, function: RowFunction
    ) -> Estimate:
        """Answer from the rows, with noise and model error."""
        error = self.error(predicate.columns)
        mask = predicate.mask(error.codes).astype(np.float64)
        value = self.weight * float(mask @ error.times)
        spread = error.of(columns, mask, lambda codes: predicate.mask(codes).astype(np.float64))
        heaped = float(error.heaped([function], together=False)[0, 0])
        model = spread.model + heaped / MODEL_Z**2
        half = (NORMAL**2 * spread.privacy + MODEL_Z**2 * model) ** 0.5
        total = self.measured.total
        most = max(0.0, total.value + total.half_width)
        return Estimate(
            value=value,
            low=max(0.0, value - half),
            high=min(value + half, max(most, value)),
            privacy_std=spread.privacy**0.5,
            model_std=model**0.5,
            notes=(_MODELED, _CUT) if heaped else (_MODELED,),
        )


def _added(one: RowFunction, two: RowFunction) -> ValueOf:
    return lambda codes: one.values(codes) + two.values(codes)


def _merged(truth: NDArray[np.bool_], axis: int, places: Integers) -> NDArray[np.bool_] | None:
    """Express a condition on values as one on places; None if values of one place differ."""
    first = np.unique(places, return_index=True)[1]
    merged = truth.take(first, axis)
    return merged if (merged.take(places, axis) == truth).all() else None


def _estimate(found: LinearAnswer) -> Estimate:
    value = max(0.0, found.value)
    return Estimate(
        value=value,
        low=max(0.0, found.value - found.half_width),
        high=value
        + found.half_width,  # around the clipped value: a negative answer does not prove 0
        privacy_std=found.std,
        model_std=0.0,
        notes=(_MEASURED,),
    )


def missed(rounds: Sequence[Mapping[str, Any]], measured: MeasuredTables) -> UnmeasuredError:
    """Estimate the error of the model in groups that were never measured.

    Before a group was measured, the model made a prediction for it: independence in the spanning
    forest, the fitted model in the rounds. The squared distance between noisy table and prediction,
    minus the noise, estimates that between truth and prediction. It is divided by the squares of
    the prediction, times the share of the table that lower-order marginals leave free. Its standard
    error is added because the groups are few. Nothing is added for noisy selection: the worse the
    model fits a group, the likelier its selection, so on average it fits the remaining groups no
    worse.
    """
    groups = [table for table in measured.tables if len(table.columns) > 1]
    told = [
        pair
        for made in rounds
        for pair in zip(made["squared_errors"], made["squared_predictions"], strict=True)
    ]
    last = [
        (table, told[-back] if back <= len(told) else measured.distance_from_independence(table))
        for back, table in zip(range(len(groups), 0, -1), groups, strict=True)
        if back <= N_LAST  # the tables of the adaptive rounds come last
    ]
    if not last:
        return UnmeasuredError(1.0, 1.0)
    distance = sum(story[0] for _, story in last)
    noise = sum(table.counts.size * table.std**2 for table, _ in last)
    spread = sum(2 * table.counts.size * table.std**4 for table, _ in last) ** 0.5
    free = [_free(table.counts.shape) for table, _ in last]
    squares = sum(story[1] * part for (_, story), part in zip(last, free, strict=True))
    share = ((max(0.0, distance - noise) + spread) / max(squares, 1.0)) ** 0.5
    rows = max(1.0, measured.total.value) * sum(free)
    return UnmeasuredError(share, share**2 * squares / rows, _per_cell(rounds, measured))


def _per_cell(rounds: Sequence[Mapping[str, Any]], measured: MeasuredTables) -> float:
    """Return the penalty per cell in the last selection, as an error in shares of all rows."""
    if not rounds:
        return 0.0
    names = list(measured.buckets)
    penalties = [
        penalty / np.prod([measured.n_buckets[names[column]] for column in group])
        for group, penalty in zip(
            rounds[-1].get("selected", ()), rounds[-1].get("penalties", ()), strict=True
        )
    ]
    rows = max(1.0, measured.total.value)
    return float(max(penalties, default=0.0) / ((2 / math.pi) ** 0.5 * rows))


def _free(shape: tuple[int, ...]) -> float:
    """Return the share of a table's degrees of freedom that lower-order marginals leave free."""
    return math.prod((size - 1) / size for size in shape)
