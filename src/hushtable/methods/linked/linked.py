"""The linked method: persons and their child tables, from quilts joined at the keys.

The promise, the algorithm and the proof are in ``linked.md`` beside this file.

The release
-----------
A release contains synthetic rows for each table of the schema, under the table's name. Their
columns are the keys, the table's own columns, and columns about its child tables: numbers of rows
(such as ``n_visits``) and facts. For a table ``visits``, it also contains the other tables of its
quilt (see `hushtable.methods.quilt.quilt`): ``visits.measured``, ``visits.buckets``,
``visits.factors`` and ``visits.candidates``. These describe *wide* rows, that is, rows joined with
all their ancestors. If the table has an order, ``visits.transitions`` (``table``, ``cell``,
``count``) contains noisy transition tables: the buckets of a column in a row, by its buckets in the
previous row.

The settings of the estimator: ``linked`` (the schema of all tables), ``quilts`` (for each table the
settings of its quilt), ``transitions`` (for each table with an order its columns, in the order of
these noisy tables, with their number of buckets ``size`` and the ``std`` of their noise), and
``notes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hushtable.engine.sealed_table import SealedTables
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.linked.estimator import KINDS, TRANSITIONS, LinkedEstimator
from hushtable.methods.linked.sampling import (
    STEP_SHARE,
    LinkedRows,
    TransitionTable,
    draw_children,
    draw_persons,
    measure_steps,
    n_drawn,
    seen_below,
    set_facts,
)
from hushtable.methods.parameters import Parameters, parameter, said, whole
from hushtable.methods.quilt.binning import values_of
from hushtable.methods.quilt.budget import as_share, budget_of
from hushtable.methods.quilt.fit import FitState
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import (
    LEAST_PARTICLES,
    Quilt,
    QuiltPlan,
    added_or_removed,
    delta_or_zero,
)
from hushtable.methods.quilt.serialize import warnings_of
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise.noise import Noise
from hushtable.query.where.rules import facts_of, facts_through
from hushtable.schema import Schema
from hushtable.schema.codes import below_each_other, numbers, to_values
from hushtable.schema.linked_schema import LinkedSchema


@dataclass(frozen=True, kw_only=True)
class Linked(Parameters):
    """Persons and their child tables as synthetic rows with matching keys, under one promise.

    Each table is measured with method quilt: persons with the number of their child rows, every
    other table joined with the columns of its parent. If rows have an order, transitions between
    successive rows are measured.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, for a person with all their rows.
    delta : number or str
        Probability of exceeding epsilon, such as 1e-9. With 0, the guarantee is pure differential
        privacy.
    person_share : number
        Share of the budget for the table of persons; the others divide the rest equally.
    particles : int
        Weighted rows that represent the model of a table during the fit.
    max_published : int
        Maximum number of synthetic persons.

    Examples
    --------
    >>> Linked(epsilon=1, delta="1e-9").person_share
    Fraction(3, 10)
    """

    name: ClassVar[str] = "linked"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=delta_or_zero, default=Fraction(0))
    person_share: Fraction = parameter(read=parameters.part, default=Fraction(3, 10))
    particles: int = parameter(read=whole(at_least=LEAST_PARTICLES), default=40_000)
    max_published: int = parameter(read=whole(), default=1_000_000)

    def plan(self, schema: LinkedSchema) -> LinkedPlan:
        """Determine everything that follows from parameters and schema; reads no data."""
        facts_of(schema)
        quilt = Quilt(
            epsilon=self.epsilon, delta=self.delta, particles=self.particles,
            max_published=self.max_published,
        )  # fmt: skip
        total = budget_of(self.epsilon, self.delta, quilt.added_up)
        n_below = len(schema.tables) - 1
        parts, steps, problems = {}, {}, []
        for name in schema.tables:
            root = name == schema.root
            share = self.person_share if root else (1 - self.person_share) / n_below
            wide = schema.wide(name)
            try:
                values = tuple(values_of(wide))
            except ParameterError as error:
                problems += [f"table {name!r}: {problem}" for problem in error.problems]
                continue
            of_steps = as_share(STEP_SHARE) if schema.tables[name].order else Fraction(0)
            steps[name] = share * of_steps * total
            parts[name] = QuiltPlan(
                method=quilt, schema=wide, values=values, target=None,
                total=share * (1 - of_steps) * total,
            )  # fmt: skip
        ParameterError.raise_if_any(problems)
        return LinkedPlan(method=self, linked=schema, parts=parts, steps=steps, total=total)


@dataclass(frozen=True)
class LinkedPlan(Plan[SealedTables]):
    """A quilt plan for each table; their budgets add up to that of the promise."""

    method: Linked
    linked: LinkedSchema
    parts: Mapping[str, QuiltPlan]  # for each table the plan of its wide rows
    steps: Mapping[str, Fraction]  # for each table the budget of transitions; 0 without an order
    total: Fraction  # budget of a run, in the units of `budget_of`

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override]
        """The schema of the published persons."""
        return self.linked.persons

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed person, with all rows in all tables."""
        method, unit = self.parts[self.linked.root].method, self.linked.unit
        return (added_or_removed(method.epsilon, method.delta, unit, method.added_up),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the promise, for all tables."""
        return self.linked.conditions

    @property
    def spends_all(self) -> bool:
        """False: noise is rounded up, and shares that are too small to use remain."""
        return False

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast each table, given the number of persons.

        A table with at most r rows per person is assumed to have (r + 1) / 2 rows per person.
        """
        lines: dict[str, str | float | int] = {}
        split: dict[str, Fraction] = {}
        n_cells, memory = 0, 0.0
        for name, part in self.parts.items():
            reach = self.linked.max_rows_per_person(name)
            told = part.forecast(None if rows is None else max(1, rows * (reach + 1) // 2))
            lines |= {f"{name}: {line}": figure for line, figure in told.lines.items()}
            if reach > 1:
                lines[f"{name}: maximum rows per person"] = reach
            share = part.total / self.total
            split |= {f"{name}: {step}": share * epsilon for step, epsilon in told.split.items()}
            if self.steps[name]:
                split[f"{name}: transitions"] = self.steps[name] / self.total * self.method.epsilon
            n_cells, memory = n_cells + told.n_cells, max(memory, told.memory_mb)
        return Forecast(lines=lines, split=split, n_cells=n_cells, memory_mb=memory)

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the error of a count of a share of the persons."""
        return self.parts[self.linked.root].count_error(rows=rows, share=share)

    # --- the run ----------------------------------------------------------------------------------

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns, of all tables.

        Columns are named with their table: within a table, and across keys.
        """
        estimator = LinkedEstimator(
            self.schema, self.method.parameters(), released.settings, released.tables
        )
        found: dict[tuple[str, str], float] = {}
        for name in self.parts:
            for pair, kept in estimator.quilt(name).association_kept().items():
                own = set(self.linked.tables[name].attributes) | set(
                    self.linked.child_columns(name)
                )
                if own & set(pair):  # pairs of the parents' columns belong to the parents
                    one, two = (c if c not in own else f"{name}.{c}" for c in pair)
                    found[one, two] = kept
        return found

    def release(self, source: SealedTables, noise: Noise) -> Released:
        """Measure and draw each table, parents first; then write all of them with their keys."""
        own = facts_of(self.linked)
        facts = {name: own[name] | facts_through(self.linked, name) for name in own}
        drawn: dict[str, LinkedRows] = {}
        quilts: dict[str, FitState] = {}
        made: dict[str, Released] = {}
        steps: dict[str, list[TransitionTable]] = {}
        for name, part in self.parts.items():
            quilt, budget = self._prepared(name, drawn, part).fitted(source.table(name), noise)
            quilts[name] = quilt
            steps[name] = self._stepped(name, source, noise, quilt)
            drawn[name] = (
                draw_persons(quilt, part.n_published(quilt))
                if name == self.linked.root
                else draw_children(quilt, self.linked, drawn, name, facts[name], steps[name])
            )
            size = {"rows": numbers(np.zeros(drawn[name].n_rows, np.int8))}
            made[name] = part.released(quilt, budget, pa.table(size))
        for name in reversed(
            [*self.parts]
        ):  # drawing children may have changed their parents' facts
            if (parent := self.linked.tables[name].parent) is not None:
                set_facts(drawn[name], drawn[parent], facts[name])
        tables = {name: self._written(name, drawn[name]) for name in self.parts}
        for name, released in made.items():
            tables |= {f"{name}.{kind}": released.tables[kind] for kind in KINDS}
            if steps[name]:
                tables[f"{name}.{TRANSITIONS}"] = below_each_other(
                    [step.counts for step in steps[name]]
                )
        return Released(
            tables=tables,
            settings={
                "linked": self.linked.to_dict(),
                "quilts": {name: _without_notes(released) for name, released in made.items()},
                TRANSITIONS: {
                    name: [
                        {"column": s.column, "size": len(s.counts), "std": s.noise.std}
                        for s in mine
                    ]
                    for name, mine in steps.items()
                    if mine
                },
                "notes": self._notes(quilts),
            },
            warnings=[said for name, quilt in quilts.items() for said in warnings_of(quilt, name)],
        )

    def _stepped(
        self, name: str, source: SealedTables, noise: Noise, quilt: FitState
    ) -> list[TransitionTable]:
        """Measure transitions between successive rows of a table with an order."""
        table = self.linked.tables[name]
        if table.order is None:
            return []
        columns = [table.order, *(column for column in table.attributes if column != table.order)]
        budget = replace(self.parts[name].budget(), total=self.steps[name])
        return measure_steps(source.steps(name), quilt, columns, noise, budget)

    def _prepared(self, name: str, drawn: Mapping[str, LinkedRows], part: QuiltPlan) -> QuiltPlan:
        """Return a child table's plan with the drawn parents as prior, one row per child.

        The columns of the parents are already determined, so they get little budget.
        """
        parent = self.linked.tables[name].parent
        if parent is None:
            return part
        sizes = n_drawn(self.linked, drawn, name)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        if not len(owners):
            return part
        seen = seen_below(self.linked, drawn, parent)
        return replace(
            part, prior=PriorRows({c: codes[owners] for c, codes in seen.items()}, firm=True)
        )

    def _written(self, name: str, rows: LinkedRows) -> pa.Table:
        """Return rows with keys: the position of a row in its table, starting at 1."""
        table, columns = self.linked.tables[name], {}
        if table.key is not None:
            columns[table.key] = numbers(np.arange(1, rows.n_rows + 1))
        if table.foreign_key is not None:
            columns[table.foreign_key] = numbers(rows.parent + 1)
        kinds = {**table.attributes, **self.linked.child_columns(name)}
        return pa.table(
            columns
            | {column: to_values(kind, rows.codes[column]) for column, kind in kinds.items()}
        )

    def _notes(self, quilts: Mapping[str, FitState]) -> list[str]:
        root = self.linked.root
        notes = [said("synthetic rows", root=root)]
        for name, table in self.linked.tables.items():
            if table.parent is None:
                continue
            most = table.max_children or 1
            counted = next(
                c for c in quilts[table.parent].columns if c.counted.values.name == f"n_{name}"
            )
            table_of_n = counted.counted.table
            notes.append(
                f"At most {most} rows of `{name}` were used per row of `{table.parent}`, a "
                f"uniformly random subset if it has more. About {int(table_of_n.counts[-1]):,} "
                f"have more (noisy count, standard deviation {table_of_n.noise.std:,.0f}): for "
                f"these, n_{name} is {most + 1} and {most} rows are published. Rows of `{name}` "
                f"without a parent in `{table.parent}` were not used."
            )
        return notes


def _without_notes(released: Released) -> dict[str, Any]:
    return {name: part for name, part in released.settings.items() if name != "notes"}
