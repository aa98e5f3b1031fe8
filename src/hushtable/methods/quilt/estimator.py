"""Estimator of quilt releases: answers from the noisy tables, else from synthetic rows.

See `hushtable.methods.quilt.measurements` for how a quilt answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.methods.quilt.answers import TableSums, association_kept, redrawn_weights
from hushtable.methods.quilt.limits import active_columns, untested_limits
from hushtable.methods.quilt.measurements import Group, MeasuredTable, TableBasis, range_in_bins
from hushtable.methods.quilt.model_error import PAIR, ModelError, UnmeasuredError, covariances
from hushtable.methods.quilt.movement import movement_of, with_earlier
from hushtable.methods.quilt.workload import Sums, published_sums, sums_among
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Estimator, count_of
from hushtable.query.answers.published import Generator
from hushtable.query.answers.row_sums import (
    WEAKER,
    RowFunction,
    SumEstimates,
    joined,
    of_predicate,
)
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy
from hushtable.schema.recoding import recode

MAX_ENUMERATED = 2_000_000  # combinations of values that are enumerated

MODEL_Z = 2.5
"""Half-width of the 95% interval for model error, in standard deviations.

It exceeds the normal 1.96: model error varies from pair to pair and only its average is known, so
errors have heavier tails (2.57 is the value for Student's t with five degrees of freedom).
"""

Support = Literal["measured", "tested", "untested"]

_MEASURED = "This answer comes from measured tables: it is unbiased, and noise is its only error."
_MERGED = (
    "This answer comes from measured tables in which values were merged. It assumes that merged "
    "values depend on other columns as their neighbors do."
)
_MODELED = (
    "This combination was not measured directly; the answer is a model estimate. Selection tested "
    "the model on such tables, and the interval allows for the misfit of the worst."
)
_UNTESTED = (
    "These columns were not measured together, and nothing tested the model for dependence of more "
    "than {} columns: the answer is unknown beyond the limits that follow from tables of pairs, "
    "which are the interval."
)
_IF_NONE = " Without such dependence it would be {:,.0f} to {:,.0f}."
_CUT = (
    "The condition selects part of a public bin. The interval allows for all rows of the bin to "
    "satisfy it, or none."
)


class QuiltEstimator(Estimator):
    """Estimates from a quilt release.

    If measured tables determine a condition, the answer is computed from them: unbiased (but
    negative counts are reported as 0), with an interval from the noise alone. If they determine it
    up to merged values, the answer is also computed from them, with an interval that includes model
    error. Otherwise the synthetic rows are counted, with an interval that includes model error.
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

    def by_bin(self, name: str) -> tuple[Estimator, Integers]:
        """Return the bin of each code of a column, and an estimator whose codes are the bins."""
        bins = self.bins[name]
        n_bins = int(bins.max()) + 1
        if n_bins == len(bins):
            return self, bins
        if name not in self._by_bin:
            view = QuiltEstimator(self.schema, self.parameters, self.settings, self.tables)
            view.bins = self.bins | {name: np.arange(n_bins)}
            view.codes = self.codes | {name: bins[self.codes[name]]}
            self._by_bin[name] = view
        return self._by_bin[name], bins

    @cached_property
    def _by_bin(self) -> dict[str, QuiltEstimator]:
        return {}

    @cached_property
    def basis(self) -> TableBasis:
        """The noisy tables."""
        return self._basis()

    def _basis(self, *, earlier: bool | None = None) -> TableBasis:
        """Return all noisy tables, only those of earlier waves, or only the others."""
        merged = self.tables["buckets"]
        buckets = np.split(
            as_numpy(merged.column("bucket")).astype(np.int64),
            np.flatnonzero(np.diff(as_numpy(merged.column("column")))) + 1,
        )
        counts = as_numpy(self.tables["measured"].column("count")).astype(np.float64)
        made, start = [], 0
        for table in self.settings["tables"]:
            shape = tuple(table["shape"])
            part = counts[start : start + math.prod(shape)].reshape(shape)
            start += part.size
            cells = tuple(
                np.arange(min(size, part.size)) if places is None else np.asarray(places, np.int64)
                for places, size in zip(table["cells"], shape, strict=True)
            )
            if earlier is None or earlier == ("earlier" in table):
                std = table["std"] if earlier is None else table.get("noise", table["std"])
                made.append(MeasuredTable(tuple(table["columns"]), part, std, cells))
        return TableBasis(
            made,
            dict(zip(self.schema.attributes, buckets, strict=True)),
            kurtosis=3.0 if self.settings["noise"] == "laplace" else 0.0,
            n_rows=self.schema.counted_rows if self.settings["total_std"] == 0 else None,
            bins=self.bins,
        )

    @cached_property
    def weight(self) -> float:
        """Number of original rows that one synthetic row represents."""
        n_rows: int = self.table.num_rows
        return max(0.0, float(self.basis.total.sums[0])) / max(1, n_rows)

    @cached_property
    def table_sums(self) -> TableSums:
        """Estimates of sums over rows from the noisy tables."""
        return TableSums(self.basis)

    @cached_property
    def _sources(self) -> list[TableSums]:
        """Tables that answer separately: of this run, and of earlier waves."""
        if "movement" not in self.settings:
            return [self.table_sums]
        return [TableSums(self._basis(earlier=earlier)) for earlier in (False, True)]

    def _with_earlier(
        self,
        found: Sequence[SumEstimates | None],
        functions: Sequence[RowFunction],
        *,
        together: bool = False,
    ) -> SumEstimates | None:
        """Combine the answers of `_sources`."""
        if len(found) == 1 or found[1] is None:
            return found[0]
        moved = movement_of(
            functions, self.codes, self.basis.rows, self.settings["movement"], together=together
        )
        return with_earlier(found[0], found[1], moved)

    @cached_property
    def _missed(self) -> UnmeasuredError:
        return UnmeasuredError.estimated(self.settings["rounds"], self.basis)

    @property
    def _shrinkage(self) -> float:
        return float(self.settings["fit"]["shrinkage"])

    def error(self, columns: Sequence[str]) -> ModelError:
        """Return the error model for sums over the rows that depend on some columns."""
        key = tuple(name for name in self.schema.attributes if name in columns)  # in one order
        if key not in self._errors:
            self._errors.clear()  # successive questions are often about the same columns
            codes, times = self._distinct(key)
            ordered = (name for name, column in self.schema.attributes.items() if column.is_line)
            self._errors[key] = ModelError(
                codes,
                self.weight,
                self.basis,
                shrinkage=self._shrinkage,
                missed=self._missed,
                times=times,
                ordered=frozenset(ordered),
            )
        return self._errors[key]

    @cached_property
    def _errors(self) -> dict[Group, ModelError]:
        return {}

    def _distinct(self, columns: Sequence[str]) -> tuple[dict[str, Integers], Floats]:
        """Return the distinct rows of some columns and their frequencies.

        If the columns have too many combinations of values, return all rows with frequency 1.
        """
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
        decided = [
            found and replace(found, notes=(_MEASURED,), support="measured")
            for found in (s.decided(columns, truth) for s in self._sources if truth is not None)
        ]
        function = of_predicate(predicate)
        found = self._with_earlier(decided, [function]) if any(decided) else None
        if found is None:  # the cells of no table decide the condition
            found = self._sums([function], [columns], predicate.columns, together=False)
        answer = count_of(found, 0, self.basis.rows, scope="people")
        if found.limits is not None and not np.isnan(found.limits[0, 0]):
            likely = count_of(replace(found, limits=None), 0, self.basis.rows, scope="people")
            said = _IF_NONE.format(max(likely.low, answer.low), min(likely.high, answer.high))
            answer = replace(answer, notes=(answer.notes[0] + said, *answer.notes[1:]))
        if answer.support == "measured":
            return answer
        most = count_of(self.table_sums.total, 0, self.basis.rows, scope="people").high
        return replace(answer, high=min(answer.high, max(most, answer.value)))

    def answer_from_tables(self, predicate: Predicate) -> SumEstimates | None:
        """Answer from the tables of this run, not clipped at 0; None if they do not suffice.

        The second sum is the number of rows.
        """
        columns, truth = self._decided(predicate)
        own = self._sources[0]
        return None if truth is None else own.decided(columns, truth, with_total=True)

    def _decided(self, predicate: Predicate) -> tuple[Group, NDArray[np.bool_] | None]:
        """Return the columns that the condition depends on, and its truth for each combination.

        If there are too many combinations, return all its columns and None.
        """
        columns = predicate.columns
        sizes = [self.schema.attributes[name].size for name in columns]
        if math.prod(sizes) > MAX_ENUMERATED:
            return columns, None
        grids = zip(columns, np.indices(sizes), strict=True)
        any_column = {next(iter(self.schema.attributes)): np.zeros(1, np.int64)}
        codes = {name: grid.ravel() for name, grid in grids} or any_column
        truth = predicate.mask(codes).reshape(sizes)
        for axis in reversed(range(truth.ndim)):
            if (truth == truth.take([0], axis)).all():
                truth = np.asarray(truth.take(0, axis))
                columns = columns[:axis] + columns[axis + 1 :]
        return columns, truth

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the share of each pair's dependence that remains in the rows."""
        return association_kept(
            self.basis, self.codes, weight=self.weight, shrinkage=self._shrinkage
        )

    def redrawn(self, rng: Generator) -> tuple[dict[str, Integers], Floats]:
        """Return the rows as codes, and weights drawn from the uncertainty of the tables."""
        return self.codes, redrawn_weights(self.table_sums, self.schema, self.codes, rng)

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows, from measured tables where they determine them, else from rows.

        The errors of the two kinds are assumed to be uncorrelated.
        """
        known, measured = sums_among(functions, self._workload, self.basis.kurtosis)
        rest = [place for place in range(len(functions)) if place not in known]
        measured = replace(measured, notes=() if rest else (_MEASURED,))
        parts = [(known, measured)] if known else []
        if rest or not known:
            own = [functions[place].columns for place in rest]
            others = [functions[place] for place in rest]
            parts.append((rest, self._sums(others, own, _all(own), together=together)))
        return joined(len(functions), parts) if known else parts[0][1]

    @cached_property
    def _workload(self) -> Sums:
        """Sums that were measured for the workload."""
        return published_sums(self.settings.get("workload", ()), self.schema)

    def _sums(
        self,
        functions: Sequence[RowFunction],
        own: Sequence[Group],
        columns: Group,
        *,
        together: bool,
    ) -> SumEstimates:
        """Estimate sums; `own` are the columns that each depends on, `columns` all of them."""
        linear = [[source.linear(one) for source in self._sources] for one in functions]
        kinds = [tuple(one is not None for one in several) for several in linear]
        known = [place for place, kind in enumerate(kinds) if any(kind)]
        rest = [place for place, kind in enumerate(kinds) if not any(kind)]
        parts = []
        for kind in dict.fromkeys(kinds[place] for place in known):
            places = [place for place in known if kinds[place] == kind]
            answers: list[SumEstimates | None] = []
            for at, source in enumerate(self._sources):
                asked = [one for place in places if (one := linear[place][at]) is not None]
                answers.append(source.sums(asked, together=together) if asked else None)
            merged = any(one is not None and bool(one.model.any()) for one in answers)
            # One statistic uses sums of both kinds, so only the weaker note is true of it.
            note = _MERGED if merged else _MEASURED
            support: Support = "tested" if merged else "measured"
            answers = [one and replace(one, notes=(note,), support=support) for one in answers]
            asked_of = [functions[place] for place in places]
            found = self._with_earlier(answers, asked_of, together=together)
            assert found is not None  # noqa: S101 - one of the sources answers
            parts.append((places, replace(found, notes=()) if rest else found))
        if rest:
            error = self.error(_all(own[place] for place in rest) if known else columns)
            modeled = [(functions[place], own[place]) for place in rest]
            parts.append((rest, self._sums_of_rows(error, modeled, together=together)))
        sums = self._untested(joined(len(functions), parts), functions, rest, together=together)
        if not any(range_in_bins(function, self.bins) for function in functions):
            return sums
        heaped = self.error(columns).heaped(functions, together=together)
        notes = [_MERGED if note == _MEASURED else note for note in sums.notes]  # not only noise
        model = sums.model + heaped / sums.model_z**2
        support = max(sums.supported, "tested", key=WEAKER.index)
        return replace(sums, model=model, notes=(*notes, _CUT), support=support)

    # --- dependence that was neither measured nor tested ------------------------------------------

    def is_measured(self, columns: Sequence[str]) -> bool:
        """Return whether a measured table contains these columns together."""
        return len(columns) < PAIR or bool(self.basis.having(columns))

    def _untested(
        self,
        sums: SumEstimates,
        functions: Sequence[RowFunction],
        rest: Sequence[int],
        *,
        together: bool,
    ) -> SumEstimates:
        """Widen modeled sums over more than two columns to the limits that pairs imply.

        Selection scores all pairs, so the ones that were not measured fit no worse than the last
        ones that were. A table of more columns that does not determine a sum merges values, and
        dependence of high order may change its sign among these.
        """
        needed = [active_columns(function) for function in functions]
        places = [place for place in rest if len(needed[place]) > PAIR]
        if not places:
            return sums
        columns = _all(needed[place] for place in places)
        error = self.error(columns)
        squares, limits = untested_limits(
            [functions[place] for place in places],
            error.codes,
            self.weight * error.times,
            lambda asked: self.sums(asked, together=False),
            together=together,
        )
        model, ends = sums.model.copy(), np.full((2, len(functions)), np.nan)
        model[np.ix_(places, places)] += squares / sums.model_z**2
        ends[:, places] = limits
        notes = [note for note in sums.notes if note != _MODELED]
        return replace(
            sums,
            model=model,
            limits=ends,
            notes=(_UNTESTED.format(PAIR), *notes),
            support="untested",
        )

    @cached_property
    def _earlier_weight(self) -> float:
        """Share of the precision of one-way tables that comes from earlier waves."""
        own, all_tables = (
            np.mean([1 / basis.values(name).variance for name in self.schema.attributes])
            for basis in (self._sources[0].basis, self.basis)
        )
        return float(1 - own / all_tables)

    def _sums_of_rows(
        self, error: ModelError, functions: Sequence[tuple[RowFunction, Group]], *, together: bool
    ) -> SumEstimates:
        """Estimate sums over the synthetic rows, given each function with its columns."""
        added = [function.values(error.codes) for function, _ in functions]
        values = self.weight * np.array([one @ error.times for one in added])
        sources = (
            error.sources(columns, values, function.values)
            for (function, columns), values in zip(functions, added, strict=True)
        )
        privacy, model = covariances(sources, together=together)
        if "movement" in self.settings:
            model += self._earlier_weight**2 / MODEL_Z**2 * NORMAL**2 * movement_of(
                [function for function, _ in functions],
                self.codes,
                self.basis.rows,
                self.settings["movement"],
                together=together,
            )  # fmt: skip
        return SumEstimates(
            values, privacy, model, NORMAL, MODEL_Z, notes=(_MODELED,), support="tested"
        )


def _all(groups: Iterable[Group]) -> Group:
    return tuple(dict.fromkeys(name for group in groups for name in group))
