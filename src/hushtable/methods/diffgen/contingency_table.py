"""The contingency table: noise on every cell of the full domain, nothing generalized.

A baseline to compare with. The promise and the proof are in ``contingency_table.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from hushtable.engine.base import Engine
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods.base import CountError, Forecast, Method, Released
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.diffgen.diffgen import name_problems
from hushtable.methods.diffgen.generalized_table import generalized_table
from hushtable.privacy.group_noise import GroupNoise
from hushtable.privacy.guarantee import Guarantee, PureDP, check_epsilon
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class ContingencyTable(Method):
    """Publish every combination of values with a noisy count.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss.
    max_cells : int
        Refuse domains with more combinations.

    Examples
    --------
    >>> ContingencyTable(epsilon="1/2").max_cells
    1000000
    """

    name: ClassVar[str] = "contingency-table"
    paper: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006; what DiffGen is compared with."
    summary: ClassVar[str] = "Noisy counts of all combinations of values; for small domains."
    estimator: ClassVar[str] = "generalized"

    epsilon: Fraction = field(
        metadata={"help": "Bound on the privacy loss of the whole release, such as 1 or ln(5)."}
    )
    max_cells: int = field(
        default=1_000_000, metadata={"help": "Largest domain that is published, in combinations."}
    )

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("epsilon", "max_cells"):
            try:
                value = as_rational(getattr(self, name), name=name)
                if name == "epsilon":
                    object.__setattr__(self, name, check_epsilon(value))
                elif value.denominator != 1 or value < 1:
                    problems.append(
                        f"max_cells is {self.max_cells}; it must be a whole number of at least 1."
                    )
                else:
                    object.__setattr__(self, name, int(value))
            except ParameterError as error:
                problems += error.problems
        if problems:
            raise ParameterError(problems)

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise pure differential privacy for one added or removed unit."""
        self._noise(schema)
        return (PureDP(epsilon=self.epsilon, unit=schema.unit, neighbors="add-remove"),)

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how many cells there are and how noisy they will be."""
        groups = self._noise(schema)
        n_cells = groups.domain.size
        lines: dict[str, str | float | int] = {
            "standard deviation of a count": math.sqrt(groups.variance)
        }
        if rows is not None:
            lines["rows per cell, if spread evenly"] = rows / n_cells
        memory = 8e-6 * n_cells * (2 * len(schema.attributes) + 6)
        return Forecast(
            lines=lines, split={"counts": self.epsilon}, n_cells=n_cells, memory_mb=max(1.0, memory)
        )

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Add up the noise of the cells."""
        groups = self._noise(schema)
        return laplace_error(
            groups.rate,
            n_asked(share, groups.domain.size),
            "The question takes the same share of all combinations as of the rows.",
        )

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Count all combinations once and add noise to every one."""
        schema = engine.schema
        groups = self._noise(schema)
        columns = list(schema.attributes)
        cells = engine.counts(columns)
        noisy = groups.add(cells.codes, cells.counts, noise)
        return Released(
            tables={"data": generalized_table(schema, {}, columns, noisy)},
            estimator={
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

    def _noise(self, schema: Schema) -> GroupNoise:
        problems = name_problems(schema, self.name)
        if problems:
            raise ParameterError(problems)
        if schema.domain.size > self.max_cells:
            raise TooLarge(
                f"the domain has {schema.domain.size:,} combinations; contingency-table publishes "
                f"every one of them and stops at max_cells = {self.max_cells:,}. Use diffgen, or "
                "publish fewer columns."
            )
        rate = self.epsilon / (schema.unit.max_rows or 1)
        return GroupNoise(domain=schema.domain, rate=rate, max_cells=self.max_cells)
