"""Method contingency-table: noise on every cell of the full domain, without generalization.

A baseline for comparison. Guarantee and proof: ``contingency_table.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Released, schema_problems
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.diffgen.generalized_table import GeneralizedPlan, generalized_table
from hushtable.methods.parameters import parameter, said, whole
from hushtable.privacy.mechanisms.cells import DomainMechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.cell_sums import COUNT, NOISY_COUNT
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class ContingencyTable(Method):
    """Publish every combination of values with a noisy count.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    max_cells : int
        Maximum number of combinations in the domain.

    Examples
    --------
    >>> ContingencyTable(epsilon="1/2").max_cells
    1000000
    """

    name: ClassVar[str] = "contingency-table"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    max_cells: int = parameter(read=whole(), default=1_000_000)

    def plan(self, schema: Schema) -> ContingencyTablePlan:
        """Compute the noise of a cell, or refuse."""
        problems = schema_problems(schema, self.name, (COUNT, NOISY_COUNT))
        ParameterError.raise_if_any(problems)
        if schema.domain.size > self.max_cells:
            raise TooLarge(
                said("many combinations", n=schema.domain.size, max_cells=self.max_cells)
            )
        rate = self.epsilon / (schema.unit.max_rows or 1)
        groups = DomainMechanism(domain=schema.domain, rate=rate, max_cells=self.max_cells)
        return ContingencyTablePlan(method=self, schema=schema, groups=groups)


@dataclass(frozen=True)
class ContingencyTablePlan(GeneralizedPlan):
    """Plan of method contingency-table: the noise of each cell of a schema."""

    method: ContingencyTable
    schema: Schema
    groups: DomainMechanism

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of cells and their noise."""
        n_cells = self.groups.domain.size
        lines: dict[str, str | float | int] = {
            "standard deviation of a count": math.sqrt(self.groups.variance)
        }
        if rows is not None:
            lines["rows per cell, if evenly distributed"] = rows / n_cells
        memory = 8e-6 * n_cells * (2 * len(self.schema.attributes) + 6)
        return Forecast(
            lines=lines,
            split={"counts": self.method.epsilon},
            n_cells=n_cells,
            memory_mb=max(1.0, memory),
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from the noise of the cells."""
        return laplace_error(
            self.groups.rate,
            n_asked(share, self.groups.domain.size),
            "The question selects the same share of all combinations as of the rows.",
        )

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count all combinations once and add noise to each."""
        schema, groups = self.schema, self.groups
        columns = list(schema.attributes)
        noisy = noise.open(source.counts(columns), groups, "counts")
        return Released(
            tables={"data": generalized_table(schema, {}, columns, noisy)},
            settings={
                "target": None,
                "rate": str(groups.rate),
                "count_std": math.sqrt(groups.variance),
                "n_groups": groups.domain.size,
                "threshold": None,
                "row_total": schema.counted_rows,
                "class_sizes_scale": None,
                "columns": {},
            },
        )
