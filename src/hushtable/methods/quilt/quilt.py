"""quilt: rows from overlapping noisy tables that were chosen privately and sewn together.

The promise, the algorithm and the proofs are in ``quilt.md`` beside this file.

What a release holds is said in ``handed_out.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_values
from hushtable.engine.sealed import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released, misfits
from hushtable.methods.count_error import gaussian_error, laplace_error, n_asked, needed_rows
from hushtable.methods.parameters import parameter, whole
from hushtable.methods.prior import Prior, cost_in_words, read_prior
from hushtable.methods.quilt.carried import Carried
from hushtable.methods.quilt.cuts import CUT_SHARE, is_wide, planned_size
from hushtable.methods.quilt.domains import MAX_BUCKETS, MAX_INTERVALS, Values, values_of
from hushtable.methods.quilt.handed_out import settings_of, tables_of, warnings_of
from hushtable.methods.quilt.meter import (
    Accounting,
    Meter,
    Purse,
    TableMechanism,
    as_share,
    budget_of,
)
from hushtable.methods.quilt.particles import Drawn
from hushtable.methods.quilt.patchwork import Patchwork, divided
from hushtable.methods.quilt.prior import PriorRows
from hushtable.methods.quilt.schedule import ROWS_SHARE, Schedule, schedule
from hushtable.methods.quilt.sewing import sew
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP, Unit
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema

TYPICAL_ROWS = 30_000
"""What a forecast takes for the number of rows where it is not told."""

LEAST_PARTICLES = 1000

_MANY_ROWS = 10**12

_ONE_COLUMN = (
    "The question is about one column, a typical one or the one where that is worst, and takes the "
    "same share of its values (of whole bins, where it is counted in bins) as of the rows; their "
    "number decides how the budget is divided. A question about several columns is also off by "
    "what the model gets wrong, which depends on the private rows; a rehearsal (--rehearse) "
    "gives an idea of that."
)


def delta_or_zero(name: str, given: Any) -> Fraction:
    """Read a delta that may be 0, the pure promise."""
    value = as_rational(given, name=name)
    if not 0 <= value < 1:
        raise ParameterError(f"{name} is {given}; it must be at least 0 and below 1.")
    return parameters.delta(name, value) if value else value


def added_or_removed(
    epsilon: Fraction, delta: Fraction, unit: Unit, accounting: Accounting
) -> PureDP | ApproxDP:
    """Promise what a run that spends `budget_of` this keeps for one unit more or less."""
    if accounting == "pure":
        return PureDP(epsilon=epsilon, unit=unit, neighbors="add-remove")
    by = (
        {"rho": concentrated_share(epsilon, delta)}
        if accounting == "concentrated"
        else {"mu": gaussian_share(epsilon, delta)}
    )
    return ApproxDP(epsilon=epsilon, delta=delta, unit=unit, neighbors="add-remove", **by)


def _reason(name: str, given: Any) -> str:
    """Read a sentence."""
    if not isinstance(given, str) or not given.strip():
        raise ParameterError(f"{name} is {given!r}; say in words why the prior is public.")
    return given.strip()


@dataclass(frozen=True, kw_only=True)
class Quilt(Method):
    """Publish synthetic rows and the noisy tables they were made from.

    Tables of one column are measured first, then pairs of columns (with a target also pairs with
    it) that the model so far gets most wrong, chosen privately. A log-linear model is fitted to
    all of them, and rows are drawn from it.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, such as 1 or ln(5).
    delta : number or str
        Chance of exceeding epsilon, such as 1e-9; with 0 the promise is pure. The noise is then
        Laplace's.
    target : str, optional
        Column to be predicted, if there is one. One pair with it is always measured, and where the
        budget allows, tables with it count more and may have two other columns. Other tables get
        less, so the role target in the schema alone does not do this.
    particles : int
        Rows that hold the model while it is fitted: more are more precise and take longer.
    max_published : int
        Publish at most so many synthetic rows.
    prior : path, Release or Prior, optional
        What is public already: an earlier release, or a public table, of some of the columns. The
        model starts from it, as far as noisy tables agree with it. The promise is the same; it
        must not be made of private rows but through a promise of its own.
    prior_public : str, optional
        Reason why the prior is public, recorded in ledger and statement. Required for a prior that
        is not a release with differential privacy, and for one that the ledger did not pay for.
    accounting : {"gaussian", "concentrated"}
        How what is spent is added up where there is a delta. With ``gaussian`` tables have 5 to 8 %
        less noise at the same epsilon and delta. A ledger adds up what releases cost in rho, and
        that is then 9 to 18 % more than with ``concentrated``, which is better where one cap is to
        hold many releases.

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
    paper: ClassVar[str] = "hushtable's own, after McKenna and others' AIM and MST."
    summary: ClassVar[str] = (
        "Synthetic rows from noisy tables of columns that were chosen privately."
    )
    estimator_kind: ClassVar[str] = "quilt"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=delta_or_zero, default=Fraction(0))
    target: str | None = parameter(default=None)
    particles: int = parameter(read=whole(at_least=LEAST_PARTICLES), default=40_000)
    max_published: int = parameter(read=whole(), default=1_000_000)
    prior: Prior | None = parameter(read=read_prior, default=None)
    prior_public: str | None = parameter(read=_reason, default=None)
    accounting: Literal["gaussian", "concentrated"] = parameter(default="gaussian")

    @property
    def added_up(self) -> Accounting:
        """What is added up: epsilon itself where there is no delta."""
        return self.accounting if self.delta else "pure"

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        if not fields_are_right:
            return []
        if self.prior_public is not None and self.prior is None:
            return ["prior_public is given without a prior; say what is public."]
        if self.prior is not None and self.prior.kind == "table" and self.prior_public is None:
            return [
                f"prior is {self.prior.name!r}, which is no release that promises differential "
                "privacy: a private table would be published through it without a promise. If it "
                "is public, say why in words (prior_public, --prior-public)."
            ]
        return []

    def parameters(self) -> dict[str, Any]:
        """Give the parameters as plain data: of a prior what it is, and its digest."""
        plain = super().parameters()
        return plain if self.prior is None else {**plain, "prior": self.prior.described}

    def refuse_data(self, data: Any) -> None:
        """Refuse a private table that is the prior, too; no row is read."""
        if self.prior is not None and self.prior.is_file_of(data):
            raise ParameterError(
                f"prior {self.prior.name!r} is the private table itself: it would be published "
                "without a promise. Give what is public, or no prior."
            )

    def plan(self, schema: Schema) -> QuiltPlan:
        """Work out everything that is fixed before the data is read, or refuse."""
        problems = misfits(schema, self.name)
        names = list(schema.attributes)
        if self.target is not None and self.target not in names:
            problems.append(
                f"target is {self.target!r}, which is not a published column; the schema has "
                f"{', '.join(names)}."
            )
        if problems:
            raise ParameterError(problems)
        earlier = None if self.prior is None else self.prior.earlier(schema)
        rows = self.prior is not None and earlier is None
        return QuiltPlan(
            method=self,
            schema=schema,
            values=tuple(values_of(schema)),
            target=None if self.target is None else names.index(self.target),
            total=budget_of(self.epsilon, self.delta, self.added_up),
            prior=PriorRows(self.prior.codes(schema)) if self.prior and rows else None,
            carried=None if earlier is None else Carried(earlier, names),
        )


@dataclass(frozen=True)
class QuiltPlan(Plan[SealedTable]):
    """Hold how the columns of a schema are counted, and what may be spent on them.

    Parameters
    ----------
    method : Quilt
        The parameters.
    schema : Schema
        The public schema.
    values : tuple of Values
        How each column is counted.
    target : int or None
        The place of the column to be predicted.
    total : Fraction
        What a run may spend, as it is added up (`budget_of`).
    prior : PriorRows or None
        Public rows to start from.
    carried : Carried or None
        What earlier waves of a series measured.
    """

    method: Quilt
    schema: Schema
    values: tuple[Values, ...]
    target: int | None
    total: Fraction
    prior: PriorRows | None = None
    carried: Carried | None = None

    def purse(self) -> Purse:
        """Give the budget of one run, untouched."""
        reach = self.schema.unit.max_rows or 1
        return Purse(total=self.total, accounting=self.method.added_up, reach=reach)

    @property
    def rows_share(self) -> Fraction:
        """What is spent on the number of rows."""
        return ROWS_SHARE if self.schema.counted_rows is None else Fraction(0)

    def stages(self, n_rows: int) -> Schedule:
        """Divide the budget as a run does that finds so many rows."""
        purse = self.purse()
        return schedule(
            n_rows=float(n_rows), sizes=[planned_size(v) for v in self.values],
            total=float(purse.total), pure=purse.pure, reach=purse.reach,
            has_target=self.target is not None,
        )  # fmt: skip

    def split(self, choices: float) -> dict[str, Fraction]:
        """Say how epsilon is divided, in proportion to the shares that are planned."""
        of_choices = Fraction(round(choices * 100), 100) if len(self.values) > 1 else Fraction(0)
        parts = {
            "number of rows": self.rows_share,
            "choices (planned)": of_choices,
            "noisy tables (planned)": 1 - self.rows_share - of_choices,
        }
        return {step: share * self.method.epsilon for step, share in parts.items() if share}

    # --- what hangs on it -------------------------------------------------------------------------

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed unit."""
        method, unit = self.method, self.schema.unit
        return (added_or_removed(method.epsilon, method.delta, unit, method.added_up),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted: of a prior, that it is public by itself."""
        prior = self.method.prior
        if prior is None:
            return self.schema.conditions
        reason = self.method.prior_public
        if prior.kind == "release":
            known = f"It is a release with its own promise ({cost_in_words(prior.cost)})"
            known += ", which adds to this one."
            known += "" if reason is None else f" It was confirmed as public: {reason}"
        else:
            known = f"It was given as a public table: {reason}"
        return (
            *self.schema.conditions,
            f"The prior. Rows also follow {prior.name!r}; this promise does not cover what that "
            f"tells about anybody. {known}",
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
        """Say how many tables will be measured and how noisy they are."""
        known = self.schema.expected_rows(rows)
        n_rows = TYPICAL_ROWS if known is None else known
        stages, n_columns = self.stages(n_rows), len(self.values)
        n_chosen = stages.n_rounds * stages.n_picks
        buckets = [min(v.size, MAX_INTERVALS if v.is_ordered else MAX_BUCKETS) for v in self.values]
        n_pairs = sum(buckets) ** 2 // 2
        held = self.method.particles * (2 * n_columns + 2 * (2 * n_columns + n_chosen))
        output = 12 * n_columns * min(self.method.max_published, n_rows)
        return Forecast(
            lines={
                "tables of one column": n_columns,
                "pairs of the forest, at most": stages.n_edges,
                "tables chosen in rounds, about": n_chosen,
                **self._noise_lines(stages),
                **self._warnings(stages, known),
            },
            split=self.split(stages.choices),
            n_cells=sum(planned_size(v) for v in self.values) + n_pairs,
            memory_mb=(24 * n_pairs + held + output) / 1e6 + 20,
        )

    def _noise_lines(self, stages: Schedule) -> dict[str, str | float | int]:
        """Say how noisy the tables of each stage are."""
        left = 1 - stages.one_ways - stages.forest - stages.choices - float(self.rows_share)
        n_chosen = stages.n_rounds * stages.n_picks
        parts = {
            "a count of one column": stages.one_ways / len(self.values),
            "a count of a pair of the forest": stages.forest / max(stages.n_edges, 1),
            "a count of a table of the rounds": max(left, 0.0) / max(n_chosen, 1),
        }
        return {
            f"standard deviation of {what}, about": round(self._std(share), 1)
            for what, share in parts.items()
            if share > 0
        }

    def _warnings(self, stages: Schedule, rows: int | None) -> dict[str, str | float | int]:
        """Say what was assumed, what is counted in bins, and whether the rows are few."""
        lines: dict[str, str | float | int] = {}
        if rows is None:
            lines["shown for"] = f"{TYPICAL_ROWS:,} rows, say; tell their number for better"
            lines["rows below which every count is mostly noise, about"] = self.needed_rows()
        if wide := [values.name for values in self.values if is_wide(values)]:
            lines["of many values, cut into intervals where people are, by noisy counts"] = (
                ", ".join(wide)
            )
        for values in self.values:
            if not is_wide(values) and isinstance(values.rule, int):
                lines[f"column {values.name!r} has too many values"] = (
                    f"counted in {values.n_values:,} groups of its taxonomy"
                )
        n_columns = len(self.values)
        first = min(stages.one_ways / n_columns, 1.0)
        if rows is not None and rows < 3 * n_columns * self._std(first):
            lines["warning"] = (
                f"{rows:,} rows are few for {n_columns} columns and this budget: rare values will "
                "be merged, and weak dependence will not be seen. Spend more, or publish fewer "
                "columns."
            )
        return lines

    def _std(self, share: float) -> float:
        """Give the standard deviation of a count that a share of the budget buys."""
        return self.purse().count_noise(as_share(share)).std

    @property
    def judged_share(self) -> float:
        """A tenth of the rows: where groups of that size are noise, no pair is seen, and fits fail.

        A plan that also starts from something public knows more than its own noise tells.
        """
        return 0.1 if self.prior is None and self.carried is None else super().judged_share

    def needed_rows(self) -> int:
        """Return how many rows a release needs that is not mostly noise, roughly."""
        few, many = 1, 2
        while self.hollow(many) and many < _MANY_ROWS:
            few, many = many, 2 * many
        while many - few > many // 50:
            middle = (few + many) // 2
            few, many = (middle, many) if self.hollow(middle) else (few, middle)
        return many

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Add up the noise of the values of one column, the one where that is worst, and a typical.

        Each column has a noisy table of its own, measured first. The best answer of all that weigh
        the tables is no worse than this one alone; what was chosen later does not matter.
        """
        stages = self.stages(needed_rows(self.schema.expected_rows(rows)))
        sizes = [planned_size(v) for v in self.values]
        parts = divided(min(stages.one_ways, float(1 - self.rows_share)), sizes)
        kept = [as_share(1 - CUT_SHARE) if is_wide(v) else 1 for v in self.values]
        errors = [
            _sum_error(self.purse().count_noise(part * left), n_asked(share, size))
            for size, part, left in zip(sizes, parts, kept, strict=True)
        ]
        widths = [error.half_width for error in errors]
        worst = int(np.argmax(widths))
        return replace(
            errors[worst], typical=float(np.median(widths)), worst=self.values[worst].name
        )

    @property
    def spends_all(self) -> bool:
        """Noise is rounded up, and shares too small to buy anything are left."""
        return False

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Measure, choose, fit, draw."""
        quilt, purse = self.sewn(source, noise)
        n_rows = self.n_published(quilt)
        drawn = quilt.field.draw(n_rows)
        columns = {
            known.counted.values.name: to_values(
                known.counted.values.column, codes_drawn(quilt, drawn, place)
            )
            for place, known in enumerate(quilt.columns)
        }
        return self.released(quilt, purse, pa.table(columns))

    def n_published(self, quilt: Patchwork) -> int:
        """Say how many rows are published."""
        return min(max(round(quilt.total), 0), self.method.max_published)

    def sewn(self, source: SealedTable, noise: Noise) -> tuple[Patchwork, Purse]:
        """Measure, choose and fit; give what was sewn, and what was spent on it."""
        purse = self.purse()
        quilt = sew(
            Meter(source, noise, purse),
            self.values,
            stages_for=self.stages,
            public_rows=self.schema.counted_rows,
            target=self.target,
            n_particles=self.method.particles,
            seed=noise.integer_below(2**64),
            prior=self.prior,
            carried=self.carried,
        )
        return quilt, purse

    def released(self, quilt: Patchwork, purse: Purse, rows: pa.Table) -> Released:
        """Hand out rows that were drawn, and all that they were drawn from."""
        return Released(
            tables={"data": rows, **tables_of(quilt)},
            settings={**settings_of(quilt, purse, rows.num_rows), **self._of_prior(quilt)},
            warnings=warnings_of(quilt),
        )

    def _of_prior(self, quilt: Patchwork) -> dict[str, Any]:
        """Say what became of the prior."""
        if self.prior is None:
            return {}
        believed = [] if quilt.belief is None else list(quilt.belief.tables)
        return {
            "prior": {
                "columns": list(self.prior.codes),
                "doubt": round(quilt.doubt, 4) if math.isfinite(quilt.doubt) else None,
                "believed": [list(group) for group in believed],
            }
        }


def _sum_error(noise: TableMechanism, n_counts: int) -> CountError:
    """Give the error of so many noisy counts added up."""
    if noise.pure:
        return laplace_error(1 / noise.parameter, n_counts, _ONE_COLUMN)
    rounding = Fraction(1, 12) if noise.accounting == "gaussian" else 0
    return gaussian_error(noise.parameter + rounding, n_counts, _ONE_COLUMN)


def codes_drawn(quilt: Patchwork, drawn: Drawn, place: int) -> NDArray[np.int64]:
    """Draw codes of the schema for the buckets of one column of rows."""
    known = quilt.columns[place]
    v = known.counted.values
    merged = v.is_ordered and known.n_buckets < v.size
    return v.codes(
        drawn.column(place).astype(np.int64),
        known.buckets,
        known.shares,
        quilt.field.coins,
        quilt.field.tilts(drawn.particles, place)[drawn.places] if merged else None,
    )
