"""Count from a quilt: rows sewn from overlapping noisy tables, and the tables themselves."""

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

from hushtable.codes import as_numpy
from hushtable.estimate.base import Estimate, Estimator
from hushtable.estimate.drawing import Generator
from hushtable.estimate.moments import count_of
from hushtable.estimate.quantiles import NORMAL
from hushtable.estimate.row_functions import RowFunction, of_predicate
from hushtable.estimate.sums import Sums, joined, no_less
from hushtable.methods.quilt.bins import reaches
from hushtable.methods.quilt.domains import Floats, Integers
from hushtable.methods.quilt.field_error import FieldError, Missed, ValueOf
from hushtable.methods.quilt.kept import kept
from hushtable.methods.quilt.measured_tables import LinearAnswer, MeasuredTable, MeasuredTables
from hushtable.methods.quilt.redraw import Rows, redrawn_weights
from hushtable.methods.quilt.table_sums import TableSums
from hushtable.predicate import Predicate, parse
from hushtable.recoding import recode

MAX_ENUMERATED = 2_000_000  # combinations of values that are looked at one by one

N_LAST = 6
"""How many of the groups measured last tell how far those never measured are off."""

MODELED_REACH = 2.5
"""Half of the 95 % interval of what the model does not know, in standard deviations.

More than the normal 1.96: what is missed differs from pair to pair and is known on average only,
so errors have heavier tails (2.57 is right for Student's t with five degrees of freedom).
"""

_MEASURED = "The condition lies in measured tables: the answer is unbiased, its error is noise."
_MERGED = (
    "The answer is from measured tables; values that were merged there are taken to hang together "
    "with other columns as their neighbors do."
)
_MODELED = (
    "No measured table decides the condition: the answer is the model's, and the interval allows "
    "for dependence that was not measured."
)
_CUT = (
    "A public bin of values is cut through: all who are in it may count, or nobody, and the "
    "interval allows for both."
)


class QuiltEstimator(Estimator):
    """Answer counts from a quilt.

    A condition that measured tables decide is answered by them: unbiased (but for a count below
    zero, which is given as zero), with an interval from the noise alone. Any other is counted in
    the rows, with an interval that allows for what the model does not know.
    """

    counts_are_sums = True

    def frame(self) -> pa.Table:
        """Give the rows."""
        return self.table

    # --- what was released ----------------------------------------------------------------------

    @cached_property
    def bins(self) -> dict[str, Integers]:
        """For each code of a column the value that it was counted as."""
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
        """What one row counts for."""
        n_rows: int = self.table.num_rows
        return max(0.0, self.measured.total.value) / max(1, n_rows)

    @cached_property
    def table_sums(self) -> TableSums:
        """What the noisy tables say about sums over rows."""
        return TableSums(self.measured, self.bins)

    @cached_property
    def _missed(self) -> Missed:
        return missed(self.settings["rounds"], self.measured)

    def error(self, columns: Sequence[str]) -> FieldError:
        """Tell what is known about the error of sums over the rows, by some columns."""
        key = frozenset(columns)
        if key not in self._errors:
            self._errors.clear()  # questions come in runs about the same columns
            self._errors[key] = self._error(columns)
        return self._errors[key]

    @cached_property
    def _errors(self) -> dict[frozenset[str], FieldError]:
        return {}

    def _error(self, columns: Sequence[str]) -> FieldError:
        codes, times = self._distinct(columns)
        return FieldError(
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
        """Give the different rows of some columns, and how often each is there."""
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
        """Estimate how many rows satisfy a condition that was read already."""
        columns, truth = self._decided(predicate)
        if truth is not None:
            found = self._from_tables(columns, truth)
            if found is not None:
                return _estimate(found)
        function = of_predicate(predicate)
        linear = None
        if columns and self.measured.has(frozenset(columns)):
            linear = self.table_sums.linear(function)
        if linear is not None:  # a condition that cuts through buckets, or public bins, of tables
            told = replace(self.table_sums.sums([linear], together=False), notes=(_MERGED,))
            cut = self._with_heaps(told, [function], together=False)
            return count_of(cut, 0, max(1.0, self.measured.total.value), scope="people")
        return self._from_rows(columns, predicate, function)

    def told(self, predicate: Predicate) -> LinearAnswer | None:
        """Answer from noisy tables alone, below zero too, where they decide a condition."""
        columns, truth = self._decided(predicate)
        return None if truth is None else self._from_tables(columns, truth)

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

    def kept(self) -> dict[tuple[str, str], float]:
        """Compare the rows with the noisy tables they were made from."""
        return kept(
            self.table_sums,
            {name: self.bins[name][codes] for name, codes in self.codes.items()},
            weight=self.weight,
            shrinkage=float(self.settings["fit"]["shrinkage"]),
        )

    def redrawn(self, rng: Generator) -> tuple[dict[str, Integers], Floats]:
        """Draw weights of the rows from the uncertainty of the tables."""
        values = {name: self.bins[name][codes] for name, codes in self.codes.items()}
        rows = Rows(self.schema, self.codes, values)
        return self.codes, redrawn_weights(self.table_sums, rows, rng)

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> Sums:
        """Estimate sums over rows: from measured tables where they tell them, else from the rows.

        The two kinds of error are taken as unrelated.
        """
        linear = [self.table_sums.linear(function) for function in functions]
        told = [place for place, one in enumerate(linear) if one is not None]
        rest = [place for place, one in enumerate(linear) if one is None]
        parts = []
        if told:
            found = self.table_sums.sums([one for one in linear if one], together=together)
            note = _MEASURED if not found.model.any() else _MERGED
            # Sums of both kinds are put to one use, and the weaker word holds for all of it.
            parts.append((told, replace(found, notes=() if rest else (note,))))
        if rest:
            parts.append((rest, self._sums_of_rows([functions[p] for p in rest], together)))
        return self._with_heaps(joined(len(functions), parts), functions, together=together)

    def _with_heaps(self, sums: Sums, functions: Sequence[RowFunction], *, together: bool) -> Sums:
        """Allow for people of a public bin who may all be in the part of it that is asked for."""
        if not any(reaches(function, self.bins) for function in functions):
            return sums
        columns = tuple(dict.fromkeys(name for one in functions for name in one.columns))
        heaped = self.error(columns).heaped(functions, together=together)
        model = sums.model + heaped / sums.model_reach**2
        notes = [_MERGED if note == _MEASURED else note for note in sums.notes]  # not noise alone
        return replace(sums, model=model, notes=(*notes, _CUT))

    def _sums_of_rows(self, functions: Sequence[RowFunction], together: bool) -> Sums:
        """Add up over the rows; covariances are those of sums of two functions."""
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
        return Sums(values, privacy, model, NORMAL, MODELED_REACH, notes=(_MODELED,))

    def _from_rows(
        self, columns: tuple[str, ...], predicate: Predicate, function: RowFunction
    ) -> Estimate:
        """Answer from the rows, with what may be wrong with them."""
        error = self.error(predicate.columns)
        mask = predicate.mask(error.codes).astype(np.float64)
        value = self.weight * float(mask @ error.times)
        spread = error.of(columns, mask, lambda codes: predicate.mask(codes).astype(np.float64))
        heaped = float(error.heaped([function], together=False)[0, 0])
        model = spread.model + heaped / MODELED_REACH**2
        half = (NORMAL**2 * spread.privacy + MODELED_REACH**2 * model) ** 0.5
        total = self.measured.total
        most = max(0.0, total.value + total.reach)
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
    since the groups are few. Nothing is added for noisy choices: the more a group is missed, the
    likelier it is chosen, so those that were left are missed by no more on average.
    """
    groups = [table for table in measured.tables if len(table.columns) > 1]
    told = [
        pair
        for made in rounds
        for pair in zip(made["missed_squares"], made["expected_squares"], strict=True)
    ]
    last = [
        (table, told[-back] if back <= len(told) else measured.distance_from_independence(table))
        for back, table in zip(range(len(groups), 0, -1), groups, strict=True)
        if back <= N_LAST  # the tables of the rounds come last
    ]
    if not last:
        return Missed(1.0, 1.0)
    distance = sum(story[0] for _, story in last)
    noise = sum(table.counts.size * table.std**2 for table, _ in last)
    spread = sum(2 * table.counts.size * table.std**4 for table, _ in last) ** 0.5
    free = [_free(table.counts.shape) for table, _ in last]
    squares = sum(story[1] * part for (_, story), part in zip(last, free, strict=True))
    share = ((max(0.0, distance - noise) + spread) / max(squares, 1.0)) ** 0.5
    rows = max(1.0, measured.total.value) * sum(free)
    return Missed(share, share**2 * squares / rows, _per_cell(rounds, measured))


def _per_cell(rounds: Sequence[Mapping[str, Any]], measured: MeasuredTables) -> float:
    """Give the penalty of a cell in the last choice, as a share of all rows that are off by it."""
    if not rounds:
        return 0.0
    names = list(measured.buckets)
    penalties = [
        penalty / np.prod([measured.n_buckets[names[column]] for column in group])
        for group, penalty in zip(
            rounds[-1].get("chosen", ()), rounds[-1].get("penalties", ()), strict=True
        )
    ]
    rows = max(1.0, measured.total.value)
    return float(max(penalties, default=0.0) / ((2 / math.pi) ** 0.5 * rows))


def _free(shape: tuple[int, ...]) -> float:
    """Give the share of a table that is free to differ when smaller tables are kept."""
    return math.prod((size - 1) / size for size in shape)
