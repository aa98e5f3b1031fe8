"""Count from exact cells of which the rare ones are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hushtable.estimate.error_law import ErrorLaw
from hushtable.methods.counts.cell_estimator import CellEstimator, row_total
from hushtable.recoding import recoded_domain, recodings
from hushtable.schema import Schema


class SuppressedEstimator(CellEstimator):
    """Answer counts from exact cells; only suppression and cut cells leave anything open."""

    where_total_is_told: ClassVar[str] = "a schema with the public number of rows"

    def __init__(
        self,
        schema: Schema,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        tables: Mapping[str, pa.Table],
    ) -> None:
        self.schema = schema
        self.recode = recodings(schema, parameters.get("generalize", {}))
        self.domain = recoded_domain(schema, list(schema.attributes), self.recode)
        self.table = tables["data"]
        self.suppresses = True
        self.noise = ErrorLaw(np.array([0]), np.array([1.0]))
        self.most_suppressed = int(parameters["k"]) - 1
        self.total = row_total(schema, {"row_total": None})
