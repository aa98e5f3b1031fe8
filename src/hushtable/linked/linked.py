"""linked: persons and the tables that hang on them, by quilts that are joined at the keys.

The promise, the algorithm and the proof are in ``linked.md`` beside this file.

The release
-----------
For each table of the schema, under its name, drawn rows: keys, its own columns, and what is told
about the tables that hang on it (``n_visits``; facts). Beside each lie the tables of its quilt but
the rows, see `hushtable.methods.quilt.quilt`: ``visits.measured``, ``visits.buckets``,
``visits.factors`` and ``visits.candidates``. They are about *wide* rows: a row beside all that it
hangs on. A table with an order also has ``visits.steps``: noisy tables of the buckets of a column
(rows) by those of the row before (columns), below each other: ``table``, ``cell``, ``count``.

The settings of the estimator: ``linked`` (the schema of all tables), ``quilts`` (for each table the
settings of its quilt), ``steps`` (for each table with an order its columns, in the order of these
noisy tables, with their number of buckets ``size`` and the ``std`` of their noise), ``notes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hushtable.codes import below_each_other, numbers, to_values
from hushtable.engine.sealed import SealedTables
from hushtable.errors import ParameterError
from hushtable.linked.drawing import (
    Drawn,
    draw_children,
    draw_persons,
    n_drawn,
    seen_below,
)
from hushtable.linked.steps import STEP_SHARE, Step, measure_steps
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.parameters import Parameters, parameter, whole
from hushtable.methods.quilt.domains import values_of
from hushtable.methods.quilt.handed_out import warnings_of
from hushtable.methods.quilt.meter import as_share, budget_of
from hushtable.methods.quilt.patchwork import Patchwork
from hushtable.methods.quilt.prior import PriorRows
from hushtable.methods.quilt.quilt import (
    LEAST_PARTICLES,
    Quilt,
    QuiltPlan,
    added_or_removed,
    delta_or_zero,
)
from hushtable.predicate.facts import facts_of
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.linked import LinkedSchema

STEPS = "steps"
"""What the noisy tables of a column and the same column of the row before are called."""

KINDS = ("measured", "buckets", "factors", "candidates")
"""What a quilt publishes beside rows."""


@dataclass(frozen=True, kw_only=True)
class Linked(Parameters):
    """Publish persons and the tables that hang on them, with keys that fit, under one promise.

    Each table gets a quilt: persons with the number of rows that hang on them; every other table
    beside the columns of its parent. Where rows have an order, it is measured how they follow each
    other.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, for a person with all their rows.
    delta : number or str
        Chance of exceeding epsilon, such as 1e-9; with 0 the promise is pure.
    person_share : number
        Share of the budget for the table of persons; the others divide the rest evenly.
    particles : int
        Rows that hold the model of a table while it is fitted.
    max_published : int
        Publish at most so many persons.

    Examples
    --------
    >>> Linked(epsilon=1, delta="1e-9").person_share
    Fraction(3, 10)
    """

    name: ClassVar[str] = "linked"
    paper: ClassVar[str] = "hushtable's own, quilt over keys."
    summary: ClassVar[str] = (
        "Tables that belong together, with keys that fit: see `hushtable linked`."
    )
    estimator_kind: ClassVar[str] = "linked"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=delta_or_zero, default=Fraction(0))
    person_share: Fraction = parameter(read=parameters.part, default=Fraction(3, 10))
    particles: int = parameter(read=whole(at_least=LEAST_PARTICLES), default=40_000)
    max_published: int = parameter(read=whole(), default=1_000_000)

    def plan(self, schema: LinkedSchema) -> LinkedPlan:
        """Work out everything that follows from parameters and schema, or refuse; sees no data."""
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
        if problems:
            raise ParameterError(problems)
        return LinkedPlan(method=self, linked=schema, parts=parts, steps=steps, total=total)


@dataclass(frozen=True)
class LinkedPlan(Plan[SealedTables]):
    """Hold a plan for each table, whose budgets add up to that of the promise.

    Parameters
    ----------
    method : Linked
        The parameters.
    linked : LinkedSchema
        What is public about the tables.
    parts : mapping of str to QuiltPlan
        For each table how its wide rows are counted, and what may be spent on them.
    steps : mapping of str to Fraction
        For each table what may be spent on how its rows follow each other; 0 without an order.
    total : Fraction
        What a run may spend, as it is added up (`budget_of`).
    """

    method: Linked
    linked: LinkedSchema
    parts: Mapping[str, QuiltPlan]
    steps: Mapping[str, Fraction]
    total: Fraction

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override]
        """Describe the published persons."""
        return self.linked.persons

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed person, with all rows in all tables."""
        method, unit = self.parts[self.linked.root].method, self.linked.unit
        return (added_or_removed(method.epsilon, method.delta, unit, method.added_up),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted about all tables."""
        return self.linked.conditions

    @property
    def spends_all(self) -> bool:
        """Noise is rounded up, and shares too small to buy anything are left."""
        return False

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say what to expect of each table, where there are so many persons.

        Of other tables as many rows are supposed as half of the bounds allow.
        """
        lines: dict[str, str | float | int] = {}
        split: dict[str, Fraction] = {}
        n_cells, memory = 0, 0.0
        for name, part in self.parts.items():
            reach = self.linked.reach(name)
            told = part.forecast(None if rows is None else max(1, rows * (reach + 1) // 2))
            lines |= {f"{name}: {line}": figure for line, figure in told.lines.items()}
            if reach > 1:
                lines[f"{name}: rows of one person that count, at most"] = reach
            share = part.total / self.total
            split |= {f"{name}: {step}": share * epsilon for step, epsilon in told.split.items()}
            if self.steps[name]:
                split[f"{name}: steps"] = self.steps[name] / self.total * self.method.epsilon
            n_cells, memory = n_cells + told.n_cells, max(memory, told.memory_mb)
        return Forecast(lines=lines, split=split, n_cells=n_cells, memory_mb=memory)

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Say how far the count of a share of the persons will be off."""
        return self.parts[self.linked.root].count_error(rows=rows, share=share)

    # --- the run ----------------------------------------------------------------------------------

    def release(self, source: SealedTables, noise: Noise) -> Released:
        """Measure and draw each table, parents first; then write all of them with their keys."""
        facts = facts_of(self.linked)
        drawn: dict[str, Drawn] = {}
        quilts: dict[str, Patchwork] = {}
        made: dict[str, Released] = {}
        steps: dict[str, list[Step]] = {}
        for name, part in self.parts.items():
            quilt, purse = self._prepared(name, drawn, part).sewn(source.table(name), noise)
            quilts[name] = quilt
            steps[name] = self._stepped(name, source, noise, quilt)
            drawn[name] = (
                draw_persons(quilt, part.n_published(quilt))
                if name == self.linked.root
                else draw_children(quilt, self.linked, drawn, name, facts[name], steps[name])
            )
            size = {"rows": numbers(np.zeros(drawn[name].n_rows, np.int8))}
            made[name] = part.released(quilt, purse, pa.table(size))
        tables = {name: self._written(name, drawn[name]) for name in self.parts}
        for name, released in made.items():
            tables |= {f"{name}.{kind}": released.tables[kind] for kind in KINDS}
            if steps[name]:
                tables[f"{name}.{STEPS}"] = below_each_other([step.counts for step in steps[name]])
        return Released(
            tables=tables,
            settings={
                "linked": self.linked.to_dict(),
                "quilts": {name: _without_notes(released) for name, released in made.items()},
                "steps": {
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
        self, name: str, source: SealedTables, noise: Noise, quilt: Patchwork
    ) -> list[Step]:
        """Measure how rows of a table follow each other, where they have an order."""
        table = self.linked.tables[name]
        if table.order is None:
            return []
        columns = [table.order, *(column for column in table.attributes if column != table.order)]
        purse = replace(self.parts[name].purse(), total=self.steps[name])
        return measure_steps(source.steps(name), quilt, columns, noise, purse)

    def _prepared(self, name: str, drawn: Mapping[str, Drawn], part: QuiltPlan) -> QuiltPlan:
        """Let what hangs on drawn parents start from them: their columns are known already."""
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

    def _written(self, name: str, rows: Drawn) -> pa.Table:
        """Write rows with keys: the place of a row among those of its table, from one on."""
        table, columns = self.linked.tables[name], {}
        if table.key is not None:
            columns[table.key] = numbers(np.arange(1, rows.n_rows + 1))
        if table.foreign_key is not None:
            columns[table.foreign_key] = numbers(rows.parent + 1)
        kinds = {**table.attributes, **self.linked.told(name)}
        return pa.table(
            columns
            | {column: to_values(kind, rows.codes[column]) for column, kind in kinds.items()}
        )

    def _notes(self, quilts: Mapping[str, Patchwork]) -> list[str]:
        root = self.linked.root
        notes = [
            f"`{root}` and the tables that hang on it hold synthetic rows, no row is anybody's. "
            "Keys are numbers that were made up; each points at a row that is there.",
        ]
        for name, table in self.linked.tables.items():
            if table.parent is None:
                continue
            most = table.max_children or 1
            counted = next(
                c for c in quilts[table.parent].columns if c.counted.values.name == f"n_{name}"
            )
            table_of_n = counted.counted.table
            notes.append(
                f"Of a row of `{table.parent}` at most {most} rows of `{name}` count, a uniformly "
                f"random part where there are more. By a noisy count {int(table_of_n.counts[-1]):,}"
                f" have more (standard deviation {table_of_n.noise.std:,.0f}): there n_{name} is "
                f"{most + 1}, and {most} rows are published. Rows of `{name}` that hang on no row "
                f"of `{table.parent}` do not count."
            )
        return notes


def _without_notes(released: Released) -> dict[str, Any]:
    return {name: part for name, part in released.settings.items() if name != "notes"}
