"""Method that publishes one noisy histogram per column; the proof is in ``method.md``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods import parameters
from hushtable.methods.base import Forecast, Method, Plan, Released
from hushtable.methods.parameters import parameter
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.codes import to_labels


@dataclass(frozen=True, kw_only=True)
class Histograms(Method):
    """Publish one noisy histogram per column.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss, for all columns together.
    """

    name: ClassVar[str] = "histograms"
    paper: ClassVar[str] = "Folklore."
    summary: ClassVar[str] = "Publish the counts of every column with noise."
    estimator_kind: ClassVar[str] = "histograms"

    epsilon: Fraction = parameter(read=parameters.epsilon)

    def plan(self, schema: Schema) -> HistogramsPlan:
        """Return a plan that divides epsilon equally among the columns."""
        if schema.unit.kind == "node":
            raise ParameterError("unit is node; histograms need a table of rows.")
        sensitivity = (schema.unit.max_rows or 1) * len(schema.attributes)
        return HistogramsPlan(self, schema, scale=sensitivity / self.epsilon)


@dataclass(frozen=True)
class HistogramsPlan(Plan[SealedTable]):
    """Noise of the histograms for a schema; `scale` is the scale of the Laplace noise."""

    method: Histograms
    schema: Schema
    scale: Fraction

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Pure differential privacy for one added or removed unit."""
        unit = self.schema.unit
        return (PureDP(epsilon=self.method.epsilon, unit=unit, neighbors="add-remove"),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Return the scale of the noise."""
        sizes = [column.size for column in self.schema.attributes.values()]
        return Forecast(
            lines={"scale of the noise of a count": float(self.scale)},
            split={"histograms": self.method.epsilon},
            n_cells=sum(sizes),
            memory_mb=16 * sum(sizes) / 1e6,
        )

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count every column, and add noise to every count."""
        tables = {}
        for name, counts in source.histograms(list(self.schema.attributes)).items():
            column = self.schema.attributes[name]
            noisy = noise.open(counts, Laplace(self.scale), f"histogram of {name}")
            values = to_labels(column, np.arange(column.size))
            tables[name] = pa.table({"value": values, "count": pa.array(noisy, pa.int64())})
        return Released(tables=tables, settings={"scale": str(self.scale)})
