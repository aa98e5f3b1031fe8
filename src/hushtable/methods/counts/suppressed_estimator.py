"""Estimator of exact cells without the rare ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hushtable.methods.counts.cell_estimator import CellEstimator, row_total
from hushtable.query.answers.error_law import ErrorLaw
from hushtable.schema.recoding import recoded_domain, recodings


class SuppressedEstimator(CellEstimator):
    """Answer counts from exact cells; errors come only from suppression and split cells."""

    total_is_published: ClassVar[str] = "a schema with the public number of rows"

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.recode = recodings(self.schema, self.parameters.get("generalize", {}))
        self.domain = recoded_domain(self.schema, list(self.schema.attributes), self.recode)
        self.suppresses = True
        self.noise = ErrorLaw(np.array([0]), np.array([1.0]))
        self.suppressed = np.ones(int(self.parameters["k"]))
        self.total = row_total(self.schema, {"row_total": None})
