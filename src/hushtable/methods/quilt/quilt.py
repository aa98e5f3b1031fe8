"""The quilt method: synthetic rows from overlapping noisy marginals that were selected privately.

The promise, the algorithm and the proofs are in ``quilt.md`` beside this file. ``serialize.py``
describes the contents of a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import (
    CountError,
    Forecast,
    Method,
    Plan,
    Released,
    reader_of,
    schema_problems,
)
from hushtable.methods.count_error import gaussian_error, laplace_error, n_asked, needed_rows
from hushtable.methods.parameters import parameter, whole
from hushtable.methods.prior import Prior, read_prior
from hushtable.methods.quilt.binning import (
    CUT_SHARE,
    MAX_BUCKETS,
    MAX_INTERVALS,
    CountedDomain,
    values_of,
)
from hushtable.methods.quilt.budget import (
    ROWS_SHARE,
    Accounting,
    BudgetShares,
    PrivateMeasurer,
    Schedule,
    TableNoise,
    as_share,
    budget_of,
    schedule,
)
from hushtable.methods.quilt.fit import FitState, divided, fit
from hushtable.methods.quilt.model import MAX_TABLE_CELLS
from hushtable.methods.quilt.particles import Group, SampledParticles
from hushtable.methods.quilt.prior_weight import EarlierMeasurements, PriorRows
from hushtable.methods.quilt.serialize import settings_of, tables_of, warnings_of
from hushtable.numeric import NORMAL
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.privacy.unit import Unit
from hushtable.schema import Schema
from hushtable.schema.codes import to_values

if TYPE_CHECKING:
    from hushtable.methods.quilt.workload import MeasuredSums, WorkloadItem
    from hushtable.query.where.predicate import Predicate

TYPICAL_ROWS = 30_000
"""Number of rows that a forecast assumes if none is given."""

LEAST_PARTICLES = 1000

_MANY_ROWS = 10**12
_N_REDRAWS = 20  # times that values of rows that break a rule are drawn again

_ONE_COLUMN = (
    "The condition is on one column (a typical one, or the worst) and selects the same share of "
    "its values as of the rows (whole bins, if the column is binned). The number of rows "
    "determines how the budget is divided. Conditions on several columns also have model error, "
    "which depends on the private rows; a dry run (--dry-run) estimates it."
)


def delta_or_zero(name: str, given: Any) -> Fraction:
    """Parse a delta that may be 0 (pure differential privacy)."""
    value = as_rational(given, name=name)
    if not 0 <= value < 1:
        raise ParameterError(f"{name} is {given}; it must be at least 0 and below 1.")
    return parameters.delta(name, value) if value else value


def added_or_removed(
    epsilon: Fraction, delta: Fraction, unit: Unit, accounting: Accounting
) -> PureDP | ApproxDP:
    """Return the guarantee of a run for one unit added or removed.

    The run spends `budget_of(epsilon, delta, accounting)`.
    """
    if accounting == "pure":
        return PureDP(epsilon=epsilon, unit=unit, neighbors="add-remove")
    by = (
        {"rho": concentrated_share(epsilon, delta)}
        if accounting == "concentrated"
        else {"mu": gaussian_share(epsilon, delta)}
    )
    return ApproxDP(epsilon=epsilon, delta=delta, unit=unit, neighbors="add-remove", **by)


def _reason(name: str, given: Any) -> str:
    """Parse a nonempty justification."""
    if not isinstance(given, str) or not given.strip():
        raise ParameterError(f"{name} is {given!r}; state in words why the prior is public.")
    return given.strip()


def _items(name: str, given: Any) -> tuple[str, ...]:
    """Parse the items of a workload, or a single one."""
    items = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ParameterError(f"{name} is {given!r}; give texts such as 'mean(income) by region'.")
    return tuple(item.strip() for item in dict.fromkeys(items))


@dataclass(frozen=True, kw_only=True)
class Quilt(Method):
    """Synthetic rows from noisy marginals, published with the marginals.

    One-way tables are measured first. Then pairs of columns (with a target, also triples with it)
    are selected privately, those that the current model fits worst, and measured. A log-linear
    model is fitted to all noisy tables, and rows are drawn from it.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, such as 1 or ln(5).
    delta : number or str
        Probability of exceeding epsilon, such as 1e-9. With 0, the guarantee is pure differential
        privacy and the noise is Laplace.
    target : str, optional
        Column to predict, if any. One pair with it is always measured. If the budget allows, tables
        with it get more weight and may have two other columns; other tables then get less. The role
        target in the schema alone does not do this.
    particles : int
        Weighted rows that represent the model during the fit. More are more precise and slower.
    max_published : int
        Maximum number of synthetic rows.
    prior : path, Release or Prior, optional
        Public data with some of the columns: an earlier release, or a public table. The model
        starts from it, as far as the noisy tables agree with it. The promise does not change, but
        it does not cover the prior: do not use private rows that have no guarantee of their own.
    prior_public : str, optional
        Reason why the prior is public, recorded in ledger and statement. Required for a prior that
        is not a release with differential privacy, and for one that the ledger did not pay for.
    workload : sequence of str
        What the release is for, such as ``mean(income) by education``, ``income ~ age + sex`` or
        ``region x diagnosis``. Sums that means, totals and regressions need are measured directly,
        with noise for the bounds in the schema. Marginals count more when tables are selected.
    workload_share : number
        Share of the budget for the means, totals and regressions of the workload, in equal parts.
    accounting : {"gaussian", "concentrated"}
        How costs compose if delta is above 0. With ``gaussian``, tables have 5% to 8% less noise at
        the same epsilon and delta, and a ledger admits more such releases. Series compose waves
        in rho and use ``concentrated``.

    Examples
    --------
    >>> Quilt(epsilon=1, delta="1e-9").particles
    40000
    >>> Quilt(epsilon=1, delta=2, particles=10)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: delta is 2; it must be at least 0 and below 1.
    particles is 10; it must be a whole number of at least 1000.
    """

    name: ClassVar[str] = "quilt"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=delta_or_zero, default=Fraction(0))
    target: str | None = parameter(default=None)
    particles: int = parameter(read=whole(at_least=LEAST_PARTICLES), default=40_000)
    max_published: int = parameter(read=whole(), default=1_000_000)
    prior: Prior | None = parameter(read=read_prior, kind="path", default=None)
    prior_public: str | None = parameter(read=_reason, default=None)
    workload: Sequence[str] = parameter(read=_items, flag="for", default=())
    workload_share: Fraction = parameter(read=parameters.part, default=Fraction(3, 10))
    accounting: Literal["gaussian", "concentrated"] = parameter(default="gaussian")

    @property
    def added_up(self) -> Accounting:
        """Quantity that composes: epsilon if delta is 0, else by `accounting`."""
        return self.accounting if self.delta else "pure"

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        if not fields_are_right:
            return []
        if self.prior_public is not None and self.prior is None:
            return ["prior_public is given without a prior; give the prior, too."]
        if self.prior is not None and self.prior.kind == "table" and self.prior_public is None:
            return [
                f"prior is {self.prior.name!r}, which is not a release with a differential privacy "
                "guarantee. The release would reveal a private table used as prior without any "
                "protection. If it is public, state why (prior_public, --prior-public)."
            ]
        return []

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain data; for a prior, its description and digest."""
        plain = super().parameters()
        return plain if self.prior is None else {**plain, "prior": self.prior.described}

    def refuse_data(self, data: Any) -> None:
        """Raise `ParameterError` if the private table is also the prior; reads no row."""
        if self.prior is not None and self.prior.is_file_of(data):
            raise ParameterError(
                f"prior {self.prior.name!r} is the private table itself, which would be published "
                "without protection. Give a public table, or no prior."
            )

    def plan(self, schema: Schema) -> QuiltPlan:
        """Determine everything that is fixed before the data is read, or refuse."""
        problems = schema_problems(schema, self.name, target=self.target)
        names = list(schema.attributes)
        workload: tuple[WorkloadItem, ...] = ()
        if self.workload:
            from hushtable.methods.quilt.workload import read_items  # noqa: PLC0415 - slow to import

            try:
                workload = read_items(self.workload, schema)
            except ParameterError as error:
                problems += error.problems
        ParameterError.raise_if_any(problems)
        earlier = None if self.prior is None else self.prior.earlier(schema)
        rows = self.prior is not None and earlier is None
        values, rules = values_of(schema), _conditions(schema)
        return QuiltPlan(
            method=self,
            schema=schema,
            values=tuple(_with_kinds(v, rules) if rules else v for v in values),
            rules=rules,
            target=None if self.target is None else names.index(self.target),
            total=budget_of(self.epsilon, self.delta, self.added_up),
            prior=PriorRows(self.prior.codes(schema)) if self.prior and rows else None,
            earlier=None if earlier is None else EarlierMeasurements(earlier, names),
            workload=workload,
        )


@dataclass(frozen=True)
class QuiltPlan(Plan[SealedTable]):
    """Counting rules of a schema's columns, and the budget of a run."""

    method: Quilt
    schema: Schema
    values: tuple[CountedDomain, ...]
    target: int | None  # index of the column to predict
    total: Fraction  # budget of a run, in the units of `budget_of`
    prior: PriorRows | None = None
    earlier: EarlierMeasurements | None = None  # measurements of earlier waves of a series
    workload: tuple[WorkloadItem, ...] = ()
    rules: Sequence[Predicate] = ()  # conditions of rows that keep the rules of the schema

    @cached_property
    def statistics(self) -> list[WorkloadItem]:
        """Items of the workload whose sums are measured."""
        return [item for item in self.workload if item.queries]

    @property
    def statistics_share(self) -> Fraction:
        """Share of the budget for numeric statistics of the workload."""
        return self.method.workload_share if self.statistics else Fraction(0)

    def budget(self) -> BudgetShares:
        """Return the unspent budget of one run."""
        rows_per_unit = self.schema.unit.max_rows or 1
        return BudgetShares(
            total=self.total, accounting=self.method.added_up, rows_per_unit=rows_per_unit
        )

    def _rows_or_typical(self, rows: int | None) -> int:
        """Return the expected number of rows, or `TYPICAL_ROWS` if it is unknown."""
        known = self.schema.expected_rows(rows)
        return TYPICAL_ROWS if known is None else known

    @cached_property
    def rows_share(self) -> Fraction:
        """Share of the budget for the number of rows; 0 if the number is public."""
        return ROWS_SHARE if self.schema.counted_rows is None else Fraction(0)

    def stages(self, n_rows: int) -> Schedule:
        """Return the schedule of a run with this number of rows."""
        budget, left = self.budget(), 1 - float(self.statistics_share)
        made = schedule(
            n_rows=float(n_rows), sizes=self.sizes,
            total=float(budget.total) * left, pure=budget.pure,
            rows_per_unit=budget.rows_per_unit, has_target=self.target is not None,
        )  # fmt: skip
        return replace(
            made,
            one_ways=left * made.one_ways,
            forest=left * made.forest,
            choices=left * made.choices,
        )

    @cached_property
    def sizes(self) -> list[int]:
        """For each column, the number of values for which it gets budget."""
        return [values.planned_size for values in self.values]

    def step_epsilons(self, rows: int | None) -> dict[str, Fraction]:
        """Return the epsilon of each step, in proportion to the planned shares."""
        choices = round(self.stages(self._rows_or_typical(rows)).choices * 100)
        of_choices = Fraction(choices, 100) if len(self.values) > 1 else Fraction(0)
        parts = {
            "number of rows": self.rows_share,
            "workload": self.statistics_share,
            "selection (planned)": of_choices,
            "noisy tables (planned)": 1 - self.rows_share - self.statistics_share - of_choices,
        }
        return {step: share * self.method.epsilon for step, share in parts.items() if share}

    # --- guarantee and forecast -------------------------------------------------------------------

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed unit."""
        method, unit = self.method, self.schema.unit
        return (added_or_removed(method.epsilon, method.delta, unit, method.added_up),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the promise; with a prior, that the prior is public."""
        prior = self.method.prior
        if prior is None:
            return self.schema.conditions
        reason = self.method.prior_public
        if prior.kind == "release":
            known = prior.added
            known += "" if reason is None else f" It was confirmed as public: {reason}"
        else:
            known = f"It was given as a public table: {reason}"
        return (
            *self.schema.conditions,
            f"The prior. Rows also follow {prior.name!r}; this promise does not cover what the "
            f"prior reveals about anyone. {known}",
        )

    @property
    def starts_from(self) -> Prior | None:
        """The prior of the parameters."""
        return self.method.prior

    @property
    def why_public(self) -> str | None:
        """The reason of the parameters."""
        return self.method.prior_public

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of tables, their noise, the number of cells and the memory."""
        known, n_rows = self.schema.expected_rows(rows), self._rows_or_typical(rows)
        stages, n_columns = self.stages(n_rows), len(self.values)
        n_chosen = stages.n_rounds * stages.n_picks
        buckets = [min(v.size, MAX_INTERVALS if v.is_ordered else MAX_BUCKETS) for v in self.values]
        n_pairs = sum(buckets) ** 2 // 2
        held = self.method.particles * (2 * n_columns + 2 * (2 * n_columns + n_chosen))
        output = 12 * n_columns * min(self.method.max_published, n_rows)
        return Forecast(
            lines={
                "one-way tables": n_columns,
                "pairs in the spanning forest, at most": stages.n_edges,
                "tables selected in adaptive rounds, about": n_chosen,
                **self._noise_lines(stages),
                **self._workload_lines(stages, n_rows),
                **self._warnings(stages, known),
            },
            split=self.step_epsilons(rows),
            n_cells=sum(self.sizes) + n_pairs,
            memory_mb=(24 * n_pairs + held + output) / 1e6 + 20,
        )

    def _noise_lines(self, stages: Schedule) -> dict[str, str | float | int]:
        """Return the noise standard deviation of the tables of each stage."""
        spent = float(self.rows_share + self.statistics_share)
        left = 1 - stages.one_ways - stages.forest - stages.choices - spent
        n_chosen = stages.n_rounds * stages.n_picks
        parts = {
            "a one-way count": stages.one_ways / len(self.values),
            "a count in a pair of the spanning forest": stages.forest / max(stages.n_edges, 1),
            "a count in a table of the adaptive rounds": max(left, 0.0) / max(n_chosen, 1),
        }
        return {
            f"standard deviation of {what}, about": round(self._std(share), 1)
            for what, share in parts.items()
            if share > 0
        }

    def _workload_lines(self, stages: Schedule, n_rows: int) -> dict[str, str | float | int]:
        """Return the expected half-width of each item of the workload."""
        lines: dict[str, str | float | int] = {}
        for item in self.workload:
            if item.queries:
                found = item.forecast(self.schema, n_rows, self._noise_of_sums)
                lines[f"half-width of {item.text}, about"] = found
                continue
            n_tables = max(stages.n_rounds * stages.n_picks, 1)
            share = (1 - stages.one_ways - stages.forest - stages.choices) / n_tables
            lines[f"half-width of a count of {item.text} if it is measured, about"] = round(
                NORMAL * self._std(share), 1
            )
        return lines

    def _noise_of_sums(self, of_row: Sensitivity) -> TableNoise:
        """Return the noise of the sums of an item, given their sensitivity to one row."""
        budget = self.budget()
        share = self.statistics_share / len(self.statistics)
        return budget.count_noise(share, replace(of_row, rows=budget.rows_per_unit))

    def _warnings(self, stages: Schedule, rows: int | None) -> dict[str, str | float | int]:
        """Return lines on assumed rows, binned columns, and too few rows."""
        lines: dict[str, str | float | int] = {}
        if rows is None:
            lines["assumed rows"] = f"{TYPICAL_ROWS:,}; pass --rows for a better forecast"
            lines["rows below which every count is mostly noise, about"] = self.needed_rows()
        if wide := [values.name for values in self.values if values.is_wide]:
            lines["columns binned automatically (paid for with privacy budget)"] = ", ".join(wide)
        for values in self.values:
            if not values.is_wide and isinstance(values.rule, int):
                lines[f"column {values.name!r} has too many values"] = (
                    f"counted in {values.n_values:,} groups of its taxonomy"
                )
        n_columns = len(self.values)
        first = min(stages.one_ways / n_columns, 1.0)
        if rows is not None and rows < 3 * n_columns * self._std(first):
            lines["warning"] = (
                f"{rows:,} rows are few for {n_columns} columns and this budget: rare values will "
                "be merged, and weak dependence will be lost. Increase epsilon, or publish fewer "
                "columns."
            )
        return lines

    def _std(self, share: float) -> float:
        """Return the standard deviation of a count measured with a share of the budget."""
        return self.budget().count_noise(as_share(share)).std

    @property
    def judged_share(self) -> float:
        """Share of the rows whose count must not be mostly noise; see `uninformative`.

        It is 0.1: if counts of that size are noise, so are those of pairs, and fits fail. A prior
        or earlier measurements add information, so the default applies with them.
        """
        return 0.1 if self.prior is None and self.earlier is None else super().judged_share

    def needed_rows(self) -> int:
        """Estimate, within 2%, the least number of rows for which a release is informative."""
        few, many = 1, 2
        while self.uninformative(many) and many < _MANY_ROWS:
            few, many = many, 2 * many
        while many - few > max(1, many // 50):
            middle = (few + many) // 2
            few, many = (middle, many) if self.uninformative(middle) else (few, middle)
        return many

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the error of a count by one column, for the worst column and a typical one.

        Each column has its own noisy table, measured first. An answer that combines all tables is
        no worse than one from this table alone, so later measurements do not matter here.
        """
        stages = self.stages(needed_rows(self.schema.expected_rows(rows)))
        parts = divided(min(stages.one_ways, float(1 - self.rows_share)), self.sizes)
        kept = [as_share(1 - CUT_SHARE) if v.is_wide else 1 for v in self.values]
        budget = self.budget()
        errors = [
            _sum_error(budget.count_noise(part * left), n_asked(share, size))
            for size, part, left in zip(self.sizes, parts, kept, strict=True)
        ]
        widths = [error.half_width for error in errors]
        worst = int(np.argmax(widths))
        return replace(
            errors[worst], typical=float(np.median(widths)), worst=self.values[worst].name
        )

    @property
    def spends_all(self) -> bool:
        """False: noise is rounded up, and shares that are too small to use remain."""
        return False

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns."""
        from hushtable.methods.quilt.estimator import QuiltEstimator  # noqa: PLC0415 - plans do not need it

        return reader_of(QuiltEstimator, self, released).association_kept()

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Measure, select, fit, and draw rows."""
        state, budget = self.fitted(source, noise)
        n_rows = self.n_published(state)
        drawn = state.model.draw(n_rows)
        names = [known.counted.values.name for known in state.columns]
        codes = {name: codes_drawn(state, drawn, place) for place, name in enumerate(names)}
        self._redraw_breaks(state, drawn, codes)
        columns = {n: to_values(self.schema.attributes[n], codes[n]) for n in names}
        return self.released(state, budget, pa.table(columns))

    def _possible_in(self, state: FitState) -> list[tuple[Group, NDArray[np.bool_]]]:
        """Return which combinations of buckets the rules of the schema allow.

        A combination is impossible if all values in its buckets break the rule.
        """
        names, recode = list(self.schema.attributes), state.merging()
        found = []
        for rule in self.rules:
            group = tuple(sorted(map(names.index, rule.columns)))
            sizes = [state.model.sizes[column] for column in group]
            if math.prod(sizes) > MAX_TABLE_CELLS:
                continue
            grid = np.indices(sizes).reshape(len(group), -1)
            cells = {names[column]: places for column, places in zip(group, grid, strict=True)}
            cut = {name: recode[name] for name in cells if name in recode}
            found.append((group, (rule.shares(cut, cells) > 0).reshape(sizes)))
        return found

    def _redraw_breaks(
        self, state: FitState, drawn: SampledParticles, codes: dict[str, NDArray[np.int64]]
    ) -> None:
        """Draw values of rows that break a rule again, inside the same buckets."""
        for rule, _ in product(self.rules, range(_N_REDRAWS)):
            breaks = np.flatnonzero(~rule.mask(codes))
            if not len(breaks):
                continue
            for place, known in enumerate(state.columns):
                values = known.counted.values
                if values.name in rule.columns:
                    buckets = drawn.column(place)[breaks].astype(np.int64)
                    codes[values.name][breaks] = values.codes(
                        buckets, known.buckets, known.shares, state.model.rng
                    )

    def n_published(self, state: FitState) -> int:
        """Return the number of rows to publish."""
        return min(max(round(state.total), 0), self.method.max_published)

    def fitted(self, source: SealedTable, noise: Noise) -> tuple[FitState, BudgetShares]:
        """Measure, select and fit; return the state of the fit and the shares that were spent."""
        budget = self.budget()
        measurer = PrivateMeasurer(source, noise, budget)
        state = fit(
            measurer,
            self.values,
            stages_for=self.stages,
            public_rows=self.schema.counted_rows,
            target=self.target,
            n_particles=self.method.particles,
            seed=noise.integer_below(2**64),
            prior=self.prior,
            earlier=self.earlier,
            possible_in=self._possible_in,
            marginals=tuple(map(self._group, self.workload)),
            measure_workload=partial(self._measured_sums, measurer),
        )
        return state, budget

    def _group(self, item: WorkloadItem) -> Group:
        """Return the indices of the columns of an item."""
        return tuple(sorted(map(list(self.schema.attributes).index, item.columns)))

    def _measured_sums(self, measurer: PrivateMeasurer, state: FitState) -> list[MeasuredSums]:
        """Measure the sums of the workload."""
        shares = {known.counted.values.name: known.code_shares for known in state.columns}
        share = self.statistics_share / max(len(self.statistics), 1)
        return [
            item.measured(measurer, self._group(item), shares, state.model.total, share)
            for item in self.statistics
        ]

    def released(self, state: FitState, budget: BudgetShares, rows: pa.Table) -> Released:
        """Return the drawn rows, and the tables and settings behind them."""
        return Released(
            tables={"data": rows, **tables_of(state)},
            settings={**settings_of(state, budget, rows.num_rows), **self._of_prior(state)},
            warnings=warnings_of(state),
        )

    def _of_prior(self, state: FitState) -> dict[str, Any]:
        """Return the settings that describe how the prior was used."""
        if self.prior is None:
            return {}
        believed = [] if state.pair_prior is None else list(state.pair_prior.tables)
        return {
            "prior": {
                "columns": list(self.prior.codes),
                "prior_variance": round(state.prior_variance, 4)
                if math.isfinite(state.prior_variance)
                else None,
                "fitted_pairs": [list(group) for group in believed],
            }
        }


def _conditions(schema: Schema) -> list[Predicate]:
    """Return the conditions of rows that keep the rules of a schema."""
    if not schema.rules:
        return []
    from hushtable.query.where.rules import rules_of  # noqa: PLC0415 - slow to import

    return [rule.kept for rule in rules_of(schema)]


def _with_kinds(values: CountedDomain, rules: Sequence[Predicate]) -> CountedDomain:
    """Add the classes of values that rules compare with constants."""
    from hushtable.query.where.code_classes import classify  # noqa: PLC0415 - slow to import

    column, kinds = values.column, np.zeros(values.n_values, np.int64)
    for rule in rules if not values.is_wide else ():
        if values.name in rule.columns:
            classes = classify(rule.formula, values.name, column.size, column.n_values)
            if classes.n_classes < column.size:  # else the rule compares columns
                label = classes.of(values.first_codes[: values.n_values])
                kinds = np.unique(kinds * classes.n_classes + label, return_inverse=True)[1]
    return replace(values, kinds=kinds) if kinds.any() else values


def _sum_error(noise: TableNoise, n_counts: int) -> CountError:
    """Return the error of a sum of this number of noisy counts."""
    if noise.pure:
        return laplace_error(1 / noise.parameter, n_counts, _ONE_COLUMN)
    rounding = Fraction(1, 12) if noise.accounting == "gaussian" else 0
    return gaussian_error(noise.parameter + rounding, n_counts, _ONE_COLUMN)


def codes_drawn(state: FitState, drawn: SampledParticles, place: int) -> NDArray[np.int64]:
    """Draw codes of the schema for the buckets of one column of rows."""
    known = state.columns[place]
    v = known.counted.values
    merged = v.is_ordered and known.n_buckets < v.size
    return v.codes(
        drawn.column(place).astype(np.int64),
        known.buckets,
        known.shares,
        state.model.rng,
        state.model.tilts(drawn.particles, place)[drawn.places] if merged else None,
    )
